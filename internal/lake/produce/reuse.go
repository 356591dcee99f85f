package produce

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"maps"
	"slices"

	"github.com/apache/iceberg-go"
)

// Reuse keeps the manifests of attempts that were lost, for the next attempt of the same commit: one that replaces the same manifests by the same
// entries lists them again instead of writing them anew (Java's MergingSnapshotProducer does so). Attempts that share it carry the same snapshot ID,
// which is written into the entries; so the earlier ones must provably not have been committed. It is not safe for concurrent use.
type Reuse struct{ units map[[sha256.Size]byte]unit }

// unit is what was made for one spec and content.
type unit struct {
	made    []iceberg.ManifestFile
	written []string
	count   counters
}

// key names a unit by everything that goes into its manifests.
func (b *build) key(w *roller, touched []iceberg.ManifestFile) [sha256.Size]byte {
	h := sha256.New()
	fmt.Fprintln(h, b.meta.TableUUID(), b.meta.Version(), b.a.SnapshotID, w.spec.ID(), w.content, w.schema.ID, w.target, b.base)
	for _, m := range touched {
		fmt.Fprintln(h, m.FilePath(), m.SequenceNum(), number(m.FirstRowID()))
		writeFiles(h, b.removed[m.FilePath()])
	}
	for _, add := range b.additions(w.content) {
		if add.SpecID == w.spec.ID() {
			fmt.Fprintln(h, FileOf(add.File), number(add.DataSequence))
		}
	}
	var out [sha256.Size]byte
	h.Sum(out[:0])
	return out
}

func writeFiles(h hash.Hash, files map[File]bool) {
	names := make([]string, 0, len(files))
	for f := range files {
		names = append(names, fmt.Sprintf("%d %s", f.Offset, f.Path))
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintln(h, " ", name)
	}
}

func number(n *int64) string {
	if n == nil {
		return "none"
	}
	return fmt.Sprint(*n)
}

// again lists what an earlier attempt made, if it made the same.
func (b *build) again(key [sha256.Size]byte, touched []iceberg.ManifestFile) ([]iceberg.ManifestFile, bool) {
	if b.p.Reuse == nil {
		return nil, false
	}
	u, ok := b.p.Reuse.units[key]
	if !ok {
		return nil, false
	}
	for _, m := range touched {
		delete(b.removed, m.FilePath())
	}
	b.written = append(b.written, u.written...)
	b.count.merge(u.count)
	return u.made, true
}

// keep remembers a unit for the next attempt.
func (b *build) keep(key [sha256.Size]byte, u unit) {
	if b.p.Reuse == nil {
		return
	}
	if b.p.Reuse.units == nil {
		b.p.Reuse.units = map[[sha256.Size]byte]unit{}
	}
	b.p.Reuse.units[key] = u
}

// merge adds the figures of a unit.
func (c *counters) merge(o counters) {
	c.added.merge(o.added)
	c.removed.merge(o.removed)
	maps.Copy(c.partitions, o.partitions)
}

func (c *fileCounts) merge(o fileCounts) {
	c.bytes += o.bytes
	c.dataFiles += o.dataFiles
	c.records += o.records
	c.deleteFiles += o.deleteFiles
	c.positionFiles += o.positionFiles
	c.vectors += o.vectors
	c.positions += o.positions
	c.equalityFiles += o.equalityFiles
	c.equalities += o.equalities
}
