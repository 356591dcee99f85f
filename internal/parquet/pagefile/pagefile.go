// Package pagefile writes Parquet files of column chunks that are made from vectors with chunk.Writer: schema, page indexes, bloom filters and
// footer around them. It streams: what it holds is one column's open page and dictionary, and the footer.
package pagefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"firn/internal/parquet/bloom"
	"firn/internal/parquet/chunk"
	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/sink"
)

// createdBy follows the form "application version semantic-version (build hash)", since readers take it apart.
const createdBy = "firn version 1.0.0 (build pages)"

// File is a Parquet file being written. Its methods serve one goroutine.
type File struct {
	layout *layout.Layout
	opts   sink.Options
	out    io.Writer
	// SizeBytes is the length so far.
	size       int64
	template   footer.File
	columns    []chunk.Column
	compressor *encoding.Compressor
	writer     chunk.Writer
	filter     *bloom.Filter

	rows, groupRows int64
	start           int64
	// made are the finished chunks of the open row group, filters their bloom filters.
	made    []chunk.Chunk
	filters [][]byte
	groups  []footer.Value
	indexes [][]chunk.Chunk
	sizes   []int64
	splits  []int64
}

// Create starts a file on w. The codec must be one that package encoding can write.
func Create(w io.Writer, l *layout.Layout, o sink.Options) (*File, error) {
	f := &File{layout: l, opts: o, out: w, sizes: make([]int64, len(l.Leaves))}
	var err error
	if f.compressor, err = encoding.NewCompressor(encoding.Codec(o.Codec), o.Level); err != nil {
		return nil, fmt.Errorf("start a Parquet file: %w", err)
	}
	if err := f.readTemplate(); err != nil {
		return nil, fmt.Errorf("start a Parquet file: %w", err)
	}
	return f, f.write([]byte(footer.Magic))
}

// readTemplate takes schema, metadata and column orders from an empty file of the other writer, so that the two cannot differ.
func (f *File) readTemplate() error {
	opts := f.opts
	opts.Bloom = nil
	var buf bytes.Buffer
	w, err := sink.Create(&buf, f.layout, opts)
	if err == nil {
		_, err = w.Close()
	}
	if err != nil {
		return err
	}
	n, err := footer.Length(buf.Bytes(), int64(buf.Len()))
	if err != nil {
		return err
	}
	end := buf.Len() - footer.TrailerBytes
	if f.template, err = footer.DecodeFile(buf.Bytes()[end-int(n) : end]); err != nil {
		return err
	}
	f.template.Put(footer.FileCreatedBy, footer.BinaryValue([]byte(createdBy)))
	var path []string
	elements := f.template.Schema()
	var left []int64 // Children that are still to come, by depth.
	for _, e := range elements[1:] {
		path = append(path, e.Name())
		if e.Children() > 0 {
			left = append(left, e.Children())
			continue
		}
		if len(f.columns) == len(f.layout.Leaves) {
			return errors.New("the schema has more columns than the layout")
		}
		c, err := Column(f.layout.Leaves[len(f.columns)])
		if err != nil {
			return err
		}
		c.Path = append(c.Path, path...)
		f.columns = append(f.columns, c)
		path = path[:len(path)-1]
		for len(left) > 0 {
			if left[len(left)-1]--; left[len(left)-1] > 0 {
				break
			}
			left, path = left[:len(left)-1], path[:len(path)-1]
		}
	}
	if len(f.columns) != len(f.layout.Leaves) {
		return fmt.Errorf("the schema has %d columns of %d", len(f.columns), len(f.layout.Leaves))
	}
	return nil
}

// Column describes the column of a leaf, without its path in a file.
func Column(leaf *layout.Leaf) (chunk.Column, error) {
	if leaf.MaxDef > encoding.MaxLevel || leaf.MaxRep > encoding.MaxLevel {
		return chunk.Column{}, fmt.Errorf("column %s is nested too deeply: %w", leaf.Path, layout.ErrUnsupported)
	}
	c := chunk.Column{
		Type: leaf.Kind.Type(), Width: leaf.Width, MaxDef: uint8(leaf.MaxDef), MaxRep: uint8(leaf.MaxRep), Order: order(leaf),
		Text: isText(leaf),
	}
	return c, nil
}

func (f *File) write(b []byte) error {
	n, err := f.out.Write(b)
	f.size += int64(n)
	return err
}

// Write implements io.Writer for the chunk that is open; nobody else calls it.
func (f *File) Write(b []byte) (int, error) {
	n, err := f.out.Write(b)
	f.size += int64(n)
	return n, err
}

// StartRowGroup begins a row group of that many rows; its columns follow in order.
func (f *File) StartRowGroup(rows int64) {
	f.groupRows, f.start, f.made, f.filters = rows, f.size, nil, nil
	f.splits = append(f.splits, f.size)
}

