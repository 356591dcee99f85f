package icebergtest

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"firn/internal/lake"
	"firn/internal/lake/peek"
	"firn/internal/store"
)

// Commit is what one commit did.
type Commit struct {
	// Snapshot is the new snapshot.
	Snapshot *table.Snapshot
	// DataFiles and DeleteFiles are the locations of the files that were added, in the order of the changes. A Puffin file stands once a vector.
	DataFiles   []string
	DeleteFiles []string
}

// Commit makes one snapshot of main from the changes, in order.
func (t *Table) Commit(changes ...Change) Commit {
	t.w.tb.Helper()
	return t.CommitTo(table.MainBranch, changes...)
}

// CommitTo makes one snapshot of a branch; the branch must exist unless it is main.
func (t *Table) CommitTo(branch string, changes ...Change) Commit {
	t.w.tb.Helper()
	c, err := t.begin(branch)
	t.w.check(err)
	for _, change := range changes {
		t.w.check(change(c))
	}
	t.w.check(c.finish(branch))
	return c.result
}

// commit is a commit in the making.
type commit struct {
	t         *Table
	base      *lake.Table
	parent    *table.Snapshot
	id        int64
	sequence  int64
	manifests []iceberg.ManifestFile
	loaded    bool
	entries   []lake.Entry
	added     []addition
	removed   map[iceberg.DataFile]bool
	operation table.Operation
	summary   iceberg.Properties
	files     int
	written   int
	result    Commit
}

func (t *Table) begin(branch string) (*commit, error) {
	ctx, base := context.Background(), t.State()
	parent, err := base.Head(branch)
	if err != nil {
		return nil, err
	}
	c := &commit{
		t: t, base: base, parent: parent, removed: map[iceberg.DataFile]bool{}, summary: iceberg.Properties{},
		id: snapshotID(base.Metadata.TableUUID(), len(base.Metadata.Snapshots()), base.Metadata.LastSequenceNumber(), t.w.Clock.Now()),
	}
	if base.Metadata.Version() > 1 {
		c.sequence = base.Metadata.LastSequenceNumber() + 1
	}
	if parent == nil {
		return c, nil
	}
	c.manifests, err = peek.ManifestListWith(ctx, t.w.Store, parent.ManifestList, t.w.Memo)
	return c, err
}

// live reads the live entries of the parent, once and only when a change asks.
func (c *commit) live() ([]lake.Entry, error) {
	if c.loaded {
		return c.entries, nil
	}
	for _, m := range c.manifests {
		for e, err := range lake.Entries(context.Background(), c.t.w.Store, m, lake.EntryOptions{Memo: c.t.w.Memo}) {
			if err != nil {
				return nil, err
			}
			c.entries = append(c.entries, e)
		}
	}
	c.loaded = true
	return c.entries, nil
}

// home is the spec and partition of a live data file, or of a file without partition when it is not live.
func (c *commit) home(path string) (iceberg.PartitionSpec, map[int]any, error) {
	live, err := c.live()
	if err != nil {
		return iceberg.PartitionSpec{}, nil, err
	}
	for _, e := range live {
		if e.File.ContentType() == iceberg.EntryContentData && lake.SameFile(e.File.FilePath()) == lake.SameFile(path) {
			return *c.base.Metadata.PartitionSpecByID(e.SpecID), e.File.Partition(), nil
		}
	}
	spec := c.base.Metadata.PartitionSpec()
	if !spec.IsUnpartitioned() {
		return spec, nil, fmt.Errorf("data file %s is not live and the table is partitioned", path)
	}
	return spec, nil, nil
}

func (c *commit) newPath(ext string) string {
	c.files++
	name := fmt.Sprintf("%05d-%05d.%s", c.base.Metadata.LastSequenceNumber()+1, c.files, ext)
	if c.base.Metadata.Version() == 1 || c.parent != nil {
		name = fmt.Sprintf("%x-%s", uint64(c.id)>>40, name)
	}
	return store.Join(c.base.Metadata.Location(), "data", name)
}

// addition is a file to add; without a sequence number it inherits the snapshot's.
type addition struct {
	file     iceberg.DataFile
	sequence *int64
}

