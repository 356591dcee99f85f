// Package handoff carries plans and results between the functions as versioned, write-once objects of the work location. A payload between
// states holds only where such an object is; what is here may be of any size. It knows names, versions and encoding, and no Iceberg: manifest
// entries pass through as the bytes that lake made of them.
package handoff

import (
	"encoding/json"

	"firn/internal/maintenance"
)

// Entry is one manifest entry with all inherited numbers applied.
type Entry struct {
	// File is the data file in the encoding of lake.EncodeFile (a manifest entry's Avro bytes for its spec).
	File []byte `json:"file"`
	// Path repeats the location, for reading without a decoder.
	Path string `json:"path"`
	// SpecID is the partition spec of the file.
	SpecID int `json:"spec_id"`
	// DataSequence and FileSequence are the entry's sequence numbers.
	DataSequence int64 `json:"data_sequence"`
	FileSequence int64 `json:"file_sequence"`
	// SnapshotID is the snapshot that added the file.
	SnapshotID int64 `json:"snapshot_id"`
	// FirstRowID is the file's first row ID (format version 3), absent without row lineage.
	FirstRowID *int64 `json:"first_row_id,omitempty"`
}

// Pinned is T0: everything of the table that later steps need, so that nothing reads T0's metadata file after plan.
type Pinned struct {
	V     int                 `json:"v"`
	Table maintenance.TableID `json:"table"`
	UUID  string              `json:"uuid"`
	// Location is the table's location; MetadataLocation is T0's metadata file (for the report only).
	Location         string `json:"location"`
	MetadataLocation string `json:"metadata_location"`
	FormatVersion    int    `json:"format_version"`
	// Branch is the branch that the run works on.
	Branch string `json:"branch"`
	// SnapshotID and SequenceNumber are the pinned snapshot's.
	SnapshotID     int64 `json:"snapshot_id"`
	SequenceNumber int64 `json:"sequence_number"`
	// SchemaID is the current schema; Schemas, Specs and SortOrders are the table's, as in metadata.json.
	SchemaID      int               `json:"schema_id"`
	Schemas       []json.RawMessage `json:"schemas"`
	Specs         []json.RawMessage `json:"specs"`
	DefaultSpecID int               `json:"default_spec_id"`
	SortOrders    []json.RawMessage `json:"sort_orders"`
	SortOrderID   int               `json:"sort_order_id"`
	// Properties are the table's properties.
	Properties map[string]string `json:"properties"`
}

// Group is one file group with everything that compact and commit need of its inputs.
type Group struct {
	V     int             `json:"v"`
	Run   maintenance.Run `json:"run"`
	Job   maintenance.Job `json:"job"`
	Batch int             `json:"batch"`
	// Index numbers the group in its plan.
	Index int `json:"index"`
	// SpecID is the inputs' spec, OutputSpecID the spec of the outputs.
	SpecID        int    `json:"spec_id"`
	OutputSpecID  int    `json:"output_spec_id"`
	Partition     string `json:"partition"`
	HasRowLineage bool   `json:"has_row_lineage"`
	// Inputs are the data files to replace, in scan order.
	Inputs []GroupInput `json:"inputs"`
	// Deletes are the delete files that applied to any input at T0, each once. Of a group of position deletes they are further ones of the partition:
	// they stay, but their positions must be in new deletion vectors, which hide them.
	Deletes []Entry `json:"deletes"`
	// Targets are the live data files that the inputs of a group of position deletes may name.
	Targets []Target `json:"targets,omitempty"`
	// MaxOutputFileSizeBytes is the size at which another output is started; ExpectedOutputFiles the prediction.
	MaxOutputFileSizeBytes int64 `json:"max_output_file_size_bytes"`
	ExpectedOutputFiles    int   `json:"expected_output_files"`
	// DataSequence is the outputs' data sequence number (T0's, or 0 for "inherit" with use-starting-sequence-number=false).
	DataSequence int64 `json:"data_sequence"`
	// OutputLocation is the folder under which outputs of this group are written.
	OutputLocation string `json:"output_location"`
	// Options are the job's options that the engine needs (sort order, codec, ...).
	Options map[string]string `json:"options,omitempty"`
	// Ordering says how the rows of the outputs are ordered; nil keeps the order of the inputs.
	Ordering *maintenance.Ordering `json:"ordering,omitempty"`
}

