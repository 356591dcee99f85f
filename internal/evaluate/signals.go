package evaluate

import (
	"time"

	"firn/internal/contract"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/state"
	"firn/internal/telemetry"
)

// signal tells what alarms watch of a table that is maintained: how much is due, and whether its budget is spent. Where nobody asked for runs, debt is no
// fault. A table that owes nothing says nothing: the alarms take silence for that, and log lines are paid by the byte.
func (f *Function) signal(v *view, head state.Head, out verdict) error {
	if f.deps.Metrics == nil || f.deps.ObserveOnly || v.policy.Mode() != policy.Maintain || out.record.Skip != "" {
		return nil
	}
	now, over := f.deps.Now(), 0.0
	if v.policy.Gates().OverBudget(spentThisMonth(head.Spending, now)) {
		over = 1
	}
	if out.debt == 0 && over == 0 {
		return nil
	}
	return f.deps.Metrics.Emit(now, v.id, "", []telemetry.Metric{
		{Name: contract.MetricDebt, Unit: telemetry.Count, Value: out.debt}, {Name: contract.MetricOverBudget, Unit: telemetry.Count, Value: over},
	})
}

// spentThisMonth is what automatic runs cost in the calendar month, in millionths of a dollar.
func spentThisMonth(s state.Spending, now time.Time) int64 {
	if s.Month != now.UTC().Format("2006-01") {
		return 0
	}
	return s.Micros
}

// count tells one metric of one thing that happened to a notice.
func (f *Function) count(name string, id maintenance.TableID) error {
	if f.deps.Metrics == nil {
		return nil
	}
	return f.deps.Metrics.Emit(f.deps.Now(), id, "", telemetry.Counts(map[string]int64{name: 1}))
}
