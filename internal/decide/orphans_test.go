package decide_test

import (
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"firn/internal/decide"
	"firn/internal/icebergtest"
	"firn/internal/maintenance"
)

// fileList is the view of files that some oracle cases gave to Spark instead of a listing.
type fileList struct {
	Rows []struct {
		FilePath       string `json:"file_path"`
		LastModifiedMS int64  `json:"last_modified_ms"`
	} `json:"rows"`
}

// orphanDifferences are the oracle cases in which Firn does not do what Spark did, with what it does.
func orphanDifferences() map[string]string {
	const other = "Spark cuts a list to the spelling of the location first and finds nothing; "
	return map[string]string{
		"orphans:rof_fl_s3a":              other + "s3a is s3",
		"orphans:rof_fl_gs_equal":         other + "gs was said to be s3",
		"orphans:rof_fl_gs_equal_all":     other + "gs was said to be s3",
		"orphans:rof_fl_auth_equal":       other + "the buckets were said to be equal",
		"orphans_s3a:rof_fl_s3":           other + "s3a is s3",
		"orphans_s3a:rof_fl_gs_equal":     other + "gs was said to be s3",
		"orphans_s3a:rof_fl_auth_equal":   other + "the buckets were said to be equal",
		"orphans_s3a:rof_fl_gs_equal_all": other + "gs was said to be s3",
		"orphans:rof_fll_gs_delete":       "DELETE would delete the whole live table",
		"orphans:rof_fll_auth_delete":     "DELETE would delete the whole live table",
	}
}

// TestOrphansOracle gives every remove_orphan_files call on a packed table to the rules. The reachable set is everything that was not placed there.
func TestOrphansOracle(t *testing.T) {
	t.Parallel()
	compared, differ := 0, 0
	for _, name := range icebergtest.ReferenceNames(t) {
		if !strings.HasPrefix(name, "orphans") && name != "empty_table" {
			continue
		}
		ref := reference(t, name)
		for _, caseName := range ref.OracleNames() {
			var list *fileList
			for _, step := range ref.Oracle(t, caseName).Steps {
				if step.FileListView != nil {
					list = &fileList{}
					if err := json.Unmarshal(step.FileListView, list); err != nil {
						t.Fatal(err)
					}
				}
				if step.Procedure != string(maintenance.RemoveOrphanFiles) {
					if step.Procedure != "" {
						break // what follows has another table
					}
					continue
				}
				compared++
				if compareOrphans(t, ref, caseName, step, list) {
					differ++
				}
			}
		}
	}
	t.Logf("compared %d calls, %d differ on purpose", compared, differ)
	if compared < 45 || differ != len(orphanDifferences()) {
		t.Errorf("compared %d calls, %d differ", compared, differ)
	}
}

func compareOrphans(t *testing.T, ref *icebergtest.Ref, caseName string, step icebergtest.OracleStep, list *fileList) bool {
	t.Helper()
	got, err := orphansOf(t, ref, step, list)
	var want []string
	for _, row := range step.Result {
		var location string
		if err := json.Unmarshal(row["orphan_file_location"], &location); err != nil {
			t.Fatal(err)
		}
		want = append(want, location)
	}
	slices.Sort(want)
	same := slices.Equal(got, want) && (err != nil) == (step.Error != "")
	why, different := orphanDifferences()[ref.Name+":"+caseName]
	switch {
	case different && same:
		t.Errorf("%s:%s does what Spark does, although: %s", ref.Name, caseName, why)
	case !different && !same && caseName != "rof_gc_disabled":
		t.Errorf("%s:%s: %s\nerror %v, Spark says %q\nmissing %q\ntoo many %q", ref.Name, caseName, step.Call, err, step.Error,
			difference(want, got), difference(got, want))
	}
	return different
}

