package decide

import (
	"math"
	"slices"
	"testing"
	"time"
)

// every makes n commits of a kind, one each interval, the last just before now.
func every(n int, interval time.Duration, nowMS int64, kind Commit) []Commit {
	var commits []Commit
	for i := range n {
		c := kind
		c.SnapshotID, c.AtMS = int64(n-i), nowMS-int64(i+1)*interval.Milliseconds()
		commits = append(commits, c)
	}
	return commits
}

func TestPredictionFollowsTheCadence(t *testing.T) {
	t.Parallel()
	const now = int64(1_000_000_000)
	deletes, replaces := Commit{Deletes: true}, Commit{Replaces: true}
	for _, c := range []struct {
		name                     string
		commits                  []Commit
		bytes                    int64
		atOnce                   int
		window                   time.Duration
		commit, delete, conflict float64
	}{
		{name: "no log", window: 2 * time.Second},
		{name: "one commit tells no rate", commits: every(1, time.Second, now, deletes), window: 2 * time.Second},
		{name: "a delete each second", commits: every(600, time.Second, now, deletes), window: 2 * time.Second, commit: 0.865, delete: 0.865},
		{name: "one each hour", commits: every(100, time.Hour, now, replaces), window: 2 * time.Second, commit: 0.0006, conflict: 0.0006},
		{
			name: "a long rewrite", commits: every(100, time.Minute, now, replaces), bytes: 58 * 32 << 20, window: time.Minute,
			commit: 0.632, conflict: 0.632,
		},
		{
			name: "two groups at once", commits: every(100, time.Minute, now, replaces), bytes: 116 * 32 << 20, atOnce: 2, window: time.Minute,
			commit: 0.632, conflict: 0.632,
		},
		{
			name: "kinds apart", commits: slices.Concat(every(10, 20*time.Second, now, deletes), every(5, 40*time.Second, now, replaces)), window: 2 * time.Second,
			commit: 0.139, delete: 0.095, conflict: 0.049,
		},
	} {
		got := CadenceOf(c.commits, now).Predict(c.bytes, c.atOnce)
		near := func(a, b float64) bool { return math.Abs(a-b) < 0.001 }
		if got.Window != c.window || !near(got.Commit, c.commit) || !near(got.Delete, c.delete) || !near(got.Conflict, c.conflict) {
			t.Errorf("%s: %+v: want %s, %v, %v, %v", c.name, got, c.window, c.commit, c.delete, c.conflict)
		}
	}
}

func TestBusyLeavesOutWhatWillBeQuiet(t *testing.T) {
	t.Parallel()
	const now = int64(1_000_000_000)
	replaces, deletes := Commit{Replaces: true}, Commit{Deletes: true}
	for _, c := range []struct {
		name      string
		commits   []Commit
		quiet     int
		automatic bool
		want      []int64
	}{
		{name: "a call waits for nobody", commits: every(3, time.Minute, now, replaces)},
		{name: "the last two", commits: every(4, time.Minute, now, deletes), quiet: 2, want: []int64{3, 4}},
		{name: "more than there are", commits: every(2, time.Minute, now, deletes), quiet: 9, want: []int64{1, 2}},
		{name: "an hourly overwrite, a minute ago", commits: append(every(3, time.Hour, now-60_000, replaces), Commit{SnapshotID: 9, AtMS: now - 1, Replaces: true}), automatic: true, want: []int64{9}},
		{name: "an overwrite each minute is never quiet", commits: every(30, time.Minute, now, replaces), automatic: true},
		{name: "deletes are carried over", commits: every(30, time.Hour, now, deletes), automatic: true},
		{name: "a single overwrite", commits: []Commit{{SnapshotID: 5, AtMS: now - 1000, Replaces: true}}, automatic: true, want: []int64{5}},
		{name: "just over the period", commits: []Commit{{SnapshotID: 5, AtMS: now - AutomaticQuietPeriod.Milliseconds(), Replaces: true}}, automatic: true},
	} {
		var got []int64
		for id := range Busy(c.commits, now, c.quiet, c.automatic) {
			got = append(got, id)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v: want %v", c.name, got, c.want)
		}
	}
}