func (c *commit) add(f iceberg.DataFile, sequence *int64) {
	c.added = append(c.added, addition{f, sequence})
	if f.ContentType() == iceberg.EntryContentData {
		c.result.DataFiles = append(c.result.DataFiles, f.FilePath())
	} else {
		c.result.DeleteFiles = append(c.result.DeleteFiles, f.FilePath())
	}
}

func (c *commit) remove(e lake.Entry) { c.removed[e.File] = true }

func (c *commit) finish(branch string) error {
	kept, err := c.keptManifests()
	if err != nil {
		return err
	}
	fresh, err := c.newManifests()
	if err != nil {
		return err
	}
	snap := table.Snapshot{
		SnapshotID: c.id, SequenceNumber: c.sequence, TimestampMs: c.t.w.Clock.Now().UnixMilli(),
		SchemaID: new(c.base.Metadata.CurrentSchema().ID), Summary: c.makeSummary(),
	}
	if c.parent != nil {
		snap.ParentSnapshotID = &c.parent.SnapshotID
	}
	if err := c.writeList(&snap, append(fresh, kept...)); err != nil {
		return err
	}
	state := c.t.Update(func(b *table.MetadataBuilder) error {
		if err := b.AddSnapshot(&snap); err != nil {
			return err
		}
		return b.NewRetainingSnapshotRefUpdate(branch, c.id, table.BranchRef).Apply(b)
	})
	c.result.Snapshot = state.Metadata.SnapshotByID(c.id)
	return nil
}

// makeSummary counts as Java does and derives the totals from the parent's.
func (c *commit) makeSummary() *table.Summary {
	counts := map[string]int64{}
	for _, e := range c.added {
		count(counts, "added", e.file)
	}
	for _, e := range c.entries {
		if c.removed[e.File] {
			count(counts, "removed", e.File)
		}
	}
	props := iceberg.Properties{}
	for k, v := range counts {
		props[k] = strconv.FormatInt(v, 10)
	}
	for _, total := range [][3]string{
		{"total-data-files", "added-data-files", "deleted-data-files"},
		{"total-delete-files", "added-delete-files", "removed-delete-files"},
		{"total-records", "added-records", "deleted-records"},
		{"total-files-size", "added-files-size", "removed-files-size"},
		{"total-position-deletes", "added-position-deletes", "removed-position-deletes"},
		{"total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"},
	} {
		before := int64(0)
		if c.parent != nil && c.parent.Summary != nil {
			before = c.parent.Summary.Properties.GetInt64(total[0], 0)
		}
		props[total[0]] = strconv.FormatInt(before+counts[total[1]]-counts[total[2]], 10)
	}
	maps.Copy(props, c.summary)
	return &table.Summary{Operation: c.op(counts), Properties: props}
}

func (c *commit) op(counts map[string]int64) table.Operation {
	switch {
	case c.operation != "":
		return c.operation
	case len(c.removed) == 0 && counts["added-delete-files"] == 0:
		return table.OpAppend
	case counts["added-data-files"] == 0:
		return table.OpDelete
	}
	return table.OpOverwrite
}

func count(counts map[string]int64, verb string, f iceberg.DataFile) {
	counts[verb+"-files-size"] += f.FileSizeBytes()
	gone := verb
	if verb == "removed" {
		gone = "deleted"
	}
	switch {
	case f.ContentType() == iceberg.EntryContentData:
		counts[gone+"-data-files"]++
		counts[gone+"-records"] += f.Count()
		return
	case f.ContentType() == iceberg.EntryContentEqDeletes:
		counts[verb+"-equality-deletes"] += f.Count()
		counts[verb+"-equality-delete-files"]++
	case lake.IsDeletionVector(f):
		counts[verb+"-position-deletes"] += f.Count()
		counts[verb+"-dvs"]++
	default:
		counts[verb+"-position-deletes"] += f.Count()
		counts[verb+"-position-delete-files"]++
	}
	counts[verb+"-delete-files"]++
}

// At moves the world's clock.
func (w *World) At(at time.Time) { w.Clock.Set(at) }
