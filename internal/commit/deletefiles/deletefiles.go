// Package deletefiles says which rewritten groups of position deletes can land on a head, and what of them. It looks at state only: each replaced
// file must be live as it was at T0, and the data files that the new files name must be the same ones. What other writers did meanwhile is settled
// a data file at a time:
//   - a data file that is gone takes the new files that name nothing else with it: they are left out;
//   - a deletion vector that arrived for a data file stays when it holds all positions of ours, which is left out then; else the group is a conflict;
//   - on format version 3, a position delete file that arrived for a data file is a conflict: our vector would hide it. On version 2 it just stays.
//
// The rest of a head's dead delete files is not looked for here; see produce.Result.
package deletefiles

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"firn/internal/deletes"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/lake/produce"
	"firn/internal/store"
)

// Group is a rewritten group of position deletes of one spec and partition.
type Group struct {
	SpecID    int
	Partition string
	// Inputs are the entries of T0 that are replaced, Beside those that stay and were read along. Of equality deletes Inputs are the data files whose rows
	// were looked for, Beside the deletes that apply to them, and Applied says which to which.
	Inputs, Beside []lake.Entry
	Equality       bool
	Applied        [][]int
	// Outputs are the new files; References are the data files that each of them names.
	Outputs    []produce.Addition
	References [][]handoff.Target
}

// Landing is what a group does to a head.
type Landing struct {
	Remove []lake.Entry
	Add    []produce.Addition
	// processed are the data files, with their data sequence numbers, whose rows were looked for in equality deletes.
	processed map[string]int64
}

// Verdict is why a group cannot land; the zero value says that it can. A conflict may end well when the group is planned again, a fault does not.
type Verdict struct{ Conflict, Fault string }

func conflictf(format string, args ...any) Verdict {
	return Verdict{Conflict: fmt.Sprintf(format, args...)}
}

func faultf(format string, args ...any) Verdict { return Verdict{Fault: fmt.Sprintf(format, args...)} }

// Head is what one attempt knows of the table.
type Head struct {
	Table  *lake.Table
	Store  store.Reader
	Survey *produce.Survey
	// deletes indexes the live delete files; live are the position deletes by name, partitions those that are not file-scoped.
	deletes    *lake.DeleteIndex
	live       map[produce.File][]lake.Entry
	partitions map[scope][]lake.Entry
}

type scope struct {
	spec int
	key  string
}

// Look reads a head as far as the groups need it.
func Look(ctx context.Context, st store.Reader, t *lake.Table, manifests []iceberg.ManifestFile, groups []Group) (*Head, error) {
	h := &Head{Table: t, Store: st, live: map[produce.File][]lake.Entry{}, partitions: map[scope][]lake.Entry{}}
	var err error
	if h.deletes, err = lake.BuildDeleteIndex(ctx, st, t, manifests); err != nil {
		return nil, err
	}
	q := produce.Question{Paths: map[string]bool{}, Targets: map[string]bool{}}
	for _, d := range h.deletes.All() {
		if d.File.ContentType() != iceberg.EntryContentPosDeletes {
			continue
		}
		h.live[produce.FileOf(d.File)] = append(h.live[produce.FileOf(d.File)], d)
		if path, scoped := lake.FileScoped(d.File); scoped {
			q.Targets[lake.SameFile(path)] = true
			continue
		}
		at, err := h.scopeOf(d)
		if err != nil {
			return nil, err
		}
		h.partitions[at] = append(h.partitions[at], d)
	}
	for _, g := range groups {
		for _, refs := range g.References {
			for _, ref := range refs {
				q.Paths[ref.Path] = true
			}
		}
		for _, in := range g.Inputs {
			if g.Equality {
				q.Paths[in.File.FilePath()] = true
			}
		}
	}
	h.Survey, err = produce.Look(ctx, st, t, manifests, q)
	return h, err
}

// Deletes are all live delete files.
func (h *Head) Deletes() []lake.Entry { return h.deletes.All() }

func (h *Head) scopeOf(e lake.Entry) (scope, error) {
	spec := h.Table.Metadata.PartitionSpecByID(e.SpecID)
	if spec == nil {
		return scope{}, fmt.Errorf("%s has unknown partition spec %d: %w", e, e.SpecID, lake.ErrTableFault)
	}
	key, err := lake.PartitionKey(*spec, e.File.Partition())
	if err != nil {
		return scope{}, fmt.Errorf("%s: %w", e, err)
	}
	return scope{e.SpecID, key}, nil
}

// Descends reports whether a snapshot is the head of a branch or among its retained ancestors. A group that was planned on another line of history
// may have dropped positions of data files that are live there.
func Descends(t *lake.Table, head *table.Snapshot, snapshotID int64) bool {
	for at := head; at != nil; {
		if at.SnapshotID == snapshotID {
			return true
		}
		if at.ParentSnapshotID == nil {
			return false
		}
		at = t.Metadata.SnapshotByID(*at.ParentSnapshotID)
	}
	return false
}

