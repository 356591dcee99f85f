package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/apache/iceberg-go/table"

	"firn/internal/lake/catalogs"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
)

// catalog is the catalog as a process reaches it: one whose clients swap pointers, or a service that applies updates.
func (p *process) catalog() catalogs.Catalog {
	if p.s.prof.rest {
		return servicePort{catalogReader{p}}
	}
	return pointerPort{catalogReader{p}}
}

// catalogReader is what both kinds have.
type catalogReader struct{ p *process }

func (c catalogReader) do(op string, e effect, apply func() error) error {
	return c.p.do(call{
		op: op, effect: e, apply: apply, transient: fmt.Errorf("%s: %w", op, catalogs.ErrTransient),
		lost: errors.New(op + ": connection reset by peer"),
	})
}

// Name implements catalogs.Catalog.
func (c catalogReader) Name() string { return c.p.s.world.Catalog.Name() }

// Tables implements catalogs.Catalog.
func (c catalogReader) Tables(ctx context.Context, ns maintenance.Namespace) iter.Seq2[maintenance.TableID, error] {
	return func(yield func(maintenance.TableID, error) bool) {
		if err := c.do("Tables", reads, func() error { return nil }); err != nil {
			yield(maintenance.TableID{}, err)
			return
		}
		c.p.s.world.Catalog.Tables(ctx, ns)(yield)
	}
}

// Load implements catalogs.Catalog. A service answers with the metadata, and has no version to compare.
func (c catalogReader) Load(_ context.Context, id maintenance.TableID) (ptr catalogs.Pointer, err error) {
	err = c.do("Load", reads, func() (err error) {
		ptr, err = c.p.s.world.Catalog.Load(context.Background(), id)
		if err == nil && c.p.s.prof.rest {
			ptr.Version = ""
			ptr.Metadata, err = c.p.s.world.Store.Get(context.Background(), ptr.MetadataLocation)
		}
		return err
	})
	return ptr, err
}

// pointerPort swaps pointers, as SQL and Glue do.
type pointerPort struct{ catalogReader }

var _ catalogs.Swapper = pointerPort{}

// Swap implements catalogs.Swapper.
func (c pointerPort) Swap(_ context.Context, id maintenance.TableID, base catalogs.Pointer, location string) error {
	return c.do("Swap", swaps, func() error {
		before := c.p.s.state()
		err := c.p.s.world.Catalog.Swap(context.Background(), id, base, location)
		c.p.s.swapped(c.p, before, err)
		return err
	})
}

// servicePort sends updates to a service that checks the requirements on its current state, as REST catalogs do.
type servicePort struct{ catalogReader }

var _ catalogs.Server = servicePort{}

// Update implements catalogs.Server.
func (c servicePort) Update(_ context.Context, id maintenance.TableID, requirements, updates []byte) (ptr catalogs.Pointer, err error) {
	err = c.do("Update", swaps, func() error {
		before := c.p.s.state()
		err := c.apply(id, requirements, updates)
		c.p.s.swapped(c.p, before, err)
		if err != nil {
			return err
		}
		if ptr, err = c.p.s.world.Catalog.Load(context.Background(), id); err != nil {
			return err
		}
		ptr.Version = ""
		ptr.Metadata, err = c.p.s.world.Store.Get(context.Background(), ptr.MetadataLocation)
		return err
	})
	return ptr, err
}

// apply is the service's side.
func (c servicePort) apply(id maintenance.TableID, requirements, updates []byte) error {
	ctx, w := context.Background(), c.p.s.world
	var change struct {
		Requirements table.Requirements
		Updates      table.Updates
	}
	if err := errors.Join(json.Unmarshal(requirements, &change.Requirements), json.Unmarshal(updates, &change.Updates)); err != nil {
		return fmt.Errorf("malformed commit: %w: %w", err, catalogs.ErrRefused)
	}
	service, err := committer.New(w.Catalog, w.Store, committer.Options{Now: w.Clock.Now, NewUUID: c.p.uuid})
	if err != nil {
		return err
	}
	head, err := service.Head(ctx, id)
	if err != nil {
		return err
	}
	_, err = service.Commit(ctx, head, committer.Change{Requirements: change.Requirements, Updates: change.Updates})
	return err
}
