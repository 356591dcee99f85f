package plan_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/plan"
	"firn/internal/state"
	"firn/internal/store"
)

const workLocation = "mem://work/firn"

// desk is plan over a world, with a run that holds the lease.
type desk struct {
	fn       *plan.Function
	work     *store.Faults
	leases   state.Store
	run      maintenance.Run
	attempts int
}

func newDesk(t *testing.T, w *icebergtest.World, tbl *icebergtest.Table, changes ...func(*plan.Deps)) *desk {
	t.Helper()
	d := &desk{work: store.NewFaults(store.NewMemory(w.Clock.Now)), leases: state.New(state.NewMemory())}
	lease, err := d.leases.Acquire(context.Background(), tbl.ID, w.Clock.Now(), time.Hour, func(token int64) (maintenance.RunID, []byte) {
		uuid := tbl.State().Metadata.TableUUID().String()
		d.run = maintenance.Run{RunID: maintenance.NewRunID(uuid, 1, token), Table: tbl.ID, TableUUID: uuid, Token: token}
		return d.run.RunID, nil
	})
	if err != nil || lease.RunID != d.run.RunID {
		t.Fatal(err)
	}
	deps := plan.Deps{
		Catalog: func(context.Context, string) (catalogs.Catalog, store.Reader, error) { return w.Catalog, w.Store, nil },
		Work:    d.work, WorkLocation: workLocation, Leases: d.leases, Now: w.Clock.Now, Log: slog.New(slog.DiscardHandler),
		NewAttempt: func() string {
			d.attempts++
			return fmt.Sprint("attempt-", d.attempts)
		},
	}
	for _, change := range changes {
		change(&deps)
	}
	d.fn = plan.New(deps)
	return d
}

func (d *desk) next(t *testing.T, request maintenance.Request, cursor maintenance.Cursor) maintenance.PlanOutput {
	t.Helper()
	out, err := d.fn.Handle(context.Background(), maintenance.PlanInput{V: contract.PayloadVersion, Run: d.run, Request: request, Cursor: cursor})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (d *desk) index(t *testing.T, job maintenance.Job) handoff.Index {
	t.Helper()
	work := handoff.Open(d.work, workLocation, d.run.RunID)
	var index handoff.Index
	if err := work.Read(context.Background(), work.Index(job), &index); err != nil {
		t.Fatal(err)
	}
	return index
}

func rewrite(options map[string]string) maintenance.Request {
	return maintenance.Request{Trigger: "call", Jobs: []maintenance.JobRequest{{Job: maintenance.RewriteDataFiles, Options: options}}}
}

// smallTable has eight files in two partitions, one of them with a position delete.
func smallTable(t *testing.T) (*icebergtest.World, *icebergtest.Table) {
	t.Helper()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Partitioned("g"))
	for i := range 4 {
		c := tbl.Commit(icebergtest.Append(icebergtest.Row{int64(i), "a", 0.5}, icebergtest.Row{int64(i), "b", 1.5}, icebergtest.Row{int64(i + 10), "b", 2.5}))
		if i == 2 {
			tbl.Commit(icebergtest.DeletePositions(c.DataFiles[1], 0))
		}
	}
	return w, tbl
}

// TestBatchesAreHandedOutOneARound walks the loop of the state machine with partial progress.
func TestBatchesAreHandedOutOneARound(t *testing.T) {
	t.Parallel()
	w, tbl := smallTable(t)
	if got := handedOut(t, newDesk(t, w, tbl)); !cmp.Equal(got, []int{2, 2}) {
		t.Errorf("batches of %v groups, want [2 2]: ceil(4/3) a commit", got)
	}
}

// The first commit after an upgrade gives IDs to all rows: rewrites of rows without IDs go with it, since they would conflict afterwards.
func TestRowsWithoutIDsAreCommittedTogether(t *testing.T) {
	t.Parallel()
	w, tbl := smallTable(t)
	tbl.Upgrade(3)
	if got := handedOut(t, newDesk(t, w, tbl)); !cmp.Equal(got, []int{4}) {
		t.Errorf("batches of %v groups, want [4]", got)
	}
}

