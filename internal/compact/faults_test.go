package compact_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"firn/internal/compact"
	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// smallTable has three data files with deletes.
func smallTable(t *testing.T) (*icebergtest.World, *icebergtest.Table, []string) {
	t.Helper()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Columns("id long", "s string"))
	var paths []string
	for f := range 3 {
		var rows []icebergtest.Row
		for i := range 50 {
			rows = append(rows, icebergtest.Row{100*f + i, fmt.Sprintf("text %d", i)})
		}
		paths = append(paths, tbl.Commit(icebergtest.Append(rows...)).DataFiles...)
	}
	tbl.Commit(icebergtest.DeletePositionsTogether(icebergtest.Position{Path: paths[0], Pos: 3}, icebergtest.Position{Path: paths[1], Pos: 4}))
	tbl.Commit(icebergtest.DeleteEqual([]string{"id"}, icebergtest.Row{201}))
	return w, tbl, paths
}

// TestEachCallFailsOnce lets every storage call fail once in turn, with an error that may pass. The function must answer with an error, never
// with a refusal; the next call, undisturbed, must do the work. What a failed attempt leaves are whole files under names of its own.
func TestEachCallFailsOnce(t *testing.T) {
	t.Parallel()
	w, tbl, _ := smallTable(t)
	before := tbl.Rows()
	ctx := context.Background()
	struck := 0
	for n := 1; ; n++ {
		faults := store.NewFaults(w.Store, store.FailNth(store.OpAny, n, store.ErrTransient))
		b := newBench(t, w.Store, tbl.State())
		b.runAs(fmt.Sprintf("n%025d", n))
		item := b.item(0)
		b.fn = compact.New(compact.Deps{Store: faults, WorkLocation: b.workLocation})
		out, err := b.fn.Handle(ctx, item)
		if err == nil && out.Outcome != maintenance.Committed {
			t.Fatalf("call %d: %s: %s", n, out.Outcome, out.Reason)
		}
		if err != nil {
			struck++
			if !errors.Is(err, store.ErrTransient) {
				t.Fatalf("call %d: %v: want the storage error", n, err)
			}
			if out, err = b.fn.Handle(ctx, item); err != nil || out.Outcome != maintenance.Committed {
				t.Fatalf("call %d, second attempt: %+v, %v", n, out, err)
			}
		}
		var r handoff.GroupResult
		b.must(b.work.Read(ctx, b.work.Result(item.Job, 0), &r))
		checkProof(t, b, 0, r)
		if faults.Fired() == 0 {
			break
		}
	}
	if struck < 10 {
		t.Errorf("only %d calls failed", struck)
	}
	if after := tbl.Rows(); after.Digest != before.Digest {
		t.Error("the table changed")
	}
	for up, err := range w.Store.Uploads(ctx, "s3://world/") {
		t.Errorf("upload left behind: %+v, %v", up, err)
	}
}

// TestRefusedInputs: a file that cannot be read for good is a refused group with the file's name in the reason, and no output is left.
func TestRefusedInputs(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, c := range map[string]struct {
		reason string
		rule   store.Rule
		spoil  func([]byte) []byte
	}{
		"missing":        {"missing", store.Rule{Err: store.ErrNotFound}, nil},
		"archived (A34)": {"archive", store.Rule{Err: store.ErrArchived}, nil},
		"forbidden":      {"not permitted", store.Rule{Err: store.ErrPermission}, nil},
		"footer": {"read the footer", store.Rule{}, func(b []byte) []byte {
			copy(b[len(b)-60:], bytes.Repeat([]byte{0xee}, 40))
			return b
		}},
		"magic":  {"magic", store.Rule{}, func(b []byte) []byte { b[len(b)-1] = 'X'; return b }},
		"length": {"its manifest entry says", store.Rule{}, func(b []byte) []byte { return append(b, 0) }},
		"page":   {"column id, page 0", store.Rule{}, func(b []byte) []byte { copy(b[4:], bytes.Repeat([]byte{0xff}, 60)); return b }},
		"empty":  {"its manifest entry says", store.Rule{}, func([]byte) []byte { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, tbl, paths := smallTable(t)
			b := newBench(t, w.Store, tbl.State())
			faults := store.NewFaults(w.Store)
			b.fn = compact.New(compact.Deps{Store: faults, WorkLocation: b.workLocation})
			if c.rule.Err != nil {
				c.rule.Contains = paths[1]
				faults.Add(c.rule)
			}
			if c.spoil != nil {
				data, err := w.Store.Get(ctx, paths[1])
				b.must(err)
				b.must(w.Store.Put(ctx, paths[1], c.spoil(bytes.Clone(data)), store.WriteOptions{}))
			}
			r := b.rewrite(0)
			if r.Outcome != maintenance.Refused || !strings.Contains(r.Reason, c.reason) || !strings.Contains(r.Reason, paths[1]) {
				t.Errorf("%s: %s: want %q and the file's name", r.Outcome, r.Reason, c.reason)
			}
			for info, err := range w.Store.List(ctx, store.Join(b.pinned.Location, "data"), store.ListOptions{}) {
				b.must(err)
				if strings.Contains(info.Location, "00000-0-") {
					t.Errorf("output left behind: %s", info.Location)
				}
			}
			for up, err := range w.Store.Uploads(ctx, "s3://world/") {
				t.Errorf("upload left behind: %+v, %v", up, err)
			}
		})
	}
}

