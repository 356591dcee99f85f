// Package storetest holds what tests of stores and of their users share: the conformance suite that every implementation of store.Full passes,
// and an S3 server in this process that keeps the conditions AWS keeps. It is for tests only.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"firn/internal/store"
)

// Run checks that the store that open returns keeps the contract of package store. The prefix is a location under which the suite may do as it
// likes, without a trailing slash; each part of the suite works in a folder of its own below it and opens its own store.
func Run(t *testing.T, open func(t *testing.T) store.Full, prefix string) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, world)
	}{
		{"reads what was put", readsWhatWasPut},
		{"range", ranges},
		{"absent", absent},
		{"if absent", ifAbsent},
		{"if absent has one winner", oneWinner},
		{"upload", upload},
		{"large upload", largeUpload},
		{"upload has one winner", uploadWinner},
		{"abort", abort},
		{"uploads", uploads},
		{"opaque keys", opaqueKeys},
		{"list order", listOrder},
		{"list bounds", listBounds},
		{"list spelling", listSpelling},
		{"list stops", listStops},
		{"list pages", listPages},
		{"delete", deletes},
		{"delete many", deletesMany},
		{"name over an empty directory", nameOverDirectory},
		{"relative locations", relative},
		{"cancelled", cancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.test(t, world{Full: open(t), root: store.Join(prefix, strings.ReplaceAll(c.name, " ", "-"))})
		})
	}
}

// world is a store and a folder of it.
type world struct {
	store.Full
	root string
}

func (w world) at(name string) string { return w.root + "/" + name }

func (w world) put(t *testing.T, name, content string) {
	t.Helper()
	if err := w.Put(t.Context(), w.at(name), []byte(content), store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (w world) want(t *testing.T, name, content string) {
	t.Helper()
	got, err := w.Get(t.Context(), w.at(name))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != content {
		t.Fatalf("%s holds %q: want %q", name, clipped(got), clipped([]byte(content)))
	}
}

func clipped(b []byte) string { return string(b[:min(len(b), 100)]) }

// names lists and takes the root off.
func (w world) names(t *testing.T, prefix string, opts store.ListOptions) []string {
	t.Helper()
	var out []string
	for info, err := range w.List(t.Context(), prefix, opts) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.TrimPrefix(info.Location, w.root+"/"))
	}
	return out
}

func wantError(t *testing.T, what string, err, class error) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Errorf("%s: got %v: want %v", what, err, class)
	}
	for _, other := range []error{store.ErrNotFound, store.ErrExists, store.ErrPermission, store.ErrTransient, store.ErrArchived} {
		if !errors.Is(other, class) && errors.Is(err, other) {
			t.Errorf("%s: %v is of the class %v too", what, err, other)
		}
	}
}

