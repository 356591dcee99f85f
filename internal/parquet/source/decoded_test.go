package source

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	parquetgo "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"firn/internal/parquet/column"
	"firn/internal/store"
)

// TestScanOfWhatArrowLacks reads values of fixed length with DELTA_BYTE_ARRAY, as parquet-java writes decimals, and brotli pages, some without values:
// flat and in lists, whole files and ranges of rows.
func TestScanOfWhatArrowLacks(t *testing.T) {
	t.Parallel()
	fixed := parquetgo.Encoded(parquetgo.Leaf(parquetgo.FixedLenByteArrayType(11)), &parquetgo.DeltaByteArray)
	const rows = 1000
	for _, codec := range []compress.Codec{&parquetgo.Uncompressed, &parquetgo.Zstd, &parquetgo.Brotli} {
		for _, version := range []int{1, 2} {
			var file bytes.Buffer
			w := parquetgo.NewWriter(&file, parquetgo.NewSchema("t", parquetgo.Group{"a": parquetgo.Optional(fixed), "b": parquetgo.List(fixed)}),
				parquetgo.Compression(codec), parquetgo.DataPageVersion(version), parquetgo.PageBufferSize(1000))
			var flat, listed []string
			for i := range rows {
				value := binary.BigEndian.AppendUint64(make([]byte, 3), uint64(i))
				a, b := parquetgo.ValueOf(nil).Level(0, 0, 0), parquetgo.ValueOf(value).Level(0, 1, 1)
				if i%3 == 0 || i/200 == 2 {
					flat = append(flat, "null")
				} else {
					a = parquetgo.ValueOf(value).Level(0, 1, 0)
					flat = append(flat, fmt.Sprintf("%x", value))
				}
				row := parquetgo.Row{a, b, b.Level(1, 1, 1)}
				listed = append(listed, fmt.Sprintf("%x %x", value, value))
				_, err := w.WriteRows([]parquetgo.Row{row})
				must(t, err)
			}
			must(t, w.Close())
			for _, whole := range []int64{0, 1 << 20} {
				got := [2][]string{}
				for col := range 2 {
					got[col] = append(scanTexts(t, file.Bytes(), whole, col, column.Run{To: 300}), scanTexts(t, file.Bytes(), whole, col, column.Run{From: 300, To: rows})...)
				}
				for col, want := range [][]string{flat, listed} {
					if !slices.Equal(got[col], want) {
						t.Errorf("%s, pages of version %d, held below %d, column %d: %d rows %q, want %q", codec, version, whole, col, len(got[col]), got[col][:4], want[:4])
					}
				}
			}
		}
	}
}

// scanTexts spells the rows of a column.
func scanTexts(t *testing.T, data []byte, whole int64, col int, rows column.Run) (out []string) {
	t.Helper()
	st := store.NewMemory(time.Now)
	must(t, st.Put(context.Background(), "mem://t/f", data, store.WriteOptions{}))
	f, err := Open(context.Background(), st, "mem://t/f", Options{SizeBytes: int64(len(data)), WholeBelowBytes: whole})
	must(t, err)
	defer f.Close()
	top := f.Schema.Column(col).MaxDefinitionLevel()
	must(t, f.Scan(0, col, rows, func(b *column.Batch) error {
		v := 0
		for i := range b.Levels {
			text := "null"
			if b.Def[i] == top {
				text = fmt.Sprintf("%x", []byte(b.Fixed[v]))
				v++
			}
			if len(b.Rep) > 0 && b.Rep[i] > 0 {
				out[len(out)-1] += " " + text
			} else {
				out = append(out, text)
			}
		}
		return nil
	}))
	return out
}
