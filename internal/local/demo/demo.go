// Package demo makes a lake on this machine, lets it decay the way streaming writers let lakes decay, and has Firn heal it: the same queue, the same
// functions and the same state machine as anywhere else, over a SQLite catalog and local files. Nothing is faked but time, which passes faster: the
// lake's clock is moved, and files carry its time. Before and after are measured by a reader that shares no reading code with Firn's rewriting, and
// the rows must be the same to the last bit.
package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"firn/internal/commit"
	"firn/internal/commit/alter"
	"firn/internal/event"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
	"firn/internal/schedule"
)

// Options say how large the lake is and where it lies.
type Options struct {
	// Dir is the folder; it must not hold a lake yet.
	Dir string
	// Days are day partitions, each gets CommitsPerDay commits of RowsPerCommit rows in one file a task of the writer.
	Days, CommitsPerDay, RowsPerCommit int
	// Now is the real clock: the lake's time ends there. Required.
	Now func() time.Time
	// Say gets one line for each thing that happens; nil for nobody.
	Say func(line string)
	Log *slog.Logger
}

// Defaults fills in a lake of some hundred files.
func (o Options) Defaults() Options {
	if o.Days == 0 {
		o.Days = 12
	}
	if o.CommitsPerDay == 0 {
		o.CommitsPerDay = 10
	}
	if o.RowsPerCommit == 0 {
		o.RowsPerCommit = 1000
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Result is what happened.
type Result struct {
	Table maintenance.TableID
	// ConfigFile is the firn.yaml with which the command line reaches the lake.
	ConfigFile string
	// Before is the table before its first maintenance, Healed right after it, After a week later.
	Before, Healed, After Measure
	// Reports are those of the runs.
	Reports []maintenance.ReportOutput
	// Differences name what differs between the rows before and after; none is the proof.
	Differences []string
}

// rest is how long the lake lies still after it was healed: more than the five days after which snapshots expire, and the seven between searches
// for orphans.
const rest = 8 * 24 * time.Hour

// batchWindow is how many events are handled together, as a queue's batch window does.
const batchWindow = 10

// story is one demo in progress.
type story struct {
	opts   Options
	place  *place
	writer *Writer
	id     maintenance.TableID
	result Result
	// crashes counts data files of writers that died.
	crashes int
}

// Run makes the lake, heals it and measures. An error means that something did not work; whether the rows are the same stands in Differences.
func Run(ctx context.Context, opts Options) (result Result, err error) {
	s := &story{opts: opts.Defaults(), id: maintenance.TableID{Catalog: catalogName, Namespace: maintenance.NewNamespace("shop"), Name: "events"}}
	clock := &Clock{}
	clock.Set(s.opts.Now().Add(-rest - time.Duration(s.opts.Days)*24*time.Hour))
	if s.place, err = build(ctx, s.opts.Dir, clock, s.opts.Log); err != nil {
		return Result{}, err
	}
	defer func() {
		if closeErr := s.place.clients.Close(); err == nil {
			err = closeErr
		}
	}()
	s.result.Table, s.result.ConfigFile = s.id, s.place.dir+"/firn.yaml"
	for _, chapter := range []func(context.Context) error{s.decay, s.heal, s.wait} {
		if err := chapter(ctx); err != nil {
			return s.result, err
		}
	}
	s.result.Differences = s.result.After.Content.Differences(s.result.Before.Content)
	for _, d := range s.result.Healed.Content.Differences(s.result.Before.Content) {
		s.result.Differences = append(s.result.Differences, "right after the rewrite: "+d)
	}
	return s.result, nil
}

func (s *story) say(format string, args ...any) { s.opts.Say(fmt.Sprintf(format, args...)) }

// decay lets the writer write while Firn only observes.
func (s *story) decay(ctx context.Context) (err error) {
	location := "file://" + s.place.dir + "/warehouse/shop/events"
	if s.writer, err = newWriter(ctx, s.place.lake, s.id, location, s.place.clock.Now); err != nil {
		return err
	}
	commits := s.opts.Days * s.opts.CommitsPerDay
	s.say("a writer commits %d micro-batches over %d days; Firn gets an event for each, and observes", commits-1, s.opts.Days)
	step := 24 * time.Hour / time.Duration(s.opts.CommitsPerDay)
	for n := range commits - 1 {
		s.place.clock.Set(s.place.clock.Now().Add(step))
		if err := s.batch(ctx, n); err != nil {
			return err
		}
		if n%batchWindow == 0 {
			if err := s.drain(ctx); err != nil {
				return err
			}
		}
	}
	if err := s.abortUpload(ctx); err != nil {
		return err
	}
	if err := s.drain(ctx); err != nil {
		return err
	}
	s.say("writers died before their commit; %d files of theirs lie around", s.crashes)
	return s.tellDecision(ctx)
}

// batch commits one micro-batch and sends its event. Now and then rows come late, rows are deleted, and a writer dies.
func (s *story) batch(ctx context.Context, n int) error {
	b := batch{rows: s.opts.RowsPerCommit, late: n%4 == 3}
	if n%3 == 2 {
		b.deletes = 8
	}
	if n%8 == 7 {
		paths, err := s.writer.crash(ctx, s.opts.RowsPerCommit)
		if err != nil {
			return err
		}
		s.crashes += len(paths)
	}
	snap, err := s.writer.write(ctx, b)
	if err != nil {
		return err
	}
	return s.sendEvent(ctx, snap.SnapshotID)
}

// sendEvent puts the writer's public event on the queue, as EventBridge delivers it.
func (s *story) sendEvent(ctx context.Context, snapshotID int64) error {
	body, err := json.Marshal(map[string]any{
		"version": "0", "id": uuid.NewString(), "detail-type": event.DetailType, "source": "demo.writer",
		"time": s.place.clock.Now().UTC().Format(time.RFC3339),
		"detail": map[string]any{
			"v": 1, "event_id": uuid.NewString(), "catalog": s.id.Catalog, "namespace": s.id.Namespace, "table": s.id.Name,
			"table_uuid": s.writer.table.Metadata.TableUUID(), "snapshot_id": fmt.Sprint(snapshotID),
		},
	})
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	return s.place.twin.Send(ctx, body)
}

// abortUpload leaves the temporary file of a writer that died within a write.
func (s *story) abortUpload(ctx context.Context) error {
	location := s.writer.table.Metadata.Location() + "/data/died-within-a-write.parquet"
	upload, err := s.place.lake.Store.Create(ctx, location, writeNew())
	if err != nil {
		return err
	}
	if _, err := upload.Write(make([]byte, 1000)); err != nil {
		return err
	}
	for u, err := range s.place.lake.Store.Uploads(ctx, s.writer.table.Metadata.Location()+"/") {
		if err != nil {
			return err
		}
		at := s.place.clock.Now()
		if err := os.Chtimes(u.ID, at, at); err != nil {
			return err
		}
	}
	s.crashes++
	return nil
}

// drain handles the queue.
func (s *story) drain(ctx context.Context) error {
	reports, err := s.place.twin.Drain(ctx)
	if err != nil {
		return fmt.Errorf("handle events: %w", err)
	}
	for _, r := range reports {
		s.tellRun(r)
	}
	s.result.Reports = append(s.result.Reports, reports...)
	return nil
}

// heal lets Firn maintain the table: the next commit's event starts a run.
func (s *story) heal(ctx context.Context) error {
	c, err := committer.New(s.place.lake.Catalog, s.place.lake.Store, committer.Options{Now: s.place.clock.Now})
	if err != nil {
		return err
	}
	s.say("ALTER TABLE %s SET TBLPROPERTIES ('firn.mode' = 'maintain')", s.id)
	change := alter.Properties{Set: map[string]string{"firn.mode": "maintain"}}
	if err := alter.Commit(ctx, commit.Port{Committer: c, Store: s.place.lake.Store}, s.id, change); err != nil {
		return err
	}
	if s.writer.table, err = c.Head(ctx, s.id); err != nil {
		return err
	}
	s.place.clock.Set(s.opts.Now().Add(-rest))
	if err := s.batch(ctx, 0); err != nil {
		return err
	}
	if s.result.Before, err = measure(ctx, s.place.lake, s.id, s.opts.Now); err != nil {
		return err
	}
	s.say("one more commit, one more event:")
	if err := s.drain(ctx); err != nil {
		return err
	}
	s.result.Healed, err = measure(ctx, s.place.lake, s.id, s.opts.Now)
	return err
}

// wait lets a week pass; nobody commits. The schedule finds the table, and what the first run had to keep for readers goes.
func (s *story) wait(ctx context.Context) error {
	s.place.clock.Set(s.opts.Now())
	s.say("%d quiet days later the schedule looks at the table:", rest/(24*time.Hour))
	st, err := s.place.clients.State(ctx)
	if err != nil {
		return err
	}
	scheduled := schedule.New(schedule.Deps{
		Catalog: s.place.reader, Catalogs: []string{catalogName}, State: st, Queue: s.place.twin, Every: 24 * time.Hour,
		Now: s.place.clock.Now, Log: s.opts.Log,
	})
	if _, err := scheduled.Handle(ctx, nil); err != nil {
		return err
	}
	if err := s.drain(ctx); err != nil {
		return err
	}
	s.result.After, err = measure(ctx, s.place.lake, s.id, s.opts.Now)
	return err
}

// tellDecision tells the last decision of evaluate.
func (s *story) tellDecision(ctx context.Context) error {
	st, err := s.place.clients.State(ctx)
	if err != nil {
		return err
	}
	decisions, err := st.Decisions(ctx, s.id, 1)
	if err != nil || len(decisions) == 0 {
		return err
	}
	for _, reason := range decisions[0].Reasons {
		s.say("  evaluate: %s", reason)
	}
	return nil
}

// tellRun tells what a run did.
func (s *story) tellRun(r maintenance.ReportOutput) {
	s.say("  run %s: %s", r.Run.RunID, strings.TrimSpace(string(r.Outcome)+" "+r.Reason))
	for _, j := range r.Jobs {
		var figures []string
		for _, name := range slices.Sorted(maps.Keys(j.Columns)) {
			if n := j.Columns[name]; n != 0 {
				figures = append(figures, fmt.Sprintf("%s=%d", name, n))
			}
		}
		s.say("    %s: %s", j.Job, strings.Join(slices.DeleteFunc([]string{string(j.Outcome), j.Reason, strings.Join(figures, " ")}, empty), " "))
	}
}

func empty(text string) bool { return text == "" }
