package decide_test

import (
	"fmt"
	"strings"
	"testing"

	"firn/internal/decide"
	"firn/internal/maintenance"
	"firn/internal/policy"
)

func policyOf(t *testing.T, values map[string]string) policy.Policy {
	t.Helper()
	p, err := policy.Document{}.Effective(maintenance.TableID{Namespace: "db", Name: "t"}, nil, values)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func dueOf(decisions []decide.JobDue, job maintenance.Job) decide.JobDue {
	for _, d := range decisions {
		if d.Job == job {
			return d
		}
	}
	return decide.JobDue{}
}

const hourMS = 60 * 60 * 1000

// busy is a table that was run lately, with commits of others since.
func busy(change func(*decide.DueInput)) decide.DueInput {
	in := decide.DueInput{NowMS: nowMS, Commits: 3, Snapshots: 10, Jobs: map[maintenance.Job]decide.JobFacts{}}
	for _, job := range maintenance.Chain() {
		in.Jobs[job] = decide.JobFacts{LastRunMS: nowMS - hourMS, LastOutcome: maintenance.Committed}
	}
	change(&in)
	return in
}

func part(change func(*decide.PartitionFacts)) func(*decide.DueInput) {
	return func(in *decide.DueInput) {
		p := decide.PartitionFacts{Name: "day=1", DataFiles: 1000, Rows: 1000, LastWriteMS: nowMS}
		change(&p)
		in.Partitions = append(in.Partitions, decide.PartitionFacts{Name: "day=0", DataFiles: 3, SmallFiles: 1, Rows: 10}, p)
	}
}

func lastRun(job maintenance.Job, ago int64) func(*decide.DueInput) {
	return func(in *decide.DueInput) {
		in.Jobs[job] = decide.JobFacts{LastRunMS: nowMS - ago, LastOutcome: maintenance.Committed}
	}
}

// lastAged is a run by age so long ago, and another one just now that was none.
func lastAged(ago int64) func(*decide.DueInput) {
	return func(in *decide.DueInput) {
		in.Jobs[maintenance.RewriteDataFiles] = decide.JobFacts{LastRunMS: nowMS - 1, LastAgedMS: nowMS - ago, LastOutcome: maintenance.Committed}
	}
}

// TestDueTriggers tries every default trigger one below, at and above its threshold.
func TestDueTriggers(t *testing.T) {
	t.Parallel()
	type world = func(n int64) func(*decide.DueInput)
	both := func(a, b func(*decide.DueInput)) func(*decide.DueInput) {
		return func(in *decide.DueInput) { a(in); b(in) }
	}
	for _, c := range []struct {
		name      string
		job       maintenance.Job
		threshold int64
		world     world
	}{
		{"small files", maintenance.RewriteDataFiles, 100, func(n int64) func(*decide.DueInput) {
			return part(func(p *decide.PartitionFacts) { p.SmallFiles = n })
		}},
		{"small files, aged", maintenance.RewriteDataFiles, 5, func(n int64) func(*decide.DueInput) {
			return both(lastAged(24*hourMS), part(func(p *decide.PartitionFacts) { p.SmallFiles = n }))
		}},
		{"age of small files", maintenance.RewriteDataFiles, 24 * hourMS, func(n int64) func(*decide.DueInput) {
			return both(lastAged(n), part(func(p *decide.PartitionFacts) { p.SmallFiles = 50 }))
		}},
		{"deleted ratio in thousandths", maintenance.RewriteDataFiles, 300, func(n int64) func(*decide.DueInput) {
			return part(func(p *decide.PartitionFacts) { p.DeletedRows = n })
		}},
		{"delete files", maintenance.RewriteDataFiles, 5, func(n int64) func(*decide.DueInput) {
			return part(func(p *decide.PartitionFacts) { p.PositionDeleteFiles, p.EqualityDeleteFiles = 1, n-1 })
		}},
		{"position delete files", maintenance.RewritePositionDeleteFiles, 100, func(n int64) func(*decide.DueInput) {
			return both(part(func(p *decide.PartitionFacts) { p.DataFiles, p.PositionDeleteFiles = 0, n-40 }),
				part(func(p *decide.PartitionFacts) { p.DataFiles, p.PositionDeleteFiles = 0, 40 }))
		}},
		{"dangling delete files", maintenance.RewritePositionDeleteFiles, 1, func(n int64) func(*decide.DueInput) {
			return func(in *decide.DueInput) { in.DanglingDeleteFiles = n }
		}},
		{"small manifests", maintenance.RewriteManifests, 100, func(n int64) func(*decide.DueInput) {
			return func(in *decide.DueInput) { in.SmallManifests = n }
		}},
		{"expire interval", maintenance.ExpireSnapshots, 24 * hourMS, func(n int64) func(*decide.DueInput) {
			return lastRun(maintenance.ExpireSnapshots, n)
		}},
		{"orphans interval", maintenance.RemoveOrphanFiles, 7 * 24 * hourMS, func(n int64) func(*decide.DueInput) {
			return lastRun(maintenance.RemoveOrphanFiles, n)
		}},
	} {
		for offset := int64(-1); offset <= 1; offset++ {
			in := busy(c.world(c.threshold + offset))
			decisions := decide.Due(in, policyOf(t, nil))
			for _, d := range decisions {
				want := d.Job == c.job && offset >= 0
				if d.Due != want {
					t.Errorf("%s at %+d: %s due %v: %s", c.name, offset, d.Job, d.Due, d.Reason)
				}
				if d.Reason == "" {
					t.Errorf("%s at %+d: %s has no reason", c.name, offset, d.Job)
				}
			}
		}
	}
}

// TestA101OwnCommitsTriggerNothing: counters over their thresholds do not make a job due again before somebody else commits.
func TestA101OwnCommitsTriggerNothing(t *testing.T) {
	t.Parallel()
	for _, outcome := range []maintenance.Outcome{maintenance.Committed, maintenance.NothingToDo} {
		in := busy(part(func(p *decide.PartitionFacts) { p.SmallFiles, p.PositionDeleteFiles = 500, 500 }))
		in.SmallManifests, in.Commits = 500, 0
		for job, facts := range in.Jobs {
			facts.LastOutcome = outcome
			in.Jobs[job] = facts
		}
		for _, d := range decide.Due(in, policyOf(t, nil)) {
			if d.Due {
				t.Errorf("after %s: %s is due: %s", outcome, d.Job, d.Reason)
			}
		}
		in.Commits = 1
		if d := dueOf(decide.Due(in, policyOf(t, nil)), maintenance.RewriteDataFiles); !d.Due {
			t.Errorf("after a commit of another writer: %s", d.Reason)
		}
	}
	in := busy(part(func(p *decide.PartitionFacts) { p.SmallFiles = 500 }))
	in.Commits, in.Jobs[maintenance.RewriteDataFiles] = 0, decide.JobFacts{LastRunMS: nowMS - hourMS, LastOutcome: maintenance.Failed}
	if d := dueOf(decide.Due(in, policyOf(t, nil)), maintenance.RewriteDataFiles); !d.Due {
		t.Errorf("a failed run is not tried again: %s", d.Reason)
	}
}

// TestA101Budget: the budget of a table stops every job.
func TestA101Budget(t *testing.T) {
	t.Parallel()
	in := busy(part(func(p *decide.PartitionFacts) { p.SmallFiles = 500 }))
	for runs, want := range map[int64]bool{9: true, 10: false, 11: false} {
		in.RunsToday = runs
		d := dueOf(decide.Due(in, policyOf(t, map[string]string{"max-runs-per-day": "10"})), maintenance.RewriteDataFiles)
		if d.Due != want || !want && !strings.Contains(d.Reason, "max-runs-per-day is 10") {
			t.Errorf("%d runs: due %v: %s", runs, d.Due, d.Reason)
		}
	}
}

// TestA103TriggersAndPlanAgree: what makes an automatic run due is what its planner selects, at every threshold of the policy.
func TestA103TriggersAndPlanAgree(t *testing.T) {
	t.Parallel()
	for threshold := 1; threshold <= 6; threshold++ {
		p := policyOf(t, map[string]string{"rewrite_data_files.trigger.delete-files": fmt.Sprint(threshold)})
		in := busy(part(func(f *decide.PartitionFacts) { f.DataFiles, f.PositionDeleteFiles, f.SmallFiles = 1, 4, 0 }))
		due := dueOf(decide.Due(in, p), maintenance.RewriteDataFiles).Due
		opts, err := decide.ParseDataFilesOptions(decide.BinPack, p.Request(maintenance.RewriteDataFiles).Options, decide.TableFacts{})
		if err != nil {
			t.Fatal(err)
		}
		opts.RequireGain = true
		plan, err := decide.DataFiles(stream([]maintenance.FileStats{{Path: "f", SizeBytes: 500 * mib, RecordCount: 100, DeleteFiles: 4}}), opts)
		if err != nil || due != (len(plan.Groups) == 1) || due != (threshold <= 4) {
			t.Errorf("threshold %d: due %v, %d groups, %v", threshold, due, len(plan.Groups), err)
		}
	}
}

// TestTriggersFollowThePlanner: a planner's threshold that somebody raised raises the trigger with it.
func TestTriggersFollowThePlanner(t *testing.T) {
	t.Parallel()
	in := busy(part(func(p *decide.PartitionFacts) { p.SmallFiles, p.EqualityDeleteFiles, p.DeletedRows = 150, 8, 400 }))
	for option, want := range map[string]bool{
		"min-input-files=150": true, "min-input-files=151": false,
		"delete-file-threshold=8": true, "delete-file-threshold=9": false,
		"delete-ratio-threshold=0.4": true, "delete-ratio-threshold=0.41": false,
	} {
		values := map[string]string{}
		for _, off := range []string{"small-files", "small-files-aged", "delete-files", "deleted-ratio"} {
			values["rewrite_data_files.trigger."+off] = "0"
		}
		name, value, _ := strings.Cut(option, "=")
		values["rewrite_data_files."+name] = value
		trigger := map[string]string{"min-input-files": "small-files", "delete-file-threshold": "delete-files", "delete-ratio-threshold": "deleted-ratio"}[name]
		delete(values, "rewrite_data_files.trigger."+trigger)
		if d := dueOf(decide.Due(in, policyOf(t, values)), maintenance.RewriteDataFiles); d.Due != want {
			t.Errorf("%s: due %v: %s", option, d.Due, d.Reason)
		}
	}
}

// TestA103BelowTheThreshold: a big file with one position and one equality delete asks for nothing.
func TestA103BelowTheThreshold(t *testing.T) {
	t.Parallel()
	in := busy(part(func(p *decide.PartitionFacts) {
		p.DataFiles, p.PositionDeleteFiles, p.EqualityDeleteFiles, p.DeletedRows = 1, 1, 1, 10
	}))
	for _, d := range decide.Due(in, policyOf(t, nil)) {
		if d.Due {
			t.Errorf("%s is due: %s", d.Job, d.Reason)
		}
	}
}

// TestA104QuietTable: without any commit for ten days the jobs that go by the clock are due, each by itself.
func TestA104QuietTable(t *testing.T) {
	t.Parallel()
	in := decide.DueInput{NowMS: nowMS, Snapshots: 50, FirstSeenMS: nowMS - 10*dayMS}
	decisions := decide.Due(in, policyOf(t, nil))
	for job, want := range map[maintenance.Job]bool{
		maintenance.RewriteDataFiles: false, maintenance.ExpireSnapshots: true, maintenance.RemoveOrphanFiles: true,
	} {
		if d := dueOf(decisions, job); d.Due != want {
			t.Errorf("%s due %v: %s", job, d.Due, d.Reason)
		}
	}
	in.Snapshots = 1
	if d := dueOf(decide.Due(in, policyOf(t, nil)), maintenance.ExpireSnapshots); d.Due {
		t.Errorf("expiry of a single snapshot is due: %s", d.Reason)
	}
	in = decide.DueInput{NowMS: nowMS, Snapshots: 2}
	if d := dueOf(decide.Due(in, policyOf(t, nil)), maintenance.ExpireSnapshots); !d.Due {
		t.Errorf("a table of unknown age never expires: %s", d.Reason)
	}
	in.Partitions = []decide.PartitionFacts{{SmallFiles: 5, LastWriteMS: nowMS - 24*hourMS}}
	if d := dueOf(decide.Due(in, policyOf(t, nil)), maintenance.RewriteDataFiles); !d.Due {
		t.Errorf("small files of an old partition that was never rewritten: %s", d.Reason)
	}
}

// TestYoungSnapshotsStartNoExpiry: an expiry that would keep everything is not due, and the clock knows when it will be.
func TestYoungSnapshotsStartNoExpiry(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		values map[string]string
		age    int64
	}{
		{"older-than", nil, 5 * dayMS},
		{"min-age over older-than", map[string]string{"expire_snapshots.older-than": "2h", "expire_snapshots.min-age": "3d"}, 3 * dayMS},
	} {
		for offset := int64(-1); offset <= 1; offset++ {
			in := busy(lastRun(maintenance.ExpireSnapshots, 2*dayMS))
			in.OldestSnapshotMS = nowMS - c.age - offset
			d := dueOf(decide.Due(in, policyOf(t, c.values)), maintenance.ExpireSnapshots)
			if d.Due != (offset >= 0) || d.Reason == "" {
				t.Errorf("%s at %+d: due %v: %s", c.name, offset, d.Due, d.Reason)
			}
			if next := decide.NextByClock(in, policyOf(t, c.values)); offset < 0 && next != nowMS+1 {
				t.Errorf("%s: next by the clock in %d ms, want 1", c.name, next-nowMS)
			}
		}
	}
	in := busy(lastRun(maintenance.ExpireSnapshots, 2*dayMS))
	if d := dueOf(decide.Due(in, policyOf(t, nil)), maintenance.ExpireSnapshots); !d.Due {
		t.Errorf("the oldest snapshot is not known: %s", d.Reason)
	}
}

