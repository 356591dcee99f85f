package inspect

import (
	"context"
	"time"

	"firn/internal/decide"
	"firn/internal/maintenance"
	"firn/internal/state"
)

// runHistory bounds how many runs are looked at.
const runHistory = 100

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
		if r.Request.Automatic && now.Sub(time.UnixMilli(r.StartedMS)) < 24*time.Hour {
			past.RunsToday++
		}
		for _, j := range r.Report.Jobs {
			if _, known := past.Jobs[j.Job]; !known {
				past.Jobs[j.Job] = decide.JobFacts{LastRunMS: r.EndedMS, LastOutcome: j.Outcome}
			}
		}
	}
	return past, nil
}
