package local_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"firn/internal/event"
	"firn/internal/icebergtest"
	"firn/internal/local"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/report"
	"firn/internal/store"
)

// twin is the whole system over a world.
func twin(t *testing.T, w *icebergtest.World, policyText string) *local.Twin {
	t.Helper()
	document, err := policy.ParseYAML([]byte(policyText))
	if err != nil {
		t.Fatal(err)
	}
	memory, isMemory := w.Store.(*store.Memory)
	if !isMemory {
		t.Fatalf("world has a %T", w.Store)
	}
	tw, err := local.NewTwin(context.Background(), func(report.Notifier) (*local.Runner, error) {
		return host(t, w.Catalog, memory, w.Clock.Now), nil
	}, document)
	if err != nil {
		t.Fatal(err)
	}
	return tw
}

func committed(t *testing.T, tw *local.Twin, id maintenance.TableID) {
	t.Helper()
	body, err := event.Encode(event.Notice{Source: event.SourceCommitted, Table: id})
	if err != nil {
		t.Fatal(err)
	}
	if err := tw.Send(context.Background(), body); err != nil {
		t.Fatal(err)
	}
}

func rows(from, n int) []icebergtest.Row {
	var out []icebergtest.Row
	for i := range n {
		out = append(out, icebergtest.Row{int64(from + i), fmt.Sprint("g", (from+i)%2), float64(from) / 3})
	}
	return out
}

const maintain = `
mode: maintain
rewrite_data_files: {trigger: {small-files: 10}}
expire_snapshots: {trigger: {interval: 1d}, older-than: 1d, min-age: 1d}
remove_orphan_files: {enabled: true, trigger: {interval: 3d}, older-than: 2d}
`

// TestCommitEventGoesInHealthyTableComesOut lets a writer commit small files and merge-on-read deletes; each commit sends its event twice. The
// thresholds trip, and in the end the table is compacted, old snapshots are expired, debris is gone, and the rows are the same.
func TestCommitEventGoesInHealthyTableComesOut(t *testing.T) {
	t.Parallel()
	for version := 1; version <= 3; version++ {
		t.Run(fmt.Sprint("v", version), func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			w := icebergtest.NewWorld(t)
			tbl := w.NewTable("db.t", icebergtest.Partitioned("g"), icebergtest.Version(version))
			id := tbl.State().ID
			tw := twin(t, w, maintain)
			debris := store.Join(tbl.State().Metadata.Location(), "data/00000-failed-write.parquet")
			if err := w.Store.Put(ctx, debris, []byte("debris"), store.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			var reports []maintenance.ReportOutput
			for i := range 25 {
				c := tbl.Commit(icebergtest.Append(rows(i*4, 4)...))
				switch {
				case version == 2 && i%5 == 0:
					tbl.Commit(icebergtest.DeletePositions(c.DataFiles[0], 0))
				case version == 3 && i%5 == 0:
					tbl.Commit(icebergtest.DeleteVector(c.DataFiles[0], 1))
				}
				want := tbl.Rows()
				for range 2 {
					committed(t, tw, id)
				}
				done, err := tw.Drain(ctx)
				if err != nil {
					t.Fatal(err)
				}
				reports = append(reports, done...)
				if diff := cmp.Diff(want, tbl.Rows()); diff != "" {
					t.Fatalf("commit %d: rows changed:\n%s", i, diff)
				}
				w.At(w.Clock.Now().Add(6 * time.Hour))
			}
			jobs := map[maintenance.Job]int{}
			for _, r := range reports {
				for _, j := range r.Jobs {
					if j.Outcome != maintenance.Committed && j.Outcome != maintenance.NothingToDo {
						t.Errorf("%s ended %s: %s %v", j.Job, j.Outcome, j.Reason, j.Refusals)
					}
					if j.Outcome == maintenance.Committed {
						jobs[j.Job]++
					}
				}
			}
			if jobs[maintenance.RewriteDataFiles] == 0 || jobs[maintenance.ExpireSnapshots] == 0 || jobs[maintenance.RemoveOrphanFiles] == 0 {
				t.Errorf("jobs that changed something: %v", jobs)
			}
			if n := len(tbl.State().Metadata.Snapshots()); n > 15 {
				t.Errorf("%d snapshots are left", n)
			}
			if _, err := w.Store.Head(ctx, debris); err == nil {
				t.Error("debris is still there")
			}
		})
	}
}
