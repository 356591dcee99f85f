// Package catalogs is the pointer port to table catalogs: list tables, name to metadata location and version, swap the pointer. It has small
// clients for Glue, REST and SQL (SQLite and PostgreSQL, the tables that Java's JDBC catalog and PyIceberg use) and a memory twin. It never
// imports iceberg-go's table package, so that functions which only look start fast; the sibling package committer builds metadata and commits.
//
// Every commit ends in exactly one of: nil (committed), ErrConflict (provably not committed because the pointer moved), ErrRefused (provably not
// committed, and a repetition is refused too), or any other error, which means unknown.
package catalogs

import (
	"context"
	"errors"
	"iter"

	"firn/internal/maintenance"
)

// Classes of failure.
var (
	// ErrNoSuchTable says that the catalog has no table of that name.
	ErrNoSuchTable = errors.New("no such table")
	// ErrNotIceberg says that the entry is a view, or a table of another format.
	ErrNotIceberg = errors.New("not an Iceberg table")
	// ErrExists says that a registration met a table of that name.
	ErrExists = errors.New("table exists")
	// ErrConflict says that the pointer moved: provably nothing was committed by this call.
	ErrConflict = errors.New("catalog pointer moved")
	// ErrRefused says that the catalog said a definite no: not allowed, invalid.
	ErrRefused = errors.New("refused by the catalog")
	// ErrPermission says that the catalog let a read not happen: whoever asks lacks a grant, or the catalog does not know them. A commit never returns it: a
	// denied commit is ErrRefused.
	ErrPermission = errors.New("not permitted by the catalog")
	// ErrTransient says that a read may succeed when repeated. A commit never returns it.
	ErrTransient = errors.New("transient catalog error")
)

// Pointer is what a catalog says of a table.
type Pointer struct {
	// MetadataLocation is the current metadata file.
	MetadataLocation string
	// Version is what the catalog's compare-and-swap compares: Glue's VersionId, SQL's metadata location, "" for REST.
	Version string
	// Properties are the catalog's own parameters of the table (not the table's properties in its metadata).
	Properties map[string]string
	// Metadata is the metadata file's content when the catalog returned it with the pointer (REST), else nil.
	Metadata []byte
	// Config holds storage properties that the catalog gave with the table (REST: vended credentials, endpoint).
	Config map[string]string
}

// Catalog reads pointers. All methods may be called concurrently.
type Catalog interface {
	// Name is the configured name of the catalog.
	Name() string
	// Tables yields every Iceberg table of the catalog (in a namespace, or all with ""). Views and other formats are left out.
	Tables(ctx context.Context, namespace maintenance.Namespace) iter.Seq2[maintenance.TableID, error]
	// Load reads a table's pointer: always from the catalog, never from a cache. ErrNoSuchTable, ErrNotIceberg.
	Load(ctx context.Context, id maintenance.TableID) (Pointer, error)
}

// Registrar makes an existing metadata file a table of the catalog (firn register, tests, demo).
type Registrar interface {
	// Register creates the namespace if needed and points a new table at the metadata file. ErrExists when the name is taken.
	Register(ctx context.Context, id maintenance.TableID, metadataLocation string) error
}

// Swapper swaps pointers with compare-and-swap. Only catalogs whose client writes metadata files have it (SQL, Glue); it is handed to the
// committer only.
type Swapper interface {
	// Swap points the table from base to the new metadata file. The table is as base says, or nothing happens: ErrConflict. Any error that wraps
	// neither ErrConflict nor ErrRefused leaves the state unknown.
	Swap(ctx context.Context, id maintenance.TableID, base Pointer, metadataLocation string) error
}

// Server commits on the service's side (REST): the service checks the requirements on its current state, writes the metadata file and moves the
// pointer. A catalog is a Server or a Swapper, never both; like a Swapper it is handed to the committer only.
type Server interface {
	// Update sends requirements and updates (JSON arrays in the words of the REST protocol) and returns the new pointer, Metadata included.
	// ErrConflict when a requirement does not hold. Any error that wraps neither ErrConflict nor ErrRefused leaves the state unknown.
	Update(ctx context.Context, id maintenance.TableID, requirements, updates []byte) (Pointer, error)
}

// Optimized is a catalog that may maintain tables itself.
type Optimized interface {
	// Optimizers names the catalog's own optimizers that are switched on for the table.
	Optimizers(ctx context.Context, id maintenance.TableID) ([]string, error)
}
