package sweep_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"

	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/store"
	"firn/internal/sweep"
)

// synthetic lists objects that do not exist: live ones by number, and after every hundredth an orphan.
type synthetic struct {
	store.Full
	live int
	at   time.Time
}

func liveName(i int) string {
	return fmt.Sprintf("s3://world/db/t/data/region=eu/day=2026-01-%02d/%08d-7a5c3c2e-file.parquet", i*28/2_000_000+1, i)
}

func (s synthetic) List(ctx context.Context, prefix string, opts store.ListOptions) iter.Seq2[store.Info, error] {
	if !strings.HasPrefix(prefix, "s3://world/db/t/") {
		return s.Full.List(ctx, prefix, opts)
	}
	return func(yield func(store.Info, error) bool) {
		for i := range s.live {
			if !yield(store.Info{Location: liveName(i), SizeBytes: 1 << 20, ModifiedAt: s.at}, nil) {
				return
			}
			if i%100 == 99 && !yield(store.Info{Location: liveName(i) + ".orphan", SizeBytes: 1 << 20, ModifiedAt: s.at}, nil) {
				return
			}
		}
	}
}

// perManifest is how many files of the synthetic table one manifest names.
const perManifest = 10_000

func syntheticTable(tb testing.TB, live int) (*icebergtest.World, *icebergtest.Table) {
	tb.Helper()
	w := icebergtest.NewWorld(tb)
	tbl := w.NewTable("db.t")
	for first := 0; first < live; first += perManifest {
		changes := make([]icebergtest.Change, perManifest)
		for i := range changes {
			f, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentData, liveName(first+i), iceberg.ParquetFile, nil, nil, nil, 1, 1<<20)
			if err != nil {
				tb.Fatal(err)
			}
			changes[i] = icebergtest.AddFile(f.Build(), nil)
		}
		tbl.Commit(changes...)
	}
	return w, tbl
}

// BenchmarkOrphans finds one orphan a hundred live files. It reports the peak of the process's resident memory in MB, so run one size at a time:
// `go test -bench Orphans/100000 -benchtime 1x -run - ./internal/sweep`.
func BenchmarkOrphans(b *testing.B) {
	for _, live := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprint(live), func(b *testing.B) {
			if live > 100_000 && testing.Short() {
				b.Skip("short")
			}
			w, tbl := syntheticTable(b, live)
			b.ReportMetric(memoryMB(b, "VmHWM"), "MB-before")
			for b.Loop() {
				orphansOnce(b, w, tbl, synthetic{Full: w.Store, live: live, at: w.Clock.Now().Add(-10 * 24 * time.Hour)}, nil)
			}
			b.ReportMetric(memoryMB(b, "VmHWM"), "MB-peak")
		})
	}
}

// TestMillionOrphans looks through a million objects, listed by the store and by a list of files: every manifest is read once, and the search takes no more
// than 200 MB on top of the table, which the test holds in memory. FIRN_BIG=1 asks for the million; a fiftieth of it is looked through otherwise.
func TestMillionOrphans(t *testing.T) {
	live := 20_000
	if os.Getenv("FIRN_BIG") == "1" {
		live = 1_000_000
	}
	w, tbl := syntheticTable(t, live)
	st := synthetic{Full: w.Store, live: live, at: w.Clock.Now().Add(-10 * 24 * time.Hour)}
	if err := w.Store.Put(t.Context(), "s3://world/lists/list.csv", st.csv(t), store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string]map[string]string{"listing": nil, "list": {"file_list_view": "s3://world/lists/list.csv"}} {
		debug.FreeOSMemory()
		before := memoryMB(t, "VmRSS")
		_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o600) // the peak begins anew
		s := orphansOnce(t, w, tbl, st, args)
		if s.Manifests != int64(live/perManifest) || s.Entries != int64(live) {
			t.Errorf("%s: %d manifests with %d entries were read: want %d with %d", name, s.Manifests, s.Entries, live/perManifest, live)
		}
		took := memoryMB(t, "VmHWM") - before
		t.Logf("%s: %.0f MB on top of %.0f MB", name, took, before)
		if live == 1_000_000 && took > 200 { // a process of smaller tests has peaks of its own
			t.Errorf("%s: the search took %.0f MB: want at most 200", name, took)
		}
	}
}

// csv is the listing as a list of files.
func (s synthetic) csv(t *testing.T) []byte {
	t.Helper()
	out := []byte("file_path,last_modified\n")
	for info, err := range s.List(t.Context(), "s3://world/db/t/", store.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		out = fmt.Appendf(out, "%s,%s\n", info.Location, info.ModifiedAt.UTC().Format("2006-01-02 15:04:05"))
	}
	return out
}

