package decide_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"firn/internal/decide"
	"firn/internal/maintenance"
	"firn/internal/policy/when"
)

// TestGates tries every gate one below, at and above its bound: what is due waits, with the reason, and nothing else changes.
func TestGates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		values map[string]string
		bound  int64
		set    func(in *decide.DueInput, n int64)
		// opens says that the gate is open from the bound on, else up to it.
		opens bool
	}{
		{"max-runs-per-day", map[string]string{"max-runs-per-day": "10"}, 10, func(in *decide.DueInput, n int64) { in.RunsToday = n }, false},
		{"max-dollars-per-month", map[string]string{"max-dollars-per-month": "2.5"}, 2_500_000, func(in *decide.DueInput, n int64) { in.SpentMicros = n }, false},
		{"min-interval", map[string]string{"min-interval": "10m"}, 600_000, func(in *decide.DueInput, n int64) { in.LastRunMS = nowMS - n }, true},
		{"trigger.min-interval", map[string]string{"rewrite_data_files.trigger.min-interval": "2h"}, 2 * hourMS, func(in *decide.DueInput, n int64) {
			in.Jobs[maintenance.RewriteDataFiles] = decide.JobFacts{LastRunMS: nowMS - n, LastOutcome: maintenance.Committed}
		}, true},
		{"quiet-period", map[string]string{"quiet-period": "5m", "max-quiet-wait": "0s"}, 300_000, func(in *decide.DueInput, n int64) { in.LastCommitMS = nowMS - n }, true},
		{"max-quiet-wait", map[string]string{"quiet-period": "5m"}, 6 * hourMS, func(in *decide.DueInput, n int64) { in.LastRunMS, in.LastCommitMS = nowMS-n, nowMS }, true},
	} {
		for offset := int64(-1); offset <= 1; offset++ {
			in := busy(part(func(p *decide.PartitionFacts) { p.SmallFiles = 500 }))
			c.set(&in, c.bound+offset)
			d := dueOf(decide.Due(in, policyOf(t, c.values)), maintenance.RewriteDataFiles)
			want := (offset >= 0) == c.opens
			if d.Due != want || !want && !strings.Contains(d.Reason, "held back") {
				t.Errorf("%s at %+d: due %v: %s", c.name, offset, d.Due, d.Reason)
			}
		}
	}
	in := busy(part(func(p *decide.PartitionFacts) { p.SmallFiles = 500 }))
	now := time.UnixMilli(nowMS).UTC()
	for window, want := range map[string]bool{
		now.Format("15:04") + "-" + now.Add(time.Minute).Format("15:04"):                           true,
		now.Add(time.Minute).Format("15:04") + "-" + now.Add(2*time.Minute).Format("15:04"):        false,
		now.Add(-2*time.Minute).Format("15:04") + "-" + now.Format("15:04"):                        false,
		now.Format("Mon") + " " + now.Format("15:04") + "-" + now.Add(time.Minute).Format("15:04"): true,
	} {
		if d := dueOf(decide.Due(in, policyOf(t, map[string]string{"windows": window})), maintenance.RewriteDataFiles); d.Due != want {
			t.Errorf("window %s at %s: due %v: %s", window, now, d.Due, d.Reason)
		}
	}
}

