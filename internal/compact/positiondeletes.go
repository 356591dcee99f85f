package compact

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"

	"firn/internal/compact/engine"
	"firn/internal/deletes"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/maintenance"
)

// granularityKey says whether position delete files are scoped to a partition (the default) or to a data file.
const granularityKey = "write.delete.granularity"

// vectorsSince is the format version whose position deletes are deletion vectors.
const vectorsSince = 3

// deleteOutput is a delete file to write: what it deletes, by data file.
type deleteOutput struct {
	deletes []deletes.FileDeletes
	targets []handoff.Target
}

// positionDeletes rewrites a group of position deletes: the positions of live data files, each once, in new files of the table's granularity, or in
// deletion vectors. The column row of position delete files, which writers may fill with the deleted row, is not carried over, as in Spark.
func (f *Function) positionDeletes(ctx context.Context, t *table, g *handoff.Group, attempt string) (handoff.GroupResult, error) {
	none := handoff.GroupResult{}
	files, home, err := t.deleteFiles(g)
	if err != nil {
		return none, err
	}
	live, spelled := map[string]int64{}, map[string]handoff.Target{}
	for _, target := range g.Targets {
		path := lake.SameFile(target.Path)
		if _, twice := live[path]; twice {
			return none, fmt.Errorf("data file %s is live twice: %w", target.Path, engine.ErrRefused)
		}
		live[path], spelled[path] = target.DataSequence, target
	}
	masks, err := deletes.Collect(ctx, f.deps.Store, files, live)
	if err != nil {
		return none, fmt.Errorf("read the deletes: %w", err)
	}
	result := handoff.GroupResult{Outcome: maintenance.Committed, Outputs: []handoff.Entry{}, Engine: "position deletes"}
	for i := range g.Inputs {
		result.BytesIn += lake.DeleteSizeBytes(files[i].DataFile)
	}
	for _, file := range files {
		result.Proof.RowsIn += file.Count()
	}
	w := f.deleteWriter(t, g, home, attempt)
	w.bytesEach = bytesEach(files[:len(g.Inputs)])
	if err := w.write(ctx, masks, spelled); err != nil {
		return none, err
	}
	if err := w.check(ctx, masks, live); err != nil {
		return none, err
	}
	if err := w.describe(&result); err != nil {
		return none, err
	}
	result.Proof.RowsDeleted = result.Proof.RowsIn - result.Proof.RowsOut
	return result, nil
}

// deleteHome is where the new delete files of a group belong.
type deleteHome struct {
	spec      iceberg.PartitionSpec
	partition map[int]any
}

// deleteFiles decodes the group's delete files, those to replace first.
func (t *table) deleteFiles(g *handoff.Group) ([]deletes.File, deleteHome, error) {
	var home deleteHome
	if len(g.Inputs) == 0 {
		return nil, home, fmt.Errorf("the group has no file: %w", engine.ErrRefused)
	}
	var err error
	if home.spec, _, err = t.spec(g.SpecID); err != nil {
		return nil, home, err
	}
	entries := make([]handoff.Entry, 0, len(g.Inputs)+len(g.Deletes))
	for _, in := range g.Inputs {
		entries = append(entries, in.Entry)
	}
	var files []deletes.File
	for _, e := range append(entries, g.Deletes...) {
		df, err := t.file(e)
		switch {
		case err != nil:
			return nil, home, err
		case df.ContentType() != iceberg.EntryContentPosDeletes:
			return nil, home, fmt.Errorf("%s holds no position deletes: %w", e.Path, engine.ErrRefused)
		case e.SpecID != g.SpecID:
			return nil, home, fmt.Errorf("%s has spec %d in a group of spec %d: %w", e.Path, e.SpecID, g.SpecID, engine.ErrRefused)
		}
		files = append(files, deletes.File{DataFile: df, Sequence: e.DataSequence})
	}
	home.partition = files[0].Partition()
	return files, home, nil
}

// bytesEach is the size of a position in delete files.
func bytesEach(files []deletes.File) float64 {
	var bytes, rows int64
	for _, f := range files {
		bytes, rows = bytes+f.FileSizeBytes(), rows+f.Count()
	}
	if rows == 0 {
		return 1
	}
	return float64(bytes) / float64(rows)
}

// deleteWriter writes the delete files of one attempt at a group.
type deleteWriter struct {
	f    *Function
	t    *table
	g    *handoff.Group
	home deleteHome
	job  engine.Job
	// bytesEach is the estimated size of a position in a position delete file.
	bytesEach float64
	n         int
	made      []madeDelete
}

func (f *Function) deleteWriter(t *table, g *handoff.Group, home deleteHome, attempt string) *deleteWriter {
	return &deleteWriter{f: f, t: t, g: g, home: home, job: engine.Job{
		Run: g.Run.RunID, Group: g.Index, Attempt: attempt, Spec: home.spec, Location: g.OutputLocation, Properties: t.pinned.Properties,
	}}
}

