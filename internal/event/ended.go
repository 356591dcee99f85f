package event

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"firn/internal/contract"
	"firn/internal/maintenance"
)

// maxEndedText bounds each text of a RunEnded event in bytes; the whole then stays within one billed unit of EventBridge (64 KB).
const maxEndedText = 1024

// RunEnded is what subscribers are told when a run has ended: the public form of a run's outcome
// (events/schemas/firn-run-ended.schema.json). Times are instants, written in UTC.
type RunEnded struct {
	Request maintenance.Request
	Report  maintenance.ReportOutput
	// StartedAt and EndedAt are as in the history.
	StartedAt, EndedAt time.Time
	// CostMicros is the cost by the cost model, in millionths of a dollar.
	CostMicros int64
}

// endedWire is the detail of the event. Field order is the wire order.
type endedWire struct {
	V          int                 `json:"v"`
	RunID      maintenance.RunID   `json:"run_id"`
	Catalog    string              `json:"catalog"`
	Namespace  []string            `json:"namespace"`
	Table      string              `json:"table"`
	TableUUID  string              `json:"table_uuid"`
	Outcome    maintenance.Outcome `json:"outcome"`
	Reason     string              `json:"reason,omitempty"`
	Error      string              `json:"error,omitempty"`
	Trigger    string              `json:"trigger"`
	Automatic  bool                `json:"automatic"`
	DryRun     bool                `json:"dry_run"`
	StartedAt  string              `json:"started_at"`
	EndedAt    string              `json:"ended_at"`
	CostMicros int64               `json:"modelled_cost_micros"`
	Jobs       []endedJob          `json:"jobs"`
}

type endedJob struct {
	Job        maintenance.Job     `json:"job"`
	Outcome    maintenance.Outcome `json:"outcome"`
	Reason     string              `json:"reason,omitempty"`
	SnapshotID string              `json:"snapshot_id,omitempty"`
	Columns    map[string]int64    `json:"columns,omitempty"`
	Refusals   int                 `json:"refusals,omitempty"`
}

// EncodeEnded writes the detail of the event contract.EventRunEnded. Lists of files and plans stay in the work location.
func EncodeEnded(e RunEnded) ([]byte, error) {
	run := e.Report.Run
	wire := endedWire{
		V: 1, RunID: run.RunID, Catalog: run.Table.Catalog, Namespace: run.Table.Namespace.Levels(), Table: run.Table.Name, TableUUID: run.TableUUID,
		Outcome: e.Report.Outcome, Reason: shortened(e.Report.Reason), Error: shortened(e.Report.Error), Trigger: e.Request.Trigger,
		Automatic: e.Request.Automatic, DryRun: e.Request.DryRun, StartedAt: instant(e.StartedAt), EndedAt: instant(e.EndedAt), CostMicros: e.CostMicros,
		Jobs: []endedJob{},
	}
	for _, j := range e.Report.Jobs {
		job := endedJob{Job: j.Job, Outcome: j.Outcome, Reason: shortened(j.Reason), Columns: j.Columns, Refusals: len(j.Refusals)}
		if j.SnapshotID != 0 {
			job.SnapshotID = strconv.FormatInt(j.SnapshotID, 10)
		}
		wire.Jobs = append(wire.Jobs, job)
	}
	data, err := json.Marshal(wire)
	if err != nil {
		return nil, fmt.Errorf("encode %s of %s: %w", contract.EventRunEnded, run.RunID, err)
	}
	return data, nil
}

func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func shortened(text string) string { return maintenance.Shortened(text, maxEndedText) }
