package handoff

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"firn/internal/maintenance"
	"firn/internal/store"
)

// The objects of sweep. For each batch of a job (expire_snapshots has one a commit, remove_orphan_files one): the listing's results, the result of
// reach with its proof, and for each range a deletion manifest before, and a result after, each batch of deletions.

// maxNamed bounds the names that a summary holds; the whole lists are in objects of their own.
const maxNamed = 20

// Arguments that sweep reads of Index.Request.Args beside Spark's own.
const (
	// ArgDeleteOutside ("true") lets expire_snapshots delete expired files that lie outside of the table's own folders. Such files were imported
	// and may belong to somebody else.
	ArgDeleteOutside = "delete_outside_location"
	// ArgEmptyTable ("true") lets remove_orphan_files delete under a table without any snapshot: what lies there may be what is left of a table
	// that was dropped before.
	ArgEmptyTable = "empty_table"
)

// ExpireDetail is what reach reads of Index.Detail when an expiry is a dry run: what the commit would expire now. Other keys may stand beside it.
type ExpireDetail struct {
	Expired Expired `json:"expired"`
}

// SweepListed is the result of listing one key range (write-once).
type SweepListed struct {
	V     int `json:"v"`
	Range int `json:"range"`
	// Runs are the sorted runs with the objects of the range.
	Runs []string `json:"runs"`
	// Objects and SizeBytes count what was listed.
	Objects   int64 `json:"objects"`
	SizeBytes int64 `json:"size_bytes"`
	// StartedAtMS and EndedAtMS bound the listing.
	StartedAtMS int64 `json:"started_at_ms"`
	EndedAtMS   int64 `json:"ended_at_ms"`
	// Fault says why a list of files that was read instead cannot be used. Outside counts its files that lie elsewhere in the bucket, Mismatched those in
	// another scheme or bucket; Pairs are the first of these.
	Fault      string   `json:"fault,omitempty"`
	Outside    int64    `json:"outside,omitempty"`
	Mismatched int      `json:"mismatched,omitempty"`
	Pairs      []string `json:"pairs,omitempty"`
}

// SweepProof says from which state of a table files were found unreachable; delete extends it by what was committed since.
type SweepProof struct {
	Table maintenance.TableID `json:"table"`
	UUID  string              `json:"uuid"`
	// MetadataLocation is the head that reach loaded.
	MetadataLocation string `json:"metadata_location"`
	// SnapshotIDs are the snapshots that reach walked.
	SnapshotIDs []int64 `json:"snapshot_ids"`
	// Manifests is the sorted run of the manifests that reach read or knew to be kept.
	Manifests string `json:"manifests"`
}

// SweepReach is the result of reach (write-once): what may be deleted, and the proof.
type SweepReach struct {
	V       int          `json:"v"`
	Summary SweepSummary `json:"summary"`
	Proofs  []SweepProof `json:"proofs,omitempty"`
	// Items are the lines of the deleting map; ItemCount is their number, 0 when nothing is to be deleted.
	Items     maintenance.Object `json:"items"`
	ItemCount int                `json:"item_count"`
	// Ranges are the objects with the candidates of each line of Items.
	Ranges []string `json:"ranges,omitempty"`
	// NotBeforeMS is the time before which nothing of this is deleted (the grace period after an expiry's commit).
	NotBeforeMS int64 `json:"not_before_ms,omitempty"`
	// Cautious says that delete looks at each object again and leaves what was written after the listing.
	Cautious bool `json:"cautious,omitempty"`
}

// SweepDeleted is the result of one range, or of one batch of deletions of it (write-once).
type SweepDeleted struct {
	V     int `json:"v"`
	Range int `json:"range"`
	// Columns count what is gone, under the names of Spark's result columns.
	Columns map[string]int64 `json:"columns,omitempty"`
	Deleted int64            `json:"deleted"`
	Failed  int64            `json:"failed"`
	// Bytes is the size of what is gone, as far as it was known.
	Bytes int64 `json:"bytes"`
	// FailedByKind counts failures by the class of their error.
	FailedByKind map[string]int64 `json:"failed_by_kind,omitempty"`
	// Failures and Kept name at most 20 objects each.
	Failures []SweepNote `json:"failures,omitempty"`
	Kept     []SweepNote `json:"kept,omitempty"`
	// KeptCount counts candidates that turned out to be reachable again or written anew.
	KeptCount int64 `json:"kept_count,omitempty"`
}

// SweepNote is an object with what is to be said about it.
type SweepNote struct {
	Location string `json:"location"`
	Reason   string `json:"reason"`
}

