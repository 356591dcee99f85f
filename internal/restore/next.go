package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/iceberg-go/table"

	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// maxMetadataReads bounds the search for a metadata file that names the expired snapshots.
const maxMetadataReads = 20

// gcEnabled is the table property that says whether unreachable files may be deleted.
const gcEnabled = "gc.enabled"

// Advise adds to the report what is to be done now. head is the table as it is, nil when it cannot be read; files reads its metadata files.
func (r *Report) Advise(ctx context.Context, run maintenance.Run, head *lake.Table, files store.Reader) {
	if r.Restored+r.Restorable+r.Present > 0 {
		r.Next = append(r.Next, r.keepAdvice(run.Table, head))
		advice, err := r.registerAdvice(ctx, run.Table, head, files)
		if err != nil {
			advice = "storage failed while a metadata file was looked for that names the expired snapshots; say it again: " + err.Error()
		}
		r.Next = append(r.Next, advice)
	}
	for _, id := range r.Earlier {
		r.Next = append(r.Next, fmt.Sprintf("this run also deleted what the expiry of run %s had left: firn restore --run %s", id, id))
	}
}

// keepAdvice says how restored files stay.
func (r *Report) keepAdvice(id maintenance.TableID, head *lake.Table) string {
	const why = "no snapshot names restored files and they keep their old age, so that the next remove_orphan_files, of any engine, deletes them again"
	if head != nil && strings.EqualFold(head.Metadata.Properties()[gcEnabled], "false") {
		return why + ": leave gc.enabled at false until a table names them or they are copied"
	}
	when := "at once"
	if r.DryRun {
		when = "before you restore"
	}
	return fmt.Sprintf("%s. Forbid it %s: firn sql \"ALTER TABLE %s SET TBLPROPERTIES ('gc.enabled' = 'false')\"", why, when, id)
}

// registerAdvice names a metadata file that still reaches what an expiry let go of.
func (r *Report) registerAdvice(ctx context.Context, id maintenance.TableID, head *lake.Table, files store.Reader) (string, error) {
	if r.expired == nil || len(r.expired.SnapshotIDs) == 0 {
		return "look at the objects and move what you need: nothing was committed, and nothing of them is in the table", nil
	}
	location, err := r.oldMetadata(ctx, id, head, files)
	if err != nil {
		return "", err
	}
	if location == "" {
		return fmt.Sprintf("no metadata file was found that still names the %d expired snapshots: their rows can be read from the restored files only", len(r.expired.SnapshotIDs)), nil
	}
	return fmt.Sprintf("this metadata file still names the %d expired snapshots; to read them: firn register --table %s_restored --metadata-location %s (afterwards drop that table without "+
		"purging: it shares its files)", len(r.expired.SnapshotIDs), id, location), nil
}

// oldMetadata is the newest metadata file that stands and names the expired snapshots: of the table's log, from before the expiry, or a restored one.
func (r *Report) oldMetadata(ctx context.Context, id maintenance.TableID, head *lake.Table, files store.Reader) (string, error) {
	var candidates []string
	if head != nil {
		log := slices.Collect(head.Metadata.PreviousFiles())
		slices.SortStableFunc(log, func(a, b table.MetadataLogEntry) int { return cmp.Compare(b.TimestampMs, a.TimestampMs) })
		for _, e := range log {
			if e.TimestampMs <= r.expired.CommittedAtMS {
				candidates = append(candidates, e.MetadataFile)
			}
		}
	}
	candidates = slices.Concat(candidates[:min(len(candidates), maxMetadataReads)], r.metadata)
	for _, location := range candidates {
		t, err := lake.Read(ctx, files, id, catalogs.Pointer{MetadataLocation: location})
		switch {
		case errors.Is(err, store.ErrTransient), ctx.Err() != nil:
			return "", err
		case err != nil:
			continue // gone, or no metadata file of a table
		}
		if !slices.ContainsFunc(r.expired.SnapshotIDs, func(s int64) bool { return t.Metadata.SnapshotByID(s) == nil }) {
			return location, nil
		}
	}
	return "", nil
}
