package decide_test

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"firn/internal/decide"
	"firn/internal/maintenance"
)

const mib = 1 << 20

func stream(files []maintenance.FileStats) iter.Seq2[maintenance.FileStats, error] {
	return func(yield func(maintenance.FileStats, error) bool) {
		for _, f := range files {
			if !yield(f, nil) {
				return
			}
		}
	}
}

// TestExpectedOutputFiles is the worked table: target 512 MiB, min 384, max 921.6.
func TestExpectedOutputFiles(t *testing.T) {
	t.Parallel()
	opts := decide.DefaultDataFilesOptions()
	for _, c := range []struct {
		mib   int64
		files int
		split float64
		why   string
	}{
		{100, 1, 512, "below the target"},
		{511, 1, 512, "just below the target"},
		{512, 1, 512, "the target itself"},
		{560, 1, 560, "average 560 < 563.2"},
		{564, 2, 512, "average 564 is not < 563.2"},
		{896, 2, 512, "remainder 384 is not over the minimum, average 896"},
		{900, 2, 512, "remainder 388 > 384"},
		{1126, 2, 563, "average 563 < 563.2"},
		{1127, 3, 512, "average 563.5 too large"},
		{1600, 3, 533.3, "remainder 64, average 533.3"},
		{1700, 4, 512, "remainder 164, average 566.7"},
		{5120, 10, 512, "exact"},
	} {
		size := c.mib * mib
		if got := opts.ExpectedOutputFiles(size); got != c.files {
			t.Errorf("%d MiB: %d files, want %d: %s", c.mib, got, c.files, c.why)
		}
		if got := float64(opts.SplitSizeBytes(size)) / mib; got < c.split-0.05 || got > c.split+0.05 {
			t.Errorf("%d MiB: split size %.2f MiB, want %.1f", c.mib, got, c.split)
		}
	}
	if got := float64(opts.WriterMaxFileSizeBytes()) / mib; got < 716.79 || got > 716.81 {
		t.Errorf("writer's cap is %.2f MiB: want 716.8", got)
	}
}

// TestDataFiles runs the planner over the text cases of testdata/datafiles: "options" sets options, "plan" takes one line per kind of file.
func TestDataFiles(t *testing.T) {
	t.Parallel()
	var opts decide.DataFilesOptions
	datadriven.RunTest(t, "testdata/datafiles", func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "options":
			options := map[string]string{}
			for _, a := range d.CmdArgs {
				options[a.Key] = bytesOf(t, a.Vals[0])
			}
			strategy := decide.BinPack
			if s, ok := options["strategy"]; ok {
				strategy = decide.Strategy(s)
				delete(options, "strategy")
			}
			gain := options["require-gain"] == "true"
			delete(options, "require-gain")
			var err error
			opts, err = decide.ParseDataFilesOptions(strategy, options, decide.TableFacts{CurrentSpecID: 1, SpecIDs: []int{0, 1, 2}})
			opts.RequireGain = gain
			if err != nil {
				return err.Error()
			}
			return "ok"
		case "plan":
			plan, err := decide.DataFiles(stream(files(t, d.Input)), opts)
			if err != nil {
				return err.Error()
			}
			return describe(plan)
		default:
			return "unknown command " + d.Cmd
		}
	})
}

// bytesOf replaces "10M" by its number of bytes.
func bytesOf(t *testing.T, text string) string {
	t.Helper()
	if n, ok := strings.CutSuffix(text, "M"); ok {
		v, err := strconv.ParseFloat(n, 64)
		if err != nil {
			t.Fatal(err)
		}
		return strconv.FormatInt(int64(v*mib), 10)
	}
	return text
}

// files reads lines such as "a1 size=10M n=3 spec=0 p=x deletes=1 deleted=30 rows=100 lineage". With n the names get -1, -2, ...
func files(t *testing.T, input string) []maintenance.FileStats {
	t.Helper()
	var out []maintenance.FileStats
	for line := range strings.Lines(input) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		f := maintenance.FileStats{Path: words[0], SpecID: 1, RecordCount: 100}
		n := int64(1)
		for _, w := range words[1:] {
			key, value, _ := strings.Cut(w, "=")
			v, _ := strconv.ParseInt(bytesOf(t, value), 10, 64)
			switch key {
			case "size":
				f.SizeBytes = v
			case "n":
				n = v
			case "spec":
				f.SpecID = int(v)
			case "p":
				f.Partition = value
			case "deletes":
				f.DeleteFiles = int(v)
			case "deleted":
				f.FileScopedDeletedRows = v
			case "rows":
				f.RecordCount = v
			case "lineage":
				f.HasRowLineage = true
			case "unsupported":
				f.Unsupported = value
			default:
				t.Fatalf("unknown word %q", w)
			}
		}
		for i := range n {
			g := f
			if n > 1 {
				g.Path = fmt.Sprintf("%s-%d", f.Path, i+1)
			}
			out = append(out, g)
		}
	}
	return out
}

