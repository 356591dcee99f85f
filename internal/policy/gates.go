package policy

import (
	"time"

	"firn/internal/maintenance"
	"firn/internal/policy/when"
)

// Gates hold automatic runs back, whatever is due. A zero switches a gate off.
type Gates struct {
	// MinInterval is the least time between runs on the table.
	MinInterval time.Duration
	// QuietPeriod is how long nobody else must have committed; a table that had no run for MaxQuietWait does not wait for it.
	QuietPeriod, MaxQuietWait time.Duration
	// Windows are when runs may start.
	Windows when.Windows
	// MaxDollars is the budget of a calendar month.
	MaxDollars float64
	// MaxRunsPerDay bounds runs in 24 hours.
	MaxRunsPerDay int64
}

// OverBudget reports that the budget of a month is spent, given in millionths of a dollar.
func (g Gates) OverBudget(spentMicros int64) bool {
	return g.MaxDollars > 0 && float64(spentMicros) >= g.MaxDollars*1e6
}

// Gates reads the gates.
func (p Policy) Gates() Gates {
	windows, err := when.ParseWindows(p.text("windows"))
	if err != nil {
		windows = nil // it was checked when it was set
	}
	return Gates{
		MinInterval: p.age("min-interval"), QuietPeriod: p.age("quiet-period"), MaxQuietWait: p.age("max-quiet-wait"), Windows: windows,
		MaxDollars: p.ratio("max-dollars-per-month"), MaxRunsPerDay: p.MaxRunsPerDay(),
	}
}

// When is the job's condition beside the thresholds, nil when it has none.
func (p Policy) When(job maintenance.Job) when.Expr {
	text := p.text(string(job) + ".trigger.when")
	if text == "" {
		return nil
	}
	e, err := when.Parse(text)
	if err != nil {
		return nil // it was checked when it was set
	}
	return e
}

// MinInterval is the least time between automatic runs of the job.
func (p Policy) MinInterval(job maintenance.Job) time.Duration {
	return p.age(string(job) + ".trigger.min-interval")
}

// Hysteresis is the share of a threshold that must be added to what a run left before the threshold counts again.
func (p Policy) Hysteresis() float64 { return p.ratio("hysteresis") }

// ReconcileInterval is the time between full scans; 0 is never.
func (p Policy) ReconcileInterval() time.Duration { return p.age("reconcile-interval") }

// Takeover says that the table is maintained even where another maintainer does.
func (p Policy) Takeover() bool { return p.flag("takeover") }

// ForeignRewriteWindow is how long a table that another engine rewrote is left to it.
func (p Policy) ForeignRewriteWindow() time.Duration { return p.age("foreign-rewrite-window") }
