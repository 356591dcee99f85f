package produce

import (
	"fmt"
	"maps"
	"strconv"

	"github.com/apache/iceberg-go"

	"firn/internal/lake"
)

// counters are the figures of a snapshot's summary.
type counters struct {
	added, removed fileCounts
	// partitions are the partitions that a file was added to or removed from.
	partitions              map[string]bool
	created, kept, replaced int
}

// fileCounts counts files of one direction as Java's SnapshotSummary does: the size of a deletion vector is its blob's.
type fileCounts struct {
	bytes, dataFiles, records                      int64
	deleteFiles, positionFiles, vectors, positions int64
	equalityFiles, equalities                      int64
}

func (c *fileCounts) file(f iceberg.DataFile, partitions map[string]bool, spec iceberg.PartitionSpec) error {
	key, err := lake.PartitionKey(spec, f.Partition())
	if err != nil {
		return err
	}
	partitions[strconv.Itoa(spec.ID())+"/"+key] = true
	size := f.FileSizeBytes()
	switch f.ContentType() {
	case iceberg.EntryContentData:
		c.dataFiles++
		c.records += f.Count()
	case iceberg.EntryContentEqDeletes:
		c.deleteFiles++
		c.equalityFiles++
		c.equalities += f.Count()
	case iceberg.EntryContentPosDeletes:
		c.deleteFiles++
		c.positions += f.Count()
		if lake.IsDeletionVector(f) {
			c.vectors++
			if blob := f.ContentSizeInBytes(); blob != nil {
				size = *blob
			}
		} else {
			c.positionFiles++
		}
	default:
		return fmt.Errorf("file %s has unknown content %d", f.FilePath(), f.ContentType())
	}
	c.bytes += size
	return nil
}

// summary writes what Java writes: added and removed counters that are not zero, totals from the parent's where it has them. An unknown total
// stays absent; it never becomes 0.
func (b *build) summary() iceberg.Properties {
	a, r := b.count.added, b.count.removed
	out := iceberg.Properties{}
	for _, c := range []struct {
		added, removed string
		a, r           int64
	}{
		{"added-files-size", "removed-files-size", a.bytes, r.bytes},
		{"added-data-files", "deleted-data-files", a.dataFiles, r.dataFiles},
		{"added-records", "deleted-records", a.records, r.records},
		{"added-delete-files", "removed-delete-files", a.deleteFiles, r.deleteFiles},
		{"added-position-delete-files", "removed-position-delete-files", a.positionFiles, r.positionFiles},
		{"added-dvs", "removed-dvs", a.vectors, r.vectors},
		{"added-position-deletes", "removed-position-deletes", a.positions, r.positions},
		{"added-equality-delete-files", "removed-equality-delete-files", a.equalityFiles, r.equalityFiles},
		{"added-equality-deletes", "removed-equality-deletes", a.equalities, r.equalities},
	} {
		setPositive(out, c.added, c.a)
		setPositive(out, c.removed, c.r)
	}
	out["changed-partition-count"] = strconv.Itoa(len(b.count.partitions))
	out["manifests-created"] = strconv.Itoa(b.count.created)
	out["manifests-kept"] = strconv.Itoa(b.count.kept)
	out["manifests-replaced"] = strconv.Itoa(b.count.replaced)
	b.totals(out)
	maps.Copy(out, b.a.Summary)
	return out
}

func (b *build) totals(out iceberg.Properties) {
	if b.a.Parent.Summary == nil {
		return
	}
	a, r := b.count.added, b.count.removed
	for _, t := range []struct {
		key    string
		change int64
	}{
		{"total-data-files", a.dataFiles - r.dataFiles},
		{"total-records", a.records - r.records},
		{"total-files-size", a.bytes - r.bytes},
		{"total-delete-files", a.deleteFiles - r.deleteFiles},
		{"total-position-deletes", a.positions - r.positions},
		{"total-equality-deletes", a.equalities - r.equalities},
	} {
		before, err := strconv.ParseInt(b.a.Parent.Summary.Properties[t.key], 10, 64)
		if err == nil && before >= 0 && before+t.change >= 0 {
			out[t.key] = strconv.FormatInt(before+t.change, 10)
		}
	}
}

func setPositive(out iceberg.Properties, key string, value int64) {
	if value > 0 {
		out[key] = strconv.FormatInt(value, 10)
	}
}
