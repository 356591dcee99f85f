package manifest

import (
	"fmt"

	"github.com/apache/iceberg-go"

	"firn/internal/lake/avro"
)

// file is a data or delete file as it stands in a manifest. It is immutable.
type file struct {
	p       *program
	partial bool
	spec    int32

	content     iceberg.ManifestEntryContent
	path        string
	format      iceberg.FileFormat
	count, size int64

	sortOrder, firstRow, offset, blobSize *int64
	referenced                            *string

	// raw are the bytes of the kept fields, one behind the other; ends tells where each ends.
	raw  []byte
	ends [kept]uint32
}

// read reads the record of a file. Mistakes are found in the cursor.
func (f *file) read(c *avro.Cursor, opts Options) {
	var from, to [kept]int
	total := 0
	for i := range f.p.file {
		op := &f.p.file[i]
		if op.slot < partition {
			f.field(c, op)
			continue
		}
		at := op.slot - partition
		from[at] = c.At
		c.Skip(op.t)
		if opts.keeps(op.slot) {
			to[at] = c.At
			total += c.At - from[at]
		}
	}
	if c.Err != nil || opts.namesOnly {
		return
	}
	f.raw = make([]byte, 0, total)
	for at := range from {
		if to[at] > from[at] {
			f.raw = append(f.raw, c.Data[from[at]:to[at]]...)
		}
		f.ends[at] = uint32(len(f.raw))
	}
}

// field reads a field that is not kept as bytes.
func (f *file) field(c *avro.Cursor, op *op) {
	switch op.slot { //nolint:exhaustive // the others are kept
	case content:
		n, _ := whole(c, op.t)
		f.content = iceberg.ManifestEntryContent(max(min(n, 127), -1))
	case filePath:
		path, ok := text(c, op.t)
		require(c, op, ok)
		f.path = string(path)
	case fileFormat:
		format, ok := text(c, op.t)
		require(c, op, ok)
		if string(format) == string(iceberg.ParquetFile) {
			f.format = iceberg.ParquetFile // no copy
		} else {
			f.format = iceberg.FileFormat(format)
		}
	case recordCount:
		n, ok := whole(c, op.t)
		require(c, op, ok)
		f.count = n
	case fileSize:
		n, ok := whole(c, op.t)
		require(c, op, ok)
		f.size = n
	case sortOrderID:
		f.sortOrder = optional(whole(c, op.t))
	case firstRowID:
		f.firstRow = optional(whole(c, op.t))
	case contentOffset:
		f.offset = optional(whole(c, op.t))
	case contentSize:
		f.blobSize = optional(whole(c, op.t))
	case referencedFile:
		if path, ok := text(c, op.t); ok {
			f.referenced = new(string(path))
		}
	default:
		c.Skip(op.t)
	}
}

// require refuses a null where the specification wants a value.
func require(c *avro.Cursor, op *op, ok bool) {
	if !ok && c.Err == nil {
		c.Err = fmt.Errorf("its %s is null: %w", nameOf(op.slot), ErrTableFault)
	}
}

func optional(v int64, ok bool) *int64 {
	if !ok {
		return nil
	}
	return &v
}

// bytes are those of a kept field, none when it was not there or was not wanted.
func (f *file) bytes(s slot) []byte {
	begin := uint32(0)
	if s > partition {
		begin = f.ends[s-partition-1]
	}
	return f.raw[begin:f.ends[s-partition]]
}

// value starts to read a kept field; ok is false when it is null.
func (f *file) value(s slot) (c avro.Cursor, t *avro.Type, ok bool) {
	c.Data = f.bytes(s)
	if len(c.Data) == 0 {
		return c, nil, false
	}
	t = c.Branch(f.p.types[s-partition])
	return c, t, c.Err == nil && t.Kind != avro.Null
}

// ContentType tells data, position deletes and equality deletes apart.
func (f *file) ContentType() iceberg.ManifestEntryContent { return f.content }

// FilePath is the location of the file.
func (f *file) FilePath() string { return f.path }

// FileFormat is the format as its writer spelled it.
func (f *file) FileFormat() iceberg.FileFormat { return f.format }

// Count is the number of records.
func (f *file) Count() int64 { return f.count }

// FileSizeBytes is the length of the file.
func (f *file) FileSizeBytes() int64 { return f.size }

// SpecID is the partition spec's.
func (f *file) SpecID() int32 { return f.spec }

// ColumnSizes are the bytes of each column.
func (f *file) ColumnSizes() map[int]int64 { return f.numbers(columnSizes) }

