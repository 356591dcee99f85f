package compact_test

import (
	"context"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"firn/internal/compact"
	"firn/internal/compact/arrow"
	"firn/internal/compact/engine"
	"firn/internal/compact/pages"
	"firn/internal/icebergtest"
)

// loser is an engine that loses a row and says nothing.
type loser struct{ engine.Engine }

func (l loser) Rewrite(ctx context.Context, job engine.Job) (engine.Result, error) {
	inputs := append([]engine.Input{}, job.Inputs...)
	inputs[0].Mask = roaring64.BitmapOf(0)
	job.Inputs = inputs
	return l.Engine.Rewrite(ctx, job)
}

// TestProofOfContents: with proof=content a group counts only if its outputs, read again, hold what its inputs hold.
func TestProofOfContents(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"evolve", "small_v3"} {
		ref := icebergtest.Reference(t, name)
		b := newBench(t, ref.Store, ref.Table(t))
		honest := pages.New(b.store, discard(), pages.Limits{}, arrow.New(b.store, discard(), arrow.Limits{}))
		for i := range b.groups {
			b.groups[i].Options = map[string]string{"proof": "Content"}
		}
		b.fn = compact.New(compact.Deps{Store: b.store, WorkLocation: b.workLocation, Engine: honest})
		r := b.rewrite(0)
		checkProof(t, b, 0, r)
		if !strings.Contains(r.Engine, "contents proved") {
			t.Errorf("%s: engine %s", name, r.Engine)
		}
		b.runAs(strings.Repeat("z", 26))
		b.fn = compact.New(compact.Deps{Store: b.store, WorkLocation: b.workLocation, Engine: loser{honest}})
		if _, err := b.fn.Handle(context.Background(), b.item(0)); err == nil || !strings.Contains(err.Error(), "prove the contents of column") {
			t.Errorf("%s: a row was lost: %v", name, err)
		}
	}
}
