// Package store is the port to objects: reading, writing, listing and deleting by location. It has three implementations (S3, local files,
// memory), a multiplexer that chooses among them by scheme, and a fault wrapper for tests; one conformance suite runs against all of them.
//
// Locations are texts as Iceberg metadata spells them: "s3://bucket/key" (s3a and s3n are the same), "file:///path", "file:/path", a bare
// absolute path, or "mem://bucket/key". Keys are opaque bytes: nothing is decoded, encoded or cut at '#', '?' or '%' (Spark's S3FileIO does,
// and then deletes another object).
//
// Dangerous powers are separate interfaces: only the sweep room is handed a Deleter.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
)

// Classes of failure. Every error of an implementation wraps at most one of them; an error that wraps none is permanent.
var (
	// ErrNotFound says that no object has the location.
	ErrNotFound = errors.New("object not found")
	// ErrExists says that a write with IfAbsent met an object.
	ErrExists = errors.New("object exists")
	// ErrPermission says that the credentials do not allow the call.
	ErrPermission = errors.New("permission denied")
	// ErrTransient says that a repetition may succeed: throttling, 5xx, a broken connection.
	ErrTransient = errors.New("transient storage error")
	// ErrArchived says that the object is in an archive tier and cannot be read now.
	ErrArchived = errors.New("object is archived")
)

// Info describes one object.
type Info struct {
	// Location is the full location, in the spelling (scheme and authority) of the request.
	Location string
	// SizeBytes is the object's length.
	SizeBytes int64
	// ModifiedAt is the time of the last write by the store's clock.
	ModifiedAt time.Time
}

// Reader reads objects. All methods may be called concurrently.
type Reader interface {
	// Get returns the whole object with one request. ErrNotFound when there is none.
	Get(ctx context.Context, location string) ([]byte, error)
	// GetRange returns length bytes from offset; fewer only at the object's end. A negative offset counts from the end.
	GetRange(ctx context.Context, location string, offset, length int64) ([]byte, error)
	// Head describes the object without reading it.
	Head(ctx context.Context, location string) (Info, error)
}

// BufferReader is what a Reader may offer besides: ranges in memory that the caller has, so that much reading needs no new memory.
type BufferReader interface {
	// GetRangeInto is GetRange, whose answer lies in buf where that has the capacity. It may use all of that, beyond the answer too.
	GetRangeInto(ctx context.Context, location string, offset, length int64, buf []byte) ([]byte, error)
}

// Buffered is r as a BufferReader; one that is none reads as GetRange does.
func Buffered(r Reader) BufferReader {
	if into, ok := r.(BufferReader); ok {
		return into
	}
	return unbuffered{r}
}

type unbuffered struct{ Reader }

// GetRangeInto implements BufferReader without use of the memory.
func (u unbuffered) GetRangeInto(ctx context.Context, location string, offset, length int64, _ []byte) ([]byte, error) {
	return u.GetRange(ctx, location, offset, length)
}

// sized is n bytes, in the memory of buf if it has the capacity.
func sized(buf []byte, n int64) []byte {
	if int64(cap(buf)) >= n {
		return buf[:n]
	}
	return make([]byte, n)
}

// WriteOptions steer one write.
type WriteOptions struct {
	// IfAbsent makes the write fail with ErrExists when the location is taken; of racing writers exactly one wins (S3: If-None-Match: *).
	IfAbsent bool
	// ContentType is stored where the implementation keeps one.
	ContentType string
}

// Writer writes objects. An object appears whole or not at all. All methods may be called concurrently.
type Writer interface {
	// Put writes a small object with one request; it is durable on return.
	Put(ctx context.Context, location string, data []byte, opts WriteOptions) error
	// Create starts a streamed write (S3: multipart, in parts of at least 16 MiB; never whole in memory or on disk). The caller ends it with
	// Commit or Abort.
	Create(ctx context.Context, location string, opts WriteOptions) (Upload, error)
}

// Upload is a streamed write. Its methods are not safe for concurrent use.
type Upload interface {
	io.Writer
	// Commit makes the object visible and durable. ErrExists as in WriteOptions.
	Commit(ctx context.Context) error
	// Abort discards what was written. It is a no-op after Commit.
	Abort(ctx context.Context) error
}

