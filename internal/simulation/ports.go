package simulation

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"time"

	"github.com/google/uuid"

	"firn/internal/state"
	"firn/internal/store"
)

// now is the process's clock: the world's, set wrong where the seed says so.
func (p *process) now() time.Time { return p.s.world.Clock.Now().Add(p.skew) }

// commitNow is the clock of commits. One that is a minute ahead makes a table that other writers refuse ("timestamp before the last snapshot's"), so
// that more than that is a fault of its own that no maintenance can mend.
func (p *process) commitNow() time.Time {
	return p.s.world.Clock.Now().Add(min(p.skew, 45*time.Second))
}

func (p *process) random() (uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rng.Uint64(), nil
}

func (p *process) uuid() uuid.UUID {
	var id uuid.UUID
	for i := range 2 {
		bits, _ := p.random()
		binary.BigEndian.PutUint64(id[8*i:], bits)
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

func (p *process) uuidText() string { return p.uuid().String() }

// storePort is the store as a process reaches it.
type storePort struct {
	p     *process
	inner store.Full
}

func (p *process) store() storePort { return storePort{p, p.s.world.Store} }

var _ store.Full = storePort{}

func (s storePort) do(op, at string, e effect, apply func() error) error {
	err := fmt.Errorf("%s %s: throttled: %w", op, at, store.ErrTransient)
	return s.p.do(call{op: op, at: short(at), effect: e, transient: err, lost: err, apply: apply})
}

// Get implements store.Reader.
func (s storePort) Get(_ context.Context, location string) (data []byte, err error) {
	err = s.do("Get", location, reads, func() (err error) {
		data, err = s.inner.Get(context.Background(), location)
		return err
	})
	return data, err
}

// GetRange implements store.Reader.
func (s storePort) GetRange(_ context.Context, location string, offset, length int64) (data []byte, err error) {
	err = s.do("GetRange", location, reads, func() (err error) {
		data, err = s.inner.GetRange(context.Background(), location, offset, length)
		return err
	})
	return data, err
}

// Head implements store.Reader.
func (s storePort) Head(_ context.Context, location string) (info store.Info, err error) {
	err = s.do("Head", location, reads, func() (err error) {
		info, err = s.inner.Head(context.Background(), location)
		return err
	})
	return info, err
}

// Put implements store.Writer.
func (s storePort) Put(_ context.Context, location string, data []byte, opts store.WriteOptions) error {
	return s.do("Put", location, writes, func() error {
		s.p.s.wrote(location, data)
		return s.inner.Put(context.Background(), location, data, opts)
	})
}

// Create implements store.Writer.
func (s storePort) Create(_ context.Context, location string, opts store.WriteOptions) (store.Upload, error) {
	var up store.Upload
	err := s.do("Create", location, writes, func() (err error) {
		up, err = s.inner.Create(context.Background(), location, opts)
		return err
	})
	if err != nil {
		return nil, err
	}
	return uploadPort{s, up, location}, nil
}

// uploadPort is a streamed write; its parts are free.
type uploadPort struct {
	s        storePort
	inner    store.Upload
	location string
}

func (u uploadPort) Write(data []byte) (int, error) { return u.inner.Write(data) }

func (u uploadPort) Commit(context.Context) error {
	return u.s.do("Complete", u.location, writes, func() error { return u.inner.Commit(context.Background()) })
}

func (u uploadPort) Abort(context.Context) error {
	return u.s.do("Abort", u.location, writes, func() error { return u.inner.Abort(context.Background()) })
}

// List implements store.Lister; it sees one moment.
func (s storePort) List(_ context.Context, prefix string, opts store.ListOptions) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		listed(s, "List", prefix, s.inner.List(context.Background(), prefix, opts))(yield)
	}
}

// Uploads implements store.Lister.
func (s storePort) Uploads(_ context.Context, prefix string) iter.Seq2[store.IncompleteUpload, error] {
	return func(yield func(store.IncompleteUpload, error) bool) {
		listed(s, "Uploads", prefix, s.inner.Uploads(context.Background(), prefix))(yield)
	}
}

func listed[T any](s storePort, op, prefix string, inner iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		var found []T
		err := s.do(op, prefix, reads, func() error {
			for v, err := range inner {
				if err != nil {
					return err
				}
				found = append(found, v)
			}
			return nil
		})
		if err != nil {
			yield(none, err)
			return
		}
		for _, v := range found {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// Delete implements store.Deleter.
func (s storePort) Delete(_ context.Context, locations []string) (deleted int, failures []store.DeleteFailure, err error) {
	at := ""
	if len(locations) > 0 {
		at = fmt.Sprintf("%s and %d more", short(locations[0]), len(locations)-1)
	}
	err = s.do("Delete", at, removes, func() (err error) {
		if s.p.half {
			s.p.half, locations = false, locations[:len(locations)/2]
		}
		s.p.s.beforeDelete(s.p, locations)
		deleted, failures, err = s.inner.Delete(context.Background(), locations)
		return err
	})
	return deleted, failures, err
}

// AbortUpload implements store.Deleter.
func (s storePort) AbortUpload(_ context.Context, u store.IncompleteUpload) error {
	return s.do("AbortUpload", u.Location, removes, func() error { return s.inner.AbortUpload(context.Background(), u) })
}

// itemsPort is a state backend as a process reaches it.
type itemsPort struct {
	p     *process
	inner state.Items
}

func (p *process) state(n int) state.Store { return state.New(itemsPort{p, p.s.states[n]}) }

func (i itemsPort) do(op, at string, e effect, apply func() error) error {
	err := fmt.Errorf("%s %s: %w", op, at, state.ErrTransient)
	return i.p.do(call{op: op, at: at, effect: e, transient: err, lost: err, apply: apply})
}

// Get implements state.Items.
func (i itemsPort) Get(_ context.Context, pk, sk string) (item state.Item, err error) {
	err = i.do("State.Get", sk, stateReads, func() (err error) {
		item, err = i.inner.Get(context.Background(), pk, sk)
		return err
	})
	return item, err
}

// Put implements state.Items.
func (i itemsPort) Put(_ context.Context, item state.Item) error {
	return i.do("State.Put", item.SK, stateWrites, func() error { return i.inner.Put(context.Background(), item) })
}

// Delete implements state.Items.
func (i itemsPort) Delete(_ context.Context, item state.Item) error {
	return i.do("State.Delete", item.SK, stateWrites, func() error { return i.inner.Delete(context.Background(), item) })
}

// Query implements state.Items.
func (i itemsPort) Query(_ context.Context, q state.Query) (items []state.Item, err error) {
	err = i.do("State.Query", q.Prefix, stateReads, func() (err error) {
		items, err = i.inner.Query(context.Background(), q)
		return err
	})
	return items, err
}

// Close implements state.Items.
func (i itemsPort) Close() error { return nil }
