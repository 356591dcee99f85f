package commit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/apache/iceberg-go"
	"github.com/parquet-go/parquet-go"
	"golang.org/x/sync/errgroup"

	"firn/internal/lake"
	"firn/internal/lake/produce"
	"firn/internal/store"
)

const (
	// maxDeleteFileBytes bounds the position delete files that are opened for their targets (Java's target size is 64 MiB).
	maxDeleteFileBytes = 128 << 20
	// deleteFileReaders is how many are opened at once: they are held in memory whole.
	deleteFileReaders = 2
)

// targets knows to which data files partition-scoped position delete files point, as read from them.
type targets struct {
	mu sync.Mutex
	// paths are the targets in the form of lake.SameFile; a nil list means that the file could not be read.
	paths map[produce.File][]string
}

// of returns what is known of a delete file.
func (t *targets) of(f produce.File) ([]string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	paths := t.paths[f]
	return paths, paths != nil
}

// read opens the partition-scoped position delete files among the entries that were not opened yet. One that cannot be read stays unknown: it is
// treated as if it pointed to everything.
func (t *targets) read(ctx context.Context, st store.Reader, entries []lake.Entry) error {
	readers, readCtx := errgroup.WithContext(ctx)
	readers.SetLimit(deleteFileReaders)
	for _, e := range entries {
		if _, scoped := lake.FileScoped(e.File); scoped || e.File.ContentType() != iceberg.EntryContentPosDeletes {
			continue
		}
		key := produce.FileOf(e.File)
		t.mu.Lock()
		_, seen := t.paths[key]
		if !seen {
			t.paths[key] = nil
		}
		t.mu.Unlock()
		if seen {
			continue
		}
		readers.Go(func() error {
			paths, err := readTargets(readCtx, st, e.File)
			if err != nil {
				return ctx.Err() // the file stays unknown
			}
			t.mu.Lock()
			defer t.mu.Unlock()
			t.paths[key] = paths
			return nil
		})
	}
	return readers.Wait()
}

// readTargets reads the distinct paths in column file_path of a Parquet position delete file.
func readTargets(ctx context.Context, st store.Reader, f iceberg.DataFile) (paths []string, err error) {
	if !strings.EqualFold(string(f.FileFormat()), string(iceberg.ParquetFile)) || f.FileSizeBytes() > maxDeleteFileBytes {
		return nil, fmt.Errorf("read targets of %s: not read", f.FilePath())
	}
	defer func() {
		if fault := recover(); fault != nil { // a corrupt file reaches library code that indexes without asking
			paths, err = nil, fmt.Errorf("read targets of %s: %v", f.FilePath(), fault)
		}
	}()
	data, err := st.Get(ctx, f.FilePath())
	if err != nil {
		return nil, err
	}
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, err
	}
	column := file.Root().Column("file_path")
	if column == nil || !column.Leaf() || file.NumRows() != f.Count() {
		return nil, fmt.Errorf("read targets of %s: no column file_path, or other rows than its entry says", f.FilePath())
	}
	seen := map[string]bool{}
	for _, group := range file.RowGroups() {
		if err := distinct(group.ColumnChunks()[column.Index()], seen); err != nil {
			return nil, err
		}
	}
	paths = []string{}
	same := map[string]bool{}
	for path := range seen {
		if key := lake.SameFile(path); !same[key] {
			same[key] = true
			paths = append(paths, key)
		}
	}
	return paths, nil
}

func distinct(chunk parquet.ColumnChunk, seen map[string]bool) error {
	pages := chunk.Pages()
	defer func() { _ = pages.Close() }()
	values := make([]parquet.Value, 1024)
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for r, last := page.Values(), ""; ; {
			n, err := r.ReadValues(values)
			for _, v := range values[:n] {
				if v.IsNull() {
					return errors.New("a path is null")
				}
				if b := v.ByteArray(); string(b) != last {
					last = string(b)
					seen[last] = true
				}
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				parquet.Release(page)
				return err
			}
		}
		parquet.Release(page)
	}
}
