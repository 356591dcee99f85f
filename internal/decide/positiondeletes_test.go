package decide_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"

	"firn/internal/decide"
	"firn/internal/decide/where"
	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/maintenance"
)

// TestPositionDeletesOracle gives every rewrite_position_delete_files call on a packed state to the planner: it must select the files that Spark
// replaced.
func TestPositionDeletesOracle(t *testing.T) {
	t.Parallel()
	compared := 0
	for _, name := range icebergtest.ReferenceNames(t) {
		ref := reference(t, name)
		table := ref.Table(t)
		for _, caseName := range ref.OracleNames() {
			step := ref.Oracle(t, caseName).Steps[0]
			if step.Procedure != string(maintenance.RewritePositionDeleteFiles) {
				continue
			}
			compared++
			request := bind(t, step.Call)
			opts, err := decide.ParsePositionDeletesOptions(request.Options, decide.TableFacts{Properties: table.Metadata.Properties()},
				table.Metadata.Version())
			if err != nil {
				t.Errorf("%s:%s: %v", name, caseName, err)
				continue
			}
			plan, err := decide.PositionDeletes(streamDeletes(positionDeletes(t, ref, table, request.Args["where"])), opts)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			files := 0
			for _, g := range plan.Groups {
				if err := g.Validate(); err != nil {
					t.Error(err)
				}
				files += len(g.Files)
				for _, f := range g.Files {
					path, _, _ := strings.Cut(f.Path, "#")
					got = append(got, path)
				}
			}
			slices.Sort(got)
			got = slices.Compact(got)
			want := slices.Sorted(slices.Values(step.Selected.DeleteFiles))
			if !slices.Equal(got, want) {
				t.Errorf("%s:%s: %s\nmissing %q\ntoo many %q", name, caseName, step.Call, difference(want, got), difference(got, want))
			}
			for column, have := range map[string]int64{"rewritten_delete_files_count": int64(files), "rewritten_bytes_count": plan.TotalBytes} {
				if want := string(step.Result[0][column]); want != fmt.Sprint(have) {
					t.Errorf("%s:%s: %s is %d, Spark %s", name, caseName, column, have, want)
				}
			}
		}
	}
	if compared < 24 {
		t.Errorf("compared %d cases: the reference has more", compared)
	}
}

// positionDeletes reads the live position deletes whose partition may match.
func positionDeletes(t *testing.T, ref *icebergtest.Ref, table *lake.Table, condition string) []decide.PositionDelete {
	t.Helper()
	ctx := context.Background()
	filter, err := where.Parse(condition, schemaOf(t, table), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := lake.Manifests(ctx, ref.Store, table.Metadata.CurrentSnapshot())
	if err != nil {
		t.Fatal(err)
	}
	var out []decide.PositionDelete
	for _, m := range manifests {
		if m.ManifestContent() != iceberg.ManifestContentDeletes {
			continue
		}
		for e, err := range lake.Entries(ctx, ref.Store, m, lake.EntryOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			file := lake.WhereFile(e)
			if e.File.ContentType() != iceberg.EntryContentPosDeletes ||
				!filter.MayMatch(where.File{SpecID: file.SpecID, RecordCount: file.RecordCount, Partition: file.Partition}) {
				continue
			}
			d, err := table.PlannedDelete(e)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, d)
		}
	}
	return out
}

func streamDeletes(files []decide.PositionDelete) iter.Seq2[decide.PositionDelete, error] {
	return func(yield func(decide.PositionDelete, error) bool) {
		for _, f := range files {
			if !yield(f, nil) {
				return
			}
		}
	}
}

// deleteFile is a small delete file.
func deleteFile(name, partition string, change ...func(*decide.PositionDelete)) decide.PositionDelete {
	d := decide.PositionDelete{
		FileStats:  maintenance.FileStats{Path: name, SizeBytes: 1000, RecordCount: 10, Partition: partition},
		PackingKey: partition,
	}
	for _, c := range change {
		c(&d)
	}
	return d
}

func names(t *testing.T, files []decide.PositionDelete, opts decide.PositionDeletesOptions) string {
	t.Helper()
	plan, err := decide.PositionDeletes(streamDeletes(files), opts)
	if err != nil {
		t.Fatal(err)
	}
	var groups []string
	for _, g := range plan.Groups {
		var files []string
		for _, f := range g.Files {
			files = append(files, f.Path)
		}
		groups = append(groups, strings.Join(files, " "))
	}
	if plan.RefusedFiles > 0 {
		groups = append(groups, fmt.Sprintf("%d refused", plan.RefusedFiles))
	}
	return strings.Join(groups, "; ")
}

