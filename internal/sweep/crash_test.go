package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// crashes kills a job at each of its changes in turn (before the change, and after it with a lost answer) and runs it again. The end must be the
// same as without the crash.
func crashes(t *testing.T, build func(t *testing.T) *room, work func(r *room) error, want func(r *room, before []string)) {
	t.Helper()
	for _, applied := range []bool{false, true} {
		for n := 0; ; n++ {
			if n > 200 {
				t.Fatal("the job never ends")
			}
			r := build(t)
			r.once = true
			before := r.objects("")
			r.st.Reset()
			r.st.Add(store.Rule{Operation: store.OpChange, Skip: n, Crash: true, Applied: applied})
			err := work(r)
			struck := r.st.Fired() > 0
			if struck && !errors.Is(err, store.ErrCrashed) {
				t.Fatalf("crash at change %d (applied %v): error %v", n, applied, err)
			}
			r.st.Reset()
			if struck {
				r.check()
				if err := work(r); err != nil {
					t.Fatalf("rerun after the crash at change %d (applied %v): %v", n, applied, err)
				}
			}
			want(r, before)
			if t.Failed() {
				t.Fatalf("crash at change %d (applied %v)", n, applied)
			}
			if !struck {
				if n < 5 {
					t.Errorf("only %d changes", n)
				}
				break
			}
		}
	}
}

func TestCrashDuringExpiry(t *testing.T) {
	t.Parallel()
	crashes(t, func(t *testing.T) *room {
		r, tbl := simple(t)
		doomed := tbl.Commit(icebergtest.Append(icebergtest.Row{9, "z", 0.5}))
		tbl.Commit(icebergtest.Remove(doomed.DataFiles[0]))
		r.expire(doomed.Snapshot.SnapshotID, tbl.State().Metadata.Snapshots()[0].SnapshotID)
		return r
	}, func(r *room) error {
		_, err := r.reachAndDelete(maintenance.ExpireSnapshots)
		return err
	}, func(r *room, before []string) {
		s, err := r.work().SweepSummary(context.Background(), maintenance.ExpireSnapshots, 0)
		r.must(err)
		if s.Deleted != 4 || len(r.missing(before)) != 4 || s.UnfinishedRanges != 0 {
			r.t.Errorf("%d deleted, %d gone", s.Deleted, len(r.missing(before)))
		}
		r.check()
	})
}

func TestCrashDuringOrphans(t *testing.T) {
	t.Parallel()
	var want []string
	for i := range 7 {
		want = append(want, fmt.Sprintf("s3://world/db/t/data/orphan-%d.parquet", i))
	}
	crashes(t, func(t *testing.T) *room {
		r, _ := simple(t)
		for _, l := range want {
			r.put(l, 10)
		}
		r.planOrphans(nil, false)
		return r
	}, func(r *room) error {
		_, err := r.sweepOrphans()
		return err
	}, func(r *room, before []string) { r.gone(before, want...) })
}

func TestCrashDuringAbandon(t *testing.T) {
	t.Parallel()
	var outs []string
	crashes(t, func(t *testing.T) *room {
		x := newRewrite(t, 3)
		outs = []string{x.compacted(0), x.output(1), x.compacted(2), x.manifest(2, 0)}
		x.put(outs[1], 0)
		x.attempted(2, 0, maintenance.Conflict)
		_, err := x.world.Store.Create(context.Background(), x.output(7), store.WriteOptions{})
		x.must(err)
		return x.room
	}, func(r *room) error {
		_, err := r.step(maintenance.SweepInput{Step: maintenance.SweepAbandon})
		return err
	}, func(r *room, before []string) {
		r.gone(before, outs...)
		for range r.world.Store.Uploads(context.Background(), "s3://world/") {
			r.t.Error("an upload is left")
		}
		var s handoff.SweepSummary
		r.must(r.work().Read(context.Background(), r.work().Abandoned(rewrite), &s))
		if int(s.Deleted) > len(outs) || !slices.Equal([]bool{true}, []bool{s.Failed == 0}) {
			r.t.Errorf("summary %+v", s)
		}
	})
}

// Each read fails once in turn: the step fails or the answer is the same, and nothing that is named goes.
func TestReadFaults(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		r, _ := simple(t)
		r.once = true
		r.put("s3://world/db/t/data/orphan.parquet", 10)
		before := r.objects("")
		r.planOrphans(nil, false)
		r.st.Reset()
		r.st.Add(store.FailNth(store.OpGet, n+1, store.ErrTransient))
		_, err := r.sweepOrphans()
		struck := r.st.Fired() > 0
		r.st.Reset()
		if struck && err == nil {
			t.Errorf("read %d failed and nobody noticed", n)
		}
		if err != nil {
			if _, err := r.sweepOrphans(); err != nil {
				t.Fatalf("rerun after read %d failed: %v", n, err)
			}
		}
		r.gone(before, "s3://world/db/t/data/orphan.parquet")
		if !struck {
			break
		}
	}
}
