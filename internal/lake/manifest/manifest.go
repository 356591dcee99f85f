// Package manifest reads and writes Iceberg's manifests and manifest lists, for format versions 1 to 3. Fields are known by their field IDs, and by
// their names where a writer gave none; fields that the specification does not know are skipped. What an entry inherits from its manifest's line in
// the list is applied (specification, "Sequence Number Inheritance", "First Row ID Inheritance").
//
// A file of an entry keeps the bytes that it was read from, and decodes column statistics only when it is asked for them: an entry that is copied
// from one manifest into another is not decoded at all.
package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/apache/iceberg-go"

	"firn/internal/lake/avro"
)

// Classes of failure.
var (
	// ErrTableFault says that the table's metadata breaks the Iceberg specification. Nothing is repaired by guessing.
	ErrTableFault = errors.New("table fault")
	// ErrUnsupported says that the table, or a part of it, is of a kind that is not read.
	ErrUnsupported = errors.New("unsupported table")
)

// UnknownSequence is the file sequence number of an existing entry whose writer did not record one.
const UnknownSequence = -1

// Entry is one manifest entry with everything applied that the specification lets it inherit: snapshot ID, sequence numbers, first row ID.
type Entry struct {
	// File is the data or delete file.
	File iceberg.DataFile
	// Status is existing, added or deleted.
	Status iceberg.ManifestEntryStatus
	// SpecID is the partition spec of the file: its manifest's.
	SpecID int
	// DataSequence is the data sequence number; 0 in tables and manifests of format version 1.
	DataSequence int64
	// FileSequence is the file sequence number, or UnknownSequence.
	FileSequence int64
	// SnapshotID is the snapshot that added the file or, with status deleted, removed it.
	SnapshotID int64
	// FirstRowID is the ID of the file's first row, nil without row lineage.
	FirstRowID *int64
	// Manifest is the location of the manifest that holds the entry.
	Manifest string
}

// String names the entry in messages.
func (e Entry) String() string {
	return fmt.Sprintf("%s (manifest %s, snapshot %d)", e.File.FilePath(), e.Manifest, e.SnapshotID)
}

// Memo remembers what was worked out from the headers of manifests: those of one table have mostly one schema, and reading it costs as much as
// hundreds of entries. The zero value is ready, nil remembers nothing; it is safe for concurrent use.
type Memo struct {
	pool      avro.Pool
	deflaters avro.Deflaters

	mu       sync.Mutex
	programs []compiled
}

// compiled is a program with everything that it depends on.
type compiled struct {
	schema, spec []byte
	program      *program
}

// maxPrograms bounds what a Memo holds: a table has one schema for each partition spec and writer.
const maxPrograms = 64

// Buffers lends memory for whole manifests; nil for a Memo that is nil.
func (m *Memo) Buffers() *avro.Pool {
	if m == nil {
		return nil
	}
	return &m.pool
}

// lender is the encoders of a Memo that may be nil.
func (m *Memo) lender() *avro.Deflaters {
	if m == nil {
		return nil
	}
	return &m.deflaters
}

// program compiles a schema, or finds that it did before.
func (m *Memo) program(schema, spec []byte, compile func() (*program, error)) (*program, error) {
	if m == nil {
		return compile()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, known := range m.programs {
		if bytes.Equal(known.schema, schema) && bytes.Equal(known.spec, spec) {
			return known.program, nil
		}
	}
	p, err := compile()
	if err != nil {
		return nil, err
	}
	if len(m.programs) >= maxPrograms {
		m.programs = nil
	}
	m.programs = append(m.programs, compiled{bytes.Clone(schema), bytes.Clone(spec), p})
	return p, nil
}

// asFault puts errors of the container file into this package's classes.
func asFault(err error) error {
	if errors.Is(err, avro.ErrUnsupported) {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return err
}