func TestPositionDeletes(t *testing.T) {
	t.Parallel()
	target := func(path string) func(*decide.PositionDelete) {
		return func(d *decide.PositionDelete) { d.Target = path }
	}
	dangling := func(d *decide.PositionDelete) { d.Target, d.Dangling = "gone", true }
	vector := func(d *decide.PositionDelete) { d.Vector, d.Target = true, d.Path }
	orc := func(d *decide.PositionDelete) { d.Unsupported = "format ORC" }
	spec := func(d *decide.PositionDelete) { d.SpecID = 1 }
	five := func(change ...func(*decide.PositionDelete)) (files []decide.PositionDelete) {
		for i := range 5 {
			files = append(files, deleteFile(fmt.Sprintf("p%d", i), "", append(change, target(fmt.Sprint(i)))...))
		}
		return files
	}
	automatic := func(o *decide.PositionDeletesOptions) { o.RequireGain, o.TakeDangling = true, true }
	v3 := func(o *decide.PositionDeletesOptions) { o.Vectors = true }
	byFile := func(o *decide.PositionDeletesOptions) { o.FileScoped = true }
	for _, c := range []struct {
		name    string
		options string
		set     []func(*decide.PositionDeletesOptions)
		files   []decide.PositionDelete
		want    string
	}{
		{name: "five small files", files: five(), want: "p0 p1 p2 p3 p4"},
		{name: "four are too few", files: five()[1:], want: ""},
		{name: "min-input-files", options: "min-input-files=2", files: five()[3:], want: "p3 p4"},
		{name: "right-sized files stay", options: "target-file-size-bytes=1100", files: five(), want: ""},
		{name: "partitions are apart", options: "min-input-files=2", files: []decide.PositionDelete{
			deleteFile("a1", "a"), deleteFile("b1", "b"), deleteFile("a2", "a"), deleteFile("b2", "b"), deleteFile("c", "c"),
		}, want: "a1 a2; b1 b2"},
		{name: "packed together, cut by spec", options: "min-input-files=2", files: []decide.PositionDelete{
			deleteFile("a", ""), deleteFile("b", "", spec),
		}, want: "a; b"},
		{name: "one group, no more than its size", options: "min-input-files=2,max-file-group-size-bytes=2000", files: five(), want: "p0 p1; p2 p3"},
		{name: "ORC is refused", files: append(five(), deleteFile("o", "", orc)), want: "p0 p1 p2 p3 p4; 1 refused"},
		{name: "listed twice", files: append(five(), five()[0]), want: "2 refused"},
		{name: "vectors only", set: []func(*decide.PositionDeletesOptions){v3}, options: "rewrite-all=true", files: five(vector), want: ""},
		{
			name: "vectors take part in a conversion", set: []func(*decide.PositionDeletesOptions){v3},
			files: append(five(vector), deleteFile("q", "")), want: "p0 p1 p2 p3 p4 q",
		},
		{
			name: "one group a partition on version 3", set: []func(*decide.PositionDeletesOptions){v3},
			options: "rewrite-all=true,max-file-group-size-bytes=2000", files: append(five(), deleteFile("b", "b")), want: "p0 p1 p2 p3 p4; b",
		},
		{name: "a call churns as Spark does", set: []func(*decide.PositionDeletesOptions){byFile}, files: five(), want: "p0 p1 p2 p3 p4"},
		{name: "an automatic run does not", set: []func(*decide.PositionDeletesOptions){byFile, automatic}, files: five(), want: ""},
		{
			name: "two for one data file", set: []func(*decide.PositionDeletesOptions){byFile, automatic},
			files: append(five(), deleteFile("p", "", target("1"))), want: "p0 p1 p2 p3 p4 p",
		},
		{
			name: "an automatic run takes what dangles, alone", set: []func(*decide.PositionDeletesOptions){byFile, automatic},
			files: append(five(), deleteFile("d", "", dangling)), want: "d",
		},
		{name: "a call takes what dangles by its size only", files: []decide.PositionDelete{deleteFile("d", "", dangling)}, want: ""},
		{
			name: "vectors that dangle", set: []func(*decide.PositionDeletesOptions){v3, automatic},
			files: append(five(vector), deleteFile("d", "", vector, dangling)), want: "d",
		},
	} {
		options := map[string]string{}
		for pair := range strings.SplitSeq(c.options, ",") {
			if key, value, ok := strings.Cut(pair, "="); ok {
				options[key] = value
			}
		}
		opts, err := decide.ParsePositionDeletesOptions(options, decide.TableFacts{}, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, set := range c.set {
			set(&opts)
		}
		if got := names(t, c.files, opts); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestPositionDeletesOptions(t *testing.T) {
	t.Parallel()
	facts := decide.TableFacts{Properties: map[string]string{"write.delete.target-file-size-bytes": "1000", "write.delete.granularity": "file"}}
	o, err := decide.ParsePositionDeletesOptions(nil, facts, 3)
	if err != nil || o.TargetFileSizeBytes != 1000 || o.MinFileSizeBytes != 750 || o.MaxFileSizeBytes != 1800 || !o.FileScoped || !o.Vectors {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err = decide.ParsePositionDeletesOptions(nil, decide.TableFacts{}, 2); err != nil || o.TargetFileSizeBytes != 64<<20 || o.FileScoped || o.Vectors ||
		o.MaxFileGroupSizeBytes != 100<<30 || o.MinInputFiles != 5 || len(o.Batches(3, 0)) != 1 {
		t.Errorf("defaults %+v, %v", o, err)
	}
	for options, want := range map[string]string{
		"min-input-files=0":                     "min-input-files: 0 must be at least 1",
		"target-file-size-bytes=10":             "min-file-size-bytes",
		"delete-file-threshold=1":               "has no option of that name",
		"partial-progress.max-failed-commits=1": "did you mean partial-progress.max-commits",
		"max-files-to-rewrite=1":                "has no option of that name",
		"rewrite-job-order=up":                  "none of",
	} {
		key, value, _ := strings.Cut(options, "=")
		given := map[string]string{key: value}
		if key == "target-file-size-bytes" {
			given["min-file-size-bytes"] = "20"
		}
		_, err := decide.ParsePositionDeletesOptions(given, decide.TableFacts{}, 2)
		if !errors.Is(err, decide.ErrOption) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", options, err)
		}
	}
	facts.Properties = map[string]string{"write.delete.granularity": "row", "write.delete.target-file-size-bytes": "x"}
	if _, err := decide.ParsePositionDeletesOptions(nil, facts, 2); err == nil || !strings.Contains(err.Error(), "granularity") ||
		!strings.Contains(err.Error(), "write.delete.target-file-size-bytes") {
		t.Errorf("bad properties: %v", err)
	}
}