// Target is a live data file of T0 that position deletes name.
type Target struct {
	// Path is the location as its manifest entry spells it, DataSequence the data sequence number.
	Path         string `json:"path"`
	DataSequence int64  `json:"data_sequence"`
}

// GroupInput is one input of a group.
type GroupInput struct {
	Entry
	// Deletes are indexes into Group.Deletes: what applied to this file at T0.
	Deletes []int `json:"deletes,omitempty"`
}

// Index makes a job's plan valid: one write-once object per run and job; a retry returns the first one.
type Index struct {
	V   int             `json:"v"`
	Run maintenance.Run `json:"run"`
	Job maintenance.Job `json:"job"`
	// Outcome is NothingToDo or Refused when there is nothing to execute, else empty; Reason says why.
	Outcome maintenance.Outcome `json:"outcome,omitempty"`
	Reason  string              `json:"reason,omitempty"`
	// PinnedLocation is the Pinned object.
	PinnedLocation string `json:"pinned_location"`
	// Groups are the groups' objects, in job order.
	Groups []string `json:"groups,omitempty"`
	// Batches cut Groups into commits: batch b holds the groups Batches[b].First to Batches[b].First+Batches[b].Count-1.
	Batches []Batch `json:"batches,omitempty"`
	// PartialProgress, MaxFailedCommits: see the options of that name.
	PartialProgress  bool `json:"partial_progress"`
	MaxFailedCommits int  `json:"max_failed_commits"`
	// Request is the job's request after the policy's defaults were filled in.
	Request maintenance.JobRequest `json:"request"`
	// DryRun says that nothing may be changed.
	DryRun bool `json:"dry_run"`
	// PlannedAtMS is when the plan was made (ages are measured from it), in milliseconds since the epoch.
	PlannedAtMS int64 `json:"planned_at_ms"`
	// Detail is the job's own part: what to expire, which prefixes to list, the dry run's text.
	Detail json.RawMessage `json:"detail,omitempty"`
}

// Batch is a range of groups that one commit takes.
type Batch struct {
	First int `json:"first"`
	Count int `json:"count"`
	// Items are the batch's map items; Location is the same object as a location.
	Items    maintenance.Object `json:"items"`
	Location string             `json:"location"`
}

// ManifestsDetail is the detail of a rewrite_manifests index: what the plan found. The commit decides anew on its head.
type ManifestsDetail struct {
	// SnapshotID and SequenceNumber are those of the planned head: no attempt of the run is older.
	SnapshotID     int64 `json:"snapshot_id,string"`
	SequenceNumber int64 `json:"sequence_number,string"`
	// SpecID is the partition spec whose manifests are replaced.
	SpecID int `json:"spec_id"`
	// Data and Deletes are the manifests to replace of each content.
	Data    ManifestsCount `json:"data_manifests"`
	Deletes ManifestsCount `json:"delete_manifests"`
}

// ManifestsCount counts manifests to replace and their bytes; Target is the number wanted instead.
type ManifestsCount struct {
	Manifests int   `json:"manifests"`
	Bytes     int64 `json:"bytes"`
	Target    int   `json:"expected_manifests"`
}

// GroupResult is what compact made of a group: write-once, the first attempt's result wins. A missing result means lost.
type GroupResult struct {
	V       int             `json:"v"`
	Run     maintenance.Run `json:"run"`
	Job     maintenance.Job `json:"job"`
	Batch   int             `json:"batch"`
	Index   int             `json:"index"`
	Attempt string          `json:"attempt"`
	// Outcome is Committed for a finished rewrite (ready to commit), Refused with the reason, or Failed.
	Outcome maintenance.Outcome `json:"outcome"`
	Reason  string              `json:"reason,omitempty"`
	// Outputs are the new data files; FirstRowID is never set on them (the list writer assigns it). Of a group of position deletes they are new delete
	// files; the vectors of one Puffin file are an output each.
	Outputs []Entry `json:"outputs"`
	// References are the data files that each output of a group of position deletes names, in the order of Outputs.
	References [][]Target `json:"references,omitempty"`
	// RowMap is the location of the row map object.
	RowMap string `json:"row_map,omitempty"`
	// Permutation is the location of the row map of a sort instead (see OpenPermutation).
	Permutation string `json:"permutation,omitempty"`
	// Proof shows that no row changed.
	Proof Proof `json:"proof"`
	// Engine names the engine that did the work.
	Engine string `json:"engine"`
	// Tiers are bytes of inputs by how they came into the outputs: concat, copy, coalesce, recode, sort or fallback, from cheap to dear.
	Tiers map[string]int64 `json:"tiers,omitempty"`
	// BytesIn and BytesOut are file sizes.
	BytesIn  int64 `json:"bytes_in"`
	BytesOut int64 `json:"bytes_out"`
}

