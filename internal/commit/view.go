package commit

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"firn/internal/commit/rebase"
	"firn/internal/lake"
	"firn/internal/lake/produce"
)

// view is what one attempt knows of the head.
type view struct {
	b         *batch
	head      *lake.Table
	parent    *table.Snapshot
	manifests []iceberg.ManifestFile
	deletes   *lake.DeleteIndex
	survey    *produce.Survey
	targets   *targets
	// applying are, by replaced path, the live delete files that apply to it; faults the tables' faults that were found on the way.
	applying map[string][]lake.Entry
	faults   map[string]error
	// descends says that T0 is an ancestor of the branch's head; live are the live delete files.
	descends bool
	live     map[produce.File]bool
	// carried are the groups whose sources have other deletes than at T0, translated what their outputs get, both by the group's index.
	carried    map[int]rebase.Group
	translated map[int]rebase.Translation
}

// look reads the head as far as the groups need it. The verdict is set when no group can land on it.
func (r *rewriter) look(ctx context.Context, head *lake.Table) (*view, *verdict, error) {
	b, known := r.b, r.known
	v := &view{
		b: b, head: head, targets: known, applying: map[string][]lake.Entry{}, faults: map[string]error{}, live: map[produce.File]bool{},
		carried: map[int]rebase.Group{}, translated: map[int]rebase.Translation{},
	}
	var err error
	if v.parent, err = head.Head(b.pinned.Branch); err != nil {
		return nil, conflict("%v", err), nil
	}
	if v.parent == nil {
		return nil, conflict("branch %s has no snapshot any more", b.pinned.Branch), nil
	}
	if verdict := v.sameWorld(); verdict != nil {
		return nil, verdict, nil
	}
	if v.manifests, err = lake.Manifests(ctx, r.port.Store, v.parent); err != nil {
		return nil, nil, err
	}
	if v.deletes, err = lake.BuildDeleteIndex(ctx, r.port.Store, head, v.manifests); err != nil {
		return nil, nil, err
	}
	v.ancestry()
	for _, d := range v.deletes.All() {
		v.live[produce.FileOf(d.File)] = true
	}
	question := produce.Question{Paths: map[string]bool{}, Targets: map[string]bool{}}
	var scoped []lake.Entry
	for _, g := range b.groups {
		for _, o := range g.outputs {
			question.Paths[o.File.FilePath()] = true
		}
		for _, in := range g.inputs {
			path := in.File.FilePath()
			question.Paths[path] = true
			if v.applying[path], err = v.deletes.For(in); err != nil {
				v.faults[path] = err
			}
			scoped = append(scoped, v.applying[path]...)
		}
	}
	if err := known.read(ctx, r.port.Store, scoped); err != nil {
		return nil, nil, err
	}
	for _, d := range v.deletes.All() {
		if path, ok := lake.FileScoped(d.File); ok {
			question.Targets[lake.SameFile(path)] = true
			continue
		}
		paths, _ := known.of(produce.FileOf(d.File))
		for _, path := range paths {
			question.Targets[path] = true
		}
	}
	v.survey, err = r.surveyor.Look(ctx, head, v.manifests, question)
	return v, nil, err
}

// sameWorld checks what must be as at T0 for outputs to mean the same: the format version, and that the current schema shows no column of T0's
// time that T0's schema did not have (a dropped column that came back would be empty in outputs).
func (v *view) sameWorld() *verdict {
	if have := v.head.Metadata.Version(); have != v.b.pinned.FormatVersion {
		return conflict("the table's format version became %d, it was %d", have, v.b.pinned.FormatVersion)
	}
	had, newest := map[int]bool{}, 0
	for _, schema := range v.b.words.schemas {
		for _, id := range schema.FieldIDs() {
			newest = max(newest, id)
			if schema == v.b.words.current {
				had[id] = true
			}
		}
	}
	for _, id := range v.head.Metadata.CurrentSchema().FieldIDs() {
		if id <= newest && !had[id] {
			return conflict("column %d came back into the table's schema", id)
		}
	}
	return nil
}

