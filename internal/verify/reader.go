package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"

	"firn/internal/deletes"
	"firn/internal/lake"
	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/projection"
	"firn/internal/parquet/source"
)

const (
	// chunkRows bounds the rows whose hashes are held at once: 16 bytes each, for each worker. Row groups are cut there.
	chunkRows = 2 << 20
	// filesTogether is how many files share one reading of their delete files.
	filesTogether = 32
	// wholeBelowBytes is the length up to which a file is fetched with one request.
	wholeBelowBytes = 8 << 20
	nameMapping     = "schema.name-mapping.default"
)

// reader reads both sides in one form: the columns of the snapshot's schema.
type reader struct {
	v             *Verifier
	target        *projection.Target
	keys          *deletes.KeySchema
	specs         func(id int) *iceberg.PartitionSpec
	identifiers   map[int]bool
	before, after []liveFile
}

// newReader lays the snapshot's schema out. Row lineage is compared when every file of both sides has it.
func (v *Verifier) newReader(t *lake.Table, snap *table.Snapshot, before, after []liveFile) (*reader, error) {
	schema := t.Metadata.CurrentSchema()
	r := &reader{v: v, keys: &deletes.KeySchema{}, specs: t.Metadata.PartitionSpecByID, before: before, after: after, identifiers: map[int]bool{}}
	defaults := map[int]json.RawMessage{}
	for _, s := range t.Metadata.Schemas() {
		if snap.SchemaID != nil && s.ID == *snap.SchemaID {
			schema = s
		}
		raw, err := json.Marshal(s)
		if err != nil {
			return nil, fmt.Errorf("read schema %d: %w", s.ID, err)
		}
		of, err := projection.ParseDefaults(raw)
		if err != nil {
			return nil, fmt.Errorf("read schema %d: %w: %w", s.ID, err, ErrUnverifiable)
		}
		maps.Copy(defaults, of)
		r.keys.Schemas = append(r.keys.Schemas, s)
	}
	if text := t.Metadata.Properties()[nameMapping]; text != "" {
		if err := json.Unmarshal([]byte(text), &r.keys.Names); err != nil {
			return nil, fmt.Errorf("read property %s: %w: %w", nameMapping, err, ErrUnverifiable)
		}
	}
	r.keys.Defaults = defaults
	lineage := t.Metadata.Version() >= 3
	for _, side := range [][]liveFile{before, after} {
		for _, f := range side {
			lineage = lineage && f.FirstRowID != nil
		}
	}
	l, err := layout.New(schema, lineage)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrUnverifiable)
	}
	r.target = &projection.Target{Layout: l, Names: r.keys.Names, Defaults: defaults}
	for _, id := range schema.IdentifierFieldIDs {
		r.identifiers[id] = true
	}
	return r, nil
}

// lineage tells the leaves of row lineage, which are no columns of the rows.
func lineage(leaf *layout.Leaf) bool {
	return leaf.FieldID == layout.RowIDField || leaf.FieldID == layout.LastUpdatedField
}

// chunk is a run of rows of a file: their hashes, and which of them are live. columns are the sums of the live ones by leaf.
type chunk struct {
	file    int
	first   int64
	live    []bool
	hashes  []uint64
	lineage []uint64
	columns []columnSum
}

// columnSum is a column's part of the comparison.
type columnSum struct {
	sum
	nulls int64
}

