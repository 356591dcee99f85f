package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Memory keeps objects in this process, for tests and dry worlds. It takes every scheme that a Location can have, s3, s3a and s3n as one, so
// that a test may use the locations of production. It is safe for concurrent use and may be handed to many multiplexers.
type Memory struct {
	now func() time.Time

	mu      sync.Mutex
	objects map[string]memoryObject
	uploads map[string]IncompleteUpload
	// sorted are the keys of objects in byte order; nil after a change of the set.
	sorted []string
	nextID int
	// versions are what was written and deleted since KeepVersions, oldest first; nil when none are kept.
	versions map[string][]memoryVersion
}

// memoryVersion is one version of an object; data is nil in a delete marker.
type memoryVersion struct {
	Version
	data []byte
}

type memoryObject struct {
	data       []byte
	modifiedAt time.Time
}

// NewMemory returns an empty store; now is its clock.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{now: now, objects: map[string]memoryObject{}, uploads: map[string]IncompleteUpload{}}
}

// KeepVersions keeps from now on what writes replace and deletions remove, as a versioned bucket does.
func (m *Memory) KeepVersions() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.versions != nil {
		return
	}
	m.versions = map[string][]memoryVersion{}
	for key, o := range m.objects {
		m.versions[key] = []memoryVersion{{Version{ID: NullVersion, SizeBytes: int64(len(o.data)), ModifiedAt: o.modifiedAt}, o.data}}
	}
}

// keep adds a version; the lock is held.
func (m *Memory) keep(key string, marker bool, o memoryObject) {
	if m.versions == nil {
		return
	}
	m.nextID++
	v := Version{ID: "v" + strconv.Itoa(m.nextID), Marker: marker, SizeBytes: int64(len(o.data)), ModifiedAt: o.modifiedAt}
	m.versions[key] = append(m.versions[key], memoryVersion{v, o.data})
}

