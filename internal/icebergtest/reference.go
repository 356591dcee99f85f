package icebergtest

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// referenceBucket is where the reference tables say they are.
const referenceBucket = "s3://firn-ref/"

// Ref is one unpacked reference table in a memory store of its own.
type Ref struct {
	// Name is the table's name, ID its name in the catalog of the oracle's calls (namespace db).
	Name string
	ID   maintenance.TableID
	// Store serves s3://firn-ref (s3a and s3n too) with the objects' recorded modification times. What a test writes gets the time of Clock.
	Store *store.Memory
	// Clock is the store's clock; the real one unless a test sets it.
	Clock *Clock
	// Catalog has the one table.
	Catalog *Catalog
	// Expected are the facts about the table.
	Expected Expected

	oracle map[string][]byte
}

// Clock is a clock that a test can set. The zero value tells the real time.
type Clock struct{ at atomic.Pointer[time.Time] }

// Now tells the time.
func (c *Clock) Now() time.Time {
	if at := c.at.Load(); at != nil {
		return *at
	}
	return time.Now()
}

// Set stops the clock at a time.
func (c *Clock) Set(at time.Time) { c.at.Store(&at) }

// Reset lets the clock tell the real time again.
func (c *Clock) Reset() { c.at.Store(nil) }

// ReferenceNames lists the packed tables.
func ReferenceNames(tb testing.TB) []string {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(referenceDir(tb), "*.tar.zst"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("no packed reference tables (error %v)", err)
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".tar.zst"))
	}
	slices.Sort(names)
	return names
}

// Reference unpacks a reference table.
func Reference(tb testing.TB, name string) *Ref {
	tb.Helper()
	files := unpack(tb, name)
	clock := &Clock{}
	ref := &Ref{
		Name:    name,
		ID:      maintenance.TableID{Namespace: "db", Name: name},
		Store:   store.NewMemory(clock.Now),
		Clock:   clock,
		Catalog: NewCatalog(""),
		oracle:  map[string][]byte{},
	}
	decodeJSON(tb, name+"/expected.json", files["expected.json"], &ref.Expected)
	for _, o := range ref.Expected.Objects {
		clock.Set(time.UnixMilli(o.LastModifiedMS))
		data, ok := files["objects/"+o.Key]
		if !ok {
			tb.Fatalf("reference table %s lacks object %s", name, o.Key)
		}
		if err := ref.Store.Put(context.Background(), referenceBucket+o.Key, data, store.WriteOptions{}); err != nil {
			tb.Fatal(err)
		}
	}
	clock.Reset()
	for file, data := range files {
		if rest, ok := strings.CutPrefix(file, "oracle/"); ok {
			ref.oracle[strings.TrimSuffix(rest, ".json")] = data
		}
	}
	if err := ref.Catalog.Register(context.Background(), ref.ID, ref.Expected.MetadataFile); err != nil {
		tb.Fatal(err)
	}
	return ref
}

// ReferenceDir unpacks a reference table's objects as files, for engines in other processes: object s3://firn-ref/<key> is the file <key> in the
// returned folder, with its recorded modification time.
func ReferenceDir(tb testing.TB, name string) (dir string, expected Expected) {
	tb.Helper()
	files, dir := unpack(tb, name), tb.TempDir()
	decodeJSON(tb, name+"/expected.json", files["expected.json"], &expected)
	for _, o := range expected.Objects {
		path := filepath.Join(dir, filepath.FromSlash(o.Key))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, files["objects/"+o.Key], 0o644); err != nil {
			tb.Fatal(err)
		}
		at := time.UnixMilli(o.LastModifiedMS)
		if err := os.Chtimes(path, at, at); err != nil {
			tb.Fatal(err)
		}
	}
	return dir, expected
}

// Table loads the table's state from the catalog.
func (r *Ref) Table(tb testing.TB) *lake.Table {
	tb.Helper()
	t, err := lake.Load(context.Background(), r.Catalog, r.Store, r.ID)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// Pointer is the pointer of the table as it was packed.
func (r *Ref) Pointer() catalogs.Pointer {
	return catalogs.Pointer{MetadataLocation: r.Expected.MetadataFile, Version: r.Expected.MetadataFile}
}

// OracleNames lists the table's oracle cases.
func (r *Ref) OracleNames() []string {
	var names []string
	for name := range r.oracle {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Oracle returns one oracle case.
func (r *Ref) Oracle(tb testing.TB, name string) OracleCase {
	tb.Helper()
	data, ok := r.oracle[name]
	if !ok {
		tb.Fatalf("reference table %s has no oracle case %s: want one of %v", r.Name, name, r.OracleNames())
	}
	var c OracleCase
	decodeJSON(tb, r.Name+"/oracle/"+name, data, &c)
	return c
}

// DigestVectors returns the test vectors of the row digest.
func DigestVectors(tb testing.TB) []byte {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join(referenceDir(tb), "digest-vectors.json"))
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// Root is the folder of the module, found upwards from the test's working directory.
func Root(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			tb.Fatal("no go.mod above the working directory")
		}
		dir = parent
	}
}

func referenceDir(tb testing.TB) string {
	tb.Helper()
	return filepath.Join(Root(tb), "testdata", "reference")
}

func unpack(tb testing.TB, name string) map[string][]byte {
	tb.Helper()
	packed, err := os.ReadFile(filepath.Join(referenceDir(tb), name+".tar.zst"))
	if err != nil {
		tb.Fatal(err)
	}
	zr, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1))
	if err != nil {
		tb.Fatal(err)
	}
	defer zr.Close()
	files := map[string][]byte{}
	tr := tar.NewReader(zr)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			tb.Fatalf("unpack reference table %s: %v", name, err)
		}
		if files[h.Name], err = io.ReadAll(tr); err != nil {
			tb.Fatalf("unpack reference table %s: %v", name, err)
		}
	}
}

func decodeJSON(tb testing.TB, name string, data []byte, into any) {
	tb.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		tb.Fatalf("decode %s: %v", name, err)
	}
}
