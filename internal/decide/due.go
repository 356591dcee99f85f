package decide

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"firn/internal/maintenance"
	"firn/internal/policy"
)

// smallShare is the share of the target size under which the ledger counts a data file as small; it is part of the messages only.
const smallShare = "75 % of the target"

// JobDue is the decision about one job.
type JobDue struct {
	Job maintenance.Job
	Due bool
	// Reason names rule, figure and threshold, for due jobs and for others.
	Reason string
	// Partition is the name of the partition that made the job due, Partitioned says that one did: that of an unpartitioned table has no name.
	Partition   string
	Partitioned bool
	// Debt is how much there is to do, in thresholds: 1 is exactly due. It orders tables that wait for a run.
	Debt float64
	// MinInputFiles is how many small files a partition must hold to be rewritten by the run: what would make it due by itself now. Partitions that are
	// rewritten whenever another one is due are rewritten again and again. 0 leaves it to the policy.
	MinInputFiles int64
	// Aged says that the age of small files decides: the run takes all that is left, in every partition that has enough of it.
	Aged bool
}

// Due decides which jobs of the chain are due, each by itself. A job whose last run changed or found nothing is not due again by its counters
// before somebody else commits, so that maintenance never triggers itself; jobs that go by the clock do not wait for commits. What is due may still be
// held back by a gate, and the reason says so.
func Due(in DueInput, p policy.Policy) []JobDue {
	decisions := make([]JobDue, 0, len(maintenance.Chain()))
	for _, job := range maintenance.Chain() {
		d := JobDue{Job: job}
		switch {
		case p.Mode() == policy.Off:
			d.Reason = "mode is off"
		case !p.Enabled(job) && job != maintenance.RemoveOrphanFiles:
			d.Reason = string(job) + ".enabled is false"
		default:
			d = in.triggered(job, p)
		}
		if d.Due {
			if why := in.heldBack(job, p); why != "" {
				d.Due, d.Reason = false, d.Reason+"; held back: "+why
			}
		}
		decisions = append(decisions, d)
	}
	return decisions
}

// triggered asks the thresholds, and then the job's own condition.
func (in *DueInput) triggered(job maintenance.Job, p policy.Policy) JobDue {
	d := in.due(job, p)
	d.Job = job
	condition := p.When(job)
	if d.Due || condition == nil {
		return d
	}
	if last := in.Jobs[job]; in.Commits == 0 && !timed(job) && settled(last) {
		return d // nothing but our own commits since the last run
	}
	if in.pausing(job) {
		if why := in.tryAgain(job); !strings.Contains(d.Reason, why) {
			d.Reason += "; " + why
		}
		return d
	}
	partitions := in.Partitions
	if len(partitions) == 0 {
		partitions = []PartitionFacts{{}}
	}
	for _, one := range partitions {
		if holds, why := condition.Holds(in.facts(job, one)); holds {
			return JobDue{Job: job, Due: true, Reason: "trigger.when holds: " + why, Partition: one.Name, Partitioned: true, Debt: 1}
		}
	}
	d.Reason += "; trigger.when does not hold"
	return d
}

