package compact

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/zeebo/xxh3"

	"firn/internal/compact/engine"
	"firn/internal/compact/metrics"
	"firn/internal/deletes"
	"firn/internal/handoff"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/projection"
	"firn/internal/parquet/sink"
)

// schemaKey is the footer key under which Java writes the table's schema.
const schemaKey = "iceberg.schema"

// prepare decodes the group, refuses what cannot be rewritten, reads the deletes and works out how the outputs are written.
func (f *Function) prepare(ctx context.Context, t *table, g *handoff.Group, attempt string) (engine.Job, error) {
	spec, _, err := t.spec(g.OutputSpecID)
	if err != nil {
		return engine.Job{}, err
	}
	l, err := layout.New(t.current, g.HasRowLineage)
	if err != nil {
		return engine.Job{}, err
	}
	props := t.pinned.Properties
	job := engine.Job{
		Run: g.Run.RunID, Group: g.Index, Attempt: attempt,
		Target: &projection.Target{Layout: l, Names: t.names, Defaults: t.defaults},
		Spec:   spec, Repartition: g.OutputSpecID != g.SpecID && spec.NumFields() > 0,
		Location: g.OutputLocation, Properties: props, MaxOutputFileSizeBytes: g.MaxOutputFileSizeBytes, Sorted: len(t.sorted) > 0,
		Ordering: g.Ordering, ExpectedOutputFiles: g.ExpectedOutputFiles,
	}
	if job.Writer, err = sink.ParseOptions(props, l); err != nil {
		return engine.Job{}, fmt.Errorf("%w: %w", err, engine.ErrRefused)
	}
	job.Writer.Metadata = map[string]string{schemaKey: string(t.raw)}
	if job.Modes, err = metrics.Modes(props, l, t.sorted); err != nil {
		return engine.Job{}, fmt.Errorf("%w: %w", err, engine.ErrRefused)
	}
	if job.Inputs, err = t.inputs(g); err != nil {
		return engine.Job{}, err
	}
	if g.OutputSpecID == g.SpecID {
		job.Partition = job.Inputs[0].Partition()
	}
	return job, f.mask(ctx, t, g, &job)
}

// inputs decodes the group's data files and refuses what is not plain Parquet.
func (t *table) inputs(g *handoff.Group) ([]engine.Input, error) {
	if len(g.Inputs) == 0 {
		return nil, fmt.Errorf("the group has no file: %w", engine.ErrRefused)
	}
	spec, _, err := t.spec(g.SpecID)
	if err != nil {
		return nil, err
	}
	var out []engine.Input
	for _, in := range g.Inputs {
		df, err := t.file(in.Entry)
		if err != nil {
			return nil, err
		}
		switch {
		case df.ContentType() != iceberg.EntryContentData:
			return nil, fmt.Errorf("%s is no data file: %w", in.Path, engine.ErrRefused)
		case !strings.EqualFold(string(df.FileFormat()), string(iceberg.ParquetFile)):
			return nil, fmt.Errorf("%s has format %s, only Parquet can be rewritten: %w", in.Path, df.FileFormat(), engine.ErrRefused)
		case len(df.KeyMetadata()) > 0:
			return nil, fmt.Errorf("%s is encrypted: %w", in.Path, engine.ErrRefused)
		case in.SpecID != g.SpecID:
			return nil, fmt.Errorf("%s has spec %d in a group of spec %d: %w", in.Path, in.SpecID, g.SpecID, engine.ErrRefused)
		case g.HasRowLineage != (in.FirstRowID != nil):
			return nil, fmt.Errorf("%s differs from its group in having row lineage: %w", in.Path, engine.ErrRefused)
		}
		out = append(out, engine.Input{
			DataFile: df, Sequence: in.DataSequence, FirstRowID: in.FirstRowID, Constants: projection.Constants(spec, df),
		})
	}
	return out, nil
}

// mask reads the group's deletes into the inputs.
func (f *Function) mask(ctx context.Context, t *table, g *handoff.Group, job *engine.Job) error {
	if len(g.Deletes) == 0 {
		return nil
	}
	set := deletes.Set{
		Schema: &deletes.KeySchema{Schemas: t.schemas, Names: t.names, Defaults: t.defaults},
		Seed:   xxh3.HashString(job.Attempt),
	}
	for _, d := range g.Deletes {
		df, err := t.file(d)
		if err != nil {
			return err
		}
		set.Files = append(set.Files, deletes.File{DataFile: df, Sequence: d.DataSequence})
	}
	for i, in := range g.Inputs {
		for _, d := range in.Deletes {
			if d < 0 || d >= len(set.Files) {
				return fmt.Errorf("%s names delete %d of %d: %w", in.Path, d, len(set.Files), engine.ErrRefused)
			}
		}
		set.Targets = append(set.Targets, deletes.Target{
			DataFile: job.Inputs[i].DataFile, Sequence: in.DataSequence, Deletes: in.Deletes, Constants: job.Inputs[i].Constants,
		})
	}
	masks, err := deletes.Masks(ctx, f.deps.Store, set)
	if err != nil {
		return fmt.Errorf("read the deletes: %w", err)
	}
	for i := range masks {
		job.Inputs[i].Mask = masks[i]
	}
	return nil
}
