package decide_test

import (
	"strings"
	"testing"

	"firn/internal/decide"
)

// sparksOption is an option of Spark's procedures: a value that is taken and its bounds.
type sparksOption struct {
	name string
	good []string
	bad  []string
}

// sizeOptions are those of every planner of Iceberg that goes by sizes.
func sizeOptions() []sparksOption {
	return []sparksOption{
		{"target-file-size-bytes", []string{"1000"}, []string{"0", "-1", "1k", ""}},
		{"min-file-size-bytes", []string{"0", "1"}, []string{"-1", "99999999999999"}},
		{"max-file-size-bytes", []string{"99999999999999"}, []string{"1", "0"}},
		{"min-input-files", []string{"1", "7"}, []string{"0", "-3", "many"}},
		{"rewrite-all", []string{"true", "FALSE"}, []string{"yes", "1"}},
		{"max-file-group-size-bytes", []string{"1"}, []string{"0"}},
		{"max-file-group-input-files", []string{"1"}, []string{"0"}},
		{"max-concurrent-file-group-rewrites", []string{"1"}, []string{"0"}},
		{"partial-progress.enabled", []string{"true"}, []string{"on"}},
		{"partial-progress.max-commits", []string{"1", "0"}, []string{"x"}}, // 0 only where it is used
		{"rewrite-job-order", []string{"none", "bytes-asc", "BYTES-DESC", "files-asc", "files-desc"}, []string{"random"}},
	}
}

// TestOptionsOfSpark gives each option of Spark's two rewrites of files to the parsers: its values are taken, bad ones and options of others are refused by
// name. shuffle-partitions-per-file and remove-dangling-deletes are taken without effect, as docs/compatibility.md says.
func TestOptionsOfSpark(t *testing.T) {
	t.Parallel()
	dataFiles := append(sizeOptions(), []sparksOption{
		{"delete-file-threshold", []string{"0", "3"}, []string{"-1"}},
		{"delete-ratio-threshold", []string{"0.01", "1", "1.0"}, []string{"0", "1.1", "-0.5", "NaN"}},
		{"max-files-to-rewrite", []string{"1"}, []string{"0"}},
		{"partial-progress.max-failed-commits", []string{"0", "3"}, []string{"-1"}},
		{"use-starting-sequence-number", []string{"false"}, []string{"no"}},
		{"output-spec-id", []string{"0", "1"}, []string{"7", "-1"}},
		{"remove-dangling-deletes", []string{"true"}, []string{"2"}},
	}...)
	sorting := []sparksOption{
		{"compression-factor", []string{"0.5", "2"}, []string{"0", "-1", "x"}},
		{"shuffle-partitions-per-file", []string{"1", "4"}, []string{"0"}},
	}
	curve := []sparksOption{
		{"var-length-contribution", []string{"1", "16"}, []string{"0"}},
		{"max-output-size", []string{"8"}, []string{"0"}},
	}
	facts := decide.TableFacts{CurrentSpecID: 1, SpecIDs: []int{0, 1}}
	data := func(strategy decide.Strategy) func(map[string]string) error {
		return func(options map[string]string) error {
			_, err := decide.ParseDataFilesOptions(strategy, options, facts)
			return err
		}
	}
	positions := func(options map[string]string) error {
		_, err := decide.ParsePositionDeletesOptions(options, facts, 2)
		return err
	}
	for _, c := range []struct {
		procedure string
		parse     func(map[string]string) error
		takes     []sparksOption
		refuses   []sparksOption
	}{
		{"rewrite_data_files binpack", data(decide.BinPack), dataFiles, append(sorting, curve...)},
		{"rewrite_data_files sort", data(decide.Sort), append(dataFiles, sorting...), curve},
		{"rewrite_data_files zorder", data(decide.ZOrder), append(append(dataFiles, sorting...), curve...), nil},
		{"rewrite_position_delete_files", positions, sizeOptions(), append(dataFiles[len(sizeOptions()):], sorting...)},
	} {
		try := func(name, value string) error { return c.parse(map[string]string{name: value}) }
		for _, o := range c.takes {
			for _, value := range o.good {
				if err := try(o.name, value); err != nil && o.name != "target-file-size-bytes" {
					t.Errorf("%s: %s=%s: %v", c.procedure, o.name, value, err)
				}
			}
			for _, value := range o.bad {
				if err := try(o.name, value); err == nil || !strings.Contains(err.Error(), o.name) {
					t.Errorf("%s: %s=%q: %v, want a fault that names it", c.procedure, o.name, value, err)
				}
			}
		}
		for _, o := range append(c.refuses, sparksOption{"no-such-option", []string{"1"}, nil}) {
			if err := try(o.name, o.good[0]); err == nil || !strings.Contains(err.Error(), o.name) {
				t.Errorf("%s takes %s, which is not its own: %v", c.procedure, o.name, err)
			}
		}
	}
	if err := data(decide.BinPack)(map[string]string{"partial-progress.enabled": "true", "partial-progress.max-commits": "0"}); err == nil {
		t.Error("no commit at all is taken")
	}
}
