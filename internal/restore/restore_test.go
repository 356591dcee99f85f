package restore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"firn/internal/handoff"
	"firn/internal/maintenance"
	"firn/internal/restore"
	"firn/internal/store"
)

const orphanJob = maintenance.RemoveOrphanFiles

// lab is a run that deleted objects in a store that keeps versions.
type lab struct {
	t      *testing.T
	memory *store.Memory
	work   *handoff.Work
	run    maintenance.Run
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, memory: store.NewMemory(time.Now), run: maintenance.Run{RunID: maintenance.NewRunID("x", 1, 1), Table: maintenance.TableID{Catalog: "c", Name: "t"}}}
	l.memory.KeepVersions()
	l.work = handoff.Open(l.memory, "mem://work", l.run.RunID)
	return l
}

// delete writes objects that are not there, and a manifest, and deletes them, as sweep does.
func (l *lab) delete(job maintenance.Job, batch, attempt string, locations ...string) {
	l.t.Helper()
	ctx := l.t.Context()
	var lines []handoff.Deletion
	for _, location := range locations {
		lines = append(lines, handoff.Deletion{Location: location, Kind: "listed object", SizeBytes: 1, RunID: l.run.RunID, Reason: "why"})
		if versions, err := l.memory.Versions(ctx, location); err == nil && len(versions) == 0 {
			err = l.memory.Put(ctx, location, []byte("x"), store.WriteOptions{})
			if err != nil {
				l.t.Fatal(err)
			}
		}
	}
	if err := l.work.WriteDeletions(ctx, l.work.DeletionManifest(job, batch, attempt), lines); err != nil {
		l.t.Fatal(err)
	}
	if _, failures, err := l.memory.Delete(ctx, locations); err != nil || len(failures) > 0 {
		l.t.Fatal(failures, err)
	}
}

func (l *lab) restore(files store.Versioned, dry bool) (*restore.Report, error) {
	r := &restore.Restorer{Work: l.memory, WorkLocation: "mem://work", Files: files, DryRun: dry}
	return r.Run(l.t.Context(), l.run)
}

func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("mem://lake/t/%04d", i)
	}
	return out
}

// faulty answers calls on one object, or on all of them, with an error.
type faulty struct {
	store.Versioned
	on    string
	err   error
	calls atomic.Int64
}

// Versions implements store.Versioned.
func (f *faulty) Versions(ctx context.Context, location string) ([]store.Version, error) {
	f.calls.Add(1)
	if strings.HasSuffix(location, f.on) {
		return nil, f.err
	}
	return f.Versioned.Versions(ctx, location)
}

// TestEveryJobAndAttempt: what any job deleted comes back once, however many attempts named it, odd locations too.
func TestEveryJobAndAttempt(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.delete(orphanJob, "delete-0000-000000-000000", "a", "mem://lake/t/one", "mem://lake/t/not UTF-8 \xff%20+")
	l.delete(orphanJob, "delete-0000-000000-000000", "b", "mem://lake/t/one", "mem://lake/t/two")
	l.delete(maintenance.ExpireSnapshots, "delete-0000-000000-000000", "a", "mem://lake/t/three")
	l.delete(maintenance.RewriteDataFiles, "abandoned-000000", "a", "mem://lake/t/four")
	for _, want := range []struct {
		dry                           bool
		restored, restorable, present int64
		outcome                       string
	}{{true, 0, 5, 0, restore.AllBack}, {false, 5, 0, 0, restore.AllBack}, {false, 0, 0, 5, "nothing_to_do"}} {
		report, err := l.restore(l.memory, want.dry)
		if err != nil || report.Restored != want.restored || report.Restorable != want.restorable || report.Present != want.present || report.Outcome != want.outcome || len(report.Jobs) != 3 {
			t.Fatalf("%+v, %v: want %+v", report, err, want)
		}
	}
}