// Versions implements Versioned.
func (m *Memory) Versions(ctx context.Context, location string) ([]Version, error) {
	key, err := memoryKey(location)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("list the versions of %s: %w", location, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.versions == nil {
		o, ok := m.objects[key]
		if !ok {
			return nil, nil
		}
		return []Version{{ID: NullVersion, SizeBytes: int64(len(o.data)), ModifiedAt: o.modifiedAt}}, nil
	}
	var out []Version
	for _, v := range slices.Backward(m.versions[key]) {
		if out = append(out, v.Version); !v.Marker {
			break
		}
	}
	return out, nil
}

// Undelete implements Versioned.
func (m *Memory) Undelete(ctx context.Context, location string, marker Version) error {
	key, err := memoryKey(location)
	if err == nil {
		err = errors.Join(checkMarker(location, marker), ctx.Err())
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	versions := m.versions[key]
	i := slices.IndexFunc(versions, func(v memoryVersion) bool { return v.ID == marker.ID })
	if i < 0 {
		return nil
	}
	if !versions[i].Marker {
		return checkMarker(location, versions[i].Version)
	}
	versions = slices.Delete(versions, i, i+1)
	m.versions[key] = versions
	if n := len(versions); n > 0 && !versions[n-1].Marker {
		m.objects[key] = memoryObject{data: versions[n-1].data, modifiedAt: versions[n-1].ModifiedAt}
		m.sorted = nil
	}
	return nil
}

// memoryKey is the canonical location: Memory's own key.
func memoryKey(location string) (string, error) {
	loc, err := ParseLocation(location)
	if err != nil {
		return "", err
	}
	if loc.Key == "" {
		return "", fmt.Errorf("location %q has no key", location)
	}
	return loc.Canonical().String(), nil
}

func (m *Memory) object(ctx context.Context, location string) (memoryObject, error) {
	key, err := memoryKey(location)
	if err != nil {
		return memoryObject{}, err
	}
	if err := ctx.Err(); err != nil {
		return memoryObject{}, fmt.Errorf("read %s: %w", location, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[key]
	if !ok {
		return memoryObject{}, fmt.Errorf("read %s: %w", location, ErrNotFound)
	}
	return o, nil
}

// Get implements Reader.
func (m *Memory) Get(ctx context.Context, location string) ([]byte, error) {
	o, err := m.object(ctx, location)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(o.data), nil
}

// GetRange implements Reader.
func (m *Memory) GetRange(ctx context.Context, location string, offset, length int64) ([]byte, error) {
	return m.GetRangeInto(ctx, location, offset, length, nil)
}

// GetRangeInto implements BufferReader.
func (m *Memory) GetRangeInto(ctx context.Context, location string, offset, length int64, buf []byte) ([]byte, error) {
	if length < 0 {
		return nil, fmt.Errorf("read %s: negative length %d", location, length)
	}
	o, err := m.object(ctx, location)
	if err != nil {
		return nil, err
	}
	from, to := clip(int64(len(o.data)), offset, length)
	data := sized(buf, to-from)
	copy(data, o.data[from:to])
	return data, nil
}

// Head implements Reader.
func (m *Memory) Head(ctx context.Context, location string) (Info, error) {
	o, err := m.object(ctx, location)
	if err != nil {
		return Info{}, err
	}
	return Info{Location: location, SizeBytes: int64(len(o.data)), ModifiedAt: o.modifiedAt}, nil
}

// Put implements Writer.
func (m *Memory) Put(ctx context.Context, location string, data []byte, opts WriteOptions) error {
	key, err := memoryKey(location)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("write %s: %w", location, err)
	}
	return m.put(key, location, bytes.Clone(data), opts)
}

func (m *Memory) put(key, location string, data []byte, opts WriteOptions) error {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	_, taken := m.objects[key]
	if taken && opts.IfAbsent {
		return fmt.Errorf("write %s: %w", location, ErrExists)
	}
	if !taken {
		m.sorted = nil
	}
	m.objects[key] = memoryObject{data: data, modifiedAt: now}
	m.keep(key, false, m.objects[key])
	return nil
}

// SetModifiedAt changes an object's age, for tests of horizons.
func (m *Memory) SetModifiedAt(location string, at time.Time) error {
	key, err := memoryKey(location)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[key]
	if !ok {
		return fmt.Errorf("set the age of %s: %w", location, ErrNotFound)
	}
	o.modifiedAt = at
	m.objects[key] = o
	if n := len(m.versions[key]); n > 0 {
		m.versions[key][n-1].ModifiedAt = at
	}
	return nil
}

// Create implements Writer.
func (m *Memory) Create(ctx context.Context, location string, opts WriteOptions) (Upload, error) {
	key, err := memoryKey(location)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("write %s: %w", location, err)
	}
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nextID++
	id := strconv.Itoa(m.nextID)
	m.uploads[id] = IncompleteUpload{Location: location, ID: id, StartedAt: now}
	return &memoryUpload{memory: m, key: key, location: location, id: id, opts: opts}, nil
}

// List implements Lister.
func (m *Memory) List(ctx context.Context, prefix string, opts ListOptions) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		loc, err := ParseLocation(prefix)
		if err != nil {
			yield(Info{}, err)
			return
		}
		after, until, err := loc.bounds(opts)
		if err != nil {
			yield(Info{}, fmt.Errorf("list %s: %w", prefix, err))
			return
		}
		spelling, key := loc.spelling(prefix), loc.Canonical()
		root := strings.TrimSuffix(key.String(), key.Key)
		for last := after; ; {
			if err := ctx.Err(); err != nil {
				yield(Info{}, fmt.Errorf("list %s: %w", prefix, err))
				return
			}
			info, ok := m.next(root, key.Key, last)
			last = info.Location
			if !ok || until != "" && last > until {
				return
			}
			info.Location = spelling + last
			if !yield(info, nil) {
				return
			}
		}
	}
}