func orphansOnce(tb testing.TB, w *icebergtest.World, tbl *icebergtest.Table, st synthetic, args map[string]string) handoff.SweepSummary {
	tb.Helper()
	ctx, local, now := context.Background(), store.NewLocal(), w.Clock.Now()
	location := "file://" + tb.TempDir()
	run := maintenance.Run{RunID: maintenance.NewRunID("x", 1, 1), Table: tbl.ID, TableUUID: tbl.State().Metadata.TableUUID().String()}
	f := sweep.New(sweep.Deps{
		Catalog: func(context.Context, string) (catalogs.Catalog, store.Full, error) { return w.Catalog, st, nil },
		Work:    local, WorkLocation: location, Now: func() time.Time { return now }, NewAttempt: func() string { return "a" },
		Log: slog.New(slog.DiscardHandler),
	})
	work, job := handoff.Open(local, location, run.RunID), maintenance.RemoveOrphanFiles
	items, item := work.Part(job, "a", "ranges.jsonl"), maintenance.SweepItem{Prefix: "s3://world/db/t/", Location: args["file_list_view"]}
	err := work.WriteLines(ctx, items, []any{maintenance.SweepInput{V: 1, Run: run, Job: job, Item: &item}})
	if err == nil {
		_, err = work.WriteOnce(ctx, work.Index(job), &handoff.Index{
			V: 1, Run: run, Job: job, PlannedAtMS: now.UnixMilli(), DryRun: true, Batches: []handoff.Batch{{Count: 1, Location: items}},
			Request: maintenance.JobRequest{Job: job, Args: args},
		})
	}
	for _, step := range []maintenance.SweepStep{maintenance.SweepList, maintenance.SweepReach} {
		if err == nil {
			_, err = f.Handle(ctx, maintenance.SweepInput{V: 1, Step: step, Run: run, Job: job, Item: &item})
		}
	}
	if err != nil {
		tb.Fatal(err)
	}
	s, err := work.SweepSummary(ctx, job, 0)
	if err != nil || s.Candidates != int64(st.live/100) {
		tb.Fatalf("%d orphans, %s: %v", s.Candidates, s.Reason, err)
	}
	return s
}

// memoryMB reads a line of the process's status (Linux only; 0 elsewhere).
func memoryMB(b testing.TB, field string) float64 {
	b.Helper()
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			var kb float64
			_, _ = fmt.Sscan(rest, &kb)
			return kb / 1024
		}
	}
	return 0
}

// history answers for manifest lists that do not exist with one and the same list.
type history struct {
	store.Full
	list []byte
}

func (h history) Get(ctx context.Context, location string) ([]byte, error) {
	if strings.Contains(location, "/old-snap-") {
		return h.list, nil
	}
	return h.Full.Get(ctx, location)
}

// historyLength is the number of snapshots of the fault case.
const historyLength = 200_000

// BenchmarkA23LongHistory finds the files of 200,000 expired snapshots that share their manifests: each manifest is read once. It reports memory
// as BenchmarkOrphans does.
func BenchmarkA23LongHistory(b *testing.B) {
	w := icebergtest.NewWorld(b)
	tbl := w.NewTable("db.t")
	for i := range 20 {
		tbl.Commit(icebergtest.Append(icebergtest.Row{i, "a", 0.5}))
	}
	doomed := tbl.State().Metadata.CurrentSnapshot()
	ctx := context.Background()
	list, err := w.Store.Get(ctx, doomed.ManifestList)
	if err != nil {
		b.Fatal(err)
	}
	expired := handoff.Expired{}
	for i := range historyLength {
		expired.SnapshotIDs = append(expired.SnapshotIDs, int64(i+1))
		expired.ManifestLists = append(expired.ManifestLists, fmt.Sprintf("s3://world/db/t/metadata/old-snap-%019d-1-ae4da88a.avro", i))
	}
	for b.Loop() {
		location, local := "file://"+b.TempDir(), store.NewLocal()
		run := maintenance.Run{RunID: maintenance.NewRunID("x", 1, int64(b.N)), Table: tbl.ID, TableUUID: tbl.State().Metadata.TableUUID().String()}
		f := sweep.New(sweep.Deps{
			Catalog: func(context.Context, string) (catalogs.Catalog, store.Full, error) {
				return w.Catalog, history{w.Store, list}, nil
			},
			Work: local, WorkLocation: location, Now: w.Clock.Now, NewAttempt: func() string { return "a" }, Log: slog.New(slog.DiscardHandler),
		})
		work, job := handoff.Open(local, location, run.RunID), maintenance.ExpireSnapshots
		_, err := work.WriteOnce(ctx, work.Index(job), &handoff.Index{V: 1, Run: run, Job: job})
		if err == nil {
			_, err = work.WriteOnce(ctx, work.Commit(job, 0), &handoff.CommitResult{V: 1, Outcome: maintenance.Committed, Expired: &expired})
		}
		if err == nil {
			_, err = f.Handle(ctx, maintenance.SweepInput{V: 1, Step: maintenance.SweepReach, Run: run, Job: job})
		}
		if err != nil {
			b.Fatal(err)
		}
		s, err := work.SweepSummary(ctx, job, 0)
		if err != nil || s.Candidates != historyLength || s.Manifests != 20 {
			b.Fatalf("%d candidates, %d manifests read: %v", s.Candidates, s.Manifests, err)
		}
	}
	b.ReportMetric(memoryMB(b, "VmHWM"), "MB-peak")
}