// TestListedOrphansAreNotListedAgain: a search that may not delete is repeated only when somebody has committed; one that may goes by the clock.
func TestListedOrphansAreNotListedAgain(t *testing.T) {
	t.Parallel()
	for _, enabled := range []string{"false", "true"} {
		p := policyOf(t, map[string]string{"remove_orphan_files.enabled": enabled})
		for offset := int64(-1); offset <= 1; offset++ {
			in := busy(lastRun(maintenance.RemoveOrphanFiles, 8*dayMS))
			in.LastCommitMS = nowMS - 8*dayMS + offset
			if d := dueOf(decide.Due(in, p), maintenance.RemoveOrphanFiles); d.Due != (enabled == "true" || offset >= 0) {
				t.Errorf("enabled %s, a commit %+d ms after the last search: due %v: %s", enabled, offset, d.Due, d.Reason)
			}
		}
	}
}

// TestIdleTablesAreSearchedOnceAMonth: a search that may delete is put off while the table is as the last one found it: nobody has committed, no run of ours
// has ended since, and what its last writers left was old enough to be taken.
func TestIdleTablesAreSearchedOnceAMonth(t *testing.T) {
	t.Parallel()
	p := policyOf(t, map[string]string{"remove_orphan_files.enabled": "true"})
	for _, c := range []struct {
		name                string
		search, commit, run int64 // how long ago
		outcome             maintenance.Outcome
		want                bool
	}{
		{"idle", 8 * dayMS, 11 * dayMS, 8 * dayMS, maintenance.Committed, false},
		{"idle, nothing found", 8 * dayMS, 11 * dayMS, 8 * dayMS, maintenance.NothingToDo, false},
		{"idle for nearly a month", 30*dayMS - 1, 40 * dayMS, 30 * dayMS, maintenance.Committed, false},
		{"idle for a month", 30 * dayMS, 40 * dayMS, 30 * dayMS, maintenance.Committed, true},
		{"files were too young", 8 * dayMS, 11*dayMS - 1, 8 * dayMS, maintenance.Committed, true},
		{"a commit since", 8 * dayMS, 8 * dayMS, 8 * dayMS, maintenance.Committed, true},
		{"a run since", 8 * dayMS, 11 * dayMS, 8*dayMS - 1, maintenance.Committed, true},
		{"the search failed", 8 * dayMS, 11 * dayMS, 8 * dayMS, maintenance.Failed, true},
		{"before its interval", 7*dayMS - 1, 11 * dayMS, 7 * dayMS, maintenance.Failed, false},
	} {
		in := busy(func(in *decide.DueInput) {
			in.LastCommitMS, in.LastRunMS = nowMS-c.commit, nowMS-c.run
			in.Jobs[maintenance.RemoveOrphanFiles] = decide.JobFacts{LastRunMS: nowMS - c.search, LastOutcome: c.outcome}
		})
		if d := dueOf(decide.Due(in, p), maintenance.RemoveOrphanFiles); d.Due != c.want || d.Reason == "" {
			t.Errorf("%s: due %v: %s", c.name, d.Due, d.Reason)
		}
	}
}

