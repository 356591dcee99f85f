package serve

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"firn/internal/local"
	"firn/internal/maintenance"
	"firn/internal/state"
)

const (
	// pageTables is how many tables one page lists.
	pageTables = 500
	// recent is how many decisions and runs a table's page shows, shownPartitions how many partitions.
	recent, shownPartitions = 50, 1000
)

// TableList is a page of tables; Next is the cursor of the next one, "" at the end.
type TableList struct {
	// Maintain says whether due jobs run; else they are only observed.
	Maintain bool       `json:"maintain"`
	Tables   []TableRow `json:"tables"`
	Next     string     `json:"next,omitempty"`
}

// TableRow is what the ledger and the history say of a table.
type TableRow struct {
	Table      string     `json:"table"`
	LookedAt   *time.Time `json:"looked_at"`
	SnapshotID int64      `json:"snapshot_id,string"`
	Partitions int        `json:"partitions"`
	// DataFiles, DataBytes, SmallFiles, DeleteFiles and DeletedRows sum up the partitions.
	DataFiles   int64 `json:"data_files"`
	DataBytes   int64 `json:"data_bytes"`
	SmallFiles  int64 `json:"small_files"`
	DeleteFiles int64 `json:"delete_files"`
	DeletedRows int64 `json:"deleted_rows"`
	Snapshots   int64 `json:"snapshots"`
	Manifests   int64 `json:"manifests"`
	// RunID is the run that holds the table, "" when it is free.
	RunID maintenance.RunID `json:"run_id,omitempty"`
	// Standing says in words how the table is and why it is so.
	Standing string `json:"standing"`
	// NextLook is when a trigger that goes by the clock may become due, ReconciledAt when the ledger was last counted anew; nil when not known.
	NextLook     *time.Time `json:"next_look"`
	ReconciledAt *time.Time `json:"reconciled_at"`
	// RunsToday and SpentMicros (this month, by the cost model) are of automatic runs.
	RunsToday   int   `json:"runs_today"`
	SpentMicros int64 `json:"spent_micros"`
	// Decision and LastRun are the newest ones, nil when there is none.
	Decision *state.Decision `json:"decision"`
	LastRun  *RunRow         `json:"last_run"`
}

// RunRow is one line of the history.
type RunRow struct {
	RunID   maintenance.RunID   `json:"run_id"`
	Started time.Time           `json:"started"`
	Ended   time.Time           `json:"ended"`
	Outcome maintenance.Outcome `json:"outcome"`
	Reason  string              `json:"reason,omitempty"`
	Jobs    []maintenance.Job   `json:"jobs"`
}

// TableView is a table with its recent past.
type TableView struct {
	TableRow

	Decisions []state.Decision `json:"decisions"`
	Runs      []RunRow         `json:"runs"`
	// Counters are those of the partitions with most small files.
	Counters []state.PartitionCounters `json:"partition_counters"`
}

// QueueView is what waits, what was refused, and what is being run.
type QueueView struct {
	Depth   local.Depth    `json:"depth"`
	Refused []local.Letter `json:"refused"`
	Dead    []local.Letter `json:"dead"`
	Runs    []string       `json:"runs"`
	Started time.Time      `json:"started"`
	// Polled is the last comparison of the catalogs' pointers, Walked the last walk through them by the clock.
	Polled Attempt `json:"polled"`
	Walked Attempt `json:"walked"`
}

// Attempt is when something was last done, and how it failed.
type Attempt struct {
	At    *time.Time `json:"at"`
	Fault string     `json:"fault,omitempty"`
}

// attempt is an Attempt that is noted in the background.
type attempt struct {
	mu   sync.Mutex
	last Attempt
}

func (a *attempt) note(at time.Time, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at = at.UTC()
	a.last = Attempt{At: &at}
	if err != nil {
		a.last.Fault = err.Error()
	}
}

func (a *attempt) read() Attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

func (s *Server) queueView() QueueView {
	return QueueView{Depth: s.queue.Depth(), Refused: s.queue.Refused(), Dead: s.queue.Dead(), Runs: s.runs.Active(), Started: s.started.UTC(), Polled: s.polled.read(), Walked: s.walked.read()}
}

// tables lists the tables that were looked at.
func (s *Server) tables(ctx context.Context, cursor string) (TableList, error) {
	out := TableList{Maintain: s.opts.Maintain, Tables: []TableRow{}}
	ids, next, err := s.state.Tables(ctx, cursor, pageTables)
	if err != nil {
		return out, fmt.Errorf("list tables: %w", err)
	}
	for _, id := range ids {
		row, _, err := s.row(ctx, id)
		if err != nil {
			return out, err
		}
		out.Tables = append(out.Tables, row)
	}
	out.Next = next
	return out, nil
}

