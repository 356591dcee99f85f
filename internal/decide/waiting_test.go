package decide_test

import (
	"testing"

	"firn/internal/decide"
	"firn/internal/maintenance"
)

// TestFilesOfAnExpiryAreDue: files that had to wait make their job due, on a table with nothing else to expire, when their time has come and not before.
func TestFilesOfAnExpiryAreDue(t *testing.T) {
	t.Parallel()
	p, job := policyOf(t, nil), maintenance.ExpireSnapshots
	for at, want := range map[int64]bool{nowMS - 1: true, nowMS: true, nowMS + 1: false, 0: false} {
		in := busy(func(in *decide.DueInput) {
			in.Snapshots = 1
			in.Jobs[job] = decide.JobFacts{LastRunMS: nowMS - hourMS, LastOutcome: maintenance.Committed, WaitingUntilMS: at}
		})
		if got := dueOf(decide.Due(in, p), job); got.Due != want {
			t.Errorf("waiting until %d at %d: %+v, want %t", at, int64(nowMS), got, want)
		}
		if next := decide.NextByClock(in, p); at > nowMS && next != at+1 {
			t.Errorf("next look at %d, want %d", next, at+1)
		}
	}
}
