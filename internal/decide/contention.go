package decide

import (
	"math"
	"slices"
	"time"
)

// Commit is a commit of another writer, as the log of snapshots tells of it. Commits of ours are not given.
type Commit struct {
	SnapshotID int64
	AtMS       int64
	// Deletes says that it added delete files: a rewrite carries them over. Replaces says that it removed data files: a rewrite of one of them loses.
	Deletes, Replaces bool
}

// Cadence is how often other writers commit.
type Cadence struct {
	// Commits is the number of commits that it was learnt from, all of them in the log; Deleting and Replacing count those of that kind.
	Commits, Deleting, Replacing int
	// Span is the time over which they came: from the first of them until now.
	Span time.Duration
}

// CadenceOf learns from the log. The log may be short: what has expired is not in it.
func CadenceOf(commits []Commit, nowMS int64) Cadence {
	var c Cadence
	first := nowMS
	for _, one := range commits {
		c.Commits++
		first = min(first, one.AtMS)
		if one.Deletes {
			c.Deleting++
		}
		if one.Replaces {
			c.Replacing++
		}
	}
	c.Span = time.Duration(nowMS-first) * time.Millisecond
	return c
}

// Interval is the mean time between n commits of the span; 0 when there were none.
func (c Cadence) Interval(n int) time.Duration {
	if n == 0 {
		return 0
	}
	return c.Span / time.Duration(n)
}

// chance is the probability that at least one of a kind of commits, n of which came in the span, comes within a time. They are taken to come
// independently of each other and of us (a Poisson process); one commit alone says nothing of a rate.
func (c Cadence) chance(n int, within time.Duration) float64 {
	if n < 2 || c.Span <= 0 {
		return 0
	}
	return 1 - math.Exp(-float64(n)*within.Seconds()/c.Span.Seconds())
}

// Prediction is what a rewrite will meet of other writers, as far as their cadence tells: the chances, 0 to 1, that while it works at least one commit
// comes (its own must be tried again), one that deletes rows (they are carried over if its files are hit), and one that replaces files (the groups that
// hold one of them are a conflict). They are of the whole table, so they are upper bounds for a group.
type Prediction struct {
	Window                   time.Duration
	Commit, Delete, Conflict float64
}

// What a rewrite takes: a fixed time for planning and committing, and a time for its bytes. Only the order of magnitude counts.
const (
	rewriteOverhead       = 2 * time.Second
	rewriteBytesPerSecond = 32 << 20
)

// Predict says what a rewrite of so many bytes, so many of its groups at once, will meet.
func (c Cadence) Predict(bytes int64, atOnce int) Prediction {
	work := float64(bytes) / rewriteBytesPerSecond / float64(max(atOnce, 1))
	window := rewriteOverhead + time.Duration(work*float64(time.Second))
	return Prediction{
		Window: window, Commit: c.chance(c.Commits, window), Delete: c.chance(c.Deleting, window), Conflict: c.chance(c.Replacing, window),
	}
}

// AutomaticQuietPeriod is for how long automatic runs leave a partition alone after a commit that replaced files in it, when nothing else is said.
const AutomaticQuietPeriod = 5 * time.Minute

// Busy returns the snapshots whose partitions a rewrite leaves out: those of the last quietCommits commits, and in automatic runs those that replaced
// files within AutomaticQuietPeriod. The latter only where waiting helps: where such commits come more often than the period is long, the partition will
// never be quiet, and a rewrite may as well try. Commits that only add or delete rows are no reason to wait: a rewrite lands beside them.
func Busy(commits []Commit, nowMS int64, quietCommits int, automatic bool) map[int64]bool {
	busy := map[int64]bool{}
	sorted := slices.Clone(commits)
	slices.SortStableFunc(sorted, func(a, b Commit) int { return int(b.AtMS - a.AtMS) })
	for _, c := range sorted[:min(quietCommits, len(sorted))] {
		busy[c.SnapshotID] = true
	}
	cadence := CadenceOf(commits, nowMS)
	often := cadence.Replacing > 1 && cadence.Interval(cadence.Replacing) < AutomaticQuietPeriod
	if !automatic || often {
		return busy
	}
	for _, c := range sorted {
		if c.Replaces && nowMS-c.AtMS < AutomaticQuietPeriod.Milliseconds() {
			busy[c.SnapshotID] = true
		}
	}
	return busy
}
