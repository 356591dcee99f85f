package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"firn/internal/store"
)

// odd are key parts that some layer of some store decodes, cuts or normalises.
func odd() []string {
	return []string{
		"a b", " lead", "trail ", "plus+plus", "hash#tag", "question?mark=1", "100%", "11%2F12%2F13", "%00", "a=b&c=d", "semi;colon", "co:lon",
		"quote'\"", "back\\slash", "<xml>&amp;", "ümläut-日本-😀", "e\u0301", "tilde~", "comma,dot.", "{brace}[x]|^`", "~", "!*()$@",
		"null=__HIVE_DEFAULT_PARTITION__", "p=", ".hidden", "_under", "..dots", "...", "s3://inner", "day=2024-01-01 00%3A00",
	}
}

func opaqueKeys(t *testing.T, w world) {
	var want []string
	for _, name := range odd() {
		if strings.Contains(name, "//") && strings.HasPrefix(w.root, "file") {
			continue // a file system takes two slashes for one
		}
		want = append(want, "data/"+name+"/f.parquet", "data/"+name+"/"+name)
	}
	for _, name := range want {
		w.put(t, name, "content of "+name)
	}
	slices.Sort(want)
	if got := w.names(t, w.at("data/"), store.ListOptions{}); !slices.Equal(got, want) {
		t.Errorf("list: got %q\nwant %q", got, want)
	}
	for _, name := range want {
		w.want(t, name, "content of "+name)
		if got, err := w.GetRange(t.Context(), w.at(name), 0, 7); err != nil || string(got) != "content" {
			t.Errorf("range of %q: %q %v", name, got, err)
		}
		if info, err := w.Head(t.Context(), w.at(name)); err != nil || info.SizeBytes != int64(len("content of "+name)) {
			t.Errorf("head %q: %v %v", name, info, err)
		}
		if got := w.names(t, w.at(name), store.ListOptions{}); !slices.Contains(got, name) {
			t.Errorf("list %q as a prefix: got %q", name, got)
		}
	}
	gone := want[:len(want)/2]
	locations := make([]string, len(gone))
	for i, name := range gone {
		locations[i] = w.at(name)
	}
	n, failures, err := w.Delete(t.Context(), locations)
	if n != len(gone) || len(failures) != 0 || err != nil {
		t.Errorf("delete: %d of %d, %v, %v", n, len(gone), failures, err)
	}
	if got := w.names(t, w.at("data/"), store.ListOptions{}); !slices.Equal(got, want[len(gone):]) {
		t.Errorf("list after delete: got %q\nwant %q", got, want[len(gone):])
	}
}

func listOrder(t *testing.T, w world) {
	want := []string{"a-b/x", "a.txt", "a/0/1/2", "a/x", "a/x0", "a/y/z", "a0", "aa/x", "b", "é/x"}
	for _, name := range slices.Backward(want) {
		w.put(t, name, name)
	}
	for _, c := range []struct {
		prefix string
		want   []string
	}{
		{"", want},
		{"a", want[:8]},
		{"a/", want[2:6]},
		{"a/x", want[3:5]},
		{"a/x0", want[4:5]},
		{"b", want[8:9]},
		{"b/", nil},
		{"a/y/z/", nil},
	} {
		if got := w.names(t, w.at(c.prefix), store.ListOptions{}); !slices.Equal(got, c.want) {
			t.Errorf("list %q: got %q: want %q", c.prefix, got, c.want)
		}
	}
	for info, err := range w.List(t.Context(), w.at("a/"), store.ListOptions{}) {
		name := strings.TrimPrefix(info.Location, w.root+"/")
		if err != nil || info.SizeBytes != int64(len(name)) || info.ModifiedAt.IsZero() {
			t.Errorf("list says %+v %v", info, err)
		}
	}
	// A prefix is text: a neighbour whose name only starts alike belongs to it.
	if got := w.names(t, w.root, store.ListOptions{}); !slices.Equal(got, want) {
		t.Errorf("list the root: got %q", got)
	}
}

