package simulation

import (
	"context"
	"fmt"
	"strconv"

	"github.com/aws/aws-lambda-go/events"

	"firn/internal/evaluate"
	"firn/internal/event"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/store"
)

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