// heldBack says which gate keeps a due job from running now; "" when none does.
func (in *DueInput) heldBack(job maintenance.Job, p policy.Policy) string {
	g := p.Gates()
	since := func(ms int64) time.Duration { return time.Duration(in.NowMS-ms) * time.Millisecond }
	least, last := p.MinInterval(job), in.Jobs[job].LastRunMS
	idle := in.LastRunMS
	if idle == 0 {
		idle = in.FirstSeenMS
	}
	switch {
	case g.MaxRunsPerDay > 0 && in.RunsToday >= g.MaxRunsPerDay:
		return fmt.Sprintf("%d runs in 24 hours, max-runs-per-day is %d", in.RunsToday, g.MaxRunsPerDay)
	case g.OverBudget(in.SpentMicros):
		return fmt.Sprintf("$%.2f spent this month, max-dollars-per-month is %v", float64(in.SpentMicros)/1e6, g.MaxDollars)
	case !g.Windows.Open(time.UnixMilli(in.NowMS)):
		return "outside of the windows"
	case g.MinInterval > 0 && in.LastRunMS > 0 && since(in.LastRunMS) < g.MinInterval:
		return fmt.Sprintf("%s since the last run, min-interval is %s", policy.RoundAge(since(in.LastRunMS)), policy.FormatAge(g.MinInterval))
	case least > 0 && last > 0 && since(last) < least:
		return fmt.Sprintf("%s since the job's last run, trigger.min-interval is %s", policy.RoundAge(since(last)), policy.FormatAge(least))
	case g.QuietPeriod > 0 && since(in.LastCommitMS) < g.QuietPeriod && (g.MaxQuietWait == 0 || since(idle) < g.MaxQuietWait):
		return fmt.Sprintf("%s since the last commit, quiet-period is %s", policy.RoundAge(since(in.LastCommitMS)), policy.FormatAge(g.QuietPeriod))
	}
	return ""
}

// settled says that the last run did what there was to do.
func settled(last JobFacts) bool {
	return last.LastRunMS > 0 && (last.LastOutcome == maintenance.Committed || last.LastOutcome == maintenance.NothingToDo)
}

func (in *DueInput) due(job maintenance.Job, p policy.Policy) JobDue {
	t := p.Triggers()
	var d JobDue
	switch job {
	case maintenance.ExpireSnapshots:
		return in.expiryDue(t, p)
	case maintenance.RemoveOrphanFiles:
		return in.orphansDue(p)
	}
	if in.Commits == 0 && settled(in.Jobs[job]) {
		d.Reason = "nobody else has committed since the last run"
		return d
	}
	switch job {
	case maintenance.RewriteDataFiles:
		return in.dataFilesDue(t, p.Hysteresis())
	case maintenance.RewritePositionDeleteFiles:
		d.Due, d.Reason = in.positionDeletesDue(t, p.Hysteresis())
		d.Debt = share(in.positionDeleteFiles(), t.PositionDeleteFiles)
	default:
		d.Due, d.Reason = in.again(job, in.SmallManifests, t.SmallManifests, p.Hysteresis(), "small manifests")
		d.Debt = share(in.SmallManifests, t.SmallManifests)
	}
	return d
}

// expiryDue goes by the clock, when there is something to expire; what an earlier expiry had to leave is due when its time has come.
func (in *DueInput) expiryDue(t policy.Triggers, p policy.Policy) JobDue {
	const job, what = maintenance.ExpireSnapshots, "files of an expiry wait for their deletion"
	until := in.Jobs[job].WaitingUntilMS
	wait := until > 0 && in.NowMS >= until
	if wait && !in.pausing(job) {
		return JobDue{Due: true, Reason: what, Debt: 1}
	}
	d := JobDue{Reason: fmt.Sprintf("%d snapshots, nothing can expire", in.Snapshots)}
	if in.Snapshots > 1 {
		d.Debt = 1
		d.Due, d.Reason = in.byClock(job, t.ExpireInterval)
		if young := in.expiresAt(p) - in.NowMS; d.Due && young > 0 {
			d.Due, d.Reason = false, fmt.Sprintf("no snapshot is old enough for another %s", policy.RoundAge(time.Duration(young)*time.Millisecond))
		}
	}
	if wait && !d.Due {
		d.Reason += "; " + what + ", " + in.tryAgain(job)
	}
	return d
}

func share(count, threshold int64) float64 {
	if threshold <= 0 {
		return 1
	}
	return float64(count) / float64(threshold)
}

