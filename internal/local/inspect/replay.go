package inspect

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"

	"firn/internal/contract"
	"firn/internal/decide"
	"firn/internal/decide/replay"
	"firn/internal/lake"
	"firn/internal/maintenance"
)

// snapshotReads is how many snapshots of a history are read at once.
const snapshotReads = 8

// Since reads the history of branch main from an instant on, as far as its snapshots are retained: it begins with the files of the newest snapshot that is
// not younger, or of the oldest that there is. Of each later snapshot only the manifests that it wrote are read.
func (v *View) Since(ctx context.Context, since time.Time) (replay.History, error) {
	meta := v.Table.Metadata
	h := replay.History{EndMS: v.now.UnixMilli(), Facts: decide.TableFacts{Properties: meta.Properties(), CurrentSpecID: meta.DefaultPartitionSpec()}}
	for _, spec := range meta.PartitionSpecs() {
		h.Facts.SpecIDs = append(h.Facts.SpecIDs, spec.ID())
	}
	var path []*table.Snapshot
	base := meta.CurrentSnapshot()
	for base != nil && base.TimestampMs > since.UnixMilli() {
		path = append(path, base)
		parent := base.ParentSnapshotID
		if base = nil; parent != nil {
			base = meta.SnapshotByID(*parent)
			if base == nil { // expired: what it held is what its child holds
				base, path = path[len(path)-1], path[:len(path)-1]
				break
			}
		}
	}
	slices.Reverse(path)
	h.StartMS = since.UnixMilli()
	switch {
	case base != nil:
		var err error
		if h.Start, err = v.changeOf(ctx, base, true); err != nil {
			return h, err
		}
		h.StartMS = max(h.StartMS, base.TimestampMs)
	case len(path) > 0:
		h.StartMS = max(h.StartMS, path[0].TimestampMs-1)
	}
	h.Changes = make([]replay.Change, len(path))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(snapshotReads)
	for i, snap := range path {
		group.Go(func() (err error) {
			h.Changes[i], err = v.changeOf(gctx, snap, false)
			return err
		})
	}
	return h, group.Wait()
}