// TestLooksInVainOnce: delete files of a partition that no single file has enough of are looked at once in trigger.age.
func TestLooksInVainOnce(t *testing.T) {
	t.Parallel()
	in := busy(part(func(p *decide.PartitionFacts) { p.PositionDeleteFiles = 50 }))
	for ago, want := range map[int64]bool{hourMS: false, 24*hourMS - 1: false, 24 * hourMS: true} {
		in.Jobs[maintenance.RewriteDataFiles] = decide.JobFacts{LastRunMS: nowMS - ago, LastOutcome: maintenance.NothingToDo}
		if d := dueOf(decide.Due(in, policyOf(t, nil)), maintenance.RewriteDataFiles); d.Due != want {
			t.Errorf("%d ms after a look in vain: due %v: %s", ago, d.Due, d.Reason)
		}
	}
}

// TestOneMoreEqualityDeleteIsWorthALook: a look in vain holds for position deletes, and for equality deletes until there is one more of them. (Writers of
// upserts commit rows and deletes together: the first delete applies to nothing, so the threshold was reached one delete early.)
func TestOneMoreEqualityDeleteIsWorthALook(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		left, positions, equalities int64
		want                        bool
	}{{5, 0, 5, false}, {5, 0, 6, true}, {5, 40, 5, false}, {0, 5, 0, false}, {0, 40, 0, false}} {
		in := busy(part(func(p *decide.PartitionFacts) {
			p.PositionDeleteFiles, p.EqualityDeleteFiles = c.positions, c.equalities
		}))
		in.Jobs[maintenance.RewriteDataFiles] = decide.JobFacts{LastRunMS: nowMS - hourMS, LastOutcome: maintenance.NothingToDo, LeftEquality: &c.left}
		if d := dueOf(decide.Due(in, policyOf(t, nil)), maintenance.RewriteDataFiles); d.Due != c.want {
			t.Errorf("%d equality deletes left, now %d, and %d position deletes: due %v: %s", c.left, c.equalities, c.positions, d.Due, d.Reason)
		}
	}
}

