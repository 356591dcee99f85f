package demo

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"firn/internal/store"
)

// Clock is the time of the lake. It moves only when it is told to, so that weeks of a table's life pass in seconds.
type Clock struct {
	mu sync.Mutex
	at time.Time
}

// Now tells the time; it is safe for concurrent use.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// Set moves the clock.
func (c *Clock) Set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

// datedFiles is the store of this machine's files whose files carry the lake's time as modification time, as if they had been written then: the age
// guards of the sweep see what they would see on a lake of that age.
type datedFiles struct {
	store.Full
	now func() time.Time
}

// Put implements store.Writer.
func (d datedFiles) Put(ctx context.Context, location string, data []byte, opts store.WriteOptions) error {
	if err := d.Full.Put(ctx, location, data, opts); err != nil {
		return err
	}
	return date(location, d.now())
}

// Create implements store.Writer.
func (d datedFiles) Create(ctx context.Context, location string, opts store.WriteOptions) (store.Upload, error) {
	upload, err := d.Full.Create(ctx, location, opts)
	if err != nil {
		return nil, err
	}
	return datedUpload{Upload: upload, location: location, now: d.now}, nil
}

type datedUpload struct {
	store.Upload
	location string
	now      func() time.Time
}

// Commit implements store.Upload.
func (u datedUpload) Commit(ctx context.Context) error {
	if err := u.Upload.Commit(ctx); err != nil {
		return err
	}
	return date(u.location, u.now())
}

// date sets the modification time of a file.
func date(location string, at time.Time) error {
	loc, err := store.ParseLocation(location)
	if err != nil {
		return err
	}
	if err := os.Chtimes(loc.Key, at, at); err != nil {
		return fmt.Errorf("date %s: %w", location, err)
	}
	return nil
}
