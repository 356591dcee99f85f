package authority_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"firn/internal/authority"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/store"
)

func rules(t *testing.T, tables, warehouses []string) authority.Rules {
	t.Helper()
	r, err := authority.New(tables, warehouses, "mem://work/firn")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func table(namespace, name string) maintenance.TableID {
	return maintenance.TableID{Catalog: "lake", Namespace: maintenance.NewNamespace(namespace), Name: name}
}

func TestTable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		patterns []string
		id       maintenance.TableID
		want     bool
	}{
		{nil, table("db", "t"), true},
		{[]string{"db.t"}, table("db", "t"), true},
		{[]string{"db.t"}, table("db", "t2"), false},
		{[]string{"db.*"}, table("db", "t2"), true},
		{[]string{"db.*"}, table("dbx", "t"), false},
		{[]string{"other.**", "lake.db.t"}, table("db", "t"), true},
		{[]string{"elsewhere.db.t"}, table("db", "t"), false},
		{[]string{"**"}, table("a", "b"), true},
	} {
		err := rules(t, c.patterns, nil).Table(c.id)
		if (err == nil) != c.want || err != nil && (!errors.Is(err, authority.ErrOutside) || !errors.Is(err, catalogs.ErrRefused)) {
			t.Errorf("%q and %s: %v, want allowed %t", c.patterns, c.id, err, c.want)
		}
	}
}

func TestLocation(t *testing.T) {
	t.Parallel()
	warehouses := []string{"s3://lake/raw", "s3a://all/", "file:///data/wh/"}
	for location, want := range map[string]bool{
		"s3://lake/raw/db/t/metadata/1.json": true,
		"s3a://lake/raw/x":                   true,
		"s3://lake/raw":                      true,
		"s3://lake/raw_2/x":                  false,
		"s3://lake/":                         false,
		"s3://all/anything":                  true,
		"s3://other/raw/x":                   false,
		"mem://lake/raw/x":                   false,
		"s3://lake/raw/../secret/x":          false,
		"s3://lake/raw/./x":                  false,
		"s3://lake/raw/day=../x":             true,
		"s3://lake/raw//x":                   true,
		"/data/wh/t/x":                       true,
		"file:/data/wh/../x":                 false,
		"file:/data/wh/a/../x":               true,
		"relative/path":                      false,
		"":                                   false,
	} {
		err := rules(t, nil, warehouses).Location(location)
		if (err == nil) != want || err != nil && (!errors.Is(err, authority.ErrOutside) || !errors.Is(err, store.ErrPermission)) {
			t.Errorf("%q: %v, want allowed %t", location, err, want)
		}
		if err := rules(t, nil, nil).Location(location); err != nil {
			t.Errorf("no list, %q: %v", location, err)
		}
	}
	if _, err := authority.New([]string{""}, []string{"nowhere", "s3://b/../c"}, ""); err == nil {
		t.Error("faulty lists are taken")
	}
}

func TestMetadataThatPointsElsewhere(t *testing.T) {
	t.Parallel()
	r := rules(t, nil, []string{"s3://lake/wh"})
	if err := r.Metadata("s3://lake/wh/t", map[string]string{"write.data.path": "s3://lake/wh/data"}); err != nil {
		t.Error(err)
	}
	for property, location := range map[string]string{
		"": "s3://other/t", "write.data.path": "s3://lake/other", "write.metadata.path": "s3://x/m", "write.object-storage.path": "s3://x/o",
		"write.folder-storage.path": "/etc",
	} {
		home, properties := "s3://lake/wh/t", map[string]string{property: location}
		if property == "" {
			home = location
		}
		if err := r.Metadata(home, properties); !errors.Is(err, authority.ErrOutside) {
			t.Errorf("%s=%s: %v", property, location, err)
		}
	}
}

// server is a catalog that commits on its side.
type server struct {
	catalogs.Catalog
	calls int
}

func (s *server) Update(context.Context, maintenance.TableID, []byte, []byte) (catalogs.Pointer, error) {
	s.calls++
	return catalogs.Pointer{}, nil
}