// TestAdvice: who restores is told of what may delete again, of deletions under other IDs, and of what cannot come back.
func TestAdvice(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.delete(orphanJob, "delete-0000-000000-000000", "a", "mem://lake/t/one")
	other := maintenance.NewRunID("x", 2, 2)
	mark := store.Join(handoff.Unsettled("mem://work", ""), string(l.run.RunID)+".json")
	for location, v := range map[string]any{
		mark:                       &handoff.UnsettledRun{V: 1, Run: l.run},
		l.work.Earlier():           &handoff.EarlierDeletions{V: 1, Runs: []handoff.EarlierDeletion{{RunID: other}}},
		l.work.Reach(orphanJob, 0): &handoff.SweepReach{V: 1, Summary: handoff.SweepSummary{AbortedUploads: 3}},
	} {
		if _, err := l.work.WriteOnce(t.Context(), location, v); err != nil {
			t.Fatal(err)
		}
	}
	report, err := l.restore(l.memory, false)
	if err != nil {
		t.Fatal(err)
	}
	report.Advise(t.Context(), l.run, nil, l.memory)
	var text strings.Builder
	if err := report.Text(&text); err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{"goes on deleting", "firn restore --run " + string(other), "3 incomplete uploads", "at once", "'gc.enabled' = 'false'", "restored    1 (1 bytes)"} {
		if !strings.Contains(strings.Join(strings.Fields(text.String()), " "), strings.Join(strings.Fields(says), " ")) {
			t.Errorf("%q is not said in\n%s", says, text.String())
		}
	}
}

// TestStorageFails: a passing fault ends the work, and a repetition does the rest; a refusal concerns its object; a store that allows nothing is not asked
// for each object.
func TestStorageFails(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	all := numbered(2500)
	l.delete(orphanJob, "delete-0000-000000-000000", "a", all[:1000]...)
	l.delete(orphanJob, "delete-0000-000000-000001", "a", all[1000:]...)
	denied := &faulty{Versioned: l.memory, err: store.ErrPermission}
	report, err := l.restore(denied, false)
	if err != nil || report.Refused != 2500 || report.Outcome != "refused" || len(report.Objects) != 20 || denied.calls.Load() != 1000 {
		t.Errorf("denied: %d refused after %d calls, %d named, %v", report.Refused, denied.calls.Load(), len(report.Objects), err)
	}
	broken := &faulty{Versioned: l.memory, on: "/1500", err: fmt.Errorf("slow down: %w", store.ErrTransient)}
	first, err := l.restore(broken, false)
	if !errors.Is(err, store.ErrTransient) || first.Restored < 1000 || first.Restored >= 2500 {
		t.Errorf("a passing fault: %d restored, %v", first.Restored, err)
	}
	report, err = l.restore(&faulty{Versioned: l.memory, on: "/1500", err: errors.New("odd")}, false)
	if err != nil || report.Refused != 1 || report.Present != first.Restored || report.Restored+report.Present != 2499 {
		t.Errorf("a fault that stays: %d restored, %d present, %d refused, %v", report.Restored, report.Present, report.Refused, err)
	}
	report, err = l.restore(l.memory, false)
	if err != nil || report.Restored != 1 || report.Present != 2499 {
		t.Errorf("at last: %d restored, %d present, %v", report.Restored, report.Present, err)
	}
}

// TestDamagedManifest: nothing is guessed from a manifest that cannot be read.
func TestDamagedManifest(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, text := range []string{"{", "{\"location\":\"\"}\n", "{\"location\":\"mem://a/b\",\"location_base64\":\"!\"}\n"} {
		if err := l.memory.Put(t.Context(), l.work.DeletionManifest(orphanJob, "delete-0000-000000-000000", "a"), []byte(text), store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.restore(l.memory, false); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := restore.Find(t.Context(), l.memory, "mem://work", maintenance.NewRunID("y", 1, 1)); !errors.Is(err, restore.ErrUnknownRun) {
		t.Errorf("an unknown run: %v", err)
	}
}
