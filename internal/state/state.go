// Package state is the port to what Firn remembers of tables between runs: the ledger (counters per partition), the lease (one run a table, with
// a fencing token) and the history of runs and decisions. It is written for DynamoDB: every method is one conditional write of a single item, or
// a read. Implementations: SQLite and memory; one conformance suite runs against both.
//
// The lease only saves work. What keeps tables right is the catalog's compare-and-swap and the fate log.
package state

import (
	"context"
	"errors"
	"slices"
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
	// ErrTooLarge says that an item is larger than a backend takes; nothing was written.
	ErrTooLarge = errors.New("state item is too large")
	// ErrTransient says that a repetition may succeed.
	ErrTransient = errors.New("transient state error")
)

// MaxItemBytes bounds one item: DynamoDB refuses items over 400 KB, keys and names included.
const MaxItemBytes = 390_000

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
	// LastLook returns when the last look at the table began, and its lease. Look.At is zero when nobody has looked.
	LastLook(ctx context.Context, table maintenance.TableID) (Look, error)
	// ClaimLook notes that a look begins, unless lease or look changed since LastLook: ErrConditionFailed. Of racing looks one goes on.
	ClaimLook(ctx context.Context, last Look, at time.Time) error
}

// Look is the last look at a table, and the table's lease at the same instant.
type Look struct {
	Table maintenance.TableID
	At    time.Time
	Lease Lease
	Held  bool

	version int64
	item    leaseItem
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
	// Action is what was done: "start", "observe", "pending" (another run has the table), "waiting" (the caps on runs are reached), "none", "skip".
	Action string            `json:"action"`
	RunID  maintenance.RunID `json:"run_id,omitempty"`
	// Skip says why the table was not decided on at all: another maintainer, metadata that is refused.
	Skip string `json:"skip,omitempty"`
	// Inputs are the figures that the rules looked at, by name.
	Inputs map[string]int64 `json:"inputs,omitempty"`
	// Same counts evaluations since AtMS that ended alike; Inputs are the last one's, at LastMS. 0 and 0 for a single one.
	Same   int64 `json:"same,omitempty"`
	LastMS int64 `json:"last_ms,omitempty"`
}

// Alike reports whether two decisions say the same: action, skip, due jobs and snapshot-independent outcome.
func (d Decision) Alike(o Decision) bool {
	return d.Action == o.Action && d.Skip == o.Skip && d.RunID == o.RunID && slices.Equal(d.Due, o.Due)
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
	Admissions
	Cursors
	Close() error
}
