package sink

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/parquet/compress"

	"firn/internal/parquet/layout"
)

// Options are a table's write.parquet.* properties.
type Options struct {
	// RowGroupBytes is the size at which a row group ends. The caller cuts row groups; this package only carries the number.
	RowGroupBytes int64
	// PageBytes, PageRows and DictBytes bound a data page and a dictionary.
	PageBytes int64
	PageRows  int
	DictBytes int64
	// Codec and Level compress pages; Level is the codec's default when 0.
	Codec compress.Compression
	Level int
	// Bloom holds the false positive rate of each column with a bloom filter, by leaf index.
	Bloom map[int]float64
	// BloomValues is the number of distinct values that a bloom filter is made for, by leaf index, where the table tells.
	BloomValues map[int]int64
	// BloomBytes is the largest size of a bloom filter.
	BloomBytes int64
	// Metadata are key-value pairs of the footer.
	Metadata map[string]string
}

// Defaults of Iceberg's TableProperties.
const (
	defaultRowGroupBytes = 128 << 20
	defaultPageBytes     = 1 << 20
	defaultPageRows      = 20_000
	defaultDictBytes     = 2 << 20
	defaultBloomBytes    = 1 << 20
	defaultBloomRate     = 0.01
)

const (
	bloomEnabled = "write.parquet.bloom-filter-enabled.column."
	bloomRate    = "write.parquet.bloom-filter-fpp.column."
	bloomValues  = "write.parquet.bloom-filter-ndv.column."
)

// ParseOptions reads the properties. A codec that cannot be written, or a value that is no number, is an error that names the property.
func ParseOptions(props map[string]string, l *layout.Layout) (Options, error) {
	p := reader{props: props}
	o := Options{
		RowGroupBytes: p.positive("write.parquet.row-group-size-bytes", defaultRowGroupBytes),
		PageBytes:     p.positive("write.parquet.page-size-bytes", defaultPageBytes),
		PageRows:      int(p.positive("write.parquet.page-row-limit", defaultPageRows)),
		DictBytes:     p.positive("write.parquet.dict-size-bytes", defaultDictBytes),
		BloomBytes:    p.positive("write.parquet.bloom-filter-max-bytes", defaultBloomBytes),
		Bloom:         map[int]float64{}, BloomValues: map[int]int64{},
	}
	o.Codec = p.codec("write.parquet.compression-codec")
	if text, ok := props["write.parquet.compression-level"]; ok && text != "" && text != "null" {
		o.Level = int(p.integer("write.parquet.compression-level", 0))
	}
	for _, leaf := range l.Leaves {
		if leaf.Part || props[bloomEnabled+leaf.Path] != "true" {
			continue
		}
		o.Bloom[leaf.Index] = p.rate(bloomRate+leaf.Path, defaultBloomRate)
		if _, ok := props[bloomValues+leaf.Path]; ok {
			o.BloomValues[leaf.Index] = p.positive(bloomValues+leaf.Path, 0)
		}
	}
	return o, p.err
}

// reader reads properties and keeps the first fault.
type reader struct {
	props map[string]string
	err   error
}

func (r *reader) fail(key, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("read property %s = %q: want %s", key, r.props[key], want)
	}
}

func (r *reader) integer(key string, otherwise int64) int64 {
	text, ok := r.props[key]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		r.fail(key, "a whole number")
	}
	return n
}

func (r *reader) positive(key string, otherwise int64) int64 {
	n := r.integer(key, otherwise)
	if n <= 0 {
		r.fail(key, "a number above 0")
	}
	return n
}

func (r *reader) rate(key string, otherwise float64) float64 {
	text, ok := r.props[key]
	if !ok {
		return otherwise
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || f <= 0 || f >= 1 {
		r.fail(key, "a rate between 0 and 1")
	}
	return f
}

// codec maps Iceberg's names. "lz4" is written as LZ4_RAW: the older framing is deprecated by the Parquet specification.
func (r *reader) codec(key string) compress.Compression {
	switch name := strings.ToLower(r.props[key]); name {
	case "", "zstd":
		return compress.Codecs.Zstd
	case "gzip":
		return compress.Codecs.Gzip
	case "snappy":
		return compress.Codecs.Snappy
	case "lz4", "lz4_raw":
		return compress.Codecs.Lz4Raw
	case "brotli":
		return compress.Codecs.Brotli
	case "uncompressed", "none":
		return compress.Codecs.Uncompressed
	default:
		r.fail(key, "zstd, gzip, snappy, lz4, brotli or uncompressed")
		return compress.Codecs.Uncompressed
	}
}
