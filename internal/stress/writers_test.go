//go:build stress

package stress

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// scene is one table under stress: what it must hold, and what was counted.
type scene struct {
	lake  *lake
	clock clock
	table string
	model *model
	// busy is held for reading by each commit of a writer, and for writing to know what the table must hold at one snapshot.
	busy sync.RWMutex

	upserts, deletes, appends atomic.Int64
	// again counts writers' commits that met another one and were repeated by the writer.
	again atomic.Int64
	watch watch

	mu     sync.Mutex
	faults []string
}

// fault notes what must not happen.
func (s *scene) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.faults) < 50 {
		s.faults = append(s.faults, time.Now().Format("15:04:05 ")+fmt.Sprintf(format, args...))
	}
}

// base is the number of rows that a table has before the writers start.
const base = 20000

// newScene makes a table partitioned by g.
func newScene(l *lake, c clock, version int) (*scene, error) {
	s := &scene{lake: l, clock: c, table: fmt.Sprintf("db.v%d", version), model: newModel(uint64(version))}
	var fields []map[string]any
	for i, name := range []string{"id", "g", "v", "pad"} {
		kind := "long"
		if name == "pad" {
			kind = "string"
		}
		fields = append(fields, map[string]any{"id": i + 1, "name": name, "type": kind, "required": false})
	}
	schema := map[string]any{"type": "struct", "fields": fields}
	properties := map[string]string{
		"format-version": fmt.Sprint(version), "write.target-file-size-bytes": "262144",
		"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "10",
		"commit.retry.num-retries": "30", "commit.retry.min-wait-ms": "20", "commit.retry.max-wait-ms": "500",
	}
	err := l.do(map[string]any{"do": "create", "table": s.table, "schema": schema, "partition": []string{"g"}, "properties": properties}, &struct{}{})
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", s.table, err)
	}
	var rows []row
	for _, id := range s.model.fresh(base) {
		rows = append(rows, rowOf(id, 1))
	}
	if err := l.do(map[string]any{"do": "upsert", "table": s.table, "rows": rows}, &struct{}{}); err != nil {
		return nil, fmt.Errorf("fill %s: %w", s.table, err)
	}
	s.model.put(rows)
	return s, nil
}

// every calls do again and again until the run is over; calls never overlap.
func (s *scene) every(interval time.Duration, do func() error) {
	for !s.clock.over() {
		next := time.Now().Add(interval)
		s.busy.RLock()
		err := do()
		s.busy.RUnlock()
		if err != nil {
			s.fault("writer: %v", err)
			return // what the table must hold is not known any more
		}
		time.Sleep(time.Until(next))
	}
}

// upsert commits equality deletes of living keys with their new rows, and some rows that are new.
func (s *scene) upsert() error {
	old := s.model.alive(4, 0)
	var rows []row
	for _, id := range old {
		rows = append(rows, rowOf(id, s.model.version(id)+1))
	}
	for _, id := range s.model.fresh(8) {
		rows = append(rows, rowOf(id, 1))
	}
	keys := make([][]int64, len(old))
	for i, id := range old {
		keys[i] = []int64{id}
	}
	command := map[string]any{"do": "upsert", "table": s.table, "columns": []string{"id"}, "keys": keys, "rows": rows}
	if err := s.definite(command, &struct{}{}); err != nil {
		return fmt.Errorf("upsert: %w", err)
	}
	s.model.put(rows)
	s.upserts.Add(1)
	return nil
}

// delete deletes living rows by position, from files that are about to be rewritten and from old ones. The writer must find each of them once.
func (s *scene) delete() error {
	ids := s.model.alive(8, 1)
	var answer struct{ Rows, Again int64 }
	command := map[string]any{"do": "delete", "table": s.table, "column": "id", "keys": ids, "together": s.deletes.Load()%2 == 0}
	if err := s.definite(command, &answer); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	s.again.Add(answer.Again)
	if answer.Rows != int64(len(ids)) {
		s.fault("the writer found %d rows to delete of %d: %v", answer.Rows, len(ids), ids)
	}
	s.model.remove(ids)
	s.deletes.Add(1)
	return nil
}

