package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// planExpiry writes the index of an expiry with these arguments, as key, value pairs.
func (x *fixture) planExpiry(ids []string, args ...string) {
	x.t.Helper()
	state := x.table.State()
	x.run = maintenance.Run{
		RunID: maintenance.NewRunID(state.Metadata.TableUUID().String(), state.Metadata.CurrentSnapshot().SnapshotID, 2), Table: x.table.ID,
		TableUUID: state.Metadata.TableUUID().String(), Token: 2,
	}
	x.work = handoff.Open(x.world.Store, workLocation, x.run.RunID)
	request := maintenance.JobRequest{Job: maintenance.ExpireSnapshots, Args: map[string]string{}, SnapshotIDs: ids}
	for i := 0; i < len(args); i += 2 {
		request.Args[args[i]] = args[i+1]
	}
	x.index = handoff.Index{V: 1, Run: x.run, Job: maintenance.ExpireSnapshots, Request: request, PlannedAtMS: x.world.Clock.Now().UnixMilli()}
	x.put(x.work.Index(maintenance.ExpireSnapshots), &x.index)
}

func (x *fixture) expireWith(st store.ReadWriter, c committer.Committer) (maintenance.CommitOutput, error) {
	return x.function(st, c).Handle(context.Background(),
		maintenance.CommitInput{V: 1, Run: x.run, Job: maintenance.ExpireSnapshots, Batch: 0})
}

func (x *fixture) expiryResult() handoff.CommitResult {
	x.t.Helper()
	var r handoff.CommitResult
	x.check(x.work.Read(context.Background(), x.work.Commit(maintenance.ExpireSnapshots, 0), &r))
	return r
}

func (x *fixture) snapshotIDs() []int64 {
	var ids []int64
	for _, s := range x.table.State().Metadata.Snapshots() {
		ids = append(ids, s.SnapshotID)
	}
	return ids
}

// history is a table with n snapshots; all but the last keep are old.
func history(t *testing.T, n int) (*fixture, []int64) {
	t.Helper()
	x := newFixture(t)
	x.small(n)
	return x, x.snapshotIDs()
}

const everything = "now"

func TestExpiry(t *testing.T) {
	t.Parallel()
	x, ids := history(t, 5)
	x.table.Tag("keep", ids[1])
	x.table.Update(func(b *table.MetadataBuilder) error {
		return b.SetStatistics(table.StatisticsFile{SnapshotID: ids[0], StatisticsPath: "s3://world/stats.puffin", FileSizeInBytes: 1, BlobMetadata: []table.BlobMetadata{}})
	})
	lists := map[int64]string{}
	for _, s := range x.table.State().Metadata.Snapshots() {
		lists[s.SnapshotID] = s.ManifestList
	}
	before := x.rows()
	x.planExpiry(nil, "older_than", everything, "retain_last", "2", "delete_outside_location", "true")
	out, err := x.expireWith(nil, nil)
	if err != nil || out.Outcome != maintenance.Committed || out.Next != maintenance.NextReach {
		t.Fatalf("%+v, %v: want committed, then reach", out, err)
	}
	if got, want := x.snapshotIDs(), []int64{ids[1], ids[3], ids[4]}; !slices.Equal(got, want) {
		t.Errorf("snapshots %v: want %v", got, want)
	}
	r := x.expiryResult()
	if r.Expired == nil || !slices.Equal(r.Expired.SnapshotIDs, []int64{ids[0], ids[2]}) ||
		!slices.Equal(r.Expired.ManifestLists, []string{lists[ids[0]], lists[ids[2]]}) ||
		!slices.Equal(r.Expired.Statistics, []string{"s3://world/stats.puffin"}) {
		t.Errorf("expired %+v", r.Expired)
	}
	for range x.table.State().Metadata.Statistics() {
		t.Error("the statistics entry stayed")
	}
	if !slices.Equal(before, x.rows()) {
		t.Error("rows changed")
	}
	again, err := x.expireWith(nil, nil)
	if err != nil || again != out {
		t.Errorf("second execution: %+v, %v: want %+v", again, err, out)
	}
}

func TestExpiryOfNothing(t *testing.T) {
	t.Parallel()
	x, _ := history(t, 2)
	x.planExpiry(nil)
	if out, err := x.expireWith(nil, nil); err != nil || out.Outcome != maintenance.NothingToDo || out.Next != maintenance.NextPlan {
		t.Errorf("%+v, %v: want nothing to do", out, err)
	}
}

