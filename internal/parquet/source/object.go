package source

import (
	"errors"
	"io"
)

// objectReader is arrow-go's view of one object: a held piece of it, and ranged requests beyond. It remembers the first storage error, so that
// a broken connection is never taken for a corrupt file.
type objectReader struct {
	size  int64
	fetch func(offset, length int64) ([]byte, error)
	// data is what is held, from offset on; whole says that it is all.
	data   []byte
	offset int64
	whole  bool
	// limit ends read-ahead: no byte beyond is fetched unasked.
	limit int64
	pos   int64
	err   error
}

func (o *objectReader) note(err error) error {
	if o.err == nil {
		o.err = err
	}
	return err
}

func (o *objectReader) hold(offset int64, data []byte) { o.offset, o.data = offset, data }

// release drops a window; a whole file stays.
func (o *objectReader) release() {
	if !o.whole {
		o.data = nil
	}
}

func (o *objectReader) drop() { o.data, o.whole = nil, false }

// ReadAt serves from what is held, else fetches a window.
func (o *objectReader) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("read at a negative offset")
	}
	if off >= o.size {
		return 0, io.EOF
	}
	want := min(int64(len(p)), o.size-off)
	if off < o.offset || off+want > o.offset+int64(len(o.data)) {
		if err := o.window(off, want); err != nil {
			return 0, err
		}
	}
	n := copy(p, o.data[off-o.offset:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (o *objectReader) window(off, want int64) error {
	if o.whole {
		return io.ErrUnexpectedEOF
	}
	if o.err != nil {
		return o.err
	}
	length := max(want, min(windowBytes, o.limit-off))
	data, err := o.fetch(off, length)
	if err != nil {
		return o.note(err)
	}
	if int64(len(data)) < want {
		return io.ErrUnexpectedEOF
	}
	o.hold(off, data)
	return nil
}

// Read and Seek complete parquet.ReaderAtSeeker; arrow-go uses Seek to learn the length.
func (o *objectReader) Read(p []byte) (int, error) {
	n, err := o.ReadAt(p, o.pos)
	o.pos += int64(n)
	return n, err
}

// Seek moves the position of Read.
func (o *objectReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
		o.pos = offset
	case io.SeekCurrent:
		o.pos += offset
	case io.SeekEnd:
		o.pos = o.size + offset
	}
	if o.pos < 0 {
		return 0, errors.New("seek before the start")
	}
	return o.pos, nil
}
