package bloom_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
	parquetgo "github.com/parquet-go/parquet-go/bloom"
	"pgregory.net/rapid"

	"firn/internal/parquet/bloom"
	"firn/internal/parquet/footer"
)

func hash(n uint64) uint64 { return bloom.Hash(binary.LittleEndian.AppendUint64(nil, n)) }

// TestNoFalseNegatives: whatever was inserted is found, in a folded filter and in one that was written and read, and parquet-go finds it too.
func TestNoFalseNegatives(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		hashes := rapid.SliceOfN(rapid.Uint64(), 0, 300).Draw(t, "hashes")
		f := bloom.New(rapid.Int64Range(0, 20_000).Draw(t, "bytes"))
		for _, h := range hashes {
			f.Insert(h)
		}
		before := f.SizeBytes()
		f.Fold(rapid.Float64Range(0, 1).Draw(t, "rate"))
		again, err := bloom.Read(f.Append(nil))
		if err != nil || again.SizeBytes() != f.SizeBytes() || f.SizeBytes() > before {
			t.Fatalf("%v: %d bytes, %d before", err, f.SizeBytes(), before)
		}
		data := f.Append(nil)
		other := parquetgo.MakeSplitBlockFilter(data[len(data)-f.SizeBytes():])
		for _, h := range hashes {
			if !f.Has(h) || !again.Has(h) || !other.Check(h) {
				t.Fatalf("%x is not found: %t %t %t", h, f.Has(h), again.Has(h), other.Check(h))
			}
		}
	})
}

// TestRate: a filter that was folded has the size that the count of values asks for, and says yes no more often than it may.
func TestRate(t *testing.T) {
	t.Parallel()
	for _, n := range []uint64{1, 10, 1000, 30_000} {
		for _, rate := range []float64{0.1, 0.01, 0.001} {
			f := bloom.New(1 << 20)
			for i := range n {
				f.Insert(hash(i))
			}
			f.Fold(rate)
			if want := bloom.Bytes(int64(n), rate); int64(f.SizeBytes()) > 2*want || int64(f.SizeBytes()) < want/2 {
				t.Errorf("%d values at %v: %d bytes, want about %d", n, rate, f.SizeBytes(), want)
			}
			wrong := 0
			const tries = 100_000
			for i := range uint64(tries) {
				if f.Has(hash(n + i)) {
					wrong++
				}
			}
			if got := float64(wrong) / tries; f.Rate() > rate || got > 1.3*rate+0.0005 {
				t.Errorf("%d values at %v: rate %v, counted %v", n, rate, f.Rate(), got)
			}
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for want, got := range map[int64]int64{
		32: bloom.Bytes(0, 0.01), 2048: bloom.Bytes(1000, 0.01), 2 << 20: bloom.Bytes(1_000_000, 0.01), bloom.MaxBytes: bloom.Bytes(1<<40, 0.01),
	} {
		if want != got {
			t.Errorf("%d bytes: want %d", got, want)
		}
	}
	if n := bloom.New(100).SizeBytes(); n != 64 {
		t.Errorf("a filter of 100 bytes has %d", n)
	}
}

// TestArrowFilters: filters that arrow-go wrote are read, and have the values' hashes as they are counted here.
func TestArrowFilters(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	root := schema.MustGroup(schema.NewGroupNode("t", parquet.Repetitions.Required, schema.FieldList{
		schema.NewInt64Node("n", parquet.Repetitions.Required, 1), schema.NewByteArrayNode("s", parquet.Repetitions.Required, 2),
	}, -1))
	w := file.NewParquetWriter(&buf, root, file.WithWriterProps(parquet.NewWriterProperties(parquet.WithBloomFilterEnabled(true))))
	g, err := w.AppendRowGroupChecked()
	must(t, err)
	c, err := g.NextColumn()
	must(t, err)
	_, err = c.(*file.Int64ColumnChunkWriter).WriteBatch([]int64{1, 2, 3}, nil, nil)
	must(t, err)
	c, err = g.NextColumn()
	must(t, err)
	_, err = c.(*file.ByteArrayColumnChunkWriter).WriteBatch([]parquet.ByteArray{[]byte("a"), []byte("bb"), nil}, nil, nil)
	must(t, err)
	must(t, w.Close())
	data := buf.Bytes()
	n, err := footer.Length(data, int64(len(data)))
	must(t, err)
	f, err := footer.DecodeFile(data[int64(len(data))-n-footer.TrailerBytes:])
	must(t, err)
	for i, values := range [][][]byte{
		{binary.LittleEndian.AppendUint64(nil, 1), binary.LittleEndian.AppendUint64(nil, 3)}, {[]byte("a"), []byte("bb"), {}},
	} {
		at, length := f.RowGroups()[0].Columns()[i].Metadata().Bloom()
		size, err := bloom.Length(data[at:])
		if err != nil || size != length {
			t.Fatalf("%d bytes, the footer says %d: %v", size, length, err)
		}
		filter, err := bloom.Read(data[at : at+size])
		must(t, err)
		for _, v := range values {
			if !filter.Has(bloom.Hash(v)) {
				t.Errorf("column %d: %x is not found", i, v)
			}
		}
		if filter.Has(bloom.Hash([]byte("something else"))) {
			t.Errorf("column %d: everything is found", i)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func FuzzRead(f *testing.F) {
	filter := bloom.New(64)
	filter.Insert(hash(1))
	f.Add(filter.Append(nil))
	f.Add([]byte{0x15, 0x80, 0x80, 0x80, 0x80, 0x01, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := bloom.Length(data)
		if err == nil && n <= 0 {
			t.Fatalf("a length of %d", n)
		}
		got, err := bloom.Read(data)
		if err != nil {
			if !errors.Is(err, footer.ErrMalformed) && !errors.Is(err, bloom.ErrUnsupported) {
				t.Fatal(err)
			}
			return
		}
		got.Has(rand.Uint64())
		got.Fold(0.5)
	})
}

func BenchmarkInsert(b *testing.B) {
	f := bloom.New(1 << 20)
	v := make([]byte, 8)
	for i := range b.N {
		binary.LittleEndian.PutUint64(v, uint64(i))
		f.Insert(bloom.Hash(v))
	}
}
