package source

import (
	"encoding/binary"
	"errors"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/pierrec/lz4/v4"
)

// hadoopLZ4 is the codec LZ4 of old Parquet files, which arrow-go lacks: Hadoop's framing around LZ4 blocks. Some writers put a bare block
// under the same name, so that is tried second, as other readers do.
type hadoopLZ4 struct{}

// arrow-go learns the codec at package initialisation, because its registry is not safe for concurrent use.
var _ = registerHadoopLZ4()

func registerHadoopLZ4() bool {
	compress.RegisterCodec(compress.Codecs.Lz4, hadoopLZ4{})
	return true
}

var errLZ4 = errors.New("damaged LZ4 frames")

// DecodeWithError fills dst, which has the page's uncompressed length.
func (hadoopLZ4) DecodeWithError(dst, src []byte) ([]byte, error) {
	if err := decodeFrames(dst, src); err == nil {
		return dst, nil
	}
	n, err := lz4.UncompressBlock(src, dst)
	if err != nil {
		return nil, err
	}
	if n != len(dst) {
		return nil, errLZ4
	}
	return dst, nil
}

// decodeFrames reads frames of a big-endian uncompressed length and, until that is reached, blocks behind their compressed length.
func decodeFrames(dst, src []byte) error {
	const word = 4
	for len(src) > 0 {
		if len(src) < 2*word {
			return errLZ4
		}
		want := int64(binary.BigEndian.Uint32(src))
		src = src[word:]
		if want > int64(len(dst)) {
			return errLZ4
		}
		for want > 0 {
			if len(src) < word {
				return errLZ4
			}
			size := int64(binary.BigEndian.Uint32(src))
			src = src[word:]
			if size == 0 || size > int64(len(src)) {
				return errLZ4
			}
			n, err := lz4.UncompressBlock(src[:size], dst[:want])
			if err != nil || n == 0 {
				return errLZ4
			}
			src, dst, want = src[size:], dst[n:], want-int64(n)
		}
	}
	if len(dst) != 0 {
		return errLZ4
	}
	return nil
}

// Decode is DecodeWithError for a caller that recovers: arrow-go prefers the other.
func (c hadoopLZ4) Decode(dst, src []byte) []byte {
	out, err := c.DecodeWithError(dst, src)
	if err != nil {
		panic(err)
	}
	return out
}

// Encode writes one frame of one block. The sink never asks for this codec.
func (c hadoopLZ4) Encode(dst, src []byte) []byte {
	buf := make([]byte, c.CompressBound(int64(len(src))))
	n, err := lz4.CompressBlock(src, buf[8:], nil)
	if err != nil {
		panic(err)
	}
	binary.BigEndian.PutUint32(buf, uint32(len(src)))
	binary.BigEndian.PutUint32(buf[4:], uint32(n))
	return append(dst[:0], buf[:8+n]...)
}

// EncodeLevel is Encode: blocks have no levels.
func (c hadoopLZ4) EncodeLevel(dst, src []byte, _ int) []byte { return c.Encode(dst, src) }

// CompressBound is the most bytes that Encode makes.
func (hadoopLZ4) CompressBound(n int64) int64 { return int64(lz4.CompressBlockBound(int(n))) + 8 }
