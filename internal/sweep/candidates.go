package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/lake/reach"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// rangeFiles is how many candidates one delete range holds: ten batches of S3's DeleteObjects, far below a minute of work, so that a range
// that is killed loses little (and a run with 25,000 files needs three of them).
const rangeFiles = 10_000

// Spark's result columns of expire_snapshots.
const (
	columnData          = "deleted_data_files_count"
	columnPositions     = "deleted_position_delete_files_count"
	columnEqualities    = "deleted_equality_delete_files_count"
	columnManifests     = "deleted_manifest_files_count"
	columnManifestLists = "deleted_manifest_lists_count"
	columnStatistics    = "deleted_statistics_files_count"
)

// column is Spark's result column in which files of a kind are counted, "" for none.
func column(k reach.Kind) string {
	switch k {
	case reach.Data:
		return columnData
	case reach.PositionDeletes:
		return columnPositions
	case reach.EqualityDeletes:
		return columnEqualities
	case reach.Manifest:
		return columnManifests
	case reach.ManifestList:
		return columnManifestLists
	case reach.Statistics:
		return columnStatistics
	case reach.MetadataFile, reach.Listed:
	}
	return ""
}

// expiryColumns are all columns of expire_snapshots at zero.
func expiryColumns() map[string]int64 {
	return map[string]int64{
		columnData: 0, columnPositions: 0, columnEqualities: 0, columnManifests: 0, columnManifestLists: 0, columnStatistics: 0,
	}
}

// candidates writes what was proved unreachable: in ranges for delete, and as a list for people.
type candidates struct {
	*step
	summary handoff.SweepSummary
	ranges  []string
	open    *reach.RunWriter
	list    store.Upload
	pending []byte
}

func (s *step) newCandidates(ctx context.Context) (*candidates, error) {
	c := &candidates{step: s}
	c.summary.FilesLocation = s.part("files.jsonl")
	var err error
	c.list, err = s.deps.Work.Create(ctx, c.summary.FilesLocation, store.WriteOptions{ContentType: "application/x-ndjson"})
	if err != nil {
		return nil, fmt.Errorf("write the list of files: %w", err)
	}
	return c, nil
}

// add takes the next candidate, in the order of a set.
func (c *candidates) add(ctx context.Context, f reach.File) error {
	if c.open == nil {
		location := c.part(fmt.Sprintf("candidates-%06d.run", len(c.ranges)))
		w, err := reach.NewRunWriter(ctx, c.deps.Work, location)
		if err != nil {
			return err
		}
		c.ranges, c.open = append(c.ranges, location), w
	}
	if err := c.open.Add(f); err != nil {
		return err
	}
	c.summary.Candidates++
	c.summary.CandidateBytes += max(0, f.SizeBytes)
	if len(c.summary.Files) < 20 {
		c.summary.Files = append(c.summary.Files, f.Location)
	}
	if name := column(f.Kind); name != "" && c.summary.Columns != nil {
		c.summary.Columns[name]++
	}
	var err error
	if c.pending, err = appendJSON(c.pending, f.Location); err != nil {
		return err
	}
	if c.pending = append(c.pending, '\n'); len(c.pending) > 256<<10 {
		if err := c.flush(); err != nil {
			return err
		}
	}
	if c.open.Count() < rangeFiles {
		return nil
	}
	return c.closeRange(ctx)
}

// appendJSON appends a location as JSON. Most have nothing that needs to be escaped.
func appendJSON(dst []byte, location string) ([]byte, error) {
	for i := range len(location) {
		if b := location[i]; b < ' ' || b > '~' || b == '"' || b == '\\' || b == '<' || b == '>' || b == '&' {
			text, err := json.Marshal(location)
			if err != nil {
				return nil, fmt.Errorf("encode %q: %w", location, err)
			}
			return append(dst, text...), nil
		}
	}
	return append(append(append(dst, '"'), location...), '"'), nil
}

func (c *candidates) flush() error {
	if _, err := c.list.Write(c.pending); err != nil {
		return fmt.Errorf("write the list of files: %w", err)
	}
	c.pending = c.pending[:0]
	return nil
}

func (c *candidates) closeRange(ctx context.Context) error {
	if c.open == nil {
		return nil
	}
	if err := c.open.Commit(ctx); err != nil {
		return err
	}
	c.open = nil
	return nil
}

// abort discards what is open; what was written stays unread.
func (c *candidates) abort(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	errs := []error{c.list.Abort(ctx)}
	if c.open != nil {
		errs = append(errs, c.open.Abort(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		c.log.WarnContext(ctx, "unread objects stay in the work location", "error", err.Error())
	}
}

// finish closes the lists and returns the result: a dry run has the same files, and no items.
func (c *candidates) finish(ctx context.Context) (handoff.SweepReach, error) {
	if err := errors.Join(c.closeRange(ctx), c.flush(), c.list.Commit(ctx)); err != nil {
		return handoff.SweepReach{}, err
	}
	result := handoff.SweepReach{Summary: c.summary}
	switch {
	case c.index.DryRun:
		result.Summary.Outcome = maintenance.DryRun
		return result, nil
	case len(c.ranges) == 0:
		result.Summary.Outcome = maintenance.NothingToDo
		return result, nil
	}
	result.Summary.Outcome = maintenance.Committed
	if c.summary.Columns != nil {
		result.Summary.Columns = expiryColumns() // delete counts what is really gone
	}
	lines := make([]any, len(c.ranges))
	for i, location := range c.ranges {
		lines[i] = maintenance.SweepInput{
			V: contract.PayloadVersion, Step: maintenance.SweepDelete, Run: c.in.Run, Job: c.in.Job, Batch: c.in.Batch,
			Item: &maintenance.SweepItem{Range: i, Batch: c.in.Batch, Location: location},
		}
	}
	location := c.part("items.jsonl")
	if err := c.work.WriteLines(ctx, location, lines); err != nil {
		return handoff.SweepReach{}, err
	}
	var err error
	result.Items, err = handoff.Object(location)
	result.ItemCount, result.Ranges = len(c.ranges), c.ranges
	return result, err
}
