package sweep_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/store"
	"firn/internal/sweep"
)

const workLocation = "s3://work/firn"

// room is sweep with one table of a world before it.
type room struct {
	t     testing.TB
	world *icebergtest.World
	cat   catalogs.Catalog
	id    maintenance.TableID
	// st disturbs and counts; the world's own store is behind it.
	st  *store.Faults
	run maintenance.Run
	// now is the time of plans; the clock of the function stands an hour later.
	now   time.Time
	grace time.Duration
	// passed is what the clock went on by.
	passed   time.Duration
	attempts int
	runs     int
	// between runs before the named step.
	between map[string]func()
	// once makes steps run once only (else every step runs twice and must change nothing the second time).
	once      bool
	sortBytes int64
	// lost are files that were missing from the start.
	lost map[string]bool
}

func newRoom(t testing.TB, w *icebergtest.World, id maintenance.TableID) *room {
	t.Helper()
	r := &room{t: t, world: w, cat: w.Catalog, id: id, st: store.NewFaults(w.Store), now: w.Clock.Now().Add(30 * 24 * time.Hour), between: map[string]func(){}}
	r.newRun()
	return r
}

// newRun starts another run on the table.
func (r *room) newRun() {
	r.t.Helper()
	uuid := r.world.Open(r.id).State().Metadata.TableUUID().String()
	r.runs++
	r.run = maintenance.Run{RunID: maintenance.NewRunID(uuid, int64(r.runs), 1), Table: r.id, TableUUID: uuid, Token: 1}
}

// work reads and writes past the faults.
func (r *room) work() *handoff.Work { return handoff.Open(r.st.Inner(), workLocation, r.run.RunID) }

func (r *room) function() *sweep.Function {
	return sweep.New(sweep.Deps{
		Catalog: func(context.Context, string) (catalogs.Catalog, store.Full, error) { return r.cat, r.st, nil },
		Work:    r.st, WorkLocation: workLocation,
		Grace: func(string) time.Duration { return r.grace },
		Now:   func() time.Time { return r.now.Add(r.passed) },
		NewAttempt: func() string {
			r.attempts++
			return fmt.Sprintf("attempt%d", r.attempts)
		},
		Log: slog.New(slog.NewTextHandler(logTo{r.t}, nil)), SortBytes: r.sortBytes,
	})
}

type logTo struct{ t testing.TB }

func (l logTo) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// step runs one step, twice unless told otherwise.
func (r *room) step(in maintenance.SweepInput) (maintenance.SweepOutput, error) {
	r.t.Helper()
	in.V, in.Run = contract.PayloadVersion, r.run
	if f := r.between[string(in.Step)]; f != nil {
		delete(r.between, string(in.Step))
		f()
	}
	ctx := context.Background()
	out, err := r.function().Handle(ctx, in)
	if err != nil || r.once {
		return out, err
	}
	before := r.objects("s3://")
	again, err := r.function().Handle(ctx, in)
	if err != nil {
		r.t.Fatalf("second execution of %s: %v", in.Step, err)
	}
	if out != again {
		r.t.Errorf("second execution of %s answered %+v, the first %+v", in.Step, again, out)
	}
	if after := r.objects("s3://"); !slices.Equal(before, after) {
		r.t.Errorf("second execution of %s changed the objects:\n%v", in.Step, diff(before, after))
	}
	return out, nil
}

// objects lists all objects but those of the work location.
func (r *room) objects(string) []string {
	r.t.Helper()
	var out []string
	inner := r.st.Inner()
	for _, bucket := range []string{"s3://world/", "s3://firn-ref/", "s3://elsewhere/", "s3://shared/"} {
		for info, err := range inner.List(context.Background(), bucket, store.ListOptions{}) {
			if err != nil {
				r.t.Fatal(err)
			}
			out = append(out, info.Location)
		}
	}
	return out
}

// diff lists what is in one list only.
func diff(a, b []string) []string {
	var out []string
	for _, x := range a {
		if !slices.Contains(b, x) {
			out = append(out, "- "+x)
		}
	}
	for _, x := range b {
		if !slices.Contains(a, x) {
			out = append(out, "+ "+x)
		}
	}
	return out
}

// missing lists what was there before and is not now.
func (r *room) missing(before []string) []string {
	now := r.objects("")
	var out []string
	for _, x := range before {
		if !slices.Contains(now, x) {
			out = append(out, x)
		}
	}
	return out
}