func TestExpiryRefusals(t *testing.T) {
	t.Parallel()
	for reason, plan := range map[string]func(x *fixture, ids []int64){
		"still referenced by main": func(x *fixture, ids []int64) { x.planExpiry([]string{fmt.Sprint(ids[1])}) },
		"no such snapshot":         func(x *fixture, _ []int64) { x.planExpiry([]string{"17"}) },
		"at least 1":               func(x *fixture, _ []int64) { x.planExpiry(nil, "retain_last", "0") },
		"gc.enabled=false": func(x *fixture, _ []int64) {
			x.table.SetProperty("gc.enabled", "false")
			x.planExpiry(nil, "older_than", everything)
		},
	} {
		t.Run(reason, func(t *testing.T) {
			x, ids := history(t, 2)
			plan(x, ids)
			out, err := x.expireWith(nil, nil)
			if err != nil || out.Outcome != maintenance.Refused || !strings.Contains(out.Reason, reason) || len(x.snapshotIDs()) != 2 {
				t.Errorf("%+v, %v: want refused with %q", out, err, reason)
			}
		})
	}
}

// A tag that is made before the commit is seen by the next attempt, which decides anew.
func TestExpiryDecidesAnew(t *testing.T) {
	t.Parallel()
	x, ids := history(t, 4)
	x.planExpiry(nil, "older_than", everything)
	f := x.faulty()
	f.commit = func(n int, c func() (committer.Result, error)) (committer.Result, error) {
		if n == 1 {
			x.table.Tag("late", ids[0])
		}
		return c()
	}
	out, err := x.expireWith(nil, f)
	if err != nil || out.Outcome != maintenance.Committed || f.calls != 2 {
		t.Fatalf("%+v, %v after %d calls: want committed after two", out, err, f.calls)
	}
	if got, want := x.snapshotIDs(), []int64{ids[0], ids[3]}; !slices.Equal(got, want) {
		t.Errorf("snapshots %v: want %v", got, want)
	}
	if r := x.expiryResult(); !slices.Equal(r.Expired.SnapshotIDs, ids[1:3]) {
		t.Errorf("expired %v: want %v", r.Expired.SnapshotIDs, ids[1:3])
	}
}

func TestExpiryUnknown(t *testing.T) {
	t.Parallel()
	x, ids := history(t, 4)
	x.planExpiry(nil, "older_than", everything)
	f := x.faulty()
	f.commit = func(n int, c func() (committer.Result, error)) (committer.Result, error) {
		if n == 2 {
			_, err := c()
			x.check(err)
		}
		return committer.Result{}, errLost
	}
	out, err := x.expireWith(nil, f)
	if err != nil || out.Outcome != maintenance.Committed || f.calls != 2 || len(x.snapshotIDs()) != 1 {
		t.Fatalf("%+v, %v after %d calls: want committed after two", out, err, f.calls)
	}
	if r := x.expiryResult(); !slices.Equal(r.Expired.SnapshotIDs, ids[:3]) {
		t.Errorf("expired %v: want %v", r.Expired.SnapshotIDs, ids[:3])
	}
	x, _ = history(t, 3)
	x.planExpiry(nil, "older_than", everything)
	f = x.faulty()
	f.commit = func(int, func() (committer.Result, error)) (committer.Result, error) {
		return committer.Result{}, errLost
	}
	_, err = x.expireWith(nil, f)
	var named *maintenance.NamedError
	if !errors.As(err, &named) || named.Name != contract.ErrorCommitStateUnknown || f.calls != 4 {
		t.Errorf("%v after %d calls: want %s after four", err, f.calls, contract.ErrorCommitStateUnknown)
	}
}

func TestExpiryCrashes(t *testing.T) {
	t.Parallel()
	for _, applied := range []bool{false, true} {
		for n := 0; ; n++ {
			x, ids := history(t, 3)
			x.planExpiry(nil, "older_than", everything)
			faults := store.NewFaults(x.world.Store, store.Rule{Operation: store.OpChange, Skip: n, Crash: true, Applied: applied})
			_, err := x.expireWith(faults, nil)
			if faults.Fired() == 0 {
				x.check(err)
				break
			}
			out, err := x.expireWith(nil, nil)
			if err != nil || out.Outcome != maintenance.Committed || out.Next != maintenance.NextReach {
				t.Fatalf("after a crash at change %d: %+v, %v: want committed", n, out, err)
			}
			if r := x.expiryResult(); !slices.Equal(r.Expired.SnapshotIDs, ids[:2]) || len(x.snapshotIDs()) != 1 {
				t.Errorf("after a crash at change %d: expired %+v", n, r.Expired)
			}
		}
	}
}

// served is a committer as a REST service is one: it checks requirements on its own current state, and the pointer has no version.
type served struct {
	committer.Committer
	before func()
}

func (s *served) Head(ctx context.Context, id maintenance.TableID) (*lake.Table, error) {
	t, err := s.Committer.Head(ctx, id)
	if err == nil {
		t.Pointer.Version = ""
	}
	return t, err
}

func (s *served) Commit(ctx context.Context, base *lake.Table, c committer.Change) (committer.Result, error) {
	if s.before != nil {
		s.before()
		s.before = nil
	}
	now, err := s.Committer.Head(ctx, base.ID)
	if err != nil {
		return committer.Result{}, err
	}
	return s.Committer.Commit(ctx, now, c)
}

