package sweep_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"os"
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

// BenchmarkOrphans finds one orphan a hundred live files. It reports the peak of the process's resident memory in MB, so run one size at a time:
// `go test -bench Orphans/100000 -benchtime 1x -run - ./internal/sweep`.
func BenchmarkOrphans(b *testing.B) {
	for _, live := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprint(live), func(b *testing.B) {
			if live > 100_000 && testing.Short() {
				b.Skip("short")
			}
			w := icebergtest.NewWorld(b)
			tbl := w.NewTable("db.t")
			const perManifest = 10_000
			for first := 0; first < live; first += perManifest {
				changes := make([]icebergtest.Change, perManifest)
				for i := range changes {
					f, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentData, liveName(first+i), iceberg.ParquetFile, nil, nil, nil, 1, 1<<20)
					if err != nil {
						b.Fatal(err)
					}
					changes[i] = icebergtest.AddFile(f.Build(), nil)
				}
				tbl.Commit(changes...)
			}
			b.ReportMetric(memoryMB(b, "VmHWM"), "MB-before")
			for b.Loop() {
				orphansOnce(b, w, tbl, synthetic{Full: w.Store, live: live, at: w.Clock.Now().Add(-10 * 24 * time.Hour)})
			}
			b.ReportMetric(memoryMB(b, "VmHWM"), "MB-peak")
		})
	}
}

func orphansOnce(b *testing.B, w *icebergtest.World, tbl *icebergtest.Table, st synthetic) {
	b.Helper()
	ctx, local, now := context.Background(), store.NewLocal(), w.Clock.Now()
	location := "file://" + b.TempDir()
	run := maintenance.Run{RunID: maintenance.NewRunID("x", 1, int64(b.N)), Table: tbl.ID, TableUUID: tbl.State().Metadata.TableUUID().String()}
	f := sweep.New(sweep.Deps{
		Catalog: func(context.Context, string) (catalogs.Catalog, store.Full, error) { return w.Catalog, st, nil },
		Work:    local, WorkLocation: location, Now: func() time.Time { return now }, NewAttempt: func() string { return "a" },
		Log: slog.New(slog.DiscardHandler),
	})
	work, job := handoff.Open(local, location, run.RunID), maintenance.RemoveOrphanFiles
	items, item := work.Part(job, "a", "ranges.jsonl"), maintenance.SweepItem{Prefix: "s3://world/db/t/"}
	err := work.WriteLines(ctx, items, []any{maintenance.SweepInput{V: 1, Run: run, Job: job, Item: &item}})
	if err == nil {
		_, err = work.WriteOnce(ctx, work.Index(job), &handoff.Index{
			V: 1, Run: run, Job: job, PlannedAtMS: now.UnixMilli(), DryRun: true, Batches: []handoff.Batch{{Count: 1, Location: items}},
		})
	}
	for _, step := range []maintenance.SweepStep{maintenance.SweepList, maintenance.SweepReach} {
		if err == nil {
			_, err = f.Handle(ctx, maintenance.SweepInput{V: 1, Step: step, Run: run, Job: job, Item: &item})
		}
	}
	if err != nil {
		b.Fatal(err)
	}
	s, err := work.SweepSummary(ctx, job, 0)
	if err != nil || s.Candidates != int64(st.live/100) {
		b.Fatalf("%d orphans, %s: %v", s.Candidates, s.Reason, err)
	}
}

// memoryMB reads a line of the process's status (Linux only; 0 elsewhere).
func memoryMB(b *testing.B, field string) float64 {
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
