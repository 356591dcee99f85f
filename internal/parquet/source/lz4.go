package source

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/pierrec/lz4/v4"

	"firn/internal/parquet/encoding"
)

// hadoopLZ4 is the codec LZ4 of old Parquet files, which arrow-go lacks.
type hadoopLZ4 struct{}

// arrow-go learns the codec at package initialisation, because its registry is not safe for concurrent use.
var _ = registerHadoopLZ4()

func registerHadoopLZ4() bool {
	compress.RegisterCodec(compress.Codecs.Lz4, hadoopLZ4{})
	return true
}

// DecodeWithError fills dst, which has the page's uncompressed length.
func (hadoopLZ4) DecodeWithError(dst, src []byte) ([]byte, error) {
	return dst, encoding.DecompressLZ4(dst, src)
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
