package plan

import (
	"fmt"
	"time"

	"github.com/apache/iceberg-go/table"

	"firn/internal/contract"
	"firn/internal/decide"
	"firn/internal/decide/where"
	"firn/internal/lake"
	"firn/internal/maintenance"
)

// filter turns the where argument into a file filter; nil without one. A file that may hold matching rows is rewritten whole (Spark ignores
// residuals too).
func (p *planner) filter() (lake.Filter, error) {
	text := p.request.Args["where"]
	if text == "" {
		return nil, nil
	}
	schema, err := p.table.WhereSchema()
	if err != nil {
		return nil, err
	}
	condition, err := where.Parse(text, schema, p.now)
	if err != nil {
		return nil, refusef("read where: %v", err)
	}
	return func(e lake.Entry) (bool, error) { return condition.MayMatch(lake.WhereFile(e)), nil }, nil
}

// quiet leaves out files that a snapshot of the quiet period added. A file whose snapshot has expired is old enough.
func (p *planner) quiet(filter lake.Filter, period time.Duration, left *int) lake.Filter {
	if period == 0 {
		return filter
	}
	young := map[int64]bool{}
	for _, s := range p.table.Metadata.Snapshots() {
		if s.TimestampMs > p.now.Add(-period).UnixMilli() {
			young[s.SnapshotID] = true
		}
	}
	return func(e lake.Entry) (bool, error) {
		if young[e.SnapshotID] {
			*left++
			return false, nil
		}
		if filter == nil {
			return true, nil
		}
		return filter(e)
	}
}

// commits are the commits of other writers on the request's branch, as far as the log goes back.
func (p *planner) commits(head *table.Snapshot) []decide.Commit {
	var out []decide.Commit
	for s := head; s != nil; s = p.parent(s) {
		if s.Summary == nil || s.Summary.Properties[contract.SummaryRunID] != "" {
			continue
		}
		counted := func(key string) bool { n := s.Summary.Properties[key]; return n != "" && n != "0" }
		out = append(out, decide.Commit{
			SnapshotID: s.SnapshotID, AtMS: s.TimestampMs, Deletes: counted("added-delete-files"), Replaces: counted("deleted-data-files"),
		})
	}
	return out
}

func (p *planner) parent(s *table.Snapshot) *table.Snapshot {
	if s.ParentSnapshotID == nil {
		return nil
	}
	return p.table.Metadata.SnapshotByID(*s.ParentSnapshotID)
}

// touched are the partitions with a live file that one of some snapshots added, by spec and key.
type touched struct {
	snapshots  map[int64]bool
	partitions map[string]bool
}

// watch notes the partitions of the files that pass by.
func (t *touched) watch(filter lake.Filter, key func(e lake.Entry) (string, error)) lake.Filter {
	if len(t.snapshots) == 0 {
		return filter
	}
	return func(e lake.Entry) (bool, error) {
		if t.snapshots[e.SnapshotID] {
			k, err := key(e)
			if err != nil {
				return false, err
			}
			t.partitions[partitionOf(e.SpecID, k)] = true
		}
		if filter == nil {
			return true, nil
		}
		return filter(e)
	}
}

func partitionOf(specID int, key string) string { return fmt.Sprintf("%d %s", specID, key) }

// leaveOut drops the groups of touched partitions, and counts their files.
func (t *touched) leaveOut(plan maintenance.RewritePlan) (maintenance.RewritePlan, int) {
	out, left := plan, 0
	out.Groups, out.TotalFiles, out.TotalBytes = nil, 0, 0
	for _, g := range plan.Groups {
		if t.partitions[partitionOf(g.SpecID, g.Partition)] {
			left += len(g.Files)
			continue
		}
		out.Groups, out.TotalFiles, out.TotalBytes = append(out.Groups, g), out.TotalFiles+len(g.Files), out.TotalBytes+g.SizeBytes
	}
	out.SkippedFiles += left
	return out, left
}

// sound drops groups with a file that must not be rewritten, since its path is live twice or its deletes contradict each other, and tells which.
func sound(plan maintenance.RewritePlan, scan *lake.Scan) maintenance.RewritePlan {
	out := plan
	out.Groups, out.TotalFiles, out.TotalBytes = nil, 0, 0
	for _, g := range plan.Groups {
		faulty := false
		for _, f := range g.Files {
			if fault := scan.Fault(f); fault != nil {
				faulty = true
				out.RefusedFiles++
				out.Refusals = append(out.Refusals, maintenance.FileRefusal{Path: f.Path, Reason: fault.Error()})
			}
		}
		if faulty {
			out.SkippedFiles += len(g.Files)
		} else {
			out.Groups, out.TotalFiles, out.TotalBytes = append(out.Groups, g), out.TotalFiles+len(g.Files), out.TotalBytes+g.SizeBytes
		}
	}
	return out
}

// snapshotOf returns the head of the request's branch.
func (p *planner) snapshotOf(branch string) (*table.Snapshot, error) {
	snap, err := p.table.Head(branch)
	if err != nil {
		return nil, refusef("%v", err)
	}
	return snap, nil
}
