package source

import (
	"fmt"

	"firn/internal/parquet/chunk"
	"firn/internal/parquet/encoding"
)

// Chunk is a column chunk as it lies in the file, for decoders that work on pages, with what the footer says of it. ok is false when the file is
// not held whole, or the chunk's codec is not one of package encoding's. The bytes are valid until Close.
func (f *File) Chunk(group, col int) (data []byte, m chunk.Meta, ok bool, err error) {
	if !f.objects.whole {
		return nil, m, false, nil
	}
	meta, err := f.reader.RowGroup(group).MetaData().ColumnChunk(col)
	if err != nil {
		return nil, m, false, f.classify(fmt.Sprintf("read column %s of", f.Schema.Column(col).Path()), err)
	}
	m = chunk.Meta{Codec: encoding.Codec(meta.Compression()), Values: meta.NumValues(), Rows: f.Groups[group].Rows}
	start, length := span(meta)
	return f.objects.data[start-f.objects.offset:][:length:length], m, m.Codec.Supported(), nil
}

// Fault turns the failure of such a decoder into ErrUnreadable.
func (f *File) Fault(group, col int, err error) error {
	return fmt.Errorf("read column %s of row group %d of %s: %w: %w", f.Schema.Column(col).Path(), group, f.Location, err, ErrUnreadable)
}
