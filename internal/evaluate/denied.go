package evaluate

import (
	"errors"

	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// A permission that is missing is no crash: to deliver the notice again would end alike, and the dead-letter queue is for what nobody foresaw. The table is
// skipped, with the reason and its cure in the decision, the log and a metric that an alarm watches; the next commit or the clock looks again. What
// evaluate itself needs (its state, its queue, the state machine) is another matter: without it no table is looked at, and the notices are kept.

// denied reports that the catalog or the store did not permit a look.
func denied(err error) bool {
	return errors.Is(err, catalogs.ErrPermission) || errors.Is(err, store.ErrPermission)
}

// denial is the text of such an error, with what mends it where that is known.
func (f *Function) denial(id maintenance.TableID, err error) string {
	text := err.Error()
	if f.deps.Cure == nil {
		return text
	}
	if cure := f.deps.Cure(text, id); cure != "" {
		text += "; " + cure
	}
	return text
}
