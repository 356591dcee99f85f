package icebergtest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/codec"
	"github.com/apache/iceberg-go/table"

	"firn/internal/lake"
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
	added     []iceberg.ManifestEntry
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
	if c.manifests, err = lake.Manifests(ctx, t.w.Store, parent); err != nil {
		return nil, err
	}
	return c, nil
}

// live reads the live entries of the parent, once and only when a change asks.
func (c *commit) live() ([]lake.Entry, error) {
	if c.loaded {
		return c.entries, nil
	}
	for _, m := range c.manifests {
		for e, err := range lake.Entries(context.Background(), c.t.w.Store, m, lake.EntryOptions{}) {
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

// native makes a file that Firn read one of iceberg-go's, whose writer takes no others.
func (c *commit) native(f iceberg.DataFile) (iceberg.DataFile, error) {
	if _, ok := f.(iceberg.AvroEntryMarshaler); ok {
		return f, nil
	}
	spec := *c.base.Metadata.PartitionSpecByID(int(f.SpecID()))
	schema, err := c.base.SpecSchema(spec)
	if err != nil {
		return nil, err
	}
	data, err := lake.EncodeFile(f, spec, schema)
	if err != nil {
		return nil, err
	}
	return codec.DecodeDataFile(data, spec, schema, 3)
}

func (c *commit) add(f iceberg.DataFile, sequence *int64) {
	f, err := c.native(f)
	c.t.w.check(err)
	c.added = append(c.added, iceberg.NewManifestEntry(iceberg.EntryStatusADDED, &c.id, sequence, nil, f))
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

// keptManifests lists the parent's manifests again; those that hold removed files are written anew with DELETED entries.
func (c *commit) keptManifests() ([]iceberg.ManifestFile, error) {
	var kept []iceberg.ManifestFile
	for _, m := range c.manifests {
		var entries []lake.Entry
		touched := false
		for _, e := range c.entries {
			if e.Manifest == m.FilePath() {
				entries = append(entries, e)
				touched = touched || c.removed[e.File]
			}
		}
		if m.AddedDataFiles() == 0 && m.ExistingDataFiles() == 0 {
			continue
		}
		if !touched {
			kept = append(kept, m)
			continue
		}
		again, err := c.writeManifest(int(m.PartitionSpecID()), m.ManifestContent(), func(w *iceberg.ManifestWriter) error {
			return c.copyManifest(w, m, entries)
		})
		if err != nil {
			return nil, err
		}
		kept = append(kept, again)
	}
	return kept, nil
}

// copyManifest writes the live entries of a manifest again, as iceberg-go reads them.
func (c *commit) copyManifest(w *iceberg.ManifestWriter, m iceberg.ManifestFile, entries []lake.Entry) error {
	data, err := c.t.w.Store.Get(context.Background(), m.FilePath())
	if err != nil {
		return err
	}
	raw, err := iceberg.ReadManifest(m, bytes.NewReader(data), true)
	if err != nil {
		return err
	}
	if len(raw) != len(entries) {
		return fmt.Errorf("manifest %s has %d live entries, iceberg-go reads %d", m.FilePath(), len(entries), len(raw))
	}
	for i, e := range entries {
		write := w.Existing
		if c.removed[e.File] {
			write = w.Delete
		}
		if err := write(raw[i]); err != nil {
			return err
		}
	}
	return nil
}

// newManifests writes the added files, one manifest a content and spec.
func (c *commit) newManifests() ([]iceberg.ManifestFile, error) {
	type kind struct {
		content iceberg.ManifestContent
		spec    int
	}
	groups, order := map[kind][]iceberg.ManifestEntry{}, []kind{}
	for _, e := range c.added {
		k := kind{content: iceberg.ManifestContentData, spec: int(e.DataFile().SpecID())}
		if e.DataFile().ContentType() != iceberg.EntryContentData {
			k.content = iceberg.ManifestContentDeletes
		}
		if _, ok := groups[k]; !ok {
			order = append(order, k)
		}
		groups[k] = append(groups[k], e)
	}
	var out []iceberg.ManifestFile
	for _, k := range order {
		m, err := c.writeManifest(k.spec, k.content, func(w *iceberg.ManifestWriter) error {
			for _, e := range groups[k] {
				if err := w.Add(e); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func (c *commit) writeManifest(spec int, content iceberg.ManifestContent, fill func(*iceberg.ManifestWriter) error) (iceberg.ManifestFile, error) {
	s := *c.base.Metadata.PartitionSpecByID(spec)
	schema, err := c.base.SpecSchema(s)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := iceberg.NewManifestWriter(c.base.Metadata.Version(), &out, s, schema, c.id, iceberg.WithManifestWriterContent(content))
	if err != nil {
		return nil, err
	}
	if err := fill(w); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	c.written++
	location := store.Join(c.base.Metadata.Location(), "metadata", fmt.Sprintf("%d-m%d.avro", c.id, c.written))
	m, err := w.ToManifestFile(location, int64(out.Len()), iceberg.WithManifestFileContent(content))
	if err != nil {
		return nil, err
	}
	return m, c.t.w.Store.Put(context.Background(), location, out.Bytes(), store.WriteOptions{IfAbsent: true})
}

func (c *commit) writeList(snap *table.Snapshot, manifests []iceberg.ManifestFile) error {
	var out bytes.Buffer
	var w *iceberg.ManifestListWriter
	var err error
	first := c.base.Metadata.NextRowID()
	switch c.base.Metadata.Version() {
	case 1:
		w, err = iceberg.NewManifestListWriterV1(&out, c.id, snap.ParentSnapshotID)
	case 2:
		w, err = iceberg.NewManifestListWriterV2(&out, c.id, c.sequence, snap.ParentSnapshotID)
	default:
		w, err = iceberg.NewManifestListWriterV3(&out, c.id, c.sequence, first, snap.ParentSnapshotID)
	}
	if err != nil {
		return err
	}
	if err := w.AddManifests(manifests); err != nil {
		return err
	}
	if next := w.NextRowID(); next != nil {
		snap.FirstRowID, snap.AddedRows = &first, new(*next-c.base.Metadata.NextRowID())
	}
	if err := w.Close(); err != nil {
		return err
	}
	snap.ManifestList = store.Join(c.base.Metadata.Location(), "metadata", fmt.Sprintf("snap-%d-1-%d.avro", c.id, c.sequence))
	return c.t.w.Store.Put(context.Background(), snap.ManifestList, out.Bytes(), store.WriteOptions{IfAbsent: true})
}

// makeSummary counts as Java does and derives the totals from the parent's.
func (c *commit) makeSummary() *table.Summary {
	counts := map[string]int64{}
	for _, e := range c.added {
		count(counts, "added", e.DataFile())
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
