package source

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/pierrec/lz4/v4"

	"firn/internal/parquet/column"
	"firn/internal/store"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// example is a file of three row groups: a long, a string, and a list of int whose rows span pages.
func example(tb testing.TB) []byte {
	tb.Helper()
	element := schema.Must(schema.NewGroupNode("list", parquet.Repetitions.Repeated,
		schema.FieldList{schema.NewInt32Node("element", parquet.Repetitions.Optional, 4)}, -1))
	list := schema.Must(schema.NewGroupNodeLogical("l", parquet.Repetitions.Optional, schema.FieldList{element}, schema.NewListLogicalType(), 3))
	root, err := schema.NewGroupNode("r", parquet.Repetitions.Required, schema.FieldList{
		schema.NewInt64Node("a", parquet.Repetitions.Required, 1), schema.NewByteArrayNode("s", parquet.Repetitions.Optional, 2), list,
	}, -1)
	must(tb, err)
	var buf bytes.Buffer
	w := file.NewParquetWriter(&buf, root, file.WithWriterProps(parquet.NewWriterProperties(parquet.WithDataPageSize(200), parquet.WithBatchSize(7),
		parquet.WithDictionaryDefault(false))))
	for g := range 3 {
		rg, err := w.AppendRowGroupChecked()
		must(tb, err)
		var longs []int64
		var texts []parquet.ByteArray
		var ints []int32
		var def, listDef, rep []int16
		for i := range 100 {
			longs = append(longs, int64(100*g+i))
			def = append(def, int16(i%2))
			if i%2 == 1 {
				texts = append(texts, []byte(fmt.Sprint("text ", i)))
			}
			for e := range i % 20 {
				listDef, rep = append(listDef, 3), append(rep, int16(min(e, 1)))
				ints = append(ints, int32(e))
			}
			if i%20 == 0 {
				listDef, rep = append(listDef, 1), append(rep, 0)
			}
		}
		c, err := rg.NextColumn()
		must(tb, err)
		_, err = c.(*file.Int64ColumnChunkWriter).WriteBatch(longs, nil, nil)
		must(tb, err)
		c, err = rg.NextColumn()
		must(tb, err)
		_, err = c.(*file.ByteArrayColumnChunkWriter).WriteBatch(texts, def, nil)
		must(tb, err)
		c, err = rg.NextColumn()
		must(tb, err)
		_, err = c.(*file.Int32ColumnChunkWriter).WriteBatch(ints, listDef, rep)
		must(tb, err)
	}
	must(tb, w.Close())
	return buf.Bytes()
}

// text spells rows of a column: definition levels, repetition levels, values.
func text(tb testing.TB, f *File, col int, rows column.Run) [3]string {
	tb.Helper()
	var out [3]string
	next := rows.From
	for g, group := range f.Groups {
		part := column.Run{From: max(rows.From, group.First), To: min(rows.To, group.First+group.Rows)}
		if part.From >= part.To {
			continue
		}
		must(tb, f.Scan(g, col, part, func(b *column.Batch) error {
			if b.First != next {
				tb.Fatalf("a batch begins at row %d, want %d", b.First, next)
			}
			next += int64(b.Rows)
			for _, d := range b.Def {
				out[0] += fmt.Sprint(d, " ")
			}
			for _, r := range b.Rep {
				out[1] += fmt.Sprint(r, " ")
			}
			for i := range b.Len() {
				v := b.Slice(i, i+1)
				out[2] += fmt.Sprint(v.Int64, v.Int32, string(bytes.Join(toBytes(v.Bytes), nil)))
			}
			return nil
		}))
	}
	if next != rows.To {
		tb.Fatalf("rows %d to %d: ended at %d", rows.From, rows.To, next)
	}
	return out
}

func toBytes(values []parquet.ByteArray) [][]byte {
	var out [][]byte
	for _, v := range values {
		out = append(out, v)
	}
	return out
}

// TestWholeAndRanged: a file that is fetched whole and one that is read by ranges give the same rows, also from the middle of row groups; the
// whole one costs one request.
func TestWholeAndRanged(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	data := example(t)
	mem := store.NewMemory(time.Now)
	must(t, mem.Put(ctx, "mem://b/f", data, store.WriteOptions{}))
	counted := store.NewFaults(mem)
	whole, err := Open(ctx, counted, "mem://b/f", Options{SizeBytes: int64(len(data)), WholeBelowBytes: 1 << 20})
	must(t, err)
	ranged, err := Open(ctx, mem, "mem://b/f", Options{SizeBytes: int64(len(data))})
	must(t, err)
	if whole.Rows != 300 || len(whole.Groups) != 3 || whole.Groups[2].First != 200 {
		t.Fatalf("%d rows, groups %+v", whole.Rows, whole.Groups)
	}
	for col := range 3 {
		all := text(t, whole, col, column.Run{To: 300})
		if got := text(t, ranged, col, column.Run{To: 300}); got != all {
			t.Errorf("column %d: ranged reads differ", col)
		}
		for _, cut := range []int64{1, 99, 100, 101, 157, 299} {
			first, rest := text(t, ranged, col, column.Run{To: cut}), text(t, whole, col, column.Run{From: cut, To: 300})
			if [3]string{first[0] + rest[0], first[1] + rest[1], first[2] + rest[2]} != all {
				t.Errorf("column %d: cut at %d differs", col, cut)
			}
		}
	}
	if calls := counted.Calls(); len(calls) != 1 {
		t.Errorf("the whole file cost %d requests", len(calls))
	}
}

