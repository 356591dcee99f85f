package lake

import (
	"context"

	"github.com/apache/iceberg-go"

	"firn/internal/lake/peek"
	"firn/internal/store"
)

const (
	// aheadFiles is how many manifests are asked for before they are needed: enough to hide a store's latency behind decoding.
	aheadFiles = 4
	// aheadBytes bounds what is held of them; a manifest of the default target size has 8 MB.
	aheadBytes = 32 << 20
)

// readAhead gets the next manifests while one is decoded.
type readAhead struct {
	store.Reader
	ctx       context.Context //nolint:containedctx // requests outlive the call that starts them, until stop
	cancel    context.CancelFunc
	manifests []iceberg.ManifestFile
	next      int
	pending   map[string]chan got
}

type got struct {
	data []byte
	err  error
}

func newReadAhead(ctx context.Context, st store.Reader, manifests []iceberg.ManifestFile) *readAhead {
	ctx, cancel := context.WithCancel(ctx)
	return &readAhead{Reader: st, ctx: ctx, cancel: cancel, manifests: manifests, pending: map[string]chan got{}}
}

// at starts the requests for manifest i and those after it, and returns the reader to read it from.
func (r *readAhead) at(i int) store.Reader {
	bytes := int64(0)
	for j := i; j < len(r.manifests) && j < i+aheadFiles; j++ {
		m := r.manifests[j]
		bytes += m.Length()
		if bytes > aheadBytes {
			break
		}
		if j < r.next {
			continue
		}
		r.next = j + 1
		if m.Length() > peek.WholeManifestBytes {
			continue
		}
		answer := make(chan got, 1)
		r.pending[m.FilePath()] = answer
		go func() {
			data, err := r.Reader.Get(r.ctx, m.FilePath())
			answer <- got{data, err}
		}()
	}
	// What is decoded is kept whole: only a store that keeps it may look like one.
	if keeper, ok := r.Reader.(peek.Keeper); ok {
		return keepingAhead{r, keeper}
	}
	return r
}

// keepingAhead is a readAhead of a store that is a peek.Keeper.
type keepingAhead struct {
	*readAhead
	peek.Keeper
}

// Get implements store.Reader: it waits for a request that was started, or makes one.
func (r *readAhead) Get(ctx context.Context, location string) ([]byte, error) {
	answer, ok := r.pending[location]
	if !ok {
		return r.Reader.Get(ctx, location)
	}
	delete(r.pending, location)
	select {
	case a := <-answer:
		return a.data, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// stop ends what is still under way.
func (r *readAhead) stop() { r.cancel() }
