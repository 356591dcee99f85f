package produce

import (
	"fmt"
	"maps"
	"math"

	"github.com/apache/iceberg-go"

	"firn/internal/lake"
)

// Result is the set of live data files that a commit leaves: the surveyed head without Replaced and with Added.
type Result struct {
	Table  *lake.Table
	Survey *Survey
	// Replaced are the paths, of those the survey was asked for, that leave.
	Replaced map[string]bool
	// Added are the new data files.
	Added []Addition
	// NewSequence is the sequence number of the new snapshot.
	NewSequence int64
	// Targets tells the data files that a position delete file points to, in the form of lake.SameFile. It is asked for delete files that are not
	// file-scoped only; known is false when nobody looked into the file: it stays then.
	Targets func(f File) (paths []string, known bool)
}

// Dangling returns those of the delete files that apply to no data file of the result and so leave in the same commit:
//   - an equality delete, when no data file in its scope (same spec and partition; every file when its spec is unpartitioned) has a lower data
//     sequence number;
//   - a deletion vector or position delete, when none of the data files that it names is live;
//   - any delete whose data sequence number is lower than every data file's: what Spark drops for free in every commit.
//
// On any doubt a delete file stays.
func (r Result) Dangling(deletes []lake.Entry) ([]lake.Entry, error) {
	lowest, err := r.lowest()
	if err != nil {
		return nil, err
	}
	least := lowestOfAll(lowest)
	gone := map[string]bool{}
	for path := range r.Replaced {
		gone[lake.SameFile(path)] = true
	}
	var out []lake.Entry
	for _, d := range deletes {
		dangling := d.DataSequence > 0 && d.DataSequence < least
		switch {
		case dangling:
		case d.File.ContentType() == iceberg.EntryContentEqDeletes:
			dangling, err = r.equalityDangles(d, lowest, least)
			if err != nil {
				return nil, err
			}
		case d.File.ContentType() == iceberg.EntryContentPosDeletes:
			dangling = r.positionDangles(d, gone)
		}
		if dangling {
			out = append(out, d)
		}
	}
	return out, nil
}

// lowest are the lowest data sequence numbers of the result by scope.
func (r Result) lowest() (map[scope]int64, error) {
	s := &Survey{lowest: maps.Clone(r.Survey.lowest)}
	specs := map[int]*iceberg.PartitionSpec{}
	lower := func(f iceberg.DataFile, specID int, sequence int64) error {
		if specs[specID] == nil {
			specs[specID] = r.Table.Metadata.PartitionSpecByID(specID)
		}
		if specs[specID] == nil {
			return fmt.Errorf("%s has unknown partition spec %d: %w", f.FilePath(), specID, lake.ErrTableFault)
		}
		key, err := lake.PartitionKey(*specs[specID], f.Partition())
		if err != nil {
			return fmt.Errorf("%s: %w", f.FilePath(), err)
		}
		s.lower(scope{specID, key}, sequence)
		return nil
	}
	for path, entries := range r.Survey.Found {
		if r.Replaced[path] {
			continue
		}
		for _, e := range entries {
			if err := lower(e.File, e.SpecID, e.DataSequence); err != nil {
				return nil, err
			}
		}
	}
	for _, add := range r.Added {
		sequence := r.NewSequence
		if add.DataSequence != nil {
			sequence = *add.DataSequence
		}
		if err := lower(add.File, add.SpecID, sequence); err != nil {
			return nil, err
		}
	}
	return s.lowest, nil
}

func (r Result) equalityDangles(d lake.Entry, lowest map[scope]int64, least int64) (bool, error) {
	spec := r.Table.Metadata.PartitionSpecByID(d.SpecID)
	if spec == nil {
		return false, fmt.Errorf("%s has unknown partition spec %d: %w", d, d.SpecID, lake.ErrTableFault)
	}
	if spec.IsUnpartitioned() {
		return d.DataSequence <= least, nil
	}
	key, err := lake.PartitionKey(*spec, d.File.Partition())
	if err != nil {
		return false, fmt.Errorf("%s: %w", d, err)
	}
	inScope, ok := lowest[scope{d.SpecID, key}]
	if !ok {
		inScope = math.MaxInt64
	}
	return d.DataSequence <= inScope, nil
}

func (r Result) positionDangles(d lake.Entry, gone map[string]bool) bool {
	paths, known := []string(nil), false
	if path, ok := lake.FileScoped(d.File); ok {
		paths, known = []string{lake.SameFile(path)}, true
	} else if r.Targets != nil {
		paths, known = r.Targets(FileOf(d.File))
	}
	if !known {
		return false
	}
	for _, path := range paths {
		if gone[path] {
			continue
		}
		// A path that the survey was not asked for may be live.
		if !r.Survey.asked[path] || r.Survey.Live[path] {
			return false
		}
	}
	return true
}
