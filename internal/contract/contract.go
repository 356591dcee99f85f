// Package contract holds the strings on which infrastructure and code must agree: environment variables, function and error names,
// object prefixes, summary keys and metric names. It imports nothing but the standard library, so that the CDK app can share it.
package contract

// Function names: one English verb each. A name is a folder under functions/, a package under internal/, a construct, a role, and (but for
// Evaluate and Schedule) the stem of a state's name in the state machine.
const (
	FunctionEvaluate = "evaluate"
	FunctionSchedule = "schedule"
	FunctionPlan     = "plan"
	FunctionCompact  = "compact"
	FunctionCommit   = "commit"
	FunctionSweep    = "sweep"
	FunctionReport   = "report"
)

// Functions lists the seven functions in the order of the flow.
func Functions() []string {
	return []string{
		FunctionEvaluate, FunctionSchedule, FunctionPlan, FunctionCompact, FunctionCommit, FunctionSweep, FunctionReport,
	}
}

// PayloadVersion is the version that every payload between states carries in its field "v". A function that meets another version answers
// with ErrorUnsupportedVersion instead of guessing.
const PayloadVersion = 1

// Error names: what a function reports as errorType and what Retry and Catch of the state machine match. Names that begin with "Firn." are
// ours; the state machine retries ErrorTransient only.
const (
	// ErrorTransient is an error that may pass by itself: throttling, a 5xx of a read, a broken connection before any effect.
	ErrorTransient = "Firn.Transient"
	// ErrorRefused is a definite, reasoned no: unsupported, unsafe or not allowed. A repetition gives the same answer.
	ErrorRefused = "Firn.Refused"
	// ErrorBadInput is a payload or option that cannot be understood.
	ErrorBadInput = "Firn.BadInput"
	// ErrorUnsupportedVersion is a payload of a version that this code does not know.
	ErrorUnsupportedVersion = "Firn.UnsupportedVersion"
	// ErrorConflict is a commit that provably did not happen because the table moved.
	ErrorConflict = "Firn.Conflict"
	// ErrorCommitStateUnknown is a commit that neither provably happened nor provably did not: nothing is deleted.
	ErrorCommitStateUnknown = "Firn.CommitStateUnknown"
	// ErrorLeaseLost says that another run holds the table.
	ErrorLeaseLost = "Firn.LeaseLost"
	// ErrorInternal is every other error.
	ErrorInternal = "Firn.Internal"
)

// Snapshot summary keys of our own commits.
const (
	// SummaryRunID names the run that made a snapshot. Snapshots with it trigger no further run.
	SummaryRunID = "firn.run-id"
	// SummaryCommitID names the commit (run, job, batch) and settles whether an attempt landed.
	SummaryCommitID = "firn.commit-id"
	// SummaryJob names the job that made a snapshot.
	SummaryJob = "firn.job"
)

// Environment variables of the functions.
const (
	// EnvConfig is a location of firn.yaml, or its text.
	EnvConfig = "FIRN_CONFIG"
	// EnvWorkLocation is the URI under which plans, results and fates are written.
	EnvWorkLocation = "FIRN_WORK_LOCATION"
	// EnvStateLocation is where ledger, lease and history live: StateDynamoDB and a table's name, or a SQLite path.
	EnvStateLocation = "FIRN_STATE_LOCATION"
	// EnvSpillDir and EnvSpillLimitBytes are the folder for what sorts spill, and the most that one group may spill (0: what the disk holds).
	EnvSpillDir        = "FIRN_SPILL_DIR"
	EnvSpillLimitBytes = "FIRN_SPILL_LIMIT_BYTES"
	// EnvQueueURL is the queue that evaluate reads and schedule writes.
	EnvQueueURL = "FIRN_QUEUE_URL"
	// EnvRefusedQueueURL is the queue of messages that evaluate refused, each with the reason; without it they are only logged.
	EnvRefusedQueueURL = "FIRN_REFUSED_QUEUE_URL"
	// EnvStateMachineARN is the state machine that evaluate starts.
	EnvStateMachineARN = "FIRN_STATE_MACHINE_ARN"
	// EnvEventBus is the event bus that outcome events go to, by name or ARN; empty: none are sent.
	EnvEventBus = "FIRN_EVENT_BUS"
	// EnvObserveOnly, where it is true, keeps evaluate from starting runs, whatever tables say: a deployment in mode observe has no role that could.
	EnvObserveOnly = "FIRN_OBSERVE_ONLY"
	// EnvEventAccounts are the AWS accounts whose events evaluate hears, parted by commas; empty: all that may reach the queue.
	EnvEventAccounts = "FIRN_EVENT_ACCOUNTS"
	// EnvBucketRoles are the roles in which a function reaches buckets of other accounts: bucket=ARN, parted by commas.
	EnvBucketRoles = "FIRN_BUCKET_ROLES"
	// EnvTest, set to "1", allows --now on commands that change a table.
	EnvTest = "FIRN_TEST"
)

