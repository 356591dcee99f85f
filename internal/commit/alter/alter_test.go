package alter_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"

	"firn/internal/commit"
	"firn/internal/commit/alter"
	"firn/internal/icebergtest"
	"firn/internal/lake/committer"
)

// place is a table with two snapshots and the port that alters it.
type place struct {
	t    *testing.T
	tbl  *icebergtest.Table
	port commit.Port
	ids  [2]int64
}

func newPlace(t *testing.T) *place {
	t.Helper()
	w := icebergtest.NewWorld(t)
	p := &place{t: t, tbl: w.NewTable("db.t", icebergtest.Columns("id long required", "g string required", "val double"))}
	for i := range p.ids {
		p.ids[i] = p.tbl.Commit(icebergtest.Append(icebergtest.Row{i, "a", 1.5})).Snapshot.SnapshotID
	}
	// A clock behind the table's last writer: other writers' clocks are no reason to refuse.
	c, err := committer.New(w.Catalog, w.Store, committer.Options{Now: func() time.Time { return w.Clock.Now().Add(-time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	p.port = commit.Port{Committer: c, Store: w.Store}
	return p
}

// alter makes a change that has to succeed, or to fail with a text.
func (p *place) alter(change alter.Change, fault string) {
	p.t.Helper()
	before := p.tbl.Pointer().MetadataLocation
	err := alter.Commit(context.Background(), p.port, p.tbl.ID, change)
	if fault == "" && err != nil || fault != "" && (err == nil || !strings.Contains(err.Error(), fault)) {
		p.t.Errorf("%+v: %v, want %q", change, err, fault)
	}
	if fault != "" && p.tbl.Pointer().MetadataLocation != before {
		p.t.Errorf("%+v: refused, and yet committed", change)
	}
}

func (p *place) ref(name string) (table.SnapshotRef, bool) {
	for n, ref := range p.tbl.State().Metadata.Refs() {
		if n == name {
			return ref, true
		}
	}
	return table.SnapshotRef{}, false
}

func ms(d time.Duration) *int64 {
	n := d.Milliseconds()
	return &n
}

// TestRefs: what Spark's statements do to branches and tags, retention included; a ref that is replaced keeps the retention that is not given.
func TestRefs(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	three := int64(3)
	p.alter(alter.Ref{Name: "b", Create: true, SnapshotID: &p.ids[0], MaxRefAgeMS: ms(time.Hour), MaxSnapshotAgeMS: ms(time.Minute), MinSnapshotsToKeep: &three}, "")
	p.alter(alter.Ref{Name: "b", Create: true}, "exists already")
	p.alter(alter.Ref{Name: "b", Create: true, IfNotExists: true}, "")
	if ref, _ := p.ref("b"); ref.SnapshotID != p.ids[0] || *ref.MaxRefAgeMs != 3_600_000 || *ref.MaxSnapshotAgeMs != 60_000 || *ref.MinSnapshotsToKeep != 3 {
		t.Errorf("created: %+v", ref)
	}
	p.alter(alter.Ref{Name: "b", Replace: true, MaxRefAgeMS: ms(2 * time.Hour)}, "")
	if ref, _ := p.ref("b"); ref.SnapshotID != p.ids[1] || *ref.MaxRefAgeMs != 7_200_000 || *ref.MinSnapshotsToKeep != 3 {
		t.Errorf("replaced: %+v", ref)
	}
	p.alter(alter.Ref{Name: "b", Tag: true, Replace: true}, "it is a branch")
	p.alter(alter.Ref{Name: "t", Tag: true, Replace: true}, "there is none")
	p.alter(alter.Ref{Name: "t", Tag: true, Create: true, Replace: true, MaxRefAgeMS: ms(time.Hour)}, "")
	if ref, _ := p.ref("t"); ref.SnapshotRefType != table.TagRef || ref.SnapshotID != p.ids[1] {
		t.Errorf("tag: %+v", ref)
	}
	missing := int64(17)
	p.alter(alter.Ref{Name: "x", Create: true, SnapshotID: &missing}, "no snapshot 17")
	p.alter(alter.Ref{Name: "main", Replace: true, SnapshotID: &p.ids[0]}, "branch main")
	p.alter(alter.DropRef{Name: "main"}, "branch main")
	p.alter(alter.DropRef{Name: "t"}, "it is a tag")
	p.alter(alter.DropRef{Name: "t", Tag: true}, "")
	p.alter(alter.DropRef{Name: "t", Tag: true}, "there is none")
	p.alter(alter.DropRef{Name: "t", Tag: true, IfExists: true}, "")
	if _, found := p.ref("t"); found {
		t.Error("the tag is still there")
	}
	if head := p.tbl.State().Metadata.CurrentSnapshot(); head.SnapshotID != p.ids[1] || len(p.tbl.State().Metadata.Snapshots()) != 2 {
		t.Errorf("the table's rows moved to snapshot %d", head.SnapshotID)
	}
}

// TestRefOfAnEmptyTable has no snapshot to name.
func TestRefOfAnEmptyTable(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	w := icebergtest.NewWorld(t)
	p.tbl = w.NewTable("db.empty")
	c, err := committer.New(w.Catalog, w.Store, committer.Options{Now: w.Clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	p.port = commit.Port{Committer: c, Store: w.Store}
	p.alter(alter.Ref{Name: "b", Create: true}, "no snapshot")
}

// TestWriteOrder: an order that the table had before gets its ID again, and the distribution mode goes along as in Spark.
func TestWriteOrder(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	state := func() (int, int, string) {
		meta := p.tbl.State().Metadata
		return meta.DefaultSortOrder(), len(meta.SortOrders()), meta.Properties()["write.distribution-mode"]
	}
	for _, step := range []struct {
		change       alter.WriteOrder
		id, orders   int
		distribution string
	}{
		{alter.WriteOrder{Order: "g, id DESC NULLS FIRST", Distribution: "range"}, 1, 2, "range"},
		{alter.WriteOrder{Order: "bucket(4, id), truncate(2, g) desc"}, 2, 3, "range"},
		{alter.WriteOrder{Order: "g, id DESC NULLS FIRST", Distribution: "hash"}, 1, 3, "hash"},
		{alter.WriteOrder{Order: "g, id DESC NULLS FIRST", Distribution: "hash"}, 1, 3, "hash"},
		{alter.WriteOrder{Distribution: "none"}, 0, 3, "none"},
	} {
		p.alter(step.change, "")
		if id, orders, mode := state(); id != step.id || orders != step.orders || mode != step.distribution {
			t.Errorf("%+v: order %d of %d, distribution %q", step.change, id, orders, mode)
		}
	}
	order := p.tbl.State().Metadata.SortOrders()[1]
	if order.Len() != 2 || order.Field(1).Direction != table.SortDESC || order.Field(1).NullOrder != table.NullsFirst || order.Field(0).NullOrder != table.NullsFirst {
		t.Errorf("order %v", order)
	}
	p.alter(alter.WriteOrder{Order: "nosuch"}, "cannot find field nosuch")
	p.alter(alter.WriteOrder{Order: "zorder(id, g)"}, "give it to rewrite_data_files")
}

// TestIdentifierFields: the specification's rules hold, and the schema stays the same but for the identifiers.
func TestIdentifierFields(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	before := p.tbl.State().Metadata.CurrentSchema()
	p.alter(alter.IdentifierFields{Names: []string{"id", "g"}}, "")
	p.alter(alter.IdentifierFields{Names: []string{"g", "id"}}, "")
	meta := p.tbl.State().Metadata
	if s := meta.CurrentSchema(); len(s.IdentifierFieldIDs) != 2 || s.ID != before.ID+1 || len(meta.Schemas()) != 2 || s.NumFields() != before.NumFields() {
		t.Errorf("schema %v", s)
	}
	p.alter(alter.IdentifierFields{Names: []string{"g"}, Drop: true}, "")
	if ids := p.tbl.State().Metadata.CurrentSchema().IdentifierFieldIDs; len(ids) != 1 || ids[0] != 1 {
		t.Errorf("identifiers %v", ids)
	}
	p.alter(alter.IdentifierFields{Names: []string{"g"}, Drop: true}, "not an identifier field")
	p.alter(alter.IdentifierFields{Names: []string{"val"}}, "cannot identify rows")
	p.alter(alter.IdentifierFields{Names: []string{"nosuch"}}, "not in the schema")
}