// changeOf reads what a snapshot added and removed, or, for the start of a history, all of its live files as added.
func (v *View) changeOf(ctx context.Context, snap *table.Snapshot, all bool) (replay.Change, error) {
	c := replay.Change{AtMS: snap.TimestampMs}
	if snap.Summary != nil {
		c.Rewrite = snap.Summary.Operation == table.OpReplace
		c.Run = snap.Summary.Properties[contract.SummaryRunID]
	}
	manifests, err := lake.Manifests(ctx, v.store, snap)
	if err != nil {
		return c, err
	}
	for _, m := range manifests {
		c.Manifests++
		if m.Length() < v.manifestTarget()/2 {
			c.SmallManifests++
		}
		if !all && m.SnapshotID() != snap.SnapshotID {
			continue
		}
		opts := lake.EntryOptions{IncludeDeleted: true, WithoutStats: m.ManifestContent() == iceberg.ManifestContentData}
		for e, err := range lake.Entries(ctx, v.store, m, opts) {
			if err != nil {
				return c, fmt.Errorf("read what snapshot %d changed: %w", snap.SnapshotID, err)
			}
			gone := e.Status == iceberg.EntryStatusDELETED
			if all && gone || !all && (e.SnapshotID != snap.SnapshotID || e.Status == iceberg.EntryStatusEXISTING) {
				continue
			}
			if err := v.note(&c, e, gone); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

// note adds one entry to a change.
func (v *View) note(c *replay.Change, e lake.Entry, gone bool) error {
	spec, found := v.specs[e.SpecID]
	if !found {
		return fmt.Errorf("%s has unknown partition spec %d: %w", e, e.SpecID, lake.ErrTableFault)
	}
	partition, err := lake.PartitionKey(spec, e.File.Partition())
	if err != nil {
		return err
	}
	if e.File.ContentType() == iceberg.EntryContentData {
		list := &c.Added
		if gone {
			list = &c.Removed
		}
		*list = append(*list, replay.File{
			Path: e.File.FilePath(), Partition: partition, SpecID: e.SpecID, SizeBytes: e.File.FileSizeBytes(), Rows: e.File.Count(), Lineage: e.FirstRowID != nil,
			Unsupported: lake.Unsupported(e.File),
		})
		return nil
	}
	d := replay.Delete{Key: deleteKey(e), Partition: partition, SpecID: e.SpecID, Rows: e.File.Count()}
	switch {
	case e.File.ContentType() == iceberg.EntryContentEqDeletes:
		d.Kind = replay.Equality
	case lake.IsDeletionVector(e.File):
		d.Kind = replay.Vector
	}
	d.Target, _ = lake.FileScoped(e.File)
	list := &c.AddedDeletes
	if gone {
		list = &c.RemovedDeletes
	}
	*list = append(*list, d)
	return nil
}

// shownRuns bounds the runs that the text lists; JSON has all.
const shownRuns = 20

// WriteReplay prints a replay for people.
func WriteReplay(out io.Writer, name string, r replay.Report) error {
	days := float64(r.UntilMS-r.FromMS) / float64((24 * time.Hour).Milliseconds())
	fmt.Fprintf(out, "%s from %s to %s: %.1f days, %d commits of writers, %d snapshots of rewrites\n\n", name, stamp(r.FromMS), stamp(r.UntilMS), days, r.Commits, r.Rewrites)
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', tabwriter.AlignRight)
	row := func(what, was, proposed string) { fmt.Fprintf(w, "%s\t%s\t%s\t\n", what, was, proposed) }
	row("", "as it was", "with the policy")
	whole := func(n int64) string { return fmt.Sprint(n) }
	row("runs", whole(int64(r.AsItWas.Runs)), whole(int64(r.Proposed.Runs)))
	for _, job := range maintenance.Chain() {
		if a, b := r.AsItWas.Jobs[job], r.Proposed.Jobs[job]; a+b > 0 {
			row(string(job), whole(int64(a)), whole(int64(b)))
		}
	}
	row("rewritten files", whole(r.AsItWas.RewrittenFiles), whole(r.Proposed.RewrittenFiles))
	row("rewritten bytes", whole(r.AsItWas.RewrittenBytes), whole(r.Proposed.RewrittenBytes))
	row("modelled cost", fmt.Sprintf("$%.4f", r.AsItWas.Dollars), fmt.Sprintf("$%.4f", r.Proposed.Dollars))
	row("mean files a query", fmt.Sprintf("%.1f", r.MeanAsItWas), fmt.Sprintf("%.1f", r.MeanProposed))
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nfiles over time (data + delete files; a query opens those of one partition)\n")
	w = tabwriter.NewWriter(out, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tas it was\t\t\twith the policy\t\t\t")
	fmt.Fprintln(w, "at\tfiles\ta query\tworst\tfiles\ta query\tworst\t")
	var last *replay.Point
	for i := range r.OverTime {
		p := &r.OverTime[i]
		if last != nil && last.AsItWas == p.AsItWas && last.Proposed == p.Proposed && i < len(r.OverTime)-1 {
			continue // as before
		}
		last = p
		a, b := p.AsItWas, p.Proposed
		fmt.Fprintf(w, "%s\t%d\t%.1f\t%d\t%d\t%.1f\t%d\t\n", stamp(p.AtMS)[:16], a.DataFiles+a.DeleteFiles, a.PerQuery, a.Worst, b.DataFiles+b.DeleteFiles, b.PerQuery, b.Worst)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return writeRuns(out, r.Runs)
}

// writeRuns lists the runs that rewrote most, in the order of time.
func writeRuns(out io.Writer, runs []replay.Run) error {
	shown := slices.DeleteFunc(slices.Clone(runs), func(r replay.Run) bool { return r.RewrittenFiles == 0 })
	if len(shown) == 0 {
		_, err := fmt.Fprintln(out, "\nno run would have rewritten data files")
		return err
	}
	rewrites := len(shown)
	slices.SortStableFunc(shown, func(a, b replay.Run) int { return cmp.Compare(b.RewrittenBytes, a.RewrittenBytes) })
	shown = shown[:min(len(shown), shownRuns)]
	slices.SortStableFunc(shown, func(a, b replay.Run) int { return cmp.Compare(a.AtMS, b.AtMS) })
	title := "runs that would have rewritten data files"
	if len(shown) < rewrites {
		title += fmt.Sprintf(" (the %d largest of %d; --json has all)", len(shown), rewrites)
	}
	fmt.Fprintf(out, "\n%s\n", title)
	for _, r := range shown {
		if _, err := fmt.Fprintf(out, "%s  %d files, %d bytes -> %d files\n    %s\n", stamp(r.AtMS), r.RewrittenFiles, r.RewrittenBytes, r.AddedFiles,
			strings.Join(r.Reasons, "\n    ")); err != nil {
			return err
		}
	}
	return nil
}
