// Package engine is the border between the compaction function and what moves the rows. An engine reads a group's inputs with their masks
// applied, writes outputs and proves that no row changed. It knows the object store and no catalog; it never deletes.
package engine

import (
	"context"
	"errors"

	"github.com/apache/iceberg-go"

	"firn/internal/compact/metrics"
	"firn/internal/deletes"
	"firn/internal/handoff"
	"firn/internal/maintenance"
	"firn/internal/parquet/projection"
	"firn/internal/parquet/sink"
)

// ErrRefused says that a group cannot be rewritten, whoever tries. The text around it is the reason that users see.
var ErrRefused = errors.New("refused")

// DefaultRowRanges is the most ranges of a row map where a caller sets no limit: some 20 MB in memory.
const DefaultRowRanges = 500_000

// Engine rewrites one group. An error that wraps ErrRefused (or one of the packages below that say the same) is final; any other may pass
// when the group is tried again. On error nothing is left but what a failed abort could not remove.
type Engine interface {
	Rewrite(ctx context.Context, job Job) (Result, error)
}

// Job is all that an engine needs.
type Job struct {
	Run maintenance.RunID
	// Group and Attempt are part of the outputs' names, so that no two attempts share one.
	Group   int
	Attempt string
	// Target is what inputs are read as; its layout is written.
	Target *projection.Target
	Inputs []Input
	// Spec is the outputs' partition spec. With Repartition each row goes to its own partition under it, else all go to Partition.
	Spec        iceberg.PartitionSpec
	Repartition bool
	Partition   map[int]any
	// Location is the table's data folder; Properties are the table's.
	Location   string
	Properties map[string]string
	// MaxOutputFileSizeBytes is the size at which another output is started.
	MaxOutputFileSizeBytes int64
	// Sorted says that the table has a sort order.
	Sorted bool
	// Ordering says how the rows are ordered; nil keeps the order of the inputs. ExpectedOutputFiles is how many outputs an ordered group is
	// divided into.
	Ordering            *maintenance.Ordering
	ExpectedOutputFiles int
	// Permutation is where an ordered group's row map goes; "" writes none.
	Permutation string
	// Modes say which metrics are kept by leaf; Writer how Parquet is written.
	Modes  []metrics.Mode
	Writer sink.Options
}

// Input is a data file of the group.
type Input struct {
	iceberg.DataFile
	// Sequence and FirstRowID are the entry's, inherited values applied.
	Sequence   int64
	FirstRowID *int64
	// Constants are the values of identity partition fields by source column.
	Constants map[int]any
	// Mask holds the deleted positions; nil when there are none.
	Mask deletes.Mask
}

// The tiers: how bytes of inputs came into outputs, from cheap to dear.
const (
	// TierConcat moved whole row groups, TierCopy whole pages, dictionary indices changed where dictionaries were merged.
	TierConcat = "concat"
	TierCopy   = "copy"
	// TierCoalesce decoded small pages and wrote full ones.
	TierCoalesce = "coalesce"
	// TierRecode decoded pages because rows of them are deleted, or because codec, type or dictionary had to change.
	TierRecode = "recode"
	// TierSort put rows into another order.
	TierSort = "sort"
	// TierFallback is the engine that reads and writes all values.
	TierFallback = "fallback"
)

// Result is what an engine made.
type Result struct {
	// Outputs are the new data files, in the order of RowMap.Outputs.
	Outputs []iceberg.DataFile
	// RowMap tells where each row went. nil when it would have too many ranges to be of use.
	RowMap *handoff.RowMap
	// Permutation is where the row map of an ordered group was written instead.
	Permutation string
	Proof       handoff.Proof
	// Name names the engine, for the report.
	Name string
	// Tiers are the bytes of the inputs' pages by how they were written: see the constants.
	Tiers map[string]int64
}