func TestCatalogMovesNoPointerOutside(t *testing.T) {
	t.Parallel()
	ctx, memory := t.Context(), catalogs.NewMemory("lake")
	inside, outside, foreign := "mem://lake/wh/a.json", "mem://other/b.json", table("other", "t")
	for _, id := range []maintenance.TableID{table("db", "t"), foreign} {
		if err := memory.Register(ctx, id, inside); err != nil {
			t.Fatal(err)
		}
	}
	r := rules(t, []string{"lake.db.*"}, []string{"mem://lake/wh"})
	cat := r.Catalog(memory)
	swapper, base := cat.(catalogs.Swapper), catalogs.Pointer{MetadataLocation: inside}
	for name, err := range map[string]error{
		"swap out of the warehouse": swapper.Swap(ctx, table("db", "t"), base, outside),
		"swap another table":        swapper.Swap(ctx, foreign, base, "mem://lake/wh/c.json"),
		"register another table":    cat.(catalogs.Registrar).Register(ctx, table("other", "u"), inside),
		"register out of warehouse": cat.(catalogs.Registrar).Register(ctx, table("db", "u"), outside),
	} {
		if !errors.Is(err, authority.ErrOutside) || !errors.Is(err, catalogs.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for id, err := range memory.Tables(ctx, "") {
		ptr, lerr := cat.Load(ctx, id)
		if err != nil || lerr != nil || ptr.MetadataLocation != inside {
			t.Errorf("%s points at %v, %v, %v", id, ptr, err, lerr)
		}
	}
	if err := swapper.Swap(ctx, table("db", "t"), base, "mem://lake/wh/c.json"); err != nil {
		t.Error(err)
	}
	s := &server{Catalog: memory}
	if _, err := r.Catalog(s).(catalogs.Server).Update(ctx, foreign, nil, nil); !errors.Is(err, catalogs.ErrRefused) || s.calls != 0 {
		t.Errorf("update of another table: %v, %d calls", err, s.calls)
	}
	if _, err := r.Catalog(s).(catalogs.Server).Update(ctx, table("db", "t"), nil, nil); err != nil || s.calls != 1 {
		t.Errorf("update: %v, %d calls", err, s.calls)
	}
	if open := rules(t, nil, nil).Catalog(memory); open != catalogs.Catalog(memory) {
		t.Error("without lists the catalog is wrapped")
	}
}

func faults[T any](seq iter.Seq2[T, error]) (found []T, err error) {
	for v, e := range seq {
		if e != nil {
			return found, e
		}
		found = append(found, v)
	}
	return found, nil
}

func TestStoreReachesNothingOutside(t *testing.T) {
	t.Parallel()
	ctx, memory := t.Context(), store.NewMemory(time.Now)
	for _, location := range []string{"mem://lake/wh/a", "mem://lake/wh_2/a", "mem://other/a", "mem://work/firn/a"} {
		if err := memory.Put(ctx, location, []byte("x"), store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	fenced := rules(t, nil, []string{"mem://lake/wh"}).Store(memory)
	all := map[string]func(location string) error{
		"get":   func(l string) error { _, err := fenced.Get(ctx, l); return err },
		"range": func(l string) error { _, err := fenced.GetRange(ctx, l, 0, 1); return err },
		"head":  func(l string) error { _, err := fenced.Head(ctx, l); return err },
		"put":   func(l string) error { return fenced.Put(ctx, l, []byte("x"), store.WriteOptions{}) },
		"create": func(l string) error {
			u, err := fenced.Create(ctx, l, store.WriteOptions{})
			if err == nil {
				err = u.Abort(ctx)
			}
			return err
		},
		"list":     func(l string) error { _, err := faults(fenced.List(ctx, l, store.ListOptions{})); return err },
		"uploads":  func(l string) error { _, err := faults(fenced.Uploads(ctx, l)); return err },
		"versions": func(l string) error { _, err := fenced.(store.Versioned).Versions(ctx, l); return err },
		"undelete": func(l string) error {
			if err := fenced.(store.Versioned).Undelete(ctx, l, store.Version{ID: "1", Marker: true}); errors.Is(err, authority.ErrOutside) {
				return err
			}
			return nil // the store inside keeps no versions
		},
		"abort": func(l string) error { return fenced.AbortUpload(ctx, store.IncompleteUpload{Location: l, ID: "1"}) },
	}
	for name, call := range all {
		for _, location := range []string{"mem://other/a", "mem://lake/wh_2/a", "mem://lake/wh/../wh_2/a"} {
			if err := call(location); !errors.Is(err, authority.ErrOutside) {
				t.Errorf("%s of %s: %v", name, location, err)
			}
		}
		if err := call("mem://lake/wh/a"); err != nil {
			t.Errorf("%s inside: %v", name, err)
		}
		wantWork := slices.Contains([]string{"get", "range", "head", "put", "create"}, name)
		if err := call("mem://work/firn/a"); (err == nil) != wantWork {
			t.Errorf("%s in the work location: %v", name, err)
		}
	}
	if found, err := faults(fenced.List(ctx, "mem://lake/wh", store.ListOptions{})); err != nil || len(found) != 1 {
		t.Errorf("listing of the warehouse: %v, %v: want the one object in it", found, err)
	}
	deleted, failures, err := fenced.Delete(ctx, []string{"mem://other/a", "mem://lake/wh/a", "mem://work/firn/a"})
	if err != nil || deleted != 1 || len(failures) != 2 || !errors.Is(failures[0].Err, authority.ErrOutside) {
		t.Errorf("deleted %d, %v, %v: want only the one inside", deleted, failures, err)
	}
	if _, err := memory.Get(ctx, "mem://other/a"); err != nil {
		t.Errorf("the object outside: %v", err)
	}
}
