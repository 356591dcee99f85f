package pages_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/iceberg-go"
	parquetgo "github.com/parquet-go/parquet-go"

	"firn/internal/compact/engine"
	"firn/internal/compact/pages"
	"firn/internal/parquet/column"
	"firn/internal/parquet/footer"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/source"
	"firn/internal/store"
)

// writers are ways to write the same rows.
func writers() map[string][]parquet.WriterProperty {
	small := []parquet.WriterProperty{parquet.WithDataPageSize(2000), parquet.WithBatchSize(50)}
	with := func(p ...parquet.WriterProperty) []parquet.WriterProperty {
		return append(append([]parquet.WriterProperty{}, small...), p...)
	}
	v2 := parquet.WithDataPageVersion(parquet.DataPageV2)
	index := parquet.WithPageIndexEnabled(true)
	plain := parquet.WithDictionaryDefault(false)
	return map[string][]parquet.WriterProperty{
		"dictionary v1":       with(),
		"dictionary v2":       with(v2),
		"dictionary v1 index": with(index),
		"dictionary v2 index": with(v2, index),
		"plain v1":            with(plain),
		"plain v2 index":      with(plain, v2, index),
		"plain v1 index":      with(plain, index),
		"fallback v1 index":   with(parquet.WithDictionaryPageSizeLimit(600), index),
		"fallback v2":         with(parquet.WithDictionaryPageSizeLimit(600), v2),
		"one page":            {index},
		"delta": with(plain, index, parquet.WithEncodingFor("id", parquet.Encodings.DeltaBinaryPacked),
			parquet.WithEncodingFor("payload", parquet.Encodings.DeltaByteArray), parquet.WithEncodingFor("country", parquet.Encodings.DeltaLengthByteArray)),
		"no statistics": with(parquet.WithStats(false)),
	}
}

func codecs() map[string]compress.Compression {
	return map[string]compress.Compression{
		"zstd": compress.Codecs.Zstd, "snappy": compress.Codecs.Snappy, "gzip": compress.Codecs.Gzip, "uncompressed": compress.Codecs.Uncompressed,
		"lz4_raw": compress.Codecs.Lz4Raw,
	}
}

// TestMatrix merges files of every writer and codec, and all writers' files together, and compares the outputs with the inputs: values and levels
// read with arrow-go and parquet-go, rows of the row map, statistics of chunks and pages with the values themselves.
func TestMatrix(t *testing.T) {
	t.Parallel()
	for codec, number := range codecs() {
		t.Run(codec, func(t *testing.T) {
			t.Parallel()
			var all [][]parquet.WriterProperty
			for name, props := range writers() {
				props = append(props, parquet.WithCompression(number))
				all = append(all, props)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					merge(t, codec, nil, pages.Limits{}, props, props, props)
				})
			}
			t.Run("mixed", func(t *testing.T) {
				t.Parallel()
				merge(t, codec, nil, pages.Limits{HeldBytes: 30_000}, all...)
			})
			t.Run("dictionary too large", func(t *testing.T) {
				t.Parallel()
				merge(t, codec, map[string]string{"write.parquet.dict-size-bytes": "450"}, pages.Limits{}, all...)
			})
			t.Run("row groups and outputs", func(t *testing.T) {
				t.Parallel()
				merge(t, codec, map[string]string{"write.parquet.row-group-size-bytes": "60000", "max": "180000"}, pages.Limits{HeldBytes: 1}, all...)
			})
		})
	}
}

func merge(t *testing.T, codec string, more map[string]string, limits pages.Limits, files ...[]parquet.WriterProperty) {
	t.Helper()
	props := map[string]string{"write.parquet.compression-codec": codec}
	maps.Copy(props, more)
	w := newWorld(t, schema(), props)
	if _, err := fmt.Sscan(props["max"], &w.job.MaxOutputFileSizeBytes); err != nil {
		w.job.MaxOutputFileSizeBytes = 512 << 20
	}
	rng := rand.New(rand.NewPCG(7, 8))
	for i, p := range files {
		groups := [][]column.Batch{generate(w.layout, rng, 250+i*10, i)}
		rows := groups[0][0].Rows
		if i%2 == 1 {
			groups = append(groups, generate(w.layout, rng, 300, i+1))
			rows += 300
		}
		w.add(encode(t, w.layout, groups, p...), int64(rows))
	}
	result, err := w.rewrite(limits)
	must(t, err)
	if result.Name != "pages" {
		t.Fatal(result.Name)
	}
	if props["max"] != "" && len(result.Outputs) < 2 {
		t.Errorf("%d outputs", len(result.Outputs))
	}
	compareRows(t, w, result)
	for _, f := range result.Outputs {
		checkStatistics(t, w, f)
	}
}

