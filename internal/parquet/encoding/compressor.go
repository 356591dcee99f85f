package encoding

import (
	"fmt"
	"io"
	"slices"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// DefaultLevel leaves the compression level to the codec: Zstandard 3, gzip 6, brotli 4.
const DefaultLevel = 0

// Compressor compresses page bodies with one codec and level and keeps the encoder's memory between calls.
type Compressor struct {
	codec  Codec
	level  int
	zstd   *zstd.Encoder
	lz4    *lz4.Compressor
	stream interface {
		io.WriteCloser
		Reset(w io.Writer)
	}
	sink appender
}

// NewCompressor returns a compressor for the codec. Levels are the codec's own (Zstandard 1 to 22, mapped to the four speeds of the encoder;
// gzip 1 to 9; brotli 1 to 11; snappy above 1 searches longer for copies); LZ4_RAW and UNCOMPRESSED have none.
func NewCompressor(codec Codec, level int) (*Compressor, error) {
	c := &Compressor{codec: codec, level: level}
	var err error
	switch codec {
	case Uncompressed, Snappy:
	case LZ4Raw:
		c.lz4 = new(lz4.Compressor)
	case Zstd:
		c.zstd, err = newZstd(level)
	case Gzip:
		if level == DefaultLevel {
			level = gzip.DefaultCompression
		}
		c.stream, err = gzip.NewWriterLevel(&c.sink, level)
	case Brotli:
		if level == DefaultLevel {
			level = 4
		}
		if level < brotli.BestSpeed || level > brotli.BestCompression {
			return nil, fmt.Errorf("compress with brotli level %d: %w", level, ErrUnsupported)
		}
		c.stream = brotli.NewWriterLevel(&c.sink, level)
	default:
		err = ErrUnsupported
	}
	if err != nil {
		return nil, fmt.Errorf("compress with %v level %d: %w", codec, level, err)
	}
	return c, nil
}

// newZstd switches frame checksums off, as pages have their own, and entropy coding of all literals on: numeric PLAIN pages become a seventh
// smaller.
func newZstd(level int) (*zstd.Encoder, error) {
	if level == DefaultLevel {
		level = 3
	}
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithAllLitEntropyCompression(true), zstd.WithZeroFrames(true))
}

// Codec is the codec that the compressor was made for.
func (c *Compressor) Codec() Codec { return c.codec }

// Append appends the compressed src to dst; for UNCOMPRESSED that is src. On an error it returns dst as it was.
func (c *Compressor) Append(dst, src []byte) ([]byte, error) {
	if len(src) > MaxPageBytes {
		return dst, fmt.Errorf("compress page of %d bytes: %w", len(src), ErrTooLarge)
	}
	switch c.codec {
	case Uncompressed:
		return append(dst, src...), nil
	case Snappy:
		n := len(dst)
		dst = slices.Grow(dst, s2.MaxEncodedLen(len(src)))
		if c.level > 1 {
			return dst[:n+len(s2.EncodeSnappyBetter(dst[n:cap(dst)], src))], nil
		}
		return dst[:n+len(s2.EncodeSnappy(dst[n:cap(dst)], src))], nil
	case LZ4Raw:
		return c.appendLZ4(dst, src)
	case Zstd:
		return c.zstd.EncodeAll(src, dst), nil
	default:
		return c.appendStream(dst, src)
	}
}

func (c *Compressor) appendLZ4(dst, src []byte) ([]byte, error) {
	n := len(dst)
	if len(src) == 0 {
		return append(dst, 0), nil // the token of no literals and no match
	}
	grown := slices.Grow(dst, lz4.CompressBlockBound(len(src)))
	k, err := c.lz4.CompressBlock(src, grown[n:cap(grown)])
	if err != nil {
		return dst, fmt.Errorf("compress %d bytes with %v: %w", len(src), c.codec, err)
	}
	if k == 0 {
		return appendLZ4Literals(grown[:n], src), nil
	}
	return grown[:n+k], nil
}

// appendLZ4Literals writes src as a block of one run of literals.
func appendLZ4Literals(dst, src []byte) []byte {
	const long, more = 15, 255
	n := len(src)
	if n < long {
		return append(append(dst, byte(n)<<4), src...)
	}
	dst = append(dst, long<<4)
	for n -= long; n >= more; n -= more {
		dst = append(dst, more)
	}
	return append(append(dst, byte(n)), src...)
}

func (c *Compressor) appendStream(dst, src []byte) ([]byte, error) {
	c.sink.buf = dst
	c.stream.Reset(&c.sink)
	_, err := c.stream.Write(src)
	if err == nil {
		err = c.stream.Close()
	}
	out := c.sink.buf
	c.sink.buf = nil
	if err != nil {
		return dst, fmt.Errorf("compress %d bytes with %v: %w", len(src), c.codec, err)
	}
	return out, nil
}

// appender is an io.Writer into a slice.
type appender struct{ buf []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.buf = append(a.buf, p...)
	return len(p), nil
}
