package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"firn/internal/store"
	"firn/internal/store/storetest"
)

func TestLocalConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) store.Full { return store.NewLocal() }, "file://"+t.TempDir())
}

func TestMemoryConformance(t *testing.T) {
	open := func(*testing.T) store.Full { return store.NewMemory(time.Now) }
	t.Run("mem", func(t *testing.T) { storetest.Run(t, open, "mem://bucket/root") })
	t.Run("s3", func(t *testing.T) { storetest.Run(t, open, "s3://bucket/root") })
}

func TestVersions(t *testing.T) {
	t.Parallel()
	memory := store.NewMemory(time.Now)
	memory.KeepVersions()
	server := storetest.NewS3Server(t, "bucket", "plain")
	server.KeepVersions("bucket")
	remote := func(t *testing.T) store.Full { return open(t, server.Properties, nil) }
	t.Run("mem", func(t *testing.T) {
		storetest.Versions(t, func(*testing.T) store.Full { return memory }, "mem://bucket/root")
	})
	t.Run("s3", func(t *testing.T) { storetest.Versions(t, remote, "s3a://bucket/root") })
	t.Run("none", func(t *testing.T) {
		storetest.WithoutVersions(t, store.NewLocal(), "file://"+t.TempDir())
		storetest.WithoutVersions(t, store.NewMemory(time.Now), "mem://bucket/root")
		storetest.WithoutVersions(t, remote(t), "s3://plain/root")
	})
}

func TestMultiplexerConformance(t *testing.T) {
	memory := store.NewMemory(time.Now)
	open := func(t *testing.T) store.Full {
		t.Helper()
		m, err := store.New(store.Config{Stores: map[string]store.Full{"mem": memory}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	storetest.Run(t, open, "mem://bucket/root")
}

func TestMultiplexerRoutes(t *testing.T) {
	memory := store.NewMemory(time.Now)
	one, err := store.New(store.Config{Stores: map[string]store.Full{"mem": memory, "s3a": memory}})
	if err != nil {
		t.Fatal(err)
	}
	file := "file://" + filepath.Join(t.TempDir(), "f")
	locations := []string{"mem://b/k", "s3n://b/k", file}
	for _, l := range locations {
		if err := one.Put(t.Context(), l, []byte(l), store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	other, err := store.New(store.Config{Stores: map[string]store.Full{"mem": memory}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := other.Get(t.Context(), "mem://b/k"); err != nil || string(got) != "mem://b/k" {
		t.Errorf("a shared memory gives %q %v", got, err)
	}
	n, failures, err := one.Delete(t.Context(), append(locations, "gs://b/k"))
	if n != 3 || len(failures) != 1 || failures[0].Location != "gs://b/k" || err != nil {
		t.Errorf("delete: %d %v %v", n, failures, err)
	}
	if _, err := other.Get(t.Context(), "gs://b/k"); err == nil || !strings.Contains(err.Error(), `"gs"`) {
		t.Errorf("an unknown scheme gives %v", err)
	}
}

func TestLocalLeftoversAreHiddenAndListed(t *testing.T) {
	dir := t.TempDir()
	local := store.NewLocal()
	long := strings.Repeat("n", 250)
	for _, name := range []string{"short", long} {
		up, err := local.Create(t.Context(), "file://"+dir+"/d/"+name, store.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := up.Write([]byte("half")); err != nil {
			t.Fatal(err)
		}
	}
	for info, err := range local.List(t.Context(), dir+"/", store.ListOptions{}) {
		t.Errorf("list shows %v %v", info, err)
	}
	var got []string
	for u, err := range local.Uploads(t.Context(), dir+"/") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, u.Location)
		if err := local.AbortUpload(t.Context(), u); err != nil {
			t.Error(err)
		}
	}
	if len(got) != 2 || !slices.Contains(got, dir+"/d/short") {
		t.Errorf("uploads: %q", got)
	}
	entries, err := os.ReadDir(dir + "/d")
	if err != nil || len(entries) != 0 {
		t.Errorf("left: %v %v", entries, err)
	}
	// The longest name that a file system takes can be written.
	name := dir + "/d/" + strings.Repeat("m", 255)
	if err := local.Put(t.Context(), name, []byte("x"), store.WriteOptions{IfAbsent: true}); err != nil {
		t.Error(err)
	}
}

func TestLocalRefusals(t *testing.T) {
	dir := t.TempDir()
	local := store.NewLocal()
	if err := local.Put(t.Context(), dir+"/dir/object", nil, store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, location := range []string{
		dir + "/.firn-tmp-0123456789abcdef-x", dir + "/a/../b", dir + "/./b", dir + "/zero\x00", dir + "/", dir + "/dir",
		dir + "/dir/object/below", dir + "/" + strings.Repeat("n", 256), "mem://b/k",
	} {
		err := local.Put(t.Context(), location, []byte("x"), store.WriteOptions{})
		if err == nil {
			t.Errorf("put %q: no error", location)
		}
		for _, class := range []error{store.ErrExists, store.ErrTransient} {
			if errors.Is(err, class) {
				t.Errorf("put %q: %v", location, err)
			}
		}
	}
	if err := local.AbortUpload(t.Context(), store.IncompleteUpload{Location: dir + "/dir/object", ID: dir + "/dir/object"}); err == nil {
		t.Error("an object was taken for an upload")
	}
	if _, err := local.Get(t.Context(), dir+"/dir/object"); err != nil {
		t.Error(err)
	}
}

func TestLocalNamesAreBytes(t *testing.T) {
	dir := "file://" + t.TempDir()
	local := store.NewLocal()
	name := dir + "/not-utf8-\xff\xfe/\x01\n\r"
	if err := local.Put(t.Context(), name, []byte("x"), store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	for info, err := range local.List(t.Context(), dir, store.ListOptions{}) {
		if err != nil || info.Location != name {
			t.Errorf("list: %q %v", info.Location, err)
		}
	}
	if n, failures, err := local.Delete(t.Context(), []string{name}); n != 1 || failures != nil || err != nil {
		t.Error(n, failures, err)
	}
}

func TestLocalFollowsLinksToFilesOnly(t *testing.T) {
	dir := t.TempDir()
	local := store.NewLocal()
	for _, name := range []string{"real/f", "elsewhere/g"} {
		if err := local.Put(t.Context(), dir+"/"+name, []byte("x"), store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"real/l": dir + "/elsewhere/g", "real/d": dir + "/elsewhere", "real/broken": dir + "/none", "way": dir + "/real"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, root := range []string{"real", "way"} {
		var got []string
		for info, err := range local.List(t.Context(), dir+"/"+root+"/", store.ListOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, strings.TrimPrefix(info.Location, dir+"/"+root+"/"))
		}
		if !slices.Equal(got, []string{"f", "l"}) {
			t.Errorf("list %s: %q", root, got)
		}
	}
	if n, _, err := local.Delete(t.Context(), []string{dir + "/real/l", dir + "/real/d"}); n != 2 || err != nil {
		t.Error(n, err)
	}
	if _, err := os.Stat(dir + "/elsewhere/g"); err != nil {
		t.Errorf("a link's target was deleted: %v", err)
	}
	if _, err := os.Lstat(dir + "/real/d"); err != nil {
		t.Errorf("a link to a directory was taken for an object: %v", err)
	}
}
