package inspect

import (
	"context"
	"time"

	"firn/internal/decide"
	"firn/internal/maintenance"
	"firn/internal/report"
	"firn/internal/state"
)

// runHistory bounds how many runs are looked at.
const runHistory = 500

// Past reads what is known of a table's earlier runs. It asks the history of runs, not the ledger, which exists only where events are evaluated.
func Past(ctx context.Context, history state.History, id maintenance.TableID, now time.Time) (History, error) {
	runs, err := history.Runs(ctx, id, runHistory)
	if err != nil {
		return History{}, err
	}
	past := History{Jobs: map[maintenance.Job]decide.JobFacts{}}
	for _, r := range runs { // newest first
		if r.Request.DryRun {
			continue // a person looked; a job that its policy keeps to a dry run counts
		}
		if r.Request.Automatic {
			past.LastRunMS = max(past.LastRunMS, r.EndedMS)
			if now.Sub(time.UnixMilli(r.EndedMS)) < 24*time.Hour {
				past.RunsToday++
			}
			if month := "2006-01"; time.UnixMilli(r.EndedMS).UTC().Format(month) == now.UTC().Format(month) {
				past.SpentMicros += report.CostMicros(r.Report)
			}
		}
		for _, j := range r.Report.Jobs {
			facts, known := past.Jobs[j.Job]
			if !known {
				facts = decide.JobFacts{LastRunMS: r.EndedMS, LastOutcome: j.Outcome}
			}
			if facts.LastAgedMS == 0 && report.TookAll(r.Request, j) {
				facts.LastAgedMS = r.EndedMS
			}
			past.Jobs[j.Job] = facts
		}
	}
	return past, nil
}
