package maintenance

import "encoding/json"

// The payloads that travel between the states of the state machine. They are small (references, not lists; 262,144 bytes is the limit) and
// every one carries "v". 64-bit IDs travel as text, since JSONata rounds numbers above 2^53. Field order is the wire order.

// Run says which run on which table a payload belongs to.
type Run struct {
	// RunID is the execution's name.
	RunID RunID `json:"run_id"`
	// Table is the table that the run works on.
	Table TableID `json:"table"`
	// TableUUID is the table's identity when the run was started.
	TableUUID string `json:"table_uuid"`
	// Token is the lease's fencing number.
	Token int64 `json:"token,string"`
}

// JobRequest asks for one job with the arguments and options of Spark's procedure of that name, as text.
type JobRequest struct {
	Job Job `json:"job"`
	// Args are the procedure's arguments under Spark's names ("strategy", "where", "older_than", "retain_last", "dry_run", ...).
	Args map[string]string `json:"args,omitempty"`
	// Options are the entries of the procedure's options map.
	Options map[string]string `json:"options,omitempty"`
	// SnapshotIDs are the ids of expire_snapshots.
	SnapshotIDs []string `json:"snapshot_ids,omitempty"`
	// Aged says that the age of small files made rewrite_data_files due: the run takes all of them, those that earlier runs wrote included.
	Aged bool `json:"aged,omitempty"`
	// Guards are what an automatic expiry obeys on top of its arguments; nil for a call, which obeys its caller.
	Guards *ExpiryGuards `json:"guards,omitempty"`
}

// ExpiryGuards are a policy's guards of automatic expiry.
type ExpiryGuards struct {
	// MinAgeMS keeps younger snapshots, in milliseconds; it never goes under the built-in least age.
	MinAgeMS int64 `json:"min_age_ms"`
	// IgnoreBookmarks lets go of the newest snapshot of each streaming writer; BookmarkKeys are summary keys by which writers resume.
	IgnoreBookmarks bool     `json:"ignore_bookmarks,omitempty"`
	BookmarkKeys    []string `json:"bookmark_keys,omitempty"`
	// Limit bounds how many snapshots one run expires; 0 is no bound.
	Limit int `json:"limit,omitempty"`
}

// Request says what a run was asked to do. It holds no clock, so that a repeated start has the same bytes.
type Request struct {
	// Jobs are the jobs to run, in chain order. Empty means: whatever the policy says is due.
	Jobs []JobRequest `json:"jobs,omitempty"`
	// Due says that Jobs are those that were due.
	Due bool `json:"due,omitempty"`
	// DryRun plans and reports without changing anything.
	DryRun bool `json:"dry_run,omitempty"`
	// Automatic says that no person asked: firn.mode and the automatic guards apply.
	Automatic bool `json:"automatic,omitempty"`
	// Trigger is a short text for the history: "call", "run", "event", "schedule".
	Trigger string `json:"trigger"`
}

// ExecutionInput is the input of one execution of the state machine.
type ExecutionInput struct {
	V       int     `json:"v"`
	Run     Run     `json:"run"`
	Request Request `json:"request"`
}

// Cursor is where a run stands: the position in its job list, and the next batch of that job.
type Cursor struct {
	// Job is an index into Jobs.
	Job int `json:"job"`
	// Batch is the next batch of that job to hand out.
	Batch int `json:"batch"`
	// Planned says that the job's plan index exists.
	Planned bool `json:"planned"`
}

// PlanInput is what plan receives, at the start and in each round of the loop.
type PlanInput struct {
	V       int     `json:"v"`
	Run     Run     `json:"run"`
	Request Request `json:"request"`
	Cursor  Cursor  `json:"cursor"`
}

// Next is the branch of the state machine that plan, commit or sweep ask for.
type Next string

// The branches.
const (
	// NextCompact runs the Distributed Map over the items, then commit.
	NextCompact Next = "compact"
	// NextCommit goes to commit at once (manifests, expiry).
	NextCommit Next = "commit"
	// NextList runs the listing map over the items, then reach.
	NextList Next = "list"
	// NextReach goes to reach.
	NextReach Next = "reach"
	// NextDelete runs the deleting map over the items.
	NextDelete Next = "delete"
	// NextPlan goes back to plan.
	NextPlan Next = "plan"
	// NextFinish sweeps the run's leftovers and reports.
	NextFinish Next = "finish"
)