// next is the first object under root+prefix whose key is greater than after; its Location is the key alone.
func (m *Memory) next(root, prefix, after string) (Info, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sorted == nil {
		m.sorted = make([]string, 0, len(m.objects))
		for key := range m.objects {
			m.sorted = append(m.sorted, key)
		}
		sort.Strings(m.sorted)
	}
	i := sort.Search(len(m.sorted), func(i int) bool {
		return m.sorted[i] >= root+prefix && (after == "" || m.sorted[i] > root+after)
	})
	if i == len(m.sorted) || !strings.HasPrefix(m.sorted[i], root+prefix) {
		return Info{}, false
	}
	o := m.objects[m.sorted[i]]
	return Info{Location: m.sorted[i][len(root):], SizeBytes: int64(len(o.data)), ModifiedAt: o.modifiedAt}, true
}

// Uploads implements Lister.
func (m *Memory) Uploads(ctx context.Context, prefix string) iter.Seq2[IncompleteUpload, error] {
	return func(yield func(IncompleteUpload, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(IncompleteUpload{}, fmt.Errorf("list the uploads of %s: %w", prefix, err))
			return
		}
		canonical, err := Canonical(prefix)
		if err != nil {
			yield(IncompleteUpload{}, err)
			return
		}
		for _, u := range m.pending() {
			key, err := memoryKey(u.Location)
			if err != nil || !strings.HasPrefix(key, canonical) {
				continue
			}
			if !yield(u, nil) {
				return
			}
		}
	}
}

func (m *Memory) pending() []IncompleteUpload {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]IncompleteUpload, 0, len(m.uploads))
	for _, u := range m.uploads {
		out = append(out, u)
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].Location != out[j].Location {
			return out[i].Location < out[j].Location
		}
		return out[i].ID < out[j].ID
	})
	return out
}

// Delete implements Deleter.
func (m *Memory) Delete(ctx context.Context, locations []string) (int, []DeleteFailure, error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, fmt.Errorf("delete %d objects: %w", len(locations), err)
	}
	var failures []DeleteFailure
	gone := make(map[string]bool, len(locations))
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, location := range locations {
		key, err := memoryKey(location)
		if err != nil {
			failures = append(failures, DeleteFailure{Location: location, Err: err})
			continue
		}
		if !gone[key] {
			m.keep(key, true, memoryObject{modifiedAt: now}) // S3 puts a marker over an absent object too
		}
		gone[key] = true
		if _, ok := m.objects[key]; ok {
			delete(m.objects, key)
			m.sorted = nil
		}
	}
	return len(gone), failures, nil
}

// AbortUpload implements Deleter.
func (m *Memory) AbortUpload(ctx context.Context, upload IncompleteUpload) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("abort the upload of %s: %w", upload.Location, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.uploads, upload.ID)
	return nil
}

// memoryUpload is a streamed write into a Memory.
type memoryUpload struct {
	memory   *Memory
	key      string
	location string
	id       string
	opts     WriteOptions
	data     []byte
	done     bool
}

// Write implements Upload.
func (u *memoryUpload) Write(p []byte) (int, error) {
	if u.done {
		return 0, fmt.Errorf("write %s: the upload has ended", u.location)
	}
	u.data = append(u.data, p...)
	return len(p), nil
}

// Commit implements Upload. An upload that somebody else aborted cannot be committed.
func (u *memoryUpload) Commit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("commit %s: %w", u.location, err)
	}
	u.memory.mu.Lock()
	_, open := u.memory.uploads[u.id]
	u.memory.mu.Unlock()
	if u.done || !open {
		return fmt.Errorf("commit %s: %w", u.location, errors.New("the upload has ended"))
	}
	if err := u.memory.put(u.key, u.location, u.data, u.opts); err != nil {
		return err
	}
	return u.end()
}

// Abort implements Upload.
func (u *memoryUpload) Abort(context.Context) error {
	if u.done {
		return nil
	}
	return u.end()
}

func (u *memoryUpload) end() error {
	u.done = true
	u.memory.mu.Lock()
	defer u.memory.mu.Unlock()
	delete(u.memory.uploads, u.id)
	return nil
}
