package simulation

import (
	"sync"

	"firn/internal/lake/peek"
	"firn/internal/store"
)

// keeping is the world's store with a memory for what was decoded from small objects: metadata files, lists and manifests never change under their
// names, and decoding them again and again for every process would take most of a seed's time. The bytes are asked for each time: faults of the store
// strike all the same.
type keeping struct {
	store.Full

	mu   sync.Mutex
	held map[[2]string]any
}

var (
	_ peek.Keeper = (*keeping)(nil)
	_ peek.Keeper = storePort{}
)

// Kept implements peek.Keeper.
func (k *keeping) Kept(location, form string, _ int, decode func() (any, error)) (any, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := [2]string{location, form}
	if value, known := k.held[at]; known {
		return value, nil
	}
	value, err := decode()
	if err == nil {
		k.held[at] = value
	}
	return value, err
}

// Kept implements peek.Keeper.
func (s storePort) Kept(location, form string, sizeBytes int, decode func() (any, error)) (any, error) {
	return s.inner.(peek.Keeper).Kept(location, form, sizeBytes, decode)
}
