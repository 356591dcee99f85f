package committer

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/iceberg-go/table"

	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/lake/peek"
	"firn/internal/store"
)

// swap builds the next metadata file, writes it under a new name and points the catalog to it. The commit point is the catalog's
// compare-and-swap; before it nothing of the table has changed, and an attempt that dies leaves one metadata file that nothing names.
func (c *committer) swap(ctx context.Context, base *lake.Table, change Change) (Result, error) {
	raw, err := peek.ReadMetadataFile(ctx, c.store, base.Pointer.MetadataLocation)
	if err != nil {
		return Result{}, c.baseGone(ctx, base, err)
	}
	data, next, err := build(base, raw, change, c.now())
	if err != nil {
		return Result{}, fmt.Errorf("commit to %s: %w: %w", base.ID, catalogs.ErrRefused, err)
	}
	location, err := nextLocation(next, base.Pointer.MetadataLocation, len(slices.Collect(base.Metadata.PreviousFiles())), c.newUUID())
	if err != nil {
		return Result{}, fmt.Errorf("commit to %s: %w: %w", base.ID, catalogs.ErrRefused, err)
	}
	result := Result{MetadataLocation: location}
	if err := c.put(ctx, location, data); err != nil {
		result.Unneeded = []string{location}
		return result, fmt.Errorf("commit to %s: %w: write metadata file %s: %w", base.ID, catalogs.ErrRefused, location, err)
	}
	err = c.swapper.Swap(ctx, base.ID, base.Pointer, location)
	switch {
	case err == nil:
		pointer := catalogs.Pointer{MetadataLocation: location, Properties: base.Pointer.Properties, Config: base.Pointer.Config}
		if base.Pointer.Version == base.Pointer.MetadataLocation {
			pointer.Version = location
		}
		result.Table = &lake.Table{ID: base.ID, Pointer: pointer, Metadata: next}
		result.Unneeded = leftLog(base, next)
	case errors.Is(err, catalogs.ErrConflict), errors.Is(err, catalogs.ErrRefused):
		result.Unneeded = []string{location}
	}
	return result, err
}

// baseGone classifies a base whose metadata file cannot be read: a fast writer may have trimmed it from the log, which is a conflict like any
// other moved pointer. Nothing was sent, so the attempt is definitely over.
func (c *committer) baseGone(ctx context.Context, base *lake.Table, cause error) error {
	if errors.Is(cause, store.ErrNotFound) {
		if current, err := c.catalog.Load(ctx, base.ID); err == nil && current.MetadataLocation != base.Pointer.MetadataLocation {
			return fmt.Errorf("commit to %s: %w: now %s: %w", base.ID, catalogs.ErrConflict, current.MetadataLocation, cause)
		}
	}
	return fmt.Errorf("commit to %s: %w: read base: %w", base.ID, catalogs.ErrRefused, cause)
}

// put writes the metadata file, packed if its name says so, only where nothing is. A repetition inside the store can meet its own first try:
// what is there then is what we wrote.
func (c *committer) put(ctx context.Context, location string, data []byte) error {
	if strings.HasSuffix(location, gzipSuffix) {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := w.Write(data); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		data = packed.Bytes()
	}
	err := c.store.Put(ctx, location, data, store.WriteOptions{IfAbsent: true, ContentType: "application/json"})
	if errors.Is(err, store.ErrExists) {
		if found, readErr := c.store.Get(ctx, location); readErr == nil && bytes.Equal(found, data) {
			return nil
		}
	}
	return err
}

// leftLog lists the metadata files that the base's log or pointer named and the next log no longer names, if the table wants them deleted.
func leftLog(base *lake.Table, next table.Metadata) []string {
	if !next.Properties().GetBool(propDeleteAfterCommit, false) {
		return nil
	}
	kept := map[string]bool{}
	for e := range next.PreviousFiles() {
		kept[peek.SameFile(e.MetadataFile)] = true
	}
	kept[peek.SameFile(base.Pointer.MetadataLocation)] = true // always: readers that started before us hold it
	var gone []string
	for e := range base.Metadata.PreviousFiles() {
		if !kept[peek.SameFile(e.MetadataFile)] {
			gone = append(gone, e.MetadataFile)
		}
	}
	return gone
}
