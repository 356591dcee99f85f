package encoding

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/huff0"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"firn/internal/parquet/frames"
)

// Codec is a compression codec by its number in the Parquet format (enum CompressionCodec).
type Codec int32

// The codecs of the format. LZ4, the kind that Hadoop framed, is only read; LZO is known by name only: ErrUnsupported.
const (
	Uncompressed Codec = 0
	Snappy       Codec = 1
	Gzip         Codec = 2
	LZO          Codec = 3
	Brotli       Codec = 4
	LZ4          Codec = 5
	Zstd         Codec = 6
	LZ4Raw       Codec = 7
)

// String is the name that the format uses.
func (c Codec) String() string {
	names := [...]string{"UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW"}
	if c < 0 || int(c) >= len(names) {
		return fmt.Sprintf("codec %d", int32(c))
	}
	return names[c]
}

// Supported says whether pages of the codec can be compressed and decompressed.
func (c Codec) Supported() bool {
	switch c {
	case Uncompressed, Snappy, Gzip, Brotli, Zstd, LZ4Raw:
		return true
	default:
		return false
	}
}

// Readable says whether pages of the codec can be decompressed.
func (c Codec) Readable() bool { return c == LZ4 || c.Supported() }

// maxExpansion bounds how many bytes a compressed byte can stand for, so that a page of a kilobyte cannot ask for gigabytes before a byte of it
// is decoded. Snappy: 64 bytes by a copy of 3. LZ4: a length byte adds 255. Deflate: 258 bytes by 2 bits. Zstandard: a block of 128 KiB by 4
// bytes. Brotli has no useful bound of its own and borrows that of Zstandard.
func (c Codec) maxExpansion() int {
	switch c {
	case Snappy:
		return 22
	case LZ4Raw, LZ4:
		return 255
	case Gzip:
		return 1032
	default:
		return 1 << 15
	}
}

// Decompressor decompresses page bodies and keeps the decoders' memory between calls. The zero value is ready.
type Decompressor struct {
	zstd   *zstd.Decoder
	gzip   *gzip.Reader
	brotli *brotli.Reader
	src    bytes.Reader
}

// zstdSlack is room behind the output which lets the decoder copy in whole words to the end.
const zstdSlack = 64

// Decompress decompresses src, which must yield exactly uncompressedSize bytes, into dst's capacity. For UNCOMPRESSED it returns src itself.
// An empty src of size 0 is right for every codec: writers leave out the frame of pages without values.
func (d *Decompressor) Decompress(dst, src []byte, codec Codec, uncompressedSize int) ([]byte, error) {
	switch {
	case !codec.Readable():
		return nil, fmt.Errorf("decompress page: %w: %v", ErrUnsupported, codec)
	case uncompressedSize < 0:
		return nil, corrupt("uncompressed size %d", uncompressedSize)
	case uncompressedSize > MaxPageBytes:
		return nil, fmt.Errorf("decompress page of %d bytes: %w", uncompressedSize, ErrTooLarge)
	case codec == Uncompressed:
		if len(src) != uncompressedSize {
			return nil, corrupt("page of %d bytes, %d declared", len(src), uncompressedSize)
		}
		return src, nil
	case len(src) == 0 && uncompressedSize == 0:
		return dst[:0], nil
	case uncompressedSize/codec.maxExpansion() > len(src):
		return nil, corrupt("%d bytes of %v for %d bytes", len(src), codec, uncompressedSize)
	}
	if cap(dst) < uncompressedSize+zstdSlack {
		dst = make([]byte, uncompressedSize+zstdSlack)
	}
	dst = dst[:uncompressedSize]
	n, err := d.decompress(dst, src, codec)
	if err != nil {
		return nil, corrupt("%v: %v", codec, err)
	}
	if n != uncompressedSize {
		return nil, corrupt("%v page of %d bytes, %d declared", codec, n, uncompressedSize)
	}
	return dst, nil
}

func (d *Decompressor) decompress(dst, src []byte, codec Codec) (int, error) {
	switch codec {
	case Snappy:
		n, err := s2.DecodedLen(src)
		if err != nil || n != len(dst) {
			return n, err
		}
		_, err = s2.Decode(dst, src)
		return n, err
	case LZ4Raw:
		return lz4.UncompressBlock(src, dst)
	case LZ4:
		return len(dst), DecompressLZ4(dst, src)
	case Zstd:
		return d.unzstd(dst, src)
	case Gzip:
		return d.gunzip(dst, src)
	default:
		return d.unbrotli(dst, src)
	}
}

func (d *Decompressor) unzstd(dst, src []byte) (int, error) {
	if d.zstd == nil {
		var err error
		d.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return 0, err
		}
	}
	out, err := d.zstd.DecodeAll(src, dst[:0:len(dst)+zstdSlack])
	if err == nil && len(out) == len(dst) && len(out) > 0 && &out[0] != &dst[0] {
		copy(dst, out)
	}
	return len(out), err
}

func (d *Decompressor) gunzip(dst, src []byte) (int, error) {
	d.src.Reset(src)
	if d.gzip == nil {
		r, err := gzip.NewReader(&d.src)
		if err != nil {
			return 0, err
		}
		d.gzip = r
	} else if err := d.gzip.Reset(&d.src); err != nil {
		return 0, err
	}
	return readExactly(d.gzip, dst)
}

