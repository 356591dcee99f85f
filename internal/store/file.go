package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"strings"
	"syscall"
)

// Temporary files lie beside the object they become. The name says that they are ours, and the object's name unless that would be too long
// for a file system; tempLong marks those.
const (
	tempPrefix = ".firn-tmp-"
	tempLong   = tempPrefix + "long-"
	// tempRandom is the count of hex digits after the prefix.
	tempRandom = 16
	// maxNameBytes is the longest file name of ext4, XFS, APFS and most others.
	maxNameBytes = 255
)

// Local keeps objects as files of this machine. A write goes to a hidden temporary file in the target's directory, is synced, and gets its
// name by rename, or by link when it must be the first. A directory is no object, an empty one is as good as none: deletes leave it, since
// another writer may be about to use it, and a write that needs its name replaces it. Symbolic links to files are objects; links to
// directories below a listed prefix are not followed. The zero value is ready; it is safe for concurrent use.
type Local struct{}

// NewLocal returns the store of this machine's files.
func NewLocal() *Local { return &Local{} }

// localPath takes a location apart and refuses what is not a file's absolute path.
func localPath(location string) (string, error) {
	loc, err := ParseLocation(location)
	if err != nil {
		return "", err
	}
	if loc.Scheme != fileScheme {
		return "", fmt.Errorf("location %q is not a local file", location)
	}
	if err := checkPath(loc.Key); err != nil {
		return "", fmt.Errorf("location %q: %w", location, err)
	}
	return loc.Key, nil
}

// checkPath refuses what the kernel would read as another path, so that a listing never names a file differently from its writer.
func checkPath(p string) error {
	if strings.IndexByte(p, 0) >= 0 {
		return errors.New("a path cannot hold a zero byte")
	}
	for step := range strings.SplitSeq(p, "/") {
		if step == "." || step == ".." {
			return fmt.Errorf("a path cannot hold the step %q", step)
		}
	}
	return nil
}

// localObject is localPath for a call that names one object.
func localObject(location string) (string, error) {
	p, err := localPath(location)
	if err != nil {
		return "", err
	}
	if strings.HasSuffix(p, "/") {
		return "", fmt.Errorf("location %q names a directory, not an object", location)
	}
	return p, nil
}

// Get implements Reader.
func (l *Local) Get(ctx context.Context, location string) ([]byte, error) {
	f, info, err := l.open(ctx, location)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data := make([]byte, info.Size())
	n, err := io.ReadFull(f, data)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, fileError("read", location, err)
	}
	rest, err := io.ReadAll(f)
	if err != nil {
		return nil, fileError("read", location, err)
	}
	return append(data[:n], rest...), nil
}

// GetRange implements Reader.
func (l *Local) GetRange(ctx context.Context, location string, offset, length int64) ([]byte, error) {
	return l.GetRangeInto(ctx, location, offset, length, nil)
}

// GetRangeInto implements BufferReader.
func (l *Local) GetRangeInto(ctx context.Context, location string, offset, length int64, buf []byte) ([]byte, error) {
	if length < 0 {
		return nil, fmt.Errorf("read %s: negative length %d", location, length)
	}
	f, info, err := l.open(ctx, location)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	from, to := clip(info.Size(), offset, length)
	data := sized(buf, to-from)
	n, err := f.ReadAt(data, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fileError("read", location, err)
	}
	return data[:n], nil
}

// clip is the part [from, to) of an object of size bytes that GetRange asks for.
func clip(size, offset, length int64) (from, to int64) {
	if offset < 0 {
		offset = max(0, size+offset)
	}
	from = min(offset, size)
	return from, from + min(length, size-from)
}

// Head implements Reader.
func (l *Local) Head(ctx context.Context, location string) (Info, error) {
	p, err := localObject(location)
	if err != nil {
		return Info{}, err
	}
	info, err := l.stat(ctx, location, p)
	if err != nil {
		return Info{}, err
	}
	return Info{Location: location, SizeBytes: info.Size(), ModifiedAt: info.ModTime()}, nil
}

func (l *Local) stat(ctx context.Context, location, p string) (fs.FileInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("look at %s: %w", location, err)
	}
	info, err := os.Stat(p)
	if err != nil {
		return nil, fileError("look at", location, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("look at %s: %w: it is no regular file", location, ErrNotFound)
	}
	return info, nil
}

func (l *Local) open(ctx context.Context, location string) (*os.File, fs.FileInfo, error) {
	p, err := localObject(location)
	if err != nil {
		return nil, nil, err
	}
	if _, err := l.stat(ctx, location, p); err != nil {
		return nil, nil, err
	}
	f, err := os.Open(p)
	if err != nil {
		return nil, nil, fileError("open", location, err)
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, nil, fileError("look at", location, err)
	}
	return f, info, nil
}

// Put implements Writer.
func (l *Local) Put(ctx context.Context, location string, data []byte, opts WriteOptions) error {
	up, err := l.Create(ctx, location, opts)
	if err != nil {
		return err
	}
	if _, err := up.Write(data); err != nil {
		return errors.Join(err, up.Abort(context.WithoutCancel(ctx)))
	}
	if err := up.Commit(ctx); err != nil {
		return errors.Join(err, up.Abort(context.WithoutCancel(ctx)))
	}
	return nil
}