// Object addresses an object of the work location in the way an ItemReader wants it. For a work location on local files Bucket is "file" and
// Key the absolute path.
type Object struct {
	Bucket string `json:"bucket"`
	Key    string `json:"key"`
}

// PlanOutput is plan's answer.
type PlanOutput struct {
	V      int    `json:"v"`
	Next   Next   `json:"next"`
	Cursor Cursor `json:"cursor"`
	// Job and Batch are what the next states work on; empty with NextFinish.
	Job   Job `json:"job"`
	Batch int `json:"batch"`
	// Items are the lines of the coming map: one CompactItem or ListItem each.
	Items Object `json:"items"`
	// ItemCount is the number of lines; a batch without items never enters a map.
	ItemCount int `json:"item_count"`
}

// CompactItem is one line of a compaction map's items: everything that a child needs.
type CompactItem struct {
	V     int `json:"v"`
	Run   Run `json:"run"`
	Job   Job `json:"job"`
	Batch int `json:"batch"`
	Group int `json:"group"`
	Index int `json:"index"`
	// GroupLocation is the group's object (handoff.Group).
	GroupLocation string `json:"group_location"`
	// PinnedLocation is the object that describes the pinned state (handoff.Pinned).
	PinnedLocation string `json:"pinned_location"`
}

// CompactOutput is what a child returns: at most a kilobyte. The lists are in the result object.
type CompactOutput struct {
	V       int     `json:"v"`
	Group   int     `json:"group"`
	Outcome Outcome `json:"outcome"`
	Reason  string  `json:"reason,omitempty"`
}

// CommitInput is what commit receives.
type CommitInput struct {
	V     int `json:"v"`
	Run   Run `json:"run"`
	Job   Job `json:"job"`
	Batch int `json:"batch"`
}

// CommitOutput is commit's answer. Next is NextPlan, or NextReach after an expiry that left files to delete.
type CommitOutput struct {
	V          int     `json:"v"`
	Next       Next    `json:"next"`
	Outcome    Outcome `json:"outcome"`
	SnapshotID int64   `json:"snapshot_id,string"`
	Reason     string  `json:"reason,omitempty"`
}

// SweepStep is one of sweep's steps.
type SweepStep string

// The steps of sweep.
const (
	// SweepList lists one key range into a sorted run.
	SweepList SweepStep = "list"
	// SweepReach loads the head, subtracts what is reachable and cuts the rest into ranges.
	SweepReach SweepStep = "reach"
	// SweepDelete deletes one range, behind a written deletion manifest.
	SweepDelete SweepStep = "delete"
	// SweepAbandon marks the run's unsettled batches as abandoned and deletes outputs that provably are in no snapshot.
	SweepAbandon SweepStep = "abandon"
)

// SweepInput is what sweep receives in every step; Item is set for list and delete.
type SweepInput struct {
	V     int       `json:"v"`
	Step  SweepStep `json:"step"`
	Run   Run       `json:"run"`
	Job   Job       `json:"job,omitempty"`
	Batch int       `json:"batch,omitempty"`
	// Item is one line of the items that plan or reach wrote.
	Item *SweepItem `json:"item,omitempty"`
}

// SweepItem is one key range to list or to delete.
type SweepItem struct {
	// Range numbers the item from 0.
	Range int `json:"range"`
	// Batch is the batch of the job to which a delete range belongs.
	Batch int `json:"batch,omitempty"`
	// Prefix, StartAfter and EndAt bound a listing as store.ListOptions does.
	Prefix     string `json:"prefix,omitempty"`
	StartAfter string `json:"start_after,omitempty"`
	EndAt      string `json:"end_at,omitempty"`
	// Location is the object with the candidates of a delete range; of a range to list it is the file of the list that is read instead.
	Location string `json:"location,omitempty"`
}

// SweepOutput is sweep's answer. After reach, Next is NextDelete (Items holds the ranges) or NextPlan.
type SweepOutput struct {
	V         int    `json:"v"`
	Next      Next   `json:"next"`
	Items     Object `json:"items"`
	ItemCount int    `json:"item_count"`
	// Deleted and Failed count objects of this step.
	Deleted int `json:"deleted"`
	Failed  int `json:"failed"`
}

// ReportInput is what report receives, on success and on failure.
type ReportInput struct {
	V       int     `json:"v"`
	Run     Run     `json:"run"`
	Request Request `json:"request"`
	// Error is the name and cause of the failure that ended the run, if one did.
	Error *StepError `json:"error,omitempty"`
}

