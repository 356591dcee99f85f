package icebergtest_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"firn/internal/icebergtest"
	"firn/internal/store"
)

func TestReferenceTablesAreComplete(t *testing.T) {
	t.Parallel()
	names := icebergtest.ReferenceNames(t)
	cases := 0
	for _, name := range names {
		ref := icebergtest.Reference(t, name)
		if table := ref.Table(t); table.Metadata.Version() != ref.Expected.FormatVersion {
			t.Errorf("%s: format version %d, want %d", name, table.Metadata.Version(), ref.Expected.FormatVersion)
		}
		for _, o := range ref.Expected.Objects {
			info, err := ref.Store.Head(context.Background(), "s3a://firn-ref/"+o.Key)
			if err != nil || info.SizeBytes != o.Size || info.ModifiedAt.UnixMilli() != o.LastModifiedMS {
				t.Errorf("%s: object %s is %+v (error %v), want %+v", name, o.Key, info, err, o)
			}
		}
		for _, c := range ref.OracleNames() {
			if got := ref.Oracle(t, c); len(got.Steps) == 0 || got.Case != c {
				t.Errorf("%s: oracle case %s has no steps or another name: %q", name, c, got.Case)
			}
			cases++
		}
	}
	if len(names) != 55 || cases != 373 {
		t.Errorf("%d tables and %d oracle cases, want 55 and 373", len(names), cases)
	}
}

func TestReferenceDirHasFilesWithTheirTimes(t *testing.T) {
	t.Parallel()
	dir, expected := icebergtest.ReferenceDir(t, "orphans_names")
	for _, o := range expected.Objects {
		info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(o.Key)))
		if err != nil || info.Size() != o.Size || info.ModTime().UnixMilli() != o.LastModifiedMS {
			t.Errorf("file %s: %v, %v", o.Key, info, err)
		}
	}
}

func TestReferenceClockRulesNewObjects(t *testing.T) {
	t.Parallel()
	ref := icebergtest.Reference(t, "empty_table")
	at := time.UnixMilli(1_700_000_000_000)
	ref.Clock.Set(at)
	if err := ref.Store.Put(context.Background(), "s3://firn-ref/new", nil, store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if info, err := ref.Store.Head(context.Background(), "s3://firn-ref/new"); err != nil || !info.ModifiedAt.Equal(at) {
		t.Errorf("new object has time %v, error %v: want %v", info.ModifiedAt, err, at)
	}
}
