package commit

import (
	"context"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"

	"firn/internal/lake/committer"
	"firn/internal/maintenance"
)

// TestZombieAfterRollbackThereAndBack freezes a request to a service before it arrives. Meanwhile main is rolled back, the run's sweep looks, and main is
// set to the newer snapshot again: the request's requirement holds as before, and it lands. The sweep must not have taken the moved branch for a
// proof that it cannot.
func TestZombieAfterRollbackThereAndBack(t *testing.T) {
	t.Parallel()
	x, before := ready(t)
	c, err := committer.New(x.world.Catalog, x.world.Store, committer.Options{Now: x.world.Clock.Now})
	x.check(err)
	head := x.table.State().Metadata.CurrentSnapshot()
	x.world.At(time.Now()) // the library dates a moved ref by the real clock
	f := &freezer{Committer: &served{Committer: c}, at: 1, sweep: func() {
		x.table.Branch(table.MainBranch, *head.ParentSnapshotID)
		x.sweepRun(x.world.Catalog)
		x.table.Branch(table.MainBranch, head.SnapshotID)
	}}
	out, err := x.function(nil, f).Handle(context.Background(), x.input())
	if err != nil || out.Outcome != maintenance.Committed {
		t.Errorf("%+v, %v: want the frozen request to land", out, err)
	}
	x.whole(x.world.Catalog, before)
}