func listBounds(t *testing.T, w world) {
	names := []string{"a-b/x", "a.txt", "a/0/1/2", "a/x", "a/y/z", "a0", "b"}
	for _, name := range names {
		w.put(t, name, name)
	}
	bounds := append([]string{"", "0", "a", "a/", "a/0", "a/0/1/2/3", "a/xx", "a/z", "a~", "zz"}, names...)
	for _, after := range bounds {
		for _, until := range bounds {
			for _, prefix := range []string{"", "a", "a/"} {
				var opts store.ListOptions
				if after != "" {
					opts.StartAfter = w.at(after)
				}
				if until != "" {
					opts.EndAt = w.at(until)
				}
				var want []string
				for _, n := range names {
					if strings.HasPrefix(n, prefix) && n > after && (until == "" || n <= until) {
						want = append(want, n)
					}
				}
				if got := w.names(t, w.at(prefix), opts); !slices.Equal(got, want) {
					t.Errorf("list %q (%q, %q]: got %q: want %q", prefix, after, until, got, want)
				}
			}
		}
	}
	// Bounds outside of the prefix, on either side.
	for _, c := range []struct {
		opts store.ListOptions
		want int
	}{
		{store.ListOptions{StartAfter: w.root}, 7},
		{store.ListOptions{EndAt: w.root}, 0},
		{store.ListOptions{EndAt: w.root + "~"}, 7},
		{store.ListOptions{StartAfter: w.root + "~"}, 0},
	} {
		if got := w.names(t, w.at(""), c.opts); len(got) != c.want {
			t.Errorf("list with %+v: got %q", c.opts, got)
		}
	}
	for _, err := range w.List(t.Context(), w.at(""), store.ListOptions{EndAt: "other://bucket/key"}) {
		if err == nil {
			t.Error("a bound in another store was taken")
		}
	}
}

func listSpelling(t *testing.T, w world) {
	w.put(t, "x/1", "1")
	w.put(t, "x/2", "2")
	scheme, rest, _ := strings.Cut(w.root, "://")
	spellings := map[string][]string{
		"s3":   {"s3://" + rest, "s3a://" + rest, "s3n://" + rest, "S3://" + rest},
		"file": {"file://" + rest, "file:" + rest, rest, "file://localhost" + rest, "FILE://" + rest},
	}[scheme]
	for _, root := range spellings {
		var got []string
		for info, err := range w.List(t.Context(), root+"/x/", store.ListOptions{StartAfter: root + "/x/0", EndAt: w.at("x/3")}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, info.Location)
		}
		if !slices.Equal(got, []string{root + "/x/1", root + "/x/2"}) {
			t.Errorf("list %s: got %q", root, got)
		}
		if data, err := w.Get(t.Context(), root+"/x/2"); err != nil || string(data) != "2" {
			t.Errorf("get %s: %q %v", root, data, err)
		}
	}
	for _, root := range spellings {
		w.put(t, "gone", "")
		// Two spellings of one object are one object.
		n, failures, err := w.Delete(t.Context(), []string{root + "/gone", w.at("gone"), root + "/gone"})
		if n != 1 || len(failures) != 0 || err != nil {
			t.Errorf("delete as %s: %d %v %v", root, n, failures, err)
		}
	}
	if got := w.names(t, w.root, store.ListOptions{}); len(got) != 2 {
		t.Errorf("list: got %q", got)
	}
}