// TestRunsTakeWhatIsDueByItself: a run that small files made due leaves partitions alone that would not be due by themselves; by the age of small files it
// takes those that are due by it.
func TestRunsTakeWhatIsDueByItself(t *testing.T) {
	t.Parallel()
	for ago, want := range map[int64]string{hourMS: "100", 24 * hourMS: "5"} {
		in := busy(part(func(p *decide.PartitionFacts) { p.SmallFiles = 120 }))
		in.Jobs[maintenance.RewriteDataFiles] = decide.JobFacts{LastRunMS: nowMS - 1, LastAgedMS: nowMS - ago, LastOutcome: maintenance.Committed}
		for option, explicit := range map[string]string{"": want, "9": "9"} {
			values := map[string]string{}
			if option != "" {
				values["rewrite_data_files.min-input-files"] = option
			}
			p := policyOf(t, values)
			d := dueOf(decide.Due(in, p), maintenance.RewriteDataFiles)
			if got := p.DueRequest(d.Job, d.MinInputFiles, d.Aged).Options["min-input-files"]; got != explicit || !d.Due || d.Aged != (want == "5") {
				t.Errorf("%d hours after the last run, min-input-files %q: a run with %q: want %q", ago/hourMS, option, got, explicit)
			}
		}
	}
}