// Proof is the row, null and hash counts of inputs and outputs of a group.
type Proof struct {
	RowsIn      int64 `json:"rows_in"`
	RowsDeleted int64 `json:"rows_deleted"`
	RowsOut     int64 `json:"rows_out"`
	// Columns holds one line a leaf column, by field ID: nulls and an order-independent hash of the values that were kept, taken on the way in
	// and on the way out. They must be equal.
	Columns []ColumnProof `json:"columns,omitempty"`
}

// ColumnProof compares one leaf column.
type ColumnProof struct {
	FieldID  int    `json:"field_id"`
	NullsIn  int64  `json:"nulls_in"`
	NullsOut int64  `json:"nulls_out"`
	HashIn   string `json:"hash_in"`
	HashOut  string `json:"hash_out"`
}

// RowMap tells, for each source file of a group, where its rows went. Rows in no range were deleted by deletes of T0.
type RowMap struct {
	V       int            `json:"v"`
	Sources []SourceRowMap `json:"sources"`
	Outputs []string       `json:"outputs"`
}

// SourceRowMap is the row map of one source file; ranges are ascending by First and do not overlap.
type SourceRowMap struct {
	Path   string     `json:"path"`
	Ranges []RowRange `json:"ranges"`
}

// RowRange says that Count rows of the source from position First went to Outputs[Output] from position Offset on.
type RowRange struct {
	First  int64 `json:"first"`
	Count  int64 `json:"count"`
	Output int   `json:"output"`
	Offset int64 `json:"offset"`
}

// Fate is one entry of a batch's fate log: write-once, numbered from 0.
type Fate struct {
	V int `json:"v"`
	// Abandoned entries are the last ones: sweep writes them, and commit before a batch's result that no attempt landed for, which is then Result. Every other
	// entry announces a catalog call.
	Abandoned bool          `json:"abandoned,omitempty"`
	Result    *CommitResult `json:"result,omitempty"`
	// CommitID, SnapshotID, AssertedSnapshotID and AssertedPointer say what the call would do and what it asserted.
	CommitID           maintenance.CommitID `json:"commit_id,omitempty"`
	SnapshotID         int64                `json:"snapshot_id,omitempty"`
	AssertedSnapshotID int64                `json:"asserted_snapshot_id,omitempty"`
	AssertedPointer    string               `json:"asserted_pointer,omitempty"`
	// SequenceNumber is the new snapshot's; 0 where there is none (expiries, format version 1).
	SequenceNumber int64 `json:"sequence_number,omitempty"`
	// Groups are the plan indexes of the groups in the attempt, Paths their outputs, Metadata the manifests,
	// lists and delete files written for it.
	Groups   []int    `json:"groups,omitempty"`
	Paths    []string `json:"paths,omitempty"`
	Metadata []string `json:"metadata,omitempty"`
	// Expired is what the call of an expiry removes: sweep knows by it what may have left the table when no result says so.
	Expired *Expired `json:"expired,omitempty"`
	// Detail is commit's own part: what it needs to send exactly the same request again, and to answer when it learns later that it landed.
	Detail json.RawMessage `json:"detail,omitempty"`
}

// Head is what a fresh head shows of what a call asserts.
type Head struct {
	// Version is the pointer's, "" where the catalog has none (REST: a call asserts the branch's head instead).
	Version string
	// BranchHead is the snapshot of the run's branch, LastSequenceNumber the table's.
	BranchHead, LastSequenceNumber int64
}

