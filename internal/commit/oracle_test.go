package commit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"

	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/maintenance"
)

// TestDeletesThatSparkDrops commits what Spark's rewrites of the reference tables committed, and compares which delete files stay: ours are at
// most Spark's, and the rows are the same.
func TestDeletesThatSparkDrops(t *testing.T) {
	t.Parallel()
	for _, c := range []string{
		"pos_file/rdf_all", "pos_partition/rdf_all", "pos_parted/rdf_all", "pos_dangling/rdf_all", "eq_global/rdf_default", "eq_part/rdf_all",
		"eq_null/rdf_all", "dv/rdf_all", "dv_upgraded/rdf_all", "small_v1/rdf_default", "small_v3/rdf_default",
		"pos_file/rdf_where", "pos_parted/rdf_big_skipped", "eq_part/rdf_thr1", "eq_global/rdf_min2", "dv/rdf_where", "dv_upgraded/rdf_where",
	} {
		t.Run(c, func(t *testing.T) {
			t.Parallel()
			name, kase, _ := strings.Cut(c, "/")
			ref := icebergtest.Reference(t, name)
			step := ref.Oracle(t, kase).Steps[0]
			ref.Clock.Set(time.Now())
			w := ref.World(t)
			x := &fixture{t: t, world: w, table: w.Open(ref.ID)}
			x.pin(false, x.partitions(step.Selected.DataFiles)...)
			x.compact()
			r := x.mustCommit(x.rows())
			x.checkManifests()
			if got := r.Columns["rewritten_data_files_count"]; got != int64(len(step.Selected.DataFiles)) {
				t.Errorf("rewritten %d files: want %d", got, len(step.Selected.DataFiles))
			}
			x.compareWith(step)
		})
	}
}

// partitions groups paths by spec and partition.
func (x *fixture) partitions(paths []string) [][]string {
	x.t.Helper()
	state := x.table.State()
	groups, order := map[string][]string{}, []string{}
	for path, e := range x.entries(state.Metadata.CurrentSnapshot().SnapshotID) {
		if !slices.Contains(paths, path) {
			continue
		}
		key, err := lake.PartitionKey(*state.Metadata.PartitionSpecByID(e.SpecID), e.File.Partition())
		x.check(err)
		key = fmt.Sprint(e.SpecID, key, e.FirstRowID != nil)
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], path)
	}
	slices.Sort(order)
	var out [][]string
	for _, key := range order {
		slices.Sort(groups[key])
		out = append(out, groups[key])
	}
	return out
}

func (x *fixture) compareWith(step icebergtest.OracleStep) {
	x.t.Helper()
	kept := map[string]int64{}
	_, deletes := x.live()
	for _, d := range deletes {
		switch {
		case lake.IsDeletionVector(d.File):
			kept["deletion_vectors"]++
		case d.File.ContentType() == iceberg.EntryContentEqDeletes:
			kept["equality_delete_files"]++
		default:
			kept["position_delete_files"]++
		}
	}
	for kind, n := range kept {
		if n > step.After.Counts[kind] {
			x.t.Errorf("%d %s stay, Spark kept %d", n, kind, step.After.Counts[kind])
		}
	}
	x.t.Logf("delete files that stay: %v, Spark kept %v", kept, step.After.Counts)
	if len(step.Commits) == 0 {
		return
	}
	theirs, ours := step.Commits[0].Summary, x.head().Summary.Properties
	for _, key := range []string{"deleted-data-files", "deleted-records", "added-records", "total-records", "changed-partition-count"} {
		if theirs[key] != ours[key] {
			x.t.Errorf("summary %s is %s, Spark wrote %s", key, ours[key], theirs[key])
		}
	}
	// What Spark removes, we remove; we may remove more.
	for _, key := range []string{"removed-delete-files", "removed-dvs", "removed-equality-delete-files", "removed-position-delete-files"} {
		a, _ := strconv.Atoi(ours[key])
		b, _ := strconv.Atoi(theirs[key])
		if a < b {
			x.t.Errorf("summary %s is %d, Spark wrote %d", key, a, b)
		}
	}
}

// TestMergeAsSpark replays every first rewrite_manifests of the reference: entries and rows stay, and the manifests have Spark's numbers.
func TestMergeAsSpark(t *testing.T) {
	t.Parallel()
	for _, name := range icebergtest.ReferenceNames(t) {
		ref := icebergtest.Reference(t, name)
		for _, kase := range ref.OracleNames() {
			step := ref.Oracle(t, kase).Steps[0]
			if step.Procedure != string(rewriteManifests) || !strings.HasPrefix(kase, "rm_") || len(step.Commits) == 0 {
				continue
			}
			t.Run(name+"/"+kase, func(t *testing.T) {
				t.Parallel()
				ref := icebergtest.Reference(t, name)
				x := &fixture{t: t, world: ref.World(t)}
				x.table = x.world.Open(ref.ID)
				x.planManifests(argumentsOf(t, step)...)
				facts := x.facts()
				var content icebergtest.Content
				readable := name != "encrypted_file" && name != "imported" // iceberg-go's scan reads neither
				if readable {
					content = x.table.Rows()
				}
				out, err := x.mergeWith(nil, nil)
				if err != nil || out.Outcome != maintenance.Committed {
					t.Fatalf("%+v, %v: want committed", out, err)
				}
				if after := x.facts(); !slices.Equal(facts, after) {
					t.Errorf("entries changed")
				}
				if !readable {
					return
				}
				if after := x.table.Rows(); fmt.Sprint(content) != fmt.Sprint(after) {
					t.Errorf("rows changed: %v, %v", content, after)
				}
				theirs, ours := step.Commits[0].Summary, x.head().Summary.Properties
				for _, key := range []string{
					"manifests-created", "manifests-kept", "manifests-replaced", "entries-processed", "changed-partition-count", "total-records",
					"total-data-files", "total-delete-files", "total-files-size", "total-position-deletes", "total-equality-deletes",
				} {
					if theirs[key] != ours[key] {
						t.Errorf("summary %s is %q, Spark wrote %q", key, ours[key], theirs[key])
					}
				}
			})
		}
	}
}

func argumentsOf(t *testing.T, step icebergtest.OracleStep) []string {
	t.Helper()
	var out []string
	for name, raw := range step.Args {
		var text string
		if name == "table" {
			continue
		}
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
		out = append(out, name, text)
	}
	return out
}
