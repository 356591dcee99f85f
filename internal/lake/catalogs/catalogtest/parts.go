package catalogtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
)

func testRead(t *testing.T, s *suite) {
	location := s.create(t, tableID("a"))
	other := maintenance.TableID{Namespace: maintenance.NewNamespace("db2"), Name: "b"}
	s.create(t, other)
	ptr, err := s.Catalog.Load(t.Context(), tableID("a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, server := s.Catalog.(catalogs.Server); ptr.MetadataLocation != location && !server {
		t.Errorf("pointer: got %s, want %s", ptr.MetadataLocation, location)
	}
	if _, swaps := s.Catalog.(catalogs.Swapper); swaps && ptr.Version == "" {
		t.Error("the pointer has no version to compare")
	}
	if _, err := s.Catalog.Load(t.Context(), tableID("nope")); !errors.Is(err, catalogs.ErrNoSuchTable) {
		t.Errorf("load an unknown table: got %v, want ErrNoSuchTable", err)
	}
	unknown := maintenance.TableID{Namespace: maintenance.NewNamespace("nowhere"), Name: "a"}
	if _, err := s.Catalog.Load(t.Context(), unknown); !errors.Is(err, catalogs.ErrNoSuchTable) {
		t.Errorf("load from an unknown namespace: got %v, want ErrNoSuchTable", err)
	}
	if err := s.Catalog.(catalogs.Registrar).Register(t.Context(), tableID("a"), location); !errors.Is(err, catalogs.ErrExists) {
		t.Errorf("register twice: got %v, want ErrExists", err)
	}
	list := func(namespace maintenance.Namespace) []string {
		var names []string
		for id, err := range s.Catalog.Tables(t.Context(), namespace) {
			if err != nil {
				t.Fatal(err)
			}
			if id.Catalog != s.Catalog.Name() {
				t.Errorf("listed %s under catalog %q", id, id.Catalog)
			}
			id.Catalog = ""
			names = append(names, id.String())
		}
		slices.Sort(names)
		return names
	}
	if got := list(""); !slices.Equal(got, []string{"db.a", "db2.b"}) {
		t.Errorf("all tables: got %v", got)
	}
	if got := list("db"); !slices.Equal(got, []string{"db.a"}) {
		t.Errorf("tables of db: got %v", got)
	}
	for range s.Catalog.Tables(t.Context(), "") {
		break // an abandoned iteration is no error
	}
}

func testCommit(t *testing.T, s *suite) {
	id := tableID("t")
	s.create(t, id)
	for i := range int64(3) {
		base := s.head(t, id)
		result, err := s.com.Commit(t.Context(), base, AddSnapshot(base, 100+i))
		if err != nil {
			t.Fatal(err)
		}
		if result.Table == nil || result.Table.Metadata.CurrentSnapshot().SnapshotID != 100+i || result.MetadataLocation == "" {
			t.Fatalf("result: %+v", result)
		}
		head := s.head(t, id)
		if head.Metadata.CurrentSnapshot().SnapshotID != 100+i || head.Pointer.MetadataLocation != result.MetadataLocation {
			t.Errorf("head: snapshot %d at %s", head.Metadata.CurrentSnapshot().SnapshotID, head.Pointer.MetadataLocation)
		}
		if base.Metadata.LastUpdatedMillis() > head.Metadata.LastUpdatedMillis() {
			t.Error("last-updated-ms went back")
		}
	}
}

// unneeded checks what a definitely lost attempt gives up: the metadata file that it wrote, where the client writes it.
func (s *suite) unneeded(t *testing.T, got []string, location string) {
	t.Helper()
	var want []string
	if _, swaps := s.Catalog.(catalogs.Swapper); swaps && location != "" {
		want = []string{location}
	}
	if !slices.Equal(got, want) {
		t.Errorf("unneeded: got %v, want %v", got, want)
	}
}

func testStaleBase(t *testing.T, s *suite) {
	id := tableID("t")
	s.create(t, id)
	base := s.head(t, id)
	if _, err := s.com.Commit(t.Context(), base, AddSnapshot(base, 1)); err != nil {
		t.Fatal(err)
	}
	result, err := s.com.Commit(t.Context(), base, AddSnapshot(base, 2))
	if EndOf(err) != Conflict {
		t.Errorf("stale base: got %v, want a conflict", err)
	}
	s.unneeded(t, result.Unneeded, result.MetadataLocation)
	if got := s.head(t, id).Metadata.Snapshots(); len(got) != 1 || got[0].SnapshotID != 1 {
		t.Errorf("snapshots: %v", got)
	}
}

// testRace lets 16 writers commit from the same base, five times over: each time exactly one is committed and the others are conflicts.
func testRace(t *testing.T, s *suite) {
	const writers = 16
	id := tableID("t")
	s.create(t, id)
	for round := range int64(5) {
		base := s.head(t, id)
		ends := make([]error, writers)
		var wg sync.WaitGroup
		start := make(chan struct{})
		for w := range writers {
			wg.Go(func() {
				<-start
				_, ends[w] = s.com.Commit(t.Context(), base, AddSnapshot(base, 1000*(round+1)+int64(w)))
			})
		}
		close(start)
		wg.Wait()
		winner := -1
		for w, err := range ends {
			switch EndOf(err) {
			case Committed:
				if winner >= 0 {
					t.Errorf("round %d: writers %d and %d both won", round, winner, w)
				}
				winner = w
			case Conflict:
			default:
				t.Errorf("round %d, writer %d: %v", round, w, err)
			}
		}
		if winner < 0 {
			t.Fatalf("round %d: nobody won", round)
		}
		head := s.head(t, id).Metadata
		if got, want := head.CurrentSnapshot().SnapshotID, 1000*(round+1)+int64(winner); got != want || len(head.Snapshots()) != int(round)+1 {
			t.Errorf("round %d: head is %d of %d snapshots, want %d", round, got, len(head.Snapshots()), want)
		}
	}
}

// testNoLostUpdate lets writers repeat until each has committed; every snapshot must be there in one line of history.
func testNoLostUpdate(t *testing.T, s *suite) {
	const writers = 6
	id := tableID("t")
	s.create(t, id)
	var wg sync.WaitGroup
	for w := range int64(writers) {
		wg.Go(func() {
			for range 200 {
				base, err := s.com.Head(t.Context(), id)
				if err == nil {
					_, err = s.com.Commit(t.Context(), base, AddSnapshot(base, w+1))
				}
				switch EndOf(err) {
				case Committed:
					return
				case Conflict:
				default:
					t.Errorf("writer %d: %v", w, err)
					return
				}
			}
			t.Errorf("writer %d never won", w)
		})
	}
	wg.Wait()
	meta := s.head(t, id).Metadata
	seen := map[int64]bool{}
	for snap := meta.CurrentSnapshot(); snap != nil; {
		seen[snap.SnapshotID] = true
		if snap.ParentSnapshotID == nil {
			break
		}
		snap = meta.SnapshotByID(*snap.ParentSnapshotID)
	}
	if len(seen) != writers {
		t.Errorf("history has %d of %d snapshots", len(seen), writers)
	}
}

func testFaults(t *testing.T, s *suite) {
	if s.Arm == nil {
		t.Skip("the world offers no faults")
	}
	for i, fault := range Faults() {
		t.Run(string(fault), func(t *testing.T) {
			id := tableID(fmt.Sprintf("t%d", i))
			s.create(t, id)
			base := s.head(t, id)
			s.Arm(fault)
			ctx := t.Context()
			if fault == SlowAnswer {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, patience)
				defer cancel()
			}
			result, err := s.com.Commit(ctx, base, AddSnapshot(base, 1))
			want := Unknown
			if fault == Forbidden {
				want = Refused
			}
			if got := EndOf(err); got != want {
				t.Errorf("got %s (%v), want %s", got, err, want)
			}
			if errors.Is(err, catalogs.ErrTransient) {
				t.Errorf("a commit returned ErrTransient: %v", err)
			}
			if want == Unknown && len(result.Unneeded) > 0 {
				t.Errorf("state unknown, and yet given up: %v", result.Unneeded)
			}
			if want == Refused {
				s.unneeded(t, result.Unneeded, result.MetadataLocation)
			}
			head := s.head(t, id)
			if got := head.Metadata.CurrentSnapshot() != nil; got != fault.applied() {
				t.Errorf("applied: got %v, want %v", got, fault.applied())
			}
			if _, swaps := s.Catalog.(catalogs.Swapper); swaps && fault.applied() && head.Pointer.MetadataLocation != result.MetadataLocation {
				t.Errorf("head %s does not prove attempt %s", head.Pointer.MetadataLocation, result.MetadataLocation)
			}
			// Sending the very same again must never commit twice.
			if _, err := s.com.Commit(t.Context(), base, AddSnapshot(base, 1)); fault.applied() && EndOf(err) != Conflict {
				t.Errorf("same snapshot again: got %v, want a conflict", err)
			}
			// And the table goes on.
			head = s.head(t, id)
			if _, err := s.com.Commit(t.Context(), head, AddSnapshot(head, 2)); err != nil {
				t.Errorf("next commit: %v", err)
			}
		})
	}
}