// A service lets a ref slip in that the expiry did not know: nothing may be deleted.
func TestExpiryFindsUnknownRef(t *testing.T) {
	t.Parallel()
	for _, version := range []int{1, 2} {
		x := newFixture(t, icebergtest.Version(version))
		x.world.Clock.Set(time.Now().Add(-time.Hour))
		x.small(4)
		ids := x.snapshotIDs()
		x.planExpiry(nil, "older_than", everything)
		c := x.faulty()
		s := &served{Committer: c, before: func() { x.table.Tag("late", ids[1]) }}
		out, err := x.expireWith(nil, s)
		if err != nil || out.Outcome != maintenance.Committed || out.Next != maintenance.NextPlan || !strings.Contains(out.Reason, "late") {
			t.Fatalf("v%d: %+v, %v: want committed, the reason, and no reach", version, out, err)
		}
		if r := x.expiryResult(); r.Expired != nil {
			t.Errorf("v%d: expired %+v: want nothing to delete", version, r.Expired)
		}
		back := slices.Contains(x.snapshotIDs(), ids[1])
		if back != strings.Contains(out.Reason, "were added again") {
			t.Errorf("v%d: snapshot is back: %v, reason %q", version, back, out.Reason)
		}
	}
	// Without a stray ref the same service leads to reach.
	x, _ := history(t, 3)
	x.planExpiry(nil, "older_than", everything)
	if out, err := x.expireWith(nil, &served{Committer: x.faulty()}); err != nil || out.Next != maintenance.NextReach {
		t.Errorf("%+v, %v: want reach", out, err)
	}
}

func TestRewriteThroughService(t *testing.T) {
	t.Parallel()
	x, before := ready(t)
	f := x.faulty()
	s := &served{Committer: f, before: func() { x.table.Commit(icebergtest.Append(icebergtest.Row{1000, "z", 1.0})) }}
	out, err := x.function(nil, s).Handle(context.Background(), x.input())
	if err != nil || out.Outcome != maintenance.Committed || x.ours() != 1 || len(x.rows()) != len(before)+1 {
		t.Errorf("%+v, %v: want committed after the race", out, err)
	}
}

func TestCleanExpiredMetadata(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	x.small(1)
	x.table.Evolve(icebergtest.AddColumn("extra", "int"))
	x.table.Repartition("g")
	first := x.table.Commit(icebergtest.Append(icebergtest.Row{1, "a", nil, 1}))
	x.table.Evolve(icebergtest.AddColumn("more", "int"))
	x.table.Repartition("bucket(4, id)")
	x.table.Commit(icebergtest.Append(icebergtest.Row{1, "a", nil, 1, 2}), icebergtest.Remove(first.DataFiles...))
	x.planExpiry(nil, "older_than", everything, "clean_expired_metadata", "true")
	if out, err := x.expireWith(nil, nil); err != nil || out.Outcome != maintenance.Committed {
		t.Fatalf("%+v, %v: want committed", out, err)
	}
	meta := x.table.State().Metadata
	var specs, schemas []int
	for _, s := range meta.PartitionSpecs() {
		specs = append(specs, s.ID())
	}
	for _, s := range meta.Schemas() {
		schemas = append(schemas, s.ID)
	}
	// The tombstone of the removed file keeps its manifest, and with it spec 1; the first append keeps spec 0.
	if !slices.Equal(specs, []int{0, 1, 2}) || !slices.Equal(schemas, []int{2}) {
		t.Errorf("specs %v, schemas %v: want 0, 1, 2 and schema 2", specs, schemas)
	}
}

// TestCleanExpiredMetadataKeepsSourceColumns: a spec that a kept manifest has keeps a schema in which its source column is, although no kept snapshot
// has that schema and the column was dropped (ADR 0018; Java removes it).
func TestCleanExpiredMetadataKeepsSourceColumns(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	x.table.Evolve(icebergtest.AddColumn("extra", "int"))
	x.table.Repartition("extra")
	x.table.Commit(icebergtest.Append(icebergtest.Row{1, "a", nil, 1}))
	x.table.Repartition("g")
	x.table.Evolve(icebergtest.DropColumn("extra"))
	x.table.Commit(icebergtest.Append(icebergtest.Row{2, "a", nil}))
	x.planExpiry(nil, "older_than", everything, "clean_expired_metadata", "true")
	if out, err := x.expireWith(nil, nil); err != nil || out.Outcome != maintenance.Committed {
		t.Fatalf("%+v, %v: want committed", out, err)
	}
	state := x.table.State()
	for _, spec := range state.Metadata.PartitionSpecs() {
		if _, err := state.SpecSchema(spec); err != nil {
			t.Errorf("partition spec %d: %v", spec.ID(), err)
		}
	}
	if rows := x.rows(); len(rows) != 2 {
		t.Errorf("rows %q", rows)
	}
}
