package avro

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

const longs = `{"type":"record","name":"r","fields":[{"name":"n","type":"long","field-id":7},{"name":"s","type":["null","string"],"field-id":8}]}`

// container puts blocks of packed bytes into a file.
func container(codec string, blocks ...[]byte) []byte {
	out := AppendLong([]byte(magic), 2)
	out = AppendBytes(AppendBytes(out, "avro.schema"), longs)
	out = append(AppendBytes(AppendBytes(out, "avro.codec"), codec), 0)
	sync := []byte("0123456789abcdef")
	out = append(out, sync...)
	for _, b := range blocks {
		out = append(AppendBytes(AppendLong(out, 2), b), sync...)
	}
	return out
}

// two are two records.
func two(n int64) []byte {
	return AppendLong(append(AppendBytes(append(AppendLong(nil, n), 2), "text"), AppendLong(nil, n+1)...), 0)
}

func pack(t testing.TB, codec string, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	switch codec {
	case "null":
		return data
	case "snappy":
		return binary.BigEndian.AppendUint32(snappy.Encode(nil, data), crc32.ChecksumIEEE(data))
	case "deflate":
		f, err := flate.NewWriter(&out, 9)
		if err != nil {
			t.Fatal(err)
		}
		w = f
	case "zstandard":
		z, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		w = z
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// sum reads all records of a file.
func sum(r *Reader) (total int64, err error) {
	schema, err := ParseSchema(r.Schema())
	if err != nil {
		return 0, err
	}
	if schema.Kind != Record || len(schema.Fields) != 2 {
		return 0, fmt.Errorf("a schema of another kind: %w", ErrUnsupported)
	}
	for {
		count, data, err := r.Block()
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		c := Cursor{Data: data}
		for ; count > 0 && c.Err == nil; count-- {
			total += c.Long()
			c.Skip(schema.Fields[1].Type)
		}
		if c.Err != nil {
			return total, c.Err
		}
		if c.At != len(data) {
			return total, fmt.Errorf("%d bytes are left: %w", len(data)-c.At, ErrCorrupt)
		}
	}
}

func TestEveryCodecIsRead(t *testing.T) {
	t.Parallel()
	pool := &Pool{}
	for _, codec := range []string{"null", "deflate", "snappy", "zstandard"} {
		file := container(codec, pack(t, codec, two(1)), pack(t, codec, two(10)))
		for round := range 3 {
			r, err := pool.Open(file)
			if round == 2 {
				r, err = pool.OpenStream(iotest.OneByteReader(bytes.NewReader(file)))
			}
			if err != nil {
				t.Fatalf("%s: %v", codec, err)
			}
			total, err := sum(r)
			r.Close()
			if err != nil || total != 1+2+10+11 {
				t.Errorf("%s: sum %d, error %v", codec, total, err)
			}
		}
	}
}

// TestEveryCutIsAFault cuts a file at every byte: a file that lost its end inside a block never reads as a shorter one.
func TestEveryCutIsAFault(t *testing.T) {
	t.Parallel()
	first := len(container("deflate", pack(t, "deflate", two(1))))
	file := container("deflate", pack(t, "deflate", two(1)), pack(t, "deflate", two(10)))
	for n := range file {
		r, err := (*Pool)(nil).Open(file[:n])
		if err == nil {
			_, err = sum(r)
		}
		border := n == first || n == len(container("deflate"))
		if border != (err == nil) || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("cut at %d of %d: error %v", n, len(file), err)
		}
	}
}

func TestBrokenFilesAreRefused(t *testing.T) {
	t.Parallel()
	good := container("snappy", pack(t, "snappy", two(1)))
	wrongSum := bytes.Clone(good)
	wrongSum[len(wrongSum)-17] ^= 1
	wrongSync := bytes.Clone(good)
	wrongSync[len(wrongSync)-1] ^= 1
	for name, c := range map[string]struct {
		file []byte
		want string
		is   error
	}{
		"empty":            {nil, "read header", ErrCorrupt},
		"other magic":      {[]byte("PAR1aaaaaaaaaaaaaaaaaaaaa"), `begin with "Obj\x01"`, ErrCorrupt},
		"checksum":         {wrongSum, "block 0: the checksum", ErrCorrupt},
		"sync":             {wrongSync, "block 0: the sync marker", ErrCorrupt},
		"codec":            {container("bzip2"), `codec "bzip2"`, ErrUnsupported},
		"broken deflate":   {container("deflate", []byte{0xff, 0xff}), "block 0", ErrCorrupt},
		"negative length":  {append(container("null"), AppendLong(AppendLong(nil, 1), -1)...), "block 0: 1 values in -1", ErrCorrupt},
		"bytes are absent": {append(container("null"), AppendLong(AppendLong(nil, 1), 1<<30)...), "block 0", ErrCorrupt},
	} {
		r, err := (*Pool)(nil).Open(c.file)
		if err == nil {
			_, err = sum(r)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, c.is) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// TestSmallFilesAllocateLittle: nothing that a file of a kilobyte says makes the reader allocate 100 MB, packed data that grows on purpose least of
// all.
func TestSmallFilesAllocateLittle(t *testing.T) {
	t.Parallel()
	zeros := make([]byte, 200<<20)
	bomb := pack(t, "zstandard", zeros)
	manyItems := AppendLong(nil, 1<<62)
	for name, file := range map[string][]byte{
		"zstandard": container("zstandard", bomb),
		"deflate":   container("deflate", pack(t, "deflate", zeros[:1<<20])),
		"snappy":    container("snappy", append(binary.AppendUvarint(nil, 1<<32-1), 0, 0, 0, 0, 0)),
		"header":    append([]byte(magic), AppendLong(AppendLong(nil, 1), 1<<40)...),
		"text":      container("null", append(AppendLong(nil, 1), append([]byte{2}, AppendLong(nil, 1<<40)...)...)),
		"items":     container("null", manyItems),
	} {
		for _, stream := range []bool{false, true} {
			got := allocated(func() {
				r, err := (*Pool)(nil).Open(file)
				if stream {
					r, err = (*Pool)(nil).OpenStream(bytes.NewReader(file))
				}
				if err == nil {
					_, err = sum(r)
				}
				if err == nil {
					t.Errorf("%s: no error", name)
				}
			})
			if got > 100<<20 {
				t.Errorf("%s: %d bytes allocated for a file of %d", name, got, len(file))
			}
		}
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestSchemasAreRefused(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"type":"array","items":`, 40) + `"int"` + strings.Repeat("}", 40)
	for text, want := range map[string]string{
		`{"type":"record","name":"r","fields":[{"name":"x","type":["null","r"]}]}`: "holds itself",
		`{"type":"record","name":"r"}`:                                             "no fields",
		`"nothing"`:                                                                "not defined",
		`["null",["int"]]`:                                                         "a union in a union",
		`[]`:                                                                       "empty union",
		`{"type":"fixed","name":"f"}`:                                              "of size",
		`{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"fixed","name":"f","size":1}},{"name":"b","type":{"type":"fixed","name":"f","size":2}}]}`: "defined twice",
		deep: "deeper",
		`{`:  "parse schema",
	} {
		if _, err := ParseSchema([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: error %v, want %q", text, err, want)
		}
	}
}

// TestSkipOverEmptyItems: items without bytes, however many, take no time.
func TestSkipOverEmptyItems(t *testing.T) {
	t.Parallel()
	schema, err := ParseSchema([]byte(`{"type":"array","items":{"type":"record","name":"e","fields":[{"name":"n","type":"null"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	c := Cursor{Data: append(AppendLong(nil, 1<<62), 0)}
	c.Skip(schema)
	if c.Err != nil || c.At != len(c.Data) {
		t.Errorf("read %d of %d, error %v", c.At, len(c.Data), c.Err)
	}
}

// TestSchemaIsWrittenAsItIsRead sends a schema with every kind of type that Iceberg writes through text and back.
func TestSchemaIsWrittenAsItIsRead(t *testing.T) {
	t.Parallel()
	fixed := NewOptional(NewDecimal(4, 9, 2))
	schema := NewRecord("r",
		Field{"n", 1, Scalar(Long)}, Field{"o", 2, NewOptional(Scalar(String))}, Field{"d", 3, fixed}, Field{"again", 4, fixed},
		Field{"u", 5, NewFixed("uuid_fixed", 16, "uuid")}, Field{"t", 6, Instant("timestamp-micros", true)},
		Field{"m", 7, NewPairs("k1_v2", Field{"key", 1, Scalar(Int)}, Field{"value", 2, Scalar(Bytes)})}, Field{"l", 8, NewList(Scalar(Int), 9)},
		Field{"a b", 10, Whole(Int, "date")})
	text, err := schema.Schema()
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParseSchema(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for i, f := range back.Fields {
		want := schema.Fields[i]
		if f.ID != want.ID || f.Type.Kind != want.Type.Kind || f.Type.Logical != want.Type.Logical || f.Name != Name(want.Name) {
			t.Errorf("field %s came back as %+v", want.Name, f)
		}
	}
	for _, want := range []string{
		`"name":"decimal_9_2","logicalType":"decimal","size":4,"precision":9,"scale":2`, `["null","decimal_9_2"]`,
		`"name":"a_x20b","iceberg-field-name":"a b"`, `"adjust-to-utc":true`, `"element-id":9`, `"default":null`, `"logicalType":"map"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, codec := range []string{"null", "deflate", "snappy", "zstandard"} {
		f.Add(container(codec, pack(f, codec, two(1))))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		whole, wholeErr := (*Pool)(nil).Open(data)
		stream, streamErr := (*Pool)(nil).OpenStream(bytes.NewReader(data))
		if (wholeErr == nil) != (streamErr == nil) {
			t.Fatalf("in memory %v, as a stream %v", wholeErr, streamErr)
		}
		if wholeErr != nil {
			return
		}
		a, aErr := sum(whole)
		b, bErr := sum(stream)
		if a != b || (aErr == nil) != (bErr == nil) {
			t.Fatalf("in memory %d, %v; as a stream %d, %v", a, aErr, b, bErr)
		}
	})
}

// Numbers that are skipped by their last bytes are skipped as they are read, whatever their lengths; what does not end is found.
func TestSkipNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	pairs := NewList(NewRecord("r", Field{Name: "key", Type: Scalar(Int)}, Field{Name: "value", Type: Scalar(Long)}), 1)
	for range 2000 {
		var data []byte
		n := rng.IntN(20)
		if n > 0 {
			data = AppendLong(data, int64(n))
		}
		for range 2 * n {
			data = AppendLong(data, int64(rng.Uint64()>>rng.IntN(64)))
		}
		end := len(data) + 1
		data = append(AppendLong(data, 0), 0x85, 0x85, 3)
		c := Cursor{Data: data}
		if c.Skip(pairs); c.Err != nil || c.At != end {
			t.Fatalf("%x: at %d, error %v, want %d", data, c.At, c.Err, end)
		}
		c = Cursor{Data: data[:rng.IntN(end)]}
		if c.Skip(pairs); !errors.Is(c.Err, ErrCorrupt) {
			t.Fatalf("%x of %d bytes: error %v", c.Data, end, c.Err)
		}
	}
}
