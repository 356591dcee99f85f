package report

import (
	"context"
	"slices"
	"time"

	"firn/internal/decide"
	"firn/internal/maintenance"
	"firn/internal/state"
)

const (
	// maxRecent bounds the runs of 24 hours that are kept.
	maxRecent = 500
	// maxRoused is how many waiting tables one ended run rouses: it frees one place, and some of those that wait are no longer due.
	maxRoused = 3
)

// CostMicros is what a run cost by the cost model, in millionths of a dollar.
func CostMicros(out maintenance.ReportOutput) int64 {
	var bytes int64
	for _, job := range out.Jobs {
		bytes += job.Columns["rewritten_bytes_count"]
	}
	return decide.RunMicros(bytes)
}

// spent adds one automatic run. A run that was counted is not counted again.
func spent(s state.Spending, run maintenance.RunID, micros int64, now time.Time) state.Spending {
	if s.LastRunID == run {
		return s
	}
	if month := now.UTC().Format("2006-01"); s.Month != month {
		s.Month, s.Micros = month, 0
	}
	s.LastRunID, s.Micros = run, s.Micros+micros
	s.Runs = slices.DeleteFunc(append(slices.Clone(s.Runs), now.UnixMilli()), func(ms int64) bool {
		return now.Sub(time.UnixMilli(ms)) >= 24*time.Hour
	})
	s.Runs = s.Runs[max(0, len(s.Runs)-maxRecent):]
	return s
}

// Leave gives a table's place back, and returns the tables that wait for one, the most urgent first, a few.
func Leave(ctx context.Context, st state.Admissions, table maintenance.TableID) (waiting []maintenance.TableID, err error) {
	err = st.ChangeAdmission(ctx, func(a *state.Admission) bool {
		before := len(a.Running)
		a.Running = slices.DeleteFunc(a.Running, func(r state.Running) bool { return r.Table == table })
		waiting = nil
		for _, w := range a.Waiting[:min(len(a.Waiting), maxRoused)] {
			waiting = append(waiting, w.Table)
		}
		return len(a.Running) < before
	})
	return waiting, err
}