func listStops(t *testing.T, w world) {
	for i := range 30 {
		w.put(t, fmt.Sprintf("%02d/%02d", i/10, i), "x")
	}
	seen := 0
	for _, err := range w.List(t.Context(), w.at(""), store.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; seen == 7 {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range w.List(ctx, w.at(""), store.ListOptions{}) {
		cancel()
		last = err
	}
	// A store that had the whole page before may go on to its end; one that stops says why.
	if last != nil && !errors.Is(last, context.Canceled) {
		t.Errorf("list with a cancelled context ended in %v", last)
	}
}

func listPages(t *testing.T, w world) {
	const n = 2345
	var want []string
	for i := range n {
		want = append(want, fmt.Sprintf("data/day=2024-%02d-%02d/%05d-0.parquet", i/500+1, i/100%28+1, i))
	}
	want = append(want, "metadata/v1.json", "metadata/v2.json")
	fill(t, w, want)
	slices.Sort(want)
	if got := w.names(t, w.at(""), store.ListOptions{}); !slices.Equal(got, want) {
		t.Errorf("list: got %d: want %d, or in another order", len(got), len(want))
	}
	part := want[100:2200]
	got := w.names(t, w.at(""), store.ListOptions{StartAfter: w.at(want[99]), EndAt: w.at(want[2199])})
	if !slices.Equal(got, part) {
		t.Errorf("list a part: got %d: want %d", len(got), len(part))
	}
}

// fill puts small objects, some at a time.
func fill(t *testing.T, w world, names []string) {
	t.Helper()
	work := make(chan string)
	done := make(chan error, 8)
	for range 8 {
		go func() {
			var err error
			for name := range work {
				if err == nil {
					err = w.Put(t.Context(), w.at(name), []byte("x"), store.WriteOptions{})
				}
			}
			done <- err
		}()
	}
	for _, name := range names {
		work <- name
	}
	close(work)
	for range 8 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

func deletes(t *testing.T, w world) {
	for _, name := range []string{"d/1", "d/2", "d/2x", "d/3"} {
		w.put(t, name, name)
	}
	if n, failures, err := w.Delete(t.Context(), nil); n != 0 || len(failures) != 0 || err != nil {
		t.Errorf("delete nothing: %d %v %v", n, failures, err)
	}
	n, failures, err := w.Delete(t.Context(), []string{w.at("d/1"), w.at("d/2"), w.at("d/2"), w.at("d/never-was"), w.at("d"), w.at("no/such/folder")})
	if n != 5 || len(failures) != 0 || err != nil {
		t.Errorf("delete: %d %v %v", n, failures, err)
	}
	if got := w.names(t, w.root, store.ListOptions{}); !slices.Equal(got, []string{"d/2x", "d/3"}) {
		t.Errorf("list: got %q", got)
	}
	n, failures, err = w.Delete(t.Context(), []string{"relative/path", w.at("d/3")})
	if n != 1 || len(failures) != 1 || failures[0].Location != "relative/path" || err != nil {
		t.Errorf("delete a relative path: %d %v %v", n, failures, err)
	}
}

func deletesMany(t *testing.T, w world) {
	var names, locations []string
	for i := range 2345 {
		names = append(names, fmt.Sprintf("d/%04d", i))
		locations = append(locations, w.at(names[i]))
	}
	fill(t, w, append(names, "kept"))
	n, failures, err := w.Delete(t.Context(), append(locations, locations[:50]...))
	if n != len(names) || len(failures) != 0 || err != nil {
		t.Errorf("delete: %d, %d failures, %v", n, len(failures), err)
	}
	if got := w.names(t, w.root, store.ListOptions{}); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("list: got %d names", len(got))
	}
}

func nameOverDirectory(t *testing.T, w world) {
	for _, once := range []bool{false, true} {
		name := fmt.Sprintf("n-%v", once)
		w.put(t, name+"/deep/er", "x")
		if n, failures, err := w.Delete(t.Context(), []string{w.at(name + "/deep/er")}); n != 1 || len(failures) != 0 || err != nil {
			t.Fatal(n, failures, err)
		}
		if err := w.Put(t.Context(), w.at(name), []byte("file"), store.WriteOptions{IfAbsent: once}); err != nil {
			t.Fatal(err)
		}
		w.want(t, name, "file")
	}
}

func relative(t *testing.T, w world) {
	for _, location := range []string{"", "a", "a/b", "./a", "../a", "file:a", "file:./a", "s3:b/k", "://b/k"} {
		if _, err := w.Get(t.Context(), location); err == nil {
			t.Errorf("get %q: no error", location)
		}
		if err := w.Put(t.Context(), location, nil, store.WriteOptions{}); err == nil {
			t.Errorf("put %q: no error", location)
		}
		if _, err := w.Create(t.Context(), location, store.WriteOptions{}); err == nil {
			t.Errorf("create %q: no error", location)
		}
		listed := false
		for _, err := range w.List(t.Context(), location, store.ListOptions{}) {
			listed = err != nil
		}
		if !listed {
			t.Errorf("list %q: no error", location)
		}
	}
}

func cancelled(t *testing.T, w world) {
	w.put(t, "c", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check := func(what string, err error) {
		t.Helper()
		wantError(t, what, err, context.Canceled)
	}
	_, err := w.Get(ctx, w.at("c"))
	check("get", err)
	_, err = w.GetRange(ctx, w.at("c"), 0, 1)
	check("range", err)
	_, err = w.Head(ctx, w.at("c"))
	check("head", err)
	check("put", w.Put(ctx, w.at("c"), []byte("y"), store.WriteOptions{}))
	for _, err := range w.List(ctx, w.root, store.ListOptions{}) {
		check("list", err)
	}
	for _, err := range w.Uploads(ctx, w.root) {
		check("uploads", err)
	}
	_, _, err = w.Delete(ctx, []string{w.at("c")})
	check("delete", err)
	w.want(t, "c", "x")
}
