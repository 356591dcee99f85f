package demo

import (
	"context"
	"time"

	"github.com/apache/iceberg-go"

	"firn/internal/edge"
	"firn/internal/lake"
	"firn/internal/maintenance"
)

// Measure is a table's health at one moment. Counts of files are those of the current snapshot, the last two lines those of the disk.
type Measure struct {
	DataFiles     int64
	DataBytes     int64
	DeleteFiles   int64
	Manifests     int64
	Snapshots     int64
	MetadataFiles int64
	// FilesOnDisk and BytesOnDisk count everything under the table's location, whoever refers to it.
	FilesOnDisk int64
	BytesOnDisk int64
	// ScanTime is how long the judge took to read all rows once, Content what they are.
	ScanTime time.Duration
	Content  Content
}

// AverageBytes is the average size of a data file.
func (m Measure) AverageBytes() int64 {
	if m.DataFiles == 0 {
		return 0
	}
	return m.DataBytes / m.DataFiles
}

// measure looks at the table and reads it twice: once for the time, once for its content. wall is the real clock.
func measure(ctx context.Context, l edge.Lake, id maintenance.TableID, wall func() time.Time) (Measure, error) {
	t, err := lake.Load(ctx, l.Catalog, l.Store, id)
	if err != nil {
		return Measure{}, err
	}
	m := Measure{Snapshots: int64(len(t.Metadata.Snapshots())), MetadataFiles: 1}
	for range t.Metadata.PreviousFiles() {
		m.MetadataFiles++
	}
	if err := m.count(ctx, l, t); err != nil {
		return Measure{}, err
	}
	for info, err := range l.Store.List(ctx, t.Metadata.Location()+"/", listAll()) {
		if err != nil {
			return Measure{}, err
		}
		m.FilesOnDisk++
		m.BytesOnDisk += info.SizeBytes
	}
	for _, err := range l.Store.Uploads(ctx, t.Metadata.Location()+"/") {
		if err != nil {
			return Measure{}, err
		}
		m.FilesOnDisk++
	}
	if m.ScanTime, _, err = scanTime(ctx, l.Store, t, wall); err != nil {
		return Measure{}, err
	}
	m.Content, err = content(ctx, l.Store, t)
	return m, err
}

// count counts the live files of the current snapshot.
func (m *Measure) count(ctx context.Context, l edge.Lake, t *lake.Table) error {
	manifests, err := lake.Manifests(ctx, l.Store, t.Metadata.CurrentSnapshot())
	if err != nil {
		return err
	}
	m.Manifests = int64(len(manifests))
	for _, manifest := range manifests {
		for e, err := range lake.Entries(ctx, l.Store, manifest, lake.EntryOptions{WithoutStats: true}) {
			if err != nil {
				return err
			}
			if e.File.ContentType() == iceberg.EntryContentData {
				m.DataFiles++
				m.DataBytes += e.File.FileSizeBytes()
			} else {
				m.DeleteFiles++
			}
		}
	}
	return nil
}