// piece is a run of rows of a file.
type piece struct {
	path string
	column.Run
}

// compareRows compares the outputs with the inputs in the order in which the row map says that rows went out.
func compareRows(t *testing.T, w *world, result engine.Result) {
	t.Helper()
	var out []piece
	in := make([][]piece, len(result.Outputs))
	for i, s := range result.RowMap.Sources {
		next := int64(0)
		for _, r := range s.Ranges {
			if r.First != next {
				t.Errorf("row map of input %d: %+v", i, s.Ranges)
			}
			next += r.Count
			in[r.Output] = append(in[r.Output], piece{s.Path, column.Run{From: r.First, To: r.First + r.Count}})
		}
		if next != w.job.Inputs[i].Count() || s.Path != w.job.Inputs[i].FilePath() {
			t.Errorf("row map of input %d ends at %d", i, next)
		}
	}
	for _, f := range result.Outputs {
		out = append(out, piece{f.FilePath(), column.Run{To: f.Count()}})
	}
	ordered := true
	for i, pieces := range in {
		offsets := map[piece]int64{}
		for _, s := range result.RowMap.Sources {
			for _, r := range s.Ranges {
				if r.Output == i {
					offsets[piece{s.Path, column.Run{From: r.First, To: r.First + r.Count}}] = r.Offset
				}
			}
		}
		by := func(a, b piece) int { return cmp.Compare(offsets[a], offsets[b]) }
		ordered = ordered && slices.IsSortedFunc(pieces, by)
		slices.SortFunc(pieces, by)
		next := int64(0)
		for _, p := range pieces {
			if offsets[p] != next {
				t.Errorf("row map: rows of output %d at %d, want %d", i, offsets[p], next)
			}
			next += p.To - p.From
		}
	}
	all := slices.Concat(in...)
	for _, leaf := range w.layout.Leaves {
		if a, b := arrowText(w, leaf, all), arrowText(w, leaf, out); a != b {
			t.Errorf("column %s: arrow-go reads other values", leaf.Path)
		}
		if !ordered {
			continue // parquet-go is asked for whole files only.
		}
		if a, b := parquetText(w, leaf, all), parquetText(w, leaf, out); a != b {
			t.Errorf("column %s: parquet-go reads other values", leaf.Path)
		}
	}
}

// arrowText spells a column of pieces one after the other: levels and values.
func arrowText(w *world, leaf *layout.Leaf, pieces []piece) string {
	w.tb.Helper()
	var text strings.Builder
	for _, p := range pieces {
		data := w.get(p.path)
		f, err := source.Open(context.Background(), w.store, p.path, source.Options{SizeBytes: int64(len(data)), WholeBelowBytes: 1 << 30})
		must(w.tb, err)
		for g, group := range f.Groups {
			rows := column.Run{From: max(p.From, group.First), To: min(p.To, group.First+group.Rows)}
			if rows.From >= rows.To {
				continue
			}
			must(w.tb, f.Scan(g, leaf.Index, rows, func(b *column.Batch) error {
				v := 0
				for i := range b.Levels {
					rep := int16(0)
					if leaf.MaxRep > 0 {
						rep = b.Rep[i]
					}
					if leaf.MaxDef == 0 || b.Def[i] == leaf.MaxDef {
						fmt.Fprintf(&text, "%d %v\n", rep, spell(b.Slice(v, v+1)))
						v++
					} else {
						fmt.Fprintf(&text, "%d null %d\n", rep, b.Def[i])
					}
				}
				return nil
			}))
		}
		f.Close()
	}
	return text.String()
}

func spell(v column.Values) string {
	return fmt.Sprint(v.Bool, v.Int32, v.Int64, v.Float, v.Double, v.Bytes, v.Fixed)
}

