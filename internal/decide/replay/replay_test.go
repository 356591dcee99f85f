package replay_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"firn/internal/decide"
	"firn/internal/decide/replay"
	"firn/internal/maintenance"
	"firn/internal/policy"
)

const (
	mib    = int64(1) << 20
	hourMS = int64(60 * 60 * 1000)
	t0     = int64(1_790_000_000_000)
)

func policyOf(t testing.TB, values map[string]string) policy.Policy {
	t.Helper()
	p, err := policy.Document{}.Effective(maintenance.TableID{Namespace: "db", Name: "t"}, nil, values)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func small(path string) replay.File {
	return replay.File{Path: path, Partition: "p", SizeBytes: 10 * mib, Rows: 100}
}

func play(t testing.TB, h replay.History, values map[string]string) replay.Report {
	t.Helper()
	r, err := replay.Play(h, policyOf(t, values), replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// appends is a table to which a writer added so many files, one every so often.
func appends(n int, every int64) replay.History {
	h := replay.History{StartMS: t0, EndMS: t0 + int64(n)*every}
	for i := range n {
		h.Changes = append(h.Changes, replay.Change{AtMS: t0 + int64(i)*every, Added: []replay.File{small(fmt.Sprint("f", i))}, Manifests: int64(i + 1), SmallManifests: int64(i + 1)})
	}
	return h
}

func last(r replay.Report) replay.Point { return r.OverTime[len(r.OverTime)-1] }

// TestThresholdsDecideWhatIsRewritten: 250 files in two hours are merged at 100 and at 200, or at 10 each, or never.
func TestThresholdsDecideWhatIsRewritten(t *testing.T) {
	t.Parallel()
	off := map[string]string{"rewrite_data_files.enabled": "false", "rewrite_manifests.enabled": "false"}
	for _, c := range []struct {
		name               string
		values             map[string]string
		runs, files, worst int64
	}{
		{"default", nil, 2, 200, 50 + 4},
		{"ten", map[string]string{"rewrite_data_files.trigger.small-files": "10"}, 27, 270, 10},
		{"off", off, 0, 0, 250},
	} {
		r := play(t, appends(250, 28_000), c.values)
		got := last(r).Proposed
		if int64(r.Proposed.Jobs[maintenance.RewriteDataFiles]) != c.runs || r.Proposed.RewrittenFiles != c.files || got.Worst > c.worst || got.Rows != 25_000 {
			t.Errorf("%s: %+v, at the end %+v: want %d runs and %d files, %d left at most", c.name, r.Proposed, got, c.runs, c.files, c.worst)
		}
		if was := last(r).AsItWas; was.DataFiles != 250 || r.AsItWas.Runs != 0 || r.Commits != 250 {
			t.Errorf("%s: as it was %+v, %+v", c.name, was, r.AsItWas)
		}
	}
}

// TestGatesHoldInReplay: a window and a budget of runs hold here as they do in evaluate.
func TestGatesHoldInReplay(t *testing.T) {
	t.Parallel()
	begin := time.UnixMilli(t0).UTC()
	window := begin.Add(3*time.Hour).Format("15:04") + "-" + begin.Add(4*time.Hour).Format("15:04")
	h := appends(120, 28_000)
	h.EndMS = t0 + 5*hourMS
	r := play(t, h, map[string]string{"windows": window})
	for _, run := range r.Runs {
		if at := run.AtMS - t0; at < 3*hourMS-60_000 || at > 4*hourMS {
			t.Errorf("a run %d minutes after the start, outside of the window", at/60_000)
		}
	}
	if len(r.Runs) == 0 {
		t.Error("no run in the window")
	}
	if r := play(t, appends(250, 28_000), map[string]string{"rewrite_data_files.trigger.small-files": "10", "max-runs-per-day": "3"}); len(r.Runs) != 3 {
		t.Errorf("%d runs, max-runs-per-day is 3", len(r.Runs))
	}
}

// TestOtherRewritesAreLeftOut: what really was rewritten is replaced by what the policy rewrites, and a writer who then replaces a merged file takes its rows.
func TestOtherRewritesAreLeftOut(t *testing.T) {
	t.Parallel()
	h := appends(6, 60_000)
	merged := replay.File{Path: "merged", Partition: "p", SizeBytes: 60 * mib, Rows: 600}
	rewrite := replay.Change{AtMS: t0 + hourMS, Rewrite: true, Run: "r", Added: []replay.File{merged}}
	for _, c := range h.Changes {
		rewrite.Removed = append(rewrite.Removed, c.Added...)
	}
	h.Changes = append(h.Changes, rewrite, replay.Change{AtMS: t0 + 2*hourMS, Added: []replay.File{small("f6")}},
		replay.Change{AtMS: t0 + 3*hourMS, Removed: []replay.File{merged}, Added: []replay.File{{Path: "half", Partition: "p", SizeBytes: 30 * mib, Rows: 300}}})
	h.EndMS = t0 + 4*hourMS
	for threshold, files := range map[string]int64{"100": 2, "3": 2, "7": 2} {
		r := play(t, h, map[string]string{"rewrite_data_files.trigger.small-files": threshold})
		got := last(r)
		if got.Proposed.Rows != 400 || got.AsItWas.Rows != 400 || got.Proposed.DataFiles > files {
			t.Errorf("threshold %s: %+v", threshold, got)
		}
		if r.AsItWas.Runs != 1 || r.AsItWas.RewrittenFiles != 6 || r.AsItWas.RewrittenBytes != 60*mib || r.Rewrites != 1 || r.Commits != 8 {
			t.Errorf("threshold %s: as it was %+v, %d commits", threshold, r.AsItWas, r.Commits)
		}
	}
}

// TestDeletesMakeFilesDue: five equality deletes on a partition, and vectors over a third of a file, are rewritten away.
func TestDeletesMakeFilesDue(t *testing.T) {
	t.Parallel()
	big := replay.File{Path: "big", Partition: "p", SizeBytes: 512 * mib, Rows: 1000}
	h := replay.History{StartMS: t0, EndMS: t0 + hourMS, Start: replay.Change{Added: []replay.File{big}}}
	for i := range 5 {
		h.Changes = append(h.Changes, replay.Change{AtMS: t0 + int64(i)*60_000, AddedDeletes: []replay.Delete{
			{Key: fmt.Sprint("e", i), Partition: "p", Kind: replay.Equality, Rows: 1},
		}})
	}
	r := play(t, h, nil)
	if got := last(r); got.Proposed.DeleteFiles != 0 || got.AsItWas.DeleteFiles != 5 || r.Proposed.Jobs[maintenance.RewriteDataFiles] != 1 {
		t.Errorf("equality deletes: %+v, %+v", got, r.Proposed)
	}
	for rows, runs := range map[int64]int{299: 0, 300: 1} {
		h.Changes = []replay.Change{{AtMS: t0 + 1, AddedDeletes: []replay.Delete{{Key: "dv", Partition: "p", Kind: replay.Vector, Rows: rows, Target: "big"}}}}
		r := play(t, h, nil)
		want := int64(1000)
		if runs > 0 {
			want -= rows
		}
		if got := last(r).Proposed; r.Proposed.Jobs[maintenance.RewriteDataFiles] != runs || got.Rows != want || got.DeleteFiles != int64(1-runs) {
			t.Errorf("%d rows deleted by a vector: %+v, %+v", rows, got, r.Proposed)
		}
	}
}

// TestCostIsThatOfReport: the model has one place.
func TestCostIsThatOfReport(t *testing.T) {
	t.Parallel()
	r := play(t, appends(250, 28_000), nil)
	want := float64(int64(r.Proposed.Runs)*decide.RunMicros(0)+decide.RunMicros(r.Proposed.RewrittenBytes)-decide.RunMicros(0)) / 1e6
	if r.Proposed.Dollars != want || r.AsItWas.Dollars != 0 {
		t.Errorf("$%v, want $%v", r.Proposed.Dollars, want)
	}
}

// TestRowsAreKept: whatever writers and other rewrites did, and whatever the policy does, both histories hold the same rows at every point.
func TestRowsAreKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		h := replay.History{StartMS: t0, EndMS: t0 + 80*hourMS}
		live := map[string][]replay.File{}
		for i := range rapid.IntRange(1, 60).Draw(r, "changes") {
			c := replay.Change{AtMS: t0 + int64(i)*hourMS}
			part := rapid.SampledFrom([]string{"a", "b"}).Draw(r, "partition")
			file := func(n int) replay.File {
				return replay.File{
					Path: fmt.Sprint("f", i, "-", n), Partition: part, SizeBytes: rapid.Int64Range(1, 600).Draw(r, "size") * mib, Rows: rapid.Int64Range(1, 9).Draw(r, "rows") * 1000,
				}
			}
			switch kind := rapid.SampledFrom([]string{"append", "append", "append", "replace", "rewrite"}).Draw(r, "kind"); {
			case kind == "append" || len(live[part]) == 0:
				for n := range rapid.IntRange(1, 8).Draw(r, "files") {
					c.Added = append(c.Added, file(n))
				}
			default:
				n := rapid.IntRange(1, len(live[part])).Draw(r, "taken")
				c.Removed = slices.Clone(live[part][:n])
				live[part] = live[part][n:]
				out := file(0)
				if c.Rewrite = kind == "rewrite"; c.Rewrite {
					out.SizeBytes, out.Rows = 0, 0
					for _, f := range c.Removed {
						out.SizeBytes, out.Rows = out.SizeBytes+f.SizeBytes, out.Rows+f.Rows
					}
				}
				c.Added = []replay.File{out}
			}
			live[part] = append(live[part], c.Added...)
			h.Changes = append(h.Changes, c)
		}
		report, err := replay.Play(h, policyOf(t, map[string]string{
			"rewrite_data_files.trigger.small-files": fmt.Sprint(rapid.IntRange(2, 30).Draw(r, "threshold")), "rewrite_data_files.min-input-files": "2",
		}), replay.Options{Points: 80})
		if err != nil {
			r.Fatal(err)
		}
		for _, p := range report.OverTime {
			if p.AsItWas.Rows != p.Proposed.Rows {
				r.Fatalf("%d hours after the start: %d rows as it was, %d with the policy", (p.AtMS-t0)/hourMS, p.AsItWas.Rows, p.Proposed.Rows)
			}
		}
	})
}