// ancestry walks the head's parents as far as they are retained.
func (v *view) ancestry() {
	for at := v.parent; at != nil; {
		if at.SnapshotID == v.b.pinned.SnapshotID {
			v.descends = true
			return
		}
		if at.ParentSnapshotID == nil {
			break
		}
		at = v.head.Metadata.SnapshotByID(*at.ParentSnapshotID)
	}
}

// check asks whether a group can land on the head, and notes what must be carried over to its outputs.
func (v *view) check(g *group) (*verdict, error) {
	for _, d := range g.deletes {
		if !v.descends && !v.live[produce.FileOf(d.File)] {
			return conflict("the pinned snapshot is no known ancestor of the head, and delete file %s, which was applied, is not live",
				d.File.FilePath()), nil
		}
	}
	if v.head.Metadata.PartitionSpecByID(g.OutputSpecID) == nil {
		return conflict("partition spec %d was removed", g.OutputSpecID), nil
	}
	carried := rebase.Group{RowMap: g.rowMap, Permutation: g.permutation, Outputs: g.outputs}
	for i, in := range g.inputs {
		if verdict, err := v.checkInput(g, in); verdict != nil || err != nil {
			return verdict, err
		}
		source := v.compare(g, i)
		for _, d := range v.applying[in.File.FilePath()] {
			if d.File.ContentType() != iceberg.EntryContentEqDeletes || slices.ContainsFunc(g.Inputs[i].Deletes, func(at int) bool {
				return produce.FileOf(g.deletes[at].File) == produce.FileOf(d.File)
			}) {
				continue
			}
			if verdict, err := v.checkNewEquality(g, in, d); verdict != nil || err != nil {
				return verdict, err
			}
		}
		carried.Sources = append(carried.Sources, source)
	}
	if !carried.Settled() {
		v.carried[g.Index] = carried
	}
	return v.checkOutputs(g)
}

// compare parts the deletes of an input into those that arrived, stand and left since T0.
func (v *view) compare(g *group, input int) rebase.Source {
	in := g.inputs[input]
	path := in.File.FilePath()
	s := rebase.Source{File: in}
	known, applies := map[produce.File]bool{}, map[produce.File]bool{}
	for _, d := range v.applying[path] {
		applies[produce.FileOf(d.File)] = true
	}
	for _, at := range g.Inputs[input].Deletes {
		d := g.deletes[at]
		key := produce.FileOf(d.File)
		known[key] = true
		switch equality := d.File.ContentType() == iceberg.EntryContentEqDeletes; {
		case equality && v.live[key]:
			s.EqualityStanding = true
		case equality:
			s.EqualityGone = true
		case !applies[key]:
			s.Gone = append(s.Gone, d)
		}
	}
	for _, d := range v.applying[path] {
		if d.File.ContentType() != iceberg.EntryContentPosDeletes {
			continue
		}
		key := produce.FileOf(d.File)
		if known[key] {
			s.Standing = append(s.Standing, d)
			continue
		}
		if paths, read := v.targets.of(key); read && !slices.Contains(paths, lake.SameFile(path)) {
			continue // scoped to the partition, and names other files
		}
		s.Arrived = append(s.Arrived, d)
	}
	return s
}

// translate carries the deletes that arrived over to the outputs of those groups that passed their check.
func (v *view) translate(ctx context.Context, t *rebase.Translator, groups []*group) (map[int]*verdict, error) {
	var moved []rebase.Group
	var at []int
	for _, g := range groups {
		if c, ok := v.carried[g.Index]; ok {
			moved, at = append(moved, c), append(at, g.Index)
		}
	}
	if len(moved) == 0 {
		return nil, nil
	}
	found, err := t.Translate(ctx, moved)
	if err != nil {
		return nil, err
	}
	verdicts := map[int]*verdict{}
	for i, f := range found {
		if f.Conflict != "" {
			verdicts[at[i]] = conflict("%s", f.Conflict)
			continue
		}
		v.translated[at[i]] = f
	}
	return verdicts, nil
}