// parquetText does the same with parquet-go. It reads RLE booleans wrongly, and some LZ4 blocks of arrow-go not at all: those are left out.
func parquetText(w *world, leaf *layout.Leaf, pieces []piece) string {
	w.tb.Helper()
	if leaf.Kind == layout.Boolean || w.job.Writer.Codec == compress.Codecs.Lz4Raw {
		return ""
	}
	var text strings.Builder
	for i, p := range pieces {
		if i > 0 && p.path == pieces[i-1].path {
			continue // The file was read as a whole.
		}
		data := w.get(p.path)
		f, err := parquetgo.OpenFile(bytes.NewReader(data), int64(len(data)))
		must(w.tb, err)
		for _, g := range f.RowGroups() {
			p := g.ColumnChunks()[leaf.Index].Pages()
			for {
				page, err := p.ReadPage()
				if errors.Is(err, io.EOF) {
					break
				}
				must(w.tb, err)
				values := make([]parquetgo.Value, page.NumValues())
				if n, err := page.Values().ReadValues(values); n != len(values) || (err != nil && !errors.Is(err, io.EOF)) {
					w.tb.Fatalf("%s: %d of %d values: %v", leaf.Path, n, len(values), err)
				}
				for _, v := range values {
					fmt.Fprintf(&text, "%d %d %s\n", v.RepetitionLevel(), v.DefinitionLevel(), v.String())
				}
			}
			must(w.tb, p.Close())
		}
	}
	return text.String()
}

// TestDamageIsRefused: damage is found, refused, and named by its place.
func TestDamageIsRefused(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	sc := iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "s", Type: iceberg.PrimitiveTypes.String},
		iceberg.NestedField{ID: 2, Name: "u", Type: iceberg.PrimitiveTypes.String})
	l, err := layout.New(sc, false)
	must(t, err)
	rows := generate(l, rng, 500, 1)
	good := encode(t, l, [][]column.Batch{rows}, parquet.WithDictionaryFor("u", false))
	refused, declined, copied := 0, 0, 0
	for at := 4; at < len(good); at += 1 + rng.IntN(11) {
		bad := bytes.Clone(good)
		bad[at] ^= byte(1 + rng.IntN(255))
		w := newWorld(t, sc, map[string]string{"write.parquet.compression-codec": "uncompressed"})
		w.add(good, 500)
		w.add(bad, 500)
		result, err := w.rewrite(pages.Limits{})
		switch {
		case err == nil:
			copied++
			for _, f := range result.Outputs {
				if f.Count() != 1000 {
					t.Fatalf("byte %d: %d rows", at, f.Count())
				}
			}
		case strings.Contains(err.Error(), "copy pages"):
			declined++
		default:
			refused++
			if !strings.Contains(err.Error(), "refused") || !strings.Contains(err.Error(), "page ") || !strings.Contains(err.Error(), "in-1.parquet: row group 0, column ") {
				// The rest is found when the output is read back, which is a fault of this run and no refusal.
				if !strings.Contains(err.Error(), "read back output") {
					t.Fatalf("byte %d: %v", at, err)
				}
			}
		}
	}
	t.Logf("%d of %d changed bytes were refused, %d declined, %d copied", refused, len(good)-4, declined, copied)
	if refused < 100 || declined < 10 {
		t.Error("damage goes unseen")
	}
}