func (d *Decompressor) unbrotli(dst, src []byte) (int, error) {
	d.src.Reset(src)
	if d.brotli == nil {
		d.brotli = brotli.NewReader(&d.src)
	} else if err := d.brotli.Reset(&d.src); err != nil {
		return 0, err
	}
	n, err := readExactly(d.brotli, dst)
	if err != nil || n != len(dst) {
		d.brotli = nil // its Reset keeps input that was not consumed
	}
	return n, err
}

// readExactly fills dst and reads the end of the stream, where its checksum is.
func readExactly(r io.Reader, dst []byte) (int, error) {
	n, err := io.ReadFull(r, dst)
	if err != nil {
		return n, err
	}
	var more [1]byte
	switch k, err := io.ReadFull(r, more[:]); {
	case k > 0:
		return n + k, nil
	case err == io.EOF:
		return n, nil
	default:
		return n, err
	}
}

// DefaultLevel leaves the compression level to the codec: the encoder's fastest of Zstandard, which is close to level 3 of others; gzip 6, brotli 4.
const DefaultLevel = 0

// Compressor compresses page bodies with one codec and level and keeps the encoder's memory between calls.
type Compressor struct {
	codec Codec
	level int
	zstd  *zstd.Encoder
	lz4   *lz4.Compressor
	// huff and literals serve pages that are compressed by strides.
	huff     huff0.Scratch
	literals []byte
	// again serves pages that are made of other ones.
	again  again
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

// windowBytes is how far back the Zstandard encoder looks. Few pages are longer than that; the encoder holds twice as much.
const windowBytes = 2 << 20

// newZstd switches frame checksums off, as pages have their own, and entropy coding of all literals on: numeric PLAIN pages become a seventh
// smaller.
func newZstd(level int) (*zstd.Encoder, error) {
	speed := zstd.SpeedFastest
	if level != DefaultLevel {
		speed = zstd.EncoderLevelFromZstd(level)
	}
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(speed), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(windowBytes),
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

// again holds what it takes to make a frame of another one.
type again struct {
	reader        frames.Reader
	mover         frames.Mover
	writer        frames.Writer
	source, moved []frames.Sequence
}

// highestCopied is the level up to which the copies of another frame are good enough; above, the table wants them searched for.
const highestCopied = 5

// AppendPieces is Append for a page that consists of pieces of another page, and of other bytes: frame is the other page compressed, size the length of
// its content, and pieces are in order in both. Zstandard frames say which bytes are copies of earlier ones; those still hold, and are not searched
// for again. Where too many were lost, the page is compressed as any other.
func (c *Compressor) AppendPieces(dst, src, frame []byte, size int, pieces []frames.Piece) ([]byte, error) {
	a, ok := &c.again, false
	if c.codec != Zstd || c.level > highestCopied {
		return c.Append(dst, src)
	}
	if a.source, ok = a.reader.Append(a.source[:0], frame, size); !ok {
		return c.Append(dst, src)
	}
	a.moved = a.mover.Move(a.moved[:0], a.source, pieces, src)
	const slack = 20 // A twentieth more than the other page took.
	if now, before := cost(a.moved, len(src)), cost(a.source, size); now*int64(size) > (before+before/slack)*int64(len(src)) {
		return c.Append(dst, src)
	}
	if out, ok := a.writer.Append(dst, src, a.moved); ok {
		return out, nil
	}
	return c.Append(dst, src)
}

// cost estimates in bits what the sequences of a content of that size take.
func cost(sequences []frames.Sequence, size int) int64 {
	const literal, sequence = 5, 20
	for _, s := range sequences {
		size -= int(s.Match)
	}
	return literal*int64(size) + sequence*int64(len(sequences))
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

// DecompressLZ4 decompresses a page of the codec LZ4, whose uncompressed length is that of dst: Hadoop's framing around LZ4 blocks. Some writers put
// a bare block under the same name, so that is tried second, as other readers do.
func DecompressLZ4(dst, src []byte) error {
	if unframe(dst, src) {
		return nil
	}
	n, err := lz4.UncompressBlock(src, dst)
	if err != nil || n != len(dst) {
		return corrupt("damaged LZ4 frames")
	}
	return nil
}

// unframe reads frames of a big-endian uncompressed length and, until that is reached, blocks behind their compressed length.
func unframe(dst, src []byte) bool {
	const word = 4
	for len(src) > 0 {
		if len(src) < 2*word {
			return false
		}
		want := int64(binary.BigEndian.Uint32(src))
		src = src[word:]
		if want > int64(len(dst)) {
			return false
		}
		for want > 0 {
			if len(src) < word {
				return false
			}
			size := int64(binary.BigEndian.Uint32(src))
			src = src[word:]
			if size == 0 || size > int64(len(src)) {
				return false
			}
			n, err := lz4.UncompressBlock(src[:size], dst[:want])
			if err != nil || n == 0 {
				return false
			}
			src, dst, want = src[size:], dst[n:], want-int64(n)
		}
	}
	return len(dst) == 0
}
