package lake_test

import (
	"context"
	"errors"
	"testing"

	"github.com/apache/iceberg-go"

	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/store"
)

func TestLoad(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	state, err := lake.Load(ctx, w.Catalog, w.Store, tbl.ID)
	if err != nil || state.ID != tbl.ID || state.Pointer.MetadataLocation != tbl.Pointer().MetadataLocation {
		t.Fatalf("loaded %+v, error %v", state, err)
	}
	if _, err := lake.Load(ctx, w.Catalog, w.Store, maintenance.TableID{Namespace: "db", Name: "none"}); !errors.Is(err, catalogs.ErrNoSuchTable) {
		t.Errorf("missing table: %v", err)
	}
	if _, err := lake.Read(ctx, w.Store, tbl.ID, catalogs.Pointer{MetadataLocation: "s3://world/none"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("missing metadata file: %v", err)
	}
	data, err := w.Store.Get(ctx, state.Pointer.MetadataLocation)
	if err != nil {
		t.Fatal(err)
	}
	given, err := lake.Read(ctx, nil, tbl.ID, catalogs.Pointer{MetadataLocation: "s3://elsewhere/m", Metadata: data})
	if err != nil || given.Metadata.TableUUID() != state.Metadata.TableUUID() || given.Pointer.Metadata != nil {
		t.Errorf("metadata that came with the pointer: %+v, %v", given, err)
	}
}

func TestHead(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	if head, err := tbl.State().Head("main"); head != nil || err != nil {
		t.Errorf("an empty table has head %v, error %v", head, err)
	}
	one := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a", 0.5})).Snapshot.SnapshotID
	tbl.Branch("dev", one)
	tbl.Tag("v1", one)
	two := tbl.Commit(icebergtest.Append(icebergtest.Row{2, "a", 0.5})).Snapshot.SnapshotID
	state := tbl.State()
	for branch, want := range map[string]int64{"": two, "main": two, "dev": one} {
		if head, err := state.Head(branch); err != nil || head.SnapshotID != want {
			t.Errorf("head of %q is %v, error %v: want %d", branch, head, err, want)
		}
	}
	for _, name := range []string{"v1", "none"} {
		if _, err := state.Head(name); err == nil {
			t.Errorf("%s has a head", name)
		}
	}
}

// TestCodecAfterTheSourceColumnWasDropped: iceberg-go would encode null for a partition field whose source the schema lacks.
func TestCodecAfterTheSourceColumnWasDropped(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Partitioned("g"))
	path := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a", 0.5})).DataFiles[0]
	spec := tbl.State().Metadata.PartitionSpec()
	tbl.Repartition()
	tbl.Evolve(icebergtest.DropColumn("g"), icebergtest.PromoteColumn("val", "double"))
	state, e := tbl.State(), entryOf(t, w, tbl, path)
	if _, err := lake.EncodeFile(e.File, spec, state.Metadata.CurrentSchema()); err == nil {
		t.Error("a schema without the source column encodes")
	}
	if _, err := lake.DecodeFile(nil, spec, state.Metadata.CurrentSchema()); err == nil {
		t.Error("a schema without the source column decodes")
	}
	roundTrip(t, state, e)
	unknown := iceberg.NewPartitionSpecID(9, iceberg.PartitionField{SourceIDs: []int{99}, FieldID: 1009, Name: "x", Transform: iceberg.IdentityTransform{}})
	if _, err := state.SpecSchema(unknown); !errors.Is(err, lake.ErrTableFault) {
		t.Errorf("schema of a spec that none fits: %v", err)
	}
}

func TestCodecRefusesFilesWithoutStatistics(t *testing.T) {
	t.Parallel()
	ref := icebergtest.Reference(t, "small_v1")
	state := ref.Table(t)
	manifests, err := lake.Manifests(context.Background(), ref.Store, state.Metadata.CurrentSnapshot())
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range lake.Entries(context.Background(), ref.Store, manifests[0], lake.EntryOptions{WithoutStats: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lake.EncodeFile(e.File, state.Metadata.PartitionSpec(), state.Metadata.CurrentSchema()); err == nil {
			t.Fatal("a file without statistics encodes")
		}
	}
	data, err := ref.Store.Get(context.Background(), manifests[0].FilePath())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lake.DecodeFile(data[:50], state.Metadata.PartitionSpec(), state.Metadata.CurrentSchema()); err == nil {
		t.Error("other bytes decode")
	}
}

// TestDeletedEntriesAreAskedFor: tombstones stay out of every answer unless the caller wants them.
func TestDeletedEntriesAreAskedFor(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Partitioned("g"))
	one := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a", 0.5}, icebergtest.Row{2, "b", 0.5}))
	gone := tbl.Commit(icebergtest.Remove(one.DataFiles[0]))
	manifests, err := lake.Manifests(ctx, w.Store, gone.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	for _, include := range []bool{false, true} {
		var deleted, live int
		for _, m := range manifests {
			for e, err := range lake.Entries(ctx, w.Store, m, lake.EntryOptions{IncludeDeleted: include}) {
				switch {
				case err != nil:
					t.Fatal(err)
				case e.Status == iceberg.EntryStatusDELETED:
					deleted++
					if e.SnapshotID != gone.Snapshot.SnapshotID || e.DataSequence != 1 {
						t.Errorf("tombstone %s has data sequence %d", e, e.DataSequence)
					}
				default:
					live++
				}
			}
		}
		if live != 1 || deleted != map[bool]int{true: 1}[include] {
			t.Errorf("include deleted %t: %d live, %d deleted", include, live, deleted)
		}
	}
}

// broken fails when it is asked for one location.
type broken struct {
	store.Reader
	location string
}

func (b broken) Get(ctx context.Context, location string) ([]byte, error) {
	if location == b.location {
		return nil, store.ErrTransient
	}
	return b.Reader.Get(ctx, location)
}

func TestUnreadableManifestEndsTheScan(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	for i := range 6 {
		tbl.Commit(icebergtest.Append(icebergtest.Row{i, "a", 0.5}))
	}
	head, _ := tbl.State().Head("")
	manifests, err := lake.Manifests(ctx, w.Store, head)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range manifests {
		s := newScan(t, broken{w.Store, m.FilePath()}, tbl.State())
		seen, failed := 0, false
		for _, err := range s.Files(ctx, nil) {
			if err != nil {
				failed = errors.Is(err, store.ErrTransient)
				break
			}
			seen++
		}
		if seen != i || !failed {
			t.Errorf("manifest %d is broken: %d files, failed %t", i, seen, failed)
		}
	}
	if _, err := lake.NewScan(ctx, broken{w.Store, head.ManifestList}, tbl.State(), head); !errors.Is(err, store.ErrTransient) {
		t.Errorf("broken list: %v", err)
	}
}
