package reach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"firn/internal/store"
)

const (
	// readBytes is how much of a run one ranged GET takes: 64 runs merged at once hold 16 MiB.
	readBytes = 256 << 10
	// writeBytes is how much of a run is collected before it is handed to the upload.
	writeBytes = 256 << 10
)

// WriteRun writes files as a run and returns their number. The files must come in the order of a set: what is out of order is an error, since a
// merge would then skip files silently.
func WriteRun(ctx context.Context, st store.Writer, location string, files iter.Seq2[File, error]) (count int64, err error) {
	w, err := NewRunWriter(ctx, st, location)
	if err != nil {
		return 0, err
	}
	for f, err := range files {
		if err == nil {
			err = w.Add(f)
		}
		if err != nil {
			return 0, errors.Join(err, w.Abort(context.WithoutCancel(ctx)))
		}
	}
	if err := w.Commit(ctx); err != nil {
		return 0, errors.Join(err, w.Abort(context.WithoutCancel(ctx)))
	}
	return w.count, nil
}

// RunWriter writes one run. It is not safe for concurrent use.
type RunWriter struct {
	location string
	upload   store.Upload
	buf      []byte
	last     File
	count    int64
}

// NewRunWriter starts a run at location. The caller ends it with Commit or Abort.
func NewRunWriter(ctx context.Context, st store.Writer, location string) (*RunWriter, error) {
	up, err := st.Create(ctx, location, store.WriteOptions{ContentType: "text/plain"})
	if err != nil {
		return nil, fmt.Errorf("start the run %s: %w", location, err)
	}
	return &RunWriter{location: location, upload: up}, nil
}

// Add appends a file, which must come after the last one in the order of a set.
func (w *RunWriter) Add(f File) error {
	if w.count > 0 && compare(w.last, f) >= 0 {
		return fmt.Errorf("write the run %s: %q comes after %q", w.location, f.Location, w.last.Location)
	}
	w.last = f
	w.count++
	w.buf = appendLine(w.buf, f)
	if len(w.buf) < writeBytes {
		return nil
	}
	return w.flush()
}

func (w *RunWriter) flush() error {
	if _, err := w.upload.Write(w.buf); err != nil {
		return fmt.Errorf("write the run %s: %w", w.location, err)
	}
	w.buf = w.buf[:0]
	return nil
}

// Count is the number of files added.
func (w *RunWriter) Count() int64 { return w.count }

// Commit makes the run visible and durable.
func (w *RunWriter) Commit(ctx context.Context) error {
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.upload.Commit(ctx); err != nil {
		return fmt.Errorf("finish the run %s: %w", w.location, err)
	}
	return nil
}

// Abort discards the run; a no-op after Commit.
func (w *RunWriter) Abort(ctx context.Context) error { return w.upload.Abort(ctx) }

// ReadRun yields the files of a run in order. The iteration ends at the first error.
func ReadRun(ctx context.Context, st store.Reader, location string) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		c := newRunCursor(ctx, st, location)
		for {
			f, ok, err := c.next()
			if err != nil {
				yield(File{}, err)
				return
			}
			if !ok || !yield(f, nil) {
				return
			}
		}
	}
}

// cursor steps through files in order; ok is false at the end.
type cursor interface {
	next() (f File, ok bool, err error)
}

// runCursor reads a run by ranged GETs.
type runCursor struct {
	fetch    func(offset int64) ([]byte, error)
	location string
	offset   int64
	buf      []byte
	ended    bool
}

func newRunCursor(ctx context.Context, st store.Reader, location string) *runCursor {
	return &runCursor{location: location, fetch: func(offset int64) ([]byte, error) {
		return st.GetRange(ctx, location, offset, readBytes)
	}}
}

func (c *runCursor) next() (File, bool, error) {
	for {
		if i := bytes.IndexByte(c.buf, '\n'); i >= 0 {
			f, err := parseLine(string(c.buf[:i]))
			c.buf = c.buf[i+1:]
			if err != nil {
				return File{}, false, fmt.Errorf("read the run %s: %w", c.location, err)
			}
			return f, true, nil
		}
		if c.ended {
			if len(c.buf) > 0 {
				return File{}, false, fmt.Errorf("read the run %s: it ends inside a line", c.location)
			}
			return File{}, false, nil
		}
		data, err := c.fetch(c.offset)
		if err != nil {
			return File{}, false, fmt.Errorf("read the run %s: %w", c.location, err)
		}
		c.offset += int64(len(data))
		c.ended = len(data) < readBytes
		c.buf = append(slices.Clip(c.buf), data...)
	}
}
