// Package sink writes Parquet files column after column with arrow-go, as the Iceberg specification wants them: field IDs on every node, no
// INT96, page index, bloom filters where the table asks. It streams: what it holds is one column's open page and dictionary.
package sink

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"

	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

// createdBy follows the form "application version semantic-version (build hash)", since readers take it apart.
const createdBy = "firn version 1.0.0 (build arrow-go-" + arrow.PkgVersion + ")"

// File is a Parquet file being written. Its methods serve one goroutine.
type File struct {
	layout *layout.Layout
	opts   Options
	writer *file.Writer
	group  file.SerialRowGroupWriter
	open   *Column
	next   int
}

// Footer is what a finished file's manifest entry needs of its layout.
type Footer struct {
	// Rows is the number of rows; SizeBytes the file's length.
	Rows, SizeBytes int64
	// ColumnSizes are the compressed sizes by leaf.
	ColumnSizes []int64
	// SplitOffsets are the starts of the row groups.
	SplitOffsets []int64
}

// Create starts a file on w.
func Create(w io.Writer, l *layout.Layout, o Options) (*File, error) {
	kv := metadata.NewKeyValueMetadata()
	for _, k := range slices.Sorted(maps.Keys(o.Metadata)) {
		if err := kv.Append(k, o.Metadata[k]); err != nil {
			return nil, fmt.Errorf("add footer metadata %s: %w", k, err)
		}
	}
	fw, err := file.NewParquetWriterWithError(w, l.Root, file.WithWriterProps(properties(l, o)), file.WithWriteMetadata(kv))
	if err != nil {
		return nil, fmt.Errorf("start a Parquet file: %w", err)
	}
	return &File{layout: l, opts: o, writer: fw}, nil
}

func properties(l *layout.Layout, o Options) *parquet.WriterProperties {
	level := o.Level
	if level == 0 {
		level = compress.DefaultCompressionLevel
	}
	props := []parquet.WriterProperty{
		parquet.WithCreatedBy(createdBy),
		parquet.WithRootName("table"),
		parquet.WithCompression(o.Codec),
		parquet.WithCompressionLevel(level),
		parquet.WithDataPageSize(o.PageBytes),
		parquet.WithDictionaryPageSizeLimit(o.DictBytes),
		parquet.WithPageIndexEnabled(true),
		parquet.WithMaxBloomFilterBytes(o.BloomBytes),
	}
	for _, leaf := range l.Leaves {
		// As parquet-mr does: a dictionary that saves nothing in its first page is given up.
		props = append(props, parquet.WithDictionaryCostFallbackFor(leaf.ColumnPath, true))
		if leaf.Part {
			props = append(props, parquet.WithStatsFor(leaf.ColumnPath, false), parquet.WithPageIndexEnabledFor(leaf.ColumnPath, false))
		}
		if rate, ok := o.Bloom[leaf.Index]; ok {
			props = append(props, parquet.WithBloomFilterEnabledFor(leaf.ColumnPath, true), parquet.WithBloomFilterFPPFor(leaf.ColumnPath, rate),
				parquet.WithAdaptiveBloomFilterEnabledFor(leaf.ColumnPath, true))
		}
		if n, ok := o.BloomValues[leaf.Index]; ok {
			props = append(props, parquet.WithAdaptiveBloomFilterEnabledFor(leaf.ColumnPath, false), parquet.WithBloomFilterNDVFor(leaf.ColumnPath, n))
		}
	}
	return parquet.NewWriterProperties(props...)
}

// StartRowGroup begins a row group; the columns follow in order.
func (f *File) StartRowGroup() error {
	if err := f.endColumn(); err != nil {
		return err
	}
	group, err := f.writer.AppendRowGroupChecked()
	if err != nil {
		return fmt.Errorf("start row group %d: %w", f.writer.NumRowGroups(), err)
	}
	f.group, f.next = group, 0
	return nil
}

// NextColumn ends the current column and begins the next one.
func (f *File) NextColumn() (*Column, error) {
	if f.next >= len(f.layout.Leaves) {
		return nil, errors.New("begin a column beyond the last one")
	}
	leaf := f.layout.Leaves[f.next]
	chunk, err := f.group.NextColumn()
	if err != nil {
		return nil, fmt.Errorf("begin column %s: %w", leaf.Path, err)
	}
	f.next++
	f.open = &Column{leaf: leaf, chunk: chunk, pageRows: f.opts.PageRows}
	return f.open, nil
}

func (f *File) endColumn() error {
	f.open = nil
	if f.group == nil {
		return nil
	}
	if f.next != len(f.layout.Leaves) {
		return fmt.Errorf("end a row group after %d of %d columns", f.next, len(f.layout.Leaves))
	}
	if err := f.group.Close(); err != nil {
		return fmt.Errorf("end row group %d: %w", f.writer.NumRowGroups(), err)
	}
	f.group = nil
	return nil
}