// TestDeclined: what cannot be copied is left to the other engine, with the reason, before anything is written.
func TestDeclined(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	zstd := parquet.WithCompression(compress.Codecs.Zstd)
	for reason, change := range map[string]func(w *world, l *pages.Limits){
		"rows go to other partitions":     func(w *world, _ *pages.Limits) { w.job.Repartition = true },
		"the table has a sort order":      func(w *world, _ *pages.Limits) { w.job.Sorted = true },
		"asks for a bloom filter":         func(w *world, _ *pages.Limits) { w.job.Writer.Bloom = map[int]float64{0: 0.1} },
		"is compressed with ZSTD":         func(w *world, _ *pages.Limits) { w.job.Writer.Codec = compress.Codecs.Snappy },
		"most pages are small":            func(_ *world, l *pages.Limits) { l.FullPageRows = 1000 },
		"has a chunk of":                  func(_ *world, l *pages.Limits) { l.ChunkBytes = 100 },
		"rows are deleted":                func(w *world, _ *pages.Limits) { w.job.Inputs[0].Mask = roaring64.BitmapOf(7) },
		"the manifest entry 501":          func(w *world, _ *pages.Limits) { w.add(w.get(w.job.Inputs[0].FilePath()), 501) },
		"the Parquet magic is missing":    func(w *world, _ *pages.Limits) { w.add([]byte("no Parquet file at all"), 500) },
		"column country has to be conver": func(w *world, _ *pages.Limits) { other(w, 99, "country", iceberg.PrimitiveTypes.String) },
		"cannot be read as string":        func(w *world, _ *pages.Limits) { other(w, 2, "country", iceberg.PrimitiveTypes.Bool) },
		"row groups of ZSTD and of SNAPPY": func(w *world, _ *pages.Limits) {
			w.job.Writer.RowGroupBytes = 1000
			w.add(encode(t, w.layout, [][]column.Batch{generate(w.layout, rng, 500, 1)}, parquet.WithCompression(compress.Codecs.Snappy)), 500)
		},
		"has a bloom filter": func(w *world, _ *pages.Limits) {
			w.add(encode(t, w.layout, [][]column.Batch{generate(w.layout, rng, 500, 1)}, zstd, parquet.WithBloomFilterEnabledFor("id", true)), 500)
		},
	} {
		w := newWorld(t, schema(), nil)
		w.add(encode(t, w.layout, [][]column.Batch{generate(w.layout, rng, 500, 1)}, zstd), 500)
		limits := pages.Limits{}
		change(w, &limits)
		_, err := w.rewrite(limits)
		if !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%v: want %q in it", err, reason)
		}
		for _, err := range w.store.List(context.Background(), "mem://t/data/00000", store.ListOptions{}) {
			t.Errorf("%s: something was written (%v)", reason, err)
		}
	}
}

// other adds a file in which column country has another field ID or type.
func other(w *world, id int, name string, typ iceberg.Type) {
	fields := slices.Clone(schema().Fields())
	fields[1] = iceberg.NestedField{ID: id, Name: name, Type: typ}
	l, err := layout.New(iceberg.NewSchema(0, fields...), false)
	must(w.tb, err)
	rows := generate(l, rand.New(rand.NewPCG(3, 4)), 500, 1)
	w.add(encode(w.tb, l, [][]column.Batch{rows}, parquet.WithCompression(compress.Codecs.Zstd)), 500)
}

// TestChecksums: pages that were made anew carry a checksum, so that no changed byte of them gets through again.
func TestChecksums(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	sc := iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "s", Type: iceberg.PrimitiveTypes.String})
	props := map[string]string{"write.parquet.compression-codec": "uncompressed"}
	w := newWorld(t, sc, props)
	for kind := range 2 {
		w.add(encode(t, w.layout, [][]column.Batch{generate(w.layout, rng, 500, 5*kind)}), 500)
	}
	result, err := w.rewrite(pages.Limits{})
	must(t, err)
	made := w.get(result.Outputs[0].FilePath())
	n, err := footer.Length(made, int64(len(made)))
	must(t, err)
	f, err := footer.DecodeFile(made[int64(len(made))-footer.TrailerBytes-n:])
	must(t, err)
	offset, length := f.RowGroups()[0].Columns()[0].Metadata().Span()
	for range 50 {
		at := offset + rng.Int64N(length)
		bad := bytes.Clone(made)
		bad[at] ^= 0x10
		again := newWorld(t, sc, props)
		again.add(bad, 1000)
		if _, err := again.rewrite(pages.Limits{}); err == nil && inBody(t, made, offset, at) {
			t.Errorf("byte %d of a page was changed unseen", at)
		}
	}
}

// inBody says whether a byte lies in the body of a page that has a checksum.
func inBody(t *testing.T, data []byte, offset, at int64) bool {
	t.Helper()
	for {
		p, err := footer.DecodePage(data[offset:])
		must(t, err)
		body := offset + int64(p.Length)
		if end := body + p.CompressedBody(); at < end {
			_, checked := p.CRC()
			return checked && at >= body
		}
		offset = body + p.CompressedBody()
	}
}
