package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"firn/internal/event"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/schedule"
	"firn/internal/state"
	"firn/internal/store"
)

// poller finds commits in catalogs that send no events.
type poller struct {
	open      func(ctx context.Context, name string) (catalogs.Catalog, store.Reader, error)
	catalogs  []string
	queue     schedule.Queue
	closeDead func(ctx context.Context, id maintenance.TableID) error
	now       func() time.Time
	// seen is the metadata location of each table at the last poll.
	seen map[string]string
}

// poll notices each table whose pointer is not the one last seen. A table that cannot be read does not keep the others from it.
func (p *poller) poll(ctx context.Context) error {
	var faults []error
	live := map[string]string{}
	for _, name := range p.catalogs {
		if err := p.catalog(ctx, name, live); err != nil {
			faults = append(faults, fmt.Errorf("poll catalog %s: %w", name, err))
		}
	}
	if len(faults) == 0 {
		p.seen = live // tables that are gone are forgotten
	}
	return errors.Join(faults...)
}

func (p *poller) catalog(ctx context.Context, name string, live map[string]string) error {
	cat, _, err := p.open(ctx, name)
	if err != nil {
		return err
	}
	var faults []error
	for id, err := range cat.Tables(ctx, "") {
		if err != nil {
			return errors.Join(append(faults, err)...)
		}
		id.Catalog = name
		if err := p.table(ctx, cat, id, live); err != nil {
			faults = append(faults, fmt.Errorf("poll table %s: %w", id, err))
		}
	}
	return errors.Join(faults...)
}

func (p *poller) table(ctx context.Context, cat catalogs.Catalog, id maintenance.TableID, live map[string]string) error {
	if err := p.closeDead(ctx, id); err != nil {
		return err
	}
	pointer, err := cat.Load(ctx, id)
	if errors.Is(err, catalogs.ErrNoSuchTable) || errors.Is(err, catalogs.ErrNotIceberg) {
		return nil // gone since it was listed
	}
	if err != nil {
		return err
	}
	key, at := id.String(), pointer.MetadataLocation
	if p.seen[key] != at {
		body, err := event.Encode(event.Notice{Source: event.SourceSchedule, EventID: fmt.Sprintf("poll-%d", p.now().UnixMilli()), Table: id})
		if err != nil {
			return err
		}
		if err := p.queue.Send(ctx, body); err != nil {
			return err
		}
		p.seen[key] = at
	}
	live[key] = at
	return nil
}

// closeDead closes the run that holds a table's lease when the process that executed it is gone. A run that was not begun yet is left: the next look
// starts it again.
func (s *Server) closeDead(ctx context.Context, id maintenance.TableID) error {
	lease, held, err := s.state.Current(ctx, id)
	if err != nil || !held || lease.Phase != state.LeaseRunning {
		return err
	}
	return s.runner.CloseDead(ctx, id)
}
