package pages

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestArena: what is taken never overlaps, and once all is given back the arena is one piece again.
func TestArena(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 1000
		a := &arena{size: size}
		type taken struct {
			buf  []byte
			at   int64
			mark byte
		}
		var held []taken
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(held) > 0 && rapid.Bool().Draw(t, "give") {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				h := held[i]
				if want := bytes.Repeat([]byte{h.mark}, len(h.buf)); !bytes.Equal(h.buf, want) {
					t.Fatalf("the memory at %d was written to by another owner", h.at)
				}
				a.give(h.buf, h.at)
				held = slices.Delete(held, i, i+1)
				continue
			}
			n := rapid.Int64Range(1, size+size/10).Draw(t, "bytes")
			buf, at := a.take(n)
			if int64(len(buf)) != n || cap(buf) != len(buf) {
				t.Fatalf("asked for %d bytes, got %d of %d", n, len(buf), cap(buf))
			}
			for i := range buf {
				buf[i] = byte(step)
			}
			held = append(held, taken{buf, at, byte(step)})
		}
		for _, h := range held {
			a.give(h.buf, h.at)
		}
		if a.data != nil && !slices.Equal(a.free, []span{{0, size}}) {
			t.Fatalf("free pieces %v: want all of it", a.free)
		}
	})
}
