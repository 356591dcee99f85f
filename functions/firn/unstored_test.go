package main

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"firn/internal/maintenance"
	"firn/internal/store"
)

// TestCommittedThoughNothingCanBeStored: the folder for work and state is full as soon as the commit has landed. The outcome says that it landed,
// and what could not be stored; the next run goes on from there.
func TestCommittedThoughNothingCanBeStored(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string]func(b *bench){
		"work": func(b *bench) {
			full := store.NewFaults(store.NewLocal())
			for _, object := range []string{".end.json", "/commit-0000.json", "/fate-0000-0001.json", "abandoned.json"} {
				full.Add(store.Rule{Operation: store.OpPut, Contains: object, Err: syscall.ENOSPC})
			}
			b.proc.stores["file"] = full
		},
		"commit's result only": func(b *bench) {
			b.proc.stores["file"] = store.NewFaults(store.NewLocal(), store.Rule{Operation: store.OpPut, Contains: "/commit-0000.json", Err: syscall.ENOSPC})
		},
		"state": func(b *bench) {
			b.must("call", "rewrite_data_files", "--table", "db.small_v2", "--dry-run")
			b.state(`CREATE TRIGGER full BEFORE INSERT ON firn_state WHEN NEW.sk LIKE 'run#%' BEGIN SELECT RAISE(FAIL, 'no space left on device'); END`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			ref := b.reference("small_v2")
			fill(b)
			got := b.firn("call", "rewrite_data_files", "--table", "db.small_v2", "--option", "rewrite-all=true", "--json")
			object := b.object(got)
			if got.code != exitDone || object["outcome"] != string(maintenance.Committed) || object["snapshot_id"] == nil {
				t.Errorf("exit %d: %s%s", got.code, got.stdout, got.stderr)
			}
			if reason, _ := object["reason"].(string); !strings.Contains(reason, "no space left on device") && name != "commit's result only" {
				t.Errorf("reason %q does not say what could not be stored", reason)
			}
			if name == "state" { // what the run did is told before another one may begin
				if full := b.firn("call", "rewrite_data_files", "--table", "db.small_v2"); full.code == exitDone || !strings.Contains(full.stderr, "make room there, then run again") {
					t.Errorf("a run on a full disk: exit %d: %s", full.code, full.stderr)
				}
				b.state(`DROP TRIGGER full`)
			}
			delete(b.proc.stores, "file")
			if again := b.firn("call", "rewrite_data_files", "--table", "db.small_v2"); again.code != exitDone {
				t.Errorf("the next run: exit %d: %s%s", again.code, again.stdout, again.stderr)
			}
			for path := range b.live("db.small_v2", "") {
				if _, err := ref.Store.Head(context.Background(), path); err != nil {
					t.Errorf("live file: %v", err)
				}
			}
		})
	}
}

// state changes the state's database.
func (b *bench) state(statement string) {
	b.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(b.proc.dir, "home", "state.db"))
	if err == nil {
		_, err = db.Exec(statement)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