// TestStorageErrorsAreNotCorruption: a broken connection in the middle of a column is the storage's error, to be tried again.
func TestStorageErrorsAreNotCorruption(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	data := example(t)
	mem := store.NewMemory(time.Now)
	must(t, mem.Put(ctx, "mem://b/f", data, store.WriteOptions{}))
	st := store.NewFaults(mem)
	f, err := Open(ctx, st, "mem://b/f", Options{SizeBytes: int64(len(data))})
	must(t, err)
	f.objects.drop()
	st.Add(store.Rule{Operation: store.OpGetRange, Err: store.ErrTransient})
	err = f.Scan(0, 0, column.Run{To: 100}, func(*column.Batch) error { return nil })
	if !errors.Is(err, store.ErrTransient) || errors.Is(err, ErrUnreadable) {
		t.Errorf("error %v", err)
	}
}

// TestConsumerErrors: what the consumer says, and its panics, are its own.
func TestConsumerErrors(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	data := example(t)
	st := store.NewMemory(time.Now)
	must(t, st.Put(ctx, "mem://b/f", data, store.WriteOptions{}))
	f, err := Open(ctx, st, "mem://b/f", Options{SizeBytes: int64(len(data)), WholeBelowBytes: 1 << 20})
	must(t, err)
	own := errors.New("own")
	if err := f.Scan(0, 0, column.Run{To: 100}, func(*column.Batch) error { return own }); !errors.Is(err, own) || errors.Is(err, ErrUnreadable) {
		t.Errorf("error %v", err)
	}
	defer func() {
		if r := recover(); r != "mine" {
			t.Errorf("recovered %v", r)
		}
	}()
	_ = f.Scan(0, 0, column.Run{To: 100}, func(*column.Batch) error { panic("mine") })
}

// FuzzOpen: a damaged file ends in an error or in rows, never in a panic or a row too many; a kilobyte never takes 100 MB.
func FuzzOpen(f *testing.F) {
	f.Add(example(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		defer func() {
			if runtime.ReadMemStats(&after); len(data) <= 1024 && after.TotalAlloc-before.TotalAlloc > 100<<20 {
				t.Errorf("%d bytes made it allocate %d", len(data), after.TotalAlloc-before.TotalAlloc)
			}
		}()
		ctx := context.Background()
		st := store.NewMemory(time.Now)
		must(t, st.Put(ctx, "mem://b/f", data, store.WriteOptions{}))
		file, err := Open(ctx, st, "mem://b/f", Options{SizeBytes: int64(len(data)), WholeBelowBytes: 1 << 30})
		if err != nil {
			if !errors.Is(err, ErrUnreadable) {
				t.Fatal(err)
			}
			return
		}
		for g, group := range file.Groups {
			for c := range file.Schema.NumColumns() {
				rows := int64(0)
				err := file.Scan(g, c, column.Run{From: group.First, To: group.First + group.Rows}, func(b *column.Batch) error {
					rows += int64(b.Rows)
					return nil
				})
				if err == nil && rows != group.Rows {
					t.Fatalf("%d rows of %d without an error", rows, group.Rows)
				}
			}
		}
	})
}

// TestHadoopLZ4 reads frames of one and several blocks, bare blocks, and refuses damage.
func TestHadoopLZ4(t *testing.T) {
	t.Parallel()
	page := bytes.Repeat([]byte("some text that compresses well, "), 100)
	pack := func(b []byte) []byte {
		out := make([]byte, lz4.CompressBlockBound(len(b)))
		n, err := lz4.CompressBlock(b, out, nil)
		must(t, err)
		return out[:n]
	}
	size := func(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	half := len(page) / 2
	a, b, whole := pack(page[:half]), pack(page[half:]), pack(page)
	for name, c := range map[string]struct {
		data []byte
		good bool
	}{
		"one frame":                  {hadoopLZ4{}.Encode(nil, page), true},
		"two frames":                 {join(size(half), size(len(a)), a, size(len(page)-half), size(len(b)), b), true},
		"two blocks in one frame":    {join(size(len(page)), size(len(a)), a, size(len(b)), b), true},
		"bare block":                 {whole, true},
		"cut":                        {join(size(len(page)), size(len(a)), a), false},
		"block longer than the data": {join(size(len(page)), size(len(whole)+9), whole), false},
		"too short":                  {join(size(half), size(len(a)), a), false},
		"nothing":                    {nil, false},
	} {
		dst, err := hadoopLZ4{}.DecodeWithError(make([]byte, len(page)), c.data)
		if (err == nil) != c.good || (c.good && !bytes.Equal(dst, page)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
