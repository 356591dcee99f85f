package produce

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/iceberg-go"

	"firn/internal/lake"
	"firn/internal/lake/manifest"
	"firn/internal/store"
)

// specIDs are the specs for which manifests of a content must be written, the highest first as in Java's lists.
func (b *build) specIDs(touched []iceberg.ManifestFile, content iceberg.ManifestContent) []int {
	var ids []int
	for _, m := range touched {
		if m.ManifestContent() == content {
			ids = append(ids, int(m.PartitionSpecID()))
		}
	}
	for _, add := range b.additions(content) {
		ids = append(ids, add.SpecID)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	slices.Reverse(ids)
	return ids
}

// additions are the files to add of a content.
func (b *build) additions(content iceberg.ManifestContent) []Addition {
	if content == iceberg.ManifestContentData {
		return b.a.Add
	}
	return b.a.AddDeletes
}

// manifests writes what a spec and content gets: the added files, then the entries of the touched manifests in their order.
func (b *build) manifests(ctx context.Context, specID int, content iceberg.ManifestContent, touched []iceberg.ManifestFile) ([]iceberg.ManifestFile, error) {
	spec := b.meta.PartitionSpecByID(specID)
	if spec == nil {
		return nil, fmt.Errorf("write manifests of partition spec %d: the table has no such spec", specID)
	}
	schema, err := b.a.Table.SpecSchema(*spec)
	if err != nil {
		return nil, err
	}
	layout, err := manifest.NewLayout(b.meta.Version(), *spec, schema)
	if err != nil {
		return nil, fmt.Errorf("write manifests of partition spec %d: %w", specID, err)
	}
	w := &roller{
		b: b, spec: *spec, schema: schema, layout: layout.Lent(&b.memo), content: content, target: b.target, count: counters{partitions: map[string]bool{}},
	}
	var mine []iceberg.ManifestFile
	for _, m := range touched {
		if m.ManifestContent() == content && int(m.PartitionSpecID()) == specID {
			mine = append(mine, m)
		}
	}
	if b.clusters(specID, content) {
		err := b.cluster(ctx, w, mine)
		b.count.merge(w.count)
		return w.out, err
	}
	key := b.key(w, mine)
	if made, ok := b.again(key, mine); ok {
		return made, nil
	}
	before := len(b.written)
	if err := w.all(ctx, mine); err != nil {
		return nil, err
	}
	b.count.merge(w.count)
	b.keep(key, unit{made: w.out, written: slices.Clone(b.written[before:]), count: w.count})
	return w.out, nil
}

// all writes the added files, then the entries of the touched manifests.
func (r *roller) all(ctx context.Context, touched []iceberg.ManifestFile) error {
	for _, add := range r.b.additions(r.content) {
		if add.SpecID != r.spec.ID() {
			continue
		}
		if err := r.addFile(ctx, add); err != nil {
			return err
		}
	}
	apart := len(r.b.a.Rewrite) == 0 && !r.b.merges(r.spec.ID(), r.content)
	for _, m := range touched {
		if apart {
			if err := r.roll(ctx); err != nil {
				return err
			}
		}
		if err := r.copy(ctx, m); err != nil {
			return err
		}
	}
	return r.roll(ctx)
}

// merges says whether manifests that are written again become fewer. A table may switch that off, or set from how many manifests of a spec and content on.
// Without a number they are always merged: each of them has to be written anyhow.
func (b *build) merges(specID int, content iceberg.ManifestContent) bool {
	props := b.meta.Properties()
	if !props.GetBool(manifestMergeKey, true) {
		return false
	}
	count := int64(1) // that of the added files
	for _, m := range b.a.Manifests {
		if m.ManifestContent() == content && int(m.PartitionSpecID()) == specID {
			count++
		}
	}
	return count >= props.GetInt64(manifestMinMergeKey, 0)
}

// roller writes entries of one spec and content into manifests of about the target size.
type roller struct {
	b       *build
	spec    iceberg.PartitionSpec
	schema  *iceberg.Schema
	layout  *manifest.Layout
	content iceberg.ManifestContent
	// target is the size at which a manifest is closed, in bytes.
	target int64
	// count are the figures of what is written.
	count counters

	w   *manifest.Writer
	out []iceberg.ManifestFile
}

func (r *roller) addFile(ctx context.Context, add Addition) error {
	sequence := add.DataSequence
	if r.b.meta.Version() == 1 {
		sequence = nil
	}
	if data := add.File.ContentType() == iceberg.EntryContentData; data != (r.content == iceberg.ManifestContentData) {
		return fmt.Errorf("add %s, content %s, to a manifest of other content", add.File.FilePath(), add.File.ContentType())
	}
	if add.File.FirstRowID() != nil {
		return fmt.Errorf("added file %s has a first row ID: the manifest list assigns it", add.File.FilePath())
	}
	if err := r.write(ctx, func(w *manifest.Writer) error { return w.Add(add.File, sequence) }); err != nil {
		return fmt.Errorf("add %s: %w", add.File.FilePath(), err)
	}
	return r.count.added.file(add.File, r.count.partitions, r.spec)
}

// copy writes the live entries of a manifest as EXISTING, those to remove as DELETED.
func (r *roller) copy(ctx context.Context, m iceberg.ManifestFile) error {
	remove := r.b.removed[m.FilePath()]
	for e, err := range lake.Entries(ctx, r.b.p.Store, m, lake.EntryOptions{Memo: &r.b.memo}) {
		if err != nil {
			return err
		}
		key := FileOf(e.File)
		put := func(w *manifest.Writer) error { return w.Existing(e) }
		if remove[key] {
			put = func(w *manifest.Writer) error { return w.Delete(e) }
			delete(remove, key)
			if err := r.count.removed.file(e.File, r.count.partitions, r.spec); err != nil {
				return err
			}
		}
		if err := r.write(ctx, put); err != nil {
			return fmt.Errorf("copy entry %s: %w", e, err)
		}
	}
	return nil
}

// write puts one entry into the open manifest, and closes it when it has the target size.
func (r *roller) write(ctx context.Context, put func(*manifest.Writer) error) error {
	if r.w == nil {
		w, err := r.layout.NewWriter(r.content, r.b.a.SnapshotID, r.location())
		if err != nil {
			return fmt.Errorf("start manifest: %w", err)
		}
		r.w = w
	}
	if err := put(r.w); err != nil {
		return err
	}
	if int64(r.w.Len()) >= r.target {
		return r.roll(ctx)
	}
	return nil
}

// location is where the open manifest will lie.
func (r *roller) location() string {
	return store.Join(r.b.base, fmt.Sprintf("%s-m%d.avro", r.b.attempt, r.b.number))
}

// roll closes the open manifest, if there is one, and stores it.
func (r *roller) roll(ctx context.Context) error {
	if r.w == nil {
		return nil
	}
	data, made, err := r.w.Close(r.location())
	if err != nil {
		return fmt.Errorf("close manifest: %w", err)
	}
	if err := r.b.put(ctx, r.location(), data); err != nil {
		return err
	}
	r.b.number++
	r.out = append(r.out, made)
	r.w = nil
	return nil
}

// put stores a metadata file under a new name. The name counts as written before the call: a lost answer leaves an object too.
func (b *build) put(ctx context.Context, location string, data []byte) error {
	b.written = append(b.written, location)
	err := b.p.Store.Put(ctx, location, data, store.WriteOptions{IfAbsent: true, ContentType: "avro/binary"})
	if err != nil {
		return fmt.Errorf("write %s: %w", location, err)
	}
	return nil
}
