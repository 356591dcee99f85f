package catalogs_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
)

// openSQLite opens a catalog on the file and closes it with the test.
func openSQLite(t *testing.T, file string) *catalogs.SQL {
	t.Helper()
	cat, err := catalogs.OpenSQL("c", map[string]string{"uri": "sqlite:///" + file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cat.Close() })
	return cat
}

func table(namespace, name string) maintenance.TableID {
	return maintenance.TableID{Namespace: maintenance.NewNamespace(namespace), Name: name}
}

func TestSQLURIForms(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	odd := filepath.Join(dir, "a b%20#.db")
	for _, uri := range []string{
		"sqlite:///" + dir + "/abs.db", "sqlite:///rel.db", "jdbc:sqlite:" + dir + "/jdbc.db", "jdbc:sqlite:jdbcrel.db", "jdbc:sqlite:file:" + dir + "/f.db",
		"sqlite+pysqlite:///" + dir + "/plus.db?timeout=3", "sqlite:///" + odd, "sqlite:///:memory:", "sqlite://", "jdbc:sqlite::memory:",
	} {
		cat, err := catalogs.OpenSQL("c", map[string]string{"uri": uri})
		if err != nil {
			t.Errorf("open %s: %v", uri, err)
			continue
		}
		if err := cat.Register(t.Context(), table("n", "t"), "/m.json"); err != nil {
			t.Errorf("register in %s: %v", uri, err)
		}
		if _, err := cat.Load(t.Context(), table("n", "t")); err != nil {
			t.Errorf("load from %s: %v", uri, err)
		}
		if err := cat.Close(); err != nil {
			t.Errorf("close %s: %v", uri, err)
		}
	}
	for _, name := range []string{"abs.db", "rel.db", "jdbc.db", "jdbcrel.db", "f.db", "plus.db", filepath.Base(odd)} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("want a database file: %v", err)
		}
	}
	for uri, want := range map[string]string{
		"mysql://h/d": `unknown database "mysql"`, "sqlite:/one.db": "sqlite:////absolute", "sqlite://host/x.db": "three slashes", "": "needs sqlite",
		"postgresql://u:secret@h:port/d": "malformed",
	} {
		_, err := catalogs.OpenSQL("c", map[string]string{"uri": uri})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("open %q: got error %v, want one with %q", uri, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("open %q: the error shows the password: %v", uri, err)
		}
	}
}

func TestSQLMissingDatabaseIsNotCreatedByReading(t *testing.T) {
	file := filepath.Join(t.TempDir(), "typo.db")
	cat := openSQLite(t, file)
	if _, err := cat.Load(t.Context(), table("n", "t")); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("load: got %v, want an error that names the file", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("reading made the database file (stat: %v)", err)
	}
}

// TestSQLSchemasOfOthers reads databases as Java (schema V0, V1 with a view) and PyIceberg (V1, type NULL from a migration) leave them.
func TestSQLSchemasOfOthers(t *testing.T) {
	const v0 = `CREATE TABLE iceberg_tables(catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,
		metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), PRIMARY KEY (catalog_name, table_namespace, table_name))`
	for _, test := range []struct {
		name string
		rows []string
	}{
		{"V0", []string{v0, `INSERT INTO iceberg_tables VALUES ('c','a.b','t','/1.json',NULL), ('c','a','s','/2.json','/1.json')`}},
		{"V1", []string{
			v0, `ALTER TABLE iceberg_tables ADD COLUMN iceberg_type VARCHAR(5)`,
			`INSERT INTO iceberg_tables VALUES ('c','a.b','t','/1.json',NULL,NULL), ('c','a','s','/2.json','/1.json','TABLE'), ('c','a','v','/v.json',NULL,'VIEW'),
			('other','a','elsewhere','/3.json',NULL,'TABLE'), ('c','a','empty',NULL,NULL,'TABLE')`,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "cat.db")
			db, err := sql.Open("sqlite", file)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			for _, statement := range test.rows {
				if _, err := db.Exec(statement); err != nil {
					t.Fatal(err)
				}
			}
			cat := openSQLite(t, file)
			pointer, err := cat.Load(t.Context(), maintenance.TableID{Namespace: maintenance.NewNamespace("a", "b"), Name: "t"})
			if err != nil || pointer.MetadataLocation != "/1.json" {
				t.Errorf("load a.b.t: got %+v, %v", pointer, err)
			}
			if err := cat.Swap(t.Context(), table("a", "s"), catalogs.Pointer{MetadataLocation: "/2.json"}, "/4.json"); err != nil {
				t.Errorf("swap: %v", err)
			}
			var previous string
			if err := db.QueryRow(`SELECT previous_metadata_location FROM iceberg_tables WHERE table_name = 's'`).Scan(&previous); err != nil || previous != "/2.json" {
				t.Errorf("previous_metadata_location: got %q, %v, want /2.json", previous, err)
			}
			if err := cat.Register(t.Context(), table("new", "r"), "/5.json"); err != nil {
				t.Errorf("register: %v", err)
			}
			if test.name == "V0" {
				return
			}
			if _, err := cat.Load(t.Context(), table("a", "v")); !errors.Is(err, catalogs.ErrNotIceberg) {
				t.Errorf("load a view: got %v, want ErrNotIceberg", err)
			}
			if _, err := cat.Load(t.Context(), table("a", "empty")); !errors.Is(err, catalogs.ErrNotIceberg) {
				t.Errorf("load a row without location: got %v, want ErrNotIceberg", err)
			}
			_, err = cat.Load(t.Context(), table("a", "elsewhere"))
			if !errors.Is(err, catalogs.ErrNoSuchTable) || !strings.Contains(err.Error(), `"other"`) {
				t.Errorf("load a table of another catalog: got %v, want ErrNoSuchTable that names it", err)
			}
			var kind string
			if err := db.QueryRow(`SELECT iceberg_type FROM iceberg_tables WHERE table_name = 'r'`).Scan(&kind); err != nil || kind != "TABLE" {
				t.Errorf("iceberg_type of a registered table: got %q, %v", kind, err)
			}
		})
	}
}

