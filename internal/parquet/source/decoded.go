package source

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"firn/internal/parquet/chunk"
	"firn/internal/parquet/column"
	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
)

// ours says whether a chunk is read with package chunk, because arrow-go cannot: values of fixed length with DELTA_BYTE_ARRAY, which parquet-java
// chooses for decimals in pages of version 2, and brotli pages without values.
func ours(c *schema.Column, meta *metadata.ColumnChunkMetaData) bool {
	if meta.Compression() == compress.Codecs.Brotli {
		return true
	}
	return c.PhysicalType() == parquet.Types.FixedLenByteArray && slices.Contains(meta.Encodings(), parquet.Encodings.DeltaByteArray)
}

// decode walks the pages that hold the wanted rows, of all codecs and encodings that package chunk knows.
func (f *File) decode(s *scanner, group, col int, meta *metadata.ColumnChunkMetaData) error {
	p, ok, err := f.Pages(group, col, s.rows)
	if err != nil {
		return err
	}
	if !ok {
		start, length := span(meta)
		p = Pages{Meta: chunk.Meta{Codec: encoding.Codec(meta.Compression()), Values: meta.NumValues(), Rows: s.group.Rows}, First: s.group.First}
		if p.Data, err = f.objects.fetch(start, length); err != nil {
			return f.objects.note(err)
		}
		if int64(len(p.Data)) != length {
			return io.ErrUnexpectedEOF
		}
	}
	c := chunk.Column{Type: footer.Type(s.descr.PhysicalType()), Width: s.descr.TypeLength()}
	if s.descr.MaxDefinitionLevel() > encoding.MaxLevel || s.descr.MaxRepetitionLevel() > encoding.MaxLevel {
		return fmt.Errorf("levels to %d and %d: %w", s.descr.MaxDefinitionLevel(), s.descr.MaxRepetitionLevel(), encoding.ErrUnsupported)
	}
	c.MaxDef, c.MaxRep = uint8(s.descr.MaxDefinitionLevel()), uint8(s.descr.MaxRepetitionLevel())
	s.next = p.First
	var r chunk.Reader
	if err := r.Open(&c, p.Data, p.Meta); err != nil {
		return err
	}
	var v chunk.Vector
	for s.next < s.rows.To {
		page, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := r.Decode(page, &v); err != nil {
			return err
		}
		if err := s.vector(&c, &v); err != nil {
			return err
		}
	}
	if c.MaxRep > 0 && s.next < s.rows.To {
		if err := s.carry(&column.Batch{}, true); err != nil {
			return err
		}
	}
	return s.ended()
}

// vector takes a decoded page.
func (s *scanner) vector(c *chunk.Column, v *chunk.Vector) error {
	b := column.Batch{Levels: v.Entries, Rows: v.Rows}
	for _, d := range v.Def {
		b.Def = append(b.Def, int16(d))
	}
	for _, r := range v.Rep {
		b.Rep = append(b.Rep, int16(r))
	}
	plain := v.Plain
	switch {
	case v.Dictionary != nil:
		var err error
		if plain, err = v.Dictionary.Expand(nil, v.Indices); err != nil {
			return err
		}
	case c.MaxRep > 0:
		plain = slices.Clone(plain) // The last row may end in the next page, which is decoded into the same memory.
	}
	if err := b.SetPlain(c.Type, c.Width, plain, v.Values); err != nil {
		return err
	}
	if err := s.checked(&b); err != nil {
		return err
	}
	if c.MaxRep > 0 {
		return s.carry(&b, false)
	}
	return s.emit(&b)
}
