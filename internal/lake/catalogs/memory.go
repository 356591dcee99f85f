package catalogs

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"firn/internal/maintenance"
)

// Memory is a catalog in memory: the twin of SQL for tests and for hosts that live in one process. The zero value is not usable: NewMemory.
type Memory struct {
	name   string
	mu     sync.Mutex
	tables map[memoryKey]string
}

// memoryKey is a table's name without the catalog's.
type memoryKey struct {
	namespace maintenance.Namespace
	table     string
}

var (
	_ Catalog   = (*Memory)(nil)
	_ Registrar = (*Memory)(nil)
	_ Swapper   = (*Memory)(nil)
)

// NewMemory makes an empty catalog of that name.
func NewMemory(name string) *Memory { return &Memory{name: name, tables: map[memoryKey]string{}} }

// Name is the configured name of the catalog.
func (m *Memory) Name() string { return m.name }

// Tables yields the tables that exist when the iteration starts, by namespace and name.
func (m *Memory) Tables(_ context.Context, namespace maintenance.Namespace) iter.Seq2[maintenance.TableID, error] {
	return func(yield func(maintenance.TableID, error) bool) {
		m.mu.Lock()
		keys := slices.SortedFunc(maps.Keys(m.tables), func(a, b memoryKey) int {
			return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.table, b.table))
		})
		m.mu.Unlock()
		for _, k := range keys {
			if namespace != "" && k.namespace != namespace {
				continue
			}
			if !yield(maintenance.TableID{Catalog: m.name, Namespace: k.namespace, Name: k.table}, nil) {
				return
			}
		}
	}
}

// Load reads a table's pointer.
func (m *Memory) Load(_ context.Context, id maintenance.TableID) (Pointer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	location, ok := m.tables[memoryKey{id.Namespace, id.Name}]
	if !ok {
		return Pointer{}, fmt.Errorf("load %s: %w", id, ErrNoSuchTable)
	}
	return Pointer{MetadataLocation: location, Version: location}, nil
}

// Register points a new table at the metadata file.
func (m *Memory) Register(_ context.Context, id maintenance.TableID, metadataLocation string) error {
	if err := validRegistration(id, metadataLocation); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := memoryKey{id.Namespace, id.Name}
	if _, ok := m.tables[key]; ok {
		return fmt.Errorf("register %s: %w", id, ErrExists)
	}
	m.tables[key] = metadataLocation
	return nil
}

// Swap points the table from base to the new metadata file.
func (m *Memory) Swap(_ context.Context, id maintenance.TableID, base Pointer, metadataLocation string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := memoryKey{id.Namespace, id.Name}
	switch location, ok := m.tables[key]; {
	case !ok:
		return fmt.Errorf("swap pointer of %s: %w: %w", id, ErrRefused, ErrNoSuchTable)
	case location != base.MetadataLocation:
		return fmt.Errorf("swap pointer of %s from %s, catalog has %s: %w", id, base.MetadataLocation, location, ErrConflict)
	}
	m.tables[key] = metadataLocation
	return nil
}

// Drop removes a table from the catalog; its files stay. Tests play other writers with it.
func (m *Memory) Drop(id maintenance.TableID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tables, memoryKey{id.Namespace, id.Name})
}

// validRegistration refuses a registration that names no table or no file.
func validRegistration(id maintenance.TableID, metadataLocation string) error {
	if err := id.Validate(); err != nil {
		return fmt.Errorf("register %q: %w: %w", id, ErrRefused, err)
	}
	if metadataLocation == "" {
		return fmt.Errorf("register %s: %w: empty metadata location", id, ErrRefused)
	}
	return nil
}