// checkInput asks whether a replaced file is live exactly once, and still the same.
func (v *view) checkInput(g *group, in lake.Entry) (*verdict, error) {
	path := in.File.FilePath()
	if err := v.faults[path]; err != nil {
		return refused("%v", err), nil
	}
	found := v.survey.Found[path]
	switch {
	case len(found) == 0:
		return conflict("%s is no longer live", path), nil
	case len(found) > 1:
		return refused("table fault: %s is live %d times", path, len(found)), nil
	}
	now := found[0]
	partition, err := lake.PartitionKey(*v.head.Metadata.PartitionSpecByID(now.SpecID), now.File.Partition())
	if err != nil {
		return nil, err
	}
	before, err := v.b.words.key(in)
	if err != nil {
		return nil, err
	}
	if now.DataSequence != in.DataSequence || now.SpecID != in.SpecID || partition != before || now.File.FileSizeBytes() != in.File.FileSizeBytes() ||
		now.File.Count() != in.File.Count() || !sameID(now.FirstRowID, in.FirstRowID) {
		return conflict("%s was replaced by another file of its name", path), nil
	}
	if now.SpecID != g.SpecID || partition != g.Partition {
		return refused("%s is not of its group's partition %q", path, g.Partition), nil
	}
	return nil, nil
}

func sameID(a, b *int64) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// checkNewEquality asks whether an equality delete that applies to a replaced file now, and was not applied, will apply to the outputs as it
// applies to the source: outputs carry an explicit lower sequence number, it is global or they are in its partition, and they have its columns.
func (v *view) checkNewEquality(g *group, in, d lake.Entry) (*verdict, error) {
	path := in.File.FilePath()
	if g.sequence == nil || *g.sequence >= d.DataSequence {
		return conflict("equality delete file %s arrived for %s and would not apply to the outputs", d.File.FilePath(), path), nil
	}
	for _, id := range d.File.EqualityFieldIDs() {
		if _, ok := v.b.words.current.FindFieldByID(id); !ok {
			return conflict("equality delete file %s compares column %d, which the outputs lack", d.File.FilePath(), id), nil
		}
	}
	global, err := v.global(d)
	if err != nil || global {
		return nil, err
	}
	return v.sameScope(g, d)
}

// checkOutputs asks whether delete files of other writers would remove rows of the outputs that they did not remove from the sources: those
// scoped to the partition of an output that is not the sources' own.
func (v *view) checkOutputs(g *group) (*verdict, error) {
	for _, o := range g.outputs {
		path := o.File.FilePath()
		if len(v.survey.Found[path]) > 0 {
			return refused("output %s is live already", path), nil
		}
		if g.sequence == nil {
			continue // nothing is newer than the new snapshot
		}
		applying, err := v.deletes.For(lake.Entry{File: o.File, SpecID: o.SpecID, DataSequence: *g.sequence})
		if err != nil {
			return refused("%v", err), nil
		}
		for _, d := range applying {
			if d.File.ContentType() != iceberg.EntryContentEqDeletes {
				continue
			}
			global, err := v.global(d)
			if err != nil {
				return nil, err
			}
			if global {
				continue
			}
			if verdict, err := v.sameScope(g, d); verdict != nil || err != nil {
				return verdict, err
			}
		}
	}
	return nil, nil
}

func (v *view) global(d lake.Entry) (bool, error) {
	spec := v.head.Metadata.PartitionSpecByID(d.SpecID)
	if spec == nil {
		return false, fmt.Errorf("%s has unknown partition spec %d: %w", d, d.SpecID, lake.ErrTableFault)
	}
	return spec.IsUnpartitioned(), nil
}

// sameScope asks whether every output is in the sources' own spec and partition, so that what is scoped to one is scoped to the other.
func (v *view) sameScope(g *group, d lake.Entry) (*verdict, error) {
	for _, o := range g.outputs {
		key, err := v.b.words.key(lake.Entry{File: o.File, SpecID: o.SpecID})
		if err != nil {
			return nil, err
		}
		if o.SpecID != g.SpecID || key != g.Partition {
			return conflict("equality delete file %s arrived, and output %s is not in the partition of its sources", d.File.FilePath(),
				o.File.FilePath()), nil
		}
	}
	return nil, nil
}
