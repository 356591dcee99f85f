package decide_test

import (
	"fmt"
	"iter"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"firn/internal/decide"
	"firn/internal/maintenance"
)

const tierMiB = int64(1) << 20

// sized are files of one partition, named by their place.
func sized(sizes ...int64) []maintenance.FileStats {
	files := make([]maintenance.FileStats, len(sizes))
	for i, size := range sizes {
		files[i] = maintenance.FileStats{Path: fmt.Sprint(i), SizeBytes: size, RecordCount: 100, Partition: "1000=1", Ref: i}
	}
	return files
}

func each(files []maintenance.FileStats) iter.Seq2[maintenance.FileStats, error] {
	return func(yield func(maintenance.FileStats, error) bool) {
		for _, f := range files {
			if !yield(f, nil) {
				return
			}
		}
	}
}

func tiered(t rapid.TB, files []maintenance.FileStats, change func(*decide.DataFilesOptions)) maintenance.RewritePlan {
	t.Helper()
	o := decide.DefaultDataFilesOptions()
	o.MinInputFiles, o.DeleteFileThreshold = 100, 5
	o.ForAutomatic(false)
	change(&o)
	plan, err := decide.DataFiles(each(files), o)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// TestTiersLeaveLargeFilesAlone: of a due partition an automatic run leaves files that earlier runs made, until there are too many of them; a call, a run by
// age, a sort and files that deletes make candidates know no tiers.
func TestTiersLeaveLargeFilesAlone(t *testing.T) {
	t.Parallel()
	same := func(n int, mib int64) []int64 { return slices.Repeat([]int64{mib * tierMiB}, n) }
	none := func(*decide.DataFilesOptions) {}
	for _, c := range []struct {
		name    string
		files   []maintenance.FileStats
		change  func(*decide.DataFilesOptions)
		rewrite int
	}{
		{"files alike", sized(same(100, 3)...), none, 100},
		{"one of an earlier run", sized(append(same(99, 3), same(1, 300)...)...), none, 99},
		{"ten of them", sized(append(same(10, 300), same(90, 3)...)...), none, 90},
		{"the eleventh is taken", sized(append(same(11, 300), same(89, 3)...)...), none, 90},
		{"a bit larger is not large", sized(append(same(99, 3), same(1, 18)...)...), none, 100},
		{"a sixteenth of the rest, and a byte", sized(append(same(96, 1), 6*tierMiB+1)...), func(o *decide.DataFilesOptions) { o.MinInputFiles = 90 }, 96},
		{"a sixteenth of the rest", sized(append(same(96, 1), 6*tierMiB)...), func(o *decide.DataFilesOptions) { o.MinInputFiles = 90 }, 97},
		{"due at few files", sized(append(same(18, 3), same(1, 300)...)...), func(o *decide.DataFilesOptions) { o.MinInputFiles = 19 }, 19},
		{"by age", sized(append(same(99, 3), same(1, 300)...)...), func(o *decide.DataFilesOptions) { o.ForAutomatic(true) }, 100},
		{"a call", sized(append(same(99, 3), same(1, 300)...)...), func(o *decide.DataFilesOptions) { o.Tiered = false }, 100},
		{"a sort", sized(append(same(99, 3), same(1, 300)...)...), func(o *decide.DataFilesOptions) { o.Strategy = decide.Sort }, 100},
		{"another spec", sized(append(same(99, 3), same(1, 300)...)...), func(o *decide.DataFilesOptions) { o.OutputSpecID = 1 }, 100},
	} {
		if plan := tiered(t, c.files, c.change); plan.TotalFiles != c.rewrite || len(plan.Groups) != 1 || plan.SkippedFiles != len(c.files)-c.rewrite {
			t.Errorf("%s: %d of %d files in %d groups, %d skipped: want %d", c.name, plan.TotalFiles, len(c.files), len(plan.Groups), plan.SkippedFiles, c.rewrite)
		}
	}
	few := sized(append(same(98, 3), same(1, 300)...)...)
	few[0].DeleteFiles = 5
	if plan := tiered(t, few, none); plan.TotalFiles != 99 {
		t.Errorf("due by deletes alone: %d of 99 files are rewritten", plan.TotalFiles)
	}
	deleted := sized(append(same(99, 3), same(1, 300)...)...)
	deleted[99].DeleteFiles = 5
	if plan := tiered(t, deleted, none); plan.TotalFiles != 100 {
		t.Errorf("a large file with 5 deletes: %d of 100 files are rewritten", plan.TotalFiles)
	}
}

// TestTiersOnlyTakeAway: a tiered plan is a part of Spark's, keeps the scan's order, leaves at most a tenth of what makes a partition due, only files
// that are at least as large as all that it takes.
func TestTiersOnlyTakeAway(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int64Range(1, 383*tierMiB), 100, 140).Draw(t, "sizes")
		files := sized(sizes...)
		whole := tiered(t, files, func(o *decide.DataFilesOptions) { o.Tiered = false })
		plan := tiered(t, files, func(*decide.DataFilesOptions) {})
		if whole.TotalFiles != len(files) || len(plan.Groups) != 1 || plan.TotalFiles < len(files)-10 {
			t.Fatalf("%d and %d of %d files", whole.TotalFiles, plan.TotalFiles, len(files))
		}
		g, taken, largest := plan.Groups[0], map[int]bool{}, int64(0)
		bytes, before := int64(0), -1
		for _, f := range g.Files {
			if f.Ref <= before {
				t.Fatalf("file %d comes after file %d", f.Ref, before)
			}
			before, taken[f.Ref] = f.Ref, true
			bytes, largest = bytes+f.SizeBytes, max(largest, f.SizeBytes)
		}
		for i, size := range sizes {
			if !taken[i] && size < largest {
				t.Fatalf("a file of %d is left, one of %d is taken", size, largest)
			}
		}
		if bytes != g.SizeBytes || bytes != plan.TotalBytes || g.ExpectedOutputFiles < 1 {
			t.Fatalf("group of %d bytes, plan of %d, files of %d", g.SizeBytes, plan.TotalBytes, bytes)
		}
	})
}
