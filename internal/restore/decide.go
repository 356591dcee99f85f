package restore

import (
	"fmt"
	"slices"
	"time"

	"firn/internal/handoff"
	"firn/internal/store"
)

const (
	// skew is how far the clocks of the work location and of the table's bucket may be apart: S3 takes no request whose clock is further off.
	skew = 15 * time.Minute
	// deletingTime is how long a batch may be deleted for after its manifest was written: as long as every repetition of its one request may last.
	deletingTime = time.Hour
)

// State says what became of an object that the run was about to delete.
type State string

// The states.
const (
	// Restored: it is back.
	Restored State = "restored"
	// Restorable: it would come back (of a dry run only).
	Restorable State = "restorable"
	// Present: it stands, because it was never deleted, was restored before or was written again. It is left alone.
	Present State = "present"
	// Gone: nothing is kept of its data.
	Gone State = "gone_for_good"
	// Refused: its data is kept, and it was not restored; the reason says why.
	Refused State = "refused"
)

// Span is a time in which a run deleted objects.
type Span struct{ From, To time.Time }

// Spans are the times in which the batches behind a run's manifests were deleted, with room for the clocks.
func Spans(manifests []handoff.DeletionManifest) []Span {
	var out []Span
	sorted := slices.Clone(manifests)
	slices.SortFunc(sorted, func(a, b handoff.DeletionManifest) int { return a.WrittenAt.Compare(b.WrittenAt) })
	for _, m := range sorted {
		s := Span{m.WrittenAt.Add(-skew), m.WrittenAt.Add(deletingTime + skew)}
		if n := len(out); n > 0 && !s.From.After(out[n-1].To) {
			out[n-1].To = s.To
			continue
		}
		out = append(out, s)
	}
	return out
}

// Decision is what to do with one object.
type Decision struct {
	State  State
	Reason string
	// Markers are the delete markers to remove when the state is Restorable.
	Markers []store.Version
}

// Decide judges an object by its newest versions, newest first: it comes back if every delete marker over its data was set while the run deleted.
// A marker of another time is somebody else's deletion, and not this run's to undo. Two attempts of the run leave two markers.
func Decide(versions []store.Version, spans []Span) Decision {
	if len(versions) == 0 {
		return Decision{State: Gone, Reason: "storage keeps nothing of it"}
	}
	markers, last := versions[:len(versions)-1], versions[len(versions)-1]
	switch {
	case last.Marker:
		return Decision{State: Gone, Reason: "only the delete marker is left: the version under it was removed"}
	case len(markers) == 0:
		return Decision{State: Present}
	}
	for _, m := range markers {
		switch {
		case m.ID == "" || m.ID == store.NullVersion:
			return Decision{State: Refused, Reason: "versioning of the bucket is suspended: a writer may take the place of its delete marker; remove it by hand"}
		case !slices.ContainsFunc(spans, func(s Span) bool { return !m.ModifiedAt.Before(s.From) && !m.ModifiedAt.After(s.To) }):
			return Decision{State: Refused, Reason: fmt.Sprintf("it was deleted at %s, which was not this run", m.ModifiedAt.UTC().Format(time.RFC3339))}
		}
	}
	return Decision{State: Restorable, Markers: markers}
}