func testDropped(t *testing.T, s *suite) {
	if s.Drop == nil {
		t.Skip("the world cannot drop tables")
	}
	id := tableID("t")
	s.create(t, id)
	base := s.head(t, id)
	s.Drop(t, id)
	_, err := s.com.Commit(t.Context(), base, AddSnapshot(base, 1))
	if EndOf(err) != Refused || !errors.Is(err, catalogs.ErrNoSuchTable) {
		t.Errorf("commit to a dropped table: got %v, want a refusal that says so", err)
	}
	// Dropped and made anew under the same name: another table.
	s.create(t, id)
	if _, err := s.com.Commit(t.Context(), base, AddSnapshot(base, 1)); EndOf(err) != Conflict {
		t.Errorf("commit to a table that was made anew: got %v, want a conflict", err)
	}
}

func testOddNames(t *testing.T, s *suite) {
	ids := []maintenance.TableID{
		{Namespace: maintenance.NewNamespace("my db"), Name: "a+b"},
		{Namespace: maintenance.NewNamespace("my db"), Name: "a b"},
		{Namespace: maintenance.NewNamespace("p%20q"), Name: "50%"},
		{Namespace: maintenance.NewNamespace("größe"), Name: "表/x?y#z&'\""},
	}
	locations := map[maintenance.TableID]uuid.UUID{}
	for _, id := range ids {
		s.create(t, id)
		locations[id] = s.head(t, id).Metadata.TableUUID()
	}
	listed := 0
	for id, err := range s.Catalog.Tables(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		listed++
		head := s.head(t, id)
		id.Catalog = ""
		if head.Metadata.TableUUID() != locations[id] {
			t.Errorf("listed %q is another table", id)
		}
		if _, err := s.com.Commit(t.Context(), head, Set(head, "k", "v")); err != nil {
			t.Errorf("commit to %q: %v", id, err)
		}
	}
	if listed != len(ids) {
		t.Errorf("listed %d tables, want %d", listed, len(ids))
	}
}

