//go:build stress

// Package stress runs the real binary without pause on tables to which other engines commit every second: Iceberg's Java library upserts by equality
// delete and deletes by position or vector, PyIceberg appends. At the end, and once a minute, another engine than Firn reads the rows. It needs
// FIRN_PYTHON and what `make java` sets up; FIRN_STRESS_DURATION, FIRN_STRESS_CATALOG (sqlite or rest) and FIRN_STRESS_KILL (an interval at which Firn
// is killed at random) say what is run.
package stress

import (
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// leastTime is how long a run must last for its shares to mean something.
const leastTime = 5 * time.Minute

// What such a run must reach for each table: of the commit batches, landed; wasted of the bytes written; and how long a partition may hold too many files.
// The share of the rewrites of all tables that met a new delete on a replaced file says whether the run was hard enough.
const (
	leastLanded = 99.0
	leastMet    = 30.0
	mostWasted  = 5.0
	mostGap     = 60 * time.Second
)

// warmUps are the commits before the clock starts: a cold JVM takes seconds for the first.
const warmUps = 5

// setting reads a duration from the environment.
func setting(t *testing.T, name string, otherwise time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return d
}

func TestStress(t *testing.T) {
	if os.Getenv("FIRN_PYTHON") == "" {
		t.Fatal("FIRN_PYTHON is not set: run make stress")
	}
	duration, kill := setting(t, "FIRN_STRESS_DURATION", time.Minute), setting(t, "FIRN_STRESS_KILL", 0)
	kind := os.Getenv("FIRN_STRESS_CATALOG")
	l := startLake(t, kind)
	c := clock{started: time.Now(), ends: time.Now().Add(duration)}
	var scenes []*scene
	for _, version := range []int{2, 3} {
		s, err := newScene(l, c, version)
		if err != nil {
			t.Fatal(err)
		}
		for range warmUps {
			if err := first(s.upsert, s.delete); err != nil {
				t.Fatal(err)
			}
		}
		scenes = append(scenes, s)
	}
	t.Logf("catalog %s, %s, kill every %s, load %s", kind, duration, kill, load())
	c = clock{started: time.Now(), ends: time.Now().Add(duration)}
	maintainers := make([]*maintainer, len(scenes))
	var all sync.WaitGroup
	for i, s := range scenes {
		s.clock = c
		m := &maintainer{scene: s, ended: map[string]int{}, took: map[string]time.Duration{}}
		m.reset()
		maintainers[i] = m
		all.Go(func() { s.every(time.Second, s.upsert) })
		all.Go(func() { s.every(time.Second, s.delete) })
		if i == 0 { // PyIceberg writes no version 3
			all.Go(func() { s.every(time.Second, s.append) })
		}
		all.Go(s.observe)
		all.Go(m.run)
		all.Go(func() { s.checks(t) })
		if kill > 0 {
			all.Go(func() { m.killer(kill) })
		}
	}
	all.Wait()
	t.Logf("the writers have ended, load %s", load())
	var rewrites, met int
	for i, s := range scenes {
		s.finish(t, maintainers[i])
		n := s.report(t, maintainers[i], kill > 0)
		rewrites, met = rewrites+n.Rewrites, met+n.Met
	}
	t.Logf("of %d rewrites %d met new deletes (%.1f %%)", rewrites, met, share(met, rewrites))
	if got := share(met, rewrites); kill == 0 && duration >= leastTime && got < leastMet {
		t.Errorf("the writers were too tame: %.1f %% of the rewrites met a new delete, want %.0f", got, leastMet)
	}
}

func first(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// checks reads the table once a minute while everybody is at work.
func (s *scene) checks(t *testing.T) {
	for next := time.Now().Add(time.Minute); ; next = next.Add(time.Minute) {
		for time.Now().Before(next) && !s.clock.over() {
			time.Sleep(100 * time.Millisecond)
		}
		if s.clock.over() {
			return
		}
		rows, took := s.check()
		t.Logf("%s %s: %d rows read in %s, load %s", s.table, time.Since(s.clock.started).Round(time.Second), rows, took.Round(time.Millisecond), load())
	}
}

// finish reads the table as the writers left it, lets Firn end its work and sweep everything, and reads it again with two engines.
func (s *scene) finish(t *testing.T, m *maintainer) {
	t.Helper()
	s.check()
	m.reset()
	m.call("rewrite_data_files", "--option", "rewrite-all=true", "--table", s.table)
	m.call("rewrite_position_delete_files", "--option", "rewrite-all=true", "--table", s.table)
	s.audit(t)
	now := time.Now().UTC()
	at := func(d time.Duration) string { return now.Add(d).Format("2006-01-02 15:04:05") }
	m.call("expire_snapshots", "--older-than", at(time.Minute), "--retain-last", "1", "--table", s.table)
	later := now.Add(5 * 24 * time.Hour).Format(time.RFC3339)
	m.call("remove_orphan_files", "--now", later, "--older-than", at(3*24*time.Hour), "--table", s.table)
	s.check()
	left, missing, err := s.leftovers()
	if err != nil {
		s.fault("look for leftovers: %v", err)
	}
	if len(left) > 0 {
		s.fault("%d files are left that nothing reaches: %s", len(left), strings.Join(left[:min(len(left), 20)], " "))
	}
	if len(missing) > 0 {
		s.fault("%d reachable files are gone: %s", len(missing), strings.Join(missing[:min(len(missing), 20)], " "))
	}
	s.readWithPyIceberg(t)
}

// audit lets Firn prove each retained rewrite against its parent, those that carried deletes over above all.
func (s *scene) audit(t *testing.T) {
	t.Helper()
	out, err := s.lake.firn("verify", "--history", "--json", "--table", s.table).Output()
	var found struct {
		Equal, Different, Unverifiable int
		Snapshots                      []struct{ Verdict, Reason string }
	}
	if decodeErr := json.Unmarshal(out, &found); decodeErr != nil {
		s.fault("verify %s: %v: %v", s.table, err, decodeErr)
		return
	}
	t.Logf("%s: of the retained rewrites, %d are proved equal, %d cannot be verified, since their parents have expired", s.table, found.Equal, found.Unverifiable)
	if found.Different > 0 || found.Equal == 0 {
		s.fault("verify %s: %d rewrites equal, %d different: %s", s.table, found.Equal, found.Different, out[:min(len(out), 2000)])
	}
}

// readWithPyIceberg reads the table when no equality delete is left, which PyIceberg cannot read.
func (s *scene) readWithPyIceberg(t *testing.T) {
	t.Helper()
	var h health
	if err := s.lake.do(map[string]any{"do": "health", "table": s.table}, &h); err != nil {
		s.fault("look at %s: %v", s.table, err)
		return
	}
	if h.EqualityDeletes > 0 {
		s.fault("%d equality deletes are left after all files were rewritten", h.EqualityDeletes)
		return
	}
	var got struct{ Rows []readRow }
	if err := s.lake.py.ask(map[string]any{"do": "read", "table": s.table, "snapshot_id": h.SnapshotID}, &got); err != nil {
		s.fault("PyIceberg reads %s: %v", s.table, err)
		return
	}
	s.judge("PyIceberg", h.SnapshotID, s.model.copy(), got.Rows)
}

// report prints the counters, fails what missed its bound, and returns them.
func (s *scene) report(t *testing.T, m *maintainer, killed bool) counts {
	t.Helper()
	_, name, _ := strings.Cut(s.table, ".")
	n, err := countRuns(s.lake.home, name)
	if err != nil {
		t.Fatal(err)
	}
	w := &s.watch
	wasted := 100 * float64(n.Wasted) / float64(max(n.Written, 1))
	t.Logf("%s: writers: %d upserts, %d deletes by position, %d appends, %d commits repeated", s.table, s.upserts.Load(), s.deletes.Load(), s.appends.Load(),
		s.again.Load())
	t.Logf("%s: calls: %d, killed %d: %v; time %v", s.table, m.calls, m.kills, m.ended, m.took)
	t.Logf("%s: batches: %d, landed %d (%.1f %%), conflict %d, idle %d, other %d, undecided %d; %d catalog calls", s.table, n.Batches, n.Landed,
		share(n.Landed, n.decided()), n.Conflicts, n.Idle, n.Other, n.Undecided, n.Attempts)
	t.Logf("%s: rewrites: %d, met new deletes %d (%.1f %%), %d rows carried over, %d groups dropped; reasons %v", s.table, n.Rewrites, n.Met,
		share(n.Met, n.Rewrites), n.RebasedRows, n.Dropped, n.reasons)
	t.Logf("%s: files: at most %d in a partition, longest time over %d: %s, in %d looks", s.table, w.worst, policyFiles, w.gap.Round(100*time.Millisecond), w.looks)
	t.Logf("%s: bytes: writers %d in %d commits, Firn %d landed (amplification %.2f), %d written as outputs, %d wasted (%.2f %%)", s.table, w.added, w.commits,
		w.mine, w.amplification(), n.Written, n.Wasted, wasted)
	for _, f := range s.faults {
		t.Errorf("%s: %s", s.table, f)
	}
	if killed || s.clock.ends.Sub(s.clock.started) < leastTime {
		return n // few figures, or figures of runs that were not let be: they are printed, the rows and the files were judged
	}
	if got := share(n.Landed, n.decided()); got < leastLanded {
		t.Errorf("%s: %.1f %% of the batches landed: want %.0f", s.table, got, leastLanded)
	}
	if wasted > mostWasted {
		t.Errorf("%s: %.2f %% of the bytes were wasted: want at most %.0f", s.table, wasted, mostWasted)
	}
	if w.gap > mostGap {
		t.Errorf("%s: a partition was over %d files for %s: want at most %s", s.table, policyFiles, w.gap, mostGap)
	}
	return n
}