// TestConditions tries every figure of trigger.when one below, at and above a bound, for a job whose thresholds are not reached.
func TestConditions(t *testing.T) {
	t.Parallel()
	figures := map[string]func(in *decide.DueInput, n int64){
		"commits":           func(in *decide.DueInput, n int64) { in.Commits = n },
		"small-files":       func(in *decide.DueInput, n int64) { in.Partitions[1].SmallFiles = n },
		"table-small-files": func(in *decide.DueInput, n int64) { in.Total.SmallFiles = n },
		"small-bytes":       func(in *decide.DueInput, n int64) { in.Partitions[1].SmallBytes = n },
		"table-small-bytes": func(in *decide.DueInput, n int64) { in.Total.SmallBytes = n },
		"data-files":        func(in *decide.DueInput, n int64) { in.Partitions[1].DataFiles = n },
		"table-data-files":  func(in *decide.DueInput, n int64) { in.Total.DataFiles = n },
		"delete-files": func(in *decide.DueInput, n int64) {
			in.Partitions[1].DataFiles, in.Partitions[1].EqualityDeleteFiles = 0, n
		},
		"table-delete-files":    func(in *decide.DueInput, n int64) { in.Total.EqualityDeleteFiles = n },
		"deleted-rows":          func(in *decide.DueInput, n int64) { in.Total.DeletedRows = n },
		"equality-delete-files": func(in *decide.DueInput, n int64) { in.Total.EqualityDeleteFiles = n },
		"position-delete-files": func(in *decide.DueInput, n int64) { in.Total.PositionDeleteFiles = n },
		"manifests":             func(in *decide.DueInput, n int64) { in.Manifests = n },
		"small-manifests":       func(in *decide.DueInput, n int64) { in.SmallManifests = n },
		"snapshots":             func(in *decide.DueInput, n int64) { in.Snapshots = n },
		"metadata-files":        func(in *decide.DueInput, n int64) { in.MetadataFiles = n },
		"unclustered-bytes":     func(in *decide.DueInput, n int64) { in.UnclusteredBytes = n },
	}
	for _, figure := range when.Figures() {
		if figures[figure] == nil && !slices.Contains([]string{"deleted-ratio", "since-last-run", "since-last-commit"}, figure) {
			t.Errorf("nobody tries %s", figure)
		}
	}
	for figure, set := range figures {
		p := policyOf(t, map[string]string{"rewrite_data_files.trigger.when": figure + " >= 40"})
		for offset := int64(-1); offset <= 1; offset++ {
			in := busy(part(func(p *decide.PartitionFacts) { p.DataFiles = 1 }))
			in.Snapshots = 1
			set(&in, 40+offset)
			if d := dueOf(decide.Due(in, p), maintenance.RewriteDataFiles); d.Due != (offset >= 0) {
				t.Errorf("%s at %+d: due %v: %s", figure, offset, d.Due, d.Reason)
			}
		}
	}
	for offset := int64(-1); offset <= 1; offset++ {
		for condition, change := range map[string]func(in *decide.DueInput){
			"deleted-ratio >= 0.25":   func(in *decide.DueInput) { in.Partitions[1].DeletedRows = 250 + offset },
			"deleted-ratio > 0.249":   func(in *decide.DueInput) { in.Partitions[1].DeletedRows = 250 + offset },
			"since-last-commit >= 6h": func(in *decide.DueInput) { in.LastCommitMS = nowMS - 6*hourMS - offset },
		} {
			in := busy(part(func(p *decide.PartitionFacts) { p.DataFiles = 1 }))
			change(&in)
			d := dueOf(decide.Due(in, policyOf(t, map[string]string{"rewrite_data_files.trigger.when": condition})), maintenance.RewriteDataFiles)
			if d.Due != (offset >= 0) {
				t.Errorf("%s at %+d: due %v: %s", condition, offset, d.Due, d.Reason)
			}
		}
	}
	p := policyOf(t, map[string]string{"rewrite_manifests.trigger.when": "since-last-run >= 2h and commits >= 3"})
	for ago, want := range map[int64]bool{2*hourMS - 1: false, 2 * hourMS: true} {
		in := busy(lastRun(maintenance.RewriteManifests, ago))
		if d := dueOf(decide.Due(in, p), maintenance.RewriteManifests); d.Due != want {
			t.Errorf("%d ms after the last run: due %v: %s", ago, d.Due, d.Reason)
		}
		in.Commits = 0
		if d := dueOf(decide.Due(in, p), maintenance.RewriteManifests); d.Due {
			t.Errorf("without commits of others a condition starts maintenance of its own work: %s", d.Reason)
		}
	}
}

// TestHysteresis: what a run could not lower counts again when a tenth of the threshold has been added, and by its age once a day.
func TestHysteresis(t *testing.T) {
	t.Parallel()
	for left, bounds := range map[int64]int64{0: 100, 99: 100, 100: 110, 150: 160} {
		for offset := int64(-1); offset <= 1; offset++ {
			in := busy(part(func(p *decide.PartitionFacts) { p.SmallFiles = bounds + offset }))
			in.Jobs[maintenance.RewriteDataFiles] = decide.JobFacts{LastRunMS: nowMS - hourMS, LastOutcome: maintenance.Committed, Left: &left}
			if d := dueOf(decide.Due(in, policyOf(t, nil)), maintenance.RewriteDataFiles); d.Due != (offset >= 0) {
				t.Errorf("the run left %d, now %d: due %v: %s", left, bounds+offset, d.Due, d.Reason)
			}
			in.SmallManifests = bounds + offset
			in.Jobs[maintenance.RewriteManifests] = decide.JobFacts{LastRunMS: nowMS - hourMS, LastOutcome: maintenance.Committed, Left: &left}
			if d := dueOf(decide.Due(in, policyOf(t, nil)), maintenance.RewriteManifests); d.Due != (offset >= 0) {
				t.Errorf("the run left %d manifests, now %d: due %v: %s", left, bounds+offset, d.Due, d.Reason)
			}
		}
	}
}

