package projection

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// TestWidenDecimals compares with converting value by value, for every width, at the end of the page and before it.
func TestWidenDecimals(t *testing.T) {
	t.Parallel()
	const most, n = 8, 9
	r := rand.New(rand.NewPCG(1, 2))
	for width := 1; width <= most; width++ {
		values := make([]byte, n*width)
		for i := range values {
			values[i] = byte(r.Uint32())
		}
		got := widenDecimals([]byte("kept"), values, width)
		if len(got) != 4+n*most || string(got[:4]) != "kept" {
			t.Fatalf("width %d: %d bytes", width, len(got))
		}
		for i := range n {
			want, err := unscaled(values[i*width : (i+1)*width])
			if have := int64(binary.LittleEndian.Uint64(got[4+i*most:])); err != nil || have != want {
				t.Errorf("width %d, value %d: %d, want %d (%v)", width, i, have, want, err)
			}
		}
	}
}
