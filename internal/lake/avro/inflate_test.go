package avro

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	fast "github.com/klauspost/compress/flate"
)

// judge unpacks with the inflater and with the library, in buffers that it keeps: a fuzzer spends its time on inputs then, not on garbage.
type judge struct {
	ours           *inflater
	library        io.ReadCloser
	in             bytes.Reader
	before, padded []byte
	want           bytes.Buffer
}

const before = "before"

// newJudge takes the standard library's reader: the faster one keeps codes of the text before when it is reset, and reads broken texts by them.
func newJudge() *judge {
	return &judge{ours: &inflater{}, library: flate.NewReader(nil), before: []byte(before)}
}

// inflated is what the library's reader makes of packed bytes.
func (j *judge) inflated(packed []byte) ([]byte, error) {
	j.in.Reset(packed)
	j.want.Reset()
	err := j.library.(flate.Resetter).Reset(&j.in, nil) //nolint:forcetypeassert // every reader of the package is one
	if err == nil {
		_, err = j.want.ReadFrom(io.LimitReader(j.library, int64(limit(len(packed)))+1))
	}
	if err == nil && j.want.Len() > limit(len(packed)) {
		err = errors.New("too long")
	}
	return j.want.Bytes(), err
}

// compare checks that packed bytes unpack to what the library makes of them, or that both refuse them.
func (j *judge) compare(t *testing.T, packed []byte) {
	t.Helper()
	want, wantErr := j.inflated(packed)
	// What stands before is kept, what stands behind is not looked at.
	j.padded = append(append(j.padded[:0], packed...), "\xa5\xa5\xa5\xa5\xa5\xa5\xa5\xa5\xa5\xa5\xa5\xa5\xa5\xa5\xa5\xa5"...)
	for _, in := range [][]byte{slices.Clip(packed), j.padded[:len(packed)]} {
		got, err := j.ours.unpack(append(j.before[:0], before...), in)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%x: error %v, the library's is %v", head(packed), err, wantErr)
		}
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%x: error %v is not ErrCorrupt", head(packed), err)
			}
			continue
		}
		j.before = got
		if !bytes.HasPrefix(got, []byte(before)) || !bytes.Equal(got[len(before):], want) {
			t.Fatalf("%x: %d bytes, want other %d", head(packed), len(got)-len(before), len(want))
		}
	}
}

func head(b []byte) []byte { return b[:min(len(b), 400)] }

// deflated packs data at a level of the library's.
func deflated(t testing.TB, data []byte, level int) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := fast.NewWriter(&out, level)
	if err == nil {
		_, err = w.Write(data)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// samples are bytes of every texture: runs, text, noise, far and near repetitions, skewed symbols with long codes.
func samples(rng *rand.Rand) [][]byte {
	noise := make([]byte, 70_000)
	skewed := make([]byte, 200_000)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	for i := range skewed {
		skewed[i] = byte(min(rng.ExpFloat64()*6, 255))
	}
	var text strings.Builder
	for range 3000 {
		text.WriteString("s3://bucket/table/data/day=")
		text.WriteByte('0' + byte(rng.IntN(10)))
		text.WriteString(strings.Repeat("x", rng.IntN(9)))
		text.Write(binary.LittleEndian.AppendUint64(nil, rng.Uint64()))
	}
	far := append(append(bytes.Clone(noise[:32_768]), noise[:32_768]...), noise...)
	return [][]byte{nil, {7}, bytes.Repeat([]byte("a"), 300_000), bytes.Repeat([]byte("abc"), 1000), bytes.Repeat([]byte("abcdefghij"), 1000), noise, skewed, []byte(text.String()), far}
}

func TestInflate(t *testing.T) {
	j := newJudge()
	for _, data := range samples(rand.New(rand.NewPCG(1, 2))) {
		for level := -2; level <= 9; level++ {
			packed := deflated(t, data, level)
			j.compare(t, packed)
			j.compare(t, append(packed, "behind"...))
		}
	}
}

// Every cut and every flipped bit of a packed text is refused, or read as the library reads it.
func TestInflateDamaged(t *testing.T) {
	j := newJudge()
	rng := rand.New(rand.NewPCG(3, 4))
	for _, data := range samples(rng) {
		packed := deflated(t, data[:min(len(data), 3000)], 6)
		for n := 0; n < len(packed); n += 1 + len(packed)/200 {
			j.compare(t, packed[:n])
		}
		for range 400 {
			broken := bytes.Clone(packed)
			broken[rng.IntN(min(len(broken), 1+rng.IntN(200)))] ^= 1 << rng.IntN(8)
			j.compare(t, broken)
		}
	}
}

// Room is made as output comes, up to the limit, and no further.
func TestInflateLimit(t *testing.T) {
	packed := deflated(t, make([]byte, 6<<20), 9)
	out, err := (&inflater{}).unpack(nil, packed)
	if err != nil || len(out) != 6<<20 {
		t.Errorf("%d bytes: %d, %v", len(packed), len(out), err)
	}
	d := &inflater{out: make([]byte, limit(100)+slackBytes), end: 100}
	if d.grow() {
		t.Error("an output of its limit grew")
	}
}

func FuzzInflate(f *testing.F) {
	for _, data := range samples(rand.New(rand.NewPCG(5, 6))) {
		for _, level := range []int{-2, 0, 1, 9} {
			f.Add(deflated(f, data[:min(len(data), 300)], level))
		}
	}
	j := newJudge()
	f.Fuzz(func(t *testing.T, packed []byte) {
		if len(packed) > 4096 {
			t.Skip() // what it says, shorter inputs say faster
		}
		j.compare(t, packed)
	})
}

func BenchmarkInflate(b *testing.B) {
	data := samples(rand.New(rand.NewPCG(7, 8)))[7]
	packed := deflated(b, data, 6)
	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		d, out := &inflater{}, []byte(nil)
		for b.Loop() {
			out, _ = d.unpack(out[:0], packed)
		}
	})
	b.Run("library", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		r, out := fast.NewReader(nil), []byte(nil)
		for b.Loop() {
			_ = r.(fast.Resetter).Reset(bytes.NewReader(packed), nil) //nolint:forcetypeassert // every reader of the package is one
			out, _ = drain(out[:0], r, len(packed))
		}
	})
}
