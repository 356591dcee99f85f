package peek

import (
	"fmt"

	"github.com/apache/iceberg-go"

	"firn/internal/store"
)

// keptBytes is up to which size of an object its decoded form is kept: a stream's commits leave many small manifests, each of which costs as much to
// begin as hundreds of entries cost to read. Larger ones are streamed each time.
const keptBytes = 64 << 10

// Keeper is a store with a memory for what was decoded from objects that never change under their names.
type Keeper interface {
	// Kept returns what decode made of the object when it was asked first for this form of it. Errors are not kept. sizeBytes is the object's size.
	// The value is shared: nobody may change it.
	Kept(location, form string, sizeBytes int, decode func() (any, error)) (any, error)
}

// Keeps reports whether the decoded form of an object of that size is kept by the store.
func Keeps(st store.Reader, sizeBytes int64) bool {
	_, ok := st.(Keeper)
	return ok && sizeBytes > 0 && sizeBytes <= keptBytes
}

// Kept decodes a small object of a Keeper once, and anything else each time.
func Kept[T any](st store.Reader, location, form string, data []byte, decode func() (T, error)) (T, error) {
	if !Keeps(st, int64(len(data))) {
		return decode()
	}
	value, err := st.(Keeper).Kept(location, form, len(data), func() (any, error) { return decode() })
	if err != nil {
		var none T
		return none, err
	}
	return value.(T), nil //nolint:forcetypeassert // one form, one type
}

// inherits spells what the entries of a manifest take from its list.
func inherits(m iceberg.ManifestFile) string {
	first := int64(-1)
	if id := m.FirstRowID(); id != nil {
		first = *id
	}
	return fmt.Sprint(m.Version(), m.ManifestContent(), m.PartitionSpecID(), m.SequenceNum(), m.SnapshotID(), first)
}