// TestUnfinishedRunsAreTriedAgain: a run that was kept from its work left everything, which says nothing about the files: it is tried again after an hour,
// or when enough is added, and the reason says which. The clock knows of it.
func TestUnfinishedRunsAreTriedAgain(t *testing.T) {
	t.Parallel()
	left := int64(120)
	for _, c := range []struct {
		outcome maintenance.Outcome
		ago     int64
		files   int64
		want    bool
		reason  string
	}{
		{maintenance.Failed, hourMS - 1, 120, false, "the last run ended as failed, it is tried again after 1h, or at 130"},
		{maintenance.Failed, hourMS - 1, 130, true, "130 files"},
		{maintenance.Failed, hourMS, 120, true, "the last run ended as failed, 1h0m ago"},
		{maintenance.Conflict, hourMS, 120, true, "ended as conflict"},
		{maintenance.Unknown, hourMS, 120, true, "ended as unknown"},
		{maintenance.Refused, 10 * hourMS, 120, false, "the last run left 120, it counts again at 130"},
		{maintenance.Committed, 10 * hourMS, 120, false, "the last run left 120, it counts again at 130"},
		{maintenance.NothingToDo, 10 * hourMS, 120, false, "the last run left 120, it counts again at 130"},
	} {
		in := busy(part(func(p *decide.PartitionFacts) { p.SmallFiles = c.files }))
		in.Jobs = map[maintenance.Job]decide.JobFacts{maintenance.RewriteDataFiles: {
			LastRunMS: nowMS - c.ago, LastAgedMS: nowMS - c.ago, LastOutcome: c.outcome, Left: &left,
		}}
		d := dueOf(decide.Due(in, policyOf(t, nil)), maintenance.RewriteDataFiles)
		if d.Due != c.want || !strings.Contains(d.Reason, c.reason) {
			t.Errorf("%s %d ms ago: due %v: %s; want %v, %q", c.outcome, c.ago, d.Due, d.Reason, c.want, c.reason)
		}
		off := map[string]string{"rewrite_data_files.trigger.small-files-aged": "0", "remove_orphan_files.trigger.interval": "0s", "expire_snapshots.trigger.interval": "0s"}
		wake, retried := decide.NextByClock(in, policyOf(t, off)), strings.Contains("failed conflict unknown", string(c.outcome))
		if want := int64(nowMS) - c.ago + hourMS; retried && wake != want || !retried && wake != 0 {
			t.Errorf("%s: the clock says %d, want %d for what is tried again", c.outcome, wake, want)
		}
	}
}