func (r *room) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// items reads the lines of a map.
func (r *room) items(o maintenance.Object) []maintenance.SweepItem {
	r.t.Helper()
	data, err := r.st.Inner().Get(context.Background(), handoff.Location("s3", o))
	r.must(err)
	var out []maintenance.SweepItem
	for line := range bytes.Lines(data) {
		var in maintenance.SweepInput
		r.must(json.Unmarshal(line, &in))
		out = append(out, *in.Item)
	}
	return out
}

// planOrphans does what plan does for remove_orphan_files.
func (r *room) planOrphans(args map[string]string, dryRun bool) {
	r.t.Helper()
	location := r.world.Open(r.id).State().Metadata.Location()
	if arg := args["location"]; arg != "" {
		location = arg
	}
	r.planListing(args, dryRun, maintenance.SweepItem{Prefix: store.Join(location, "")})
}

func (r *room) planListing(args map[string]string, dryRun bool, ranges ...maintenance.SweepItem) {
	r.t.Helper()
	ctx, w := context.Background(), r.work()
	var lines []any
	for i := range ranges {
		ranges[i].Range = i
		lines = append(lines, maintenance.SweepInput{V: 1, Step: maintenance.SweepList, Run: r.run, Job: maintenance.RemoveOrphanFiles, Item: &ranges[i]})
	}
	location := w.Part(maintenance.RemoveOrphanFiles, "a", "ranges.jsonl")
	r.must(w.WriteLines(ctx, location, lines))
	object, err := handoff.Object(location)
	r.must(err)
	_, err = w.WriteOnce(ctx, w.Index(maintenance.RemoveOrphanFiles), &handoff.Index{
		V: 1, Run: r.run, Job: maintenance.RemoveOrphanFiles, DryRun: dryRun, PlannedAtMS: r.now.UnixMilli(),
		Request: maintenance.JobRequest{Job: maintenance.RemoveOrphanFiles, Args: args},
		Batches: []handoff.Batch{{Count: len(lines), Items: object, Location: location}},
	})
	r.must(err)
}

// sweepOrphans runs list, reach and delete after planOrphans, and returns what report reads.
func (r *room) sweepOrphans() (handoff.SweepSummary, error) {
	r.t.Helper()
	var index handoff.Index
	r.must(r.work().Read(context.Background(), r.work().Index(maintenance.RemoveOrphanFiles), &index))
	for _, item := range r.items(index.Batches[0].Items) {
		if _, err := r.step(maintenance.SweepInput{Step: maintenance.SweepList, Job: maintenance.RemoveOrphanFiles, Item: &item}); err != nil {
			return handoff.SweepSummary{}, err
		}
	}
	return r.reachAndDelete(maintenance.RemoveOrphanFiles)
}

func (r *room) reachAndDelete(job maintenance.Job) (handoff.SweepSummary, error) {
	r.t.Helper()
	out, err := r.step(maintenance.SweepInput{Step: maintenance.SweepReach, Job: job})
	if err != nil {
		return handoff.SweepSummary{}, err
	}
	if out.Next == maintenance.NextDelete {
		for _, item := range r.items(out.Items) {
			if _, err := r.step(maintenance.SweepInput{Step: maintenance.SweepDelete, Job: job, Item: &item}); err != nil {
				return handoff.SweepSummary{}, err
			}
		}
	}
	return r.work().SweepSummary(context.Background(), job, 0)
}

// orphans runs remove_orphan_files.
func (r *room) orphans(args map[string]string) handoff.SweepSummary {
	r.t.Helper()
	r.planOrphans(args, false)
	s, err := r.sweepOrphans()
	r.must(err)
	return s
}

// expire removes snapshots from the metadata as an expiry commit does, and returns the commit's result.
func (r *room) expire(ids ...int64) handoff.CommitResult {
	r.t.Helper()
	result := r.wouldExpire(ids...)
	r.removeSnapshots(ids)
	r.committed(result)
	return result
}

// removeSnapshots makes the smaller metadata.
func (r *room) removeSnapshots(ids []int64) {
	r.t.Helper()
	r.world.Open(r.id).Update(func(b *table.MetadataBuilder) error { return b.RemoveSnapshots(ids, false) })
}

