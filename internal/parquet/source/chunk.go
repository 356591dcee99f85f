package source

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/parquet/metadata"

	"firn/internal/parquet/chunk"
	"firn/internal/parquet/column"
	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
)

// Pages are pages of a column chunk as they lie in the file, for decoders that work on them: the dictionary page, if there is one, and data pages
// that follow each other.
type Pages struct {
	Data []byte
	// Meta is what the footer says of the chunk, or what the offset index says of a part of it.
	Meta chunk.Meta
	// First is the position in the file of the first row.
	First int64
}

// Pages returns pages that hold the wanted rows, counted in the file: all of the chunk when the file is held whole, else, by the offset index,
// only those that do, which takes a column without repetition. ok is false when the file does not allow it, or the codec is not one of package
// encoding's. The bytes are valid until Close.
func (f *File) Pages(group, col int, rows column.Run) (p Pages, ok bool, err error) {
	fail := func(err error) (Pages, bool, error) {
		return Pages{}, false, f.classify(fmt.Sprintf("read column %s of", f.Schema.Column(col).Path()), err)
	}
	var meta *metadata.ColumnChunkMetaData
	err = guard(func() (err error) {
		meta, err = f.reader.RowGroup(group).MetaData().ColumnChunk(col)
		return err
	})
	if err != nil {
		return fail(err)
	}
	g := f.Groups[group]
	p = Pages{Meta: chunk.Meta{Codec: encoding.Codec(meta.Compression()), Values: meta.NumValues(), Rows: g.Rows}, First: g.First}
	if !p.Meta.Codec.Supported() {
		return Pages{}, false, nil
	}
	start, length := span(meta)
	if f.objects.whole {
		p.Data = f.objects.data[start-f.objects.offset:][:length:length]
		return p, true, nil
	}
	if f.Schema.Column(col).MaxRepetitionLevel() > 0 {
		return Pages{}, false, nil
	}
	places, err := f.offsetIndex(group, col, meta)
	if err != nil || len(places) == 0 {
		if err != nil {
			return fail(err)
		}
		return Pages{}, false, nil
	}
	from, to := 0, len(places)
	for from+1 < to && g.First+places[from+1].FirstRow <= rows.From {
		from++
	}
	for to-1 > from && g.First+places[to-1].FirstRow >= rows.To {
		to--
	}
	end, endRow := start+length, g.Rows
	if to < len(places) {
		end, endRow = places[to].Offset, places[to].FirstRow
	}
	first := places[from]
	if first.Offset < start || end < first.Offset || end > start+length || endRow < first.FirstRow || places[0].FirstRow != 0 {
		return fail(errors.New("the offset index does not fit the column chunk"))
	}
	if p.Data, err = f.fetchPages(start, places[0].Offset, first.Offset, end); err != nil {
		return fail(err)
	}
	p.First, p.Meta.Rows, p.Meta.Values = g.First+first.FirstRow, endRow-first.FirstRow, endRow-first.FirstRow
	return p, true, nil
}

// offsetIndex reads a chunk's offset index once; nil when there is none, or it cannot be read.
func (f *File) offsetIndex(group, col int, meta *metadata.ColumnChunkMetaData) ([]footer.Location, error) {
	key := [2]int{group, col}
	if places, known := f.places[key]; known {
		return places, nil
	}
	if f.places == nil {
		f.places = map[[2]int][]footer.Location{}
	}
	at := meta.GetOffsetIndexLocation()
	const largest = 16 << 20
	if at == nil || at.Offset < 0 || at.Length <= 0 || at.Length > largest || at.Offset+int64(at.Length) > f.SizeBytes {
		f.places[key] = nil
		return nil, nil
	}
	data, err := f.objects.fetch(at.Offset, int64(at.Length))
	if err != nil {
		return nil, f.objects.note(err)
	}
	places, err := footer.OffsetIndex(data)
	if err != nil {
		places = nil // A damaged index is no index.
	}
	f.places[key] = places
	return places, nil
}

// fetchPages reads the bytes in front of the first data page, where the dictionary is, and a range of data pages.
func (f *File) fetchPages(start, data, from, to int64) ([]byte, error) {
	read := func(from, to int64) ([]byte, error) {
		if from >= to {
			return nil, nil
		}
		out, err := f.objects.fetch(from, to-from)
		if err == nil && int64(len(out)) != to-from {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, f.objects.note(err)
		}
		return out, nil
	}
	if data == from {
		return read(start, to)
	}
	head, err := read(start, data)
	if err != nil {
		return nil, err
	}
	pages, err := read(from, to)
	if err != nil || len(head) == 0 {
		return pages, err
	}
	return append(slices.Clip(head), pages...), nil
}

// Fault turns the failure of such a decoder into ErrUnreadable.
func (f *File) Fault(group, col int, err error) error {
	return fmt.Errorf("read column %s of row group %d of %s: %w: %w", f.Schema.Column(col).Path(), group, f.Location, err, ErrUnreadable)
}
