package sorted

import (
	"bytes"
	"os"
	"testing"

	"pgregory.net/rapid"
)

// TestSpill reads what was written, across the border between memory and file, and again after a part was dropped. While it is open the file has
// no name: a crash leaves nothing.
func TestSpill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		s := &spill{Spill: Spill{Dir: dir}, memoryBytes: rapid.SampledFrom([]int64{0, blockBytes}).Draw(t, "memory")}
		defer s.close()
		var want []byte
		for range rapid.IntRange(1, 6).Draw(t, "writes") {
			p := bytes.Repeat(rapid.SliceOfN(rapid.Byte(), 1, 8).Draw(t, "bytes"), rapid.SampledFrom([]int{1, 1000, 100_000}).Draw(t, "times"))
			if err := s.write(p); err != nil {
				t.Fatal(err)
			}
			want = append(want, p...)
			if rapid.IntRange(0, 3).Draw(t, "drop") == 0 {
				at := rapid.IntRange(0, len(want)).Draw(t, "at")
				s.truncate(int64(at))
				want = want[:at]
			}
		}
		from := rapid.IntRange(0, len(want)).Draw(t, "from")
		got := make([]byte, len(want)-from)
		if err := s.readAt(got, int64(from)); err != nil || !bytes.Equal(got, want[from:]) {
			t.Fatalf("%d bytes from %d differ: %v", len(got), from, err)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
			t.Fatalf("the spill file has a name: %v, %v", names, err)
		}
	})
}

// TestTree merges sorted runs of numbers, equal ones by their run.
func TestTree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		runs := rapid.SliceOfN(rapid.SliceOf(rapid.Byte()), 1, 9).Draw(t, "runs")
		leaves := make([]leaf, len(runs))
		total := 0
		next := func(r int) {
			if len(runs[r]) == 0 {
				leaves[r] = leaf{done: true}
				return
			}
			key := []byte("a common start " + string(runs[r][:1]))
			leaves[r], runs[r] = leaf{key: key, prefix: prefixOf(key)}, runs[r][1:]
		}
		for r := range runs {
			run := runs[r]
			for i := 1; i < len(run); i++ {
				for j := i; j > 0 && run[j] < run[j-1]; j-- {
					run[j], run[j-1] = run[j-1], run[j]
				}
			}
			total += len(run)
			next(r)
		}
		tr := newTree(leaves)
		var last leaf
		lastRun := 0
		for range total {
			r := tr.first()
			l := tr.leaves[r]
			if c := bytes.Compare(last.key, l.key); l.done || c > 0 || (c == 0 && lastRun > r) {
				t.Fatalf("run %d with %q comes behind run %d with %q", r, l.key, lastRun, last.key)
			}
			last, lastRun = l, r
			next(r)
			tr.update()
		}
		if !tr.leaves[tr.first()].done {
			t.Fatal("a run is left")
		}
	})
}
