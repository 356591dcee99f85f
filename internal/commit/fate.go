package commit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// fate is one entry of the fate log with its end, when it has one.
type fate struct {
	handoff.Fate
	detail fateDetail
	// end is the definite answer of the catalog, "" while there is none. said is that answer as this execution got it: it becomes the end when a
	// head agrees, since something between us and a service may have repeated the request and answered for the repetition.
	end, said maintenance.Outcome
}

// fateDetail is commit's own part of a fate entry.
type fateDetail struct {
	// Snapshot is the snapshot as it was sent, so that exactly it can be sent again.
	Snapshot json.RawMessage `json:"snapshot,omitempty"`
	// Columns and Dropped are what the batch's result says if the attempt lands.
	Columns map[string]int64       `json:"columns,omitempty"`
	Dropped []handoff.DroppedGroup `json:"dropped,omitempty"`
	Rebased *handoff.Rebased       `json:"rebased,omitempty"`
	// Refs are those that an expiry knew.
	Refs map[string]int64 `json:"refs,omitempty"`
}

// sequenceNumber is the sent snapshot's, 0 when none is sent.
func (d *fateDetail) sequenceNumber() (int64, error) {
	if len(d.Snapshot) == 0 {
		return 0, nil
	}
	var snap struct {
		SequenceNumber int64 `json:"sequence-number"`
	}
	if err := json.Unmarshal(d.Snapshot, &snap); err != nil {
		return 0, fmt.Errorf("read the snapshot to send: %w", err)
	}
	return snap.SequenceNumber, nil
}

// readFates reads entries that this execution does not know yet.
func (s *session) readFates(ctx context.Context) error {
	for {
		n := len(s.fates)
		var f fate
		switch err := s.work.Read(ctx, s.work.Fate(s.in.Job, s.in.Batch, n), &f.Fate); {
		case errors.Is(err, store.ErrNotFound):
			return nil
		case err != nil:
			return fmt.Errorf("read fate log: %w", err)
		}
		if len(f.Detail) > 0 {
			if err := json.Unmarshal(f.Detail, &f.detail); err != nil {
				return fmt.Errorf("read fate log: entry %d: %w", n, err)
			}
		}
		var end handoff.FateEnd
		switch err := s.work.Read(ctx, s.work.FateEnd(s.in.Job, s.in.Batch, n), &end); {
		case err == nil:
			f.end = end.Outcome
		case !errors.Is(err, store.ErrNotFound):
			return fmt.Errorf("read fate log: %w", err)
		}
		s.fates = append(s.fates, f)
	}
}

// conclusion is the result with which another execution closed the log; nil when none did.
func (s *session) conclusion() *handoff.CommitResult {
	if len(s.fates) == 0 {
		return nil
	}
	return s.fates[len(s.fates)-1].Result
}

// finish closes the log with the batch's result, so that no execution that is given up announces another attempt behind it. It is false when somebody wrote
// another entry first: the log must be read again.
func (s *session) finish(ctx context.Context, result *handoff.CommitResult) (ours bool, err error) {
	entry := handoff.Fate{V: contract.PayloadVersion, Abandoned: true, Result: result}
	entry.Result.V = contract.PayloadVersion
	first, err := s.work.WriteOnce(ctx, s.work.Fate(s.in.Job, s.in.Batch, len(s.fates)), &entry)
	if err != nil {
		return false, fmt.Errorf("close fate log: %w", err)
	}
	return first, nil
}

// abandoned reports whether the log is closed.
func (s *session) abandoned() bool {
	return slices.ContainsFunc(s.fates, func(f fate) bool { return f.Abandoned })
}

// announce writes the next entry of the log. It is false when another execution or sweep wrote that entry first: the log must be read again.
func (s *session) announce(ctx context.Context, entry handoff.Fate, detail fateDetail) (n int, ours bool, err error) {
	if entry.Detail, err = json.Marshal(detail); err != nil {
		return 0, false, fmt.Errorf("encode fate: %w", err)
	}
	n = len(s.fates)
	entry.V, entry.CommitID = contract.PayloadVersion, s.commitID()
	written := entry
	first, err := s.work.WriteOnce(ctx, s.work.Fate(s.in.Job, s.in.Batch, n), &written)
	if err != nil {
		return 0, false, fmt.Errorf("write fate log: %w", err)
	}
	// A store that repeats a write whose answer was lost meets its own object.
	if !first && (written.Abandoned || !same(written, entry)) {
		return 0, false, nil
	}
	s.fates = append(s.fates, fate{Fate: entry, detail: detail})
	return n, true, nil
}

// same reports whether two entries announce the same call.
func same(a, b handoff.Fate) bool {
	if !slices.Equal(a.Detail, b.Detail) {
		return false
	}
	if a.Expired == nil || b.Expired == nil {
		return a.Expired == b.Expired
	}
	return slices.Equal(a.Expired.SnapshotIDs, b.Expired.SnapshotIDs) && slices.Equal(a.Expired.Refs, b.Expired.Refs)
}

// conclude writes down a definite answer.
func (s *session) conclude(ctx context.Context, n int, outcome maintenance.Outcome) error {
	if s.fates[n].end != "" {
		return nil
	}
	end := handoff.FateEnd{V: contract.PayloadVersion, Outcome: outcome}
	if _, err := s.work.WriteOnce(ctx, s.work.FateEnd(s.in.Job, s.in.Batch, n), &end); err != nil {
		return fmt.Errorf("write end of fate: %w", err)
	}
	s.fates[n].end = end.Outcome
	return nil
}

// open are the entries without a definite answer.
func (s *session) open() []int {
	var out []int
	for n, f := range s.fates {
		if f.end == "" && !f.Abandoned {
			out = append(out, n)
		}
	}
	return out
}

// pointerText is what a call on this head asserts: the version that the catalog's compare-and-swap compares, "" where the branch's head is
// asserted instead (REST).
func pointerText(head *lake.Table) string { return head.Pointer.Version }

// unneeded are the metadata files of settled attempts other than the one that landed (landed < 0: none did), and those of attempts that were never
// announced.
func (s *session) unneeded(landed int) []string {
	keep := map[string]bool{}
	for n, f := range s.fates {
		// Attempts may share manifests: what the landed one lists, or one that may still land, stays.
		if n == landed || f.end == "" {
			for _, m := range f.Metadata {
				keep[m] = true
			}
		}
	}
	out := slices.DeleteFunc(slices.Clone(s.discarded), func(location string) bool {
		return slices.ContainsFunc(s.fates, func(f fate) bool { return slices.Contains(f.Metadata, location) })
	})
	for _, f := range s.fates {
		if f.end == "" {
			continue
		}
		for _, m := range f.Metadata {
			if !keep[m] {
				keep[m] = true
				out = append(out, m)
			}
		}
	}
	return out
}
