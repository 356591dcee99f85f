package produce

import (
	"context"
	"strings"
	"sync"

	"firn/internal/lake/peek"
	"firn/internal/store"
)

// Remember returns the store with a memory for manifests and manifest lists, which never change under their names: a second attempt of a commit on a
// head that moved asks the store for what is new only, and decodes no small one again. It keeps up to limitBytes.
func Remember(st store.ReadWriter, limitBytes int64) store.ReadWriter {
	return &memory{ReadWriter: st, left: limitBytes, held: map[piece][]byte{}, decoded: map[form]any{}}
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
	// decoded is what was made of small objects; an entry takes about decodedFactor times the bytes of its file.
	decoded map[form]any
}

// form is one decoded form of an object.
type form struct{ location, name string }

// decodedFactor is how much larger than its file what was decoded from it is, about.
const decodedFactor = 16

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

// Kept implements peek.Keeper.
func (m *memory) Kept(location, name string, sizeBytes int, decode func() (any, error)) (any, error) {
	if keeper, ok := m.ReadWriter.(peek.Keeper); ok {
		return keeper.Kept(location, name, sizeBytes, decode)
	}
	at := form{location, name}
	m.mu.Lock()
	value, known := m.decoded[at]
	m.mu.Unlock()
	if known {
		return value, nil
	}
	value, err := decode()
	if err != nil || !strings.HasSuffix(location, ".avro") {
		return value, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := int64(sizeBytes) * decodedFactor; n <= m.left {
		m.left -= n
		m.decoded[at] = value
	}
	return value, nil
}
