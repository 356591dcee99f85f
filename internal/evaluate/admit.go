package evaluate

import (
	"cmp"
	"context"
	"slices"
	"time"

	"firn/internal/maintenance"
	"firn/internal/state"
)

// Caps bound automatic runs at once: over all tables, and in one namespace. 0 is no bound.
type Caps struct{ Runs, PerNamespace int }

// waitingAge is how long a table that waits keeps its place without a look: the scheduled looks renew it.
const waitingAge = 3 * time.Hour

// admit asks for one of the places that the caps leave. Tables that wait are served by debt, and debt grows with the time waited, so that a small table
// that waits long comes before a large one that came late.
func (f *Function) admit(ctx context.Context, id maintenance.TableID, debt float64) (admitted bool, err error) {
	if f.deps.Caps == (Caps{}) {
		return true, nil
	}
	now := f.deps.Now().UnixMilli()
	err = f.deps.State.ChangeAdmission(ctx, func(a *state.Admission) bool {
		admitted = Admit(a, f.deps.Caps, state.Waiting{Table: id, Debt: debt, SinceMS: now}, now)
		return true
	})
	return admitted, err
}

// withdraw gives up a table's place in the queue.
func (f *Function) withdraw(ctx context.Context, id maintenance.TableID) error {
	if f.deps.Caps == (Caps{}) {
		return nil
	}
	return f.deps.State.ChangeAdmission(ctx, func(a *state.Admission) bool {
		before := len(a.Waiting)
		a.Waiting = slices.DeleteFunc(a.Waiting, func(w state.Waiting) bool { return w.Table == id })
		return len(a.Waiting) < before
	})
}

// leave gives back the place of a run that ended without report.
func (f *Function) leave(ctx context.Context, id maintenance.TableID) error {
	return f.deps.State.ChangeAdmission(ctx, func(a *state.Admission) bool {
		before := len(a.Running)
		a.Running = slices.DeleteFunc(a.Running, func(r state.Running) bool { return r.Table == id })
		return len(a.Running) < before
	})
}

// Admit decides on one table that asks, and notes it among those that run or those that wait.
func Admit(a *state.Admission, caps Caps, asks state.Waiting, nowMS int64) bool {
	a.Running = slices.DeleteFunc(a.Running, func(r state.Running) bool { return nowMS-r.SinceMS >= state.LeaseTTL.Milliseconds() })
	if slices.ContainsFunc(a.Running, func(r state.Running) bool { return r.Table == asks.Table }) {
		return true // an earlier look got the place and did not come to start the run
	}
	asks.SeenMS = nowMS
	a.Waiting = slices.DeleteFunc(a.Waiting, func(w state.Waiting) bool { return nowMS-w.SeenMS >= waitingAge.Milliseconds() })
	if i := slices.IndexFunc(a.Waiting, func(w state.Waiting) bool { return w.Table == asks.Table }); i >= 0 {
		asks.SinceMS = min(asks.SinceMS, a.Waiting[i].SinceMS)
		a.Waiting[i] = asks // in its place: to ask again costs nobody a turn
	} else {
		a.Waiting = append(a.Waiting, asks)
	}
	slices.SortStableFunc(a.Waiting, func(x, y state.Waiting) int { return cmp.Compare(urgency(y, nowMS), urgency(x, nowMS)) })
	used := map[maintenance.Namespace]int{}
	for _, r := range a.Running {
		used[r.Table.Namespace]++
	}
	free := caps.Runs - len(a.Running)
	for i, w := range a.Waiting {
		if caps.Runs > 0 && free <= 0 {
			break
		}
		if ns := w.Table.Namespace; caps.PerNamespace > 0 && used[ns] >= caps.PerNamespace {
			continue // its namespace is full; others go on
		}
		if w.Table == asks.Table {
			a.Waiting = slices.Delete(a.Waiting, i, i+1)
			a.Running = append(a.Running, state.Running{Table: asks.Table, SinceMS: nowMS})
			return true
		}
		free--
		used[w.Table.Namespace]++
	}
	return false
}

// maxDebt bounds what a debt weighs.
const maxDebt = 100

// urgency is debt times the square of the hours waited and one: twenty times the debt is worth about three and a half hours.
func urgency(w state.Waiting, nowMS int64) float64 {
	waited := 1 + float64(nowMS-w.SinceMS)/float64(time.Hour.Milliseconds())
	return min(max(w.Debt, 0.01), maxDebt) * waited * waited
}
