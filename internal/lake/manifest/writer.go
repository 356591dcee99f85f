package manifest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/apache/iceberg-go"

	"firn/internal/lake/avro"
)

// Writer makes one manifest in memory. It is not safe for concurrent use.
type Writer struct {
	l        *Layout
	content  iceberg.ManifestContent
	snapshot int64
	out      *avro.Writer
	scratch  []byte

	files     [3]int32
	records   [3]int64
	least     int64
	summaries []partSummary
	last      []byte
}

// NewWriter starts a manifest that a snapshot adds. Its name is where it will lie; what the file is marked with is made of it.
func (l *Layout) NewWriter(content iceberg.ManifestContent, snapshot int64, name string) (*Writer, error) {
	if l.version == 1 && content != iceberg.ManifestContentData {
		return nil, fmt.Errorf("a delete manifest of format version 1: %w", ErrUnsupported)
	}
	header, err := l.header(content)
	if err != nil {
		return nil, err
	}
	mark := sha256.Sum256([]byte(name))
	return &Writer{
		l: l, content: content, snapshot: snapshot, out: l.memo.lender().NewWriter(header, [16]byte(mark[:16])), least: -1,
		summaries: make([]partSummary, len(l.parts)),
	}, nil
}

// Add writes a file as ADDED. Without a data sequence number it inherits the snapshot's.
func (w *Writer) Add(f iceberg.DataFile, dataSequence *int64) error {
	if data := f.ContentType() == iceberg.EntryContentData; data != (w.content == iceberg.ManifestContentData) {
		return fmt.Errorf("%s has content %s, the manifest %s", f.FilePath(), f.ContentType(), w.content)
	}
	return w.encoded(w.l.Added(w.scratch[:0], f, w.snapshot, dataSequence))
}

// Existing writes a live entry as EXISTING: what it inherited stands in it now.
func (w *Writer) Existing(e Entry) error { return w.encoded(w.l.Existing(w.scratch[:0], e)) }

// Delete writes a live entry as DELETED by the snapshot.
func (w *Writer) Delete(e Entry) error { return w.encoded(w.l.Deleted(w.scratch[:0], e, w.snapshot)) }

func (w *Writer) encoded(e Encoded, err error) error {
	if err != nil {
		return err
	}
	w.scratch = e.Bytes
	return w.Put(e)
}

// Put writes an entry that the writer's layout encoded.
func (w *Writer) Put(e Encoded) error {
	if tuple := e.Bytes[len(e.Bytes)-e.Tuple:]; w.last == nil || !bytes.Equal(tuple, w.last) {
		if err := w.summarise(tuple); err != nil {
			return err
		}
		w.last = append(append(w.last[:0], tuple...), 0)[:len(tuple)]
	}
	w.files[e.Status]++
	w.records[e.Status] += e.Records
	if e.Status != iceberg.EntryStatusDELETED && e.Sequence >= 0 && (w.least < 0 || e.Sequence < w.least) {
		w.least = e.Sequence
	}
	return w.out.Append(e.Bytes)
}

func (w *Writer) summarise(tuple []byte) error {
	c := avro.Cursor{Data: tuple}
	for i, p := range w.l.parts {
		if err := w.summaries[i].add(p.read(&c)); err != nil {
			return fmt.Errorf("partition field %d: %w", p.id, err)
		}
	}
	return c.Err
}

// Len is the length of the manifest so far, without the entries that are still being collected for the next block.
func (w *Writer) Len() int { return w.out.Len() }

// Close returns the manifest and its line in the list, at the location. A manifest without entries is an error.
func (w *Writer) Close(location string) ([]byte, iceberg.ManifestFile, error) {
	added, existing, deleted := iceberg.EntryStatusADDED, iceberg.EntryStatusEXISTING, iceberg.EntryStatusDELETED
	if w.files[added]+w.files[existing]+w.files[deleted] == 0 {
		return nil, nil, errors.New("a manifest without entries")
	}
	data, err := w.out.Close()
	if err != nil {
		return nil, nil, err
	}
	summaries := make([]iceberg.FieldSummary, len(w.summaries))
	for i := range w.summaries {
		if summaries[i], err = w.summaries[i].summary(); err != nil {
			return nil, nil, fmt.Errorf("partition field %d: %w", w.l.parts[i].id, err)
		}
	}
	m := iceberg.NewManifestFile(w.l.version, location, int64(len(data)), int32(w.l.spec.ID()), w.snapshot).Content(w.content).
		SequenceNum(-1, w.least).AddedFiles(w.files[added]).ExistingFiles(w.files[existing]).DeletedFiles(w.files[deleted]).
		AddedRows(w.records[added]).ExistingRows(w.records[existing]).DeletedRows(w.records[deleted]).Partitions(summaries).Build()
	return data, m, nil
}