func describe(plan maintenance.RewritePlan) string {
	var b strings.Builder
	for _, g := range plan.Groups {
		fmt.Fprintf(&b, "group %d spec %d %q", g.Index, g.SpecID, g.Partition)
		if g.HasRowLineage {
			b.WriteString(" lineage")
		}
		fmt.Fprintf(&b, " %.1fM -> %d:", float64(g.SizeBytes)/mib, g.ExpectedOutputFiles)
		for _, f := range g.Files {
			b.WriteString(" " + f.Path)
		}
		b.WriteString("\n")
	}
	for _, r := range plan.Refusals {
		fmt.Fprintf(&b, "refused %s: %s\n", r.Path, r.Reason)
	}
	fmt.Fprintf(&b, "files %d, %.1fM, skipped %d, refused %d\n", plan.TotalFiles, float64(plan.TotalBytes)/mib, plan.SkippedFiles, plan.RefusedFiles)
	return b.String()
}

func TestDataFilesStopsAtAReadError(t *testing.T) {
	t.Parallel()
	boom := errors.New("manifest is gone")
	broken := func(yield func(maintenance.FileStats, error) bool) {
		_ = yield(maintenance.FileStats{Path: "a"}, nil) && yield(maintenance.FileStats{}, boom)
	}
	if _, err := decide.DataFiles(broken, decide.DefaultDataFilesOptions()); !errors.Is(err, boom) {
		t.Errorf("error %v: want %v in its chain", err, boom)
	}
}

// genFiles draws files of two specs, few partitions and sizes around the target.
func genFiles(t *rapid.T) []maintenance.FileStats {
	n := rapid.IntRange(0, 60).Draw(t, "files")
	out := make([]maintenance.FileStats, n)
	for i := range out {
		out[i] = maintenance.FileStats{
			Path: fmt.Sprintf("f%d", i), Ref: i,
			SizeBytes:             rapid.Int64Range(0, 2000).Draw(t, "size"),
			RecordCount:           rapid.Int64Range(0, 100).Draw(t, "rows"),
			SpecID:                rapid.IntRange(0, 2).Draw(t, "spec"),
			Partition:             rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "partition"),
			HasRowLineage:         rapid.Bool().Draw(t, "lineage"),
			DeleteFiles:           rapid.IntRange(0, 3).Draw(t, "deletes"),
			FileScopedDeletedRows: rapid.Int64Range(0, 120).Draw(t, "deleted"),
		}
	}
	return out
}

func genOptions(t *rapid.T) decide.DataFilesOptions {
	opts := decide.DefaultDataFilesOptions()
	opts.TargetFileSizeBytes = rapid.Int64Range(10, 1000).Draw(t, "target")
	opts.MinFileSizeBytes = rapid.Int64Range(0, opts.TargetFileSizeBytes-1).Draw(t, "min")
	opts.MaxFileSizeBytes = rapid.Int64Range(opts.TargetFileSizeBytes+1, 2500).Draw(t, "max")
	opts.MinInputFiles = rapid.IntRange(1, 6).Draw(t, "min input files")
	opts.MaxFileGroupSizeBytes = rapid.Int64Range(1, 5000).Draw(t, "group bytes")
	opts.MaxFileGroupInputFiles = rapid.Int64Range(1, 10).Draw(t, "group files")
	opts.DeleteFileThreshold = rapid.IntRange(0, 4).Draw(t, "delete threshold")
	opts.DeleteRatioThreshold = rapid.Float64Range(0.01, 1).Draw(t, "delete ratio")
	opts.MaxFilesToRewrite = rapid.IntRange(0, 20).Draw(t, "cap")
	opts.RewriteAll = rapid.Bool().Draw(t, "all")
	opts.RequireGain = rapid.Bool().Draw(t, "gain")
	opts.CurrentSpecID, opts.OutputSpecID = 1, 1
	opts.PartialProgress = rapid.Bool().Draw(t, "partial")
	opts.MaxCommits = rapid.IntRange(1, 12).Draw(t, "commits")
	opts.JobOrder = rapid.SampledFrom([]decide.JobOrder{decide.OrderNone, decide.OrderBytesAsc, decide.OrderFilesDesc}).Draw(t, "order")
	return opts
}

