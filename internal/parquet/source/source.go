// Package source reads Parquet files from an object store, column by column, with arrow-go. It knows files, row groups and columns, and no
// table. A small file is fetched with one request; of a larger one only the ranges that are asked for.
//
// A file that cannot be read for good (corrupt, encrypted, missing, archived) is ErrUnreadable with the reason; nothing is ever repaired.
// Storage errors that may pass are returned as they are.
package source

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"firn/internal/parquet/footer"
	"firn/internal/store"
)

// ErrUnreadable says that a file cannot be read, and that a repetition would not help. The text around it names file and reason.
var ErrUnreadable = errors.New("unreadable file")

const (
	// tailBytes is what the first ranged request of a large file fetches from its end: nearly every footer fits.
	tailBytes = 128 << 10
	// windowBytes is the size of one ranged request of a column chunk.
	windowBytes = 4 << 20
	// streamBytes is arrow-go's read buffer for a column chunk.
	streamBytes = 64 << 10
	trailer     = 8
)

// File is an open Parquet file. It serves one goroutine.
type File struct {
	// Location and SizeBytes are as in the manifest.
	Location  string
	SizeBytes int64
	// Rows is the number of rows; Groups the row groups in order.
	Rows   int64
	Groups []Group
	// Schema is the file's own schema.
	Schema *schema.Schema
	// FooterBytes is the footer's length: parsed it takes several times that in memory.
	FooterBytes int64

	reader  *file.Reader
	objects *objectReader
	// places are offset indexes by row group and column, as far as they were read.
	places map[[2]int][]footer.Location
}

// Group is a row group.
type Group struct {
	// First is the position of its first row in the file; Rows its number of rows.
	First, Rows int64
	// CompressedBytes is the sum of its column chunks.
	CompressedBytes int64
}

// Options steer Open.
type Options struct {
	// SizeBytes is the file's length as the manifest says; another length is a fault.
	SizeBytes int64
	// WholeBelowBytes is the length up to which the file is fetched whole and kept while open.
	WholeBelowBytes int64
}

// Open reads a file's footer. The context serves all later reads of the file.
func Open(ctx context.Context, st store.Reader, location string, opts Options) (*File, error) {
	f := &File{Location: location, SizeBytes: opts.SizeBytes}
	f.objects = &objectReader{size: opts.SizeBytes, fetch: func(offset, length int64) ([]byte, error) {
		return st.GetRange(ctx, location, offset, length)
	}}
	if err := f.load(ctx, st, opts); err != nil {
		return nil, f.classify("open", err)
	}
	if err := f.parse(); err != nil {
		return nil, f.classify("read the footer of", err)
	}
	return f, nil
}

// load fetches the whole file, or its end.
func (f *File) load(ctx context.Context, st store.Reader, opts Options) error {
	if opts.SizeBytes <= opts.WholeBelowBytes {
		data, err := st.Get(ctx, f.Location)
		if err != nil {
			return f.objects.note(err)
		}
		if int64(len(data)) != opts.SizeBytes {
			return fmt.Errorf("the object has %d bytes, its manifest entry says %d", len(data), opts.SizeBytes)
		}
		f.objects.hold(0, data)
		f.objects.whole = true
		return nil
	}
	n := min(int64(tailBytes), opts.SizeBytes)
	data, err := st.GetRange(ctx, f.Location, opts.SizeBytes-n, n)
	if err != nil {
		return f.objects.note(err)
	}
	if int64(len(data)) != n {
		return fmt.Errorf("the object is shorter than the %d bytes of its manifest entry", opts.SizeBytes)
	}
	f.objects.hold(opts.SizeBytes-n, data)
	return nil
}