// again compares a count with its threshold, and does not count what the last run left: a table whose files cannot be rewritten does not flap. A run that
// did not come to its end says nothing about the files: what it left counts again after retryAfter.
func (in *DueInput) again(job maintenance.Job, count, threshold int64, hysteresis float64, what string) (bool, string) {
	due, why := reached(count, threshold, what)
	last := in.Jobs[job]
	if !due || last.Left == nil || *last.Left < threshold {
		return due, why
	}
	need, age := *last.Left+int64(math.Ceil(hysteresis*float64(threshold))), time.Duration(in.NowMS-last.LastRunMS)*time.Millisecond
	switch {
	case count >= need:
		return true, why
	case !unfinished(last):
		return false, fmt.Sprintf("%s; the last run left %d, it counts again at %d", why, *last.Left, need)
	case age >= retryAfter:
		return true, fmt.Sprintf("%s; the last run ended as %s, %s ago", why, last.LastOutcome, policy.RoundAge(age))
	}
	return false, fmt.Sprintf("%s; %s, or at %d", why, in.tryAgain(job), need)
}

// tryAgain says when a job is tried again that did not come to its end.
func (in *DueInput) tryAgain(job maintenance.Job) string {
	return fmt.Sprintf("the last run ended as %s, it is tried again after %s", in.Jobs[job].LastOutcome, policy.FormatAge(retryAfter))
}

// pausing says that the last run failed or was refused less than retryAfter ago: only more files than it left make the job due before. A conflict is no
// failure: whoever was first has changed the table, and the next run may well land.
func (in *DueInput) pausing(job maintenance.Job) bool {
	last := in.Jobs[job]
	vain := slices.Contains([]maintenance.Outcome{maintenance.Failed, maintenance.Refused, maintenance.Unknown}, last.LastOutcome)
	return vain && in.NowMS-last.LastRunMS < retryAfter.Milliseconds()
}

// retryAfter is when a run that did not come to its end is tried again although nothing was added: what stood in its way may have passed, and a run that
// fails each time costs more the more often it is tried.
const retryAfter = time.Hour

// unfinished says that the last run was kept from doing what there was to do.
func unfinished(last JobFacts) bool {
	return slices.Contains([]maintenance.Outcome{maintenance.Failed, maintenance.Conflict, maintenance.Unknown}, last.LastOutcome)
}

// reached compares a count with its threshold; 0 is off.
func reached(count, threshold int64, what string) (bool, string) {
	if threshold <= 0 {
		return false, "the trigger on " + what + " is off"
	}
	return count >= threshold, fmt.Sprintf("%d %s, the threshold is %d", count, what, threshold)
}

// dataFilesDue looks for the first partition that trips a rule; otherwise the reason shows the nearest to it.
func (in *DueInput) dataFilesDue(t policy.Triggers, hysteresis float64) JobDue {
	var most PartitionFacts
	d := JobDue{Debt: share(in.worst(), t.SmallFiles)}
	for _, p := range in.Partitions {
		if due, why := in.partitionDue(p, t, hysteresis); due {
			d.Due, d.Partitioned, d.Partition, d.Debt, d.MinInputFiles = true, true, p.Name, max(d.Debt, 1), t.SmallFiles
			if d.Aged = in.aged(p, t); d.Aged {
				d.MinInputFiles = t.SmallFilesAged
			}
			d.Reason = why
			if title := cmp.Or(p.Title, p.Name); title != "" {
				d.Reason = fmt.Sprintf("partition %s: %s", title, why)
			}
			return d
		}
		if p.SmallFiles > most.SmallFiles {
			most = p
		}
	}
	if t.SmallFiles > 0 && most.SmallFiles >= t.SmallFiles { // only what the last run left keeps it from being due
		_, d.Reason = in.again(maintenance.RewriteDataFiles, most.SmallFiles, t.SmallFiles, hysteresis, "files under "+smallShare)
		return d
	}
	if in.pausing(maintenance.RewriteDataFiles) {
		d.Reason = in.tryAgain(maintenance.RewriteDataFiles)
		return d
	}
	d.Reason = fmt.Sprintf("no partition trips a trigger; the one with most files under %s has %d, the thresholds are %d, or %d after %s",
		smallShare, most.SmallFiles, t.SmallFiles, t.SmallFilesAged, policy.FormatAge(t.Age))
	return d
}