// madeDelete is a new delete file with the data files that it names.
type madeDelete struct {
	file    iceberg.DataFile
	targets []handoff.Target
}

// describe puts the new files into the result.
func (w *deleteWriter) describe(result *handoff.GroupResult) error {
	for _, m := range w.made {
		e, err := w.t.entry(m.file, w.g)
		if err != nil {
			return err
		}
		result.Outputs, result.References = append(result.Outputs, e), append(result.References, m.targets)
		result.BytesOut += lake.DeleteSizeBytes(m.file)
		result.Proof.RowsOut += m.file.Count()
	}
	return nil
}

// write writes the masks, in order of the data files' paths. A path is written as its data file's entry spells it, since readers compare texts.
func (w *deleteWriter) write(ctx context.Context, masks map[string]deletes.Mask, spelled map[string]handoff.Target) error {
	var all deleteOutput
	for _, path := range slices.Sorted(maps.Keys(masks)) {
		target := spelled[path]
		all.targets = append(all.targets, target)
		all.deletes = append(all.deletes, deletes.FileDeletes{
			Path: target.Path, Positions: masks[path], Spec: w.home.spec, Partition: w.home.partition,
		})
	}
	vectors := w.t.pinned.FormatVersion >= vectorsSince
	for _, out := range w.cut(all, vectors) {
		var err error
		if vectors {
			err = w.vectors(ctx, out)
		} else {
			err = w.positions(ctx, out)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cut parts the deletes into files, at borders of data files: one each when the granularity is the data file, else by estimated size. The estimate
// is the vectors' own size, and bytesEach for position delete files.
func (w *deleteWriter) cut(all deleteOutput, vectors bool) []deleteOutput {
	byFile := !vectors && strings.EqualFold(w.t.pinned.Properties[granularityKey], "file")
	var out []deleteOutput
	size := 0.0
	for i, d := range all.deletes {
		each := float64(d.Positions.GetCardinality()) * w.bytesEach
		if vectors {
			each = float64(d.Positions.GetSerializedSizeInBytes())
		}
		if len(out) == 0 || byFile || w.g.MaxOutputFileSizeBytes > 0 && size+each > float64(w.g.MaxOutputFileSizeBytes) {
			out, size = append(out, deleteOutput{}), 0
		}
		last := &out[len(out)-1]
		last.deletes, last.targets = append(last.deletes, d), append(last.targets, all.targets[i])
		size += each
	}
	return out
}

// next names the next file.
func (w *deleteWriter) next(ext string) (string, error) {
	_, schema, err := w.t.spec(w.g.SpecID)
	w.n++
	return engine.DeleteLocation(w.job, schema, w.n, w.home.partition, ext), err
}

func (w *deleteWriter) positions(ctx context.Context, out deleteOutput) error {
	at, err := w.next("parquet")
	if err != nil {
		return err
	}
	file, err := deletes.WritePositionsAs(ctx, w.f.deps.Store, at, w.t.pinned.Properties, out.deletes)
	if err != nil {
		return err
	}
	w.made = append(w.made, madeDelete{file, out.targets})
	return nil
}

func (w *deleteWriter) vectors(ctx context.Context, out deleteOutput) error {
	at, err := w.next("puffin")
	if err != nil {
		return err
	}
	files, err := deletes.WriteVectors(ctx, w.f.deps.Store, at, out.deletes)
	if err != nil {
		return err
	}
	targets := map[string]handoff.Target{}
	for _, t := range out.targets {
		targets[t.Path] = t
	}
	for _, file := range files {
		ref := file.ReferencedDataFile()
		if ref == nil {
			return errors.New("a deletion vector names no data file")
		}
		w.made = append(w.made, madeDelete{file, []handoff.Target{targets[*ref]}})
	}
	return nil
}

// check reads the new files back as a reader would: they must delete exactly the positions of the masks.
func (w *deleteWriter) check(ctx context.Context, masks map[string]deletes.Mask, live map[string]int64) error {
	var files []deletes.File
	for _, m := range w.made {
		files = append(files, deletes.File{DataFile: m.file, Sequence: highest(live)})
	}
	again, err := deletes.Collect(ctx, w.f.deps.Store, files, live)
	if err != nil {
		return fmt.Errorf("read the new deletes back: %w", err)
	}
	if len(again) != len(masks) {
		return fmt.Errorf("the new deletes name %d data files, not %d", len(again), len(masks))
	}
	for path, mask := range masks {
		if again[path] == nil || !again[path].Equals(mask) {
			return fmt.Errorf("the new deletes of %s are not the old ones", path)
		}
	}
	return nil
}

func highest(live map[string]int64) int64 {
	most := int64(0)
	for _, sequence := range live {
		most = max(most, sequence)
	}
	return most
}