// TestUnusableTable: an unknown format version, a bad property and a spec that is not there are refusals too.
func TestUnusableTable(t *testing.T) {
	t.Parallel()
	for reason, spoil := range map[string]func(*bench){
		"format version 4":  func(b *bench) { b.pinned.FormatVersion = 4 },
		"compression-codec": func(b *bench) { b.pinned.Properties["write.parquet.compression-codec"] = "lzo" },
		"metrics mode":      func(b *bench) { b.pinned.Properties["write.metadata.metrics.default"] = "most" },
		"partition spec 9":  func(b *bench) { b.groups[0].OutputSpecID = 9 },
		"may not be exact": func(b *bench) {
			b.pinned.Schemas[0] = []byte(strings.Replace(string(b.pinned.Schemas[0]), `"name":"id"`, `"name":"id","initial-default":9007199254740994`, 1))
		},
		"is encrypted": func(b *bench) { b.pinned.Properties["encryption.key-id"] = "k" },
		"no schema 77": func(b *bench) { b.pinned.SchemaID = 77 },
		"row lineage":  func(b *bench) { b.groups[0].HasRowLineage = true },
	} {
		w, tbl, _ := smallTable(t)
		b := newBench(t, w.Store, tbl.State())
		spoil(b)
		if r := b.rewrite(0); r.Outcome != maintenance.Refused || !strings.Contains(r.Reason, reason) {
			t.Errorf("%s: %s: %s", reason, r.Outcome, r.Reason)
		}
	}
}

// TestSecondAttempt is case A50: a repeated call answers with the first result and writes nothing; of two attempts at once one result wins, and
// their files have different names.
func TestSecondAttempt(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w, tbl, _ := smallTable(t)
	b := newBench(t, w.Store, tbl.State())
	faults := store.NewFaults(w.Store)
	b.fn = compact.New(compact.Deps{Store: faults, WorkLocation: b.workLocation})
	item := b.item(0)
	// While the first attempt is about to write its result, another one does all its work.
	var other maintenance.CompactOutput
	var inner error
	faults.Add(store.Rule{Operation: store.OpPut, Contains: "result-", Times: 1, Do: func() {
		other, inner = compact.New(compact.Deps{Store: w.Store, WorkLocation: b.workLocation}).Handle(ctx, item)
	}})
	out, err := b.fn.Handle(ctx, item)
	if err != nil || inner != nil || out != other {
		t.Fatalf("attempts answer %+v, %v and %+v, %v", out, err, other, inner)
	}
	var r handoff.GroupResult
	b.must(b.work.Read(ctx, b.work.Result(item.Job, 0), &r))
	checkProof(t, b, 0, r)
	files := 0
	for info, err := range w.Store.List(ctx, store.Join(b.pinned.Location, "data"), store.ListOptions{}) {
		b.must(err)
		if strings.Contains(info.Location, "00000-0-") {
			files++
		}
	}
	if files != 2 {
		t.Errorf("%d output files, want one an attempt", files)
	}
	faults.Reset()
	if out, err := b.fn.Handle(ctx, item); err != nil || out != other {
		t.Errorf("repeated call: %+v, %v", out, err)
	}
	if n := len(faults.Calls()); n != 1 {
		t.Errorf("a repeated call made %d storage calls, want the read of the result", n)
	}
}

// TestDeadline: the work stops before the host's deadline with an error, no result is written and no upload is left.
func TestDeadline(t *testing.T) {
	t.Parallel()
	w, tbl, _ := smallTable(t)
	b := newBench(t, w.Store, tbl.State())
	item := b.item(0)
	ctx, cancel := context.WithTimeout(context.Background(), 9*time.Second) // Less than what is kept for cleaning up.
	defer cancel()
	_, err := b.fn.Handle(ctx, item)
	if !errors.Is(err, compact.ErrTimeout) {
		t.Errorf("error %v, want %v", err, compact.ErrTimeout)
	}
	if _, err := w.Store.Head(context.Background(), b.work.Result(item.Job, 0)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a result was written: %v", err)
	}
}