func orphansOf(t *testing.T, ref *icebergtest.Ref, step icebergtest.OracleStep, list *fileList) ([]string, error) {
	t.Helper()
	table := ref.Table(t)
	facts := decide.OrphansTable{Properties: table.Metadata.Properties(), Location: table.Metadata.Location()}
	for _, spec := range table.Metadata.PartitionSpecs() {
		for _, f := range spec.Fields() {
			facts.PartitionFields = append(facts.PartitionFields, f.Name)
		}
	}
	request := bind(t, step.Call)
	if list != nil {
		request.Args["file_list_view"] = "s3://lists/view.jsonl"
	}
	opts, err := decide.ParseOrphansOptions(request.Args, facts, time.UnixMilli(step.NowMS))
	if err != nil {
		return nil, err
	}
	scheme, _, _ := strings.Cut(table.Metadata.Location(), ":")
	listScheme, _, _ := strings.Cut(opts.Location, ":")
	placed := map[string]bool{}
	for _, p := range ref.Expected.PlacedObjects {
		placed[p.Key] = true
	}
	statistics := map[string]bool{}
	for f := range table.Metadata.Statistics() {
		statistics[f.StatisticsPath] = true
	}
	var listed []decide.Listed
	var reached []string
	for _, o := range ref.Expected.Objects {
		listed = append(listed, decide.Listed{Location: listScheme + "://firn-ref/" + o.Key, ModifiedAtMS: o.LastModifiedMS})
		replaced := strings.HasSuffix(o.Key, ".stats") && !statistics[scheme+"://firn-ref/"+o.Key]
		if !placed[o.Key] && !replaced {
			reached = append(reached, scheme+"://firn-ref/"+o.Key)
		}
	}
	if list != nil {
		listed = nil
		for _, r := range list.Rows {
			listed = append(listed, decide.Listed{Location: r.FilePath, ModifiedAtMS: r.LastModifiedMS})
		}
	}
	return search(listed, reached, opts)
}

// search sorts both sides and collects what Orphans yields.
func search(listed []decide.Listed, reached []string, opts decide.OrphansOptions) ([]string, error) {
	slices.SortFunc(listed, func(a, b decide.Listed) int {
		return strings.Compare(decide.OrphanKey(a.Location), decide.OrphanKey(b.Location))
	})
	slices.SortFunc(reached, func(a, b string) int { return strings.Compare(decide.OrphanKey(a), decide.OrphanKey(b)) })
	var got []string
	for f, err := range decide.Orphans(values(listed), values(reached), opts) {
		if err != nil {
			return nil, err
		}
		got = append(got, f.Location)
	}
	slices.Sort(got)
	return got, nil
}

func values[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range all {
			if !yield(v, nil) {
				return
			}
		}
	}
}

const oldMS = nowMS - 10*dayMS

func orphanOptions(t *testing.T, args map[string]string) decide.OrphansOptions {
	t.Helper()
	opts, err := decide.ParseOrphansOptions(args, decide.OrphansTable{Location: "s3://b/w/t", PartitionFields: []string{"_p", "day"}}, time.UnixMilli(nowMS))
	if err != nil {
		t.Fatal(err)
	}
	return opts
}

func old(locations ...string) []decide.Listed {
	var out []decide.Listed
	for _, l := range locations {
		out = append(out, decide.Listed{Location: l, ModifiedAtMS: oldMS})
	}
	return out
}

