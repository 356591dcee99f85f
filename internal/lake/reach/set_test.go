package reach_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"firn/internal/lake/reach"
	"firn/internal/store"
)

func file(t interface{ Fatal(...any) }, location string, kind reach.Kind) reach.File {
	f, err := reach.NewFile(location, kind, 7, 9)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func memory() *store.Memory { return store.NewMemory(func() time.Time { return time.Unix(0, 0) }) }

func locations(t interface{ Fatal(...any) }, files iter.Seq2[reach.File, error]) []string {
	var out []string
	for f, err := range files {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f.Location)
	}
	return out
}

// TestSorterIsASet compares sets of any size, spilled after every few files and merged in passes, with a map.
func TestSorterIsASet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		st := memory()
		sorter := reach.NewSorter(reach.Space{Store: st, Prefix: "mem://w/set", SortBytes: rapid.SampledFrom([]int64{1, 2000, 1 << 20}).Draw(rt, "bytes")})
		// Short names, and long ones that are alike up to somewhere: the sorter looks at eight bytes at a time.
		name := rapid.OneOf(rapid.StringMatching(`[a-c\n\\ #?%é]{1,4}`), rapid.StringMatching(`(aaaaaaaa|bbbbbbbb|cccc|d|\x00){1,5}`))
		count := rapid.IntRange(0, 150).Draw(rt, "count")
		names := rapid.SliceOfN(name, count, count).Draw(rt, "names")
		want := map[string]bool{}
		for _, n := range names {
			location := rapid.SampledFrom([]string{"s3://b/", "s3a://b/", "s3://c/"}).Draw(rt, "place") +
				rapid.SampledFrom([]string{"", "data/day=1/", "data/day=10/file-"}).Draw(rt, "folder") + n
			want[strings.Replace(location, "s3a:", "s3:", 1)] = true
			if err := sorter.Add(t.Context(), file(rt, location, reach.Data)); err != nil {
				rt.Fatal(err)
			}
		}
		var got []string
		for f, err := range sorter.Files(t.Context()) {
			if err != nil {
				rt.Fatal(err)
			}
			if f.SizeBytes != 7 || f.ModifiedAtMS != 9 || f.Kind != reach.Data {
				rt.Fatalf("%+v lost its numbers", f)
			}
			got = append(got, f.Canonical())
		}
		if len(got) != len(want) {
			rt.Fatalf("%d objects: want %d", len(got), len(want))
		}
		for _, g := range got {
			if !want[g] {
				rt.Fatalf("%q was never added", g)
			}
		}
		if !slices.IsSortedFunc(got, func(a, b string) int { return strings.Compare(a[len("s3://b/"):], b[len("s3://b/"):]) }) {
			rt.Fatalf("%q is not in the order of paths", got)
		}
	})
}

// TestSorterOrdersPathsThatEnd: a path and the same with zero bytes behind are two, however often each is added.
func TestSorterOrdersPathsThatEnd(t *testing.T) {
	t.Parallel()
	sorter := reach.NewSorter(reach.Space{Store: memory(), Prefix: "mem://w/set"})
	want := []string{"s3://b/c", "s3://b/c\x00", "s3://b/c\x00\x00", "s3://b/c1234567", "s3://b/c12345678"}
	for i := range 200 {
		if err := sorter.Add(t.Context(), file(t, want[i*3%len(want)], reach.Data)); err != nil {
			t.Fatal(err)
		}
	}
	if got := locations(t, sorter.Files(t.Context())); !slices.Equal(got, want) {
		t.Errorf("got %q: want %q", got, want)
	}
}