// handedOut walks the loop with partial progress and returns the number of groups of each batch.
func handedOut(t *testing.T, d *desk) []int {
	t.Helper()
	request := rewrite(map[string]string{
		"rewrite-all": "true", "max-file-group-input-files": "2", "partial-progress.enabled": "true", "partial-progress.max-commits": "3",
	})
	cursor := maintenance.Cursor{}
	var counts []int
	seen := map[int]bool{}
	for {
		out := d.next(t, request, cursor)
		if out.Next == maintenance.NextFinish {
			break
		}
		if out.Next != maintenance.NextCompact || out.Job != maintenance.RewriteDataFiles || out.Batch != len(counts) {
			t.Fatalf("round %d: %+v", len(counts), out)
		}
		data, err := d.work.Get(context.Background(), handoff.Location("mem", out.Items))
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
		for _, line := range lines {
			var item maintenance.CompactItem
			if err := json.Unmarshal(line, &item); err != nil || item.Batch != out.Batch || seen[item.Index] {
				t.Fatalf("item %s: %v", line, err)
			}
			seen[item.Index] = true
		}
		if len(lines) != out.ItemCount {
			t.Errorf("%d items, said %d", len(lines), out.ItemCount)
		}
		counts = append(counts, len(lines))
		// The batch commits, else max-failed-commits would end the loop.
		work := handoff.Open(d.work, workLocation, d.run.RunID)
		if _, err := work.WriteOnce(context.Background(), work.Commit(out.Job, out.Batch),
			&handoff.CommitResult{V: contract.PayloadVersion, Outcome: maintenance.Committed}); err != nil {
			t.Fatal(err)
		}
		cursor = out.Cursor
	}
	return counts
}

// TestGroupsCarryEntriesAndDeletes checks what later steps need and read nowhere else.
func TestGroupsCarryEntriesAndDeletes(t *testing.T) {
	t.Parallel()
	w, tbl := smallTable(t)
	d := newDesk(t, w, tbl)
	d.next(t, rewrite(map[string]string{"rewrite-all": "true"}), maintenance.Cursor{})
	index := d.index(t, maintenance.RewriteDataFiles)
	inputs, withDeletes := 0, 0
	for _, location := range index.Groups {
		var group handoff.Group
		if err := handoff.Open(d.work, workLocation, d.run.RunID).Read(context.Background(), location, &group); err != nil {
			t.Fatal(err)
		}
		head := tbl.State().Metadata.CurrentSnapshot()
		if group.DataSequence != head.SequenceNumber || !strings.HasSuffix(group.OutputLocation, "/db/t/data") {
			t.Errorf("group %+v", group)
		}
		for _, in := range group.Inputs {
			inputs++
			if len(in.File) == 0 || in.DataSequence == 0 {
				t.Errorf("input %s has no entry or sequence number", in.Path)
			}
			if len(in.Deletes) > 0 {
				withDeletes++
			}
		}
	}
	if len(index.Groups) != 2 || inputs != 8 || withDeletes != 1 {
		t.Errorf("%d groups, %d inputs, %d with deletes: want 2, 8 and 1", len(index.Groups), inputs, withDeletes)
	}
}

// TestSecondCallReturnsTheFirstPlan: a retry, also after another commit, changes nothing.
func TestSecondCallReturnsTheFirstPlan(t *testing.T) {
	t.Parallel()
	w, tbl := smallTable(t)
	d := newDesk(t, w, tbl)
	request := rewrite(map[string]string{"rewrite-all": "true"})
	first := d.next(t, request, maintenance.Cursor{})
	tbl.Commit(icebergtest.Append(icebergtest.Row{int64(99), "a", 0.5}))
	if diff := cmp.Diff(first, d.next(t, request, maintenance.Cursor{})); diff != "" {
		t.Errorf("the second plan differs:\n%s", diff)
	}
}

// TestCrashAtEveryWrite stops the attempt after each write in turn; the next attempt makes a whole plan.
func TestCrashAtEveryWrite(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		w, tbl := smallTable(t)
		d := newDesk(t, w, tbl)
		request := rewrite(map[string]string{"rewrite-all": "true"})
		d.work.Add(store.CrashAfter(n))
		_, err := d.fn.Handle(context.Background(), maintenance.PlanInput{V: contract.PayloadVersion, Run: d.run, Request: request})
		d.work.Reset()
		out := d.next(t, request, maintenance.Cursor{})
		if out.Next != maintenance.NextCompact || out.ItemCount != 2 {
			t.Fatalf("after a crash at write %d: %+v", n, out)
		}
		if err == nil {
			if n < 4 {
				t.Fatalf("only %d writes were stopped", n)
			}
			return
		}
	}
}