// StepError is an error as the state machine's Catch hands it on.
type StepError struct {
	Error string `json:"Error"`
	Cause string `json:"Cause"`
}

// ReportOutput is the run's outcome, printed by the command line and sent as the outcome event.
type ReportOutput struct {
	V       int          `json:"v"`
	Run     Run          `json:"run"`
	Outcome Outcome      `json:"outcome"`
	Reason  string       `json:"reason,omitempty"`
	Error   string       `json:"error,omitempty"`
	Jobs    []JobOutcome `json:"jobs"`
	// Earlier is what the run deleted for earlier runs on the table.
	Earlier []EarlierDeletion `json:"earlier,omitempty"`
}

// JobOutcome is how one job of a run ended.
type JobOutcome struct {
	Job     Job     `json:"job"`
	Outcome Outcome `json:"outcome"`
	Reason  string  `json:"reason,omitempty"`
	// SnapshotID is the last snapshot that the job made, 0 if none.
	SnapshotID int64 `json:"snapshot_id,string"`
	// Columns are Spark's result columns of the procedure, under Spark's names.
	Columns map[string]int64 `json:"columns,omitempty"`
	// Refusals are the files that were left alone and the groups that were refused, lost or in conflict, with the reason; at most 20.
	Refusals []string `json:"refusals,omitempty"`
	// Files are the locations that a dry run or an orphan sweep names; at most 20 travel here, the rest is in FilesLocation.
	Files         []string `json:"files,omitempty"`
	FilesLocation string   `json:"files_location,omitempty"`
	// Plan is the dry run's plan, in the job's own shape. One of more than 32 KB does not travel: PlanLocation is the object that holds it, as "detail".
	Plan         json.RawMessage `json:"plan,omitempty"`
	PlanLocation string          `json:"plan_location,omitempty"`
	// Estimate is how much a dry run's job would do; nil for others, and for a dry run that would do nothing.
	Estimate *Estimate `json:"estimate,omitempty"`
	// Waiting are the files of an expiry that a later run deletes; nil when none wait.
	Waiting *Waiting `json:"waiting,omitempty"`
	// Contention says what other writers cost a rewrite; nil when they cost nothing.
	Contention *Contention `json:"contention,omitempty"`
}

// Estimate counts the files, and their bytes, that a job would replace by AddedFiles others, or, where it rewrites nothing, delete.
type Estimate struct {
	Files      int64 `json:"files"`
	Bytes      int64 `json:"bytes"`
	AddedFiles int64 `json:"added_files"`
}

// Waiting counts files that only expired snapshots reached and that nobody may delete yet: readers of the catalog may still hold the replaced metadata.
// The first run on the table that ends after NotBeforeMS, whatever its jobs, deletes them.
type Waiting struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
	// NotBeforeMS is in milliseconds since the epoch.
	NotBeforeMS int64 `json:"not_before_ms"`
}

// EarlierDeletion counts what a run deleted for an earlier run's expiry, whose files had to wait.
type EarlierDeletion struct {
	RunID  RunID `json:"run_id"`
	Files  int64 `json:"files"`
	Failed int64 `json:"failed,omitempty"`
	Bytes  int64 `json:"bytes"`
	// Columns are Spark's result columns of expire_snapshots.
	Columns map[string]int64 `json:"columns,omitempty"`
}

// Contention counts how a rewrite's commits met other writers.
type Contention struct {
	// Attempts is the number of catalog calls, for Commits that landed.
	Attempts int `json:"attempts"`
	Commits  int `json:"commits"`
	// RebasedGroups met deletes that arrived while they were rewritten, and RebasedRows of them were carried over to the outputs. ConflictGroups were
	// given up.
	RebasedGroups  int   `json:"rebased_groups"`
	RebasedRows    int64 `json:"rebased_rows"`
	ConflictGroups int   `json:"conflict_groups"`
}

// Add sums up batches.
func (c *Contention) Add(o Contention) {
	c.Attempts += o.Attempts
	c.Commits += o.Commits
	c.RebasedGroups += o.RebasedGroups
	c.RebasedRows += o.RebasedRows
	c.ConflictGroups += o.ConflictGroups
}

// Any reports whether other writers were met at all.
func (c Contention) Any() bool { return c.Attempts > c.Commits || c.RebasedGroups+c.ConflictGroups > 0 }
