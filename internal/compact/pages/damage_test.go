package pages_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/iceberg-go"

	"firn/internal/compact/pages"
	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/parquettest"
	"firn/internal/parquet/source"
)

// damaged is a file that was changed at some places, in a group with a sound one.
type damaged struct {
	*world
	good, bad []byte
	rows      int64
}

func damagedSchema(kind uint8) *iceberg.Schema {
	p := iceberg.PrimitiveTypes
	types := []iceberg.Type{p.String, p.Int64, p.Int32, p.Bool, p.Float64, iceberg.DecimalTypeOf(25, 2), &iceberg.ListType{ElementID: 9, Element: p.String}}
	return iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "c", Type: types[int(kind)%len(types)]})
}

// newDamaged writes a column in a way that seed draws, and changes some bytes.
func newDamaged(t *testing.T, seed uint64, kind uint8) *damaged {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 5))
	sc := damagedSchema(kind)
	l, err := layout.New(sc, false)
	must(t, err)
	names := []string{"uncompressed", "snappy", "zstd", "gzip", "brotli", "lz4_raw"}
	c := compress.Codecs
	codecs := []compress.Compression{c.Uncompressed, c.Snappy, c.Zstd, c.Gzip, c.Brotli, c.Lz4Raw}
	codec := max(rng.IntN(2*len(codecs))-len(codecs), 0)
	props := []parquet.WriterProperty{
		parquet.WithCompression(codecs[codec]), parquet.WithDictionaryDefault(rng.IntN(2) == 0), parquet.WithDataPageSize(int64(50 + rng.IntN(400))),
		parquet.WithBatchSize(10), parquet.WithPageIndexEnabled(rng.IntN(2) == 0), parquet.WithStats(rng.IntN(4) > 0),
	}
	if rng.IntN(2) == 0 {
		props = append(props, parquet.WithDataPageVersion(parquet.DataPageV2))
	}
	d := &damaged{rows: int64(20 + rng.IntN(100))}
	rows := parquettest.Rows(l, rng, parquettest.Shape{Rows: int(d.rows), Kind: 1})
	d.good = encode(t, l, [][]column.Batch{rows}, props...)
	d.bad = bytes.Clone(d.good)
	for range 1 + rng.IntN(2) {
		d.bad[4+rng.IntN(len(d.bad)-4)] ^= byte(1 + rng.IntN(255))
	}
	table := map[string]string{"write.parquet.compression-codec": names[codec], "write.parquet.dict-size-bytes": "400"}
	if rng.IntN(3) == 0 {
		table["write.parquet.compression-codec"] = "zstd"
	}
	d.world = newWorld(t, sc, table)
	d.mixed = true // parquet-go reads damage in its own ways.
	d.add(d.good, d.rows)
	d.add(d.bad, d.rows)
	if rng.IntN(2) == 0 {
		d.job.Inputs[1].Mask = roaring64.BitmapOf(0, 3, uint64(d.rows-1))
		d.job.Inputs[0].Mask = roaring64.BitmapOf(5, 6, 7)
	}
	return d
}

// readable says that another reader takes a whole file. A file whose column has another ID is left out: it lacks ours.
func (d *damaged) readable(path string) error {
	data := d.get(path)
	f, err := source.Open(context.Background(), d.store, path, source.Options{SizeBytes: int64(len(data)), WholeBelowBytes: 1 << 30})
	if err != nil {
		return err
	}
	if good, bad := d.open(d.job.Inputs[0].FilePath()).Schema, f.Schema; good.String() != bad.String() {
		return errors.New("another schema")
	}
	for g, group := range f.Groups {
		if err := f.Scan(g, 0, column.Run{From: group.First, To: group.First + group.Rows}, func(*column.Batch) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// play rewrites the group: it must end in an error or in the rows that other readers find in the input.
func (d *damaged) play(t *testing.T, limits pages.Limits) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	result, err := pages.New(d.store, slog.New(slog.DiscardHandler), limits, nil).Rewrite(context.Background(), d.job)
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 100<<20 {
		t.Errorf("%d bytes made it allocate %d MB", len(d.bad), (after.TotalAlloc-before.TotalAlloc)>>20)
	}
	if err != nil {
		return
	}
	want := 2 * d.rows
	for _, in := range d.job.Inputs {
		if in.Mask != nil {
			want -= int64(in.Mask.GetCardinality())
		}
	}
	rows, input := int64(0), d.readable(d.job.Inputs[1].FilePath())
	for _, f := range result.Outputs {
		rows += f.Count()
		if err := d.readable(f.FilePath()); err != nil && input == nil {
			t.Fatalf("the output cannot be read, the input can: %v", err)
		}
	}
	if input == nil {
		compareRows(t, d.world, result)
	}
	if rows != want {
		t.Errorf("%d rows, want %d", rows, want)
	}
}

// FuzzDamage changes bytes anywhere in a file: a group ends in an error or in the values that other readers find in the file, in little memory.
func FuzzDamage(f *testing.F) {
	for seed := range uint64(100) {
		f.Add(seed, uint8(seed))
	}
	f.Fuzz(func(t *testing.T, seed uint64, kind uint8) {
		newDamaged(t, seed, kind).play(t, pages.Limits{FullPageRows: 1 + int64(seed/7%2*10_000)})
	})
}
