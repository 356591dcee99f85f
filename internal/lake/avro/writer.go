package avro

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/klauspost/compress/flate"
)

const (
	// blockBytes is how many bytes of values make a block.
	blockBytes = 64 << 10
	// deflateLevel packs manifests about as small as zlib's default level at a third of the time.
	deflateLevel = 5
)

// Deflaters lends the encoders of writers, each of which is many times larger than what a small file holds. The zero value is ready, a nil one lends
// nothing; it is safe for concurrent use.
type Deflaters struct{ encoders sync.Pool }

// Writer makes one container file in memory, with codec deflate. It is not safe for concurrent use.
type Writer struct {
	out     bytes.Buffer
	deflate *flate.Writer
	lender  *Deflaters
	sync    [syncBytes]byte
	block   []byte
	count   int64
}

// NewWriter starts a file, with what a pool lends. meta are the header's values but the codec; sync is its marker, which should differ between files.
func (d *Deflaters) NewWriter(meta map[string][]byte, sync [syncBytes]byte) *Writer {
	w := &Writer{sync: sync, lender: d}
	head := append([]byte(nil), magic...)
	head = AppendLong(head, int64(len(meta)+1))
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		head = AppendBytes(AppendBytes(head, []byte(key)), meta[key])
	}
	head = AppendBytes(AppendBytes(head, []byte("avro.codec")), []byte("deflate"))
	head = append(AppendLong(head, 0), sync[:]...)
	w.out.Write(head)
	return w
}

// Append writes one encoded value.
func (w *Writer) Append(value []byte) error {
	w.block = append(w.block, value...)
	w.count++
	if len(w.block) < blockBytes {
		return nil
	}
	return w.flush()
}

// Len is the length of the file so far, without what is still being collected for the next block.
func (w *Writer) Len() int { return w.out.Len() }

// Close returns the file.
func (w *Writer) Close() ([]byte, error) {
	if err := w.flush(); err != nil {
		return nil, err
	}
	if w.lender != nil && w.deflate != nil {
		w.lender.encoders.Put(w.deflate)
	}
	w.deflate = nil
	return w.out.Bytes(), nil
}

func (w *Writer) flush() error {
	if w.count == 0 {
		return nil
	}
	var packed bytes.Buffer
	if w.deflate == nil && w.lender != nil {
		w.deflate, _ = w.lender.encoders.Get().(*flate.Writer)
	}
	if w.deflate == nil {
		var err error
		if w.deflate, err = flate.NewWriter(&packed, deflateLevel); err != nil {
			return fmt.Errorf("start deflate: %w", err)
		}
	} else {
		w.deflate.Reset(&packed)
	}
	if _, err := w.deflate.Write(w.block); err != nil {
		return fmt.Errorf("pack block: %w", err)
	}
	if err := w.deflate.Close(); err != nil {
		return fmt.Errorf("pack block: %w", err)
	}
	head := AppendLong(AppendLong(nil, w.count), int64(packed.Len()))
	w.out.Write(head)
	w.out.Write(packed.Bytes())
	w.out.Write(w.sync[:])
	w.block, w.count = w.block[:0], 0
	return nil
}

// AppendLong encodes an int or a long.
func AppendLong(dst []byte, v int64) []byte {
	return binary.AppendUvarint(dst, uint64(v)<<1^uint64(v>>63))
}

// AppendBytes encodes bytes or a string.
func AppendBytes[T ~[]byte | ~string](dst []byte, v T) []byte {
	return append(AppendLong(dst, int64(len(v))), v...)
}