func TestSQLListsOverPages(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cat.db")
	cat := openSQLite(t, file)
	if err := cat.Register(t.Context(), table("a", "first"), "/m.json"); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2300)
		INSERT INTO iceberg_tables SELECT 'c', 'ns' || (i % 3), 't' || i, '/m.json', NULL, CASE i % 10 WHEN 0 THEN 'VIEW' ELSE 'TABLE' END FROM n`); err != nil {
		t.Fatal(err)
	}
	count := func(namespace maintenance.Namespace) int {
		var names []string
		for id, err := range cat.Tables(t.Context(), namespace) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, id.String())
		}
		slices.Sort(names)
		if got := len(slices.Compact(slices.Clone(names))); got != len(names) {
			t.Errorf("%d names twice", len(names)-got)
		}
		return len(names)
	}
	if got := count(""); got != 1+2300-230 {
		t.Errorf("all: got %d tables", got)
	}
	if got := count("ns1"); got != 767-77 {
		t.Errorf("ns1: got %d tables", got)
	}
}

// TestSQLReadOnlyDatabaseRefuses asserts the definite no of a file without write permission (skipped for root, whom no permission stops).
func TestSQLReadOnlyDatabaseRefuses(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write read-only files")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "cat.db")
	cat := openSQLite(t, file)
	if err := cat.Register(t.Context(), table("n", "t"), "/1.json"); err != nil {
		t.Fatal(err)
	}
	if err := cat.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o400); err != nil {
		t.Fatal(err)
	}
	again := openSQLite(t, file)
	if err := again.Swap(t.Context(), table("n", "t"), catalogs.Pointer{MetadataLocation: "/1.json"}, "/2.json"); !errors.Is(err, catalogs.ErrRefused) {
		t.Errorf("swap: got %v, want ErrRefused", err)
	}
}

// TestSQLLockedDatabaseIsUnknown holds the write lock beyond a caller's patience.
func TestSQLLockedDatabaseIsUnknown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cat.db")
	cat := openSQLite(t, file)
	if err := cat.Register(t.Context(), table("n", "t"), "/1.json"); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), `BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300e6)
	defer cancel()
	err = cat.Swap(ctx, table("n", "t"), catalogs.Pointer{MetadataLocation: "/1.json"}, "/2.json")
	if err == nil || errors.Is(err, catalogs.ErrConflict) || errors.Is(err, catalogs.ErrRefused) {
		t.Errorf("swap beside a lock: got %v, want an unknown state", err)
	}
	if _, err := conn.ExecContext(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	if err := cat.Swap(t.Context(), table("n", "t"), catalogs.Pointer{MetadataLocation: "/1.json"}, "/2.json"); err != nil {
		t.Errorf("swap after the lock: %v", err)
	}
}

func ExampleOpenSQL() {
	cat, err := catalogs.OpenSQL("demo", map[string]string{"uri": "sqlite:///:memory:"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	id := maintenance.TableID{Namespace: maintenance.NewNamespace("sales"), Name: "orders"}
	fmt.Println(cat.Register(ctx, id, "s3://lake/sales/orders/metadata/00000-a.metadata.json"))
	pointer, err := cat.Load(ctx, id)
	fmt.Println(pointer.MetadataLocation, err)
	// Output:
	// <nil>
	// s3://lake/sales/orders/metadata/00000-a.metadata.json <nil>
}

// dropRow drops a table with a connection of its own, as another process would.
func dropRow(driver, dsn string) func(*testing.T, maintenance.TableID) {
	return func(t *testing.T, id maintenance.TableID) {
		t.Helper()
		db, err := sql.Open(driver, dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		if _, err := db.Exec(`DELETE FROM iceberg_tables WHERE table_name = '` + id.Name + `'`); err != nil {
			t.Fatal(err)
		}
	}
}
