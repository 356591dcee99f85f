package footer

import "strconv"

// Type is a physical type.
type Type int64

// The physical types.
const (
	Boolean   Type = 0
	Int32     Type = 1
	Int64     Type = 2
	Int96     Type = 3
	Float     Type = 4
	Float64   Type = 5
	ByteArray Type = 6
	Fixed     Type = 7
)

// Encoding is an encoding of values or levels.
type Encoding int64

// The encodings.
const (
	Plain           Encoding = 0
	PlainDictionary Encoding = 2
	RLE             Encoding = 3
	BitPacked       Encoding = 4
	DeltaBinary     Encoding = 5
	DeltaLength     Encoding = 6
	DeltaByteArray  Encoding = 7
	RLEDictionary   Encoding = 8
	ByteStreamSplit Encoding = 9
)

// Known says that the encoding is one of the above.
func (e Encoding) Known() bool { return e == Plain || (e >= PlainDictionary && e <= ByteStreamSplit) }

// Dictionary says that values are indices into a dictionary.
func (e Encoding) Dictionary() bool { return e == PlainDictionary || e == RLEDictionary }

// PageType is a kind of page.
type PageType int64

// The kinds of pages.
const (
	DataPage       PageType = 0
	IndexPage      PageType = 1
	DictionaryPage PageType = 2
	DataPageV2     PageType = 3
)

// Codec is a compression codec.
type Codec int64

// The codecs. LZ4 is the deprecated framing of Hadoop.
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

// String names the codec as the format does.
func (c Codec) String() string {
	names := [...]string{"UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW"}
	if c < 0 || int(c) >= len(names) {
		return "codec " + strconv.FormatInt(int64(c), 10)
	}
	return names[c]
}
