package deletes

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"firn/internal/store"
)

const (
	// vectorMagic is the four bytes before the bitmap (Puffin specification, "deletion-vector-v1").
	vectorMagic = "\xd1\xd3\x39\x64"
	// vectorFrame is length (4), magic (4) and checksum (4).
	vectorFrame = 12
	// maxVectorBytes bounds the memory of one vector.
	maxVectorBytes = 256 << 20
)

// DecodeVector decodes a deletion vector's blob: big-endian length of magic and bitmap, magic, 64-bit Roaring bitmap in the portable form,
// big-endian CRC-32 of magic and bitmap. Length, magic and checksum must hold.
func DecodeVector(blob []byte) (Mask, error) {
	if len(blob) < vectorFrame {
		return nil, fmt.Errorf("decode a deletion vector of %d bytes: %w", len(blob), ErrUnusable)
	}
	if n := binary.BigEndian.Uint32(blob); int64(n) != int64(len(blob)-8) {
		return nil, fmt.Errorf("decode a deletion vector: length field %d in a blob of %d bytes: %w", n, len(blob), ErrUnusable)
	}
	body := blob[4 : len(blob)-4]
	if string(body[:4]) != vectorMagic {
		return nil, fmt.Errorf("decode a deletion vector: magic %x: %w", body[:4], ErrUnusable)
	}
	if sum := binary.BigEndian.Uint32(blob[len(blob)-4:]); sum != crc32.ChecksumIEEE(body) {
		return nil, fmt.Errorf("decode a deletion vector: the checksum does not match: %w", ErrUnusable)
	}
	m, err := decodeBitmap(body[4:])
	if err != nil {
		return nil, fmt.Errorf("decode a deletion vector: %w: %w", err, ErrUnusable)
	}
	return m, nil
}

// decodeBitmap guards the library, which trusts counts and panics on some damage.
func decodeBitmap(data []byte) (m Mask, err error) {
	defer func() {
		if r := recover(); r != nil {
			m, err = nil, fmt.Errorf("bitmap: %v", r)
		}
	}()
	const smallestBucket = 4 + 8 // Key, and an empty 32-bit bitmap's cookie and size.
	if len(data) < 8 {
		return nil, errors.New("the bitmap has no size")
	}
	if n := binary.LittleEndian.Uint64(data); n > uint64((len(data)-8)/smallestBucket) {
		return nil, fmt.Errorf("%d buckets in %d bytes", n, len(data))
	}
	r := bytes.NewReader(data)
	m = roaring64.New()
	if _, err := m.ReadFrom(r); err != nil {
		return nil, err
	}
	if r.Len() != 0 {
		return nil, fmt.Errorf("%d bytes follow the bitmap", r.Len())
	}
	if m.IsEmpty() {
		return m, nil
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return m, nil
}

// readVector fetches a vector's blob with one ranged request and checks it against its manifest entry.
func readVector(ctx context.Context, st store.Reader, f File) (Mask, error) {
	offset, size := f.ContentOffset(), f.ContentSizeInBytes()
	if offset == nil || size == nil {
		return nil, fmt.Errorf("deletion vector %s has no offset and size: %w", f.FilePath(), ErrUnusable)
	}
	if *offset < 0 || *size < vectorFrame || *size > maxVectorBytes {
		return nil, fmt.Errorf("deletion vector %s at %d has %d bytes: %w", f.FilePath(), *offset, *size, ErrUnusable)
	}
	blob, err := st.GetRange(ctx, f.FilePath(), *offset, *size)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrArchived), errors.Is(err, store.ErrPermission):
		return nil, fmt.Errorf("read deletion vector %s: %w: %w", f.FilePath(), err, ErrUnusable)
	case err != nil:
		return nil, fmt.Errorf("read deletion vector %s: %w", f.FilePath(), err)
	case int64(len(blob)) != *size:
		return nil, fmt.Errorf("deletion vector %s at %d ends after %d of %d bytes: %w", f.FilePath(), *offset, len(blob), *size, ErrUnusable)
	}
	m, err := DecodeVector(blob)
	if err != nil {
		return nil, fmt.Errorf("read deletion vector %s at %d: %w", f.FilePath(), *offset, err)
	}
	if n := m.GetCardinality(); int64(n) != f.Count() {
		return nil, fmt.Errorf("deletion vector %s at %d holds %d positions, its manifest entry says %d: %w", f.FilePath(), *offset, n, f.Count(),
			ErrUnusable)
	}
	return m, nil
}