func readsWhatWasPut(t *testing.T, w world) {
	before := time.Now().Add(-2 * time.Minute)
	w.put(t, "a/b", "first")
	w.want(t, "a/b", "first")
	w.put(t, "a/b", "second, longer")
	w.want(t, "a/b", "second, longer")
	w.put(t, "a/b", "3")
	w.want(t, "a/b", "3")
	w.put(t, "empty", "")
	w.want(t, "empty", "")
	info, err := w.Head(t.Context(), w.at("a/b"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Location != w.at("a/b") || info.SizeBytes != 1 {
		t.Errorf("head says %+v", info)
	}
	if info.ModifiedAt.Before(before) || info.ModifiedAt.After(time.Now().Add(2*time.Minute)) {
		t.Errorf("head says it was modified at %v", info.ModifiedAt)
	}
	data := []byte("mine")
	if err := w.Put(t.Context(), w.at("kept"), data, store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	copy(data, "xxxx")
	got, err := w.Get(t.Context(), w.at("kept"))
	if err != nil || string(got) != "mine" {
		t.Errorf("a put shares the caller's bytes: %q %v", got, err)
	}
	copy(got, "yyyy")
	w.want(t, "kept", "mine")
}

func ranges(t *testing.T, w world) {
	w.put(t, "r", "0123456789")
	w.put(t, "empty", "")
	for _, c := range []struct {
		name           string
		offset, length int64
		want           string
	}{
		{"r", 0, 4, "0123"},
		{"r", 3, 4, "3456"},
		{"r", 8, 100, "89"},
		{"r", 9, 1 << 62, "9"},
		{"r", 10, 5, ""},
		{"r", 100, 5, ""},
		{"r", 4, 0, ""},
		{"r", -4, 4, "6789"},
		{"r", -4, 2, "67"},
		{"r", -4, 100, "6789"},
		{"r", -100, 100, "0123456789"},
		{"r", -100, 3, "012"},
		{"empty", 0, 3, ""},
		{"empty", -3, 3, ""},
	} {
		got, err := w.GetRange(t.Context(), w.at(c.name), c.offset, c.length)
		if err != nil {
			t.Errorf("%s %d+%d: %v", c.name, c.offset, c.length, err)
		}
		if string(got) != c.want {
			t.Errorf("%s %d+%d: got %q: want %q", c.name, c.offset, c.length, got, c.want)
		}
		for _, room := range []int{0, 3, 64} { // Too little, as much as some ask for, more than is there.
			buf := append(make([]byte, 0, room), "###"[:min(room, 3)]...)
			got, err := store.Buffered(w.Full).GetRangeInto(t.Context(), w.at(c.name), c.offset, c.length, buf)
			if err != nil || string(got) != c.want {
				t.Errorf("%s %d+%d into %d bytes: got %q, %v: want %q", c.name, c.offset, c.length, room, got, err, c.want)
			}
		}
	}
	if _, err := w.GetRange(t.Context(), w.at("r"), 0, -1); err == nil {
		t.Error("a negative length was taken")
	}
}

func absent(t *testing.T, w world) {
	w.put(t, "dir/file", "x")
	for _, name := range []string{"nothing", "dir", "dir/file2", "dir/file/below"} {
		_, err := w.Get(t.Context(), w.at(name))
		wantError(t, "get "+name, err, store.ErrNotFound)
		_, err = w.GetRange(t.Context(), w.at(name), 0, 4)
		wantError(t, "range of "+name, err, store.ErrNotFound)
		_, err = w.GetRange(t.Context(), w.at(name), 0, 0)
		wantError(t, "empty range of "+name, err, store.ErrNotFound)
		_, err = w.Head(t.Context(), w.at(name))
		wantError(t, "head "+name, err, store.ErrNotFound)
	}
	for _, prefix := range []string{"nothing", "nothing/", "dir/file/", "nothing/at/all"} {
		if got := w.names(t, w.at(prefix), store.ListOptions{}); len(got) != 0 {
			t.Errorf("list %s: got %v", prefix, got)
		}
		for u, err := range w.Uploads(t.Context(), w.at(prefix)) {
			t.Errorf("uploads of %s: got %v %v", prefix, u, err)
		}
	}
}

func ifAbsent(t *testing.T, w world) {
	once := store.WriteOptions{IfAbsent: true}
	if err := w.Put(t.Context(), w.at("once"), []byte("first"), once); err != nil {
		t.Fatal(err)
	}
	wantError(t, "second put", w.Put(t.Context(), w.at("once"), []byte("second"), once), store.ErrExists)
	w.want(t, "once", "first")
	up, err := w.Create(t.Context(), w.at("once"), once)
	if err == nil {
		_, err = up.Write([]byte("third"))
	}
	if err == nil {
		err = up.Commit(t.Context())
		if abortErr := up.Abort(t.Context()); abortErr != nil {
			t.Error(abortErr)
		}
	}
	wantError(t, "upload", err, store.ErrExists)
	w.want(t, "once", "first")
	if got := w.names(t, w.root, store.ListOptions{}); !slices.Equal(got, []string{"once"}) {
		t.Errorf("list: got %v", got)
	}
	w.put(t, "once", "replaced")
	w.want(t, "once", "replaced")
}

// race runs 32 writers at once and checks that one of them won.
func race(t *testing.T, w world, write func(ctx context.Context, name, content string) error) {
	t.Helper()
	for round := range 4 {
		name := fmt.Sprintf("raced-%d/deep/once", round)
		var won atomic.Pointer[string]
		var wins atomic.Int64
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range 32 {
			wg.Go(func() {
				content := fmt.Sprintf("writer %d", i)
				<-start
				err := write(t.Context(), name, content)
				if err == nil {
					wins.Add(1)
					won.Store(&content)
				} else if !errors.Is(err, store.ErrExists) {
					t.Errorf("writer %d: %v", i, err)
				}
			})
		}
		close(start)
		wg.Wait()
		if wins.Load() != 1 {
			t.Fatalf("round %d: %d writers won", round, wins.Load())
		}
		w.want(t, name, *won.Load())
	}
}

func oneWinner(t *testing.T, w world) {
	race(t, w, func(ctx context.Context, name, content string) error {
		return w.Put(ctx, w.at(name), []byte(content), store.WriteOptions{IfAbsent: true})
	})
}

func uploadWinner(t *testing.T, w world) {
	race(t, w, func(ctx context.Context, name, content string) error {
		up, err := w.Create(ctx, w.at(name), store.WriteOptions{IfAbsent: true})
		if err != nil {
			return err
		}
		if _, err := up.Write([]byte(content)); err != nil {
			return err
		}
		if err := up.Commit(ctx); err != nil {
			return errors.Join(err, up.Abort(ctx))
		}
		return nil
	})
}

func upload(t *testing.T, w world) {
	w.put(t, "u", "before")
	up, err := w.Create(t.Context(), w.at("u"), store.WriteOptions{ContentType: "application/octet-stream"})
	if err != nil {
		t.Fatal(err)
	}
	part := []byte("hello, ")
	if n, err := up.Write(part); err != nil || n != len(part) {
		t.Fatal(n, err)
	}
	copy(part, "xxxxxxx")
	w.want(t, "u", "before")
	if _, err := up.Write([]byte("world")); err != nil {
		t.Fatal(err)
	}
	if err := up.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.want(t, "u", "hello, world")
	if err := up.Abort(t.Context()); err != nil {
		t.Errorf("abort after commit: %v", err)
	}
	w.want(t, "u", "hello, world")
	if err := up.Commit(t.Context()); err == nil {
		t.Error("a second commit succeeded")
	}
	empty, err := w.Create(t.Context(), w.at("none"), store.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := empty.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.want(t, "none", "")
}

// pattern is n bytes that differ by position, so that parts in a wrong order are seen.
func pattern(n int) []byte {
	out := make([]byte, n)
	x := uint32(1)
	for i := range out {
		x = x*1664525 + 1013904223
		out[i] = byte(x >> 24)
	}
	return out
}

func largeUpload(t *testing.T, w world) {
	content := pattern(40<<20 + 12345) // more than two parts of 16 MiB
	up, err := w.Create(t.Context(), w.at("large"), store.WriteOptions{IfAbsent: true})
	if err != nil {
		t.Fatal(err)
	}
	for rest := content; len(rest) > 0; {
		n := min(len(rest), 1<<20+7)
		if _, err := up.Write(rest[:n]); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	_, err = w.Head(t.Context(), w.at("large"))
	wantError(t, "head before commit", err, store.ErrNotFound)
	if err := up.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := w.Get(t.Context(), w.at("large"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, content) {
		t.Error("the object differs from what was written")
	}
	for u, err := range w.Uploads(t.Context(), w.root) {
		t.Errorf("an upload was left: %v %v", u, err)
	}
	again, err := w.Create(t.Context(), w.at("large"), store.WriteOptions{IfAbsent: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Write(content[:20<<20]); err != nil {
		t.Fatal(err)
	}
	wantError(t, "second commit", again.Commit(t.Context()), store.ErrExists)
	if err := again.Abort(t.Context()); err != nil {
		t.Error(err)
	}
	info, err := w.Head(t.Context(), w.at("large"))
	if err != nil || info.SizeBytes != int64(len(content)) {
		t.Errorf("the loser changed the object: %v %v", info, err)
	}
}

func abort(t *testing.T, w world) {
	for _, size := range []int{0, 100, 33 << 20} {
		up, err := w.Create(t.Context(), w.at("dropped"), store.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := up.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		if err := up.Abort(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := up.Abort(t.Context()); err != nil {
			t.Errorf("second abort: %v", err)
		}
		if err := up.Commit(t.Context()); err == nil {
			t.Error("commit after abort succeeded")
		}
	}
	if got := w.names(t, w.root, store.ListOptions{}); len(got) != 0 {
		t.Errorf("list: got %v", got)
	}
	for u, err := range w.Uploads(t.Context(), w.root) {
		t.Errorf("an upload was left: %v %v", u, err)
	}
}

func uploads(t *testing.T, w world) {
	long := "k/" + strings.Repeat("n", 40) + ".parquet"
	for _, name := range []string{"k/one.parquet", long, "other"} {
		up, err := w.Create(t.Context(), w.at(name), store.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := up.Write(make([]byte, 33<<20)); err != nil { // more than a part: a buffer alone is no upload
			t.Fatal(err)
		}
		defer func() { _ = up.Abort(context.WithoutCancel(t.Context())) }()
	}
	w.put(t, "k/whole", "x")
	if got := w.names(t, w.root, store.ListOptions{}); !slices.Equal(got, []string{"k/whole"}) {
		t.Errorf("list: got %v", got)
	}
	var got []string
	for u, err := range w.Uploads(t.Context(), w.at("k/")) {
		if err != nil {
			t.Fatal(err)
		}
		if u.ID == "" || time.Since(u.StartedAt).Abs() > 2*time.Minute {
			t.Errorf("odd upload %+v", u)
		}
		got = append(got, strings.TrimPrefix(u.Location, w.root+"/"))
		for range 2 { // one that is gone counts as done
			if err := w.AbortUpload(t.Context(), u); err != nil {
				t.Error(err)
			}
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{long, "k/one.parquet"}) {
		t.Errorf("uploads: got %v", got)
	}
	for u, err := range w.Uploads(t.Context(), w.at("k/")) {
		t.Errorf("an upload was left: %v %v", u, err)
	}
}
