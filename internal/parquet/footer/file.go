package footer

// File views a FileMetaData.
type File struct{ *Struct }

// Fields of FileMetaData.
const (
	FileVersion      = 1
	FileSchema       = 2
	FileRows         = 3
	FileRowGroups    = 4
	FileKeyValues    = 5
	FileCreatedBy    = 6
	FileColumnOrders = 7
	fileEncryption   = 8
)

// Schema returns the schema's elements, depth first.
func (f File) Schema() []Element {
	return views[Element](f.List(FileSchema), func(s *Struct) Element { return Element{s} })
}

// Rows is the number of rows; -1 when absent.
func (f File) Rows() int64 { return f.IntOr(FileRows, -1) }

// RowGroups returns the row groups in order.
func (f File) RowGroups() []RowGroup {
	return views[RowGroup](f.List(FileRowGroups), func(s *Struct) RowGroup { return RowGroup{s} })
}

// CreatedBy names the writer; empty when absent.
func (f File) CreatedBy() string {
	b, _ := f.Binary(FileCreatedBy)
	return string(b)
}

// Encrypted says that the footer announces encryption.
func (f File) Encrypted() bool { return f.Find(fileEncryption) != nil }

// TypeOrdered says that column i's bounds follow the order of its logical type; without that min_value and max_value mean nothing.
func (f File) TypeOrdered(i int) bool {
	orders := f.List(FileColumnOrders)
	return i < len(orders) && orders[i].Kind == Record && orders[i].Struct.Record(1) != nil
}

// Element views a SchemaElement.
type Element struct{ *Struct }

// Name is the element's name.
func (e Element) Name() string {
	b, _ := e.Binary(4)
	return string(b)
}

// Type is the physical type; ok is false for a group.
func (e Element) Type() (t Type, ok bool) {
	n, ok := e.Int(1)
	return Type(n), ok
}

// Width is the length of fixed values; 0 when absent.
func (e Element) Width() int64 { return e.IntOr(2, 0) }

// Repetition is 0 for required (and the root), 1 for optional, 2 for repeated.
func (e Element) Repetition() int64 { return e.IntOr(3, 0) }

// Children is the number of children; 0 for a leaf.
func (e Element) Children() int64 { return e.IntOr(5, 0) }

// FieldID returns the field ID.
func (e Element) FieldID() (id int64, ok bool) { return e.Int(9) }

// RowGroup views a RowGroup.
type RowGroup struct{ *Struct }

// Fields of RowGroup.
const (
	GroupColumns         = 1
	GroupBytes           = 2
	GroupRows            = 3
	GroupSorting         = 4
	GroupFileOffset      = 5
	GroupCompressedBytes = 6
	GroupOrdinal         = 7
)

// Columns returns the column chunks.
func (g RowGroup) Columns() []Chunk {
	return views[Chunk](g.List(GroupColumns), func(s *Struct) Chunk { return Chunk{s} })
}

// Rows is the number of rows; -1 when absent.
func (g RowGroup) Rows() int64 { return g.IntOr(GroupRows, -1) }

// Chunk views a ColumnChunk.
type Chunk struct{ *Struct }

// Fields of ColumnChunk.
const (
	ChunkFileOffset        = 2
	ChunkMetadata          = 3
	ChunkOffsetIndex       = 4
	ChunkOffsetIndexLength = 5
	ChunkColumnIndex       = 6
	ChunkColumnIndexLength = 7
	chunkFilePath          = 1
	chunkCrypto            = 8
	chunkEncrypted         = 9
)

// Metadata returns the chunk's ColumnMetaData; its Struct is nil when absent.
func (c Chunk) Metadata() Column { return Column{c.Record(ChunkMetadata)} }

// Encrypted says that the chunk is encrypted.
func (c Chunk) Encrypted() bool { return c.Find(chunkCrypto) != nil || c.Find(chunkEncrypted) != nil }

// Elsewhere says that the chunk lies in another file.
func (c Chunk) Elsewhere() bool {
	path, _ := c.Binary(chunkFilePath)
	return len(path) > 0
}

// Column views a ColumnMetaData.
type Column struct{ *Struct }

// Fields of ColumnMetaData.
const (
	ColumnType            = 1
	ColumnEncodings       = 2
	ColumnPath            = 3
	ColumnCodec           = 4
	ColumnValues          = 5
	ColumnBytes           = 6
	ColumnCompressedBytes = 7
	ColumnDataPage        = 9
	ColumnIndexPage       = 10
	ColumnDictionaryPage  = 11
	ColumnStatistics      = 12
	ColumnEncodingStats   = 13
	ColumnBloom           = 14
	ColumnBloomLength     = 15
)

// Span is where the chunk's pages lie in the file.
func (c Column) Span() (offset, length int64) {
	offset = c.IntOr(ColumnDataPage, -1)
	if d, ok := c.Int(ColumnDictionaryPage); ok && d > 0 && d < offset {
		offset = d
	}
	return offset, c.IntOr(ColumnCompressedBytes, -1)
}

// Encodings are the encodings that the chunk announces.
func (c Column) Encodings() []Encoding {
	var out []Encoding
	for _, v := range c.List(ColumnEncodings) {
		out = append(out, Encoding(v.Int))
	}
	return out
}

// HasBloom says that a bloom filter belongs to the chunk.
func (c Column) HasBloom() bool { return c.Find(ColumnBloom) != nil }

// Bloom is where the chunk's bloom filter is; offset and length are 0 when absent. Older writers give no length.
func (c Column) Bloom() (offset, length int64) {
	return max(c.IntOr(ColumnBloom, 0), 0), max(c.IntOr(ColumnBloomLength, 0), 0)
}

// Statistics returns the chunk's statistics; its Struct is nil when absent.
func (c Column) Statistics() Statistics { return Statistics{c.Record(ColumnStatistics)} }

// DataPages is the number of data pages by the encoding statistics; ok is false when there are none.
func (c Column) DataPages() (n int64, ok bool) {
	for _, v := range c.List(ColumnEncodingStats) {
		if v.Kind != Record {
			return 0, false
		}
		if t := PageType(v.Struct.IntOr(1, -1)); t == DataPage || t == DataPageV2 {
			n += v.Struct.IntOr(3, 0)
		}
	}
	return n, n > 0
}

// Statistics views a Statistics.
type Statistics struct{ *Struct }

// Fields of Statistics.
const (
	StatOldMax   = 1
	StatOldMin   = 2
	StatNulls    = 3
	StatMax      = 5
	StatMin      = 6
	StatMaxExact = 7
	StatMinExact = 8
)

// views wraps the records of a list; an element that is none becomes an empty record, whose required fields are then missed.
func views[T any](values []Value, wrap func(*Struct) T) []T {
	out := make([]T, len(values))
	for i := range values {
		s := values[i].Struct
		if s == nil {
			s = &Struct{}
		}
		out[i] = wrap(s)
	}
	return out
}
