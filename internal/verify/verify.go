// Package verify proves that a snapshot which claims to have rewritten a table holds the rows of its parent, or names the rows that it lost,
// doubled or brought back. It reads only, and it trusts nobody: not the summary, not the run that made the snapshot, not Firn's own proofs.
//
// Only files that differ are read: data files that one of the two snapshots lacks, and those to which other delete files apply. Each is read once
// with its deletes applied, in the table's schema. Rows become hashes that are summed up, for each column and for whole rows, so that neither order
// nor file borders matter, and memory does not grow with the table. Where the sums differ, the files are read again, and only rows whose hashes fall
// into a bucket with another sum are looked at.
//
// What it cannot see: changes that the hash, 64 bits a row and 128 bits a sum, does not show, and the bytes of variants, which writers may encode
// anew. A snapshot whose parent has expired cannot be verified. Failures: ErrUnverifiable with the reason, and those of the store.
package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/apache/iceberg-go/table"

	"firn/internal/contract"
	"firn/internal/lake"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// ErrUnverifiable says that the two states cannot be compared: no parent, an expired one, a fault of the table, files that cannot be read.
var ErrUnverifiable = errors.New("cannot be verified")

// Verifier compares snapshots. Its fields are set once; its methods may be called concurrently.
type Verifier struct {
	// Store reads the table's files.
	Store store.Reader
	// Workers is how many files are read at once; 0 means 4.
	Workers int
	// Samples is how many rows of each kind a report names; 0 means 20.
	Samples int
	// Seed keys the hashes, so that nobody can prepare rows that collide.
	Seed uint64
}

const (
	defaultWorkers = 4
	defaultSamples = 20
)

// Snapshot compares a snapshot with its parent; id 0 means the newest rewrite that main descends from.
func (v *Verifier) Snapshot(ctx context.Context, t *lake.Table, id int64) (Report, error) {
	snap := t.Metadata.SnapshotByID(id)
	if id == 0 {
		snap = newestRewrite(t)
	}
	switch {
	case snap == nil && id == 0:
		return Report{}, unverifiable("table %s has no snapshot with operation replace", t.ID)
	case snap == nil:
		return Report{}, unverifiable("table %s has no snapshot %d", t.ID, id)
	}
	r := describe(t, snap)
	if err := v.compare(ctx, t, snap, &r); err != nil {
		if errors.Is(err, lake.ErrTableFault) || errors.Is(err, lake.ErrUnsupported) || errors.Is(err, store.ErrNotFound) {
			err = fmt.Errorf("%w: %w", err, ErrUnverifiable)
		}
		return r, fmt.Errorf("verify snapshot %d of %s: %w", snap.SnapshotID, t.ID, err)
	}
	return r, nil
}

// History compares every retained snapshot with operation replace with its parent, oldest first. Those that cannot be verified are reported with
// the reason and do not end the audit.
func (v *Verifier) History(ctx context.Context, t *lake.Table) (Audit, error) {
	a := Audit{Table: t.ID.String()}
	snapshots := slices.Clone(t.Metadata.Snapshots())
	slices.SortFunc(snapshots, func(x, y table.Snapshot) int {
		if x.SequenceNumber != y.SequenceNumber {
			return int(x.SequenceNumber - y.SequenceNumber)
		}
		return int(x.TimestampMs - y.TimestampMs)
	})
	for _, snap := range snapshots {
		if !rewrote(&snap) {
			continue
		}
		r, err := v.Snapshot(ctx, t, snap.SnapshotID)
		if err != nil {
			if !errors.Is(err, ErrUnverifiable) {
				return a, err
			}
			r.Verdict, r.Reason = Unverifiable, err.Error()
		}
		a.add(r)
	}
	return a, nil
}

func unverifiable(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), ErrUnverifiable)
}

func rewrote(s *table.Snapshot) bool {
	return s.Summary != nil && s.Summary.Operation == table.OpReplace
}

// newestRewrite is the newest ancestor of main that rewrote.
func newestRewrite(t *lake.Table) *table.Snapshot {
	for at := t.Metadata.CurrentSnapshot(); at != nil; {
		if rewrote(at) {
			return at
		}
		if at.ParentSnapshotID == nil {
			return nil
		}
		at = t.Metadata.SnapshotByID(*at.ParentSnapshotID)
	}
	return nil
}

// describe says which snapshot is verified and who made it.
func describe(t *lake.Table, s *table.Snapshot) Report {
	r := Report{Table: t.ID.String(), SnapshotID: s.SnapshotID, SequenceNumber: s.SequenceNumber, CommittedAt: time.UnixMilli(s.TimestampMs).UTC()}
	if s.ParentSnapshotID != nil {
		r.ParentID = *s.ParentSnapshotID
	}
	if s.Summary != nil {
		p := s.Summary.Properties
		r.Operation, r.Engine = string(s.Summary.Operation), p["engine-name"]
		r.RunID, r.Job = maintenance.RunID(p[contract.SummaryRunID]), maintenance.Job(p[contract.SummaryJob])
	}
	return r
}

// compare finds what differs, sums it up, and explains it when the sums differ.
func (v *Verifier) compare(ctx context.Context, t *lake.Table, snap *table.Snapshot, r *Report) error {
	if snap.ParentSnapshotID == nil {
		return unverifiable("it has no parent")
	}
	parent := t.Metadata.SnapshotByID(*snap.ParentSnapshotID)
	if parent == nil {
		return unverifiable("its parent %d has expired", *snap.ParentSnapshotID)
	}
	before, after, err := v.differing(ctx, t, parent, snap)
	if err != nil {
		return err
	}
	r.FilesBefore, r.FilesAfter = len(before), len(after)
	rd, err := v.newReader(t, snap, before, after)
	if err != nil {
		return err
	}
	sums, err := rd.sum(ctx)
	if err != nil {
		return err
	}
	sums.report(rd, r)
	if r.Verdict == Equal {
		return nil
	}
	return rd.explain(ctx, sums, r)
}