// each reads every file of one side and yields its rows in chunks, several at once.
func (r *reader) each(ctx context.Context, side []liveFile, yield func(c *chunk) error) error {
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(max(r.v.Workers, 0))
	if r.v.Workers <= 0 {
		workers.SetLimit(defaultWorkers)
	}
	for first := 0; first < len(side); first += filesTogether {
		part := side[first:min(first+filesTogether, len(side))]
		workers.Go(func() error {
			masks, err := r.masks(ctx, part)
			if err != nil {
				return err
			}
			for i := range part {
				if err := r.file(ctx, &part[i], first+i, masks[i], yield); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return workers.Wait()
}

// masks reads the deletes of some files.
func (r *reader) masks(ctx context.Context, files []liveFile) ([]deletes.Mask, error) {
	set := deletes.Set{Schema: r.keys, Seed: r.v.Seed}
	at := map[string]int{}
	for _, f := range files {
		t := deletes.Target{DataFile: f.File, Sequence: f.DataSequence, Constants: r.constants(f)}
		for _, d := range f.deletes {
			name := names([]lake.Entry{d})[0]
			n, known := at[name]
			if !known {
				n = len(set.Files)
				at[name] = n
				set.Files = append(set.Files, deletes.File{DataFile: d.File, Sequence: d.DataSequence})
			}
			t.Deletes = append(t.Deletes, n)
		}
		set.Targets = append(set.Targets, t)
	}
	masks, err := deletes.Masks(ctx, r.v.Store, set)
	if err != nil {
		return nil, r.classify(fmt.Errorf("read deletes: %w", err))
	}
	return masks, nil
}

// constants are the values of a file's identity partition fields.
func (r *reader) constants(f liveFile) map[int]any {
	spec := r.specs(f.SpecID)
	if spec == nil {
		return nil
	}
	return projection.Constants(*spec, f.File)
}

// classify tells what no repetition cures.
func (r *reader) classify(err error) error {
	if errors.Is(err, deletes.ErrUnusable) || errors.Is(err, source.ErrUnreadable) || errors.Is(err, projection.ErrUnmappable) {
		return fmt.Errorf("%w: %w", err, ErrUnverifiable)
	}
	return err
}

// open opens a data file.
func (r *reader) open(ctx context.Context, f *liveFile) (*source.File, *projection.Projection, error) {
	src, err := source.Open(ctx, r.v.Store, f.File.FilePath(), source.Options{SizeBytes: f.File.FileSizeBytes(), WholeBelowBytes: wholeBelowBytes})
	if err != nil {
		return nil, nil, r.classify(err)
	}
	p, err := projection.New(r.target, src, projection.Options{Constants: r.constants(*f), FirstRowID: f.FirstRowID, Sequence: f.DataSequence})
	if err == nil && src.Rows != f.File.Count() {
		err = unverifiable("%s has %d rows, its manifest entry says %d", f.File.FilePath(), src.Rows, f.File.Count())
	}
	if err != nil {
		src.Close()
		return nil, nil, r.classify(err)
	}
	return src, p, nil
}

// file yields the chunks of one file.
func (r *reader) file(ctx context.Context, f *liveFile, number int, mask deletes.Mask, yield func(c *chunk) error) error {
	if !strings.EqualFold(string(f.File.FileFormat()), string(iceberg.ParquetFile)) {
		return unverifiable("%s has format %s, only Parquet is read", f.File.FilePath(), f.File.FileFormat())
	}
	src, p, err := r.open(ctx, f)
	if err != nil {
		return err
	}
	defer src.Close()
	for _, g := range src.Groups {
		for from := g.First; from < g.First+g.Rows; from += chunkRows {
			if err := ctx.Err(); err != nil {
				return err
			}
			c, err := r.chunk(p, column.Run{From: from, To: min(from+chunkRows, g.First+g.Rows)}, mask)
			if err != nil {
				return r.classify(err)
			}
			c.file = number
			if err := yield(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// chunk hashes a run of rows, a column at a time.
func (r *reader) chunk(p *projection.Projection, rows column.Run, mask deletes.Mask) (*chunk, error) {
	n := rows.To - rows.From
	c := &chunk{first: rows.From, live: make([]bool, n), hashes: make([]uint64, n), columns: make([]columnSum, len(r.target.Layout.Leaves))}
	if r.target.Layout.Lineage {
		c.lineage = make([]uint64, n)
	}
	for i := range c.live {
		c.live[i] = true
	}
	if mask != nil {
		it := mask.Iterator()
		it.AdvanceIfNeeded(uint64(rows.From))
		for it.HasNext() && it.PeekNext() < uint64(rows.To) {
			c.live[it.Next()-uint64(rows.From)] = false
		}
	}
	for _, leaf := range r.target.Layout.Leaves {
		into, hasher, col := c.hashes, newLeafHasher(leaf, r.v.Seed), &c.columns[leaf.Index]
		if lineage(leaf) {
			into = c.lineage
		}
		err := p.Scan(leaf.Index, rows, func(b *column.Batch) error {
			hasher.rows(b, func(row int64, hash uint64, nulls int64) {
				at := row - rows.From
				into[at] = mix(into[at] ^ hash)
				if c.live[at] {
					col.add(hash)
					col.nulls += nulls
				}
			})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}
