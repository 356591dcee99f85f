package produce

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/apache/iceberg-go"
	"github.com/klauspost/compress/s2"
	"golang.org/x/sync/errgroup"

	"firn/internal/lake"
	"firn/internal/lake/manifest"
	"firn/internal/store"
)

// passBytes bounds what one pass over the manifests collects, by the entries' bytes in their manifests. A pass reads every manifest once more, so that
// few passes are worth the memory.
const passBytes = 40 << 20

// pass is a stretch of the ordered places that one reading of the manifests serves.
type pass struct {
	manifests []iceberg.ManifestFile
	places    []place
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

// unremembered is a store without its memory: what is read here once or twice must not push out what others ask for, nor be held.
func unremembered(st store.Reader) store.Reader {
	if m, ok := st.(*memory); ok {
		st = m.ReadWriter
	}
	return struct{ store.Reader }{st}
}

// chunkBytes is how many bytes of entries are packed at once.
const chunkBytes = 256 << 10

// spool holds the encoded entries of one window as they were met. They are packed: an entry has about three times the bytes that it takes in a
// manifest.
type spool struct {
	mu      sync.Mutex
	chunks  [][]byte
	open    []byte
	scratch []byte
	packed  int // bytes before packing
	entries []spooled
}

// spooled is an entry of a spool. at is its place in the window, begin where its bytes begin.
type spooled struct {
	manifest.Encoded
	begin, length int
	at            int32
}

// add collects an entry.
func (s *spool) add(layout *manifest.Layout, e lake.Entry, at int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	begin := len(s.open)
	encoded, err := layout.Existing(s.open, e)
	if err != nil {
		return fmt.Errorf("copy entry %s: %w", e, err)
	}
	s.open = encoded.Bytes
	encoded.Bytes = nil
	s.entries = append(s.entries, spooled{encoded, s.packed + begin, len(s.open) - begin, at})
	if len(s.open) >= chunkBytes {
		s.scratch = s2.Encode(s.scratch[:cap(s.scratch)], s.open)
		s.chunks, s.packed = append(s.chunks, bytes.Clone(s.scratch)), s.packed+len(s.open)
		s.open = s.open[:0]
	}
	return nil
}

// unpack returns the entries' bytes, and forgets them.
func (s *spool) unpack() ([]byte, error) {
	out := make([]byte, 0, s.packed+len(s.open))
	for i, chunk := range s.chunks {
		n, err := s2.DecodedLen(chunk)
		if err == nil {
			_, err = s2.Decode(out[len(out):cap(out)], chunk)
		}
		if err != nil {
			return nil, fmt.Errorf("unpack collected entries: %w", err)
		}
		out, s.chunks[i] = out[:len(out)+n], nil
	}
	return append(out, s.open...), nil
}

// writePass reads the entries of a pass, with statistics, and writes them in order.
func (b *build) writePass(ctx context.Context, w *roller, p pass) error {
	spools := make([]*spool, len(p.windows))
	for i := range spools {
		spools[i] = &spool{}
	}
	if err := b.collect(ctx, w, spools, p); err != nil {
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
func (b *build) collect(ctx context.Context, w *roller, spools []*spool, ps pass) error {
	in := make([][]wanted, len(ps.manifests))
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
		m := ps.manifests[i]
		group.Go(func() error {
			slices.SortFunc(entries, func(a, b wanted) int { return int(a.entry - b.entry) })
			n := int32(0)
			for e, err := range lake.Entries(ctx, unremembered(b.p.Store), m, lake.EntryOptions{Memo: &b.memo}) {
				if err != nil {
					return err
				}
				if entries[0].entry == n {
					if err := spools[entries[0].window].add(w.layout, e, entries[0].at); err != nil {
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
	if len(s.entries) != len(ends) {
		return fmt.Errorf("%d entries were collected, want %d: %w", len(s.entries), len(ends), ErrMismatch)
	}
	data, err := s.unpack()
	if err != nil {
		return err
	}
	slices.SortFunc(s.entries, func(a, b spooled) int { return cmp.Compare(a.at, b.at) })
	for i, e := range s.entries {
		e.Bytes = data[e.begin : e.begin+e.length]
		if err := w.write(ctx, func(w *manifest.Writer) error { return w.Put(e.Encoded) }); err != nil {
			return fmt.Errorf("copy an entry: %w", err)
		}
		if ends[i] {
			if err := w.roll(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
