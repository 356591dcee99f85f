// Package telemetry writes what operators read: structured logs through slog, and metrics as lines in CloudWatch's embedded metric format, which
// any log reader can parse too. Dimensions are function and job (where there is one), never the table (cost); the table is a plain field of the line.
package telemetry

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"firn/internal/contract"
	"firn/internal/maintenance"
)

// Unit is a unit of CloudWatch metrics.
type Unit string

// The units in use.
const (
	Count        Unit = "Count"
	Bytes        Unit = "Bytes"
	Milliseconds Unit = "Milliseconds"
)

// Metric is one number.
type Metric struct {
	Name  string
	Unit  Unit
	Value float64
}

// Sink takes metrics of one step.
type Sink interface {
	// Emit writes the metrics of one job of one table as one line.
	Emit(at time.Time, table maintenance.TableID, job maintenance.Job, metrics []Metric) error
}

// EMF writes lines in embedded metric format. It may be used concurrently.
type EMF struct {
	mu  sync.Mutex
	out io.Writer
	// function is the value of the dimension "function".
	function string
}

// NewEMF returns a sink that writes to out.
func NewEMF(out io.Writer, function string) *EMF { return &EMF{out: out, function: function} }

// Emit implements Sink.
func (e *EMF) Emit(at time.Time, table maintenance.TableID, job maintenance.Job, metrics []Metric) error {
	type definition struct {
		Name string `json:"Name"`
		Unit Unit   `json:"Unit"`
	}
	type directive struct {
		Namespace  string       `json:"Namespace"`
		Dimensions [][]string   `json:"Dimensions"`
		Metrics    []definition `json:"Metrics"`
	}
	definitions := make([]definition, 0, len(metrics))
	line, dimensions := map[string]any{"function": e.function, "table": table.String()}, []string{"function"}
	if job != "" { // CloudWatch drops a metric whose dimension has no value
		line["job"], dimensions = string(job), append(dimensions, "job")
	}
	for _, m := range metrics {
		definitions = append(definitions, definition{m.Name, m.Unit})
		line[m.Name] = m.Value
	}
	line["_aws"] = map[string]any{
		"Timestamp":         at.UnixMilli(),
		"CloudWatchMetrics": []directive{{contract.MetricNamespace, [][]string{dimensions}, definitions}},
	}
	data, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("encode metrics of %s: %w", table, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	_, err = e.out.Write(append(data, '\n'))
	return err
}

// Discard drops metrics.
type Discard struct{}

// Emit implements Sink.
func (Discard) Emit(time.Time, maintenance.TableID, maintenance.Job, []Metric) error { return nil }

// NewLogger returns a logger that writes text or JSON lines.
func NewLogger(out io.Writer, asJSON bool, level slog.Level) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if asJSON {
		return slog.New(slog.NewJSONHandler(out, opts))
	}
	return slog.New(slog.NewTextHandler(out, opts))
}

// Counts turns result columns into metrics, in a fixed order.
func Counts(columns map[string]int64) []Metric {
	metrics := make([]Metric, 0, len(columns))
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		unit := Count
		if name == "rewritten_bytes_count" {
			unit = Bytes
		}
		metrics = append(metrics, Metric{Name: name, Unit: unit, Value: float64(columns[name])})
	}
	return metrics
}
