package arrow

import (
	"context"

	"firn/internal/compact/output"
)

// create starts the next output of a partition.
func (r *rewrite) create(ctx context.Context, partition map[int]any) (*output.File, error) {
	o, err := output.Create(ctx, r.store, r.job, len(r.mapper.outputs), partition)
	if err != nil {
		return nil, err
	}
	r.mapper.outputs = append(r.mapper.outputs, o.Location)
	return o, nil
}

// finish completes an output, or discards it.
func (r *rewrite) finish(ctx context.Context, o *output.File) error {
	made, err := o.Finish(ctx, r.store)
	if err != nil {
		o.Abort(ctx, r.log)
		return err
	}
	r.outputs = append(r.outputs, made)
	return nil
}
