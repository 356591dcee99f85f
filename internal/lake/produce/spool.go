package produce

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/apache/iceberg-go"
	"golang.org/x/sync/errgroup"

	"firn/internal/lake"
	"firn/internal/store"
)

// passBytes bounds the encoded entries that one pass over the manifests collects. Opening a manifest costs as much as hundreds of entries, so that
// few passes are worth the memory.
const passBytes = 40 << 20

// pass is a stretch of the ordered places that one reading of the manifests serves.
type pass struct {
	places []place
	// ends says behind which places an output ends, windows after how many places each window does.
	ends    []bool
	windows []int
}

// nextPass returns after how many places each window of the next pass ends: as many windows of about a manifest's size as passBytes allows.
func nextPass(places []place, weights []int64, target int64) []int {
	var windows []int
	var size, total int64
	for i, p := range places {
		size += weights[p.manifest]
		if size < target && i+1 < len(places) {
			continue
		}
		total += size
		if len(windows) > 0 && total > passBytes {
			break
		}
		windows, size = append(windows, i+1), 0
	}
	return windows
}

// unremembered is a store without its memory for decoded manifests: what is read here once or twice must not push out what others ask for, nor be
// held with statistics that nobody asks for.
type unremembered struct{ store.Reader }

// spool holds the entries of one window as they were met, encoded as a manifest.
type spool struct {
	mu  sync.Mutex
	buf bytes.Buffer
	w   *iceberg.ManifestWriter
	// order is, for each entry in the buffer, its place in the window.
	order []int32
}

// spooled reads the manifest of a closed spool as if it were stored.
type spooled struct {
	store.Reader
	data []byte
}

// Get implements store.Reader.
func (s *spooled) Get(context.Context, string) ([]byte, error) { return s.data, nil }

// GetRange implements store.Reader.
func (s *spooled) GetRange(_ context.Context, _ string, offset, length int64) ([]byte, error) {
	size := int64(len(s.data))
	if offset < 0 {
		offset = max(size+offset, 0)
	}
	return s.data[min(offset, size):min(offset+length, size)], nil
}

// Head implements store.Reader.
func (s *spooled) Head(_ context.Context, location string) (store.Info, error) {
	return store.Info{Location: location, SizeBytes: int64(len(s.data))}, nil
}

func (b *build) newSpool(w *roller) (*spool, error) {
	s := &spool{}
	var err error
	s.w, err = iceberg.NewManifestWriter(b.meta.Version(), &s.buf, w.spec, w.schema, b.a.SnapshotID, iceberg.WithManifestWriterContent(w.content))
	if err != nil {
		return nil, fmt.Errorf("start to collect entries: %w", err)
	}
	return s, nil
}

func (s *spool) add(e lake.Entry, at int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order = append(s.order, at)
	if err := s.w.Existing(e.Raw); err != nil {
		return fmt.Errorf("copy entry %s: %w", e, err)
	}
	return nil
}

// writePass reads the entries of a pass, with statistics, and writes them in order.
func (b *build) writePass(ctx context.Context, w *roller, manifests []iceberg.ManifestFile, p pass) error {
	spools := make([]*spool, len(p.windows))
	for i := range spools {
		var err error
		if spools[i], err = b.newSpool(w); err != nil {
			return err
		}
	}
	if err := b.collect(ctx, spools, manifests, p); err != nil {
		return err
	}
	begin := 0
	for i, s := range spools {
		if err := b.drain(ctx, w, s, p.ends[begin:p.windows[i]]); err != nil {
			return err
		}
		begin, spools[i] = p.windows[i], nil
	}
	return nil
}

// wanted is an entry of a manifest that a pass wants: as which of its live entries it stands, in which window and at which place of that.
type wanted struct{ entry, window, at int32 }

// collect reads each manifest that holds an entry of the pass once and puts its entries into their windows' spools.
func (b *build) collect(ctx context.Context, spools []*spool, manifests []iceberg.ManifestFile, ps pass) error {
	in := make([][]wanted, len(manifests))
	begin, window := 0, 0
	for i, p := range ps.places {
		if i == ps.windows[window] {
			begin, window = i, window+1
		}
		in[p.manifest] = append(in[p.manifest], wanted{p.entry, int32(window), int32(i - begin)})
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(clusterReaders)
	for i, entries := range in {
		if len(entries) == 0 {
			continue
		}
		m := manifests[i]
		group.Go(func() error {
			slices.SortFunc(entries, func(a, b wanted) int { return int(a.entry - b.entry) })
			n := int32(0)
			for e, err := range lake.Entries(ctx, unremembered{b.p.Store}, m, lake.EntryOptions{}) {
				if err != nil {
					return err
				}
				if entries[0].entry == n {
					if err := spools[entries[0].window].add(e, entries[0].at); err != nil {
						return err
					}
					if entries = entries[1:]; len(entries) == 0 {
						return nil
					}
				}
				n++
			}
			return fmt.Errorf("%d entries are missing in %s: %w", len(entries), m.FilePath(), ErrMismatch)
		})
	}
	return group.Wait()
}

// drain writes a window's entries in their order.
func (b *build) drain(ctx context.Context, w *roller, s *spool, ends []bool) error {
	if err := s.w.Close(); err != nil {
		return fmt.Errorf("end to collect entries: %w", err)
	}
	m, err := s.w.ToManifestFile("collected entries", int64(s.buf.Len()))
	if err != nil {
		return fmt.Errorf("describe collected entries: %w", err)
	}
	entries := make([]lake.Entry, len(ends))
	read := 0
	for e, err := range lake.Entries(ctx, &spooled{data: s.buf.Bytes()}, m, lake.EntryOptions{}) {
		switch {
		case err != nil:
			return err
		case read == len(s.order):
			return fmt.Errorf("more entries than were collected: %w", ErrMismatch)
		}
		entries[s.order[read]] = e
		read++
	}
	if read != len(ends) || len(s.order) != len(ends) {
		return fmt.Errorf("%d entries were collected, %d read back: want %d: %w", len(s.order), read, len(ends), ErrMismatch)
	}
	for i, e := range entries {
		if err := w.write(ctx, e.Raw, (*iceberg.ManifestWriter).Existing); err != nil {
			return fmt.Errorf("copy entry %s: %w", e, err)
		}
		if ends[i] {
			if err := w.roll(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
