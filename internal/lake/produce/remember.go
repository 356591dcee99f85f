package produce

import (
	"context"
	"strings"
	"sync"

	"firn/internal/store"
)

// Remember returns the store with a memory for manifests and manifest lists, which never change under their names: a second attempt of a commit on a
// head that moved asks the store for what is new only. It keeps up to limitBytes.
func Remember(st store.ReadWriter, limitBytes int64) store.ReadWriter {
	return &memory{ReadWriter: st, left: limitBytes, held: map[piece][]byte{}}
}

// piece is a range of an object; length 0 stands for all of it.
type piece struct {
	location       string
	offset, length int64
}

type memory struct {
	store.ReadWriter

	mu   sync.Mutex
	left int64
	held map[piece][]byte
}

// Get returns a whole object.
func (m *memory) Get(ctx context.Context, location string) ([]byte, error) {
	return m.get(piece{location: location}, func() ([]byte, error) { return m.ReadWriter.Get(ctx, location) })
}

// GetRange returns a part of an object.
func (m *memory) GetRange(ctx context.Context, location string, offset, length int64) ([]byte, error) {
	return m.get(piece{location, offset, length}, func() ([]byte, error) { return m.ReadWriter.GetRange(ctx, location, offset, length) })
}

func (m *memory) get(at piece, fetch func() ([]byte, error)) ([]byte, error) {
	if !strings.HasSuffix(at.location, ".avro") {
		return fetch()
	}
	m.mu.Lock()
	data, known := m.held[at]
	m.mu.Unlock()
	if known {
		return data, nil
	}
	data, err := fetch()
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := int64(len(data)); n <= m.left {
		m.left -= n
		m.held[at] = data
	}
	return data, nil
}
