package compact

import (
	"context"
	"errors"
	"strings"

	"firn/internal/compact/engine"
	"firn/internal/deletes"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/projection"
	"firn/internal/parquet/source"
	"firn/internal/store"
)

// refusals are the errors that a repetition would not cure.
func refusals() []error {
	return []error{engine.ErrRefused, source.ErrUnreadable, projection.ErrUnmappable, layout.ErrUnsupported, deletes.ErrUnusable}
}

// refusal tells whether an error is final, and its text for users. Whatever may pass by itself is never a refusal.
func refusal(err error) (reason string, final bool) {
	if errors.Is(err, store.ErrTransient) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, ErrTimeout) {
		return "", false
	}
	for _, r := range refusals() {
		if errors.Is(err, r) {
			return strings.TrimSuffix(err.Error(), ": "+r.Error()), true
		}
	}
	return "", false
}
