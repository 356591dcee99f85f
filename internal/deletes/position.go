package deletes

import (
	"context"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/apache/iceberg-go"

	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/projection"
	"firn/internal/parquet/source"
	"firn/internal/store"
)

// Field IDs of position delete files (specification, "Reserved Field IDs"). The optional column row is not read.
const (
	pathField     = 2147483546
	positionField = 2147483545
)

// positionTarget is what position delete files are read as; their columns are found by name where a writer left out the IDs.
func positionTarget() (*projection.Target, error) {
	l, err := layout.New(iceberg.NewSchema(0,
		iceberg.NestedField{ID: pathField, Name: "file_path", Type: iceberg.PrimitiveTypes.String, Required: true},
		iceberg.NestedField{ID: positionField, Name: "pos", Type: iceberg.PrimitiveTypes.Int64, Required: true},
	), false)
	if err != nil {
		return nil, err
	}
	path, position := pathField, positionField
	return &projection.Target{Layout: l, Names: iceberg.NameMapping{
		{Names: []string{"file_path"}, FieldID: &path}, {Names: []string{"pos"}, FieldID: &position},
	}}, nil
}

// positions applies deletion vectors and position delete files. A file with a vector ignores position delete files, as the specification asks.
func positions(ctx context.Context, st store.Reader, set Set) ([]Mask, error) {
	masks := make([]Mask, len(set.Targets))
	users := make([][]int, len(set.Files)) // By position delete file: the targets to which it applies.
	paths := make(map[string]int, len(set.Targets))
	for i, t := range set.Targets {
		path, err := store.Canonical(t.FilePath())
		if err != nil {
			return nil, err
		}
		paths[path] = i
		vector, err := vectorOf(set, t)
		if err != nil {
			return nil, err
		}
		if vector != nil {
			if masks[i], err = targetVector(ctx, st, *vector, path); err != nil {
				return nil, err
			}
			continue
		}
		for _, d := range t.Deletes {
			if f := set.Files[d]; f.ContentType() == iceberg.EntryContentPosDeletes {
				users[d] = append(users[d], i)
			}
		}
	}
	target, err := positionTarget()
	if err != nil {
		return nil, err
	}
	for d, f := range set.Files {
		if len(users[d]) == 0 {
			continue
		}
		into := make(map[int]Mask, len(users[d]))
		for _, i := range users[d] {
			if masks[i] == nil {
				masks[i] = roaring64.New()
			}
			into[i] = masks[i]
		}
		r := positionReader{mask: func(path string) Mask {
			if i, ok := paths[path]; ok {
				return into[i]
			}
			return nil
		}}
		if err := r.read(ctx, st, target, f); err != nil {
			return nil, err
		}
	}
	return masks, nil
}

// vectorOf finds the deletion vector of a target; two of them are a fault of the table.
func vectorOf(set Set, t Target) (*File, error) {
	var found *File
	for _, d := range t.Deletes {
		f := &set.Files[d]
		if !isVector(*f) {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("data file %s has two deletion vectors, in %s and %s: %w", t.FilePath(), found.FilePath(), f.FilePath(), ErrUnusable)
		}
		found = f
	}
	return found, nil
}

func targetVector(ctx context.Context, st store.Reader, f File, path string) (Mask, error) {
	if ref := f.ReferencedDataFile(); ref != nil {
		if other, err := store.Canonical(*ref); err != nil || other != path {
			return nil, fmt.Errorf("deletion vector in %s is for %s, not for %s: %w", f.FilePath(), *ref, path, ErrUnusable)
		}
	}
	return readVector(ctx, st, f)
}

// positionReader adds the positions of one delete file to the masks of the data files to which it applies.
type positionReader struct {
	// mask is the mask of a data file by its canonical location; nil when the delete file does not apply to it.
	mask func(path string) Mask
}

// stretch is a run of rows of a delete file that name one data file.
type stretch struct {
	rows column.Run
	mask Mask
}

func (r *positionReader) read(ctx context.Context, st store.Reader, t *projection.Target, f File) error {
	src, err := source.Open(ctx, st, f.FilePath(), source.Options{SizeBytes: f.FileSizeBytes(), WholeBelowBytes: wholeBelowBytes})
	if err != nil {
		return fmt.Errorf("read position deletes: %w", err)
	}
	defer src.Close()
	p, err := projection.New(t, src, projection.Options{})
	if err != nil {
		return fmt.Errorf("read position deletes: %w", err)
	}
	if src.Rows != f.Count() {
		return fmt.Errorf("position deletes %s have %d rows, their manifest entry says %d: %w", f.FilePath(), src.Rows, f.Count(), ErrUnusable)
	}
	for _, g := range src.Groups {
		if err := ctx.Err(); err != nil {
			return err
		}
		rows := column.Run{From: g.First, To: g.First + g.Rows}
		stretches, err := r.stretches(p, rows)
		if err != nil {
			return err
		}
		if err := r.add(p, rows, stretches, f); err != nil {
			return err
		}
	}
	return nil
}

// stretches reads the paths of a row group. Paths are compared in their canonical spelling: s3a and s3 name one object.
func (r *positionReader) stretches(p *projection.Projection, rows column.Run) ([]stretch, error) {
	var out []stretch
	var last string
	err := p.Scan(0, rows, func(b *column.Batch) error {
		for i, v := range b.Bytes {
			row := b.First + int64(i)
			if len(out) > 0 && last == string(v) {
				out[len(out)-1].rows.To = row + 1
				continue
			}
			last = string(v)
			path, err := store.Canonical(last)
			if err != nil {
				path = last // Not a location at all: it names none of ours.
			}
			out = append(out, stretch{rows: column.Run{From: row, To: row + 1}, mask: r.mask(path)})
		}
		return nil
	})
	return out, err
}

func (r *positionReader) add(p *projection.Projection, rows column.Run, stretches []stretch, f File) error {
	at := 0
	return p.Scan(1, rows, func(b *column.Batch) error {
		for i, v := range b.Int64 {
			for stretches[at].rows.To <= b.First+int64(i) {
				at++
			}
			if v < 0 {
				return fmt.Errorf("position deletes %s hold position %d: %w", f.FilePath(), v, ErrUnusable)
			}
			if m := stretches[at].mask; m != nil {
				m.Add(uint64(v))
			}
		}
		return nil
	})
}