func TestRefusalsAndNothingToDo(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		request maintenance.JobRequest
		change  func(*icebergtest.Table)
		outcome maintenance.Outcome
		reason  string
	}{
		"unknown option":            {maintenance.JobRequest{Job: maintenance.RewriteDataFiles, Options: map[string]string{"min-input-file": "2"}}, nil, maintenance.Refused, "min-input-files"},
		"value out of range":        {maintenance.JobRequest{Job: maintenance.RewriteDataFiles, Options: map[string]string{"delete-ratio-threshold": "1.5"}}, nil, maintenance.Refused, "delete-ratio-threshold"},
		"unknown column":            {maintenance.JobRequest{Job: maintenance.RewriteDataFiles, Args: map[string]string{"where": "nosuch = 1"}}, nil, maintenance.Refused, "nosuch"},
		"unknown branch":            {maintenance.JobRequest{Job: maintenance.RewriteDataFiles, Args: map[string]string{"branch": "dev"}}, nil, maintenance.Refused, "dev"},
		"sort by unknown column":    {maintenance.JobRequest{Job: maintenance.RewriteDataFiles, Args: map[string]string{"sort_order": "nosuch"}}, nil, maintenance.Refused, "cannot find field nosuch"},
		"no position deletes":       {maintenance.JobRequest{Job: maintenance.RewritePositionDeleteFiles}, nil, maintenance.NothingToDo, "none of 1 position delete files"},
		"where of position deletes": {maintenance.JobRequest{Job: maintenance.RewritePositionDeleteFiles, Args: map[string]string{"where": "nosuch = 1"}}, nil, maintenance.Refused, "nosuch"},
		"few files":                 {maintenance.JobRequest{Job: maintenance.RewriteDataFiles, Args: map[string]string{"where": "g = 'a'"}}, nil, maintenance.NothingToDo, "none of 4"},
		"retain nothing":            {maintenance.JobRequest{Job: maintenance.ExpireSnapshots, Args: map[string]string{"retain_last": "0"}}, nil, maintenance.Refused, "retain_last"},
		"not its own files": {
			maintenance.JobRequest{Job: maintenance.ExpireSnapshots},
			func(tbl *icebergtest.Table) { tbl.SetProperty("gc.enabled", "false") }, maintenance.Refused, "gc.enabled",
		},
		"orphans of yesterday": {maintenance.JobRequest{Job: maintenance.RemoveOrphanFiles, Args: map[string]string{"older_than": "2026-11-01 00:00:00"}}, nil, maintenance.Refused, "24"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, tbl := smallTable(t)
			if test.change != nil {
				test.change(tbl)
			}
			d := newDesk(t, w, tbl)
			out := d.next(t, maintenance.Request{Jobs: []maintenance.JobRequest{test.request}}, maintenance.Cursor{})
			index := d.index(t, test.request.Job)
			if out.Next != maintenance.NextFinish || index.Outcome != test.outcome || !strings.Contains(index.Reason, test.reason) {
				t.Errorf("next %s, outcome %s: %s; want %s and %q", out.Next, index.Outcome, index.Reason, test.outcome, test.reason)
			}
		})
	}
}

func TestFaultyFilesRefuseTheirGroupOnly(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Partitioned("g"), icebergtest.Version(3))
	c := tbl.Commit(icebergtest.Append(icebergtest.Row{int64(1), "a", 0.5}, icebergtest.Row{int64(2), "b", 1.5}))
	tbl.Commit(icebergtest.DeleteVector(c.DataFiles[0], 0))
	tbl.Commit(icebergtest.DeleteVectorBeside(c.DataFiles[0], 0))
	d := newDesk(t, w, tbl)
	out := d.next(t, rewrite(map[string]string{"rewrite-all": "true"}), maintenance.Cursor{})
	if out.Next != maintenance.NextCompact || out.ItemCount != 1 {
		t.Errorf("next %+v: want the sound group only", out)
	}
	if detail := string(d.index(t, maintenance.RewriteDataFiles).Detail); !strings.Contains(detail, c.DataFiles[0]) {
		t.Errorf("detail %s does not name the file with two vectors", detail)
	}
}

func TestNothingButFaultyFilesIsRefused(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Version(3))
	c := tbl.Commit(icebergtest.Append(icebergtest.Row{int64(1), "a", 0.5}))
	tbl.Commit(icebergtest.DeleteVector(c.DataFiles[0], 0))
	tbl.Commit(icebergtest.DeleteVectorBeside(c.DataFiles[0], 0))
	d := newDesk(t, w, tbl)
	d.next(t, rewrite(map[string]string{"rewrite-all": "true"}), maintenance.Cursor{})
	index := d.index(t, maintenance.RewriteDataFiles)
	if index.Outcome != maintenance.Refused || !strings.HasPrefix(index.Reason, "none of 1 data files qualifies; 1 refused, the first: "+c.DataFiles[0]) {
		t.Errorf("outcome %s: %s", index.Outcome, index.Reason)
	}
}

