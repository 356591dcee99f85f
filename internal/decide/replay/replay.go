// Package replay plays a policy over the history of a table's own commits: which runs it would have started, what they would have rewritten, what that
// would have cost, and how many files a query would have opened all along, beside what really was. It is a model: the triggers (decide.Due) and the
// planner of rewrite_data_files (decide.DataFiles) are the real ones, a rewrite takes no time and keeps its bytes, and the other jobs are counted by
// simple rules that the functions name. It knows no table and no clock.
package replay

import (
	"fmt"
	"slices"
	"time"

	"firn/internal/decide"
	"firn/internal/maintenance"
	"firn/internal/policy"
)

// File is one data file.
type File struct {
	Path, Partition string
	SpecID          int
	SizeBytes, Rows int64
	// Lineage says that it has a first_row_id.
	Lineage bool
	// Unsupported says why it cannot be rewritten, "" when it can.
	Unsupported string
}

// Kind is a kind of delete file.
type Kind int

// The kinds.
const (
	Position Kind = iota
	Equality
	Vector
)

// Delete is one delete file, or one vector.
type Delete struct {
	// Key tells it apart: its path, for vectors with the offset.
	Key, Partition string
	SpecID         int
	Kind           Kind
	Rows           int64
	// Target is the one data file that it applies to, "" when it applies to its partition.
	Target string
}

// Change is what one snapshot of the branch did.
type Change struct {
	AtMS int64
	// Rewrite says that it is a rewrite, by whomever: the policy that is tried replaces it. Run groups the rewrites of one run, "" when it is not known.
	Rewrite bool
	Run     string
	// Added and Removed are data files, AddedDeletes and RemovedDeletes delete files.
	Added, Removed               []File
	AddedDeletes, RemovedDeletes []Delete
	// Manifests and SmallManifests count the snapshot's list.
	Manifests, SmallManifests int64
}

// History is what is known of a table: its live files at the start, and every change since then, oldest first.
type History struct {
	// StartMS and EndMS bound it, in milliseconds since the epoch.
	StartMS, EndMS int64
	Start          Change
	Changes        []Change
	// Facts are what the planner reads of the table.
	Facts decide.TableFacts
}

// Options are how it is played.
type Options struct {
	// Tick is how often the table is looked at without a commit: schedule's interval. 0 is an hour.
	Tick time.Duration
	// Points is how many instants of OverTime there are beside the start. 0 is 30.
	Points int
}

// Totals is what maintenance did.
type Totals struct {
	Runs int `json:"runs"`
	// Jobs counts runs by job.
	Jobs           map[maintenance.Job]int `json:"jobs"`
	RewrittenFiles int64                   `json:"rewritten_data_files"`
	RewrittenBytes int64                   `json:"rewritten_bytes"`
	AddedFiles     int64                   `json:"added_data_files"`
	// Dollars is the cost by the cost model (docs/cost.md).
	Dollars float64 `json:"modelled_dollars"`
}

// Sizes is how large a table is to a query.
type Sizes struct {
	DataFiles   int64 `json:"data_files"`
	DeleteFiles int64 `json:"delete_files"`
	// Rows are those of the data files, before deletes.
	Rows int64 `json:"rows"`
	// PerQuery is how many files a query of one partition opens, on the mean of the partitions.
	PerQuery float64 `json:"files_per_query"`
	// Worst is the largest number of files of one partition.
	Worst int64 `json:"worst_partition_files"`
}

// Point is one instant.
type Point struct {
	AtMS     int64 `json:"at_ms"`
	AsItWas  Sizes `json:"as_it_was"`
	Proposed Sizes `json:"proposed"`
}

// Run is one run that the policy would have started.
type Run struct {
	AtMS int64 `json:"at_ms"`
	// Reasons has a line for each job that was due.
	Reasons        []string          `json:"reasons"`
	Jobs           []maintenance.Job `json:"jobs"`
	RewrittenFiles int64             `json:"rewritten_data_files"`
	RewrittenBytes int64             `json:"rewritten_bytes"`
	AddedFiles     int64             `json:"added_data_files"`
}

// Report is the result.
type Report struct {
	FromMS  int64 `json:"from_ms"`
	UntilMS int64 `json:"until_ms"`
	// Commits counts the writers' commits, Rewrites the snapshots of rewrites that were left out of the proposed history.
	Commits  int     `json:"commits"`
	Rewrites int     `json:"rewrites"`
	AsItWas  Totals  `json:"as_it_was"`
	Proposed Totals  `json:"proposed"`
	OverTime []Point `json:"over_time"`
	// MeanPerQuery are the means of OverTime's PerQuery.
	MeanAsItWas  float64 `json:"mean_files_per_query_as_it_was"`
	MeanProposed float64 `json:"mean_files_per_query_proposed"`
	Runs         []Run   `json:"runs"`
}

