package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"

	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/store"
)

// outcome is what one command line ended with.
type outcome struct {
	code           int
	stdout, stderr string
}

// bench is a working directory, a state folder and a catalog for command lines that run in this process.
type bench struct {
	t    *testing.T
	proc process
}

// newBench makes one; its default catalog is a SQLite file that does not exist yet.
func newBench(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{t: t, proc: process{dir: dir, stores: map[string]store.Full{}, environ: []string{
		"FIRN_HOME=" + filepath.Join(dir, "home"), "FIRN_TEST=1",
	}}}
	b.config("catalog: ref\ncatalogs:\n  ref:\n    type: sql\n    uri: sqlite:///" + filepath.Join(dir, "catalog.db") + "\n")
	return b
}

// config writes firn.yaml.
func (b *bench) config(text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.proc.dir, "firn.yaml"), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// load reads a table's current state.
func (b *bench) load(name string) (*lake.Table, store.Reader) {
	b.t.Helper()
	app := &app{process: b.proc, ctx: context.Background(), now: time.Now}
	id, err := app.table(name)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = app.close() }()
	l, err := app.clients.Lake(app.ctx, id.Catalog)
	if err != nil {
		b.t.Fatal(err)
	}
	t, err := lake.Load(app.ctx, l.Catalog, l.Store, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return t, l.Store
}

// live lists the paths of a branch's live data files; "" is main.
func (b *bench) live(name, branch string) map[string]bool {
	b.t.Helper()
	t, st := b.load(name)
	head, err := t.Head(branch)
	if err != nil {
		b.t.Fatal(err)
	}
	manifests, err := lake.Manifests(context.Background(), st, head)
	if err != nil {
		b.t.Fatal(err)
	}
	paths := map[string]bool{}
	for _, m := range manifests {
		if m.ManifestContent() != iceberg.ManifestContentData {
			continue
		}
		for e, err := range lake.Entries(context.Background(), st, m, lake.EntryOptions{WithoutStats: true}) {
			if err != nil {
				b.t.Fatal(err)
			}
			paths[e.File.FilePath()] = true
		}
	}
	return paths
}

// firn runs one command line.
func (b *bench) firn(args ...string) outcome {
	b.t.Helper()
	return b.firnIn(context.Background(), args...)
}

func (b *bench) firnIn(ctx context.Context, args ...string) outcome {
	b.t.Helper()
	var out, errs bytes.Buffer
	proc := b.proc
	proc.stdin, proc.stdout, proc.stderr = strings.NewReader(""), &out, &errs
	code := run(ctx, args, proc)
	return outcome{code, out.String(), errs.String()}
}

// must runs one command line that has to end well.
func (b *bench) must(args ...string) outcome {
	b.t.Helper()
	got := b.firn(args...)
	if got.code != exitDone {
		b.t.Fatalf("firn %s: exit %d\n%s%s", strings.Join(args, " "), got.code, got.stdout, got.stderr)
	}
	return got
}

// object decodes the one JSON object on stdout.
func (b *bench) object(got outcome) map[string]any {
	b.t.Helper()
	if strings.Count(got.stdout, "\n") != 1 {
		b.t.Fatalf("stdout is not one line: %q (stderr %q)", got.stdout, got.stderr)
	}
	var object map[string]any
	dec := json.NewDecoder(strings.NewReader(got.stdout))
	dec.UseNumber()
	if err := dec.Decode(&object); err != nil {
		b.t.Fatalf("decode %q: %v", got.stdout, err)
	}
	return object
}

// reference unpacks a reference table and registers it as db.NAME.
func (b *bench) reference(name string) *icebergtest.Ref {
	b.t.Helper()
	ref := icebergtest.Reference(b.t, name)
	b.proc.stores["s3"] = ref.Store
	b.must("register", "--table", "db."+name, "--metadata-location", ref.Expected.MetadataFile)
	return ref
}