// BatchWindowSeconds is how long a deployment gathers the events of commits unless it is told otherwise. A look that was put off waits for a window again after
// evaluate's interval between looks at a table, and both together are under a minute: so long may it take from an event to the run that it leads to.
const BatchWindowSeconds = 20

// StateDynamoDB begins a state location that is a table of DynamoDB.
const StateDynamoDB = "dynamodb:"

// WorkPrefix is the prefix, inside the work location, of everything that one run wrote: WorkPrefix + run ID + "/".
const WorkPrefix = "runs/"

// UnsettledPrefix is the prefix, inside the work location, of the marks of runs that left something to later ones: UnsettledPrefix +
// table UUID + "/" + run ID.
const UnsettledPrefix = "unsettled/"

// MetricNamespace is the namespace of all metrics.
const MetricNamespace = "Firn"

// MetricOutcome is the name of the metric that counts jobs which ended in an outcome (committed, conflict, unknown ...), by job.
func MetricOutcome(outcome string) string { return "outcome_" + outcome }

// Jobs lists the names of the jobs as dimensions of metrics have them: maintenance.Jobs as text.
func Jobs() []string {
	return []string{
		"rewrite_data_files", "rewrite_position_delete_files", "rewrite_manifests", "expire_snapshots", "remove_orphan_files", "rewrite_equality_delete_files",
	}
}

// Events that Firn sends to an event bus, as EventBridge has them.
const (
	// EventSource is the source of all of them.
	EventSource = "firn"
	// EventRunEnded is the detail type of a run's outcome, which report sends (events/schemas/firn-run-ended.schema.json).
	EventRunEnded = "Firn Run Ended"
)

// LogUnreported is the message that evaluate logs about a run that ended without report: an alarm counts it.
const LogUnreported = "run ended without report"

// MetricLedgerDrift is the name of the metric that counts partitions whose counters in the ledger differed from a full scan.
const MetricLedgerDrift = "ledger_drift_partitions"

// MetricDenied is the name of the metric that counts looks of evaluate which the catalog or the store did not permit.
const MetricDenied = "looks_denied"

// MetricIgnored is the name of the metric that counts notices of what evaluate does not maintain: tables that are unknown, not entrusted or of a catalog that is
// not configured, views and tables of other formats.
const MetricIgnored = "notices_ignored"

// MetricDebt is the name of the metric of what is due on a table in mode maintain, in thresholds (1 is exactly due), and MetricOverBudget that of a table whose
// budget of the month is spent (1) or not (0); evaluate tells both at each look.
const (
	MetricDebt       = "debt_thresholds"
	MetricOverBudget = "budget_reached"
)

// MetricTier is the name of the metric that counts the input bytes of a rewritten group which came into the outputs by a tier: concat, copy,
// coalesce, recode, sort or fallback.
func MetricTier(tier string) string { return "tier_" + tier + "_bytes" }
