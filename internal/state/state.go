// Package state is the port to what Firn remembers of tables between runs: the ledger (counters per partition), the lease (one run a table, with
// a fencing token) and the history of runs and decisions. It is written for DynamoDB: every method is one conditional write of a single item, or
// a read. Implementations: SQLite and memory; one conformance suite runs against both.
//
// The lease only saves work. What keeps tables right is the catalog's compare-and-swap and the fate log.
package state

import (
	"context"
	"errors"
	"time"

	"firn/internal/maintenance"
)

// Classes of failure.
var (
	// ErrConditionFailed says that a conditional write met another state; nothing was written.
	ErrConditionFailed = errors.New("state changed meanwhile")
	// ErrLeaseHeld says that another run holds the table.
	ErrLeaseHeld = errors.New("lease is held")
	// ErrLeaseLost says that the run's token is not the current one.
	ErrLeaseLost = errors.New("lease is lost")
	// ErrTransient says that a repetition may succeed.
	ErrTransient = errors.New("transient state error")
)

// LeaseTTL is how long a lease lasts: as long as the state machine may (TimeoutSeconds of its definition). Who finds that the execution ended or never
// started takes it over earlier.
const LeaseTTL = 24 * time.Hour

// LeasePhase says how far the holder of a lease got.
type LeasePhase string

// The phases of a lease.
const (
	// LeaseStarting: taken, the execution may not have been started yet. A finder repeats the start with the stored input: same name, same bytes.
	LeaseStarting LeasePhase = "starting"
	// LeaseRunning: plan renewed it at least once.
	LeaseRunning LeasePhase = "running"
)

// Lease is the right to work on a table.
type Lease struct {
	Table maintenance.TableID
	// Token is the fencing number: it grows with every lease of the table and never repeats.
	Token int64
	// RunID is the holder; Input the exact execution input.
	RunID maintenance.RunID
	Input []byte
	Phase LeasePhase
	// ExpiresAt is when others may take the lease over.
	ExpiresAt time.Time
	// Pending says that events met the held lease: the table is due for another look when it is free.
	Pending bool
}

// Leases hands out one lease a table.
type Leases interface {
	// Acquire takes the table's lease, free or expired at now. make builds the run ID and execution input from the new token. ErrLeaseHeld with
	// the current lease when somebody else has it.
	Acquire(ctx context.Context, table maintenance.TableID, now time.Time, ttl time.Duration,
		fill func(token int64) (maintenance.RunID, []byte)) (Lease, error)
	// Renew prolongs a lease whose token is current and sets its phase to running. ErrLeaseLost.
	Renew(ctx context.Context, table maintenance.TableID, token int64, now time.Time, ttl time.Duration) error
	// Release frees the lease if the token is current, and reports whether it was pending. Releasing a lost lease is ErrLeaseLost.
	Release(ctx context.Context, table maintenance.TableID, token int64) (pending bool, err error)
	// MarkPending notes that an event met the held lease; false when no lease is held.
	MarkPending(ctx context.Context, table maintenance.TableID) (bool, error)
	// Current returns the table's lease; found is false when it is free.
	Current(ctx context.Context, table maintenance.TableID) (lease Lease, found bool, err error)
}

// PartitionCounters is what the ledger knows of one partition.
type PartitionCounters struct {
	SpecID    int    `json:"spec_id"`
	Partition string `json:"partition"`
	// DataFiles and DataBytes count live data files; SmallFiles and SmallBytes those under 75 % of the target size.
	DataFiles int64 `json:"data_files"`
	DataBytes int64 `json:"data_bytes"`
	// DataRows sums their records, before deletes.
	DataRows   int64 `json:"data_rows"`
	SmallFiles int64 `json:"small_files"`
	SmallBytes int64 `json:"small_bytes"`
	// PositionDeleteFiles, EqualityDeleteFiles and DeletionVectors count live delete files; DeletedRows sums the position deletes' records.
	PositionDeleteFiles int64 `json:"position_delete_files"`
	EqualityDeleteFiles int64 `json:"equality_delete_files"`
	DeletionVectors     int64 `json:"deletion_vectors"`
	DeletedRows         int64 `json:"deleted_rows"`
	// LastWriteMS is the time of the last snapshot that touched the partition, in milliseconds since the epoch.
	LastWriteMS int64 `json:"last_write_ms"`
}

// JobState is what is known of a job's last run.
type JobState struct {
	// LastRunMS is when it ended, in milliseconds since the epoch.
	LastRunMS int64 `json:"last_run_ms"`
	// LastOutcome is how it ended.
	LastOutcome maintenance.Outcome `json:"last_outcome"`
}

