package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// mainBranch is the branch that always stays.
const mainBranch = "main"

// Snapshot is what expiry looks at of a snapshot.
type Snapshot struct {
	ID int64
	// ParentID is nil for a first snapshot.
	ParentID    *int64
	TimestampMS int64
	// Summary is needed for writer bookmarks only.
	Summary map[string]string
}

// Ref is a branch or tag. Nil retention values mean that the ref has none of its own.
type Ref struct {
	Name       string
	SnapshotID int64
	// Branch tells a branch from a tag.
	Branch             bool
	MinSnapshotsToKeep *int
	MaxSnapshotAgeMS   *int64
	MaxRefAgeMS        *int64
}

// SnapshotsInput is a table's history as fresh metadata has it: the decision is made anew at each attempt to commit.
type SnapshotsInput struct {
	// Snapshots are in the order of the metadata.
	Snapshots []Snapshot
	Refs      []Ref
	// NowMS is the clock of the call, in milliseconds since the epoch: ages of refs are measured by it.
	NowMS   int64
	Options SnapshotsOptions
}

// SnapshotsPlan is what expires.
type SnapshotsPlan struct {
	// ExpiredIDs are the snapshots to remove, in the order of the metadata; RemovedRefs the refs, sorted.
	ExpiredIDs  []int64
	RemovedRefs []string
	// Kept says of every snapshot that stays why it does, in the order of the metadata.
	Kept []KeptSnapshot
	// More says that the limit left snapshots for another run.
	More bool
	// Warnings are things that the operator should know.
	Warnings []string
}

// KeptSnapshot is a snapshot that stays, and the first rule that keeps it.
type KeptSnapshot struct {
	ID  int64
	Why string
}

// Snapshots applies Iceberg's retention rules (core: RemoveSnapshots) to a history:
//
//  1. main stays; another ref goes when the age of its snapshot exceeds its max-ref-age; the snapshot of every kept ref stays;
//  2. each kept branch is walked from its head while fewer than min-snapshots-to-keep are kept or the snapshot is not older than the cutoff;
//  3. a tag protects its own snapshot only;
//  4. snapshots that are ancestors of no kept branch stay while they are not older than the call's cutoff;
//  5. ids that were named go even where rules 2 and 4 would keep them; naming a kept ref's snapshot is an error.
//
// Automatic runs have guards on top (SnapshotsOptions): a least age, pinned snapshots and writers' bookmarks.
func Snapshots(in SnapshotsInput) (SnapshotsPlan, error) {
	e := &expiry{in: in, byID: make(map[int64]*Snapshot, len(in.Snapshots)), why: make(map[int64]string, len(in.Snapshots))}
	for i := range in.Snapshots {
		e.byID[in.Snapshots[i].ID] = &in.Snapshots[i]
	}
	e.keepRefs()
	named, err := e.named()
	if err != nil {
		return SnapshotsPlan{}, err
	}
	referenced := map[int64]bool{}
	for _, r := range e.refs {
		e.keepBranch(r, referenced)
	}
	for _, s := range in.Snapshots {
		if !referenced[s.ID] && s.TimestampMS >= in.Options.OlderThanMS {
			e.keep(s.ID, "on no branch, and not older than the cutoff")
		}
	}
	for id := range named {
		delete(e.why, id)
	}
	for _, r := range e.refs {
		e.keep(r.SnapshotID, "ref "+r.Name)
	}
	e.guard()
	return e.plan(), nil
}

type expiry struct {
	in   SnapshotsInput
	byID map[int64]*Snapshot
	// refs are the kept refs.
	refs   []Ref
	why    map[int64]string
	result SnapshotsPlan
}

func (e *expiry) keep(id int64, why string) {
	if _, ok := e.why[id]; !ok {
		e.why[id] = why
	}
}

func (e *expiry) keepRefs() {
	for _, r := range e.in.Refs {
		s, ok := e.byID[r.SnapshotID]
		maxAge := e.in.Options.MaxRefAgeMS
		if r.MaxRefAgeMS != nil {
			maxAge = *r.MaxRefAgeMS
		}
		switch {
		case r.Name == mainBranch:
			e.refs = append(e.refs, r)
		case !ok:
			e.result.Warnings = append(e.result.Warnings, fmt.Sprintf("ref %s names snapshot %d, which does not exist: it is dropped", r.Name, r.SnapshotID))
			e.result.RemovedRefs = append(e.result.RemovedRefs, r.Name)
		case e.in.NowMS-s.TimestampMS > maxAge:
			e.result.RemovedRefs = append(e.result.RemovedRefs, r.Name)
		default:
			e.refs = append(e.refs, r)
		}
	}
	slices.Sort(e.result.RemovedRefs)
}

// named checks the ids of the call.
func (e *expiry) named() (map[int64]bool, error) {
	named := map[int64]bool{}
	for _, id := range e.in.Options.SnapshotIDs {
		if _, ok := e.byID[id]; !ok {
			return nil, optionErrorf("expire snapshot %d: the table has no such snapshot", id)
		}
		var refs []string
		for _, r := range e.refs {
			if r.SnapshotID == id {
				refs = append(refs, r.Name)
			}
		}
		if len(refs) > 0 {
			return nil, optionErrorf("expire snapshot %d: it is still referenced by %s", id, strings.Join(refs, ", "))
		}
		named[id] = true
	}
	return named, nil
}

