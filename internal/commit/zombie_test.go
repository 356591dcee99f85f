package commit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"

	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/lake/catalogs/catalogtest"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
	"firn/internal/store"
	"firn/internal/sweep"
)

// freezer stops before and after each call of a committer, one of which lets the run's sweep happen.
type freezer struct {
	committer.Committer
	at, n int
	sweep func()
}

func (f *freezer) point() {
	if f.n == f.at {
		f.sweep()
	}
	f.n++
}

func (f *freezer) Head(ctx context.Context, id maintenance.TableID) (*lake.Table, error) {
	f.point()
	return f.Committer.Head(ctx, id)
}

func (f *freezer) Commit(ctx context.Context, base *lake.Table, c committer.Change) (committer.Result, error) {
	f.point()
	r, err := f.Committer.Commit(ctx, base, c)
	f.point()
	return r, err
}

// TestZombieAndSweep freezes a commit at each of its steps in turn, lets the run's sweep close the logs and delete what it may, and thaws it. On no
// catalog a live file is deleted or a row lost, and a later execution of commit agrees.
func TestZombieAndSweep(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"memory", "sqlite", "service", "rest", "glue"} {
		t.Run(kind, func(t *testing.T) {
			for at := 0; ; at++ {
				x, before := ready(t)
				cat := x.catalog(kind)
				c, err := committer.New(cat, x.world.Store, committer.Options{Now: x.world.Clock.Now})
				x.check(err)
				if kind == "service" {
					c = &served{Committer: c}
				}
				f := &freezer{Committer: c, at: at, sweep: func() { x.sweepRun(cat) }}
				out, err := x.function(nil, f).Handle(context.Background(), x.input())
				if f.n <= at {
					break
				}
				landed := err == nil && out.Outcome == maintenance.Committed
				if !landed && !errors.Is(err, ErrAbandoned) {
					t.Errorf("frozen at %d: %+v, %v: want committed or abandoned", at, out, err)
				}
				x.whole(cat, before)
				again, err := x.function(nil, c).Handle(context.Background(), x.input())
				if landed && (err != nil || again.Outcome != maintenance.Committed) || !landed && !errors.Is(err, ErrAbandoned) {
					t.Errorf("frozen at %d, then again: %+v, %v: the first execution said %+v", at, again, err, out)
				}
				x.sweepRun(cat)
				x.whole(cat, before)
			}
		})
	}
}

// TestZombieAndResult freezes a commit at each of its steps in turn. Meanwhile main is rolled back to before the group's files, a second execution finds them
// gone and writes the batch's result, and main is set to the newer snapshot again: what the first one does then, it does not land behind that result.
func TestZombieAndResult(t *testing.T) {
	t.Parallel()
	for at := 0; ; at++ {
		x := newFixture(t)
		oldest := x.table.Commit(icebergtest.Append(icebergtest.Row{9, "z", 0.5})).Snapshot.SnapshotID
		paths := x.small(4)
		before, newest := x.rows(), x.head().SnapshotID
		x.pin(false, paths[:3])
		x.compact()
		c, err := committer.New(x.world.Catalog, x.world.Store, committer.Options{Now: x.world.Clock.Now})
		x.check(err)
		x.world.At(time.Now()) // the library dates a moved ref by the real clock
		f := &freezer{Committer: c, at: at}
		var second maintenance.CommitOutput
		f.sweep = func() {
			if x.ours() > 0 {
				return // it landed
			}
			x.table.Branch(table.MainBranch, oldest)
			var err error
			second, err = x.function(nil, c).Handle(context.Background(), x.input())
			x.check(err)
			x.table.Branch(table.MainBranch, newest)
		}
		out, err := x.function(nil, f).Handle(context.Background(), x.input())
		if f.n <= at {
			break
		}
		x.check(err)
		if second.Outcome != "" && (out != second || x.ours() > 0) {
			t.Errorf("frozen at %d: %+v, %d snapshots of ours: the second execution had said %+v", at, out, x.ours(), second)
		}
		if after := x.rows(); !slices.Equal(before, after) {
			t.Errorf("frozen at %d: rows changed: %q, %q", at, before, after)
		}
	}
}

