package maintenance

import (
	"errors"
	"fmt"
)

// FileStats is all a planner sees of one live data file of the pinned snapshot. It holds no column statistics.
type FileStats struct {
	// Path is the file's location exactly as its manifest entry spells it.
	Path string
	// SizeBytes is the file's length, never a split's.
	SizeBytes int64
	// RecordCount is the number of rows before deletes.
	RecordCount int64
	// SpecID is the partition spec under which the file was written.
	SpecID int
	// Partition is the canonical text of the partition tuple under SpecID (see lake.PartitionKey); "" when unpartitioned.
	Partition string
	// HasRowLineage says that the file has a first_row_id (format version 3).
	HasRowLineage bool
	// DataSequence is the data sequence number.
	DataSequence int64
	// DeleteFiles counts the delete files that apply: position deletes, equality deletes and deletion vectors.
	DeleteFiles int
	// FileScopedDeletedRows sums the record counts of the file-scoped deletes that apply (a deletion vector always is one).
	FileScopedDeletedRows int64
	// Unsupported says why no engine of ours can rewrite the file ("format ORC", "encrypted"); "" when one can.
	Unsupported string
	// Ref is where the caller finds the file again; the planner carries it through untouched.
	Ref int
}

// FileGroup is a set of files of one spec, partition and row-lineage flag that one worker rewrites together.
type FileGroup struct {
	// Index is the group's number in its plan, from 0.
	Index int
	// SpecID, Partition and HasRowLineage are common to all files.
	SpecID        int
	Partition     string
	HasRowLineage bool
	// Files are the inputs, in scan order.
	Files []FileStats
	// SizeBytes is the sum of the inputs' sizes.
	SizeBytes int64
	// ExpectedOutputFiles is the predicted number of outputs (Spark: SizeBasedFileRewritePlanner.expectedOutputFiles).
	ExpectedOutputFiles int
	// MaxOutputFileSizeBytes is the size at which the writer starts another output.
	MaxOutputFileSizeBytes int64
}

// Validate checks what every later step relies on: at least one file, one spec, partition and lineage flag, no file twice.
func (g FileGroup) Validate() error {
	if len(g.Files) == 0 {
		return fmt.Errorf("file group %d is empty", g.Index)
	}
	seen := make(map[string]bool, len(g.Files))
	var errs []error
	for _, f := range g.Files {
		if f.SpecID != g.SpecID || f.Partition != g.Partition || f.HasRowLineage != g.HasRowLineage {
			errs = append(errs, fmt.Errorf("file group %d mixes specs, partitions or row lineage at %s", g.Index, f.Path))
		}
		if seen[f.Path] {
			errs = append(errs, fmt.Errorf("file group %d holds %s twice", g.Index, f.Path))
		}
		seen[f.Path] = true
	}
	return errors.Join(errs...)
}

// RewritePlan is the selection of one rewrite_data_files job: groups in job order, and totals for the report.
type RewritePlan struct {
	Groups []FileGroup
	// TotalFiles and TotalBytes count the inputs of all groups.
	TotalFiles int
	TotalBytes int64
	// SkippedFiles counts live files that were looked at and not selected.
	SkippedFiles int
	// RefusedFiles counts files that the rules wanted but that are left alone; Refusals names the first of them, with reasons.
	RefusedFiles int
	Refusals     []FileRefusal
}

// FileRefusal is a file that a plan leaves alone although the rules wanted it.
type FileRefusal struct {
	Path   string
	Reason string
}