// ValueCounts are the values of each column.
func (f *file) ValueCounts() map[int]int64 { return f.numbers(valueCounts) }

// NullValueCounts are the nulls of each column.
func (f *file) NullValueCounts() map[int]int64 { return f.numbers(nullCounts) }

// NaNValueCounts are the NaNs of each column.
func (f *file) NaNValueCounts() map[int]int64 { return f.numbers(nanCounts) }

// DistinctValueCounts are the distinct values of each column.
func (f *file) DistinctValueCounts() map[int]int64 { return f.numbers(distinctCounts) }

// LowerBoundValues are the lower bounds of each column.
func (f *file) LowerBoundValues() map[int][]byte { return f.bounds(lowerBounds) }

// UpperBoundValues are the upper bounds of each column.
func (f *file) UpperBoundValues() map[int][]byte { return f.bounds(upperBounds) }

// KeyMetadata is what encryption needs.
func (f *file) KeyMetadata() []byte {
	c, t, ok := f.value(keyMetadata)
	if !ok || t.Kind != avro.Bytes {
		return nil
	}
	return append([]byte{}, c.Bytes()...)
}

// SplitOffsets are where the file may be split.
func (f *file) SplitOffsets() []int64 {
	var out []int64
	f.list(splitOffsets, func(v int64) { out = append(out, v) })
	return out
}

// EqualityFieldIDs are the columns of an equality delete file.
func (f *file) EqualityFieldIDs() []int {
	var out []int
	f.list(equalityIDs, func(v int64) { out = append(out, int(v)) })
	return out
}

// SortOrderID is the sort order's.
func (f *file) SortOrderID() *int {
	if f.sortOrder == nil {
		return nil
	}
	return new(int(*f.sortOrder))
}

// FirstRowID is the ID of the first row, inherited or not.
func (f *file) FirstRowID() *int64 { return clone(f.firstRow) }

// ReferencedDataFile is the data file that all deletes of the file are for.
func (f *file) ReferencedDataFile() *string { return clone(f.referenced) }

// ContentOffset is where a deletion vector begins in its file.
func (f *file) ContentOffset() *int64 { return clone(f.offset) }

// ContentSizeInBytes is the length of a deletion vector.
func (f *file) ContentSizeInBytes() *int64 { return clone(f.blobSize) }

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

// list reads a list of numbers.
func (f *file) list(s slot, visit func(int64)) {
	c, t, ok := f.value(s)
	if !ok || t.Kind != avro.Array || !isWhole(t.Items) {
		return
	}
	for n := c.Items(); n > 0 && c.Err == nil; n = c.Items() {
		for ; n > 0 && c.Err == nil; n-- {
			if v := c.Long(); c.Err == nil {
				visit(v)
			}
		}
	}
}

// numbers reads a map from field IDs to numbers.
func (f *file) numbers(s slot) map[int]int64 {
	c, t, ok := f.value(s)
	if !ok {
		return nil
	}
	out := map[int]int64{}
	pairs(&c, t, func(key int, item *avro.Type) {
		if v, ok := whole(&c, item); ok {
			out[key] = v
		}
	})
	return out
}

// bounds reads a map from field IDs to bytes.
func (f *file) bounds(s slot) map[int][]byte {
	c, t, ok := f.value(s)
	if !ok {
		return nil
	}
	out := map[int][]byte{}
	pairs(&c, t, func(key int, item *avro.Type) {
		if v, ok := text(&c, item); ok {
			out[key] = append([]byte{}, v...)
		}
	})
	return out
}

// pairs calls visit for each key of a map; visit reads the value.
func pairs(c *avro.Cursor, t *avro.Type, visit func(key int, item *avro.Type)) {
	if t.Kind != avro.Array || t.Items.Kind != avro.Record {
		return
	}
	for n := c.Items(); n > 0 && c.Err == nil; n = c.Items() {
		for ; n > 0 && c.Err == nil; n-- {
			key := int64(0)
			for _, f := range t.Items.Fields {
				switch f.Name {
				case "key":
					key, _ = whole(c, f.Type)
				case "value":
					visit(int(key), f.Type)
				default:
					c.Skip(f.Type)
				}
			}
		}
	}
}

// Partition is the partition tuple by field ID.
func (f *file) Partition() map[int]any {
	c := avro.Cursor{Data: f.bytes(partition)}
	out := make(map[int]any, len(f.p.parts))
	for _, at := range f.p.parts {
		out[at.id] = at.read(&c)
	}
	return out
}