func TestLostLeaseEndsTheRun(t *testing.T) {
	t.Parallel()
	w, tbl := smallTable(t)
	d := newDesk(t, w, tbl)
	if _, err := d.leases.Release(context.Background(), tbl.ID, d.run.Token); err != nil {
		t.Fatal(err)
	}
	_, err := d.fn.Handle(context.Background(), maintenance.PlanInput{V: contract.PayloadVersion, Run: d.run})
	if !errors.Is(err, state.ErrLeaseLost) {
		t.Errorf("error %v", err)
	}
}

func TestDryRunHandsOutNothingToRewrite(t *testing.T) {
	t.Parallel()
	w, tbl := smallTable(t)
	d := newDesk(t, w, tbl)
	request := rewrite(map[string]string{"rewrite-all": "true"})
	request.DryRun = true
	if out := d.next(t, request, maintenance.Cursor{}); out.Next != maintenance.NextFinish {
		t.Errorf("next %+v", out)
	}
	index := d.index(t, maintenance.RewriteDataFiles)
	var summary plan.DataFilesSummary
	if err := json.Unmarshal(index.Detail, &summary); err != nil || summary.Files != 8 || summary.Groups != 2 || len(index.Groups) != 0 {
		t.Errorf("summary %+v, %v, groups %v", summary, err, index.Groups)
	}
}

// TestAutomaticExpiryCarriesTheGuards: what the policy says reaches commit through the index; a call obeys its caller.
func TestAutomaticExpiryCarriesTheGuards(t *testing.T) {
	t.Parallel()
	for _, automatic := range []bool{true, false} {
		w, tbl := smallTable(t)
		d := newDesk(t, w, tbl)
		asked := &maintenance.ExpiryGuards{MinAgeMS: 7 * 86_400_000, IgnoreBookmarks: true, BookmarkKeys: []string{"sink.offset"}, Limit: 3}
		d.next(t, maintenance.Request{
			Automatic: automatic, Jobs: []maintenance.JobRequest{{Job: maintenance.ExpireSnapshots, Guards: asked}},
		}, maintenance.Cursor{})
		var got handoff.ExpireGuards
		if err := json.Unmarshal(d.index(t, maintenance.ExpireSnapshots).Detail, &got); err != nil {
			t.Fatal(err)
		}
		want := handoff.ExpireGuards{}
		if automatic {
			want = handoff.ExpireGuards{Automatic: true, MinAgeMS: asked.MinAgeMS, IgnoreBookmarks: true, BookmarkKeys: asked.BookmarkKeys, Limit: 3}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("automatic %t:\n%s", automatic, diff)
		}
	}
}

// TestManifestsGoToCommitOnce: a rewrite of manifests needs no map. The spec of the plan is written down, a dry run only counts.
func TestManifestsGoToCommitOnce(t *testing.T) {
	t.Parallel()
	w, tbl := smallTable(t)
	spec := tbl.State().Metadata.DefaultPartitionSpec()
	request := maintenance.Request{Jobs: []maintenance.JobRequest{{Job: maintenance.RewriteManifests, Args: map[string]string{"use_caching": "true"}}}}
	d := newDesk(t, w, tbl)
	out := d.next(t, request, maintenance.Cursor{})
	if out.Next != maintenance.NextCommit || out.Job != maintenance.RewriteManifests || out.Batch != 0 || out.ItemCount != 0 {
		t.Errorf("%+v: want commit", out)
	}
	if again := d.next(t, request, out.Cursor); again.Next != maintenance.NextFinish {
		t.Errorf("second round: %+v: want finish", again)
	}
	index := d.index(t, maintenance.RewriteManifests)
	var detail handoff.ManifestsDetail
	if err := json.Unmarshal(index.Detail, &detail); err != nil {
		t.Fatal(err)
	}
	if index.Request.Args["spec_id"] != fmt.Sprint(spec) || len(index.Batches) != 1 || detail.SpecID != spec || detail.Data.Manifests < 2 ||
		detail.Data.Target != 1 || detail.SnapshotID != tbl.State().Metadata.CurrentSnapshot().SnapshotID {
		t.Errorf("index %+v, detail %+v", index, detail)
	}
	request.DryRun = true
	d = newDesk(t, w, tbl)
	if out := d.next(t, request, maintenance.Cursor{}); out.Next != maintenance.NextFinish {
		t.Errorf("dry run: %+v: want finish", out)
	}
	request.DryRun, request.Jobs[0].Args = false, map[string]string{"sort_by": `["nosuch"]`}
	d = newDesk(t, w, tbl)
	out = d.next(t, request, maintenance.Cursor{})
	if index := d.index(t, maintenance.RewriteManifests); out.Next != maintenance.NextFinish || index.Outcome != maintenance.Refused {
		t.Errorf("unknown field: next %s, %s %s: want refused", out.Next, index.Outcome, index.Reason)
	}
}