func (in *DueInput) partitionDue(p PartitionFacts, t policy.Triggers, hysteresis float64) (bool, string) {
	if due, why := in.again(maintenance.RewriteDataFiles, p.SmallFiles, t.SmallFiles, hysteresis, "files under "+smallShare); due {
		return true, why
	}
	if in.pausing(maintenance.RewriteDataFiles) {
		return false, ""
	}
	if age := in.sinceAged(p); age >= t.Age {
		if due, why := reached(p.SmallFiles, t.SmallFilesAged, "files under "+smallShare); due {
			return true, fmt.Sprintf("%s, after %s", why, policy.RoundAge(age))
		}
	}
	if due, why := reached(p.PositionDeleteFiles+p.EqualityDeleteFiles, t.DeleteFiles, "delete files"); due && p.DataFiles > 0 && !in.lookedInVain(t, hysteresis) {
		return true, why
	}
	if t.DeletedRatio > 0 && p.Rows > 0 {
		if ratio := float64(p.DeletedRows) / float64(p.Rows); ratio >= t.DeletedRatio {
			return true, fmt.Sprintf("%.3f of the rows are deleted, the threshold is %v", ratio, t.DeletedRatio)
		}
	}
	return false, ""
}

// aged says that the age of small files decides what a run takes.
func (in *DueInput) aged(p PartitionFacts, t policy.Triggers) bool {
	return in.sinceAged(p) >= t.Age && t.SmallFilesAged > 0 && (t.SmallFiles == 0 || t.SmallFilesAged < t.SmallFiles)
}

// lookedInVain says that a run found nothing to rewrite lately. The ledger knows the delete files of a partition, while the rule is about those of
// one file: many files with one delete each look due and are not, and that is worth one look in trigger.age only. An equality delete applies to all older
// files of its partition, so one more of them may be what a file lacked: a writer that commits rows and equality deletes together always has one in the
// partition that applies to nothing.
func (in *DueInput) lookedInVain(t policy.Triggers, hysteresis float64) bool {
	last := in.Jobs[maintenance.RewriteDataFiles]
	if last.LastOutcome != maintenance.NothingToDo || time.Duration(in.NowMS-last.LastRunMS)*time.Millisecond >= t.Age {
		return false
	}
	more := max(1, int64(math.Ceil(hysteresis*float64(t.DeleteFiles))))
	return last.LeftEquality == nil || in.EqualityDeleteFiles() < *last.LeftEquality+more
}

// sinceAged is the time since the last run that took small files by their age, or since the table was first seen, or since the partition was last written.
// Runs that take what is due by its number alone do not count: a table whose newest partition is due every hour would never have its older ones tidied.
func (in *DueInput) sinceAged(p PartitionFacts) time.Duration {
	since := cmp.Or(in.Jobs[maintenance.RewriteDataFiles].LastAgedMS, in.FirstSeenMS, p.LastWriteMS)
	return time.Duration(in.NowMS-since) * time.Millisecond
}

func (in *DueInput) positionDeletesDue(t policy.Triggers, hysteresis float64) (bool, string) {
	const job = maintenance.RewritePositionDeleteFiles
	dangling, why := reached(in.DanglingDeleteFiles, t.DanglingDeleteFiles, "dangling delete files")
	if dangling && !in.pausing(job) {
		return true, why
	}
	due, reason := in.again(job, in.positionDeleteFiles(), t.PositionDeleteFiles, hysteresis, "position delete files")
	if dangling && !due {
		return false, why + "; " + in.tryAgain(job)
	}
	return due, reason
}

// timed reports whether a job goes by the clock.
func timed(job maintenance.Job) bool {
	return job == maintenance.ExpireSnapshots || job == maintenance.RemoveOrphanFiles
}

