// Package committer turns a checked change of a table into the table's next state: it builds the next metadata file and swaps the pointer
// (SQL, Glue, memory), or sends the change to the service that does both (REST). It decides nothing about content, retries nothing and deletes
// nothing; package commit owns the loop around it. Only the room commit is handed a Committer.
//
// Every Commit ends in exactly one of four ways: a nil error (committed), an error that wraps catalogs.ErrConflict (the table is no longer the
// base: provably nothing was committed), one that wraps catalogs.ErrRefused (provably nothing was committed by this call, for a reason that
// the error states; a cause such as store.ErrTransient can be matched), or any other error: the state is unknown, and nothing that the change
// refers to may be deleted.
package committer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// Committer loads fresh states and commits changes. All methods may be called concurrently.
type Committer interface {
	// Head loads the table's state from the catalog, never from a cache.
	Head(ctx context.Context, id maintenance.TableID) (*lake.Table, error)
	// Commit makes base with the change applied the table's state, or fails as the package says. Result is filled as far as it goes when the
	// error is not nil, too.
	Commit(ctx context.Context, base *lake.Table, c Change) (Result, error)
}

// Change is what a commit does to a table, in the words of the REST protocol.
type Change struct {
	// Requirements must hold for the base; one that does not is a conflict.
	Requirements []table.Requirement
	// Updates are applied in their order.
	Updates []table.Update
}

// Result is what a commit left behind.
type Result struct {
	// Table is the new state, nil unless committed. Its pointer has no Version where only the catalog knows it (Glue): load the head before the
	// next commit.
	Table *lake.Table
	// MetadataLocation is the metadata file that this attempt wrote or, on REST, the one that the service answered with; "" when none is known.
	// After an unknown end, a head whose pointer or metadata log names it proves that the attempt was committed (not on REST).
	MetadataLocation string
	// Unneeded are metadata files that nothing will ask for again: those that left the metadata log, if the table has
	// write.metadata.delete-after-commit.enabled, and the file of an attempt that was provably not committed. The caller hands them to sweep.
	Unneeded []string
}

// Options are what a Committer needs beside its ports.
type Options struct {
	// Now is the clock of last-updated-ms for changes that add no snapshot. Required.
	Now func() time.Time
	// NewUUID names metadata files; nil means random UUIDs.
	NewUUID func() uuid.UUID
}

// committer is the one implementation; exactly one of swapper and server is set.
type committer struct {
	catalog catalogs.Catalog
	swapper catalogs.Swapper
	server  catalogs.Server
	store   store.ReadWriter
	now     func() time.Time
	newUUID func() uuid.UUID
}

// New makes a Committer for a catalog: through the service where the catalog is a catalogs.Server, else by writing metadata files and swapping
// the pointer.
func New(cat catalogs.Catalog, st store.ReadWriter, opts Options) (Committer, error) {
	c := &committer{catalog: cat, store: st, now: opts.Now, newUUID: opts.NewUUID}
	if c.now == nil {
		return nil, errors.New("make committer: a clock is required")
	}
	if c.newUUID == nil {
		c.newUUID = uuid.New
	}
	if server, ok := cat.(catalogs.Server); ok {
		c.server = server
		return c, nil
	}
	if swapper, ok := cat.(catalogs.Swapper); ok {
		c.swapper = swapper
		return c, nil
	}
	return nil, fmt.Errorf("make committer: catalog %q cannot be written to", cat.Name())
}

// Head loads the table's state from the catalog.
func (c *committer) Head(ctx context.Context, id maintenance.TableID) (*lake.Table, error) {
	return lake.Load(ctx, c.catalog, c.store, id)
}

// Commit checks the requirements on the base and then takes the catalog's way.
func (c *committer) Commit(ctx context.Context, base *lake.Table, change Change) (Result, error) {
	for _, r := range change.Requirements {
		if err := r.Validate(base.Metadata); err != nil {
			return Result{}, fmt.Errorf("commit to %s: %w: %w", base.ID, catalogs.ErrConflict, err)
		}
	}
	if len(change.Updates) == 0 {
		return Result{}, fmt.Errorf("commit to %s: %w: the change is empty", base.ID, catalogs.ErrRefused)
	}
	if err := ctx.Err(); err != nil {
		return Result{}, fmt.Errorf("commit to %s: %w: %w", base.ID, catalogs.ErrRefused, err)
	}
	if c.server != nil {
		return c.send(ctx, base, change)
	}
	return c.swap(ctx, base, change)
}
