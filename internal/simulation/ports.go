package simulation

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/uuid"

	"firn/internal/evaluate"
	"firn/internal/event"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/policy"
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
		s.p.s.wrote(s.p, location, data)
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

// policyText lets evaluate start runs at a few files.
const policyText = `
mode: maintain
rewrite_data_files:
  trigger:
    small-files: 3
`

// queue holds events that were not delivered yet.
type queue struct {
	messages []string
	looks    int
}

// emit tells of a commit: not at all, once or twice.
func (s *Sim) emit(snapshot int64) {
	if !s.prof.events || s.calm {
		return
	}
	body := s.notice(snapshot)
	switch s.rng.IntN(5) {
	case 0:
		s.hit("event lost")
	case 1:
		s.hit("event doubled")
		s.messages = append(s.messages, body, body)
	default:
		s.messages = append(s.messages, body)
	}
}

// notice is the event of a commit.
func (s *Sim) notice(snapshot int64) string {
	body, err := event.Encode(event.Notice{
		Source: event.SourceCommitted, Table: maintenance.TableID{Namespace: "db", Name: "t"}, SnapshotID: snapshot,
	})
	if err != nil {
		panic(worldFault(err.Error()))
	}
	return string(body)
}

// deliver takes messages in any order and lets evaluate look.
func (s *Sim) deliver() {
	var batch events.SQSEvent
	for n := 1 + s.rng.IntN(3); n > 0 && len(s.messages) > 0; n-- {
		at := s.rng.IntN(len(s.messages))
		if at > 0 {
			s.hit("event reordered")
		}
		s.looks++
		batch.Records = append(batch.Records, events.SQSMessage{MessageId: strconv.Itoa(s.looks), Body: s.messages[at]})
		s.messages = append(s.messages[:at], s.messages[at+1:]...)
	}
	if len(batch.Records) == 0 {
		return
	}
	s.note("evaluate gets %d events", len(batch.Records))
	s.look(batch)
}

// look runs evaluate over a batch, as a process of its own. What it gives back is delivered again.
func (s *Sim) look(batch events.SQSEvent) {
	p := s.process(fmt.Sprintf("evaluate%d", s.looks), nil, 0)
	s.spawn(func() {
		response, err := p.evaluateOn(0, policyText).Handle(p.ctx, batch)
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, m := range batch.Records {
			again := err != nil || p.dead
			for _, f := range response.BatchItemFailures {
				again = again || f.ItemIdentifier == m.MessageId
			}
			if again && !s.over && !s.calm {
				s.hits["event delivered again"]++
				s.messages = append(s.messages, m.Body)
			}
		}
	})
}

func (p *process) evaluateOn(stateNumber int, text string) *evaluate.Function {
	document, err := policy.ParseYAML([]byte(text))
	if err != nil {
		panic(worldFault(err.Error()))
	}
	return evaluate.New(evaluate.Deps{
		Catalog: func(context.Context, string) (catalogs.Catalog, store.Reader, error) {
			return p.catalog(), p.store(), nil
		},
		State: p.state(stateNumber), Starter: starter{p}, Policy: document, Now: p.now, Log: quiet(), NewNonce: p.uuidText,
	})
}

// starter starts executions for evaluate.
type starter struct{ p *process }

// Start implements evaluate.Starter.
func (st starter) Start(_ context.Context, name string, input []byte) error {
	err := fmt.Errorf("start execution %s: %w", name, store.ErrTransient)
	return st.p.do(call{op: "StartExecution", effect: starts, transient: err, lost: err, apply: func() error {
		st.p.s.launch(name, input, 0)
		return nil
	}})
}

// sender puts tables back on the queue for report.
type sender struct{ p *process }

// Send implements report's sender.
func (q sender) Send(_ context.Context, body []byte) error {
	err := fmt.Errorf("send message: %w", store.ErrTransient)
	return q.p.do(call{op: "SendMessage", effect: starts, transient: err, lost: err, apply: func() error {
		q.p.s.messages = append(q.p.s.messages, string(body))
		return nil
	}})
}