// row reads what is known of a table, its shards beside it.
func (s *Server) row(ctx context.Context, id maintenance.TableID) (TableRow, []state.PartitionCounters, error) {
	row := TableRow{Table: id.String()}
	head, err := s.state.LoadHead(ctx, id)
	if err != nil {
		return row, nil, err
	}
	shards, err := s.state.LoadShards(ctx, id)
	if err != nil {
		return row, nil, err
	}
	row.SnapshotID, row.Snapshots, row.Manifests = head.SnapshotID, head.Snapshots, head.Manifests
	if head.LookedAtMS > 0 {
		at := time.UnixMilli(head.LookedAtMS).UTC()
		row.LookedAt = &at
	}
	row.NextLook, row.ReconciledAt = instant(head.NextLookMS), instant(head.ReconciledMS)
	now := s.deps.Now().UTC()
	if head.Spending.Month == now.Format("2006-01") {
		row.SpentMicros = head.Spending.Micros
	}
	for _, ms := range head.Spending.Runs {
		if now.Sub(time.UnixMilli(ms)) < 24*time.Hour {
			row.RunsToday++
		}
	}
	var counters []state.PartitionCounters
	for _, shard := range shards {
		counters = append(counters, shard.Partitions...)
	}
	row.Partitions = len(counters)
	for _, p := range counters {
		row.DataFiles += p.DataFiles
		row.DataBytes += p.DataBytes
		row.SmallFiles += p.SmallFiles
		row.DeleteFiles += p.PositionDeleteFiles + p.EqualityDeleteFiles + p.DeletionVectors
		row.DeletedRows += p.DeletedRows
	}
	lease, held, err := s.state.Current(ctx, id)
	if err != nil {
		return row, nil, err
	}
	if held {
		row.RunID = lease.RunID
	}
	decisions, err := s.state.Decisions(ctx, id, 1)
	if err != nil {
		return row, nil, err
	}
	if len(decisions) > 0 {
		row.Decision = &decisions[0]
	}
	runs, err := s.state.Runs(ctx, id, 1)
	if err != nil {
		return row, nil, err
	}
	if len(runs) > 0 {
		last := runRow(runs[0])
		row.LastRun = &last
	}
	row.Standing = row.standing()
	return row, counters, nil
}

// instant is a time in milliseconds since the epoch, nil for 0.
func instant(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	at := time.UnixMilli(ms).UTC()
	return &at
}

// standing is the newest decision in words.
func (r TableRow) standing() string {
	d := r.Decision
	switch {
	case r.RunID != "":
		return "a run is at work"
	case d == nil:
		return "no decision yet"
	case d.Skip != "":
		return "left alone: " + d.Skip
	case len(d.Due) == 0:
		return "nothing is due"
	case d.Action == "observe":
		return "due, and only observed"
	case d.Action == "waiting":
		return "due, waiting for a place among the runs"
	case d.Action == "pending":
		return "due, another run had the table"
	case r.LastRun != nil && r.LastRun.RunID == d.RunID:
		return "its run ended: " + string(r.LastRun.Outcome)
	}
	return "due, a run was started"
}

func runRow(r state.RunRecord) RunRow {
	out := RunRow{
		RunID: r.Run.RunID, Started: time.UnixMilli(r.StartedMS).UTC(), Ended: time.UnixMilli(r.EndedMS).UTC(),
		Outcome: r.Report.Outcome, Reason: r.Report.Reason, Jobs: []maintenance.Job{},
	}
	for _, j := range r.Request.Jobs {
		out.Jobs = append(out.Jobs, j.Job)
	}
	return out
}

// find looks a table up by its printed name.
func (s *Server) find(ctx context.Context, name string) (maintenance.TableID, error) {
	for cursor := ""; ; {
		ids, next, err := s.state.Tables(ctx, cursor, pageTables)
		if err != nil {
			return maintenance.TableID{}, fmt.Errorf("list tables: %w", err)
		}
		for _, id := range ids {
			if id.String() == name {
				return id, nil
			}
		}
		if cursor = next; cursor == "" {
			return maintenance.TableID{}, fmt.Errorf("table %q: %w: none of that name was looked at", name, errNotFound)
		}
	}
}

// table reads one table with its recent past.
func (s *Server) table(ctx context.Context, name string) (TableView, error) {
	out := TableView{Runs: []RunRow{}}
	id, err := s.find(ctx, name)
	if err != nil {
		return out, err
	}
	if out.TableRow, out.Counters, err = s.row(ctx, id); err != nil {
		return out, err
	}
	slices.SortStableFunc(out.Counters, func(a, b state.PartitionCounters) int { return cmp.Compare(b.SmallFiles, a.SmallFiles) })
	out.Counters = out.Counters[:min(len(out.Counters), shownPartitions)]
	if out.Decisions, err = s.state.Decisions(ctx, id, recent); err != nil {
		return out, err
	}
	runs, err := s.state.Runs(ctx, id, recent)
	for _, r := range runs {
		out.Runs = append(out.Runs, runRow(r))
	}
	return out, err
}

// run reads one run's record.
func (s *Server) run(ctx context.Context, id string) (state.RunRecord, error) {
	r, found, err := s.state.FindRun(ctx, maintenance.RunID(id))
	if err == nil && !found {
		err = fmt.Errorf("run %q: %w", id, errNotFound)
	}
	return r, err
}