// TestFailuresAreNotRepeatedAtEachLook: whatever trips a trigger, a job that failed or was refused waits an hour; one that met a conflict does not.
func TestFailuresAreNotRepeatedAtEachLook(t *testing.T) {
	t.Parallel()
	data, positions, expire := maintenance.RewriteDataFiles, maintenance.RewritePositionDeleteFiles, maintenance.ExpireSnapshots
	when := map[string]string{"rewrite_manifests.trigger.when": "manifests > 1"}
	for name, c := range map[string]struct {
		job    maintenance.Job
		values map[string]string
		trip   func(*decide.DueInput)
	}{
		"age":          {data, nil, part(func(p *decide.PartitionFacts) { p.SmallFiles = 5 })},
		"delete files": {data, nil, part(func(p *decide.PartitionFacts) { p.EqualityDeleteFiles = 1000 })},
		"ratio":        {data, nil, part(func(p *decide.PartitionFacts) { p.DeletedRows = 900 })},
		"dangling":     {positions, nil, func(in *decide.DueInput) { in.DanglingDeleteFiles = 1000 }},
		"condition":    {maintenance.RewriteManifests, when, func(in *decide.DueInput) { in.Manifests = 10 }},
		"waiting":      {expire, nil, func(in *decide.DueInput) { in.Snapshots = 1 }},
	} {
		for _, o := range []struct {
			outcome maintenance.Outcome
			ago     int64
			want    bool
		}{
			{maintenance.Failed, hourMS - 1, false},
			{maintenance.Refused, 1, false},
			{maintenance.Unknown, hourMS - 1, false},
			{maintenance.Failed, hourMS, true},
			{maintenance.Refused, hourMS, true},
			{maintenance.Conflict, 1, true},
		} {
			in := busy(c.trip)
			in.FirstSeenMS = nowMS - 100*dayMS
			facts := decide.JobFacts{LastRunMS: nowMS - o.ago, LastOutcome: o.outcome}
			if c.job == expire {
				facts.WaitingUntilMS = nowMS - 2*hourMS
			}
			in.Jobs[c.job] = facts
			d := dueOf(decide.Due(in, policyOf(t, c.values)), c.job)
			if d.Due != o.want || !d.Due && !strings.Contains(d.Reason, "tried again after 1h") {
				t.Errorf("%s, %s %d ms ago: due %v: %s; want %v and when it is tried again", name, o.outcome, o.ago, d.Due, d.Reason, o.want)
			}
			if next := decide.NextByClock(in, policyOf(t, nil)) - (nowMS - o.ago + hourMS); !o.want && c.values == nil && next != 0 && next != 1 {
				t.Errorf("%s, %s: the clock says %d ms from an hour after the run", name, o.outcome, next)
			}
		}
	}
}

// TestWaitingFilesDelayNoExpiry: files that wait after a failure leave the expiry's own interval alone.
func TestWaitingFilesDelayNoExpiry(t *testing.T) {
	t.Parallel()
	in := busy(func(in *decide.DueInput) {
		in.Jobs[maintenance.ExpireSnapshots] = decide.JobFacts{
			LastRunMS: nowMS - 3*hourMS/4, LastOutcome: maintenance.Failed, WaitingUntilMS: nowMS - hourMS/2,
		}
	})
	if d := dueOf(decide.Due(in, policyOf(t, map[string]string{"expire_snapshots.trigger.interval": "30m"})), maintenance.ExpireSnapshots); !d.Due {
		t.Errorf("not due: %s; its interval is over", d.Reason)
	}
}

// TestPastTimesHideNone: a time that has passed, as of small files outside of a window, does not hide one to come.
func TestPastTimesHideNone(t *testing.T) {
	t.Parallel()
	in := busy(part(func(p *decide.PartitionFacts) { p.SmallFiles = 5 }))
	in.FirstSeenMS = nowMS - 100*dayMS
	if got, want := decide.NextByClock(in, policyOf(t, nil)), int64(nowMS-hourMS+dayMS); got != want {
		t.Errorf("next %d, want the expiry at %d", got, want)
	}
}

// TestNextByClock: what comes by the clock alone is known ahead.
func TestNextByClock(t *testing.T) {
	t.Parallel()
	in := busy(func(in *decide.DueInput) { in.FirstSeenMS = nowMS - 10*dayMS })
	if got, want := decide.NextByClock(in, policyOf(t, nil)), int64(nowMS-hourMS+dayMS); got != want {
		t.Errorf("next %d, want the expiry at %d", got, want)
	}
	in.Snapshots = 1
	if got, want := decide.NextByClock(in, policyOf(t, nil)), int64(nowMS-hourMS+7*dayMS); got != want {
		t.Errorf("next %d, want the orphans at %d", got, want)
	}
	off := map[string]string{"remove_orphan_files.trigger.interval": "0s"}
	if got := decide.NextByClock(in, policyOf(t, off)); got != 0 {
		t.Errorf("next %d, want none", got)
	}
	in.Partitions = []decide.PartitionFacts{{SmallFiles: 5}}
	in.Jobs[maintenance.RewriteDataFiles] = decide.JobFacts{LastRunMS: nowMS - 1, LastAgedMS: nowMS - hourMS}
	if got, want := decide.NextByClock(in, policyOf(t, off)), int64(nowMS-hourMS+dayMS); got != want {
		t.Errorf("next %d, want the aged small files at %d", got, want)
	}
}
