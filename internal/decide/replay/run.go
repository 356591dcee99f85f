package replay

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"firn/internal/decide"
	"firn/internal/maintenance"
)

// facts are the partition's counters, as the ledger has them.
func (t *table) facts(p *partition) decide.PartitionFacts {
	f := decide.PartitionFacts{
		Name: p.name, DataFiles: int64(len(p.files)), PositionDeleteFiles: int64(len(p.positions)), EqualityDeleteFiles: int64(len(p.equalities)),
		LastWriteMS: p.lastWriteMS,
	}
	for _, d := range p.positions {
		f.DeletedRows += d.rows
	}
	for _, one := range p.files {
		f.Rows += one.Rows
		f.DataBytes += one.SizeBytes
		f.DeletedRows += one.deletedRows()
		f.PositionDeleteFiles += int64(len(one.scoped))
		if float64(one.SizeBytes) < smallShare*float64(t.target) {
			f.SmallFiles++
			f.SmallBytes += one.SizeBytes
		}
	}
	return f
}

// due asks the triggers as evaluate does.
func (t *table) due(ms int64) []decide.JobDue {
	in := decide.DueInput{
		NowMS: ms, Commits: t.commits, Snapshots: int64(len(t.snapshots)), SmallManifests: t.smallManifests, Manifests: t.manifests,
		MetadataFiles: t.metadataFiles, FirstSeenMS: t.firstSeenMS, LastCommitMS: t.lastCommitMS, OldestSnapshotMS: t.snapshots[0], Jobs: t.jobs,
	}
	for _, p := range t.order {
		if f := t.facts(p); f.DataFiles+f.PositionDeleteFiles+f.EqualityDeleteFiles > 0 {
			in.Partitions = append(in.Partitions, f)
			in.Total.Add(f)
		}
	}
	if month(ms) == t.month {
		in.SpentMicros = t.spent
	}
	for _, at := range t.runs {
		in.LastRunMS = max(in.LastRunMS, at)
		if ms-at < (24 * time.Hour).Milliseconds() {
			in.RunsToday++
		}
	}
	for job, facts := range t.jobs {
		t.jobs[job] = in.Seen(job, facts)
	}
	return decide.Due(in, t.policy)
}

func month(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01") }

// run does the due jobs in the order of the chain, and notes them as report does.
func (t *table) run(ms int64, due []decide.JobDue) Run {
	r := Run{AtMS: ms}
	for _, d := range due {
		outcome := maintenance.Committed
		switch d.Job {
		case maintenance.RewriteDataFiles:
			if !t.rewrite(&r, d) {
				outcome = maintenance.NothingToDo
			}
		case maintenance.RewritePositionDeleteFiles:
			t.mergePositions()
		case maintenance.RewriteManifests:
			t.manifests, t.smallManifests = max(1, t.manifests-t.smallManifests+1), 1
		case maintenance.ExpireSnapshots:
			t.expire(ms)
		}
		r.Jobs = append(r.Jobs, d.Job)
		r.Reasons = append(r.Reasons, fmt.Sprintf("%s: %s", d.Job, d.Reason))
		facts := decide.JobFacts{LastRunMS: ms, LastOutcome: outcome, LastAgedMS: t.jobs[d.Job].LastAgedMS}
		if d.Aged {
			facts.LastAgedMS = ms
		}
		t.jobs[d.Job] = facts
		if d.Job.Rewrites() && outcome == maintenance.Committed {
			t.snapshots, t.metadataFiles = append(t.snapshots, ms), t.metadataFiles+1
		}
	}
	if month(ms) != t.month {
		t.month, t.spent = month(ms), 0
	}
	t.spent += decide.RunMicros(r.RewrittenBytes)
	t.runs = append(slices.DeleteFunc(t.runs, func(at int64) bool { return ms-at >= (24 * time.Hour).Milliseconds() }), ms)
	t.commits = 0
	return r
}

// rewrite lets the planner select, and replaces each group by as many files as it expects; false when it selects nothing.
func (t *table) rewrite(r *Run, due decide.JobDue) bool {
	options, err := planner(t.history, t.policy, due)
	if err != nil {
		return false // Play has asked before
	}
	var refs []*file
	plan, err := decide.DataFiles(t.scan(&refs), options)
	if err != nil || len(plan.Groups) == 0 {
		return false // the scan cannot fail
	}
	t.sequence++
	for _, g := range plan.Groups {
		p := t.partition(g.SpecID, g.Partition)
		inputs := make([]*file, 0, len(g.Files))
		bytes, rows := int64(0), int64(0)
		for _, s := range g.Files {
			f := refs[s.Ref]
			inputs = append(inputs, f)
			kept := max(0, f.Rows-min(f.Rows, f.deletedRows()))
			rows += kept
			if f.Rows > 0 {
				bytes += int64(float64(f.SizeBytes) * float64(kept) / float64(f.Rows))
			}
		}
		n := int64(max(1, g.ExpectedOutputFiles))
		made := make([]*file, n)
		for i := range made {
			share := func(sum int64) int64 { return sum*int64(i+1)/n - sum*int64(i)/n }
			made[i] = &file{File: File{
				Path: fmt.Sprintf("virtual/%d-%d-%d", t.sequence, g.Index, i), Partition: g.Partition, SpecID: g.SpecID, SizeBytes: share(bytes), Rows: share(rows),
				Lineage: g.HasRowLineage,
			}, sequence: t.sequence, made: true}
		}
		for _, f := range inputs {
			f.into, f.Path = made, ""
		}
		p.files = append(p.files, made...)
		r.RewrittenFiles, r.RewrittenBytes, r.AddedFiles = r.RewrittenFiles+int64(len(inputs)), r.RewrittenBytes+g.SizeBytes, r.AddedFiles+n
	}
	t.manifests++
	t.smallManifests++
	t.tidy()
	return true
}

// scan lists all files for the planner.
func (t *table) scan(refs *[]*file) iter.Seq2[maintenance.FileStats, error] {
	return func(yield func(maintenance.FileStats, error) bool) {
		for _, p := range t.order {
			for _, f := range p.files {
				*refs = append(*refs, f)
				if !yield(p.stats(f, len(*refs)-1), nil) {
					return
				}
			}
		}
	}
}

// mergePositions makes of each partition's position delete files one.
func (t *table) mergePositions() {
	for _, p := range t.order {
		rows := int64(0)
		for _, d := range p.positions {
			rows += d.rows
		}
		merged := len(p.positions)
		for _, f := range p.files {
			for key, n := range f.scoped {
				rows += n
				merged++
				delete(t.home, key)
			}
			f.scoped = nil
		}
		if merged > 0 {
			p.positions = []deletion{{sequence: t.sequence, rows: rows}}
		}
	}
}

// expire drops snapshots that are older than the policy keeps, and not the last ones.
func (t *table) expire(ms int64) {
	cutoff := ms - max(t.policy.ExpiryAge(), t.policy.Expiry().MinAge).Milliseconds()
	last := len(t.snapshots) - max(t.policy.RetainLast(), 1)
	n := 0
	for n < last && t.snapshots[n] < cutoff {
		n++
	}
	t.snapshots = t.snapshots[n:]
}