// Create implements Writer.
func (l *Local) Create(ctx context.Context, location string, opts WriteOptions) (Upload, error) {
	target, err := localObject(location)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(path.Base(target), tempPrefix) {
		return nil, fmt.Errorf("write %s: names that start with %s are kept for temporary files", location, tempPrefix)
	}
	if len(path.Base(target)) > maxNameBytes {
		return nil, fmt.Errorf("write %s: the name has %d bytes: want at most %d", location, len(path.Base(target)), maxNameBytes)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("write %s: %w", location, err)
	}
	if err := makeDirs(path.Dir(target)); err != nil {
		return nil, fileError("make the directory of", location, err)
	}
	temp := tempName(target)
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // other engines read the warehouse
	if err != nil {
		return nil, fileError("write", location, err)
	}
	return &localUpload{location: location, target: target, temp: temp, file: f, ifAbsent: opts.IfAbsent}, nil
}

func tempName(target string) string {
	var r [tempRandom / 2]byte
	_, _ = rand.Read(r[:]) // never fails: crypto/rand ends the process instead
	dir, base := path.Split(target)
	name := tempPrefix + hex.EncodeToString(r[:]) + "-" + base
	if len(name) > maxNameBytes {
		name = tempLong + hex.EncodeToString(r[:])
	}
	return dir + name
}

// List implements Lister.
func (l *Local) List(ctx context.Context, prefix string, opts ListOptions) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		err := l.walk(ctx, prefix, opts, func(w found) bool {
			if strings.HasPrefix(w.name, tempPrefix) {
				return true
			}
			return yield(Info{Location: w.location, SizeBytes: w.info.Size(), ModifiedAt: w.info.ModTime()}, nil)
		})
		if err != nil {
			yield(Info{}, err)
		}
	}
}

// Uploads implements Lister with the temporary files that writers left behind or still write. StartedAt is the last write to them, and the
// location is the temporary file's own where the object's name was too long to stand in it.
func (l *Local) Uploads(ctx context.Context, prefix string) iter.Seq2[IncompleteUpload, error] {
	return func(yield func(IncompleteUpload, error) bool) {
		// The prefix is the object's, whose name is only part of the temporary file's: walk the whole directory and compare afterwards.
		dir := prefix[:strings.LastIndexByte(prefix, '/')+1]
		if dir == "" {
			dir = prefix // no location; walk says so
		}
		err := l.walk(ctx, dir, ListOptions{}, func(w found) bool {
			if !strings.HasPrefix(w.name, tempPrefix) {
				return true
			}
			object := w.location
			if rest := w.name[len(tempPrefix):]; len(rest) > tempRandom && rest[tempRandom] == '-' && !strings.HasPrefix(w.name, tempLong) {
				object = strings.TrimSuffix(w.location, w.name) + rest[tempRandom+1:]
			}
			if !strings.HasPrefix(object, prefix) {
				return true
			}
			return yield(IncompleteUpload{Location: object, ID: w.path, StartedAt: w.info.ModTime()}, nil)
		})
		if err != nil {
			yield(IncompleteUpload{}, err)
		}
	}
}

// Delete implements Deleter. Directories are never removed.
func (l *Local) Delete(ctx context.Context, locations []string) (int, []DeleteFailure, error) {
	deleted := 0
	var failures []DeleteFailure
	seen := make(map[string]bool, len(locations))
	for _, location := range locations {
		if err := ctx.Err(); err != nil {
			return deleted, failures, fmt.Errorf("delete %s: %w", location, err)
		}
		p, err := localObject(location)
		if err != nil {
			failures = append(failures, DeleteFailure{Location: location, Err: err})
			continue
		}
		if p = path.Clean(p); seen[p] {
			continue
		}
		seen[p] = true
		if err := unlink(p); err != nil {
			failures = append(failures, DeleteFailure{Location: location, Err: fileError("delete", location, err)})
			continue
		}
		deleted++
	}
	return deleted, failures, nil
}

// AbortUpload implements Deleter.
func (l *Local) AbortUpload(_ context.Context, upload IncompleteUpload) error {
	if !strings.HasPrefix(path.Base(upload.ID), tempPrefix) || !path.IsAbs(upload.ID) {
		return fmt.Errorf("abort the upload of %s: %q is no temporary file", upload.Location, upload.ID)
	}
	if err := unlink(upload.ID); err != nil {
		return fileError("abort the upload of", upload.Location, err)
	}
	return nil
}

// unlink removes a file; what is no file, or not there, is gone already.
func unlink(p string) error {
	if info, err := os.Stat(p); err == nil && info.IsDir() { // a directory, or a link to one, is no object
		return nil
	}
	err := syscall.Unlink(p)
	if err == nil || missing(err) {
		return nil
	}
	return &fs.PathError{Op: "unlink", Path: p, Err: err}
}

func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR)
}

// fileError adds the class of a system call's error.
func fileError(verb, location string, err error) error {
	var class error
	switch {
	case missing(err):
		class = ErrNotFound
	case errors.Is(err, fs.ErrExist):
		class = ErrExists
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		class = ErrPermission
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
		class = ErrTransient
	default:
		return fmt.Errorf("%s %s: %w", verb, location, err)
	}
	return fmt.Errorf("%s %s: %w: %w", verb, location, class, err)
}
