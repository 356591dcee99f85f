package pages

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"
)

// mergeGapBytes is the most that is read for nothing so that two chunks come with one request. Never more than is read for something, so that a
// window and its gaps fit into what may be held.
const mergeGapBytes = 64 << 10

// part is a piece of a column chunk that is wanted at once: its dictionary page, or all of it.
type part struct{ read, from, to int64 }

// fetched is one request: a range of one file that holds several parts.
type fetched struct {
	in             *input
	offset, length int64
	parts          int
	// data is what was read; buffer the memory for that, which lies in the arena, see there.
	data, buffer []byte
	at           int64
	err          error
	done         chan struct{}
}

// fetcher fetches the chunks of one output row group in the order in which they are copied, bounded in bytes. It serves one goroutine.
type fetcher struct {
	engine *Engine
	arena  *arena
	reads  []*fetched
	// dictionaries and chunks are by leaf and source; a chunk begins with its dictionary page, which is wanted before the chunks are.
	dictionaries, chunks [][]part
	memory               *semaphore.Weighted
	cancel               context.CancelFunc
	workers              sync.WaitGroup
}

// newFetcher lays out the requests and starts them. Leaves are taken in windows of at most half of what may be held; within a window each file
// is read once or a few times. A column that is larger than a window is a window of its own: then first all dictionaries are read, then chunk
// after chunk, dictionaries again included.
func (r *rewrite) newFetcher(ctx context.Context, sources []rowGroupOf) *fetcher {
	leaves := len(r.proof)
	f := &fetcher{
		engine: r.Engine, arena: r.arena, dictionaries: make([][]part, leaves), chunks: make([][]part, leaves),
		memory: semaphore.NewWeighted(r.limits.HeldBytes),
	}
	for leaf := range leaves {
		f.dictionaries[leaf], f.chunks[leaf] = make([]part, len(sources)), make([]part, len(sources))
	}
	window := r.limits.HeldBytes / 2
	for from := 0; from < leaves; {
		to, size := from, int64(0)
		for to < leaves {
			n := bytesOf(sources, to)
			if to > from && size+n > window {
				break
			}
			size += n
			to++
		}
		if size > window {
			f.single(sources, from)
		} else {
			f.several(sources, from, to)
		}
		from = to
	}
	ctx, f.cancel = context.WithCancel(ctx)
	f.start(ctx)
	return f
}

// newStream lays out the requests for a row group that is copied as it is: its chunks one after the other, long ones in pieces.
func (r *rewrite) newStream(ctx context.Context, s rowGroupOf) *fetcher {
	f := &fetcher{
		engine: r.Engine, arena: r.arena, chunks: make([][]part, len(s.chunks)), memory: semaphore.NewWeighted(r.limits.HeldBytes),
	}
	most := max(r.limits.HeldBytes/4, 1<<10)
	var last *fetched
	for i := range s.chunks {
		from, end := s.chunks[i].offset, s.chunks[i].offset+s.chunks[i].length
		for from < end {
			n := min(end-from, most)
			if last != nil && last.length+n > most {
				last = nil
			}
			p := f.place(last, s.in, from, n)
			f.chunks[i], last = append(f.chunks[i], p), f.reads[p.read]
			from += n
		}
	}
	ctx, f.cancel = context.WithCancel(ctx)
	f.start(ctx)
	return f
}

func bytesOf(sources []rowGroupOf, leaf int) (n int64) {
	for _, s := range sources {
		n += s.chunks[leaf].length
	}
	return n
}

// single plans one large column.
func (f *fetcher) single(sources []rowGroupOf, leaf int) {
	for i, s := range sources {
		if c := &s.chunks[leaf]; c.dictionary > 0 {
			f.dictionaries[leaf][i] = f.place(nil, s.in, c.offset, c.dictionary)
		}
	}
	for i, s := range sources {
		f.chunks[leaf][i] = f.place(nil, s.in, s.chunks[leaf].offset, s.chunks[leaf].length)
	}
}

// several plans a window: per source the chunks in the order of leaves, adjacent ones together.
func (f *fetcher) several(sources []rowGroupOf, from, to int) {
	for i, s := range sources {
		var last *fetched
		for leaf := from; leaf < to; leaf++ {
			c := &s.chunks[leaf]
			p := f.place(last, s.in, c.offset, c.length)
			f.chunks[leaf][i], last = p, f.reads[p.read]
			if c.dictionary > 0 {
				p.to = p.from + c.dictionary
				f.dictionaries[leaf][i] = p
				last.parts++
			}
		}
	}
}

