package peek_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/iceberg-go"

	"firn/internal/lake/peek"
	"firn/internal/store"
)

// onlyRanges is a local store that answers no Get: what WithManifest reads by length needs none.
type onlyRanges struct{ *store.Local }

func (onlyRanges) Get(context.Context, string) ([]byte, error) {
	return nil, errors.New("asked for all")
}

// TestWithManifest: the bytes are the whole file, however long the list says that it is, and memory that was lent before does not shine through.
func TestWithManifest(t *testing.T) {
	t.Parallel()
	location := filepath.Join(t.TempDir(), "m.avro")
	text := bytes.Repeat([]byte("manifest"), 1000)
	if err := os.WriteFile(location, text, 0o600); err != nil {
		t.Fatal(err)
	}
	memo := &peek.Memo{}
	memo.Buffers().Return(bytes.Repeat([]byte{0xff}, 1<<16))
	for _, tt := range []struct {
		name   string
		st     store.Reader
		memo   *peek.Memo
		length int
	}{
		{"as long as its list says", onlyRanges{store.NewLocal()}, memo, len(text)},
		{"again, in the same memory", onlyRanges{store.NewLocal()}, memo, len(text)},
		{"shorter than its list says", onlyRanges{store.NewLocal()}, memo, len(text) + 100},
		{"longer than its list says", store.NewLocal(), memo, 10},
		{"of unknown length", store.NewLocal(), memo, -1},
		{"without a memo", store.NewLocal(), nil, len(text)},
	} {
		m := iceberg.NewManifestFile(2, location, int64(tt.length), 0, 1).Build()
		err := peek.WithManifest(t.Context(), tt.st, m, tt.memo, func(data []byte) error {
			if !bytes.Equal(data, text) {
				t.Errorf("%s: got %d bytes, want %d", tt.name, len(data), len(text))
			}
			return os.ErrClosed
		})
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: error %v, want its user's", tt.name, err)
		}
	}
	gone := iceberg.NewManifestFile(2, location+"x", 10, 0, 1).Build()
	if err := peek.WithManifest(t.Context(), store.NewLocal(), gone, memo, func([]byte) error { return nil }); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no file: error %v", err)
	}
}
