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

// String names the type as the format does.
func (t Type) String() string {
	names := [...]string{"BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"}
	if t < 0 || int(t) >= len(names) {
		return "type " + strconv.FormatInt(int64(t), 10)
	}
	return names[t]
}

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