// place puts a range into the last request if that ends just before, else into a new one.
func (f *fetcher) place(last *fetched, in *input, offset, length int64) part {
	if last != nil {
		if gap := offset - last.offset - last.length; gap >= 0 && gap <= min(mergeGapBytes, length) {
			last.length += gap + length
			last.parts++
			return part{read: int64(len(f.reads) - 1), from: offset - last.offset, to: offset - last.offset + length}
		}
	}
	f.reads = append(f.reads, &fetched{in: in, offset: offset, length: length, parts: 1, done: make(chan struct{})})
	return part{read: int64(len(f.reads) - 1), to: length}
}

// weight is what a request takes of the memory; one that exceeds all of it takes all.
func (f *fetcher) weight(r *fetched) int64 {
	if r.in.whole != nil {
		return 0
	}
	return min(r.length, f.engine.limits.HeldBytes)
}

func (f *fetcher) start(ctx context.Context) {
	slots := make(chan struct{}, f.engine.limits.FetchConcurrency)
	f.workers.Go(func() {
		for i, r := range f.reads {
			if err := f.memory.Acquire(ctx, f.weight(r)); err != nil {
				for _, rest := range f.reads[i:] {
					rest.err = err
					close(rest.done)
				}
				return
			}
			slots <- struct{}{}
			f.workers.Go(func() {
				if r.in.whole == nil {
					r.buffer, r.at = f.arena.take(r.length)
				}
				r.data, r.err = r.in.fetch(ctx, f.engine.store, span{r.offset, r.length}, r.buffer)
				close(r.done)
				<-slots
			})
		}
	})
}

// get waits for a part. Each part is got once, and released once.
func (f *fetcher) get(p part) ([]byte, error) {
	r := f.reads[p.read]
	<-r.done
	if r.err != nil {
		return nil, r.err
	}
	return r.data[p.from:p.to], nil
}

func (f *fetcher) release(p part) {
	r := f.reads[p.read]
	if r.parts--; r.parts == 0 {
		if r.data = nil; r.buffer != nil {
			f.arena.give(r.buffer, r.at)
			r.buffer = nil
		}
		f.memory.Release(f.weight(r))
	}
}

// close stops what is under way.
func (f *fetcher) close() {
	f.cancel()
	f.workers.Wait()
}

// arena is memory that the reads of a rewrite use again and again: new memory costs page faults, clearing and collections. What does not fit gets
// memory of its own.
type arena struct {
	size int64
	// spoil, for tests, overwrites what was given back: nobody may look at it any more.
	spoil bool

	mu   sync.Mutex
	data []byte
	free []span // in order, none beside another
}

// take returns n bytes and where they lie; -1 is memory of their own.
func (a *arena) take(n int64) (buf []byte, at int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.data == nil {
		a.data, a.free = make([]byte, a.size), []span{{0, a.size}}
	}
	i := slices.IndexFunc(a.free, func(s span) bool { return s.length >= n })
	if i < 0 {
		return make([]byte, n), -1
	}
	s := &a.free[i]
	at = s.offset
	if s.offset, s.length = s.offset+n, s.length-n; s.length == 0 {
		a.free = slices.Delete(a.free, i, i+1)
	}
	return a.data[at : at+n : at+n], at
}

// give takes back what take gave.
func (a *arena) give(buf []byte, at int64) {
	if a.spoil {
		for i := range buf {
			buf[i] = 0xa5
		}
	}
	if at < 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	back := span{at, int64(len(buf))}
	i, _ := slices.BinarySearchFunc(a.free, at, func(s span, at int64) int { return cmp.Compare(s.offset, at) })
	if i < len(a.free) && back.offset+back.length == a.free[i].offset {
		back.length += a.free[i].length
		a.free = slices.Delete(a.free, i, i+1)
	}
	if i > 0 && a.free[i-1].offset+a.free[i-1].length == back.offset {
		a.free[i-1].length += back.length
		return
	}
	a.free = slices.Insert(a.free, i, back)
}
