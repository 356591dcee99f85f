package frames_test

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"

	"firn/internal/parquet/frames"
)

// FuzzFrames reads any bytes as a frame: no panic and little memory. The sequences of a sound frame make frames of its pieces, which another decoder
// reads.
func FuzzFrames(f *testing.F) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		f.Fatal(err)
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(16<<20))
	if err != nil {
		f.Fatal(err)
	}
	for seed := range uint64(12) {
		content := text(rand.New(rand.NewPCG(seed, 9)), 20<<seed)
		f.Add(e.EncodeAll(content, nil), uint32(len(content)), seed)
	}
	var r frames.Reader
	var m frames.Mover
	var w frames.Writer
	f.Fuzz(func(t *testing.T, frame []byte, size uint32, seed uint64) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		list, ok := r.Append(nil, frame, int(size%(16<<20)))
		if runtime.ReadMemStats(&after); len(frame) <= 1024 && after.TotalAlloc-before.TotalAlloc > 100<<20 {
			t.Errorf("%d bytes made it allocate %d", len(frame), after.TotalAlloc-before.TotalAlloc)
		}
		source, err := d.DecodeAll(frame, nil)
		if err != nil || len(source) > 1<<20 {
			// What is no frame is a hint for nothing; it may still be moved.
			source = bytes.Repeat([]byte("a damaged frame "), 64)
		} else if ok && len(source) != int(size) {
			t.Fatalf("%d bytes were read as %d", len(source), size)
		}
		content, pieces := cut(rand.New(rand.NewPCG(seed, 2)), source)
		moved := m.Move(nil, list, pieces, content)
		if out, ok := w.Append(nil, content, moved); ok {
			if got, err := d.DecodeAll(out, nil); err != nil || !bytes.Equal(got, content) {
				t.Fatalf("%d bytes became %d: %v", len(content), len(got), err)
			}
		}
	})
}

// cut makes a content of pieces of a source, and of bytes between them.
func cut(rng *rand.Rand, source []byte) (content []byte, pieces []frames.Piece) {
	for from := 0; from < len(source); {
		from = min(from+rng.IntN(2)*rng.IntN(1+len(source)/8), len(source))
		to := min(from+rng.IntN(1+len(source)/4), len(source))
		for range rng.IntN(2) * rng.IntN(5) {
			content = append(content, byte(rng.Uint32()))
		}
		if from < to {
			pieces = append(pieces, frames.Piece{From: from, To: to, At: len(content)})
			content = append(content, source[from:to]...)
		}
		from = to
		if len(source) < 8 {
			break
		}
	}
	return content, pieces
}