// TestA01SchemeSpellings: s3a, s3n and upper case are s3; exactly the true orphans go.
func TestA01SchemeSpellings(t *testing.T) {
	t.Parallel()
	listed := old("s3://b/w/t/data/1", "s3://b/w/t/data/2", "s3://b/w/t/data/3", "s3://b/w/t/data/4", "s3://b/w/t/data/x", "s3://b/w/t/data/y")
	reached := []string{"s3a://b/w/t/data/1", "s3n://b/w/t/data/2", "S3://b/w/t/data/3", "s3://b/w/t/data/4"}
	got, err := search(listed, reached, orphanOptions(t, nil))
	if err != nil || !slices.Equal(got, []string{"s3://b/w/t/data/x", "s3://b/w/t/data/y"}) {
		t.Errorf("%q, %v", got, err)
	}
	// A scheme outside of the equivalence list on the same bucket and key stops the job and names the pair.
	_, err = search(listed, append(reached, "gs://b/w/t/data/x"), orphanOptions(t, nil))
	var mismatched *decide.MismatchedError
	if !errors.As(err, &mismatched) || mismatched.Count != 1 || !strings.Contains(err.Error(), "s3://b/w/t/data/x against gs://b/w/t/data/x") || !errors.Is(err, decide.ErrRefused) {
		t.Errorf("error %v", err)
	}
	got, err = search(listed, append(reached, "gs://b/w/t/data/x"), orphanOptions(t, map[string]string{"prefix_mismatch_mode": "ignore"}))
	if err != nil || !slices.Equal(got, []string{"s3://b/w/t/data/y"}) {
		t.Errorf("%q, %v", got, err)
	}
	got, err = search(listed, append(reached, "gs://b/w/t/data/x"), orphanOptions(t, map[string]string{"prefix_mismatch_mode": "DELETE"}))
	if err != nil || !slices.Equal(got, []string{"s3://b/w/t/data/x", "s3://b/w/t/data/y"}) {
		t.Errorf("%q, %v", got, err)
	}
}

// TestA02SiblingPrefix: a location is a folder, not a prefix of names.
func TestA02SiblingPrefix(t *testing.T) {
	t.Parallel()
	for _, location := range []string{"s3://b/w/t", "s3://b/w/t/"} {
		opts := orphanOptions(t, map[string]string{"location": location})
		got, err := search(old("s3://b/w/t/x", "s3://b/w/t_2/x", "s3://b/w/t-backup/x", "s3://b/w/t"), nil, opts)
		if err != nil || !slices.Equal(got, []string{"s3://b/w/t/x"}) {
			t.Errorf("location %s: %q, %v", location, got, err)
		}
	}
}

// TestA09Keys: keys are opaque bytes on both sides; names with # and ? are names.
func TestA09Keys(t *testing.T) {
	t.Parallel()
	live := []string{"s3://b/w/t/data/p=11%2F12%2F13/f", "s3://b/w/t/data/p=a b/f", "s3://b/w/t/data/p=100%/f", "s3://b/w/t/data/p=/f", "s3://b/w/t/data/h#ash"}
	orphans := []string{"s3://b/w/t/data/p=11%2F12%2F13/o", "s3://b/w/t/data/p=11/12/13/f", "s3://b/w/t/data/h", "s3://b/w/t/data/q?x"}
	got, err := search(old(append(slices.Clone(orphans), live...)...), slices.Clone(live), orphanOptions(t, nil))
	slices.Sort(orphans)
	if err != nil || !slices.Equal(got, orphans) {
		t.Errorf("%q, %v", got, err)
	}
}

