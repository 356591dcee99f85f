package icebergtest

import (
	"context"
	"fmt"
	"iter"
	"sort"
	"sync"

	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
)

// Catalog is a catalog in memory with a true compare-and-swap, as the port asks. Its version is the metadata location, as in SQL catalogs.
type Catalog struct {
	name string

	mu     sync.Mutex
	tables map[maintenance.TableID]string
}

// NewCatalog returns an empty catalog of that name.
func NewCatalog(name string) *Catalog {
	return &Catalog{name: name, tables: map[maintenance.TableID]string{}}
}

var (
	_ catalogs.Catalog   = (*Catalog)(nil)
	_ catalogs.Registrar = (*Catalog)(nil)
	_ catalogs.Swapper   = (*Catalog)(nil)
)

// Name implements catalogs.Catalog.
func (c *Catalog) Name() string { return c.name }

// Tables implements catalogs.Catalog.
func (c *Catalog) Tables(_ context.Context, namespace maintenance.Namespace) iter.Seq2[maintenance.TableID, error] {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []maintenance.TableID
	for id := range c.tables {
		if namespace == "" || id.Namespace == namespace {
			ids = append(ids, id)
		}
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i].String() < ids[j].String() })
	return func(yield func(maintenance.TableID, error) bool) {
		for _, id := range ids {
			if !yield(id, nil) {
				return
			}
		}
	}
}

// Load implements catalogs.Catalog.
func (c *Catalog) Load(_ context.Context, id maintenance.TableID) (catalogs.Pointer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	location, ok := c.tables[key(id)]
	if !ok {
		return catalogs.Pointer{}, fmt.Errorf("load %s: %w", id, catalogs.ErrNoSuchTable)
	}
	return catalogs.Pointer{MetadataLocation: location, Version: location}, nil
}

// Register implements catalogs.Registrar.
func (c *Catalog) Register(_ context.Context, id maintenance.TableID, metadataLocation string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.tables[key(id)]; ok {
		return fmt.Errorf("register %s: %w", id, catalogs.ErrExists)
	}
	c.tables[key(id)] = metadataLocation
	return nil
}

// Swap implements catalogs.Swapper.
func (c *Catalog) Swap(_ context.Context, id maintenance.TableID, base catalogs.Pointer, metadataLocation string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tables[key(id)] != base.MetadataLocation || base.MetadataLocation == "" {
		return fmt.Errorf("swap %s: %w", id, catalogs.ErrConflict)
	}
	c.tables[key(id)] = metadataLocation
	return nil
}

// key leaves out the catalog's name: like every catalog's client, this one knows tables by namespace and name, whatever it is configured as.
func key(id maintenance.TableID) maintenance.TableID {
	id.Catalog = ""
	return id
}