// TestDataFilesInvariants: every file in at most one group, limits respected, groups valid, the same plan for the same input.
func TestDataFilesInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in, opts := genFiles(t), genOptions(t)
		plan, err := decide.DataFiles(stream(in), opts)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := decide.DataFiles(stream(in), opts)
		if !reflect.DeepEqual(plan, again) {
			t.Fatalf("two plans of one input differ:\n%v\n%v", plan, again)
		}
		seen, total := map[int]bool{}, int64(0)
		for i, g := range plan.Groups {
			if err := g.Validate(); err != nil {
				t.Fatal(err)
			}
			if g.Index != i {
				t.Fatalf("group %d has index %d", i, g.Index)
			}
			if len(g.Files) > 1 && (g.SizeBytes > opts.MaxFileGroupSizeBytes || int64(len(g.Files)) > opts.MaxFileGroupInputFiles) {
				t.Fatalf("group of %d files and %d bytes is over the limits", len(g.Files), g.SizeBytes)
			}
			for k, f := range g.Files {
				if seen[f.Ref] {
					t.Fatalf("file %d is in two groups", f.Ref)
				}
				if k > 0 && g.Files[k-1].Ref >= f.Ref {
					t.Fatalf("files of a group left the scan order")
				}
				seen[f.Ref] = true
				total += f.SizeBytes
			}
		}
		if opts.MaxFilesToRewrite > 0 && len(seen) > opts.MaxFilesToRewrite {
			t.Fatalf("%d files are over the cap %d", len(seen), opts.MaxFilesToRewrite)
		}
		if opts.RewriteAll && opts.MaxFilesToRewrite == 0 && len(seen) != len(in) {
			t.Fatalf("rewrite-all took %d of %d files", len(seen), len(in))
		}
		if plan.TotalFiles != len(seen) || plan.TotalBytes != total || plan.SkippedFiles != len(in)-len(seen) {
			t.Fatalf("totals %d/%d/%d of %d files", plan.TotalFiles, plan.TotalBytes, plan.SkippedFiles, len(in))
		}
		next := 0
		batches := opts.Batches(len(plan.Groups), 0)
		for _, b := range batches {
			if b.First != next || b.Count < 1 {
				t.Fatalf("batches %v leave a gap or are empty", batches)
			}
			next += b.Count
		}
		if next != len(plan.Groups) || opts.PartialProgress && len(batches) > opts.MaxCommits {
			t.Fatalf("batches %v of %d groups", batches, len(plan.Groups))
		}
	})
}

// TestA28Settles: files whose rewrite gives as many files again are not chosen by an automatic run, whatever their sizes.
func TestA28Settles(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		opts := decide.DefaultDataFilesOptions()
		opts.RequireGain = true
		var in []maintenance.FileStats
		for i := range rapid.IntRange(1, 20).Draw(t, "files") {
			in = append(in, maintenance.FileStats{
				Path: fmt.Sprint("f", i), RecordCount: 10, SizeBytes: rapid.Int64Range(1, 2000).Draw(t, "MiB") * mib,
			})
		}
		for round := 0; ; round++ {
			plan, err := decide.DataFiles(stream(in), opts)
			if err != nil {
				t.Fatal(err)
			}
			if len(plan.Groups) == 0 {
				return
			}
			if round > 30 {
				t.Fatalf("round %d still plans %v", round, plan.Groups)
			}
			in = rewritten(in, plan, &opts, round)
		}
	})
}

// rewritten replaces each group's inputs by outputs of the split size, as a writer would.
func rewritten(in []maintenance.FileStats, plan maintenance.RewritePlan, opts *decide.DataFilesOptions, round int) []maintenance.FileStats {
	gone := map[string]bool{}
	var out []maintenance.FileStats
	for _, g := range plan.Groups {
		for _, f := range g.Files {
			gone[f.Path] = true
		}
		split := opts.SplitSizeBytes(g.SizeBytes)
		for left := g.SizeBytes; left > 0; left -= split {
			out = append(out, maintenance.FileStats{Path: fmt.Sprintf("r%d-%d", round, len(out)), RecordCount: 10, SizeBytes: min(left, split)})
		}
	}
	for _, f := range in {
		if !gone[f.Path] {
			out = append(out, f)
		}
	}
	return out
}

func TestBatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		groups, maxCommits, together int
		want                         []int
	}{
		{5, 3, 0, []int{2, 2, 1}},
		{13, 10, 0, []int{2, 2, 2, 2, 2, 2, 1}},
		{11, 10, 0, []int{2, 2, 2, 2, 2, 1}},
		{10, 10, 0, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		{0, 10, 0, nil},
		{5, 3, 1, []int{2, 2, 1}},
		{5, 3, 4, []int{4, 1}},
		{5, 3, 5, []int{5}},
	} {
		opts := decide.DefaultDataFilesOptions()
		opts.PartialProgress, opts.MaxCommits = true, c.maxCommits
		var got []int
		for _, b := range opts.Batches(c.groups, c.together) {
			got = append(got, b.Count)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%d groups in at most %d commits: %v, want %v", c.groups, c.maxCommits, got, c.want)
		}
	}
	opts := decide.DefaultDataFilesOptions()
	if got := opts.Batches(7, 3); !reflect.DeepEqual(got, []decide.Batch{{First: 0, Count: 7}}) {
		t.Errorf("without partial progress: %v", got)
	}
}

// Groups whose rows have no IDs yet go together, with those between them.
func TestWithoutRowIDs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lineage []bool
		want    int
	}{{nil, 0}, {[]bool{true, true}, 0}, {[]bool{true, false, true}, 2}, {[]bool{false, false}, 2}} {
		var groups []maintenance.FileGroup
		for _, has := range c.lineage {
			groups = append(groups, maintenance.FileGroup{HasRowLineage: has})
		}
		if got := decide.WithoutRowIDs(groups); got != c.want {
			t.Errorf("%v: %d together, want %d", c.lineage, got, c.want)
		}
	}
}