func testCanceled(t *testing.T, s *suite) {
	id := tableID("t")
	s.create(t, id)
	base := s.head(t, id)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.com.Commit(ctx, base, AddSnapshot(base, 1)); EndOf(err) == Committed || EndOf(err) == Conflict {
		t.Errorf("commit under a canceled context: %v", err)
	}
	if s.head(t, id).Metadata.CurrentSnapshot() != nil {
		t.Error("a canceled commit was applied")
	}
}

// testRequirements sends requirements that do not hold on the current state though they hold on the base that the client has.
func testRequirements(t *testing.T, s *suite) {
	id := tableID("t")
	s.create(t, id)
	base := s.head(t, id)
	if _, err := s.com.Commit(t.Context(), base, AddSnapshot(base, 1)); err != nil {
		t.Fatal(err)
	}
	first := s.head(t, id)
	change := Set(first, "k", "v")
	change.Requirements = append(change.Requirements, table.AssertRefSnapshotID("tag", nil))
	tag := AddSnapshot(first, 2)
	tag.Updates = append(tag.Updates, table.NewSetSnapshotRefUpdate("tag", 2, table.TagRef, 0, 0, 0))
	if _, err := s.com.Commit(t.Context(), first, tag); err != nil {
		t.Fatal(err)
	}
	if _, err := s.com.Commit(t.Context(), first, change); EndOf(err) != Conflict {
		t.Errorf("a tag was made meanwhile: got %v, want a conflict", err)
	}
	stranger := &lake.Table{ID: id, Pointer: s.head(t, id).Pointer, Metadata: first.Metadata}
	_, err := s.com.Commit(t.Context(), stranger, AddSnapshot(first, 3))
	if end := EndOf(err); end != Conflict && end != Refused {
		t.Errorf("base and pointer of different states: got %v", err)
	}
}