// ListOptions bound a listing.
type ListOptions struct {
	// StartAfter and EndAt bound the full locations by bytes: StartAfter < location <= EndAt. Empty means no bound.
	StartAfter, EndAt string
}

// Lister lists objects flatly. A listing sees every object that existed during the whole of it.
type Lister interface {
	// List yields every object whose location starts with prefix, in byte order of the key. Hidden names are not skipped: that is the
	// caller's rule. The iteration ends at the first error.
	List(ctx context.Context, prefix string, opts ListOptions) iter.Seq2[Info, error]
	// Uploads yields incomplete multipart uploads under the prefix. Stores without multipart yield their leftover temporary files.
	Uploads(ctx context.Context, prefix string) iter.Seq2[IncompleteUpload, error]
}

// IncompleteUpload is a multipart upload that was neither completed nor aborted.
type IncompleteUpload struct {
	// Location is the object that it would become.
	Location string
	// ID is the store's handle.
	ID string
	// StartedAt is when it was started.
	StartedAt time.Time
}

// DeleteFailure is one object that a batch delete did not remove.
type DeleteFailure struct {
	Location string
	Err      error
}

// Deleter removes objects. It is handed to the sweep room only.
type Deleter interface {
	// Delete removes the objects in batches of at most 1,000; an object that is already gone counts as deleted. Retryable keys are retried with
	// backoff. It returns how many are gone and which are not; err is set only when the call as a whole could not be made.
	Delete(ctx context.Context, locations []string) (deleted int, failures []DeleteFailure, err error)
	// AbortUpload discards an incomplete multipart upload; one that is already gone counts as done.
	AbortUpload(ctx context.Context, upload IncompleteUpload) error
}

// Version is one version of an object, or the delete marker that a deletion left in its place.
type Version struct {
	// ID is the store's handle; NullVersion where the store kept no versions at the time.
	ID string
	// Marker says that it is a delete marker, which holds no data.
	Marker bool
	// SizeBytes is the length of the data.
	SizeBytes int64
	// ModifiedAt is when it was written by the store's clock: of a marker, when the object was deleted.
	ModifiedAt time.Time
}

// NullVersion is S3's ID of what was written or deleted while a bucket kept no versions, or kept no more of them: a later write takes its place.
const NullVersion = "null"

// Versioned is what a store may offer besides: it keeps what deletions hide. Through it objects come back; no data goes.
type Versioned interface {
	// Versions describes the newest versions of one object, newest first: delete markers, down to and with the first version that holds data. None
	// when nothing is kept of the object.
	Versions(ctx context.Context, location string) ([]Version, error)
	// Undelete removes one delete marker; one that is gone counts as done. What lies under it shows again when it was the newest and a version
	// with data comes next. Anything but a marker is refused, a NullVersion too: a write that takes its place meanwhile would be removed.
	Undelete(ctx context.Context, location string, marker Version) error
}

// Versions is r as Versioned; one that is none keeps nothing of what was deleted.
func Versions(r Reader) Versioned {
	if v, ok := r.(Versioned); ok {
		return v
	}
	return unversioned{r}
}

type unversioned struct{ Reader }

// Versions implements Versioned: the object that stands.
func (u unversioned) Versions(ctx context.Context, location string) ([]Version, error) {
	info, err := u.Head(ctx, location)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []Version{{ID: NullVersion, SizeBytes: info.SizeBytes, ModifiedAt: info.ModifiedAt}}, nil
}

// Undelete implements Versioned: there is no marker.
func (u unversioned) Undelete(_ context.Context, location string, _ Version) error {
	return fmt.Errorf("undelete %s: the store keeps no versions", location)
}

// checkMarker refuses what Undelete must not remove.
func checkMarker(location string, v Version) error {
	switch {
	case !v.Marker:
		return fmt.Errorf("undelete %s: version %q is no delete marker", location, v.ID)
	case v.ID == "" || v.ID == NullVersion:
		return fmt.Errorf("undelete %s: the delete marker has no version ID of its own, and a write may take its place", location)
	}
	return nil
}

// ReadWriter is what most rooms need.
type ReadWriter interface {
	Reader
	Writer
}

// Store is all powers but deletion.
type Store interface {
	Reader
	Writer
	Lister
}

// Full is what an implementation offers; hosts narrow it before they hand it on.
type Full interface {
	Store
	Deleter
}
