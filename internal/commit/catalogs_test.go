package commit

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/lake/catalogs/catalogtest"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
)

// armed is a catalog of that kind with the fixture's table, whose next commit meets the fault that is armed.
func (x *fixture) armed(kind string) (cat catalogs.Catalog, arm func(catalogtest.Fault)) {
	x.t.Helper()
	open := func(props map[string]string) catalogs.Catalog {
		c, err := catalogs.Open(context.Background(), "", props)
		x.check(err)
		return c
	}
	type local interface {
		catalogs.Catalog
		catalogs.Registrar
		catalogs.Swapper
	}
	switch kind {
	case "rest":
		server := catalogtest.NewRESTServer(x.t, x.world.Store)
		cat, arm = open(map[string]string{"type": "rest", "uri": server.URL}), server.Arm
	case "glue":
		server := catalogtest.NewGlueServer(x.t)
		cat, arm = open(map[string]string{
			"type": "glue", "glue.endpoint": server.URL, "glue.region": "eu-west-1", "glue.access-key-id": "a", "glue.secret-access-key": "b",
		}), server.Arm
	case "sqlite":
		file := filepath.Join(x.t.TempDir(), "catalog.db")
		cat, arm = catalogtest.Disturb(open(map[string]string{"type": "sql", "uri": "sqlite:///" + file, "warehouse": "s3://world"}).(local))
	default:
		cat, arm = catalogtest.Disturb(catalogs.NewMemory(""))
	}
	x.check(cat.(catalogs.Registrar).Register(context.Background(), x.table.ID, x.table.Pointer().MetadataLocation))
	return cat, arm
}

// snapshotsOf counts the snapshots of the batch in a catalog's table.
func (x *fixture) snapshotsOf(cat catalogs.Catalog) int {
	x.t.Helper()
	state, err := lake.Load(context.Background(), cat, x.world.Store, x.table.ID)
	x.check(err)
	n := 0
	for _, s := range state.Metadata.Snapshots() {
		if s.Summary != nil && s.Summary.Properties["firn.run-id"] == string(x.run.RunID) {
			n++
		}
	}
	return n
}

// TestFaultsOfEachCatalog: whatever happens to the call of a commit, with deletes to carry over, the batch lands exactly once, or is refused where the
// catalog refused. The process may die at the fault: the next one settles what the first one left.
func TestFaultsOfEachCatalog(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"memory", "sqlite", "rest", "glue"} {
		for _, fault := range catalogtest.Faults() {
			for _, dies := range []bool{false, true} {
				if dies && (kind == "memory" || fault == catalogtest.SlowAnswer) { // the latter dies in any case
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, dies %t", kind, fault, dies), func(t *testing.T) {
					t.Parallel()
					x := newFixture(t, icebergtest.Version(3))
					paths := x.small(3)
					x.pin(false, paths[:2])
					x.compact()
					x.table.Commit(icebergtest.DeleteVector(paths[0], 1))
					before := x.rows()
					cat, arm := x.armed(kind)
					c, err := committer.New(cat, x.world.Store, committer.Options{Now: x.world.Clock.Now})
					x.check(err)
					ctx := context.Background()
					if dies || fault == catalogtest.SlowAnswer {
						dying, cancel := context.WithCancel(ctx)
						defer cancel()
						hook := &hooked{Committer: c, before: func(int) error {
							arm(fault)
							go func() { time.Sleep(100 * time.Millisecond); cancel() }()
							return nil
						}}
						out, err := x.function(nil, hook).Handle(dying, x.input())
						if err == nil && out.Outcome != maintenance.Committed && out.Outcome != maintenance.Refused {
							t.Errorf("%+v: want an error, or an end", out)
						}
					} else {
						arm(fault)
					}
					out, err := x.function(nil, c).Handle(ctx, x.input())
					x.check(err)
					want, n := maintenance.Committed, 1
					if fault == catalogtest.Forbidden && out.Outcome == maintenance.Refused {
						want, n = maintenance.Refused, 0
					}
					if out.Outcome != want || x.snapshotsOf(cat) != n {
						t.Errorf("%+v, %d snapshots: want %s and %d", out, x.snapshotsOf(cat), want, n)
					}
					x.whole(cat, before)
					if r := x.result(); n == 1 && (r.Rebased == nil || r.Rebased.Positions != 1 || slices.ContainsFunc(r.Unneeded, func(l string) bool {
						return strings.HasSuffix(l, ".puffin")
					})) {
						t.Errorf("rebased %+v, unneeded %q", r.Rebased, r.Unneeded)
					}
				})
			}
		}
	}
}
