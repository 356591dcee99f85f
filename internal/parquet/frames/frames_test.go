package frames_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"firn/internal/parquet/frames"
)

// text makes words that repeat, and now and then bytes that do not.
func text(r *rand.Rand, n int) (out []byte) {
	words := []string{"carefully ", "regular ", "deposits ", "sleep ", "furiously ", "a ", "\x00\x00\x00\x00\x00\x00\x00\x00", "quick", "\n"}
	for len(out) < n {
		switch k := r.IntN(12); {
		case k < len(words):
			out = append(out, words[k]...)
		case k == 10:
			out = fmt.Append(out, r.Uint64())
		default:
			out = append(out, bytes.Repeat([]byte{byte(r.Uint32())}, r.IntN(400))...)
		}
	}
	return out[:n]
}

// encoders are what frames come from.
func encoders(t testing.TB) (out []*zstd.Encoder) {
	for _, o := range [][]zstd.EOption{
		{zstd.WithEncoderLevel(zstd.SpeedFastest)},
		{zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderCRC(false)},
		{zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithAllLitEntropyCompression(true)},
		{zstd.WithSingleSegment(true)},
	} {
		e, err := zstd.NewWriter(nil, append(o, zstd.WithEncoderConcurrency(1))...)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

func decoder(t testing.TB) *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func sizes() []int { return []int{0, 1, 30, 300, 5000, 40_000, 131_072, 300_000} }

// TestAgain takes frames of another encoder apart and makes frames of what was found.
func TestAgain(t *testing.T) {
	from, to := encoders(t), decoder(t)
	var r frames.Reader
	var w frames.Writer
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		content := text(rng, rapid.SampledFrom(sizes()).Draw(t, "bytes"))
		frame := from[rapid.IntRange(0, len(from)-1).Draw(t, "encoder")].EncodeAll(content, nil)
		list, ok := r.Append(nil, frame, len(content))
		if !ok {
			t.Fatalf("a frame of %d bytes was not read", len(frame))
		}
		again, ok := w.Append([]byte("kept"), content, list)
		if !ok {
			if string(again) != "kept" || (len(list) > 0 && len(frame) < len(content)/2) {
				t.Fatalf("%d bytes, %d in a frame, were not written", len(content), len(frame))
			}
			return
		}
		if got, err := to.DecodeAll(again[4:], nil); err != nil || !bytes.Equal(got, content) || string(again[:4]) != "kept" {
			t.Fatalf("%d bytes became %d: %v", len(content), len(got), err)
		}
		if len(again)-4 > len(frame)*11/10+200 {
			t.Fatalf("%d bytes, another encoder %d", len(again)-4, len(frame))
		}
	})
}

// TestMove makes contents of pieces of others, between bytes of their own; what is written is those contents, and about as small.
func TestMove(t *testing.T) {
	from, to := encoders(t), decoder(t)
	var r frames.Reader
	var m frames.Mover
	var w frames.Writer
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		source := text(rng, rapid.SampledFrom(sizes()).Draw(t, "bytes"))
		frame := from[rapid.IntRange(0, len(from)-1).Draw(t, "encoder")].EncodeAll(source, nil)
		list, ok := r.Append(nil, frame, len(source))
		if !ok {
			t.Fatalf("a frame of %d bytes was not read", len(frame))
		}
		keep, gap := rapid.SampledFrom([]int{1, 20, 700}).Draw(t, "keep"), rapid.SampledFrom([]int{1, 30, 500}).Draw(t, "gap")
		var pieces []frames.Piece
		content := text(rng, rng.IntN(20))
		for at := rng.IntN(gap); at < len(source); {
			end := min(at+1+rng.IntN(keep), len(source))
			pieces = append(pieces, frames.Piece{From: at, To: end, At: len(content)})
			content = append(content, source[at:end]...)
			if rng.IntN(8) == 0 {
				content = append(content, text(rng, rng.IntN(9))...)
			}
			at = end + rng.IntN(gap)
		}
		if rng.IntN(9) == 0 && len(content) > 0 {
			content[rng.IntN(len(content))]++ // Not what was promised: no copy may rely on it.
		}
		moved := m.Move(nil, list, pieces, content)
		out, ok := w.Append(nil, content, moved)
		if !ok {
			return
		}
		if got, err := to.DecodeAll(out, nil); err != nil || !bytes.Equal(got, content) {
			t.Fatalf("%d bytes became %d: %v", len(content), len(got), err)
		}
		if searched := from[1].EncodeAll(content, nil); keep == 700 && gap == 1 && len(out) > len(searched)*5/4+500 {
			t.Fatalf("%d bytes, with a search %d", len(out), len(searched))
		}
	})
}

// TestRepeats: numbers of all kinds come back; ordered keys become no larger than a search makes them.
func TestRepeats(t *testing.T) {
	search, to := encoders(t)[1], decoder(t)
	var w frames.Writer
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		page := text(rng, rapid.SampledFrom([]int{0, 6, 5000}).Draw(t, "front"))
		front := len(page)
		most := rapid.SampledFrom([]uint64{1, 2, 300, 1 << 40, 1 << 63}).Draw(t, "step")
		var v uint64
		for range rapid.SampledFrom([]int{0, 1, 2, 100, 20_000}).Draw(t, "values") {
			page = binary.LittleEndian.AppendUint64(page, v)
			if rng.IntN(4) == 0 {
				v += rng.Uint64N(most)
			}
		}
		out, ok := w.Append(nil, page, frames.Repeats(nil, page, front))
		if !ok {
			return
		}
		if got, err := to.DecodeAll(out, nil); err != nil || !bytes.Equal(got, page) {
			t.Fatalf("%d bytes became %d: %v", len(page), len(got), err)
		}
		if searched := search.EncodeAll(page, nil); most == 300 && front < 10 && len(out) > len(searched)*21/20+200 {
			t.Fatalf("%d bytes, with a search %d", len(out), len(searched))
		}
	})
}

// TestWriterRefuses: sequences that are not those of any content are no frame.
func TestWriterRefuses(t *testing.T) {
	var w frames.Writer
	content := make([]byte, 1000)
	for _, s := range []frames.Sequence{
		{Literals: 10, Match: 2, Offset: 1},
		{Literals: 10, Match: 5, Offset: 0},
		{Literals: 10, Match: 5, Offset: 11},
		{Literals: 998, Match: 3, Offset: 1},
		{Literals: 1<<32 - 1, Match: 3, Offset: 1},
		{Match: 3, Offset: 1},
	} {
		if out, ok := w.Append(nil, content, []frames.Sequence{s}); ok || len(out) > 0 {
			t.Errorf("%+v was written", s)
		}
	}
}

// FuzzReader: no frame makes the reader panic or list more than the content that was promised, and what it lists can be moved.
func FuzzReader(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	content := text(rng, 3000)
	for _, e := range encoders(f) {
		f.Add(e.EncodeAll(content, nil), len(content))
	}
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0}, 0)
	f.Fuzz(func(t *testing.T, frame []byte, size int) {
		size &= 1<<20 - 1
		var r frames.Reader
		list, ok := r.Append(nil, frame, size)
		if !ok {
			return
		}
		total := 0
		for _, s := range list {
			total += int(s.Literals + s.Match)
		}
		if total > size {
			t.Fatalf("sequences of %d bytes in %d", total, size)
		}
		content := make([]byte, size)
		var m frames.Mover
		moved := m.Move(nil, list, []frames.Piece{{From: 0, To: size / 3, At: 0}, {From: size / 2, To: size, At: size / 3}}, content)
		var w frames.Writer
		w.Append(nil, content, moved)
	})
}
