package authority

import (
	"context"
	"fmt"

	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
)

// Catalog returns the catalog under the rules: no pointer of a table outside of the list is made or moved, none is moved out of the warehouses.
// Reading stays free: whoever sweeps a table must see which other tables share its location. The result is a Swapper or a Server where cat is one, and a
// Registrar and an io.Closer always.
func (r Rules) Catalog(cat catalogs.Catalog) catalogs.Catalog {
	if r.Open() {
		return cat
	}
	base := guarded{Catalog: cat, rules: r}
	if s, ok := cat.(catalogs.Swapper); ok {
		return &swapper{guarded: base, swapper: s}
	}
	if s, ok := cat.(catalogs.Server); ok {
		return &server{guarded: base, server: s}
	}
	return &base
}

type guarded struct {
	catalogs.Catalog
	rules Rules
}

// named fills in the catalog's own name, which patterns may begin with.
func (g *guarded) named(id maintenance.TableID) maintenance.TableID {
	if id.Catalog == "" {
		id.Catalog = g.Name()
	}
	return id
}

// Register implements catalogs.Registrar.
func (g *guarded) Register(ctx context.Context, id maintenance.TableID, metadataLocation string) error {
	registrar, can := g.Catalog.(catalogs.Registrar)
	if !can {
		return fmt.Errorf("register %s: the catalog takes no tables: %w", id, catalogs.ErrRefused)
	}
	if err := g.allowed(id, metadataLocation); err != nil {
		return fmt.Errorf("register %s: %w", id, err)
	}
	return registrar.Register(ctx, id, metadataLocation)
}

// allowed checks a table and the metadata file that it is to point at. The refusal is a definite no: nothing was sent.
func (g *guarded) allowed(id maintenance.TableID, metadataLocation string) error {
	if err := g.rules.Table(g.named(id)); err != nil {
		return err
	}
	if err := g.rules.Location(metadataLocation); err != nil {
		return fmt.Errorf("%w: %w", catalogs.ErrRefused, err)
	}
	return nil
}

// Optimizers implements catalogs.Optimized; a catalog without optimizers has none.
func (g *guarded) Optimizers(ctx context.Context, id maintenance.TableID) ([]string, error) {
	if o, can := g.Catalog.(catalogs.Optimized); can {
		return o.Optimizers(ctx, id)
	}
	return nil, nil
}

// Close closes the catalog where it has something to close.
func (g *guarded) Close() error {
	if closer, ok := g.Catalog.(interface{ Close() error }); ok {
		return closer.Close()
	}
	return nil
}

type swapper struct {
	guarded
	swapper catalogs.Swapper
}

// Swap implements catalogs.Swapper.
func (s *swapper) Swap(ctx context.Context, id maintenance.TableID, base catalogs.Pointer, metadataLocation string) error {
	if err := s.allowed(id, metadataLocation); err != nil {
		return fmt.Errorf("swap pointer of %s: %w", id, err)
	}
	return s.swapper.Swap(ctx, id, base, metadataLocation)
}

type server struct {
	guarded
	server catalogs.Server
}

// Update implements catalogs.Server.
func (s *server) Update(ctx context.Context, id maintenance.TableID, requirements, updates []byte) (catalogs.Pointer, error) {
	if err := s.rules.Table(s.named(id)); err != nil {
		return catalogs.Pointer{}, fmt.Errorf("update %s: %w", id, err)
	}
	return s.server.Update(ctx, id, requirements, updates)
}
