package state

import (
	"context"
	"errors"

	"firn/internal/maintenance"
)

const (
	admissionKey = "admission"
	cursorsKey   = "cursors"
	// maxWaiting bounds the tables that wait for a run: those beyond it are found by their next look.
	maxWaiting = 500
)

// Running is a table with an admitted run.
type Running struct {
	Table   maintenance.TableID `json:"table"`
	SinceMS int64               `json:"since_ms"`
}

// Waiting is a table whose run the caps held back.
type Waiting struct {
	Table maintenance.TableID `json:"table"`
	// Debt is how much there is to do, in thresholds: 1 is exactly due.
	Debt    float64 `json:"debt"`
	SinceMS int64   `json:"since_ms"`
	// SeenMS is when a look last found it due.
	SeenMS int64 `json:"seen_ms"`
}

// Admission is the one record of which tables have runs, and which wait for one. It bounds work and guards nothing: that is the lease's part.
type Admission struct {
	Running []Running `json:"running"`
	Waiting []Waiting `json:"waiting"`
}

// Admissions keeps the record of runs over all tables.
type Admissions interface {
	// ChangeAdmission applies change to the record, again when somebody else was faster, and stores it if change answers true. change must not keep it.
	ChangeAdmission(ctx context.Context, change func(*Admission) bool) error
}

// Cursors keep where walks that outlast one invocation go on.
type Cursors interface {
	// LoadCursor returns a walk's cursor, "" when there is none.
	LoadCursor(ctx context.Context, walk string) (string, error)
	// SaveCursor stores it; "" starts anew.
	SaveCursor(ctx context.Context, walk, cursor string) error
}

// ChangeAdmission implements Admissions.
func (s *itemStore) ChangeAdmission(ctx context.Context, change func(*Admission) bool) error {
	for {
		var a Admission
		version, err := s.load(ctx, admissionKey, headKey, &a)
		if err != nil || !change(&a) {
			return err
		}
		a.Waiting = a.Waiting[:min(len(a.Waiting), maxWaiting)]
		if err := s.save(ctx, admissionKey, headKey, version, a); !errors.Is(err, ErrConditionFailed) {
			return err
		}
	}
}

// LoadCursor implements Cursors.
func (s *itemStore) LoadCursor(ctx context.Context, walk string) (string, error) {
	var cursor string
	_, err := s.load(ctx, cursorsKey, walk, &cursor)
	return cursor, err
}

// SaveCursor implements Cursors.
func (s *itemStore) SaveCursor(ctx context.Context, walk, cursor string) error {
	return s.overwrite(ctx, cursorsKey, walk, cursor)
}