// NextByClock is when a job may become due by the clock alone, in milliseconds since the epoch; 0 when none does. Conditions are asked at the latest when
// the next reconcile is: they are not looked into.
func NextByClock(in DueInput, p policy.Policy) int64 {
	next := int64(0)
	t := p.Triggers()
	sooner := func(since int64, interval time.Duration) {
		// what was due already is held back by something else than the clock, and must not hide what comes
		if at := since + interval.Milliseconds(); interval > 0 && since > 0 && at >= in.NowMS && (next == 0 || at < next) {
			next = at
		}
	}
	base := func(job maintenance.Job) int64 {
		if last := in.Jobs[job].LastRunMS; last > 0 {
			return last
		}
		return in.FirstSeenMS
	}
	if in.Snapshots > 1 && p.Enabled(maintenance.ExpireSnapshots) {
		since := base(maintenance.ExpireSnapshots)
		if at := in.expiresAt(p) - t.ExpireInterval.Milliseconds(); since > 0 {
			since = max(since, at)
		}
		sooner(since, t.ExpireInterval)
	}
	if until := in.Jobs[maintenance.ExpireSnapshots].WaitingUntilMS; until > 0 {
		if in.pausing(maintenance.ExpireSnapshots) {
			until = max(until, in.Jobs[maintenance.ExpireSnapshots].LastRunMS+retryAfter.Milliseconds())
		}
		sooner(until, time.Millisecond)
	}
	for job, last := range in.Jobs {
		if !timed(job) && (unfinished(last) || in.pausing(job)) {
			sooner(last.LastRunMS, retryAfter)
		}
	}
	sooner(base(maintenance.RemoveOrphanFiles), t.OrphansInterval)
	if in.worst() >= t.SmallFilesAged && t.SmallFilesAged > 0 && in.Commits > 0 {
		sooner(cmp.Or(in.Jobs[maintenance.RewriteDataFiles].LastAgedMS, in.FirstSeenMS), t.Age)
	}
	return next
}

// idleSearch is how often a table is searched for orphans to which nobody commits: writers may fail before they ever commit.
const idleSearch = 30 * 24 * time.Hour

// orphansDue goes by the clock, but a search that only lists does not list again what it has listed, and one that found a table as it still is, with all
// files of its last writers old enough to be taken, comes again after idleSearch.
func (in *DueInput) orphansDue(p policy.Policy) JobDue {
	const job = maintenance.RemoveOrphanFiles
	d := JobDue{Debt: 1}
	d.Due, d.Reason = in.byClock(job, p.Triggers().OrphansInterval)
	last := in.Jobs[job].LastRunMS
	if !d.Due || last == 0 || in.LastCommitMS == 0 || in.LastCommitMS >= last {
		return d
	}
	if !p.Enabled(job) {
		d.Due, d.Reason = false, "it only lists, and nobody else has committed since it did"
		return d
	}
	age := time.Duration(in.NowMS-last) * time.Millisecond
	if in.LastRunMS <= last && settled(in.Jobs[job]) && last-in.LastCommitMS >= p.OrphanAge().Milliseconds() && age < idleSearch {
		d.Due, d.Reason = false, fmt.Sprintf("nobody has committed since the last search, %s ago; it is repeated after %s", policy.RoundAge(age), policy.FormatAge(idleSearch))
	}
	return d
}

// byClock is due when the interval since the last run, or since the table was first seen, has passed. A table of which neither is known is due.
func (in *DueInput) byClock(job maintenance.Job, interval time.Duration) (bool, string) {
	if interval == 0 {
		return false, "its interval is off"
	}
	since := in.Jobs[job].LastRunMS
	if since == 0 {
		since = in.FirstSeenMS
	}
	if since == 0 {
		return true, "it never ran"
	}
	age := time.Duration(in.NowMS-since) * time.Millisecond
	what := fmt.Sprintf("%s since the last run, the interval is %s", policy.RoundAge(age), policy.FormatAge(interval))
	return age >= interval, what
}

// expiresAt is when the oldest snapshot is old enough to expire, 0 when that is not known.
func (in *DueInput) expiresAt(p policy.Policy) int64 {
	if in.OldestSnapshotMS == 0 {
		return 0
	}
	return in.OldestSnapshotMS + max(p.ExpiryAge(), p.Expiry().MinAge).Milliseconds()
}
