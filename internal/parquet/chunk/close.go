package chunk

import (
	"firn/internal/parquet/footer"
)

// Chunk is a finished chunk: what the file's footer says of it, and what its writer saw.
type Chunk struct {
	// Footer is the ColumnChunk; where its page indexes and its bloom filter are is for the caller to add.
	Footer *footer.Struct
	// ColumnIndex and OffsetIndex are encoded; nil when they are not known of each page.
	ColumnIndex, OffsetIndex []byte
	// Rows, Values (entries, nulls included) and Nulls count all pages; Nulls is -1 when a page that passed through did not tell.
	Rows, Values, Nulls int64
	// SizeBytes is the length in the file, RawBytes that before compression, both with page headers.
	SizeBytes, RawBytes int64
	// Min and Max bound all values in the form of statistics; nil when unknown. Lower and Upper are the same but for zeros, which footers widen to -0
	// and +0.
	Min, Max, Lower, Upper []byte
	// NaNs counts those among the values that were encoded from vectors.
	NaNs int64
	// Sum is that of the vectors as they were written, read again from the encoded pages: see Vector.Sum. Copied adds up the hashes of the bodies of
	// pages that passed through.
	Sum, Copied uint64
}

// Close ends the chunk.
func (w *Writer) Close() (Chunk, error) {
	if err := w.Flush(); err != nil {
		return Chunk{}, err
	}
	if !w.dictionary.done {
		if err := w.endDictionary(); err != nil {
			return Chunk{}, err
		}
	}
	c := Chunk{
		Rows: w.rowsDone, Values: w.valuesDone, Nulls: w.Nulls(), SizeBytes: w.SizeBytes(), RawBytes: w.raw,
		NaNs: w.nans, Sum: w.sum, Copied: w.copied,
	}
	if lower, upper, ok := w.limits.Result(); ok {
		c.Min, c.Max = append([]byte{}, lower...), append([]byte{}, upper...)
		lower, upper, _ = w.limits.Exact()
		c.Lower, c.Upper = append([]byte{}, lower...), append([]byte{}, upper...)
	}
	if s := w.columnIndex(); s != nil {
		c.ColumnIndex = footer.Append(nil, s)
	}
	data := w.start + w.dictionaryBytes
	if !w.noPlaces && len(w.locations) > 0 {
		for i := range w.locations {
			w.locations[i].Offset += data
		}
		c.OffsetIndex = footer.Append(nil, footer.NewOffsetIndex(w.locations))
	}
	c.Footer = w.columnChunk(&c, data)
	return c, nil
}

// columnChunk builds the ColumnChunk; data is where the first data page is.
func (w *Writer) columnChunk(c *Chunk, data int64) *footer.Struct {
	m := &footer.Struct{}
	var encodings, counts, path []footer.Value
	for _, e := range w.encodings {
		encodings = append(encodings, footer.Int32Value(int64(e)))
	}
	for _, p := range w.counts {
		counts = append(counts, footer.RecordValue(&footer.Struct{Fields: []footer.Field{
			{ID: 1, Value: footer.Int32Value(int64(p.kind))}, {ID: 2, Value: footer.Int32Value(int64(p.encoding))}, {ID: 3, Value: footer.Int32Value(p.pages)},
		}}))
	}
	for _, name := range w.column.Path {
		path = append(path, footer.BinaryValue([]byte(name)))
	}
	m.Put(footer.ColumnType, footer.Int32Value(int64(w.column.Type)))
	m.Put(footer.ColumnEncodings, footer.ListValue(footer.I32, encodings))
	m.Put(footer.ColumnPath, footer.ListValue(footer.Binary, path))
	m.Put(footer.ColumnCodec, footer.Int32Value(int64(w.options.Compressor.Codec())))
	m.Put(footer.ColumnValues, footer.Int64Value(c.Values))
	m.Put(footer.ColumnBytes, footer.Int64Value(c.RawBytes))
	m.Put(footer.ColumnCompressedBytes, footer.Int64Value(c.SizeBytes))
	m.Put(footer.ColumnDataPage, footer.Int64Value(data))
	if w.dictionaryBytes > 0 {
		m.Put(footer.ColumnDictionaryPage, footer.Int64Value(w.start))
	}
	if s := statistics(c); len(s.Fields) > 0 {
		m.Put(footer.ColumnStatistics, footer.RecordValue(s))
	}
	m.Put(footer.ColumnEncodingStats, footer.ListValue(footer.Record, counts))
	return &footer.Struct{Fields: []footer.Field{
		{ID: footer.ChunkFileOffset, Value: footer.Int64Value(0)}, // Deprecated: readers want 0 where the metadata lies in the footer only.
		{ID: footer.ChunkMetadata, Value: footer.RecordValue(m)},
	}}
}

func statistics(c *Chunk) *footer.Struct {
	s := &footer.Struct{}
	if c.Nulls >= 0 {
		s.Put(footer.StatNulls, footer.Int64Value(c.Nulls))
	}
	if c.Min != nil && len(c.Min)+len(c.Max) <= statisticsBytes {
		s.Put(footer.StatMax, footer.BinaryValue(c.Max))
		s.Put(footer.StatMin, footer.BinaryValue(c.Min))
	}
	return s
}