// catalog is a catalog of that kind with the fixture's table.
func (x *fixture) catalog(kind string) catalogs.Catalog {
	x.t.Helper()
	var props map[string]string
	switch kind {
	case "sqlite":
		path := filepath.Join(x.t.TempDir(), fmt.Sprint("catalog-", time.Now().UnixNano(), ".db"))
		props = map[string]string{"type": "sql", "uri": "sqlite:///" + path, "warehouse": "s3://world"}
	case "rest":
		props = map[string]string{"type": "rest", "uri": catalogtest.NewRESTServer(x.t, x.world.Store).URL}
	case "glue":
		props = map[string]string{
			"type": "glue", "glue.endpoint": catalogtest.NewGlueServer(x.t).URL, "glue.region": "eu-west-1", "glue.access-key-id": "a",
			"glue.secret-access-key": "b",
		}
	default:
		return x.world.Catalog
	}
	cat, err := catalogs.Open(context.Background(), "", props)
	x.check(err)
	x.check(cat.(catalogs.Registrar).Register(context.Background(), x.table.ID, x.table.Pointer().MetadataLocation))
	return cat
}

// sweepRun does what the state machine does at the end of every run.
func (x *fixture) sweepRun(cat catalogs.Catalog) {
	x.t.Helper()
	fn := sweep.New(sweep.Deps{
		Catalog: func(context.Context, string) (catalogs.Catalog, store.Full, error) { return cat, x.world.Store, nil },
		Work:    x.world.Store, WorkLocation: workLocation, Now: x.world.Clock.Now,
		NewAttempt: func() string { return fmt.Sprint(time.Now().UnixNano()) }, Log: slog.New(slog.DiscardHandler),
	})
	_, err := fn.Handle(context.Background(), maintenance.SweepInput{V: 1, Step: maintenance.SweepAbandon, Run: x.run})
	x.check(err)
}

// whole wants every live file of the head to exist and the rows to be as before.
func (x *fixture) whole(cat catalogs.Catalog, before []string) {
	x.t.Helper()
	ctx := context.Background()
	state, err := lake.Load(ctx, cat, x.world.Store, x.table.ID)
	x.check(err)
	manifests, err := lake.Manifests(ctx, x.world.Store, state.Metadata.CurrentSnapshot())
	x.check(err)
	for _, m := range manifests {
		for e, err := range lake.Entries(ctx, x.world.Store, m, lake.EntryOptions{}) {
			x.check(err)
			if _, err := x.world.Store.Head(ctx, e.File.FilePath()); err != nil {
				x.t.Errorf("live file: %v", err)
			}
		}
	}
	after := x.texts(x.read(state))
	sort.Strings(after)
	if !slices.Equal(before, after) {
		x.t.Errorf("rows changed:\n before %q\n after  %q", before, after)
	}
}

// TestMergeZombieAndSweep freezes a rewrite of manifests at each call of the catalog while sweep ends the run: either it landed whole, or never.
func TestMergeZombieAndSweep(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"memory", "service"} {
		for at := 0; ; at++ {
			x := newFixture(t)
			x.small(4)
			before := x.rows()
			x.planManifests()
			c, err := committer.New(x.world.Catalog, x.world.Store, committer.Options{Now: x.world.Clock.Now})
			x.check(err)
			if kind == "service" {
				c = &served{Committer: c}
			}
			f := &freezer{Committer: c, at: at, sweep: func() { x.sweepRun(x.world.Catalog) }}
			out, err := x.mergeWith(nil, f)
			if f.n <= at {
				break
			}
			landed := err == nil && out.Outcome == maintenance.Committed
			if !landed && !errors.Is(err, ErrAbandoned) {
				t.Errorf("%s frozen at %d: %+v, %v: want committed or abandoned", kind, at, out, err)
			}
			x.whole(x.world.Catalog, before)
			again, err := x.mergeWith(nil, c)
			if landed && (err != nil || again.Outcome != maintenance.Committed) || !landed && !errors.Is(err, ErrAbandoned) {
				t.Errorf("%s frozen at %d, then again: %+v, %v: the first execution said %+v", kind, at, again, err, out)
			}
			x.sweepRun(x.world.Catalog)
			x.whole(x.world.Catalog, before)
		}
	}
}