// SweepSummary is what report says of the sweeping part of a job.
type SweepSummary struct {
	V int `json:"v"`
	// Outcome is Committed when the files are (being) deleted, NothingToDo, Refused with the reason, or DryRun.
	Outcome maintenance.Outcome `json:"outcome"`
	Reason  string              `json:"reason,omitempty"`
	// Columns count what is gone (in a dry run: what would go), under the names of Spark's result columns of expire_snapshots. An orphan sweep
	// has none.
	Columns map[string]int64 `json:"columns,omitempty"`
	// Candidates and CandidateBytes count what was proved unreachable.
	Candidates     int64 `json:"candidates"`
	CandidateBytes int64 `json:"candidate_bytes"`
	// Files names the first candidates, FilesLocation is the object with all of them: JSON Lines, one text a line.
	Files         []string `json:"files,omitempty"`
	FilesLocation string   `json:"files_location,omitempty"`
	// OldestAgeHours, YoungestAgeHours tell the ages of orphans at the time of the plan.
	OldestAgeHours   float64 `json:"oldest_age_hours,omitempty"`
	YoungestAgeHours float64 `json:"youngest_age_hours,omitempty"`
	// Deleted, Failed, Bytes, FailedByKind, Failures: see SweepDeleted.
	Deleted      int64            `json:"deleted"`
	Failed       int64            `json:"failed"`
	Bytes        int64            `json:"bytes"`
	FailedByKind map[string]int64 `json:"failed_by_kind,omitempty"`
	Failures     []SweepNote      `json:"failures,omitempty"`
	// Kept names at most 20 objects that stay although they are not reachable, with the reason; KeptCount counts them.
	Kept      []SweepNote `json:"kept,omitempty"`
	KeptCount int64       `json:"kept_count,omitempty"`
	// AbortedUploads counts incomplete multipart uploads that were given up (in a dry run: that would be).
	AbortedUploads int64 `json:"aborted_uploads,omitempty"`
	// Warnings are for people.
	Warnings []string `json:"warnings,omitempty"`
	// Read says what reach read.
	Lists     int64 `json:"lists,omitempty"`
	Manifests int64 `json:"manifests,omitempty"`
	Entries   int64 `json:"entries,omitempty"`
	// UnfinishedRanges counts the ranges whose deletion has no result yet.
	UnfinishedRanges int `json:"unfinished_ranges,omitempty"`
	// NotBeforeMS is set while files wait for the end of the grace period after an expiry: a later run deletes them.
	NotBeforeMS int64 `json:"not_before_ms,omitempty"`
}

// Keep notes an object that stays.
func (s *SweepSummary) Keep(location, reason string) {
	s.KeptCount++
	s.Kept = note(s.Kept, SweepNote{location, reason})
}

// Add folds the result of a part into the result of the whole.
func (d *SweepDeleted) Add(part SweepDeleted) {
	d.Columns = sum(d.Columns, part.Columns)
	d.FailedByKind = sum(d.FailedByKind, part.FailedByKind)
	d.Deleted += part.Deleted
	d.Failed += part.Failed
	d.Bytes += part.Bytes
	d.KeptCount += part.KeptCount
	d.Failures = note(d.Failures, part.Failures...)
	d.Kept = note(d.Kept, part.Kept...)
}

// Fail counts an object that could not be deleted.
func (d *SweepDeleted) Fail(location, kind, reason string) {
	d.Failed++
	d.FailedByKind = sum(d.FailedByKind, map[string]int64{kind: 1})
	d.Failures = note(d.Failures, SweepNote{location, reason})
}

// Keep counts a candidate that is not deleted after all.
func (d *SweepDeleted) Keep(location, reason string) {
	d.KeptCount++
	d.Kept = note(d.Kept, SweepNote{location, reason})
}

// Count adds a deleted object to a column.
func (d *SweepDeleted) Count(column string, sizeBytes int64) {
	d.Deleted++
	d.Bytes += max(0, sizeBytes)
	if column != "" {
		d.Columns = sum(d.Columns, map[string]int64{column: 1})
	}
}

func note(notes []SweepNote, more ...SweepNote) []SweepNote {
	room := max(0, maxNamed-len(notes))
	return append(notes, more[:min(room, len(more))]...)
}

func sum(into, part map[string]int64) map[string]int64 {
	if len(part) == 0 {
		return into
	}
	if into == nil {
		into = make(map[string]int64, len(part))
	} else {
		into = maps.Clone(into)
	}
	for k, v := range part {
		into[k] += v
	}
	return into
}

// Listed is the location of the result of listing a range.
func (w *Work) Listed(job maintenance.Job, item int) string {
	return w.Sweep(job, fmt.Sprintf("list-%06d.json", item))
}

// Reach is the location of the result of reach for a batch.
func (w *Work) Reach(job maintenance.Job, batch int) string {
	return w.Sweep(job, fmt.Sprintf("reach-%04d.json", batch))
}

// Deleted is the location of the result of deleting a range of a batch.
func (w *Work) Deleted(job maintenance.Job, batch, item int) string {
	return w.Sweep(job, fmt.Sprintf("deleted-%04d-%06d.json", batch, item))
}

// Abandoned is the location of the summary of the step abandon for a job: its leftovers.
func (w *Work) Abandoned(job maintenance.Job) string { return w.Sweep(job, "abandoned.json") }

// SweepSummary reads what sweep did for a batch of a job: the summary of reach, with the results of its ranges folded in. store.ErrNotFound
// when reach has not run.
func (w *Work) SweepSummary(ctx context.Context, job maintenance.Job, batch int) (SweepSummary, error) {
	var reached SweepReach
	if err := w.Read(ctx, w.Reach(job, batch), &reached); err != nil {
		return SweepSummary{}, err
	}
	s := reached.Summary
	var all SweepDeleted
	for i := range reached.ItemCount {
		var part SweepDeleted
		err := w.Read(ctx, w.Deleted(job, batch, i), &part)
		if errors.Is(err, store.ErrNotFound) {
			s.UnfinishedRanges++
			continue
		}
		if err != nil {
			return SweepSummary{}, err
		}
		all.Add(part)
	}
	if reached.ItemCount > 0 {
		s.Columns = sum(s.Columns, all.Columns)
	}
	if s.UnfinishedRanges > 0 {
		s.NotBeforeMS = reached.NotBeforeMS
	}
	s.Deleted, s.Failed, s.Bytes = all.Deleted, all.Failed, all.Bytes
	s.FailedByKind, s.Failures = all.FailedByKind, all.Failures
	s.Kept, s.KeptCount = note(s.Kept, all.Kept...), s.KeptCount+all.KeptCount
	return s, nil
}