// EndRowGroup ends the row group and returns the file's length so far, page index and footer not counted.
func (f *File) EndRowGroup() (int64, error) {
	err := f.endColumn()
	return f.writer.TotalBytesWritten(), err
}

// Close writes the footer.
func (f *File) Close() (Footer, error) {
	if err := f.endColumn(); err != nil {
		return Footer{}, err
	}
	if err := f.writer.Close(); err != nil {
		return Footer{}, fmt.Errorf("write the footer: %w", err)
	}
	meta, err := f.writer.FileMetadata()
	if err != nil {
		return Footer{}, fmt.Errorf("read back the footer: %w", err)
	}
	out := Footer{Rows: meta.GetNumRows(), SizeBytes: f.writer.TotalBytesWritten(), ColumnSizes: make([]int64, len(f.layout.Leaves))}
	for g := range meta.NumRowGroups() {
		rg := meta.RowGroup(g)
		for c := range rg.NumColumns() {
			chunk, err := rg.ColumnChunk(c)
			if err != nil {
				return Footer{}, fmt.Errorf("read back column %d: %w", c, err)
			}
			out.ColumnSizes[c] += chunk.TotalCompressedSize()
			if c == 0 {
				out.SplitOffsets = append(out.SplitOffsets, start(chunk))
			}
		}
	}
	return out, nil
}

// start is where a column chunk begins: its dictionary page, or its first data page.
func start(chunk *metadata.ColumnChunkMetaData) int64 {
	if at := chunk.DictionaryPageOffset(); chunk.HasDictionaryPage() && at > 0 && at < chunk.DataPageOffset() {
		return at
	}
	return chunk.DataPageOffset()
}

// Column is a column chunk being written.
type Column struct {
	leaf  *layout.Leaf
	chunk file.ColumnChunkWriter
	// pageRows is the limit; rows and written say how far the open page is.
	pageRows int
	rows     int
	written  int64
}

// Write appends a batch of whole rows.
func (c *Column) Write(b *column.Batch) error {
	cuts := cutter{batch: b, leaf: c.leaf}
	for {
		part, rows := cuts.next(c.pageRows - c.rows)
		if rows == 0 {
			return nil
		}
		if err := c.write(&part); err != nil {
			return fmt.Errorf("write column %s: %w", c.leaf.Path, err)
		}
		if err := c.page(rows); err != nil {
			return fmt.Errorf("write column %s: %w", c.leaf.Path, err)
		}
	}
}

// page ends the open page at the row limit. arrow-go ends pages by size on its own, seen as a growing total.
func (c *Column) page(rows int) error {
	c.rows += rows
	if total := c.chunk.TotalCompressedBytes(); total != c.written {
		c.written, c.rows = total, 0
	}
	if c.rows < c.pageRows {
		return nil
	}
	flusher, ok := c.chunk.(interface{ FlushCurrentPage() error })
	if !ok {
		return errors.New("arrow-go's column writer cannot end a page")
	}
	if err := flusher.FlushCurrentPage(); err != nil {
		return err
	}
	c.written, c.rows = c.chunk.TotalCompressedBytes(), 0
	return nil
}

func (c *Column) write(b *column.Batch) error {
	var def, rep []int16
	if c.leaf.MaxDef > 0 {
		def = b.Def
	}
	if c.leaf.MaxRep > 0 {
		rep = b.Rep
	}
	var n int64
	var err error
	switch w := c.chunk.(type) {
	case *file.BooleanColumnChunkWriter:
		n, err = w.WriteBatch(b.Bool, def, rep)
	case *file.Int32ColumnChunkWriter:
		n, err = w.WriteBatch(b.Int32, def, rep)
	case *file.Int64ColumnChunkWriter:
		n, err = w.WriteBatch(b.Int64, def, rep)
	case *file.Float32ColumnChunkWriter:
		n, err = w.WriteBatch(b.Float, def, rep)
	case *file.Float64ColumnChunkWriter:
		n, err = w.WriteBatch(b.Double, def, rep)
	case *file.ByteArrayColumnChunkWriter:
		n, err = w.WriteBatch(b.Bytes, def, rep)
	case *file.FixedLenByteArrayColumnChunkWriter:
		n, err = w.WriteBatch(b.Fixed, def, rep)
	default:
		return fmt.Errorf("a column writer of type %T", w)
	}
	if err == nil && n != int64(b.Len()) {
		err = fmt.Errorf("%d of %d values were taken", n, b.Len())
	}
	return err
}
