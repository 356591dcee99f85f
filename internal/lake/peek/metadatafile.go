package peek

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"firn/internal/store"
)

// maxMetadataBytes bounds what a compressed metadata file may grow to: far above any real one (a table with 100,000 snapshots has about
// 100 MB), far below what a crafted file could ask for.
const maxMetadataBytes = 1 << 30

// ReadMetadataFile reads a metadata file and unpacks it. Whether it is packed is told by its content: writers name packed files
// v1.gz.metadata.json, v1.metadata.json.gz, or do not tell at all.
func ReadMetadataFile(ctx context.Context, st store.Reader, location string) ([]byte, error) {
	data, err := st.Get(ctx, location)
	if err != nil {
		return nil, fmt.Errorf("read metadata file: %w", Named(err))
	}
	plain, err := Unpack(data)
	if err != nil {
		return nil, fmt.Errorf("read metadata file %s: %w", location, err)
	}
	return plain, nil
}

// Unpack returns the content of a metadata file that may be gzip or zstd.
func Unpack(data []byte) ([]byte, error) {
	var r io.Reader
	switch {
	case bytes.HasPrefix(data, []byte{0x1f, 0x8b}):
		gz, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("unpack gzip: %w", err)
		}
		r = gz
	case bytes.HasPrefix(data, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		zs, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("unpack zstd: %w", err)
		}
		defer zs.Close()
		r = zs
	default:
		return data, nil
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxMetadataBytes+1))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	if len(plain) > maxMetadataBytes {
		return nil, fmt.Errorf("unpack: content is larger than %d bytes: %w", maxMetadataBytes, ErrUnsupported)
	}
	return plain, nil
}
