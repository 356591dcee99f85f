package serve

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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
}

func (s *Server) queueView() QueueView {
	return QueueView{Depth: s.queue.Depth(), Refused: s.queue.Refused(), Dead: s.queue.Dead(), Runs: s.runs.Active(), Started: s.started.UTC()}
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
	return row, counters, nil
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