// StartColumn begins the next column. With a dictionary that is finished, vectors may refer to it; without one it is found out whether one pays.
func (f *File) StartColumn(d *encoding.Dictionary) (*chunk.Writer, error) {
	i := len(f.made)
	if i >= len(f.columns) {
		return nil, errors.New("begin a column beyond the last one")
	}
	o := chunk.Options{
		Compressor: f.compressor, PageBytes: int(min(f.opts.PageBytes, encoding.MaxPageBytes)), PageRows: f.opts.PageRows,
		DictBytes: int(min(f.opts.DictBytes, encoding.MaxPageBytes)), Dictionary: d, Build: d == nil,
	}
	f.filter = nil
	if rate, wanted := f.opts.Bloom[i]; wanted {
		f.filter = bloom.New(min(f.opts.BloomBytes, bloom.Bytes(f.groupRows, rate)))
		o.Hash = f.filter.Insert
	}
	return &f.writer, f.writer.Open(f, f.size, &f.columns[i], o)
}

// EndColumn ends the column.
func (f *File) EndColumn() (chunk.Chunk, error) {
	i := len(f.made)
	done, err := f.writer.Close()
	if err != nil {
		return done, fmt.Errorf("end column %s: %w", f.layout.Leaves[i].Path, err)
	}
	if done.Rows != f.groupRows {
		return done, fmt.Errorf("end column %s: %d rows of %d", f.layout.Leaves[i].Path, done.Rows, f.groupRows)
	}
	f.made = append(f.made, done)
	var filter []byte
	if f.filter != nil {
		f.filter.Fold(f.opts.Bloom[i])
		filter = f.filter.Append(nil)
	}
	f.filters = append(f.filters, filter)
	f.sizes[i] += done.SizeBytes
	return done, nil
}

// EndRowGroup ends the row group and returns the file's length so far, page index and footer not counted.
func (f *File) EndRowGroup() (int64, error) {
	if len(f.made) != len(f.columns) {
		return f.size, fmt.Errorf("end a row group after %d of %d columns", len(f.made), len(f.columns))
	}
	var raw int64
	var chunks []footer.Value
	for i := range f.made {
		chunks = append(chunks, footer.RecordValue(f.made[i].Footer))
		raw += f.made[i].RawBytes
	}
	g := &footer.Struct{}
	g.Put(footer.GroupColumns, footer.ListValue(footer.Record, chunks))
	g.Put(footer.GroupBytes, footer.Int64Value(raw))
	g.Put(footer.GroupRows, footer.Int64Value(f.groupRows))
	g.Put(footer.GroupFileOffset, footer.Int64Value(f.start))
	g.Put(footer.GroupCompressedBytes, footer.Int64Value(f.size-f.start))
	g.Put(footer.GroupOrdinal, footer.Int16Value(int16(len(f.groups))))
	for i, data := range f.filters {
		if data == nil {
			continue
		}
		m := footer.Chunk{Struct: f.made[i].Footer}.Metadata()
		m.Put(footer.ColumnBloom, footer.Int64Value(f.size))
		m.Put(footer.ColumnBloomLength, footer.Int32Value(int64(len(data))))
		if err := f.write(data); err != nil {
			return f.size, err
		}
	}
	f.groups = append(f.groups, footer.RecordValue(g))
	f.indexes = append(f.indexes, f.made)
	f.rows += f.groupRows
	return f.size, nil
}

// Close writes page indexes and footer.
func (f *File) Close() (sink.Footer, error) {
	put := func(data []byte, c *footer.Struct, at, length int16) error {
		if data == nil {
			return nil
		}
		c.Put(at, footer.Int64Value(f.size))
		c.Put(length, footer.Int32Value(int64(len(data))))
		return f.write(data)
	}
	for _, columns := range f.indexes {
		for i := range columns {
			if err := put(columns[i].ColumnIndex, columns[i].Footer, footer.ChunkColumnIndex, footer.ChunkColumnIndexLength); err != nil {
				return sink.Footer{}, fmt.Errorf("write the page index: %w", err)
			}
		}
	}
	for _, columns := range f.indexes {
		for i := range columns {
			if err := put(columns[i].OffsetIndex, columns[i].Footer, footer.ChunkOffsetIndex, footer.ChunkOffsetIndexLength); err != nil {
				return sink.Footer{}, fmt.Errorf("write the page index: %w", err)
			}
		}
	}
	end := footer.File{Struct: &footer.Struct{}}
	end.Fields = append(end.Fields, f.template.Fields...)
	end.Put(footer.FileRows, footer.Int64Value(f.rows))
	end.Put(footer.FileRowGroups, footer.ListValue(footer.Record, f.groups))
	if err := f.write(footer.AppendFile(nil, end)); err != nil {
		return sink.Footer{}, fmt.Errorf("write the footer: %w", err)
	}
	return sink.Footer{Rows: f.rows, SizeBytes: f.size, ColumnSizes: f.sizes, SplitOffsets: f.splits}, nil
}
