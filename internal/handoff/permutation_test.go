package handoff_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"firn/internal/handoff"
	"firn/internal/store"
)

// TestPermutation writes random permutations and looks rows up, in both widths.
func TestPermutation(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	st := store.NewMemory(time.Now)
	rapid.Check(t, func(t *rapid.T) {
		files := func(name string, n int) (out []handoff.RowCounts) {
			for i := range n {
				out = append(out, handoff.RowCounts{Path: name + string(rune('0'+i)), Rows: rapid.Int64Range(0, 40).Draw(t, name)})
			}
			return out
		}
		outputs := files("out", rapid.IntRange(1, 4).Draw(t, "outputs"))
		var places []int64
		var want []handoff.Place
		n := int64(0)
		for i, o := range outputs {
			for row := range o.Rows {
				places, want = append(places, n), append(want, handoff.Place{Output: i, Offset: row})
				n++
			}
		}
		for range rapid.IntRange(0, 9).Draw(t, "deleted") {
			places, want = append(places, handoff.RowDeleted), append(want, handoff.Place{Deleted: true})
		}
		order := rapid.Permutation(slices.Collect(iterate(len(places)))).Draw(t, "order")
		cut := rapid.IntRange(0, len(places)).Draw(t, "cut")
		sources := []handoff.RowCounts{{Path: "a", Rows: int64(cut)}, {Path: "b", Rows: int64(len(places) - cut)}}
		rows := int64(len(places))
		if rapid.Bool().Draw(t, "wide") {
			rows = math.MaxUint32
		}
		var buf bytes.Buffer
		w := handoff.PermutationTo(&buf, rows)
		for _, i := range order {
			if err := w.Append([]int64{places[i]}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(sources, outputs); err != nil {
			t.Fatal(err)
		}
		if err := st.Put(ctx, "s3://b/p", buf.Bytes(), store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		p, err := handoff.OpenPermutation(ctx, st, "s3://b/p")
		if err != nil {
			t.Fatal(err)
		}
		for s, from := range map[int]int{0: 0, 1: cut} {
			var asked, removed []int64
			var expected []handoff.Place
			for pos := range sources[s].Rows {
				place := want[order[from+int(pos)]]
				if place.Deleted {
					removed = append(removed, pos)
				}
				if rapid.Bool().Draw(t, "ask") {
					asked, expected = append(asked, pos), append(expected, place)
				}
			}
			got, err := p.Lookup(ctx, p.Source(sources[s].Path), asked)
			if err != nil || !slices.Equal(got, expected) {
				t.Fatalf("source %d: %v, %v: want %v", s, got, err, expected)
			}
			var found []int64
			if err := p.Removed(ctx, s, func(pos int64) { found = append(found, pos) }); err != nil || !slices.Equal(found, removed) {
				t.Fatalf("removed %v, %v: want %v", found, err, removed)
			}
		}
	})
}

func iterate(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// TestPermutationFaults: a cut or changed object, and a position that the source has not, are errors.
func TestPermutationFaults(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var buf bytes.Buffer
	w := handoff.PermutationTo(&buf, 2)
	if err := w.Append([]int64{1, 0}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close([]handoff.RowCounts{{Path: "a", Rows: 3}}, nil); err == nil {
		t.Error("rows that were not appended are no error")
	}
	files := []handoff.RowCounts{{Path: "a", Rows: 2}}
	if err := w.Close(files, files); err != nil {
		t.Fatal(err)
	}
	good := buf.Bytes()
	open := func(data []byte) (*handoff.Permutation, error) {
		st := store.NewMemory(time.Now)
		if err := st.Put(ctx, "s3://b/p", data, store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		return handoff.OpenPermutation(ctx, st, "s3://b/p")
	}
	for n := range good {
		if _, err := open(good[:n]); !errors.Is(err, handoff.ErrPermutation) {
			t.Errorf("%d bytes of %d: %v", n, len(good), err)
		}
	}
	if _, err := open(bytes.Replace(good, []byte(`"v":1`), []byte(`"v":7`), 1)); !errors.Is(err, handoff.ErrVersion) {
		t.Errorf("another version: %v", err)
	}
	p, err := open(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, positions := range [][]int64{{2}, {-1}, {1, 0}} {
		if _, err := p.Lookup(ctx, 0, positions); !errors.Is(err, handoff.ErrPermutation) {
			t.Errorf("positions %v: %v", positions, err)
		}
	}
	wrong := slices.Clone(good)
	binary.LittleEndian.PutUint32(wrong, 2)
	if p, err = open(wrong); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Lookup(ctx, 0, []int64{0}); !errors.Is(err, handoff.ErrPermutation) {
		t.Errorf("a place in no output: %v", err)
	}
}
