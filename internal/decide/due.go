package decide

import (
	"fmt"
	"time"

	"firn/internal/maintenance"
	"firn/internal/policy"
)

// smallShare is the share of the target size under which the ledger counts a data file as small; it is part of the messages only.
const smallShare = "75 % of the target"

// PartitionFacts is what the ledger knows of one partition.
type PartitionFacts struct {
	// Name is for messages.
	Name       string
	DataFiles  int64
	SmallFiles int64
	// PositionDeleteFiles and EqualityDeleteFiles are live; deletion vectors are not counted here, a data file has one at most.
	PositionDeleteFiles int64
	EqualityDeleteFiles int64
	// DeletedRows and Rows give the deleted share; Rows 0 means that it is not known.
	DeletedRows int64
	Rows        int64
	// LastWriteMS is the time of the last snapshot that touched the partition.
	LastWriteMS int64
}

// JobFacts is what is known of a job's runs on the table.
type JobFacts struct {
	// LastRunMS is when the last run ended, 0 when there was none.
	LastRunMS int64
	// LastOutcome is how it ended.
	LastOutcome maintenance.Outcome
}

// DueInput is everything that Due looks at. Times are milliseconds since the epoch.
type DueInput struct {
	NowMS      int64
	Partitions []PartitionFacts
	// Commits counts commits of other writers since the last run; commits of ours are never counted.
	Commits int64
	// Snapshots and SmallManifests are counts of the head. DanglingDeleteFiles are position delete files and vectors that apply to no data file, where a
	// full scan counted them.
	Snapshots           int64
	SmallManifests      int64
	DanglingDeleteFiles int64
	// FirstSeenMS is when the table was first looked at: ages are measured from it before the first run. 0 is unknown.
	FirstSeenMS int64
	Jobs        map[maintenance.Job]JobFacts
	// RunsToday counts automatic runs of the last 24 hours.
	RunsToday int64
}

// JobDue is the decision about one job.
type JobDue struct {
	Job maintenance.Job
	Due bool
	// Reason names rule, figure and threshold, for due jobs and for others.
	Reason string
}

// Due decides which jobs of the chain are due, each by itself. A job whose last run changed or found nothing is not due again by its counters
// before somebody else commits, so that maintenance never triggers itself; jobs that go by the clock do not wait for commits.
func Due(in DueInput, p policy.Policy) []JobDue {
	decisions := make([]JobDue, 0, len(maintenance.Chain()))
	t := p.Triggers()
	for _, job := range maintenance.Chain() {
		d := JobDue{Job: job}
		switch {
		case p.Mode() == policy.Off:
			d.Reason = "mode is off"
		case !p.Enabled(job) && job != maintenance.RemoveOrphanFiles:
			d.Reason = string(job) + ".enabled is false"
		case p.MaxRunsPerDay() > 0 && in.RunsToday >= p.MaxRunsPerDay():
			d.Reason = fmt.Sprintf("%d runs in 24 hours, max-runs-per-day is %d", in.RunsToday, p.MaxRunsPerDay())
		default:
			d.Due, d.Reason = in.due(job, t)
		}
		decisions = append(decisions, d)
	}
	return decisions
}

func (in *DueInput) due(job maintenance.Job, t policy.Triggers) (bool, string) {
	switch job {
	case maintenance.ExpireSnapshots:
		if in.Snapshots <= 1 {
			return false, fmt.Sprintf("%d snapshots, nothing can expire", in.Snapshots)
		}
		return in.byClock(job, t.ExpireInterval)
	case maintenance.RemoveOrphanFiles:
		return in.byClock(job, t.OrphansInterval)
	}
	last := in.Jobs[job]
	if last.LastRunMS > 0 && in.Commits == 0 && (last.LastOutcome == maintenance.Committed || last.LastOutcome == maintenance.NothingToDo) {
		return false, "nobody else has committed since the last run"
	}
	switch job {
	case maintenance.RewriteDataFiles:
		return in.dataFilesDue(t)
	case maintenance.RewritePositionDeleteFiles:
		return in.positionDeletesDue(t)
	default:
		return reached(in.SmallManifests, t.SmallManifests, "small manifests")
	}
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
	what := fmt.Sprintf("%s since the last run, the interval is %s", age.Round(time.Second), policy.FormatAge(interval))
	return age >= interval, what
}

