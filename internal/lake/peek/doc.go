// Package peek reads Iceberg metadata without iceberg-go's table package, whose initialisers would cost every cold start: metadata files,
// manifest lists, manifests and their entries, through iceberg-go's root package only. It is what evaluate, schedule and report look with;
// package lake builds on it. It never writes.
//
// It fails with ErrTableFault when the metadata contradicts itself or names a metadata file, list or manifest that is gone or damaged, with ErrUnsupported when it is of a kind that Firn does not read, and with
// the store's errors when an object cannot be read.
package peek

import (
	"errors"

	"firn/internal/lake/avro"
	"firn/internal/lake/manifest"
	"firn/internal/store"
)

// Classes of failure, beside those of the store.
var (
	// ErrTableFault says that the table's metadata breaks the Iceberg specification: a path that is live twice, two deletion vectors for one
	// data file, a delete file in another partition than its data file. Nothing is repaired by guessing.
	ErrTableFault = manifest.ErrTableFault
	// ErrUnsupported says that the table, or a part of it, is of a kind that is not read: another format version, encrypted manifests.
	ErrUnsupported = manifest.ErrUnsupported
)

// Named adds to the error of reading a file that a table's metadata names: one that is gone, or is no Avro file, is a fault of the table, which no repetition
// mends; the first stays a store.ErrNotFound. Other errors stay as they are.
func Named(err error) error {
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, avro.ErrCorrupt) {
		return &damageError{err}
	}
	return err
}

// damageError is an error about a file that is gone or damaged.
type damageError struct{ error }

// Is makes it an ErrTableFault.
func (e *damageError) Is(target error) bool { return target == ErrTableFault }

// Unwrap keeps the store's class.
func (e *damageError) Unwrap() error { return e.error }