// Check says what a group does to the head, or why it cannot land. Errors are those of reading.
func (h *Head) Check(ctx context.Context, g Group) (Landing, Verdict, error) {
	c := &check{Head: h, g: g, mine: map[produce.File]bool{}, gone: map[string]bool{}}
	if g.Equality {
		return c.equality()
	}
	if v, err := c.inputs(); v != (Verdict{}) || err != nil {
		return Landing{}, v, err
	}
	for i := range g.Outputs {
		if v, err := c.output(ctx, i); v != (Verdict{}) || err != nil {
			return Landing{}, v, err
		}
	}
	return c.landing, Verdict{}, nil
}

// check is the check of one group.
type check struct {
	*Head
	g       Group
	landing Landing
	// mine are the files that were read, gone the data files whose vector was to be replaced and is not live any more.
	mine map[produce.File]bool
	gone map[string]bool
}

// inputs asks whether each replaced file is live exactly once, and still the same.
func (c *check) inputs() (Verdict, error) {
	for _, in := range c.g.Inputs {
		name := produce.FileOf(in.File)
		c.mine[name] = true
		found := c.live[name]
		switch {
		case len(found) > 1:
			return faultf("table fault: %s is live %d times", in.File.FilePath(), len(found)), nil
		case len(found) == 0 && lake.IsDeletionVector(in.File):
			if path, scoped := lake.FileScoped(in.File); scoped {
				c.gone[lake.SameFile(path)] = true
			}
			continue
		case len(found) == 0:
			return conflictf("%s is no longer live", in.File.FilePath()), nil
		}
		now := found[0]
		at, err := c.scopeOf(now)
		if err != nil {
			return Verdict{}, err
		}
		if now.DataSequence != in.DataSequence || at != (scope{c.g.SpecID, c.g.Partition}) || now.File.FileSizeBytes() != in.File.FileSizeBytes() ||
			now.File.Count() != in.File.Count() {
			return conflictf("%s was replaced by another file of its name", in.File.FilePath()), nil
		}
		c.landing.Remove = append(c.landing.Remove, now)
	}
	for _, d := range c.g.Beside {
		c.mine[produce.FileOf(d.File)] = true
		if len(c.live[produce.FileOf(d.File)]) == 0 {
			return conflictf("%s, which was read along, is no longer live", d.File.FilePath()), nil
		}
	}
	return Verdict{}, nil
}

// output asks whether a new file can be added.
func (c *check) output(ctx context.Context, i int) (Verdict, error) {
	out := c.g.Outputs[i]
	if len(c.live[produce.FileOf(out.File)]) > 0 {
		return faultf("output %s is live already", out.File.FilePath()), nil
	}
	needed := false
	for _, ref := range c.g.References[i] {
		found := c.Survey.Found[ref.Path]
		if len(found) == 0 {
			continue // its positions are dropped, or dangle beside those of others
		}
		if len(found) > 1 {
			return faultf("table fault: %s is live %d times", ref.Path, len(found)), nil
		}
		at, err := c.scopeOf(found[0])
		if err != nil {
			return Verdict{}, err
		}
		if found[0].DataSequence != ref.DataSequence || at != (scope{c.g.SpecID, c.g.Partition}) {
			return conflictf("%s was replaced by another file of its name", ref.Path), nil
		}
		needed = true
	}
	if needed && lake.IsDeletionVector(out.File) {
		var v Verdict
		var err error
		if needed, v, err = c.vector(ctx, out.File, c.g.References[i][0]); v != (Verdict{}) || err != nil {
			return v, err
		}
	}
	if needed {
		c.landing.Add = append(c.landing.Add, out)
	}
	return Verdict{}, nil
}

// vector asks whether a new vector says all that is deleted of its data file, and is the only one.
func (c *check) vector(ctx context.Context, out iceberg.DataFile, ref handoff.Target) (needed bool, v Verdict, err error) {
	path := lake.SameFile(ref.Path)
	for _, d := range c.deletes.Scoped(ref.Path) {
		if c.mine[produce.FileOf(d.File)] || d.DataSequence < ref.DataSequence {
			continue
		}
		if !lake.IsDeletionVector(d.File) {
			return false, conflictf("delete file %s arrived for %s", d.File.FilePath(), ref.Path), nil
		}
		holds, err := c.holds(ctx, d, out)
		if err != nil || !holds {
			return false, conflictf("a deletion vector in %s arrived for %s and does not hold what was deleted before", d.File.FilePath(), ref.Path), err
		}
		return false, Verdict{}, nil
	}
	if c.gone[path] {
		return false, conflictf("the deletion vector of %s was removed", ref.Path), nil
	}
	for _, d := range c.partitions[scope{c.g.SpecID, c.g.Partition}] {
		if !c.mine[produce.FileOf(d.File)] && d.DataSequence >= ref.DataSequence {
			return false, conflictf("delete file %s arrived in the partition of %s", d.File.FilePath(), ref.Path), nil
		}
	}
	return true, Verdict{}, nil
}

// holds reports whether a vector that arrived has all positions of ours.
func (c *check) holds(ctx context.Context, arrived lake.Entry, ours iceberg.DataFile) (bool, error) {
	theirs, err := deletes.ReadVector(ctx, c.Store, deletes.File{DataFile: arrived.File, Sequence: arrived.DataSequence})
	if errors.Is(err, deletes.ErrUnusable) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	mask, err := deletes.ReadVector(ctx, c.Store, deletes.File{DataFile: ours})
	if err != nil {
		return false, err
	}
	mask.AndNot(theirs)
	return mask.IsEmpty(), nil
}
