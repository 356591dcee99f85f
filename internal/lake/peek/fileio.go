package peek

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"
	"time"

	iceio "github.com/apache/iceberg-go/io"

	"firn/internal/store"
)

const (
	// smallFileBytes is how much of a file the first request asks for. Most manifests, delete files and small data files fit, so that opening
	// and reading them costs one request.
	smallFileBytes = 1 << 20
	// readAheadBytes is the window of sequential reads of larger files: few requests, and a bound on memory for each open file.
	readAheadBytes = 4 << 20
)

// WholeManifestBytes is up to which size a manifest is read with one request; larger ones are streamed.
const WholeManifestBytes = 16 << 20

// FileIO adapts a store to iceberg-go's file IO, for reading only. The context holds for every request made through the result. A file of up
// to 1 MiB costs one request; of a larger one each ReadAt outside of what is buffered is one ranged request.
func FileIO(ctx context.Context, st store.Reader) iceio.IO { return &fileIO{ctx: ctx, st: st} }

type fileIO struct {
	ctx context.Context //nolint:containedctx // iceberg-go's IO interface has no context of its own
	st  store.Reader
}

// Open reads the start of the file, and all of a small one.
func (f *fileIO) Open(name string) (iceio.File, error) {
	head, err := f.st.GetRange(f.ctx, name, 0, smallFileBytes)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: pathErr(err)}
	}
	file := &file{io: f, name: name, head: head, size: int64(len(head))}
	if len(head) == smallFileBytes {
		info, err := f.st.Head(f.ctx, name)
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: pathErr(err)}
		}
		file.size, file.modified = info.SizeBytes, info.ModifiedAt
	}
	return file, nil
}

// Remove always refuses: only the sweep room deletes.
func (f *fileIO) Remove(name string) error {
	return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrPermission}
}

// ReadFile implements iceberg-go's ReadFileIO with one request.
func (f *fileIO) ReadFile(name string) ([]byte, error) {
	data, err := f.st.Get(f.ctx, name)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: pathErr(err)}
	}
	return data, nil
}

// Stat implements iceberg-go's StatIO.
func (f *fileIO) Stat(name string) (fs.FileInfo, error) {
	info, err := f.st.Head(f.ctx, name)
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: pathErr(err)}
	}
	return fileInfo{name: path.Base(name), size: info.SizeBytes, modified: info.ModifiedAt}, nil
}

// pathErr makes a store's "not found" known to callers that ask for the standard library's.
func pathErr(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return errors.Join(err, fs.ErrNotExist)
	}
	return err
}

// file is an open object. ReadAt may be called concurrently; Read and Seek may not.
type file struct {
	io       *fileIO
	name     string
	head     []byte
	size     int64
	modified time.Time
	offset   int64

	mu     sync.Mutex
	window []byte
	start  int64
}

func (f *file) Stat() (fs.FileInfo, error) {
	return fileInfo{name: path.Base(f.name), size: f.size, modified: f.modified}, nil
}

func (f *file) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.head, f.window = nil, nil
	return nil
}

// Read reads on in windows of readAheadBytes.
func (f *file) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if f.offset >= f.size {
		return 0, io.EOF
	}
	if n := f.buffered(p, f.offset); n > 0 {
		f.offset += int64(n)
		return n, nil
	}
	data, err := f.fetch(f.offset, max(int64(len(p)), readAheadBytes))
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	f.window, f.start = data, f.offset
	f.mu.Unlock()
	n := copy(p, data)
	f.offset += int64(n)
	return n, nil
}

// ReadAt reads what is buffered from memory and anything else with one request.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, &fs.PathError{Op: "read", Path: f.name, Err: fmt.Errorf("negative offset %d", off)}
	}
	if off >= f.size {
		return 0, io.EOF
	}
	want := min(int64(len(p)), f.size-off)
	n := f.buffered(p[:want], off)
	if int64(n) < want {
		data, err := f.fetch(off+int64(n), want-int64(n))
		if err != nil {
			return n, err
		}
		n += copy(p[n:want], data)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// buffered copies what the head or the window holds from off on.
func (f *file) buffered(p []byte, off int64) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if off < int64(len(f.head)) {
		return copy(p, f.head[off:])
	}
	if off >= f.start && off < f.start+int64(len(f.window)) {
		return copy(p, f.window[off-f.start:])
	}
	return 0
}

// fetch gets at most length bytes; fewer than the file's size promises is an error.
func (f *file) fetch(off, length int64) ([]byte, error) {
	length = min(length, f.size-off)
	data, err := f.io.st.GetRange(f.io.ctx, f.name, off, length)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: f.name, Err: pathErr(err)}
	}
	if int64(len(data)) < length {
		return nil, &fs.PathError{Op: "read", Path: f.name, Err: io.ErrUnexpectedEOF}
	}
	return data, nil
}

func (f *file) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.offset
	case io.SeekEnd:
		offset += f.size
	}
	if offset < 0 {
		return 0, &fs.PathError{Op: "seek", Path: f.name, Err: fmt.Errorf("negative position %d", offset)}
	}
	f.offset = offset
	return offset, nil
}

type fileInfo struct {
	name     string
	size     int64
	modified time.Time
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return i.size }
func (i fileInfo) Mode() fs.FileMode  { return 0o444 }
func (i fileInfo) ModTime() time.Time { return i.modified }
func (i fileInfo) IsDir() bool        { return false }
func (i fileInfo) Sys() any           { return nil }
