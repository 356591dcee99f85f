// Package encoding holds the kernels of the page engine: pure functions between bytes of Parquet pages. It decompresses and compresses page
// bodies, decodes and encodes the RLE/bit-packing hybrid of levels and dictionary indices, merges dictionaries, and walks, filters and bounds
// PLAIN values. It knows no file, no footer and no schema; it never looks at more than the bytes that it is given.
//
// Every function takes bytes of unknown origin: damaged input ends in an error that wraps ErrCorrupt, never in a panic, and no allocation
// exceeds what the input can honestly hold. Functions with a dst argument reuse its capacity and return the slice that they filled, as append
// does. Nothing here is safe for concurrent use unless it says so: each worker owns its Compressor, Decompressor and buffers.
//
// Layouts follow the Parquet format: https://parquet.apache.org/docs/file-format/data-pages/encodings/.
package encoding

//go:generate go run ./bitpackgen

import (
	"errors"
	"fmt"
)

// Reasons why input is not taken. Callers tell them apart: corrupt input fails a file group, the others choose another way.
var (
	// ErrCorrupt says that the bytes are not what their page declares.
	ErrCorrupt = errors.New("corrupt page")
	// ErrUnsupported says that the format allows this and the package does not do it.
	ErrUnsupported = errors.New("unsupported encoding")
	// ErrTooLarge says that the input may be sound and is beyond MaxPageValues or MaxPageBytes.
	ErrTooLarge = errors.New("page too large")
	// ErrDictionaryFull says that a merged dictionary would exceed its limit.
	ErrDictionaryFull = errors.New("dictionary full")
)

const (
	// MaxPageValues is the most values of one page that are decoded. A few bytes of RLE can declare two thousand million values; writers cut
	// pages at 20,000 rows or 1 MB, and those that put a whole row group into one page stay near a million.
	MaxPageValues = 1 << 24
	// MaxPageBytes is the most bytes that one page may have when decompressed or expanded. A kilobyte can honestly stand for thousands of
	// megabytes, of one long value a million times; pages that are only moved are not bound by it.
	MaxPageBytes = 64 << 20
)

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
}

// resize returns dst with length n, keeping its memory when it is large enough. Its content is not kept.
func resize[T any](dst []T, n int) []T {
	if cap(dst) < n {
		return make([]T, n)
	}
	return dst[:n]
}