// Head is the ledger's head item of a table: it moves last, after all shards.
type Head struct {
	Table maintenance.TableID `json:"table"`
	// TableUUID guards against a table that was dropped and made again.
	TableUUID string `json:"table_uuid"`
	// SnapshotID and SequenceNumber are the last snapshot folded in.
	SnapshotID     int64 `json:"snapshot_id"`
	SequenceNumber int64 `json:"sequence_number"`
	// Commits counts other writers' commits since the last run.
	Commits int64 `json:"commits"`
	// Snapshots, Manifests and MetadataFiles are head's counts.
	Snapshots      int64 `json:"snapshots"`
	Manifests      int64 `json:"manifests"`
	SmallManifests int64 `json:"small_manifests"`
	MetadataFiles  int64 `json:"metadata_files"`
	// Jobs holds what is known of each job's last run.
	Jobs map[maintenance.Job]JobState `json:"jobs,omitempty"`
	// FirstSeenMS is when the table was first looked at.
	FirstSeenMS int64 `json:"first_seen_ms"`
	// NeedsScan says that the counters cannot be trusted: the next run scans the table.
	NeedsScan bool `json:"needs_scan,omitempty"`
	// LookedAtMS bounds concurrent looks.
	LookedAtMS int64 `json:"looked_at_ms"`
	// Version is the item's version for conditional writes; 0 means that it does not exist.
	Version int64 `json:"version"`
}

// Shard is a part of a table's partition counters.
type Shard struct {
	// Number is the shard, a hash of the partition.
	Number int `json:"number"`
	// FoldedTo is the snapshot that this shard has folded to: folding is conditional on it and idempotent.
	FoldedTo int64 `json:"folded_to"`
	// Partitions are the counters by PartitionCounters.SpecID and Partition.
	Partitions []PartitionCounters `json:"partitions"`
	// Version is the item's version for conditional writes; 0 means that it does not exist.
	Version int64 `json:"version"`
}

// Ledgers stores heads and shards.
type Ledgers interface {
	// LoadHead returns the head item, the zero Head (Version 0) when there is none.
	LoadHead(ctx context.Context, table maintenance.TableID) (Head, error)
	// SaveHead writes head if the stored version is head.Version, and returns it with the next version. ErrConditionFailed.
	SaveHead(ctx context.Context, head Head) (Head, error)
	// LoadShards returns all shards of the table.
	LoadShards(ctx context.Context, table maintenance.TableID) ([]Shard, error)
	// SaveShard writes a shard if the stored version is shard.Version. ErrConditionFailed.
	SaveShard(ctx context.Context, table maintenance.TableID, shard Shard) (Shard, error)
	// DropTable forgets heads and shards of a table.
	DropTable(ctx context.Context, table maintenance.TableID) error
	// Tables returns the tables that have a head, from a cursor on (schedule walks them); next is "" at the end.
	Tables(ctx context.Context, cursor string, limit int) (tables []maintenance.TableID, next string, err error)
}

// RunRecord is one run in the history.
type RunRecord struct {
	Run       maintenance.Run          `json:"run"`
	Request   maintenance.Request      `json:"request"`
	StartedMS int64                    `json:"started_ms"`
	EndedMS   int64                    `json:"ended_ms"`
	Report    maintenance.ReportOutput `json:"report"`
}

// Decision is the full record of one evaluation: inputs, rule, result.
type Decision struct {
	Table      maintenance.TableID `json:"table"`
	AtMS       int64               `json:"at_ms"`
	SnapshotID int64               `json:"snapshot_id,string"`
	// Due are the jobs found due, Reasons one line a job, due or not.
	Due     []maintenance.Job `json:"due"`
	Reasons []string          `json:"reasons"`
	// Action is what was done: "start", "observe", "pending", "none", "skip".
	Action string            `json:"action"`
	RunID  maintenance.RunID `json:"run_id,omitempty"`
}

// History keeps runs and decisions. Writing the same run or decision twice leaves one.
type History interface {
	SaveRun(ctx context.Context, r RunRecord) error
	// Runs returns a table's runs, newest first.
	Runs(ctx context.Context, table maintenance.TableID, limit int) ([]RunRecord, error)
	// FindRun returns one run by its ID.
	FindRun(ctx context.Context, id maintenance.RunID) (RunRecord, bool, error)
	SaveDecision(ctx context.Context, d Decision) error
	// Decisions returns a table's decisions, newest first.
	Decisions(ctx context.Context, table maintenance.TableID, limit int) ([]Decision, error)
}

// Store is all of it, as an implementation offers it.
type Store interface {
	Leases
	Ledgers
	History
	Close() error
}
