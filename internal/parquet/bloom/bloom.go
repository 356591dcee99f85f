// Package bloom reads and writes the split-block bloom filters of Parquet files: xxHash64 (seed 0) of a value's PLAIN bytes, without the length in
// front of BYTE_ARRAY values. A filter never says no to a value that was inserted. Rules: BloomFilter.md and parquet.thrift of the Parquet format.
//
// How many values there will be is not known when a column is copied, so a filter starts as large as allowed and is folded to half its size for as
// long as the rate of false positives, counted from the bits that are set, stays within what was asked for.
package bloom

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"firn/internal/parquet/footer"
)

const (
	// blockWords and blockBytes are the size of a block.
	blockWords, blockBytes = 8, 32
	// MaxBytes is the largest filter that is read or written, as in parquet-java.
	MaxBytes = 128 << 20
	// HeadBytes is enough to read a filter's length from; headers of known writers take about 15 bytes.
	HeadBytes = 64
)

// ErrUnsupported says that a filter has another algorithm, hash or compression.
var ErrUnsupported = errors.New("unsupported bloom filter")

// mask is the bit of each word that stands for a key. The odd constants are the format's.
func mask(key uint32) [blockWords]uint32 {
	return [blockWords]uint32{
		1 << (key * 0x47b6137b >> 27), 1 << (key * 0x44974d91 >> 27), 1 << (key * 0x8824ad5b >> 27), 1 << (key * 0xa2b7289d >> 27),
		1 << (key * 0x705495c7 >> 27), 1 << (key * 0x2df1424b >> 27), 1 << (key * 0x9efc4947 >> 27), 1 << (key * 0x5c6bfb31 >> 27),
	}
}

// Filter is a bloom filter. Its methods serve one goroutine.
type Filter struct{ words []uint32 }

// New makes an empty filter of the given size, rounded down to a power of two of blocks, which folding needs; at least one block.
func New(sizeBytes int64) *Filter {
	n := max(min(sizeBytes, MaxBytes)/blockBytes, 1)
	return &Filter{words: make([]uint32, blockWords<<(bits.Len64(uint64(n))-1))}
}

// Bytes is the size of a filter for that many distinct values at a rate of false positives between 0 and 1: a power of two.
func Bytes(distinct int64, rate float64) int64 {
	n := -blockWords * float64(max(distinct, 1)) / math.Log1p(-math.Pow(rate, 1.0/blockWords)) / 8
	if math.IsNaN(n) || n >= MaxBytes {
		return MaxBytes
	}
	return max(int64(1)<<bits.Len64(uint64(math.Ceil(n))-1), blockBytes)
}

// Hash is a value's hash; value is in PLAIN form, without the length of a BYTE_ARRAY.
func Hash(value []byte) uint64 { return xxhash.Sum64(value) }

func (f *Filter) block(hash uint64) []uint32 {
	blocks := uint64(len(f.words) / blockWords)
	at := ((hash >> 32) * blocks >> 32) * blockWords
	return f.words[at : at+blockWords : at+blockWords]
}

// Insert adds a value by its hash.
func (f *Filter) Insert(hash uint64) {
	b := f.block(hash)
	for i, bit := range mask(uint32(hash)) {
		b[i] |= bit
	}
}

// Has says whether a value may have been inserted.
func (f *Filter) Has(hash uint64) bool {
	b := f.block(hash)
	for i, bit := range mask(uint32(hash)) {
		if b[i]&bit == 0 {
			return false
		}
	}
	return true
}

// SizeBytes is the size without header.
func (f *Filter) SizeBytes() int { return 4 * len(f.words) }

// Rate is the share of values never inserted that the filter says yes to.
func (f *Filter) Rate() float64 { return rate(f.words) }

func rate(words []uint32) float64 {
	sum := 0.0
	for at := 0; at < len(words); at += blockWords {
		p := 1.0
		for _, w := range words[at : at+blockWords] {
			p *= float64(bits.OnesCount32(w)) / 32
		}
		sum += p
	}
	return sum / float64(len(words)/blockWords)
}

// Fold halves the filter while its rate stays at or below the given one. Two neighbouring blocks become one, which is where their values would have
// gone in a filter of half the size.
func (f *Filter) Fold(most float64) {
	for len(f.words) > blockWords && len(f.words)%(2*blockWords) == 0 {
		half := make([]uint32, len(f.words)/2)
		for at := 0; at < len(half); at += blockWords {
			for i := range blockWords {
				half[at+i] = f.words[2*at+i] | f.words[2*at+blockWords+i]
			}
		}
		if rate(half) > most {
			return
		}
		f.words = half
	}
}

// Append writes header and bits after dst.
func (f *Filter) Append(dst []byte) []byte {
	choice := func() footer.Value {
		return footer.RecordValue(&footer.Struct{Fields: []footer.Field{{ID: 1, Value: footer.RecordValue(&footer.Struct{})}}})
	}
	dst = footer.Append(dst, &footer.Struct{Fields: []footer.Field{
		{ID: 1, Value: footer.Int32Value(int64(f.SizeBytes()))}, {ID: 2, Value: choice()}, {ID: 3, Value: choice()}, {ID: 4, Value: choice()},
	}})
	for _, w := range f.words {
		dst = binary.LittleEndian.AppendUint32(dst, w)
	}
	return dst
}

// Length reads the length of a filter, header included, from its first HeadBytes, or fewer at the end of a file. Other kinds of filters have one
// too: error ErrUnsupported comes with the length.
func Length(head []byte) (int64, error) {
	h, n, err := footer.Decode(head[:min(len(head), HeadBytes)])
	if err != nil {
		return 0, fmt.Errorf("read a bloom filter's header: %w", err)
	}
	size := h.IntOr(1, -1)
	if size < blockBytes || size > MaxBytes || size%blockBytes != 0 {
		return 0, fmt.Errorf("a bloom filter of %d bytes: %w", size, footer.ErrMalformed)
	}
	for id := int16(2); id <= 4; id++ {
		if h.Record(id).Record(1) == nil {
			err = ErrUnsupported
		}
	}
	return int64(n) + size, err
}

// Read reads a filter, header included; data has to end with it.
func Read(data []byte) (*Filter, error) {
	n, err := Length(data)
	if err != nil {
		return nil, err
	}
	if n != int64(len(data)) {
		return nil, fmt.Errorf("a bloom filter of %d bytes in %d: %w", n, len(data), footer.ErrMalformed)
	}
	_, head, err := footer.Decode(data)
	if err != nil {
		return nil, err
	}
	f := &Filter{words: make([]uint32, (len(data)-head)/4)}
	for i := range f.words {
		f.words[i] = binary.LittleEndian.Uint32(data[head+4*i:])
	}
	return f, nil
}