// TestDueSwitches: modes, switched-off jobs and triggers, and preset glue.
func TestDueSwitches(t *testing.T) {
	t.Parallel()
	in := busy(part(func(p *decide.PartitionFacts) { p.SmallFiles, p.EqualityDeleteFiles = 100, 1 }))
	in.Jobs[maintenance.RemoveOrphanFiles] = decide.JobFacts{LastRunMS: nowMS - 8*dayMS}
	for _, c := range []struct {
		values map[string]string
		job    maintenance.Job
		want   bool
	}{
		{map[string]string{"mode": "observe"}, maintenance.RewriteDataFiles, true},
		{map[string]string{"mode": "maintain"}, maintenance.RewriteDataFiles, true},
		{map[string]string{"mode": "off"}, maintenance.RewriteDataFiles, false},
		{map[string]string{"enabled": "false"}, maintenance.RewriteDataFiles, false},
		{map[string]string{"rewrite_data_files.enabled": "false"}, maintenance.RewriteDataFiles, false},
		{map[string]string{"rewrite_data_files.trigger.small-files": "0"}, maintenance.RewriteDataFiles, false},
		{map[string]string{"rewrite_data_files.trigger.small-files": "0", "rewrite_data_files.trigger.delete-files": "1"}, maintenance.RewriteDataFiles, true},
		{map[string]string{"remove_orphan_files.enabled": "false"}, maintenance.RemoveOrphanFiles, true}, // as a dry run
		{map[string]string{"remove_orphan_files.trigger.interval": "0s"}, maintenance.RemoveOrphanFiles, false},
		{map[string]string{"mode": "off"}, maintenance.RemoveOrphanFiles, false},
	} {
		if d := dueOf(decide.Due(in, policyOf(t, c.values)), c.job); d.Due != c.want {
			t.Errorf("%v: %s due %v: %s", c.values, c.job, d.Due, d.Reason)
		}
	}
	doc, err := policy.ParseYAML([]byte("preset: glue"))
	if err != nil {
		t.Fatal(err)
	}
	glue, err := doc.Effective(maintenance.TableID{Namespace: "db", Name: "t"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	in = busy(part(func(p *decide.PartitionFacts) { p.EqualityDeleteFiles = 1 }))
	if d := dueOf(decide.Due(in, glue), maintenance.RewriteDataFiles); !d.Due {
		t.Errorf("one delete file under preset glue: %s", d.Reason)
	}
}

// BenchmarkDataFiles plans tables of many small files.
func BenchmarkDataFiles(b *testing.B) {
	for _, n := range []int{1_000, 100_000, 1_000_000} {
		files := make([]maintenance.FileStats, n)
		for i := range files {
			files[i] = maintenance.FileStats{Path: fmt.Sprint("s3://b/t/data/", i), SizeBytes: 10 * mib, RecordCount: 100, Partition: fmt.Sprint("day=", i%365)}
		}
		opts := decide.DefaultDataFilesOptions()
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if plan, err := decide.DataFiles(stream(files), opts); err != nil || plan.TotalFiles == 0 && n > 2000 {
					b.Fatal(err, plan.TotalFiles)
				}
			}
		})
	}
}
