package sorted

import (
	"fmt"

	"firn/internal/compact/engine"
	"firn/internal/compact/sorted/keys"
	"firn/internal/compact/transform"
	"firn/internal/maintenance"
	"firn/internal/parquet/column"
	"firn/internal/parquet/layout"
)

// partitions knows the partition values behind the leading fields of keys, of a job that sends rows to partitions. Fields that are void have no
// column: they are null in every partition.
type partitions struct{ fields []partitionField }

type partitionField struct {
	id    int
	leaf  *layout.Leaf
	apply transform.Func
	// seen are the values by their part of a key.
	seen map[string]any
}

// newPartitions lists the fields of the outputs' spec, and the ordering that puts the rows of a partition together.
func newPartitions(job *engine.Job) (*partitions, []maintenance.OrderingField, error) {
	p := &partitions{}
	var order []maintenance.OrderingField
	for i := range job.Spec.NumFields() {
		f := job.Spec.Field(i)
		apply, err := transform.New(f.Transform)
		if err != nil {
			return nil, nil, err
		}
		if apply == nil {
			continue
		}
		leaf := job.Target.Layout.Leaf(f.SourceID())
		if leaf == nil || leaf.Repeated() {
			return nil, nil, fmt.Errorf("partition field %s has no source column %d in the schema: %w", f.Name, f.SourceID(), engine.ErrRefused)
		}
		p.fields = append(p.fields, partitionField{id: f.FieldID, leaf: leaf, apply: apply, seen: map[string]any{}})
		order = append(order, maintenance.OrderingField{SourceID: f.SourceID(), Transform: f.Transform.String()})
	}
	return p, order, nil
}

// note remembers the values of a field behind the keys from a row on, which were made of a batch.
func (p *partitions) note(field int, k *keys.Keys, first int, b *column.Batch) error {
	f := &p.fields[field]
	value := -1
	for i := range b.Levels {
		present := f.leaf.MaxDef == 0 || b.Def[i] == f.leaf.MaxDef
		if present {
			value++
		}
		key := k.At(first + i)
		if _, known := f.seen[string(key)]; known {
			continue
		}
		var v any
		if present {
			lit, err := f.apply(transform.Literal(f.leaf, &b.Values, value))
			if err != nil {
				return fmt.Errorf("partition a row by %s: %w: %w", f.leaf.Path, err, engine.ErrRefused)
			}
			if lit != nil {
				v = transform.Owned(lit.Any())
			}
		}
		f.seen[string(key)] = v
	}
	return nil
}

// values is the partition behind the leading part of a key.
func (p *partitions) values(e *keys.Encoder, lead []byte) map[int]any {
	out := make(map[int]any, len(p.fields))
	for i, f := range p.fields {
		n := e.Fields[i].Skip(lead)
		out[f.id] = f.seen[string(lead[:n])]
		lead = lead[n:]
	}
	return out
}
