package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sort"
	"strings"
	"syscall"
)

// localUpload is a write in progress: a temporary file that has not got its name yet.
type localUpload struct {
	location string
	target   string
	temp     string
	file     *os.File
	ifAbsent bool
	// done is set once the file has its name or was discarded.
	done bool
}

// Write implements Upload.
func (u *localUpload) Write(p []byte) (int, error) {
	n, err := u.file.Write(p)
	if err != nil {
		return n, fileError("write", u.location, err)
	}
	return n, nil
}

// Commit implements Upload.
func (u *localUpload) Commit(ctx context.Context) error {
	if u.done {
		return fmt.Errorf("commit %s: the upload has ended", u.location)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("commit %s: %w", u.location, err)
	}
	if err := errors.Join(u.file.Sync(), u.file.Close()); err != nil {
		return fileError("write", u.location, err)
	}
	if err := u.name(); err != nil {
		return fileError("name", u.location, err)
	}
	u.done = true
	if err := syncDir(path.Dir(u.target)); err != nil {
		return fileError("sync the directory of", u.location, err)
	}
	return nil
}

// name gives the temporary file its name. An empty directory in the way is removed and the call repeated once.
func (u *localUpload) name() error {
	give := os.Rename
	if u.ifAbsent {
		give = func(from, to string) error {
			if err := os.Link(from, to); err != nil {
				return err
			}
			_ = os.Remove(from) // the object stands; a second name that stays is one more leftover for Uploads
			return nil
		}
	}
	err := give(u.temp, u.target)
	if err == nil {
		return nil
	}
	if info, statErr := os.Lstat(u.target); statErr != nil || !info.IsDir() {
		return err
	}
	if removeEmptyDirs(u.target) != nil {
		return errors.New("a directory that holds objects has this name")
	}
	return give(u.temp, u.target)
}

// Abort implements Upload.
func (u *localUpload) Abort(context.Context) error {
	if u.done {
		return nil
	}
	u.done = true
	_ = u.file.Close()
	if err := unlink(u.temp); err != nil {
		return fileError("abort the upload of", u.location, err)
	}
	return nil
}

// removeEmptyDirs removes a tree that holds directories only; it stops at the first entry that is none.
func removeEmptyDirs(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			return syscall.ENOTEMPTY
		}
		if err := removeEmptyDirs(path.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return syscall.Rmdir(dir)
}

// makeDirs makes a directory and what leads to it, and syncs each parent that got a new entry.
func makeDirs(dir string) error {
	if info, err := os.Stat(dir); err == nil {
		if info.IsDir() {
			return nil
		}
		return fmt.Errorf("%s is a file, not a directory", dir)
	}
	if parent := path.Dir(dir); parent != dir {
		if err := makeDirs(parent); err != nil {
			return err
		}
		err := os.Mkdir(dir, 0o755) //nolint:gosec // other engines read the warehouse
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return syncDir(parent)
	}
	return nil
}

// syncDir makes a directory's entries durable. File systems that cannot do so answer EINVAL.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}

// found is one regular file of a walk.
type found struct {
	location, path, name string
	info                 fs.FileInfo
}

// walker visits files in byte order of their paths.
type walker struct {
	ctx          context.Context //nolint:containedctx // lives for one walk only
	spelling     string
	prefix       string
	after, until string
	visit        func(found) bool
}

// walk visits the regular files whose path starts with the prefix's until visit answers false. A directory that is not there is empty.
func (l *Local) walk(ctx context.Context, prefix string, opts ListOptions, visit func(found) bool) error {
	loc, err := ParseLocation(prefix)
	if err != nil {
		return err
	}
	if _, err := localPath(prefix); err != nil {
		return err
	}
	after, until, err := loc.bounds(opts)
	if err != nil {
		return fmt.Errorf("list %s: %w", prefix, err)
	}
	w := walker{ctx: ctx, spelling: loc.spelling(prefix), prefix: loc.Key, after: after, until: until, visit: visit}
	_, err = w.dir(loc.Key[:strings.LastIndexByte(loc.Key, '/')+1])
	if err != nil {
		return fileError("list", prefix, err)
	}
	return nil
}

// dir visits the files below dir, which ends in a slash. It answers false when the walk is to end.
func (w *walker) dir(dir string) (bool, error) {
	if err := w.ctx.Err(); err != nil {
		return false, err
	}
	entries, err := os.ReadDir(dir)
	if missing(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	// In key order a directory stands where its name and a slash stand: "a-b" before "a/x" before "a0".
	keys := make([]string, len(entries))
	for i, e := range entries {
		if keys[i] = dir + e.Name(); e.IsDir() {
			keys[i] += "/"
		}
	}
	sort.Strings(keys)
	for _, key := range keys {
		if w.until != "" && key > w.until {
			return false, nil
		}
		more, err := w.entry(key)
		if !more || err != nil {
			return more, err
		}
	}
	return true, nil
}

func (w *walker) entry(key string) (bool, error) {
	if strings.HasSuffix(key, "/") {
		outside := !strings.HasPrefix(key, w.prefix) && !strings.HasPrefix(w.prefix, key)
		passed := key < w.after && !strings.HasPrefix(w.after, key)
		if outside || passed {
			return true, nil
		}
		return w.dir(key)
	}
	if key <= w.after || !strings.HasPrefix(key, w.prefix) {
		return true, nil
	}
	info, err := os.Stat(key)
	if missing(err) { // gone since its directory was read, or a link to nowhere
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return true, nil
	}
	return w.visit(found{location: w.spelling + key, path: key, name: path.Base(key), info: info}), nil
}
