package avro

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

const (
	// A block may unpack to allowedBytes and allowedRatio times its own length. Deflate never reaches that ratio; zstandard does on purpose only.
	allowedBytes = 4 << 20
	allowedRatio = 1100
	// maxWindow bounds the window of a zstandard frame.
	maxWindow = 8 << 20
)

// Pool lends the buffers of readers, so that thousands of small files cost no more than their bytes. The zero value is ready, a nil one lends
// nothing; it is safe for concurrent use.
type Pool struct{ buffers, inflaters sync.Pool }

// Lend returns an empty buffer, which has room for the given bytes where that is not much. Return takes it back.
func (p *Pool) Lend(room int) []byte {
	if p != nil {
		if b, ok := p.buffers.Get().(*[]byte); ok && cap(*b) >= room {
			return (*b)[:0]
		}
	}
	return make([]byte, 0, max(16<<10, min(room+room/4, allowedBytes)))
}

// Return takes a buffer that nobody uses any more.
func (p *Pool) Return(b []byte) {
	if p != nil && cap(b) <= allowedBytes {
		p.buffers.Put(&b)
	}
}

// codec unpacks blocks.
type codec interface {
	// unpack appends to dst, or returns packed itself.
	unpack(dst, packed []byte) ([]byte, error)
	// copies reports whether unpack appends.
	copies() bool
	close(p *Pool)
}

func (p *Pool) codec(name string) (codec, error) {
	switch name {
	case "", "null":
		return plain{}, nil
	case "deflate":
		if p != nil {
			if d, ok := p.inflaters.Get().(*inflater); ok {
				return d, nil
			}
		}
		return &inflater{}, nil
	case "snappy":
		return snappyCodec{}, nil
	case "zstandard":
		r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, fmt.Errorf("start zstandard: %w", err)
		}
		return &zstandard{r: r}, nil
	}
	return nil, fmt.Errorf("codec %q: %w", name, ErrUnsupported)
}

type plain struct{}

func (plain) unpack(_, packed []byte) ([]byte, error) { return packed, nil }
func (plain) copies() bool                            { return false }
func (plain) close(*Pool)                             {}

// snappyCodec reads blocks of snappy with a checksum behind.
type snappyCodec struct{}

func (snappyCodec) unpack(dst, packed []byte) ([]byte, error) {
	if len(packed) < 4 {
		return nil, fmt.Errorf("a snappy block of %d bytes: %w", len(packed), ErrCorrupt)
	}
	body, sum := packed[:len(packed)-4], packed[len(packed)-4:]
	n, err := snappy.DecodedLen(body)
	if err != nil || n > limit(len(packed)) {
		return nil, fmt.Errorf("a snappy block of %d bytes unpacks to %d: %w", len(packed), n, ErrCorrupt)
	}
	out, err := snappy.Decode(dst[:cap(dst)], body)
	if err != nil {
		return nil, fmt.Errorf("unpack: %w: %w", ErrCorrupt, err)
	}
	if crc32.ChecksumIEEE(out) != binary.BigEndian.Uint32(sum) {
		return nil, fmt.Errorf("the checksum is wrong: %w", ErrCorrupt)
	}
	return out, nil
}

func (snappyCodec) copies() bool { return true }
func (snappyCodec) close(*Pool)  {}

type zstandard struct{ r *zstd.Decoder }

func (z *zstandard) unpack(dst, packed []byte) ([]byte, error) {
	if err := z.r.Reset(bytes.NewReader(packed)); err != nil {
		return nil, fmt.Errorf("unpack: %w: %w", ErrCorrupt, err)
	}
	return drain(dst, z.r, len(packed))
}

func (*zstandard) copies() bool  { return true }
func (z *zstandard) close(*Pool) { z.r.Close() }

func limit(packed int) int { return allowedBytes + allowedRatio*packed }

// drain appends all that r yields.
func drain(dst []byte, r io.Reader, packed int) ([]byte, error) {
	for {
		if len(dst) == cap(dst) {
			grown := make([]byte, len(dst), min(2*cap(dst)+chunkBytes/4, limit(packed)+1))
			copy(grown, dst)
			dst = grown
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if len(dst) > limit(packed) {
			return nil, fmt.Errorf("%d bytes unpack to more than %d: %w", packed, limit(packed), ErrCorrupt)
		}
		if errors.Is(err, io.EOF) {
			return dst, nil
		}
		if err != nil {
			return nil, fmt.Errorf("unpack: %w: %w", ErrCorrupt, err)
		}
	}
}
