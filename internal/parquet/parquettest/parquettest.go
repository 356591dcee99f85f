// Package parquettest makes Parquet files for tests: rows of any schema, drawn from a seed, written by arrow-go.
package parquettest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/iceberg-go"
	"github.com/zeebo/xxh3"

	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

// Shape says what rows are like.
type Shape struct {
	Rows int
	// Kind shifts the values, so that dictionaries of files differ.
	Kind int
	// Empty leaves null what may be null.
	Empty bool
}

// Rows makes rows of all leaves. What is null, and how long lists are, is decided by a hash of row and place, so that columns of one struct or list agree.
func Rows(l *layout.Layout, rng *rand.Rand, s Shape) []column.Batch {
	out := make([]column.Batch, len(l.Leaves))
	seed := rng.Uint64()
	decide := func(place string, n uint64) int { return int(xxh3.HashStringSeed(place, seed) % n) }
	for i, leaf := range l.Leaves {
		b := &out[i]
		b.Rows = s.Rows
		entry := func(rep, def int16) {
			b.Levels++
			if leaf.MaxDef > 0 {
				b.Def = append(b.Def, def)
			}
			if leaf.MaxRep > 0 {
				b.Rep = append(b.Rep, rep)
			}
			if def == leaf.MaxDef {
				AppendValue(leaf, b, rng, s.Kind)
			}
		}
		var walk func(step int, place string, rep int16)
		walk = func(step int, place string, rep int16) {
			if step == len(leaf.Steps) {
				entry(rep, leaf.MaxDef)
				return
			}
			at := leaf.Steps[step]
			if at.Kind != layout.Entry {
				place = fmt.Sprint(place, "/", at.Field.ID)
				if at.Optional && (s.Empty || decide(place, 4) == 0) {
					entry(rep, at.Def-1)
					return
				}
				walk(step+1, place, rep)
				return
			}
			n := decide(place+"#", 4)
			if n == 0 {
				entry(rep, at.Def-1)
			}
			for e := range n {
				if e > 0 {
					rep = at.Rep
				}
				walk(step+1, fmt.Sprint(place, "#", e), rep)
			}
		}
		for row := range s.Rows {
			walk(0, fmt.Sprint(row), 0)
		}
	}
	return out
}

const microsADay = 86_400_000_000

// AppendValue draws a value of a leaf: from few for most types, so that dictionaries pay, from all for columns named payload and for int64.
func AppendValue(leaf *layout.Leaf, b *column.Batch, rng *rand.Rand, kind int) {
	low := rng.IntN(40) - 20 + 13*kind
	switch leaf.Kind {
	case layout.Boolean:
		b.Bool = append(b.Bool, rng.IntN(3) == 0)
	case layout.Int32:
		b.Int32 = append(b.Int32, int32(low))
	case layout.Int64:
		v := rng.Int64() - rng.Int64()
		switch leaf.Type.(type) {
		case iceberg.TimeType:
			v = rng.Int64N(microsADay)
		case iceberg.TimestampType, iceberg.TimestampTzType:
			v = int64(low)*microsADay + rng.Int64N(4)
		case iceberg.TimestampNsType, iceberg.TimestampTzNsType:
			v = int64(low)*microsADay*1000 + rng.Int64N(4)
		case iceberg.DecimalType:
			v = int64(low) * 1_000_003
		}
		b.Int64 = append(b.Int64, v)
	case layout.Float:
		b.Float = append(b.Float, []float32{float32(low), 0, float32(math.Copysign(0, -1))}[rng.IntN(3)])
	case layout.Double:
		b.Double = append(b.Double, []float64{float64(low), math.NaN(), math.Inf(1)}[rng.IntN(2+kind%2)])
	case layout.Fixed:
		v := make([]byte, leaf.Width)
		binary.BigEndian.PutUint32(v[leaf.Width-4:], uint32(low))
		if low < 0 {
			for i := range leaf.Width - 4 {
				v[i] = 0xff
			}
		}
		b.Fixed = append(b.Fixed, v)
	default:
		text := fmt.Sprintf("%s-%d", leaf.Path, low)
		if leaf.Path == "payload" {
			text = fmt.Sprintf("%016x-%016x", rng.Uint64(), rng.Uint64())
		}
		b.Bytes = append(b.Bytes, []byte(text))
	}
}

// Encode writes row groups with arrow-go.
func Encode(l *layout.Layout, groups [][]column.Batch, props ...parquet.WriterProperty) ([]byte, error) {
	var buf bytes.Buffer
	w := file.NewParquetWriter(&buf, l.Root, file.WithWriterProps(parquet.NewWriterProperties(props...)))
	for _, columns := range groups {
		rg, err := w.AppendRowGroupChecked()
		if err != nil {
			return nil, err
		}
		for i := range columns {
			c, err := rg.NextColumn()
			if err != nil {
				return nil, err
			}
			if err := put(c, &columns[i]); err != nil {
				return nil, fmt.Errorf("write column %s: %w", l.Leaves[i].Path, err)
			}
		}
	}
	err := w.Close()
	return buf.Bytes(), err
}

func put(c file.ColumnChunkWriter, b *column.Batch) (err error) {
	switch w := c.(type) {
	case *file.BooleanColumnChunkWriter:
		_, err = w.WriteBatch(b.Bool, b.Def, b.Rep)
	case *file.Int32ColumnChunkWriter:
		_, err = w.WriteBatch(b.Int32, b.Def, b.Rep)
	case *file.Int64ColumnChunkWriter:
		_, err = w.WriteBatch(b.Int64, b.Def, b.Rep)
	case *file.Float32ColumnChunkWriter:
		_, err = w.WriteBatch(b.Float, b.Def, b.Rep)
	case *file.Float64ColumnChunkWriter:
		_, err = w.WriteBatch(b.Double, b.Def, b.Rep)
	case *file.ByteArrayColumnChunkWriter:
		_, err = w.WriteBatch(b.Bytes, b.Def, b.Rep)
	case *file.FixedLenByteArrayColumnChunkWriter:
		_, err = w.WriteBatch(b.Fixed, b.Def, b.Rep)
	}
	return err
}

// Every gives columns an encoding.
func Every(e parquet.Encoding, columns ...string) (out []parquet.WriterProperty) {
	for _, c := range columns {
		out = append(out, parquet.WithEncodingFor(c, e))
	}
	return out
}