// reached compares a count with its threshold; 0 is off.
func reached(count, threshold int64, what string) (bool, string) {
	if threshold <= 0 {
		return false, "the trigger on " + what + " is off"
	}
	return count >= threshold, fmt.Sprintf("%d %s, the threshold is %d", count, what, threshold)
}

// dataFilesDue looks for the first partition that trips a rule; otherwise the reason shows the nearest to it.
func (in *DueInput) dataFilesDue(t policy.Triggers) (bool, string) {
	var most PartitionFacts
	for _, p := range in.Partitions {
		if due, why := in.partitionDue(p, t); due {
			return true, "partition " + fmt.Sprintf("%q", p.Name) + ": " + why
		}
		if p.SmallFiles > most.SmallFiles {
			most = p
		}
	}
	return false, fmt.Sprintf("no partition trips a trigger; the one with most files under %s has %d, the thresholds are %d, or %d after %s",
		smallShare, most.SmallFiles, t.SmallFiles, t.SmallFilesAged, policy.FormatAge(t.Age))
}

func (in *DueInput) partitionDue(p PartitionFacts, t policy.Triggers) (bool, string) {
	if due, why := reached(p.SmallFiles, t.SmallFiles, "files under "+smallShare); due {
		return true, why
	}
	if age := in.sinceRewrite(p); age >= t.Age {
		if due, why := reached(p.SmallFiles, t.SmallFilesAged, "files under "+smallShare); due {
			return true, fmt.Sprintf("%s, after %s", why, age.Round(time.Second))
		}
	}
	if due, why := reached(p.PositionDeleteFiles+p.EqualityDeleteFiles, t.DeleteFiles, "delete files"); due && p.DataFiles > 0 && !in.lookedInVain(t) {
		return true, why
	}
	if t.DeletedRatio > 0 && p.Rows > 0 {
		if ratio := float64(p.DeletedRows) / float64(p.Rows); ratio >= t.DeletedRatio {
			return true, fmt.Sprintf("%.3f of the rows are deleted, the threshold is %v", ratio, t.DeletedRatio)
		}
	}
	return false, ""
}

// lookedInVain says that a run found nothing to rewrite lately. The ledger knows the delete files of a partition, while the rule is about those of
// one file: many files with one delete each look due and are not, and that is worth one look in trigger.age only.
func (in *DueInput) lookedInVain(t policy.Triggers) bool {
	last := in.Jobs[maintenance.RewriteDataFiles]
	return last.LastOutcome == maintenance.NothingToDo && time.Duration(in.NowMS-last.LastRunMS)*time.Millisecond < t.Age
}

// sinceRewrite is the time since the last rewrite, or since the table was first seen, or since the partition was last written.
func (in *DueInput) sinceRewrite(p PartitionFacts) time.Duration {
	since := in.Jobs[maintenance.RewriteDataFiles].LastRunMS
	if since == 0 {
		since = in.FirstSeenMS
	}
	if since == 0 {
		since = p.LastWriteMS
	}
	return time.Duration(in.NowMS-since) * time.Millisecond
}

func (in *DueInput) positionDeletesDue(t policy.Triggers) (bool, string) {
	if due, why := reached(in.DanglingDeleteFiles, t.DanglingDeleteFiles, "dangling delete files"); due {
		return true, why
	}
	var files int64
	for _, p := range in.Partitions {
		files += p.PositionDeleteFiles
	}
	return reached(files, t.PositionDeleteFiles, "position delete files")
}
