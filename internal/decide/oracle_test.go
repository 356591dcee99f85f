package decide_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/iceberg-go"

	"firn/internal/decide"
	"firn/internal/decide/where"
	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/maintenance"
	"firn/internal/sparksql"
)

// references caches unpacked reference tables: no test here changes one.
var references sync.Map

func reference(t *testing.T, name string) *icebergtest.Ref {
	t.Helper()
	if ref, ok := references.Load(name); ok {
		return ref.(*icebergtest.Ref)
	}
	ref, _ := references.LoadOrStore(name, icebergtest.Reference(t, name))
	return ref.(*icebergtest.Ref)
}

// bind parses the text of an oracle's call.
func bind(t *testing.T, call string) maintenance.JobRequest {
	t.Helper()
	statements, err := sparksql.Parse(call)
	if err != nil || len(statements) != 1 {
		t.Fatalf("%s: %v", call, err)
	}
	b, err := statements[0].(*sparksql.Call).Bind()
	if err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	return b.Request
}

// TestDataFilesOracle gives every rewrite_data_files call of the reference to the planner: it must select the files that Spark replaced. Only
// calls on the packed state are compared; a step behind another rewrite has another table. A sort selects as binpack does.
func TestDataFilesOracle(t *testing.T) {
	t.Parallel()
	compared, conditions := 0, 0
	for _, name := range icebergtest.ReferenceNames(t) {
		ref := reference(t, name)
		table := ref.Table(t)
		for _, caseName := range ref.OracleNames() {
			step := ref.Oracle(t, caseName).Steps[0]
			if step.Procedure != string(maintenance.RewriteDataFiles) {
				continue
			}
			request := bind(t, step.Call)
			got, commits, err := selectFiles(t, ref, table, request)
			switch {
			case step.Error != "" && engineError(step.Error):
				continue
			case step.Error != "":
				if err == nil {
					t.Errorf("%s:%s: no error: Spark says %s", name, caseName, step.Error)
				}
				compared++
				continue
			case err != nil:
				t.Errorf("%s:%s: %v", name, caseName, err)
				continue
			}
			compared++
			if request.Args["where"] != "" {
				conditions++
			}
			if commits != len(step.Commits) && step.After.Counts["data_files"] > 0 && !strings.Contains(step.Call, "dangling") {
				t.Errorf("%s:%s: %d commits, want %d", name, caseName, commits, len(step.Commits))
			}
			want := slices.Sorted(slices.Values(step.Selected.DataFiles))
			if dependsOnScanOrder(request) && len(got) == len(want) {
				continue
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s:%s: %s\nselected %d files, want %d\nmissing %q\ntoo many %q", name, caseName, step.Call, len(got), len(want),
					difference(want, got), difference(got, want))
			}
		}
	}
	t.Logf("compared %d cases, %d with a condition", compared, conditions)
	if compared < 190 || conditions < 25 {
		t.Errorf("compared %d cases, %d with a condition: the reference has more", compared, conditions)
	}
}

// engineError says that Spark failed while it read or wrote, not while it planned.
func engineError(text string) bool {
	return strings.Contains(text, "Job aborted") || strings.Contains(text, "unsupported type to Spark") || strings.Contains(text, "does not support time")
}

// dependsOnScanOrder says that a limit cuts the files off. Spark reads manifests in parallel: two runs of one such call on one table chose different
// files (small_v2: rdf_max_files_20 and es_after_partial), so only their number can be compared. Ours follows the manifest list.
func dependsOnScanOrder(r maintenance.JobRequest) bool {
	return r.Options["max-files-to-rewrite"] != "" || r.Options["max-file-group-input-files"] != ""
}

func difference(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}

func selectFiles(t *testing.T, ref *icebergtest.Ref, table *lake.Table, request maintenance.JobRequest) (paths []string, commits int, err error) {
	t.Helper()
	order := table.Metadata.SortOrder()
	strategy, err := decide.ParseStrategy(request.Args["strategy"], request.Args["sort_order"], !order.IsUnsorted())
	if err != nil {
		return nil, 0, err
	}
	facts := decide.TableFacts{Properties: table.Metadata.Properties(), CurrentSpecID: table.Metadata.DefaultPartitionSpec()}
	for _, spec := range table.Metadata.PartitionSpecs() {
		facts.SpecIDs = append(facts.SpecIDs, spec.ID())
	}
	opts, err := decide.ParseDataFilesOptions(strategy, request.Options, facts)
	if err != nil {
		return nil, 0, err
	}
	if _, err := table.Ordering(opts, request.Args["sort_order"]); err != nil {
		return nil, 0, err
	}
	condition, err := where.Parse(request.Args["where"], schemaOf(t, table), time.Time{})
	if err != nil {
		return nil, 0, err
	}
	plan, err := decide.DataFiles(stream(fileStats(t, ref, table, request.Args["branch"], condition)), opts)
	if err != nil {
		return nil, 0, err
	}
	for _, g := range plan.Groups {
		if err := g.Validate(); err != nil {
			t.Error(err)
		}
		for _, f := range g.Files {
			paths = append(paths, f.Path)
		}
	}
	slices.Sort(paths)
	return paths, len(opts.Batches(len(plan.Groups), 0)), nil
}

func schemaOf(t *testing.T, table *lake.Table) where.Schema {
	t.Helper()
	schema, err := json.Marshal(table.Metadata.CurrentSchema())
	if err != nil {
		t.Fatal(err)
	}
	var specs []json.RawMessage
	for _, spec := range table.Metadata.PartitionSpecs() {
		data, err := json.Marshal(&spec)
		if err != nil {
			t.Fatal(err)
		}
		specs = append(specs, data)
	}
	s, err := where.SchemaFromJSON(schema, specs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fileStats reads the live data files of a branch's head that may match.
func fileStats(t *testing.T, ref *icebergtest.Ref, table *lake.Table, branch string, condition *where.Where) []maintenance.FileStats {
	t.Helper()
	ctx := context.Background()
	snap, err := table.Head(branch)
	if err != nil {
		t.Fatal(err)
	}
	if snap == nil {
		return nil
	}
	manifests, err := lake.Manifests(ctx, ref.Store, snap)
	if err != nil {
		t.Fatal(err)
	}
	deletes, err := lake.BuildDeleteIndex(ctx, ref.Store, table, manifests)
	if err != nil {
		t.Fatal(err)
	}
	specs := map[int]iceberg.PartitionSpec{}
	for _, spec := range table.Metadata.PartitionSpecs() {
		specs[spec.ID()] = spec
	}
	var out []maintenance.FileStats
	for _, m := range manifests {
		if m.ManifestContent() != iceberg.ManifestContentData {
			continue
		}
		for e, err := range lake.Entries(ctx, ref.Store, m, lake.EntryOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			if !condition.MayMatch(lake.WhereFile(e)) {
				continue
			}
			key, err := lake.PartitionKey(specs[e.SpecID], e.File.Partition())
			if err != nil {
				t.Fatal(err)
			}
			applied, err := deletes.For(e)
			if err != nil {
				t.Fatal(err)
			}
			f := maintenance.FileStats{
				Path: e.File.FilePath(), SizeBytes: e.File.FileSizeBytes(), RecordCount: e.File.Count(), SpecID: e.SpecID, Partition: key,
				HasRowLineage: e.FirstRowID != nil, DataSequence: e.DataSequence, DeleteFiles: len(applied),
			}
			for _, d := range applied {
				if _, scoped := lake.FileScoped(d.File); scoped {
					f.FileScopedDeletedRows += d.File.Count()
				}
			}
			out = append(out, f)
		}
	}
	return out
}