// Play plays the policy over the history as if its mode were maintain. The table is looked at after each commit of a writer and once a tick.
func Play(h History, p policy.Policy, opts Options) (Report, error) {
	if opts.Tick <= 0 {
		opts.Tick = time.Hour
	}
	if opts.Points <= 0 {
		opts.Points = 30
	}
	if _, err := planner(h, p, decide.JobDue{}); err != nil {
		return Report{}, err
	}
	was, proposed := newTable(h, p), newTable(h, p)
	r := Report{FromMS: h.StartMS, UntilMS: h.EndMS, Runs: []Run{}}
	r.AsItWas.Jobs, r.Proposed.Jobs = map[maintenance.Job]int{}, map[maintenance.Job]int{}
	seen := map[string]bool{}
	play := &player{history: h, opts: opts, report: &r, was: was, proposed: proposed}
	play.look(h.StartMS)
	for i, c := range h.Changes {
		play.until(c.AtMS)
		was.apply(c, false)
		if c.Rewrite {
			r.Rewrites++
			r.AsItWas.count(c, i, seen)
			proposed.alias(c)
			continue
		}
		r.Commits++
		proposed.apply(c, true)
		play.look(c.AtMS)
	}
	play.until(h.EndMS)
	play.point(h.EndMS)
	for _, run := range r.Runs {
		r.Proposed.add(run)
	}
	for _, t := range []*Totals{&r.AsItWas, &r.Proposed} {
		t.Dollars = float64(int64(t.Runs-1)*decide.RunMicros(0)+decide.RunMicros(t.RewrittenBytes)) / 1e6
	}
	for _, at := range r.OverTime {
		r.MeanAsItWas += at.AsItWas.PerQuery / float64(len(r.OverTime))
		r.MeanProposed += at.Proposed.PerQuery / float64(len(r.OverTime))
	}
	return r, nil
}

// planner are the options of a run that is due.
func planner(h History, p policy.Policy, due decide.JobDue) (decide.DataFilesOptions, error) {
	o, err := decide.ParseDataFilesOptions(decide.BinPack, p.DueRequest(maintenance.RewriteDataFiles, due.MinInputFiles, due.Aged).Options, h.Facts)
	if err != nil {
		return o, fmt.Errorf("replay policy: %w", err)
	}
	o.ForAutomatic(due.Aged)
	return o, nil
}

// count adds a rewrite that really was. The rewrites of one run are one; one that names no run is one by itself.
func (t *Totals) count(c Change, number int, seen map[string]bool) {
	run := c.Run
	if run == "" {
		run = fmt.Sprint("snapshot ", number)
	}
	job := maintenance.RewriteDataFiles
	switch {
	case len(c.Removed) > 0:
	case len(c.RemovedDeletes) > 0:
		job = maintenance.RewritePositionDeleteFiles
	default:
		job = maintenance.RewriteManifests
	}
	if !seen[run] {
		seen[run] = true
		t.Runs++
	}
	if key := run + " " + string(job); !seen[key] {
		seen[key] = true
		t.Jobs[job]++
	}
	t.RewrittenFiles += int64(len(c.Removed))
	t.AddedFiles += int64(len(c.Added))
	for _, f := range c.Removed {
		t.RewrittenBytes += f.SizeBytes
	}
}

func (t *Totals) add(r Run) {
	t.Runs++
	for _, job := range r.Jobs {
		t.Jobs[job]++
	}
	t.RewrittenFiles += r.RewrittenFiles
	t.RewrittenBytes += r.RewrittenBytes
	t.AddedFiles += r.AddedFiles
}

// player walks through time.
type player struct {
	history  History
	opts     Options
	report   *Report
	was      *table
	proposed *table
	ticked   int64
}

// until looks at every tick, and notes every point, before an instant.
func (p *player) until(ms int64) {
	if p.ticked == 0 {
		p.ticked = p.history.StartMS
	}
	for {
		point, tick := p.nextPoint(), p.ticked+p.opts.Tick.Milliseconds()
		if min(point, tick) >= ms {
			return
		}
		if point < tick {
			p.point(point)
			continue
		}
		p.ticked = tick
		p.look(tick)
	}
}

// nextPoint is the instant of the next point, the last one excepted, which is the end.
func (p *player) nextPoint() int64 {
	n := int64(len(p.report.OverTime))
	if n >= int64(p.opts.Points) {
		return p.history.EndMS
	}
	return p.history.StartMS + n*(p.history.EndMS-p.history.StartMS)/int64(p.opts.Points)
}

func (p *player) point(ms int64) {
	p.report.OverTime = append(p.report.OverTime, Point{AtMS: ms, AsItWas: p.was.sizes(), Proposed: p.proposed.sizes()})
}

// look asks the triggers, and runs what is due.
func (p *player) look(ms int64) {
	due := slices.DeleteFunc(p.proposed.due(ms), func(d decide.JobDue) bool { return !d.Due })
	if len(due) > 0 {
		p.report.Runs = append(p.report.Runs, p.proposed.run(ms, due))
	}
}