// parse checks the magic, and lets arrow-go decode the footer.
func (f *File) parse() error {
	if f.SizeBytes < trailer+4 {
		return fmt.Errorf("%d bytes are no Parquet file", f.SizeBytes)
	}
	var end [trailer]byte
	if _, err := f.objects.ReadAt(end[:], f.SizeBytes-trailer); err != nil {
		return err
	}
	switch {
	case bytes.Equal(end[4:], []byte("PARE")):
		return errors.New("the file is encrypted")
	case !bytes.Equal(end[4:], []byte("PAR1")):
		return errors.New("the Parquet magic is missing at its end")
	}
	f.FooterBytes = int64(binary.LittleEndian.Uint32(end[:4]))
	props := parquet.NewReaderProperties(nil)
	props.BufferedStreamEnabled = true
	props.BufferSize = streamBytes
	return guard(func() error {
		r, err := file.NewParquetReader(f.objects, file.WithReadProps(props))
		if err != nil {
			return err
		}
		f.reader, f.Schema = r, r.MetaData().Schema
		return f.groups(r.MetaData())
	})
}

func (f *File) groups(meta *metadata.FileMetaData) error {
	if meta.IsSetEncryptionAlgorithm() {
		return errors.New("the file is encrypted")
	}
	for i := range meta.NumRowGroups() {
		rg := meta.RowGroup(i)
		g := Group{First: f.Rows, Rows: rg.NumRows()}
		if g.Rows < 0 || rg.NumColumns() != f.Schema.NumColumns() {
			return fmt.Errorf("row group %d has %d rows and %d columns of %d", i, g.Rows, rg.NumColumns(), f.Schema.NumColumns())
		}
		for c := range rg.NumColumns() {
			chunk, err := rg.ColumnChunk(c)
			if err != nil {
				return err
			}
			if chunk.CryptoMetadata() != nil {
				return errors.New("the file is encrypted")
			}
			start, length := span(chunk)
			if start < 4 || length < 0 || start+length > f.SizeBytes {
				return fmt.Errorf("column chunk %d of row group %d lies outside of the file", c, i)
			}
			g.CompressedBytes += length
		}
		f.Rows += g.Rows
		f.Groups = append(f.Groups, g)
	}
	if n := meta.GetNumRows(); n != f.Rows {
		return fmt.Errorf("the footer counts %d rows, its row groups %d", n, f.Rows)
	}
	return nil
}

// span is where a column chunk's bytes lie.
func span(chunk *metadata.ColumnChunkMetaData) (start, length int64) {
	start = chunk.DataPageOffset()
	if chunk.HasDictionaryPage() && chunk.DictionaryPageOffset() > 0 && chunk.DictionaryPageOffset() < start {
		start = chunk.DictionaryPageOffset()
	}
	return start, chunk.TotalCompressedSize()
}

// Close drops what the file holds in memory.
func (f *File) Close() {
	f.objects.drop()
	f.reader = nil
}

// HeldBytes is what the file keeps in memory while it is open, the parsed footer estimated.
func (f *File) HeldBytes() int64 {
	const parsedPerFooterByte = 12
	return int64(len(f.objects.data)) + parsedPerFooterByte*f.FooterBytes
}

// classify turns the library's failure into the storage error behind it, or into ErrUnreadable.
func (f *File) classify(verb string, err error) error {
	if err == nil {
		return nil
	}
	if cause := f.objects.err; cause != nil {
		switch {
		case errors.Is(cause, store.ErrNotFound):
			return fmt.Errorf("%s %s: the object is missing: %w", verb, f.Location, ErrUnreadable)
		case errors.Is(cause, store.ErrArchived):
			return fmt.Errorf("%s %s: the object is in an archive tier: %w", verb, f.Location, ErrUnreadable)
		case errors.Is(cause, store.ErrPermission):
			return fmt.Errorf("%s %s: reading it is not permitted: %w", verb, f.Location, ErrUnreadable)
		}
		return fmt.Errorf("%s %s: %w", verb, f.Location, cause)
	}
	return fmt.Errorf("%s %s: %w: %w", verb, f.Location, err, ErrUnreadable)
}

// guard runs fn and turns a panic of the decoder into an error: arrow-go panics on some damaged pages.
func guard(fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("decode: %v", r)
		}
	}()
	return fn()
}
