package state

import (
	"context"
	"encoding/json"
	"fmt"
)

// Item is one stored item: a partition key, a sort key, a version for conditional writes, and a JSON document.
type Item struct {
	PK, SK string
	// Version is what a conditional write compares; 0 means that the item does not exist.
	Version int64
	Data    []byte
}

// Items is the little that a backend offers, shaped after DynamoDB: conditional writes of single items, reads by key, and range queries within
// one partition key. Every method is atomic for its one item.
type Items interface {
	// Get returns the item, or one with Version 0.
	Get(ctx context.Context, pk, sk string) (Item, error)
	// Put writes the item if the stored version is item.Version (0: absent), and raises the version by one. ErrConditionFailed.
	Put(ctx context.Context, item Item) error
	// Delete removes the item if the stored version is item.Version. ErrConditionFailed; an absent item is no error when Version is 0.
	Delete(ctx context.Context, item Item) error
	// Query returns items of a partition key with after < SK and the given prefix, ascending or descending by SK, at most limit (0: all).
	Query(ctx context.Context, q Query) ([]Item, error)
	// Close releases the backend.
	Close() error
}

// Query is a range of one partition key.
type Query struct {
	PK, Prefix string
	// After is an exclusive bound: items behind it in the query's direction.
	After      string
	Descending bool
	Limit      int
}

// itemStore implements Store over Items.
type itemStore struct{ items Items }

// New returns the state store over a backend.
func New(items Items) Store { return &itemStore{items: items} }

// Close closes the backend.
func (s *itemStore) Close() error { return s.items.Close() }

// load reads one item and decodes it into v; the version is 0 when there is none.
func (s *itemStore) load(ctx context.Context, pk, sk string, v any) (int64, error) {
	item, err := s.items.Get(ctx, pk, sk)
	if err != nil {
		return 0, fmt.Errorf("read state item %s %s: %w", pk, sk, err)
	}
	if item.Version == 0 {
		return 0, nil
	}
	if err := json.Unmarshal(item.Data, v); err != nil {
		return 0, fmt.Errorf("decode state item %s %s: %w", pk, sk, err)
	}
	return item.Version, nil
}

// save writes one item under the condition of its version.
func (s *itemStore) save(ctx context.Context, pk, sk string, version int64, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode state item %s %s: %w", pk, sk, err)
	}
	if len(data) > MaxItemBytes {
		return fmt.Errorf("write state item %s %s of %d bytes: %w", pk, sk, len(data), ErrTooLarge)
	}
	if err := s.items.Put(ctx, Item{PK: pk, SK: sk, Version: version, Data: data}); err != nil {
		return fmt.Errorf("write state item %s %s: %w", pk, sk, err)
	}
	return nil
}

// query reads a range and decodes each item with the given function.
func (s *itemStore) query(ctx context.Context, q Query, each func(Item) error) error {
	items, err := s.items.Query(ctx, q)
	if err != nil {
		return fmt.Errorf("query state items %s %s: %w", q.PK, q.Prefix, err)
	}
	for _, item := range items {
		if err := each(item); err != nil {
			return fmt.Errorf("decode state item %s %s: %w", item.PK, item.SK, err)
		}
	}
	return nil
}
