package deletes

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/apache/iceberg-go"

	"firn/internal/parquet/column"
	"firn/internal/parquet/projection"
	"firn/internal/parquet/source"
	"firn/internal/store"
)

const (
	// defaultKeysPerPass bounds the keys of one pass.
	defaultKeysPerPass = 1 << 20
	// chunkRows is the most rows whose keys are computed at once.
	chunkRows = 1 << 20
)

// applyEquality adds the rows that equality deletes remove. The deletes are grouped by their columns; each group's keys go into one table, at
// most KeysPerPass at a time, and the key columns of the data files are read once a pass: the memory is bounded however many deletes there
// are. All targets lie in one partition, so a delete that applies to one of them applies to each that is older.
func applyEquality(ctx context.Context, st store.Reader, set Set, masks []Mask) error {
	for _, group := range equalityGroups(set) {
		if set.Schema == nil {
			return fmt.Errorf("equality deletes without the table's schemas: %w", ErrUnusable)
		}
		target, err := set.Schema.target(group.ids)
		if err != nil {
			return err
		}
		e := equality{st: st, set: set, group: group, target: target, masks: masks, table: newTable(), limit: set.KeysPerPass}
		if e.limit <= 0 {
			e.limit = defaultKeysPerPass
		}
		if err := e.run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// equalityGroup is the equality deletes over one set of columns, and the targets to which any of them applies.
type equalityGroup struct {
	ids     []int
	files   []int
	targets []int
}

func equalityGroups(set Set) []*equalityGroup {
	byIDs := map[string]*equalityGroup{}
	var order []string
	of := make(map[int]*equalityGroup, len(set.Files))
	for d, f := range set.Files {
		if f.ContentType() != iceberg.EntryContentEqDeletes {
			continue
		}
		ids := slices.Sorted(slices.Values(f.EqualityFieldIDs()))
		name := strings.Trim(fmt.Sprint(slices.Compact(ids)), "[]")
		g := byIDs[name]
		if g == nil {
			g = &equalityGroup{ids: slices.Compact(ids)}
			byIDs[name] = g
			order = append(order, name)
		}
		g.files = append(g.files, d)
		of[d] = g
	}
	for i, t := range set.Targets {
		for _, d := range t.Deletes {
			if g := of[d]; g != nil && (len(g.targets) == 0 || g.targets[len(g.targets)-1] != i) {
				g.targets = append(g.targets, i)
			}
		}
	}
	var out []*equalityGroup
	for _, name := range order {
		if g := byIDs[name]; len(g.targets) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// equality applies one group.
type equality struct {
	st     store.Reader
	set    Set
	group  *equalityGroup
	target *projection.Target
	masks  []Mask
	table  *table
	limit  int
}

func (e *equality) run(ctx context.Context) error {
	for _, d := range e.group.files {
		f := e.set.Files[d]
		if len(f.EqualityFieldIDs()) == 0 {
			return fmt.Errorf("equality deletes %s name no column: %w", f.FilePath(), ErrUnusable)
		}
		err := e.chunks(ctx, f.DataFile, projection.Options{}, true, func(keys []key, _ int64) error {
			for _, k := range keys {
				e.table.add(k, f.Sequence)
			}
			if e.table.used >= e.limit {
				return e.probe(ctx)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return e.probe(ctx)
}

// probe marks the rows that the keys in the table delete, and empties it.
func (e *equality) probe(ctx context.Context) error {
	if e.table.used == 0 {
		return nil
	}
	for _, i := range e.group.targets {
		t := e.set.Targets[i]
		opts := projection.Options{Constants: t.Constants}
		err := e.chunks(ctx, t.DataFile, opts, false, func(keys []key, first int64) error {
			var hits []uint64
			for n, k := range keys {
				if e.table.deletes(k, t.Sequence) {
					hits = append(hits, uint64(first)+uint64(n))
				}
			}
			if len(hits) > 0 {
				if e.masks[i] == nil {
					e.masks[i] = roaring64.New()
				}
				e.masks[i].AddMany(hits)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	e.table.reset()
	return nil
}

// chunks yields the keys of a file's rows, at most chunkRows at a time. own demands that the file itself has every key column.
func (e *equality) chunks(ctx context.Context, f iceberg.DataFile, opts projection.Options, own bool, yield func([]key, int64) error) error {
	src, err := source.Open(ctx, e.st, f.FilePath(), source.Options{SizeBytes: f.FileSizeBytes(), WholeBelowBytes: wholeBelowBytes})
	if err != nil {
		return fmt.Errorf("read equality columns: %w", err)
	}
	defer src.Close()
	p, err := projection.New(e.target, src, opts)
	if err != nil {
		return fmt.Errorf("read equality columns: %w", err)
	}
	if src.Rows != f.Count() {
		return fmt.Errorf("file %s has %d rows, its manifest entry says %d: %w", f.FilePath(), src.Rows, f.Count(), ErrUnusable)
	}
	for _, leaf := range e.target.Layout.Leaves {
		if own && !p.Has(leaf.Index) {
			return fmt.Errorf("equality deletes %s lack their column %d: %w", f.FilePath(), leaf.FieldID, ErrUnusable)
		}
	}
	for _, g := range src.Groups {
		for from := g.First; from < g.First+g.Rows; from += chunkRows {
			if err := ctx.Err(); err != nil {
				return err
			}
			keys, err := hashKeys(p, e.target.Layout, column.Run{From: from, To: min(from+chunkRows, g.First+g.Rows)}, e.set.Seed)
			if err != nil {
				return err
			}
			if err := yield(keys, from); err != nil {
				return err
			}
		}
	}
	return nil
}