// Moved reports whether the head proves that the entry's call cannot land any more. What cannot be compared has not moved.
//
// A pointer's version never comes back. The head of a branch does, when it is rolled back and then set to the newer snapshot again: what proves
// it for a snapshot is its sequence number, since services refuse one that is not above the table's last. A snapshot of format version 1 has none.
func (f *Fate) Moved(head Head) bool {
	switch {
	case f.AssertedPointer != "":
		return head.Version != "" && head.Version != f.AssertedPointer
	case f.SnapshotID != 0:
		return f.SequenceNumber > 0 && head.LastSequenceNumber >= f.SequenceNumber
	default:
		return f.AssertedSnapshotID != head.BranchHead
	}
}

// FateEnd settles a fate entry: written beside it when the answer of the catalog was definite.
type FateEnd struct {
	V       int                 `json:"v"`
	Outcome maintenance.Outcome `json:"outcome"` // committed, conflict or refused; never unknown
}

// CommitResult is what commit did with a batch (write-once, when settled).
type CommitResult struct {
	V          int                 `json:"v"`
	Outcome    maintenance.Outcome `json:"outcome"`
	Reason     string              `json:"reason,omitempty"`
	SnapshotID int64               `json:"snapshot_id"`
	// Groups are the groups that landed; Dropped the others, with reasons.
	Groups  []int          `json:"groups,omitempty"`
	Dropped []DroppedGroup `json:"dropped,omitempty"`
	// Columns are Spark's result columns for this batch.
	Columns map[string]int64 `json:"columns,omitempty"`
	// Attempts is the number of catalog calls that were announced for the batch.
	Attempts int `json:"attempts,omitempty"`
	// Rebased counts what other writers deleted while the groups were rewritten and was carried over; nil when nothing was.
	Rebased *Rebased `json:"rebased,omitempty"`
	// Unneeded are files for sweep: metadata files that left the log, manifests of settled lost attempts.
	Unneeded []string `json:"unneeded,omitempty"`
	// Expired is set by expiry: what sweep may now prove unreachable.
	Expired *Expired `json:"expired,omitempty"`
}

// Rebased counts the deletes that arrived on replaced files and were carried over to the outputs.
type Rebased struct {
	// Groups met such deletes; DeleteFiles were written for their outputs (vectors count one each) and hold Positions.
	Groups      int   `json:"groups"`
	DeleteFiles int   `json:"delete_files"`
	Positions   int64 `json:"positions"`
}

// DroppedGroup is a group that did not land.
type DroppedGroup struct {
	Index   int                 `json:"index"`
	Outcome maintenance.Outcome `json:"outcome"`
	Reason  string              `json:"reason"`
	Files   int                 `json:"files"`
}

// Expired is what an expiry removed from the metadata.
type Expired struct {
	SnapshotIDs   []int64  `json:"snapshot_ids"`
	ManifestLists []string `json:"manifest_lists"`
	Statistics    []string `json:"statistics,omitempty"`
	Refs          []string `json:"refs,omitempty"`
	// Lists maps the expired snapshots to their manifest lists.
	CommittedAtMS int64 `json:"committed_at_ms"`
}

// ExpireGuards is what commit reads of Index.Detail of an expiry: the guards of an automatic run. Other keys may stand beside it; without it the
// expiry obeys its caller.
type ExpireGuards struct {
	Automatic bool `json:"automatic,omitempty"`
	// MinAgeMS keeps younger snapshots; automatic runs never go under the built-in least age unless Unsafe.
	MinAgeMS int64 `json:"min_age_ms,omitempty"`
	Unsafe   bool  `json:"unsafe,omitempty"`
	// Pinned are snapshots that live runs work from; BookmarkKeys are summary keys by which writers resume; Limit bounds one run's expiry.
	Pinned       []int64  `json:"pinned,omitempty"`
	BookmarkKeys []string `json:"bookmark_keys,omitempty"`
	Limit        int      `json:"limit,omitempty"`
	// IgnoreBookmarks lets go of the snapshots by which streaming writers resume.
	IgnoreBookmarks bool `json:"ignore_bookmarks,omitempty"`
}
