package state

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// memory is the twin of the real backends for tests and simulations.
type memory struct {
	mu    sync.Mutex
	items map[[2]string]Item
}

// NewMemory returns an empty backend in memory.
func NewMemory() Items { return &memory{items: map[[2]string]Item{}} }

// Get implements Items.
func (m *memory) Get(_ context.Context, pk, sk string) (Item, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	item, found := m.items[[2]string{pk, sk}]
	if !found {
		return Item{PK: pk, SK: sk}, nil
	}
	return item, nil
}

// Put implements Items.
func (m *memory) Put(_ context.Context, item Item) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := [2]string{item.PK, item.SK}
	if have := m.items[key].Version; have != item.Version {
		return fmt.Errorf("put at version %d, stored is %d: %w", item.Version, have, ErrConditionFailed)
	}
	item.Version++
	item.Data = slices.Clone(item.Data)
	m.items[key] = item
	return nil
}

// Delete implements Items.
func (m *memory) Delete(_ context.Context, item Item) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := [2]string{item.PK, item.SK}
	if have := m.items[key].Version; have != item.Version {
		return fmt.Errorf("delete at version %d, stored is %d: %w", item.Version, have, ErrConditionFailed)
	}
	delete(m.items, key)
	return nil
}

// Query implements Items.
func (m *memory) Query(_ context.Context, q Query) ([]Item, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []Item
	for key, item := range m.items {
		if key[0] != q.PK || !strings.HasPrefix(key[1], q.Prefix) {
			continue
		}
		behind := key[1] > q.After
		if q.Descending && q.After != "" {
			behind = key[1] < q.After
		}
		if q.After == "" || behind {
			found = append(found, item)
		}
	}
	slices.SortFunc(found, func(a, b Item) int {
		if q.Descending {
			a, b = b, a
		}
		return strings.Compare(a.SK, b.SK)
	})
	if q.Limit > 0 && len(found) > q.Limit {
		found = found[:q.Limit]
	}
	return found, nil
}

// Close implements Items.
func (m *memory) Close() error { return nil }
