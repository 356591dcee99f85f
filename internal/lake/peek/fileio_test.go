package peek_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	iceio "github.com/apache/iceberg-go/io"

	"firn/internal/lake/peek"
	"firn/internal/store"
)

// counter counts requests.
type counter struct {
	store.Reader
	calls atomic.Int64
}

func (c *counter) Get(ctx context.Context, l string) ([]byte, error) {
	c.calls.Add(1)
	return c.Reader.Get(ctx, l)
}

func (c *counter) GetRange(ctx context.Context, l string, off, n int64) ([]byte, error) {
	c.calls.Add(1)
	return c.Reader.GetRange(ctx, l, off, n)
}

func (c *counter) Head(ctx context.Context, l string) (store.Info, error) {
	c.calls.Add(1)
	return c.Reader.Head(ctx, l)
}

func object(t *testing.T, size int) (*counter, []byte) {
	t.Helper()
	data := make([]byte, size)
	r := rand.New(rand.NewPCG(1, uint64(size)))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	st := store.NewMemory(time.Now)
	if err := st.Put(context.Background(), "s3://b/f", data, store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return &counter{Reader: st}, data
}

func openFile(t *testing.T, st store.Reader) iceio.File {
	t.Helper()
	f, err := peek.FileIO(context.Background(), st).Open("s3://b/f")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFileReadsLikeAFile(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 1000, 1<<20 - 1, 1 << 20, 1<<20 + 1, 6 << 20} {
		st, data := object(t, size)
		f := openFile(t, st)
		if info, err := f.Stat(); err != nil || info.Size() != int64(size) {
			t.Errorf("%d bytes: stat %v, %v", size, info, err)
		}
		if size <= 1000 {
			if err := iotest.TestReader(f, data); err != nil {
				t.Errorf("%d bytes: %v", size, err)
			}
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(f)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes: read %d, error %v", size, len(got), err)
		}
		for _, off := range []int{0, size / 3, size - 1} {
			p := make([]byte, 100)
			n, err := f.ReadAt(p, int64(max(off, 0)))
			if want := min(100, size-max(off, 0)); n != want || !bytes.Equal(p[:n], data[max(off, 0):][:n]) || (n < 100) != errors.Is(err, io.EOF) {
				t.Errorf("%d bytes: read %d at %d, error %v, want %d", size, n, off, err, want)
			}
		}
	}
}

func TestFileCostsFewRequests(t *testing.T) {
	t.Parallel()
	small, _ := object(t, 300_000)
	f := openFile(t, small)
	for off := int64(0); off < 300_000; off += 1000 {
		if _, err := f.ReadAt(make([]byte, 1000), off); err != nil {
			t.Fatal(err)
		}
	}
	if n := small.calls.Load(); n != 1 {
		t.Errorf("a small file cost %d requests, want 1", n)
	}
	large, _ := object(t, 20<<20)
	if _, err := io.Copy(io.Discard, struct{ io.Reader }{openFile(t, large)}); err != nil {
		t.Fatal(err)
	}
	if n := large.calls.Load(); n > 8 {
		t.Errorf("reading 20 MiB cost %d requests, want at most 8", n)
	}
}

func TestFileIsReadConcurrently(t *testing.T) {
	t.Parallel()
	st, data := object(t, 3<<20)
	f := openFile(t, st)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				off, p := int64((i*50+j)*7919)%(3<<20-4096), make([]byte, 4096)
				if _, err := f.ReadAt(p, off); err != nil || !bytes.Equal(p, data[off:off+4096]) {
					t.Errorf("read at %d: %v", off, err)
				}
			}
		})
	}
	wg.Wait()
}

// shrunken answers with fewer bytes than the object's size promises.
type shrunken struct{ store.Reader }

func (s shrunken) GetRange(ctx context.Context, l string, off, n int64) ([]byte, error) {
	data, err := s.Reader.GetRange(ctx, l, off, n)
	if off > 0 {
		data = data[:len(data)/2]
	}
	return data, err
}

func TestFileFailures(t *testing.T) {
	t.Parallel()
	st, _ := object(t, 3<<20)
	files := peek.FileIO(context.Background(), st)
	if _, err := files.Open("s3://b/none"); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, store.ErrNotFound) {
		t.Errorf("open of a missing file: %v", err)
	}
	if err := files.Remove("s3://b/f"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("remove: %v", err)
	}
	f := openFile(t, shrunken{st})
	if _, err := f.ReadAt(make([]byte, 1<<20), 2<<20); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a short answer: %v", err)
	}
	if _, err := io.ReadAll(f); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a short answer while reading on: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := peek.FileIO(ctx, st).Open("s3://b/f"); !errors.Is(err, context.Canceled) {
		t.Errorf("open after cancel: %v", err)
	}
	if info, err := files.(iceio.StatIO).Stat("s3://b/f"); err != nil || info.Size() != 3<<20 || info.Name() != "f" {
		t.Errorf("stat: %v, %v", fmt.Sprint(info), err)
	}
}
