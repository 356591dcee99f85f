package rebase

import (
	"context"
	"fmt"

	"github.com/apache/iceberg-go"
	"golang.org/x/sync/errgroup"

	"firn/internal/deletes"
	"firn/internal/lake/produce"
	"firn/internal/store"
)

// writers bounds the delete files that are written at once.
const writers = 16

// Writer writes the delete sets of one attempt.
type Writer struct {
	Store store.Writer
	// Prefix is the location and the beginning of the names of all files. No two attempts share one.
	Prefix string
	// Version is the table's format version, Spec gives its partition specs.
	Version int
	Spec    func(id int) *iceberg.PartitionSpec
}

// Write writes one delete set an output: with format version 3 a deletion vector each, in one Puffin file, before it a position delete file each.
// Written names what was written, also when an error is returned.
func (w Writer) Write(ctx context.Context, outputs []produce.Addition, masks []deletes.Mask) (made []produce.Addition, written []string, err error) {
	var sets []deletes.FileDeletes
	var specs []int
	for i, o := range outputs {
		if masks[i] == nil || masks[i].IsEmpty() {
			continue
		}
		spec := w.Spec(o.SpecID)
		if spec == nil {
			return nil, nil, fmt.Errorf("write deletes of %s: the table has no partition spec %d", o.File.FilePath(), o.SpecID)
		}
		sets = append(sets, deletes.FileDeletes{Path: o.File.FilePath(), Positions: masks[i], Spec: *spec, Partition: o.File.Partition()})
		specs = append(specs, o.SpecID)
	}
	if len(sets) == 0 {
		return nil, nil, nil
	}
	if w.Version >= 3 {
		return w.vectors(ctx, sets, specs)
	}
	return w.positions(ctx, sets, specs)
}

func (w Writer) vectors(ctx context.Context, sets []deletes.FileDeletes, specs []int) ([]produce.Addition, []string, error) {
	location := w.Prefix + "-deletes.puffin"
	files, err := deletes.WriteVectors(ctx, w.Store, location, sets)
	if err != nil {
		return nil, []string{location}, err
	}
	byPath := make(map[string]int, len(sets))
	for i, s := range sets {
		byPath[s.Path] = specs[i]
	}
	made := make([]produce.Addition, len(files))
	for i, f := range files {
		made[i] = produce.Addition{File: f, SpecID: byPath[*f.ReferencedDataFile()]}
	}
	return made, []string{location}, nil
}

func (w Writer) positions(ctx context.Context, sets []deletes.FileDeletes, specs []int) ([]produce.Addition, []string, error) {
	made, written := make([]produce.Addition, len(sets)), make([]string, len(sets))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range sets {
		written[i] = fmt.Sprintf("%s-%05d-deletes.parquet", w.Prefix, i)
		group.Go(func() error {
			f, err := deletes.WritePositions(ctx, w.Store, written[i], sets[i:i+1])
			made[i] = produce.Addition{File: f, SpecID: specs[i]}
			return err
		})
	}
	return made, written, group.Wait()
}