// TestA10SameNameElsewhere: a file is compared by its whole path.
func TestA10SameNameElsewhere(t *testing.T) {
	t.Parallel()
	got, err := search(old("s3://b/w/t/data/a/f.parquet", "s3://b/w/t/data/b/f.parquet"), []string{"s3://b/w/t/data/a/f.parquet"}, orphanOptions(t, nil))
	if err != nil || !slices.Equal(got, []string{"s3://b/w/t/data/b/f.parquet"}) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestOrphanCandidates(t *testing.T) {
	t.Parallel()
	opts := orphanOptions(t, nil)
	for _, c := range []struct {
		location string
		at       int64
		skip     string
	}{
		{"s3://b/w/t/data/f", oldMS, ""},
		{"s3://b/w/t/data/f", nowMS - 3*dayMS, "younger than the horizon"},
		{"s3://b/w/t/data/f", nowMS - 3*dayMS - 1, ""},
		{"s3://b/w/t/data/f", 0, "of unknown age"},
		{"s3://b/w/t/_temporary/f", oldMS, "hidden"},
		{"s3://b/w/t/data/.f.crc", oldMS, "hidden"},
		{"s3://b/w/t/data/_p=1/f", oldMS, ""},
		{"s3://b/w/t/data/_p=1/_f", oldMS, "hidden"},
		{"s3://b/w/t/data/_q=1/f", oldMS, "hidden"},
		{"s3://b/w/t/metadata/version-hint.text", oldMS, "the version hint"},
		{"s3://b/w/t/data/", oldMS, "a folder's marker"},
		{"s3://c/w/t/data/f", oldMS, "outside of s3://b/w/t"},
		{"s3a://b/w/t/data/f", oldMS, ""},
	} {
		if got := opts.Skip(decide.Listed{Location: c.location, ModifiedAtMS: c.at}); got != c.skip {
			t.Errorf("%s at %d: %q, want %q", c.location, c.at, got, c.skip)
		}
	}
}

// TestOrphansNeedOrder: inputs out of order are an error, since a merge over them would take live files for orphans.
func TestOrphansNeedOrder(t *testing.T) {
	t.Parallel()
	opts := orphanOptions(t, nil)
	last := func(listed []decide.Listed, reached []string) error {
		for _, err := range decide.Orphans(values(listed), values(reached), opts) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := last(old("s3://b/w/t/b", "s3://b/w/t/a"), nil); err == nil {
		t.Error("a listing out of order is accepted")
	}
	if err := last(old("s3://b/w/t/a", "s3://b/w/t/z"), []string{"s3://b/w/t/b", "s3://b/w/t/a"}); err == nil {
		t.Error("reachable files out of order are accepted")
	}
	boom := errors.New("page is gone")
	broken := func(yield func(string, error) bool) { yield("", boom) }
	for _, err := range decide.Orphans(values(old("s3://b/w/t/a")), broken, opts) {
		if !errors.Is(err, boom) {
			t.Errorf("error %v: want %v", err, boom)
		}
	}
}

func TestOrphansOptions(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(nowMS)
	for _, c := range []struct {
		args map[string]string
		want string
	}{
		{map[string]string{"older_than": "now-23h"}, "less than 24 hours ago"},
		{map[string]string{"older_than": "now-23h", "unsafe_older_than": "true"}, ""},
		{map[string]string{"older_than": "now-24h"}, ""},
		{map[string]string{"older_than": "2100-01-01"}, "lies in the future"},
		{map[string]string{"older_than": "0"}, "neither a timestamp"},
		{map[string]string{"prefix_mismatch_mode": "maybe"}, `"maybe" is none of [ERROR IGNORE DELETE]`},
		{map[string]string{"equal_schemes": "gs=s3"}, "no JSON object"},
		{map[string]string{"dryrun": "true"}, "did you mean dry_run?"},
		{map[string]string{"location": "/"}, "it is empty"},
		{map[string]string{"location": "gs://b/w/t", "prefix_mismatch_mode": "DELETE"}, "would take the live files"},
		{map[string]string{"location": "s3://other/w/t", "prefix_mismatch_mode": "DELETE", "equal_authorities": `{"other":"b"}`}, ""},
		{map[string]string{"elsewhere": "true"}, ""},
	} {
		_, err := decide.ParseOrphansOptions(c.args, decide.OrphansTable{Location: "s3://b/w/t"}, now, "elsewhere")
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, decide.ErrOption)) {
			t.Errorf("%v: error %v, want %q", c.args, err, c.want)
		}
	}
	_, err := decide.ParseOrphansOptions(nil, decide.OrphansTable{Properties: map[string]string{"gc.enabled": "false"}}, now)
	if !errors.Is(err, decide.ErrRefused) {
		t.Errorf("gc.enabled=false: error %v", err)
	}
}
