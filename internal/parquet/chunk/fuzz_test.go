package chunk_test

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"

	"firn/internal/parquet/chunk"
	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
)

// mostBytes is what reading a damaged chunk of a kilobyte may allocate.
const mostBytes = 100 << 20

// FuzzReader reads any bytes as a chunk of any column: no panic, no allocation beyond reason, and what is decoded can be filtered and written.
func FuzzReader(f *testing.F) {
	all := columns()
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range all {
		for _, codec := range []encoding.Codec{encoding.Uncompressed, encoding.Snappy, encoding.Zstd} {
			compressor, err := encoding.NewCompressor(codec, 0)
			must(f, err)
			var file bytes.Buffer
			var w chunk.Writer
			must(f, w.Open(&file, 4, &all[i], chunk.Options{Compressor: compressor, PageBytes: 1 << 20, PageRows: 20, DictBytes: 1 << 20, Build: i%2 == 0}))
			must(f, w.Append(generate(&all[i], rng, 30, 5)))
			done, err := w.Close()
			must(f, err)
			f.Add(file.Bytes(), uint8(i), uint8(codec), uint16(done.Values), uint16(done.Rows))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, column, codec uint8, values, rows uint16) {
		c := all[int(column)%len(all)]
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		readAny(t, &c, data, chunk.Meta{Codec: encoding.Codec(codec % 8), Values: int64(values) << (codec / 8 % 8), Rows: int64(rows)})
		if runtime.ReadMemStats(&after); len(data) <= 1024 && after.TotalAlloc-before.TotalAlloc > mostBytes {
			t.Errorf("%d bytes made it allocate %d", len(data), after.TotalAlloc-before.TotalAlloc)
		}
	})
}

// readAny reads what it can, keeps every other row, and writes it.
func readAny(t *testing.T, c *chunk.Column, data []byte, m chunk.Meta) {
	var r chunk.Reader
	if r.Open(c, data, m) != nil {
		return
	}
	compressor, err := encoding.NewCompressor(encoding.Uncompressed, 0)
	must(t, err)
	var w chunk.Writer
	var out bytes.Buffer
	must(t, w.Open(&out, 4, c, chunk.Options{Compressor: compressor, PageBytes: 1 << 10, PageRows: 10, DictBytes: 100, Build: m.Rows%2 == 0}))
	var v, kept chunk.Vector
	for {
		p, err := r.Next()
		if err != nil {
			break
		}
		if r.Decode(p, &v) != nil {
			break
		}
		if v.Values > 1<<12 {
			continue // Writing so many would only cost time.
		}
		var spans []encoding.Span
		for i := 0; i < v.Rows; i += 2 {
			spans = append(spans, encoding.Span{From: i, To: i + 1})
		}
		must(t, v.Select(&kept, c, spans, true))
		must(t, w.Append(&kept))
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFewBytesManyValues: pages whose few bytes stand for as many values as a page may have stay below the limit, and more are refused.
func TestFewBytesManyValues(t *testing.T) {
	const most = encoding.MaxPageValues
	for _, c := range []chunk.Column{
		{Type: footer.Int64, MaxDef: 2, MaxRep: 1}, {Type: footer.Boolean, MaxDef: 2, MaxRep: 1}, {Type: footer.ByteArray},
	} {
		page := func(values int) []byte {
			var body []byte
			run := []byte{0, 0, 0, 0, 0}
			n := copy(run, appendRun(values))
			stream := append(run[:n:n], 0)
			if c.MaxRep > 0 {
				body = encoding.AppendPrefixed(body, stream)
			}
			if c.MaxDef > 0 {
				stream[len(stream)-1] = c.MaxDef
				body = encoding.AppendPrefixed(body, stream)
			}
			e := footer.RLEDictionary
			if c.Type == footer.Boolean {
				e = footer.RLE
				body = encoding.AppendPrefixed(body, append(run[:n:n], 1))
			} else {
				body = append(append(body, 1), append(run[:n:n], 0)...)
			}
			h := footer.NewDataPage(footer.PageForm{Values: values, Encoding: e, Body: len(body), CompressedBody: len(body)})
			h.Drop(footer.PageCRC)
			data := append(footer.Append(nil, h.Struct), body...)
			if c.Type == footer.Boolean {
				return data
			}
			dict := make([]byte, 8)
			d := footer.NewDictionaryPage(1, 8, 8, 0)
			if c.Type == footer.ByteArray {
				dict = append([]byte{4, 0, 0, 0}, dict[:4]...)
			}
			d.Drop(footer.PageCRC)
			return append(append(footer.Append(nil, d.Struct), dict...), data...)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var r chunk.Reader
		must(t, r.Open(&c, page(most), chunk.Meta{Values: most, Rows: -1}))
		p, err := r.Next()
		must(t, err)
		var v chunk.Vector
		must(t, r.Decode(p, &v))
		if v.Values != most {
			t.Errorf("%s: %d values", c.Type, v.Values)
		}
		if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > mostBytes {
			t.Errorf("%s: allocated %d bytes", c.Type, after.TotalAlloc-before.TotalAlloc)
		}
		must(t, r.Open(&c, page(most+1), chunk.Meta{Values: most + 1, Rows: -1}))
		if _, err := r.Next(); err == nil {
			t.Errorf("%s: more values than are allowed", c.Type)
		}
	}
}

// appendRun is the header of a run of n equal values.
func appendRun(n int) (out []byte) {
	for v := uint64(n) << 1; ; v >>= 7 {
		if v < 0x80 {
			return append(out, byte(v))
		}
		out = append(out, byte(v)|0x80)
	}
}
