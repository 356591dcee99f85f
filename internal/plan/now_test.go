package plan_test

import (
	"testing"
	"time"

	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/maintenance"
)

// TestWhereNow: a condition on the current time is asked of the planner's clock, and a run that plans again keeps the first answer.
func TestWhereNow(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Columns("id long", "ts timestamptz", "d date"))
	today := time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC)
	for day := range 4 {
		at := today.AddDate(0, 0, -day)
		tbl.Commit(icebergtest.Append(icebergtest.Row{int64(day), at, at.Truncate(24 * time.Hour)}))
	}
	for text, want := range map[string]int{
		"ts > now()":                         0,
		"ts >= now()":                        1,
		"ts < current_timestamp()":           3,
		"ts > now() - interval 2 days":       2,
		"d = current_date()":                 1,
		"d < date_sub(current_date(), 1)":    2,
		"d >= current_date() - 1 and id > 0": 1,
	} {
		t.Run(text, func(t *testing.T) {
			w.Clock.Set(today) // no parallel cases: they share the clock
			d := newDesk(t, w, tbl)
			request := rewrite(map[string]string{"rewrite-all": "true"})
			request.Jobs[0].Args = map[string]string{"where": text}
			for range 2 {
				d.next(t, request, maintenance.Cursor{})
				selected := 0
				for _, location := range d.index(t, maintenance.RewriteDataFiles).Groups {
					var group handoff.Group
					if err := handoff.Open(d.work, workLocation, d.run.RunID).Read(t.Context(), location, &group); err != nil {
						t.Fatal(err)
					}
					selected += len(group.Inputs)
				}
				if selected != want {
					t.Errorf("%d files, want %d", selected, want)
				}
				w.Clock.Set(today.AddDate(0, 0, 2))
			}
		})
	}
}
