package decide

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// ErrRefused marks a definite no that no option changes: the table does not allow the job.
var ErrRefused = errors.New("refused")

type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text }

func (e *refusedError) Is(target error) bool { return target == ErrRefused }

// Table properties that steer expiry, with Iceberg's defaults.
const (
	propertyGCEnabled      = "gc.enabled"
	propertyMaxSnapshotAge = "history.expire.max-snapshot-age-ms"
	propertyMinSnapshots   = "history.expire.min-snapshots-to-keep"
	propertyMaxRefAge      = "history.expire.max-ref-age-ms"

	defaultMaxSnapshotAge = 5 * 24 * time.Hour
)

// DefaultMinSnapshotAge is the age under which an automatic run expires nothing, whatever the policy says.
const DefaultMinSnapshotAge = 24 * time.Hour

// SnapshotsOptions are the arguments of expire_snapshots with defaults filled in.
type SnapshotsOptions struct {
	// OlderThanMS is the cutoff in milliseconds since the epoch: what is not older stays.
	OlderThanMS int64
	// RetainLast is the least number of snapshots that each branch keeps.
	RetainLast int
	// MaxRefAgeMS is the age at which refs without an age of their own go; never is math.MaxInt64.
	MaxRefAgeMS int64
	// TableMaxSnapshotAgeMS and TableMinSnapshotsToKeep are the table's properties.
	TableMaxSnapshotAgeMS   int64
	TableMinSnapshotsToKeep int
	// SnapshotIDs are removed even where age and number would keep them.
	SnapshotIDs []int64
	// CleanExpiredMetadata removes schemas and specs that nothing uses.
	CleanExpiredMetadata bool
	// MaxConcurrentDeletes is 0 when it was not given; StreamResults is accepted and changes nothing here.
	MaxConcurrentDeletes int
	StreamResults        bool
	DryRun               bool

	// What follows is set for automatic runs, and by nothing that a call says.

	// MinAgeMS keeps younger snapshots; Pinned are snapshots that a live run works from.
	MinAgeMS int64
	Pinned   []int64
	// KeepBookmarks keeps the newest snapshot of each streaming writer; BookmarkKeys are summary keys beside the known ones.
	KeepBookmarks bool
	BookmarkKeys  []string
	// CallForMainOnly applies OlderThanMS and RetainLast to main only: other branches without retention of their own follow the table.
	CallForMainOnly bool
	// Limit bounds the number of snapshots that one run expires; 0 is no bound.
	Limit int
}

// ParseSnapshotsOptions reads the arguments of expire_snapshots. Defaults come from the table's properties. Faults are ErrOption, all at once; a
// table with gc.enabled=false is ErrRefused.
func ParseSnapshotsOptions(args map[string]string, ids []string, properties map[string]string, now time.Time) (SnapshotsOptions, error) {
	if err := checkGC(properties, "expire snapshots"); err != nil {
		return SnapshotsOptions{}, err
	}
	p := &optionReader{options: properties, noun: "property"}
	var o SnapshotsOptions
	o.TableMaxSnapshotAgeMS = p.whole(propertyMaxSnapshotAge, defaultMaxSnapshotAge.Milliseconds(), 0, math.MaxInt64)
	o.TableMinSnapshotsToKeep = p.count(propertyMinSnapshots, 1, 0)
	o.MaxRefAgeMS = p.whole(propertyMaxRefAge, math.MaxInt64, 1, math.MaxInt64)

	r := &optionReader{options: args, noun: "argument", errs: p.errs}
	o.OlderThanMS = r.instant("older_than", now, now.UnixMilli()-o.TableMaxSnapshotAgeMS)
	o.RetainLast = r.count("retain_last", o.TableMinSnapshotsToKeep, 1)
	o.MaxConcurrentDeletes = r.count("max_concurrent_deletes", 0, 1)
	o.StreamResults = r.flag("stream_results", false)
	o.CleanExpiredMetadata = r.flag("clean_expired_metadata", false)
	o.DryRun = r.flag("dry_run", false)
	r.unknown("expire_snapshots")
	for _, text := range ids {
		id, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil {
			r.fault("read argument snapshot_ids: %q is no snapshot ID", text)
			continue
		}
		o.SnapshotIDs = append(o.SnapshotIDs, id)
	}
	return o, r.err()
}

// Guard sets what automatic runs ask for: a least age (never under DefaultMinSnapshotAge unless unsafe), and bookmarks.
func (o *SnapshotsOptions) Guard(minAge time.Duration, unsafe bool) {
	if !unsafe {
		minAge = max(minAge, DefaultMinSnapshotAge)
	}
	o.MinAgeMS = minAge.Milliseconds()
	o.KeepBookmarks = true
	o.CallForMainOnly = true
}

// checkGC refuses a job that deletes files on a table that does not own them.
func checkGC(properties map[string]string, job string) error {
	if strings.EqualFold(strings.TrimSpace(properties[propertyGCEnabled]), "false") {
		return &refusedError{job + ": the table has gc.enabled=false, its files may belong to other tables"}
	}
	return nil
}

// instant reads a time as milliseconds since the epoch.
func (r *optionReader) instant(name string, now time.Time, fallback int64) int64 {
	text, ok := r.text(name)
	if !ok {
		return fallback
	}
	at, err := ParseInstant(text, now)
	if err != nil {
		r.faultOf(name, "%v", err)
		return fallback
	}
	return at.UnixMilli()
}
