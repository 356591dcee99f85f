package arrow

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"firn/internal/compact/engine"
	"firn/internal/compact/transform"
	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

// repartition sends each row to its own partition under the outputs' spec. The partitions of a bounded number of rows are worked out first;
// then partition after partition is written like a group of its own, one output open at a time. An input is read once a partition in it.
func (r *rewrite) repartition(ctx context.Context) error {
	fields, err := r.fields()
	if err != nil {
		return err
	}
	for from := 0; from < len(r.inputs); {
		to, rows := from, int64(0)
		for to < len(r.inputs) && (to == from || rows+r.inputs[to].Count() <= r.limits.RepartitionRows) {
			rows += r.inputs[to].Count()
			to++
		}
		s := &sorter{fields: fields, codes: make([]map[codeKey]int32, len(fields))}
		for _, in := range r.inputs[from:to] {
			if err := r.assign(ctx, s, in); err != nil {
				return err
			}
		}
		for _, p := range s.sorted() {
			l := &lane{rewrite: r, partition: p.values, shares: p.shares}
			if err := l.run(ctx); err != nil {
				return err
			}
		}
		from = to
	}
	return nil
}

// field is a partition field with its source column.
type field struct {
	id    int
	leaf  *layout.Leaf
	apply transform.Func
}

func (r *rewrite) fields() ([]field, error) {
	var out []field
	for i := range r.job.Spec.NumFields() {
		f := r.job.Spec.Field(i)
		apply, err := transform.New(f.Transform)
		if err != nil {
			return nil, err
		}
		leaf := r.job.Target.Layout.Leaf(f.SourceID())
		if apply == nil {
			out = append(out, field{id: f.FieldID}) // Void: always null.
			continue
		}
		if leaf == nil || leaf.Repeated() {
			return nil, fmt.Errorf("partition field %s has no source column %d in the schema: %w", f.Name, f.SourceID(), engine.ErrRefused)
		}
		out = append(out, field{id: f.FieldID, leaf: leaf, apply: apply})
	}
	return out, nil
}

// codeKey leads from the partition values so far and the next one to a longer prefix.
type codeKey struct {
	prefix int32
	value  string
}

// sorter collects the rows of each partition.
type sorter struct {
	fields []field
	// codes number the prefixes of partition tuples, field by field; tuples hold the values of each complete one.
	codes  []map[codeKey]int32
	values []map[int32][]any
	parts  map[int32]*part
}

// part is one partition.
type part struct {
	key    string
	values map[int]any
	shares []share
}

// assign reads the source columns of an input and gives each kept row to its partition.
func (r *rewrite) assign(ctx context.Context, s *sorter, in *input) error {
	sel := in.selection()
	if sel.count() == 0 {
		return nil
	}
	if err := r.open(ctx, in, r.limits.WholeBelowBytes); err != nil {
		return err
	}
	defer in.close()
	found := map[int32]*roaring64.Bitmap{}
	w := sel.walk()
	for _, g := range in.file.Groups {
		if err := ctx.Err(); err != nil {
			return err
		}
		rows := column.Run{From: g.First, To: g.First + g.Rows}
		codes := make([]int32, g.Rows)
		for i := range s.fields {
			if err := s.extend(in, i, rows, codes); err != nil {
				return err
			}
		}
		for _, run := range w.runs(nil, rows) {
			for row := run.From; row < run.To; {
				end := row + 1
				code := codes[row-rows.From]
				for end < run.To && codes[end-rows.From] == code {
					end++
				}
				if found[code] == nil {
					found[code] = roaring64.New()
				}
				found[code].AddRange(uint64(row), uint64(end))
				row = end
			}
		}
	}
	s.collect(in, found)
	return nil
}

// extend lengthens each row's prefix by the value of field i.
func (s *sorter) extend(in *input, i int, rows column.Run, codes []int32) error {
	f := s.fields[i]
	if s.codes[i] == nil {
		s.codes[i] = map[codeKey]int32{}
	}
	if s.values == nil {
		s.values = make([]map[int32][]any, len(s.fields)+1)
		s.values[0] = map[int32][]any{0: nil}
	}
	if s.values[i+1] == nil {
		s.values[i+1] = map[int32][]any{}
	}
	step := func(row int64, key string, value func() any) {
		k := codeKey{prefix: codes[row-rows.From], value: key}
		code, ok := s.codes[i][k]
		if !ok {
			code = int32(len(s.codes[i]))
			s.codes[i][k] = code
			s.values[i+1][code] = append(slices.Clone(s.values[i][k.prefix]), value())
		}
		codes[row-rows.From] = code
	}
	null := func() any { return nil }
	if f.leaf == nil {
		for row := rows.From; row < rows.To; row++ {
			step(row, "", null)
		}
		return nil
	}
	return in.proj.Scan(f.leaf.Index, rows, func(b *column.Batch) error {
		at := 0
		for n := range b.Levels {
			row := b.First + int64(n)
			if f.leaf.MaxDef > 0 && b.Def[n] < f.leaf.MaxDef {
				step(row, "", null)
				continue
			}
			lit, err := f.apply(transform.Literal(f.leaf, &b.Values, at))
			if err != nil {
				return fmt.Errorf("partition a row of %s: %w: %w", in.FilePath(), err, engine.ErrRefused)
			}
			at++
			if lit == nil {
				step(row, "", null)
				continue
			}
			key, err := lit.MarshalBinary()
			if err != nil {
				return fmt.Errorf("partition a row of %s: %w", in.FilePath(), err)
			}
			step(row, "="+string(key), func() any { return transform.Owned(lit.Any()) })
		}
		return nil
	})
}

// collect adds an input's rows to the partitions.
func (s *sorter) collect(in *input, found map[int32]*roaring64.Bitmap) {
	if s.parts == nil {
		s.parts = map[int32]*part{}
	}
	for code, rows := range found {
		p := s.parts[code]
		if p == nil {
			p = &part{values: make(map[int]any, len(s.fields))}
			if len(s.fields) > 0 {
				for i, v := range s.values[len(s.fields)][code] {
					p.values[s.fields[i].id] = v
					p.key += fmt.Sprintf("%T:%v\x00", v, v)
				}
			}
			s.parts[code] = p
		}
		rows.RunOptimize()
		p.shares = append(p.shares, share{input: in.index, rows: selection{rows: in.Count(), only: rows}})
	}
}

// sorted returns the partitions in a fixed order.
func (s *sorter) sorted() []*part {
	var out []*part
	for _, p := range s.parts {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *part) int { return cmp.Compare(a.key, b.key) })
	return out
}