func TestJoinFindsEveryPathOfTheOtherSet(t *testing.T) {
	t.Parallel()
	set := func(texts ...string) iter.Seq2[reach.File, error] {
		s := reach.NewSorter(reach.Space{Store: memory(), Prefix: "mem://w/s"})
		for _, l := range texts {
			if err := s.Add(t.Context(), file(t, l, reach.Listed)); err != nil {
				t.Fatal(err)
			}
		}
		return s.Files(t.Context())
	}
	left := set("s3://b/a", "s3://b/c", "s3://d/c", "s3://b/e", "file:///w/x")
	right := set("s3a://b/a", "s3://x/c", "s3://y/c", "s3://b/d", "s3://b/w/x")
	var got []string
	for m, err := range reach.Join(left, right) {
		if err != nil {
			t.Fatal(err)
		}
		var reached []string
		for _, r := range m.Reached {
			reached = append(reached, r.Location)
		}
		got = append(got, fmt.Sprintf("%s=%s", m.Location, strings.Join(reached, ",")))
	}
	want := []string{
		"s3://b/a=s3a://b/a", "s3://b/c=s3://x/c,s3://y/c", "s3://d/c=s3://x/c,s3://y/c", "s3://b/e=", "file:///w/x=s3://b/w/x",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestJoinReportsTheErrorOfEitherSide(t *testing.T) {
	t.Parallel()
	broken := func(yield func(reach.File, error) bool) { yield(reach.File{}, errors.New("no")) }
	good := func(yield func(reach.File, error) bool) { yield(file(t, "s3://b/a", reach.Data), nil) }
	for name, joined := range map[string]iter.Seq2[reach.Match, error]{
		"left": reach.Join(broken, good), "right": reach.Join(good, broken),
	} {
		failed := false
		for _, err := range joined {
			failed = failed || err != nil
		}
		if !failed {
			t.Errorf("an error of the %s side was swallowed", name)
		}
	}
}

func TestRunsRefuseDisorderAndTruncation(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	st := memory()
	w, err := reach.NewRunWriter(ctx, st, "mem://w/r")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(file(t, "s3://b/b", reach.Data)); err != nil {
		t.Fatal(err)
	}
	if w.Add(file(t, "s3://b/a", reach.Data)) == nil {
		t.Error("a file out of order was taken")
	}
	for _, text := range []string{"d7 9 s3://b/a", "\n", "d7 s3://b/a\n", "dx 9 s3://b/a\n", "d7 9 s3://b/\\x\n", "d7 9 nowhere\n"} {
		if err := st.Put(ctx, "mem://w/bad", []byte(text), store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		failed := false
		for _, err := range reach.ReadRun(ctx, st, "mem://w/bad") {
			failed = failed || err != nil
		}
		if !failed {
			t.Errorf("the run %q was read", text)
		}
	}
}

// FuzzRun writes one location and reads it back: keys are opaque bytes.
func FuzzRun(f *testing.F) {
	for _, s := range []string{"a", "a b", "a\nb", `a\nb`, "a#?%25", "\xff\x00", "é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		location := "s3://b/" + name
		st := memory()
		one := func(yield func(reach.File, error) bool) { yield(file(t, location, reach.Data), nil) }
		if n, err := reach.WriteRun(t.Context(), st, "mem://w/r", one); err != nil || n != 1 {
			t.Fatalf("%d files written: %v", n, err)
		}
		if got := locations(t, reach.ReadRun(t.Context(), st, "mem://w/r")); len(got) != 1 || got[0] != location {
			t.Errorf("read %q: want %q", got, location)
		}
	})
}

func TestInsideIsNotPrefix(t *testing.T) {
	t.Parallel()
	places, err := reach.Places("s3a://b/w/t/", map[string]string{"write.data.path": "s3://b/data"})
	if err != nil {
		t.Fatal(err)
	}
	for location, want := range map[string]bool{
		"s3://b/w/t/x": true, "s3n://b/w/t/x/y": true, "s3://b/w/t2/x": false, "s3://b/w/t": false, "s3://b/data/x": true, "s3://c/w/t/x": false,
	} {
		if got := reach.Inside(file(t, location, reach.Data), places); got != want {
			t.Errorf("%s inside %q: %v", location, places, got)
		}
	}
}
