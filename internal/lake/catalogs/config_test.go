package catalogs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"firn/internal/lake/catalogs"
)

func TestConfigMergesSources(t *testing.T) {
	home, work := t.TempDir(), t.TempDir()
	write := func(dir, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, ".pyiceberg.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(home, "default-catalog: prod\ncatalog:\n  Prod:\n    URI: http://file\n    s3.endpoint: http://s3\n    rest.sigv4-enabled: true\n    s3.connect-timeout: 60\n    empty:\n")
	write(work, "catalog:\n  other:\n    uri: sqlite:///x.db\n")
	sources := catalogs.Sources{
		HomeDir: home, WorkDir: work,
		Environ: []string{
			"PYICEBERG_CATALOG__PROD__S3__ACCESS_KEY_ID=key", "PYICEBERG_CATALOG__PROD__URI=http://env", "PYICEBERG_CATALOG__MY_CAT__TYPE=glue",
			"PYICEBERG_HOME=", "PATH=/bin", "PYICEBERG_CATALOG__BROKEN=x", "PYICEBERG_MAX_WORKERS=3",
		},
		Configured: map[string]map[string]string{"prod": {"warehouse": "wh", "s3.endpoint": "http://firn"}},
		Flags:      []string{"token=a=b"},
	}
	config, err := catalogs.LoadConfig(sources)
	if err != nil {
		t.Fatal(err)
	}
	if got := config.Default(); got != "prod" {
		t.Errorf("default catalog: got %q", got)
	}
	got, err := config.Properties("")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"uri": "http://env", "s3.endpoint": "http://firn", "rest.sigv4-enabled": "true", "s3.connect-timeout": "60", "s3.access-key-id": "key",
		"warehouse": "wh", "token": "a=b",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("prod: -want +got\n%s", diff)
	}
	got, err = config.Properties("my_cat")
	if diff := cmp.Diff(map[string]string{"type": "glue", "token": "a=b"}, got); err != nil || diff != "" {
		t.Errorf("my_cat: %v, -want +got\n%s", err, diff)
	}

	sources.Environ = append(sources.Environ, "PYICEBERG_DEFAULT_CATALOG=other", "PYICEBERG_HOME="+work)
	sources.Flags = nil
	if config, err = catalogs.LoadConfig(sources); err != nil {
		t.Fatal(err)
	}
	got, err = config.Properties("")
	if diff := cmp.Diff(map[string]string{"uri": "sqlite:///x.db"}, got); err != nil || diff != "" {
		t.Errorf("other, from PYICEBERG_HOME: %v, -want +got\n%s", err, diff)
	}
	if _, err := config.Properties("nowhere"); err == nil || !strings.Contains(err.Error(), "my-cat, other, prod") {
		t.Errorf("unknown catalog: got %v, want an error that names the known ones", err)
	}
}

func TestConfigRejectsMalformedSources(t *testing.T) {
	for text, want := range map[string]string{
		"catalog: [1]": "map of catalogs", "catalog:\n  a: text": "map of properties", "catalog:\n  a:\n    uri: [x]": `property "uri"`, "catalog: {": "pyiceberg.yaml",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, ".pyiceberg.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := catalogs.LoadConfig(catalogs.Sources{HomeDir: dir}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
	for _, flag := range []string{"novalue", "=x"} {
		if _, err := catalogs.LoadConfig(catalogs.Sources{Flags: []string{flag}}); err == nil || !strings.Contains(err.Error(), "KEY=VALUE") {
			t.Errorf("flag %q: got %v", flag, err)
		}
	}
}

func TestOpenKinds(t *testing.T) {
	for _, test := range []struct {
		props map[string]string
		kind  string
		fault string
	}{
		{map[string]string{"type": "SQL", "uri": "sqlite:///:memory:"}, catalogs.TypeSQL, ""},
		{map[string]string{"type": "jdbc", "uri": "jdbc:sqlite::memory:"}, catalogs.TypeSQL, ""},
		{map[string]string{"uri": "jdbc:postgresql://h/d"}, catalogs.TypeSQL, ""},
		{map[string]string{"uri": "postgresql+psycopg2://h/d"}, catalogs.TypeSQL, ""},
		{map[string]string{"uri": "https://h/catalog"}, catalogs.TypeREST, ""},
		{map[string]string{"catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog"}, catalogs.TypeGlue, ""},
		{map[string]string{"type": "in-memory"}, catalogs.TypeMemory, ""},
		{map[string]string{"type": "hive"}, "", "sql, rest, glue and in-memory"},
		{map[string]string{"uri": "thrift://h"}, "", "set type to"},
		{map[string]string{"warehouse": "s3://x"}, "", "given: warehouse"},
	} {
		kind, err := catalogs.Kind(test.props)
		if kind != test.kind || (err != nil) != (test.fault != "") || err != nil && !strings.Contains(err.Error(), test.fault) {
			t.Errorf("%v: got %q, %v, want %q, error with %q", test.props, kind, err, test.kind, test.fault)
		}
	}
	cat, err := catalogs.Open(t.Context(), "demo", map[string]string{"type": "sql", "uri": "sqlite:///:memory:"})
	if err != nil || cat.Name() != "demo" {
		t.Errorf("open: got %v, %v", cat, err)
	}
}