// definite repeats a command that other commits outran for good.
func (s *scene) definite(command map[string]any, answer any) error {
	for tries := 0; ; tries++ {
		err := s.lake.do(command, answer)
		outrun := err != nil && (strings.HasPrefix(err.Error(), "CommitFailedException") || strings.HasPrefix(err.Error(), "ValidationException"))
		if !outrun || tries == 20 {
			return err
		}
		s.again.Add(1)
	}
}

// append lets PyIceberg append rows.
func (s *scene) append() error {
	var rows []row
	for _, id := range s.model.fresh(6) {
		rows = append(rows, rowOf(id, 1))
	}
	var answer struct{ Again int64 }
	if err := s.lake.py.ask(map[string]any{"do": "append", "table": s.table, "rows": rows}, &answer); err != nil {
		return fmt.Errorf("append with PyIceberg: %w", err)
	}
	s.again.Add(answer.Again)
	s.model.put(rows)
	s.appends.Add(1)
	return nil
}

// check lets Iceberg's Java library read the table at a snapshot at which it is known what the table must hold.
func (s *scene) check() (rows int, took time.Duration) {
	s.busy.Lock()
	var h health
	err := s.lake.do(map[string]any{"do": "health", "table": s.table}, &h)
	want := s.model.copy()
	s.busy.Unlock()
	started := time.Now()
	var got struct{ Rows []readRow }
	if err == nil {
		command := map[string]any{"do": "rows", "table": s.table, "snapshot_id": h.SnapshotID, "columns": []string{"id", "g", "v", "pad"}}
		err = s.lake.do(command, &got)
	}
	if err != nil {
		s.fault("read %s: %v", s.table, err)
		return 0, 0
	}
	s.judge("Iceberg's Java library", h.SnapshotID, want, got.Rows)
	return len(got.Rows), time.Since(started)
}

// judge notes what an engine read wrong.
func (s *scene) judge(engine string, snapshot int64, want map[int64]int64, got []readRow) {
	d := compare(want, got)
	if !d.none() {
		s.fault("%s at snapshot %d of %s, %d rows: lost %d, doubled %d, resurrected %d, wrong %d: %s", engine, snapshot, s.table, len(got), d.Lost, d.Doubled,
			d.Resurrected, d.Wrong, strings.Join(d.examples, "; "))
	}
}

// watch follows a table's health.
type watch struct {
	mu sync.Mutex
	// inside is when the number of files was last seen inside the policy; gap the longest time between two such looks, worst the most files of a partition.
	inside time.Time
	gap    time.Duration
	worst  int
	looks  int
	// added are bytes by who added them, of the snapshots that were seen.
	seen        map[string]bool
	added, mine int64
	commits     int
}

// policyFiles is the number of data files that a partition may have: what the writers of a minute add is ten times as much.
const policyFiles = 30

// look takes one look at a table.
func (w *watch) look(h health, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen == nil {
		w.seen, w.inside = map[string]bool{}, now
	}
	w.looks++
	w.worst = max(w.worst, h.most())
	w.gap = max(w.gap, now.Sub(w.inside))
	if h.most() <= policyFiles {
		w.inside = now
	}
	for id, summary := range h.Snapshots {
		if w.seen[id] {
			continue
		}
		w.seen[id] = true
		bytes := number(summary["added-files-size"])
		if summary["firn.run-id"] == "" {
			w.added += bytes
			w.commits++
		} else {
			w.mine += bytes
		}
	}
}

func number(text string) int64 {
	var n int64
	if _, err := fmt.Sscan(text, &n); err != nil {
		return 0
	}
	return n
}

// amplification is how many bytes Firn wrote for each byte of the writers.
func (w *watch) amplification() float64 {
	if w.added == 0 {
		return math.NaN()
	}
	return float64(w.mine) / float64(w.added)
}

// observe looks at the table until the run is over.
func (s *scene) observe() {
	for !s.clock.over() {
		var h health
		if err := s.lake.do(map[string]any{"do": "health", "table": s.table}, &h); err != nil {
			s.fault("look at %s: %v", s.table, err)
			return
		}
		s.watch.look(h, time.Now())
		time.Sleep(2 * time.Second)
	}
}