// keepBranch walks a branch and marks all its ancestors as referenced; a tag marks its own snapshot.
func (e *expiry) keepBranch(r Ref, referenced map[int64]bool) {
	if !r.Branch {
		referenced[r.SnapshotID] = true
		return
	}
	cutoff, least := e.retention(r)
	kept, open := 0, true
	for s, steps := e.byID[r.SnapshotID], 0; s != nil && steps <= len(e.in.Snapshots); steps++ {
		referenced[s.ID] = true
		if open = open && (kept < least || s.TimestampMS >= cutoff); open {
			why := "branch " + r.Name + ", not older than its cutoff"
			if kept < least {
				why = fmt.Sprintf("branch %s, one of its last %d", r.Name, least)
			}
			e.keep(s.ID, why)
			kept++
		}
		if s.ParentID == nil {
			return
		}
		s = e.byID[*s.ParentID]
	}
}

// retention returns a branch's cutoff and least number: its own, else the call's. With CallForMainOnly a branch that is not main falls back to the
// table's properties instead.
func (e *expiry) retention(r Ref) (cutoff int64, least int) {
	o := e.in.Options
	cutoff, least = o.OlderThanMS, o.RetainLast
	if o.CallForMainOnly && r.Name != mainBranch {
		cutoff, least = e.in.NowMS-o.TableMaxSnapshotAgeMS, o.TableMinSnapshotsToKeep
	}
	if r.MaxSnapshotAgeMS != nil {
		cutoff = e.in.NowMS - *r.MaxSnapshotAgeMS
	}
	if r.MinSnapshotsToKeep != nil {
		least = *r.MinSnapshotsToKeep
	}
	return cutoff, least
}

// guard applies what only automatic runs ask for.
func (e *expiry) guard() {
	o := e.in.Options
	for _, id := range o.Pinned {
		e.keep(id, "pinned by a run")
	}
	if o.MinAgeMS > 0 {
		for _, s := range e.in.Snapshots {
			if e.in.NowMS-s.TimestampMS < o.MinAgeMS {
				e.keep(s.ID, "younger than the least age")
			}
		}
	}
	if !o.KeepBookmarks {
		return
	}
	for _, r := range e.refs {
		if r.Branch {
			e.keepBookmarks(r)
		}
	}
}

// keepBookmarks keeps, on a branch's line, the newest snapshot of each writer that resumes from what it finds in summaries.
func (e *expiry) keepBookmarks(r Ref) {
	met := map[string]bool{}
	for s, steps := e.byID[r.SnapshotID], 0; s != nil && steps <= len(e.in.Snapshots); steps++ {
		for _, writer := range bookmarks(s.Summary, e.in.Options.BookmarkKeys) {
			if !met[writer] {
				met[writer] = true
				e.keep(s.ID, "bookmark of "+writer)
			}
		}
		if s.ParentID == nil {
			return
		}
		s = e.byID[*s.ParentID]
	}
}

// bookmarks names the writers whose position a summary holds: Flink's sink (job and operator), Spark's streaming sink (query), Kafka Connect's
// sink (control topic and group, in the key), and keys of the policy.
func bookmarks(summary map[string]string, keys []string) []string {
	var writers []string
	if _, ok := summary["flink.max-committed-checkpoint-id"]; ok {
		writers = append(writers, "Flink job "+summary["flink.job-id"]+" operator "+summary["flink.operator-id"])
	}
	if _, ok := summary["spark.sql.streaming.epochId"]; ok {
		writers = append(writers, "Spark query "+summary["spark.sql.streaming.queryId"])
	}
	for k := range summary {
		if strings.HasPrefix(k, "kafka.connect.offsets.") || slices.Contains(keys, k) {
			writers = append(writers, k)
		}
	}
	slices.Sort(writers)
	return writers
}

// plan lists what goes. With a limit the oldest go first.
func (e *expiry) plan() SnapshotsPlan {
	var gone []Snapshot
	for _, s := range e.in.Snapshots {
		if _, stays := e.why[s.ID]; !stays {
			gone = append(gone, s)
		}
	}
	if limit := e.in.Options.Limit; limit > 0 && len(gone) > limit {
		slices.SortStableFunc(gone, func(a, b Snapshot) int { return cmp.Compare(a.TimestampMS, b.TimestampMS) })
		for _, s := range gone[limit:] {
			e.keep(s.ID, "left for the next run")
		}
		e.result.More = true
	}
	for _, s := range e.in.Snapshots {
		if why, stays := e.why[s.ID]; stays {
			e.result.Kept = append(e.result.Kept, KeptSnapshot{s.ID, why})
		} else {
			e.result.ExpiredIDs = append(e.result.ExpiredIDs, s.ID)
		}
	}
	return e.result
}
