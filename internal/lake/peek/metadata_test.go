package peek_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/lake/peek"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// TestPeekLinksNoTablePackage keeps evaluate, schedule and report free of the initialisers of iceberg-go's table package.
func TestPeekLinksNoTablePackage(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Skip("the go command is missing:", err)
	}
	for dep := range strings.SplitSeq(string(out), "\n") {
		if strings.HasPrefix(dep, "github.com/apache/iceberg-go/table") || strings.HasPrefix(dep, "github.com/apache/iceberg-go/catalog") {
			t.Errorf("peek links %s", dep)
		}
	}
}

// TestMetadataAgreesWithIcebergGo compares every reference table, and every metadata file in its log, with what iceberg-go's table package reads.
func TestMetadataAgreesWithIcebergGo(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, name := range icebergtest.ReferenceNames(t) {
		ref := icebergtest.Reference(t, name)
		want := ref.Table(t).Metadata
		got, err := peek.ReadMetadata(ctx, ref.Store, ref.Expected.MetadataFile)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.TableUUID != want.TableUUID().String() || got.Location != want.Location() || got.FormatVersion != want.Version() ||
			got.LastUpdatedMS != want.LastUpdatedMillis() || got.LastSequenceNumber != want.LastSequenceNumber() ||
			got.NextRowID != want.NextRowID() || fmt.Sprint(got.Properties) != fmt.Sprint(map[string]string(want.Properties())) ||
			got.DefaultSpecID != want.DefaultPartitionSpec() || len(got.Specs) != len(want.PartitionSpecs()) ||
			len(got.Snapshots) != len(want.Snapshots()) || got.CurrentSchemaID != want.CurrentSchema().ID {
			t.Errorf("%s: metadata %+v", name, got)
		}
		for _, s := range want.PartitionSpecs() {
			if spec, ok := got.Spec(s.ID()); !ok || !spec.Equals(s) {
				t.Errorf("%s: spec %d is %v, want %v", name, s.ID(), spec, s)
			}
		}
		for _, s := range want.Snapshots() {
			g := got.Snapshot(s.SnapshotID)
			if g == nil || g.ManifestList != s.ManifestList || g.SequenceNumber != s.SequenceNumber || g.TimestampMS != s.TimestampMs ||
				g.Summary["operation"] != string(s.Summary.Operation) || len(g.Summary) != len(s.Summary.Properties)+1 {
				t.Errorf("%s: snapshot %+v, want %v", name, g, s)
			}
		}
		for branch, r := range want.Refs() {
			if g := got.Refs[branch]; g.SnapshotID != r.SnapshotID || g.Type != string(r.SnapshotRefType) ||
				(g.MaxRefAgeMS == nil) != (r.MaxRefAgeMs == nil) || (g.MinSnapshotsToKeep == nil) != (r.MinSnapshotsToKeep == nil) {
				t.Errorf("%s: ref %s is %+v, want %+v", name, branch, g, r)
			}
		}
	}
}

func TestPackedMetadataIsToldByContent(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	plain := []byte(`{"format-version":2,"location":"s3://b/t","table-uuid":"x"}`)
	var gz bytes.Buffer
	zw := gzip.NewWriter(&gz)
	_, _ = zw.Write(plain)
	_ = zw.Close()
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	st := store.NewMemory(time.Now)
	for _, name := range []string{"v1.gz.metadata.json", "v1.metadata.json.gz", "v1.metadata.json"} {
		for kind, data := range map[string][]byte{"plain": plain, "gzip": gz.Bytes(), "zstd": enc.EncodeAll(plain, nil)} {
			location := "s3://b/" + kind + "/" + name
			if err := st.Put(ctx, location, data, store.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			if m, err := peek.ReadMetadata(ctx, st, location); err != nil || m.Location != "s3://b/t" {
				t.Errorf("%s: %v, error %v", location, m, err)
			}
		}
	}
	if err := st.Put(ctx, "s3://b/cut", gz.Bytes()[:gz.Len()-9], store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := peek.ReadMetadata(ctx, st, "s3://b/cut"); err == nil {
		t.Error("a gzip file that was cut off is read")
	}
	if _, err := peek.ReadMetadata(ctx, st, "s3://b/none"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("missing file: %v", err)
	}
}

func TestMetadataFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		`{"format-version":4,"location":"s3://b/t"}`:                          peek.ErrUnsupported,
		`{"location":"s3://b/t"}`:                                             peek.ErrUnsupported,
		`{"format-version":2,"location":"s3://b/t","current-snapshot-id":12}`: peek.ErrTableFault,
		`{"format-version":2}`:                                                nil,
		`{"format-version":2,`:                                                nil,
		`[]`:                                                                  nil,
	} {
		if _, err := peek.ParseMetadata([]byte(text)); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", text, err, want)
		}
	}
	// lake refuses the same versions.
	for text, want := range map[string]error{`{"format-version":4,"location":"s3://b/t"}`: lake.ErrUnsupported} {
		ptr := catalogs.Pointer{MetadataLocation: "s3://b/m", Metadata: []byte(text)}
		if _, err := lake.Read(context.Background(), nil, maintenance.TableID{}, ptr); !errors.Is(err, want) {
			t.Errorf("lake reads %s: error %v, want %v", text, err, want)
		}
	}
}

