package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"
)

// Config says how New reaches objects.
type Config struct {
	// Properties are catalog properties under the names of PyIceberg and Java ("s3.endpoint", "s3.region", ...); see NewS3.
	Properties map[string]string
	// Roles are ARNs of roles by bucket: requests to a bucket of the map are made by its role, which the credentials of all other requests must be allowed
	// to assume.
	Roles map[string]string
	// Stores are further stores by scheme, and replacements of the built-in ones: {"mem": memory} makes mem:// reachable, {"s3": faults}
	// serves s3, s3a and s3n. They may be shared among multiplexers.
	Stores map[string]Full
	// Sleep waits between repetitions; nil waits by the real clock.
	Sleep func(ctx context.Context, d time.Duration) error
	// OnRetry, when set, is told of every repetition before its wait. It may be called concurrently.
	OnRetry func(Retry)
}

// Retry is one repetition of a storage call.
type Retry struct {
	// Call names the call ("GetObject"), Subject what it was about: a location, or the bucket of a batch.
	Call, Subject string
	// Objects is how many objects are asked for again.
	Objects int
	// Err is why.
	Err error
}

// mux is the multiplexer: it hands each call to the store of the location's scheme.
type mux struct {
	stores map[string]Full
}

// New returns a store that serves "file" and bare paths from this machine, "s3", "s3a" and "s3n" by one S3 client that is made at the first
// call, and what the config adds. Faults in the properties are errors here, all at once; missing credentials are errors of the first call.
func New(cfg Config) (Full, error) {
	remote, err := NewS3(cfg)
	if err != nil {
		return nil, err
	}
	m := &mux{stores: map[string]Full{fileScheme: NewLocal(), "s3": remote}}
	for scheme, s := range cfg.Stores {
		m.stores[Location{Scheme: scheme}.Canonical().Scheme] = s
	}
	return m, nil
}

// pick finds the store of a location.
func (m *mux) pick(location string) (Full, error) {
	loc, err := ParseLocation(location)
	if err != nil {
		return nil, err
	}
	s, ok := m.stores[loc.Canonical().Scheme]
	if !ok {
		return nil, fmt.Errorf("location %q: no store serves the scheme %q", location, loc.Scheme)
	}
	return s, nil
}

// Get implements Reader.
func (m *mux) Get(ctx context.Context, location string) ([]byte, error) {
	s, err := m.pick(location)
	if err != nil {
		return nil, err
	}
	return s.Get(ctx, location)
}

// GetRange implements Reader.
func (m *mux) GetRange(ctx context.Context, location string, offset, length int64) ([]byte, error) {
	s, err := m.pick(location)
	if err != nil {
		return nil, err
	}
	return s.GetRange(ctx, location, offset, length)
}

// GetRangeInto implements BufferReader.
func (m *mux) GetRangeInto(ctx context.Context, location string, offset, length int64, buf []byte) ([]byte, error) {
	s, err := m.pick(location)
	if err != nil {
		return nil, err
	}
	return Buffered(s).GetRangeInto(ctx, location, offset, length, buf)
}

// Head implements Reader.
func (m *mux) Head(ctx context.Context, location string) (Info, error) {
	s, err := m.pick(location)
	if err != nil {
		return Info{}, err
	}
	return s.Head(ctx, location)
}

// Versions implements Versioned.
func (m *mux) Versions(ctx context.Context, location string) ([]Version, error) {
	s, err := m.pick(location)
	if err != nil {
		return nil, err
	}
	return Versions(s).Versions(ctx, location)
}

// Undelete implements Versioned.
func (m *mux) Undelete(ctx context.Context, location string, marker Version) error {
	s, err := m.pick(location)
	if err != nil {
		return err
	}
	return Versions(s).Undelete(ctx, location, marker)
}

// Put implements Writer.
func (m *mux) Put(ctx context.Context, location string, data []byte, opts WriteOptions) error {
	s, err := m.pick(location)
	if err != nil {
		return err
	}
	return s.Put(ctx, location, data, opts)
}

// Create implements Writer.
func (m *mux) Create(ctx context.Context, location string, opts WriteOptions) (Upload, error) {
	s, err := m.pick(location)
	if err != nil {
		return nil, err
	}
	return s.Create(ctx, location, opts)
}

// List implements Lister.
func (m *mux) List(ctx context.Context, prefix string, opts ListOptions) iter.Seq2[Info, error] {
	s, err := m.pick(prefix)
	if err != nil {
		return failed[Info](err)
	}
	return s.List(ctx, prefix, opts)
}

// Uploads implements Lister.
func (m *mux) Uploads(ctx context.Context, prefix string) iter.Seq2[IncompleteUpload, error] {
	s, err := m.pick(prefix)
	if err != nil {
		return failed[IncompleteUpload](err)
	}
	return s.Uploads(ctx, prefix)
}

// failed is an iteration that consists of an error.
func failed[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		yield(none, err)
	}
}

// Delete implements Deleter. Each scheme's store gets its part; a part that could not be made does not keep the others from being made.
func (m *mux) Delete(ctx context.Context, locations []string) (int, []DeleteFailure, error) {
	var order []string
	parts := map[string][]string{}
	var failures []DeleteFailure
	for _, location := range locations {
		if _, err := m.pick(location); err != nil {
			failures = append(failures, DeleteFailure{Location: location, Err: err})
			continue
		}
		loc, _ := ParseLocation(location)
		scheme := loc.Canonical().Scheme
		if _, ok := parts[scheme]; !ok {
			order = append(order, scheme)
		}
		parts[scheme] = append(parts[scheme], location)
	}
	deleted := 0
	var errs []error
	for _, scheme := range order {
		n, failed, err := m.stores[scheme].Delete(ctx, parts[scheme])
		deleted += n
		failures = append(failures, failed...)
		errs = append(errs, err)
	}
	return deleted, failures, errors.Join(errs...)
}

// AbortUpload implements Deleter.
func (m *mux) AbortUpload(ctx context.Context, upload IncompleteUpload) error {
	s, err := m.pick(upload.Location)
	if err != nil {
		return err
	}
	return s.AbortUpload(ctx, upload)
}

// sleep waits by the real clock.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// backoff is the wait before repetition n (from 0): a random part, at least a half, of base doubled n times and capped.
func backoff(base, limit time.Duration, n int) time.Duration {
	d := min(limit, base<<min(n, 20))
	return d/2 + rand.N(d/2+1) //nolint:gosec // jitter is no secret
}
