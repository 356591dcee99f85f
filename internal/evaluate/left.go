package evaluate

import (
	"maps"

	"firn/internal/contract"
	"firn/internal/maintenance"
	"firn/internal/state"
)

// leftovers are what a run has left of the counters that hysteresis goes by: what was there before, and what the run's own commits changed of it. What
// writers committed beside the run is none of its leftovers, or a table with busy writers would be taken for one that cannot be maintained.
type leftovers struct {
	smallFiles, positionDeleteFiles, equalityDeleteFiles int64
}

// ours are the changes that a run of ours made.
func ours(changes []change) []change {
	var made []change
	for _, c := range changes {
		if c.snapshot.Summary[contract.SummaryRunID] != "" {
			made = append(made, c)
		}
	}
	return made
}

// add adds partitions as they were, changed by what a run did to them. A run may have seen files that the counters had not: no count falls below 0.
func (l *leftovers) add(partitions state.Counters, made []change) {
	for _, p := range add(partitions, made...) {
		l.smallFiles = max(l.smallFiles, p.SmallFiles)
		l.positionDeleteFiles += max(0, p.PositionDeleteFiles)
		l.equalityDeleteFiles += max(0, p.EqualityDeleteFiles)
	}
}

// digest adds a shard that nothing has touched.
func (l *leftovers) digest(d state.Digest) {
	l.smallFiles = max(l.smallFiles, d.Worst.SmallFiles)
	l.positionDeleteFiles += d.Sum.PositionDeleteFiles
	l.equalityDeleteFiles += d.Sum.EqualityDeleteFiles
}

// note writes the leftovers down for the jobs whose run has ended since the last look.
func (l *leftovers) note(head state.Head, changes []change) map[maintenance.Job]state.JobState {
	manifests, before := head.SmallManifests, head.SmallManifests
	for _, c := range changes {
		if len(ours([]change{c})) > 0 {
			manifests = max(0, manifests+c.smallManifests-before)
		}
		before = c.smallManifests
	}
	jobs := maps.Clone(head.Jobs)
	for job, left := range map[maintenance.Job]int64{
		maintenance.RewriteDataFiles: l.smallFiles, maintenance.RewritePositionDeleteFiles: l.positionDeleteFiles, maintenance.RewriteManifests: manifests,
	} {
		if s, known := jobs[job]; known && s.Left == nil {
			s.Left, s.LeftEquality = &left, &l.equalityDeleteFiles
			jobs[job] = s
		}
	}
	return jobs
}