func TestOldMetadataIsCompleted(t *testing.T) {
	t.Parallel()
	m, err := peek.ParseMetadata([]byte(`{"format-version":1,"location":"s3://b/t","current-snapshot-id":5,
		"schema":{"type":"struct","fields":[{"id":1,"name":"g","required":false,"type":"string"}]},
		"partition-spec":[{"name":"g","transform":"identity","source-id":1,"field-id":1000}],
		"snapshots":[{"snapshot-id":5,"timestamp-ms":1,"manifest-list":"s3://b/l"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	spec, ok := m.Spec(0)
	if head := m.Head(""); !ok || spec.NumFields() != 1 || head == nil || head.ID != 5 || len(m.Schemas) != 1 {
		t.Errorf("spec %v, head %v, schemas %d", spec, m.Head(""), len(m.Schemas))
	}
	if m, err := peek.ParseMetadata([]byte(`{"format-version":1,"location":"s3://b/t","current-snapshot-id":-1}`)); err != nil || m.Head("") != nil {
		t.Errorf("a table without snapshot has head %v, error %v", m.Head(""), err)
	}
}

func TestSince(t *testing.T) {
	t.Parallel()
	parent := func(id int64) *int64 { return &id }
	m := peek.Metadata{Snapshots: []peek.Snapshot{
		{ID: 1},
		{ID: 2, ParentID: parent(1)},
		{ID: 3, ParentID: parent(2)},
		{ID: 4, ParentID: parent(1)},
		{ID: 6, ParentID: parent(5)},
		{ID: 7, ParentID: parent(8)},
		{ID: 8, ParentID: parent(7)},
	}}
	tests := []struct {
		name       string
		head, seen int64
		want       string
		ok         bool
	}{
		{"nothing new", 3, 3, "", true},
		{"two new", 3, 1, "3 2 ", true},
		{"rolled back", 4, 3, "", false},
		{"expired between", 6, 1, "", false},
		{"a circle", 7, 1, "", false},
	}
	for _, tt := range tests {
		changed, ok := m.Since(tt.head, tt.seen)
		var got strings.Builder
		for _, s := range changed {
			fmt.Fprintf(&got, "%d ", s.ID)
		}
		if got.String() != tt.want || ok != tt.ok {
			t.Errorf("%s: %q, %t", tt.name, got.String(), ok)
		}
	}
}

func FuzzParseMetadata(f *testing.F) {
	f.Add([]byte(`{"format-version":2,"location":"s3://b/t","partition-specs":[{"spec-id":0,"fields":[]}]}`))
	f.Add([]byte(`{"format-version":1,"location":"s3://b/t","partition-spec":[{"name":"g","transform":"bucket[4]","source-id":1}],"current-snapshot-id":-1}`))
	f.Add([]byte{0x1f, 0x8b, 0x08, 0x00})
	f.Fuzz(func(_ *testing.T, data []byte) {
		plain, err := peek.Unpack(data)
		if err != nil {
			return
		}
		if m, err := peek.ParseMetadata(plain); err == nil {
			m.Head("")
			m.Spec(0)
		}
	})
}