// TestQuietPeriod: files that were added within it are left out, whatever their size; the reason tells.
func TestQuietPeriod(t *testing.T) {
	t.Parallel()
	for period, want := range map[string]struct {
		files   int
		outcome maintenance.Outcome
		reason  string
	}{
		"":    {8, "", ""},
		"30s": {8, "", ""},
		"3m":  {6, "", ""},
		"1d":  {0, maintenance.NothingToDo, "none of 0 data files qualifies; 8 are younger than quiet-period, 24h0m0s"},
		"3":   {0, maintenance.Refused, "quiet-period"},
	} {
		w, tbl := smallTable(t)
		w.Clock.Set(w.Clock.Now().Add(90 * time.Second)) // the last snapshot is 150 s old, the one before (a delete) 210 s
		d := newDesk(t, w, tbl)
		options := map[string]string{"rewrite-all": "true"}
		if period != "" {
			options["quiet-period"] = period
		}
		d.next(t, rewrite(options), maintenance.Cursor{})
		index := d.index(t, maintenance.RewriteDataFiles)
		var summary plan.DataFilesSummary
		if len(index.Detail) > 0 {
			if err := json.Unmarshal(index.Detail, &summary); err != nil {
				t.Fatal(err)
			}
		}
		if index.Outcome != want.outcome || !strings.Contains(index.Reason, want.reason) || summary.Files != want.files ||
			want.outcome != maintenance.Refused && summary.Files+summary.QuietFiles != 8 {
			t.Errorf("quiet-period %q: %s: %s; %+v; want %d files, %s and %q", period, index.Outcome, index.Reason, summary, want.files, want.outcome, want.reason)
		}
	}
}

// TestBusyPartitions: partitions that others wrote just now are left out on request; automatic runs leave out those in which files were replaced, for
// a while. The plan tells what it expects of the writers.
func TestBusyPartitions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		quietCommits string
		automatic    bool
		replace      bool
		later        time.Duration
		files, busy  int
	}{
		"a call":                              {replace: true, files: 8},
		"the last commit's partition":         {quietCommits: "1", files: 4, busy: 4},
		"all commits' partitions":             {quietCommits: "99", busy: 8},
		"automatic, files were added":         {automatic: true, files: 8},
		"automatic, files were replaced":      {automatic: true, replace: true, files: 4, busy: 4},
		"automatic, replaced, but a time ago": {automatic: true, replace: true, later: time.Hour, files: 8},
	} {
		w := icebergtest.NewWorld(t)
		tbl := w.NewTable("db.t", icebergtest.Partitioned("g"))
		group := func(n int64) []icebergtest.Row {
			return []icebergtest.Row{{n, fmt.Sprint("p", n%2), 1.5}, {n + 100, fmt.Sprint("p", n%2), 2.5}}
		}
		var files []string
		for n := range int64(8) {
			files = append(files, tbl.Commit(icebergtest.Append(group(n)...)).DataFiles...)
		}
		if c.replace {
			tbl.Commit(icebergtest.Remove(files[7]), icebergtest.Append(group(7)...))
		}
		w.Clock.Set(w.Clock.Now().Add(c.later))
		d := newDesk(t, w, tbl)
		options := map[string]string{"rewrite-all": "true"}
		if c.quietCommits != "" {
			options["quiet-commits"] = c.quietCommits
		}
		request := rewrite(options)
		request.Automatic = c.automatic
		d.next(t, request, maintenance.Cursor{})
		var summary plan.DataFilesSummary
		if err := json.Unmarshal(d.index(t, maintenance.RewriteDataFiles).Detail, &summary); err != nil {
			t.Fatal(err)
		}
		if summary.Files != c.files || summary.BusyFiles != c.busy {
			t.Errorf("%s: %d files, %d left out: want %d and %d", name, summary.Files, summary.BusyFiles, c.files, c.busy)
		}
		if o := summary.Writers; o == nil || o.Commits < 8 || o.CommitPercent <= 0 || (o.Replacing > 0) != c.replace || o.DeletePercent != 0 {
			t.Errorf("%s: other writers %+v", name, o)
		}
	}
}