// committed writes the index and result of an expiry.
func (r *room) committed(result handoff.CommitResult, args ...string) {
	r.t.Helper()
	ctx, w := context.Background(), r.work()
	request := maintenance.JobRequest{Job: maintenance.ExpireSnapshots, Args: map[string]string{}}
	for i := 0; i < len(args); i += 2 {
		request.Args[args[i]] = args[i+1]
	}
	_, err := w.WriteOnce(ctx, w.Index(maintenance.ExpireSnapshots), &handoff.Index{
		V: 1, Run: r.run, Job: maintenance.ExpireSnapshots, PlannedAtMS: r.now.UnixMilli(), Request: request,
	})
	r.must(err)
	_, err = w.WriteOnce(ctx, w.Commit(maintenance.ExpireSnapshots, 0), &result)
	r.must(err)
}

// wouldExpire is the result of an expiry of these snapshots.
func (r *room) wouldExpire(ids ...int64) handoff.CommitResult {
	r.t.Helper()
	meta := r.world.Open(r.id).State().Metadata
	e := &handoff.Expired{SnapshotIDs: ids, CommittedAtMS: r.now.UnixMilli()}
	for _, id := range ids {
		snap := meta.SnapshotByID(id)
		if snap == nil {
			r.t.Fatalf("there is no snapshot %d", id)
		}
		e.ManifestLists = append(e.ManifestLists, snap.ManifestList)
	}
	for s := range meta.Statistics() {
		if slices.Contains(ids, s.SnapshotID) {
			e.Statistics = append(e.Statistics, s.StatisticsPath)
		}
	}
	for s := range meta.PartitionStatistics() {
		if slices.Contains(ids, s.SnapshotID) {
			e.Statistics = append(e.Statistics, s.StatisticsPath)
		}
	}
	return handoff.CommitResult{V: 1, Outcome: maintenance.Committed, Expired: e}
}

// put writes an object of the given age in days at the time of the plan.
func (r *room) put(location string, days float64) {
	r.t.Helper()
	r.must(r.world.Store.Put(context.Background(), location, []byte("orphan"), store.WriteOptions{}))
	r.age(location, days)
}

func (r *room) age(location string, days float64) {
	r.t.Helper()
	memory, ok := r.world.Store.(*store.Memory)
	if !ok {
		r.t.Fatal("ages are set in memory only")
	}
	r.must(memory.SetModifiedAt(location, r.now.Add(-time.Duration(days*24)*time.Hour)))
}

// check fails when a file that any snapshot of the table, its log or its statistics names is missing, or the table cannot be read. It looks at
// the table by lake, not by reach.
func (r *room) check() {
	r.t.Helper()
	ctx, t := context.Background(), r.world.Open(r.id)
	state := t.State()
	want := map[string]bool{state.Pointer.MetadataLocation: true}
	for e := range state.Metadata.PreviousFiles() {
		want[e.MetadataFile] = true
	}
	for s := range state.Metadata.Statistics() {
		want[s.StatisticsPath] = true
	}
	for s := range state.Metadata.PartitionStatistics() {
		want[s.StatisticsPath] = true
	}
	manifests := map[string]bool{}
	for _, snap := range state.Metadata.Snapshots() {
		want[snap.ManifestList] = true
		list, err := lake.Manifests(ctx, r.world.Store, &snap)
		r.must(err)
		for _, m := range list {
			if manifests[m.FilePath()] {
				continue
			}
			manifests[m.FilePath()] = true
			for e, err := range lake.Entries(ctx, r.world.Store, m, lake.EntryOptions{}) {
				r.must(err)
				want[e.File.FilePath()] = true
			}
		}
	}
	for location := range want {
		if _, err := r.world.Store.Head(ctx, location); err != nil && !r.lost[location] {
			r.t.Errorf("the table needs %s: %v", location, err)
		}
	}
	if len(r.lost) == 0 && state.Metadata.CurrentSnapshot() != nil {
		t.Rows()
	}
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

func equal(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(sorted(got), sorted(want)) {
		t.Errorf("%s:\n%s", what, strings.Join(diff(want, got), "\n"))
	}
}

// dryExpiry plans a dry run.
func (r *room) dryExpiry(e handoff.Expired) {
	r.t.Helper()
	detail, err := json.Marshal(handoff.ExpireDetail{Expired: e})
	r.must(err)
	w := r.work()
	_, err = w.WriteOnce(context.Background(), w.Index(maintenance.ExpireSnapshots), &handoff.Index{
		V: 1, Run: r.run, Job: maintenance.ExpireSnapshots, PlannedAtMS: r.now.UnixMilli(), DryRun: true, Detail: detail,
		Request: maintenance.JobRequest{Job: maintenance.ExpireSnapshots},
	})
	r.must(err)
}
