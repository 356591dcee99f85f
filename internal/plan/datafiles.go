package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/apache/iceberg-go/table"

	"firn/internal/contract"
	"firn/internal/decide"
	"firn/internal/decide/ordering"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// rewriteDataFiles pins the branch's head, selects and groups data files, and writes one object a group.
func (p *planner) rewriteDataFiles(ctx context.Context, index *handoff.Index) error {
	strategy, err := decide.ParseStrategy(p.request.Args["strategy"], p.request.Args["sort_order"], !p.table.Metadata.SortOrder().IsUnsorted())
	if err != nil {
		return err
	}
	opts, err := decide.ParseDataFilesOptions(strategy, p.request.Options, p.facts())
	if err != nil {
		return err
	}
	rows, err := p.table.Ordering(opts, p.request.Args["sort_order"])
	if err != nil {
		return err
	}
	if p.automatic {
		opts.ForAutomatic(p.request.Aged)
	}
	snap, err := p.snapshotOf(p.request.Args["branch"])
	if err != nil {
		return err
	}
	if snap == nil {
		index.Outcome, index.Reason = maintenance.NothingToDo, "the table has no snapshot"
		return nil
	}
	commits := p.commits(snap)
	plan, scan, left, err := p.selectFiles(ctx, snap, opts, commits)
	if err != nil {
		return err
	}
	if rows != nil && strategy != decide.BinPack {
		if plan.Groups, err = p.cutGroups(ctx, scan, plan.Groups, opts, rows); err != nil {
			return err
		}
	}
	summary := summaryOf(plan)
	summary.QuietFiles, summary.BusyFiles = left.quiet, left.busy
	summary.Writers = p.writers(commits, plan, opts)
	if index.Detail, err = json.Marshal(summary); err != nil {
		return fmt.Errorf("encode plan summary: %w", err)
	}
	if len(plan.Groups) == 0 {
		index.Outcome, index.Reason = emptyPlan(plan)
		if left.quiet > 0 {
			index.Reason += fmt.Sprintf("; %d are younger than quiet-period, %s", left.quiet, opts.QuietPeriod)
		}
		if left.busy > 0 {
			index.Reason += fmt.Sprintf("; %d are in partitions that were written just now", left.busy)
		}
		return nil
	}
	index.PartialProgress, index.MaxFailedCommits = opts.PartialProgress, opts.MaxFailedCommits
	if p.dryRun {
		return nil
	}
	pinned, err := p.pinned(snap)
	if err != nil {
		return err
	}
	found, err := p.locate(ctx, scan, plan.Groups)
	if err != nil {
		return err
	}
	return p.writeGroups(ctx, index, selection{plan.Groups, found, pinned, opts, rows})
}

// selection is what is written of a plan.
type selection struct {
	groups []maintenance.FileGroup
	found  *holding
	pinned handoff.Pinned
	opts   decide.DataFilesOptions
	// ordering is nil when rows keep the order of the inputs.
	ordering *maintenance.Ordering
}

// orderingOf is the ordering of one group. A bin-pack orders the rows of each part that a task of Spark's would read.
func (s selection) orderingOf(g maintenance.FileGroup) *maintenance.Ordering {
	if s.ordering == nil || s.opts.Strategy != decide.BinPack {
		return s.ordering
	}
	o := *s.ordering
	o.PartSizeBytes = s.opts.SplitSizeBytes(g.SizeBytes)
	return &o
}

// cutGroups divides groups that are too large for one worker's sort.
func (p *planner) cutGroups(
	ctx context.Context, scan *lake.Scan, groups []maintenance.FileGroup, opts decide.DataFilesOptions, rows *maintenance.Ordering,
) ([]maintenance.FileGroup, error) {
	tooLarge := func(g maintenance.FileGroup) bool {
		return p.deps.SortGroupBytes > 0 && g.SizeBytes > p.deps.SortGroupBytes
	}
	if !slices.ContainsFunc(groups, tooLarge) {
		return groups, nil
	}
	schema, err := p.table.WhereSchema()
	if err != nil {
		return nil, err
	}
	found, err := p.boundsOf(ctx, scan, groups, tooLarge)
	if err != nil {
		return nil, err
	}
	var out []maintenance.FileGroup
	for _, g := range groups {
		files := make([]ordering.File, len(g.Files))
		for i, f := range g.Files {
			files[i] = ordering.File{SizeBytes: f.SizeBytes, Lower: found[f.Ref].lower, Upper: found[f.Ref].upper}
		}
		for _, part := range ordering.Cut(rows, schema.Columns, files, p.deps.SortGroupBytes) {
			made := g
			made.Index, made.Files, made.SizeBytes = len(out), nil, 0
			for _, i := range part {
				made.Files = append(made.Files, g.Files[i])
				made.SizeBytes += g.Files[i].SizeBytes
			}
			made.ExpectedOutputFiles = opts.ExpectedOutputFiles(made.SizeBytes)
			out = append(out, made)
		}
	}
	return out, nil
}

// leftOut counts files that other writers keep from being rewritten now: too young, or in partitions that were written just now.
type leftOut struct{ quiet, busy int }

// selectFiles scans the snapshot and decides.
func (p *planner) selectFiles(
	ctx context.Context, snap *table.Snapshot, opts decide.DataFilesOptions, commits []decide.Commit,
) (plan maintenance.RewritePlan, scan *lake.Scan, left leftOut, err error) {
	filter, err := p.filter()
	if err != nil {
		return plan, nil, left, err
	}
	if scan, err = lake.NewScan(ctx, p.reader, p.table, snap); err != nil {
		return plan, nil, left, err
	}
	busy := touched{decide.Busy(commits, p.now.UnixMilli(), opts.QuietCommits, p.automatic), map[string]bool{}}
	filter = busy.watch(p.quiet(filter, opts.QuietPeriod, &left.quiet), p.partitionKey)
	if plan, err = decide.DataFiles(scan.Files(ctx, filter), opts); err != nil {
		return plan, nil, left, err
	}
	plan, left.busy = busy.leaveOut(plan)
	return sound(plan, scan), scan, left, nil
}

// partitionKey is the canonical text of a file's partition.
func (p *planner) partitionKey(e lake.Entry) (string, error) {
	spec := p.table.Metadata.PartitionSpecByID(e.SpecID)
	if spec == nil {
		return "", fmt.Errorf("look at %s of unknown spec %d: %w", e.File.FilePath(), e.SpecID, lake.ErrTableFault)
	}
	return lake.PartitionKey(*spec, e.File.Partition())
}

// writers predicts what the plan will meet of other writers; nil when the log has none.
func (p *planner) writers(commits []decide.Commit, plan maintenance.RewritePlan, opts decide.DataFilesOptions) *Writers {
	if len(commits) == 0 {
		return nil
	}
	cadence := decide.CadenceOf(commits, p.now.UnixMilli())
	will := cadence.Predict(plan.TotalBytes, opts.MaxConcurrentFileGroupRewrites)
	percent := func(chance float64) float64 { return math.Round(1000*chance) / 10 }
	return &Writers{
		Commits: cadence.Commits, Deleting: cadence.Deleting, Replacing: cadence.Replacing, SpanMS: cadence.Span.Milliseconds(),
		IntervalMS: cadence.Interval(cadence.Commits).Milliseconds(), RewriteMS: will.Window.Milliseconds(),
		CommitPercent: percent(will.Commit), DeletePercent: percent(will.Delete), ConflictPercent: percent(will.Conflict),
	}
}

// facts describes the table for option parsing.
func (p *planner) facts() decide.TableFacts {
	facts := decide.TableFacts{Properties: p.table.Metadata.Properties(), CurrentSpecID: p.table.Metadata.DefaultPartitionSpec()}
	for _, spec := range p.table.Metadata.PartitionSpecs() {
		facts.SpecIDs = append(facts.SpecIDs, spec.ID())
	}
	return facts
}

// emptyPlan says how a job without groups ends, and why: refused when the rules wanted files that must be left alone.
func emptyPlan(plan maintenance.RewritePlan) (maintenance.Outcome, string) {
	none := fmt.Sprintf("none of %d data files qualifies", plan.SkippedFiles)
	if plan.RefusedFiles == 0 {
		return maintenance.NothingToDo, none
	}
	return maintenance.Refused, fmt.Sprintf("%s; %d refused, the first: %s: %s",
		none, plan.RefusedFiles, plan.Refusals[0].Path, plan.Refusals[0].Reason)
}

// DataFilesSummary is the detail of a rewrite_data_files index: what the report and a dry run show.
type DataFilesSummary struct {
	Groups       int                       `json:"groups"`
	Files        int                       `json:"files"`
	Bytes        int64                     `json:"bytes"`
	Expected     int                       `json:"expected_output_files"`
	SkippedFiles int                       `json:"skipped_files"`
	RefusedFiles int                       `json:"refused_files"`
	Refusals     []maintenance.FileRefusal `json:"refusals,omitempty"`
	// QuietFiles are younger than quiet-period and were not looked at.
	QuietFiles int `json:"quiet_files,omitempty"`
	// BusyFiles were selected, and left out with their partition since it was written just now.
	BusyFiles int `json:"busy_files,omitempty"`
	// Writers are the other writers and what they make likely; what was met in the end stands in the outcome's contention.
	Writers *Writers `json:"other_writers,omitempty"`
	// Plan holds the groups in job order, at most 100.
	Plan []GroupSummary `json:"plan,omitempty"`
}

// Writers are the commits of others in the log of snapshots, over the time from the first of them until the plan, and the chances (decide.Prediction) that
// a rewrite as long as RewriteMS meets some.
type Writers struct {
	Commits         int     `json:"commits"`
	Deleting        int     `json:"deleting_commits"`
	Replacing       int     `json:"replacing_commits"`
	SpanMS          int64   `json:"span_ms"`
	IntervalMS      int64   `json:"interval_ms"`
	RewriteMS       int64   `json:"rewrite_ms"`
	CommitPercent   float64 `json:"commit_percent"`
	DeletePercent   float64 `json:"delete_percent"`
	ConflictPercent float64 `json:"conflict_percent"`
}

// GroupSummary is one group of a dry run.
type GroupSummary struct {
	Partition string `json:"partition"`
	SpecID    int    `json:"spec_id"`
	Files     int    `json:"files"`
	Bytes     int64  `json:"bytes"`
	Expected  int    `json:"expected_output_files"`
}

const maxGroupSummaries = 100

func summaryOf(plan maintenance.RewritePlan) DataFilesSummary {
	s := DataFilesSummary{
		Groups: len(plan.Groups), Files: plan.TotalFiles, Bytes: plan.TotalBytes, SkippedFiles: plan.SkippedFiles,
		RefusedFiles: plan.RefusedFiles, Refusals: plan.Refusals,
	}
	for _, g := range plan.Groups {
		s.Expected += g.ExpectedOutputFiles
		if len(s.Plan) < maxGroupSummaries {
			s.Plan = append(s.Plan, GroupSummary{
				Partition: g.Partition, SpecID: g.SpecID, Files: len(g.Files), Bytes: g.SizeBytes, Expected: g.ExpectedOutputFiles,
			})
		}
	}
	return s
}

// writeGroups writes the groups of a selection.
func (p *planner) writeGroups(ctx context.Context, index *handoff.Index, sel selection) error {
	together := 0
	if sel.pinned.FormatVersion >= 3 {
		together = decide.WithoutRowIDs(sel.groups)
	}
	return p.writeBatches(ctx, index, sel.pinned, sel.opts.Batches(len(sel.groups), together), func(g int) (handoff.Group, error) {
		found, err := sel.found.take(g)
		if err != nil {
			return handoff.Group{}, err
		}
		return p.group(sel.groups[g], found, sel)
	})
}

// group makes the object of one group.
func (p *planner) group(g maintenance.FileGroup, files []located, sel selection) (handoff.Group, error) {
	group := handoff.Group{
		V: contract.PayloadVersion, Run: p.run, Job: p.request.Job, SpecID: g.SpecID, OutputSpecID: sel.opts.OutputSpecID, Partition: g.Partition,
		HasRowLineage: g.HasRowLineage, MaxOutputFileSizeBytes: g.MaxOutputFileSizeBytes, ExpectedOutputFiles: g.ExpectedOutputFiles,
		OutputLocation: dataLocation(sel.pinned), Options: p.request.Options, Ordering: sel.orderingOf(g),
	}
	if sel.opts.UseStartingSequenceNumber {
		group.DataSequence = sel.pinned.SequenceNumber
	}
	deletes := map[string]int{}
	group.Inputs = make([]handoff.GroupInput, 0, len(files))
	for _, found := range files {
		input := handoff.GroupInput{Entry: found.entry}
		for _, d := range found.deletes {
			key := deleteKey(d)
			at, known := deletes[key]
			if !known {
				encoded, err := p.encode(d)
				if err != nil {
					return handoff.Group{}, err
				}
				at = len(group.Deletes)
				deletes[key] = at
				group.Deletes = append(group.Deletes, encoded)
			}
			input.Deletes = append(input.Deletes, at)
		}
		group.Inputs = append(group.Inputs, input)
	}
	return group, nil
}

// deleteKey tells delete entries apart: vectors of one Puffin file differ in their offset.
func deleteKey(e lake.Entry) string {
	key := e.File.FilePath() + "#" + strconv.FormatInt(e.DataSequence, 10)
	if offset := e.File.ContentOffset(); offset != nil {
		key += "#" + strconv.FormatInt(*offset, 10)
	}
	return key
}

// codec encodes the files of a spec.
func (p *planner) codec(id int) (*lake.FileCodec, error) {
	if c := p.codecs[id]; c != nil {
		return c, nil
	}
	spec := p.table.Metadata.PartitionSpecByID(id)
	if spec == nil {
		return nil, fmt.Errorf("unknown partition spec %d: %w", id, lake.ErrTableFault)
	}
	schema, err := p.table.SpecSchema(*spec)
	if err != nil {
		return nil, err
	}
	c, err := lake.NewFileCodec(*spec, schema)
	if err != nil {
		return nil, err
	}
	if p.codecs == nil {
		p.codecs = map[int]*lake.FileCodec{}
	}
	p.codecs[id] = c
	return c, nil
}

// encode makes a work object's entry of a manifest entry.
func (p *planner) encode(e lake.Entry) (handoff.Entry, error) {
	codec, err := p.codec(e.SpecID)
	if err != nil {
		return handoff.Entry{}, fmt.Errorf("encode %s: %w", e.File.FilePath(), err)
	}
	data, err := codec.Encode(e.File)
	if err != nil {
		return handoff.Entry{}, err
	}
	out := numbered(e)
	out.File = data
	return out, nil
}

// numbered is a work object's entry of a manifest entry, without its file's bytes.
func numbered(e lake.Entry) handoff.Entry {
	return handoff.Entry{
		Path: e.File.FilePath(), SpecID: e.SpecID, DataSequence: e.DataSequence, FileSequence: e.FileSequence, SnapshotID: e.SnapshotID,
		FirstRowID: e.FirstRowID,
	}
}

// dataLocation is the folder of data files: write.data.path, its older names, or data under the table's location (Iceberg: LocationProviders).
func dataLocation(pinned handoff.Pinned) string {
	for _, key := range []string{"write.data.path", "write.object-storage.path", "write.folder-storage.path"} {
		if v := pinned.Properties[key]; v != "" {
			return v
		}
	}
	return store.Join(pinned.Location, "data")
}

// pinned describes T0.
func (p *planner) pinned(snap *table.Snapshot) (handoff.Pinned, error) {
	meta := p.table.Metadata
	pinned := handoff.Pinned{
		V: contract.PayloadVersion, Table: p.run.Table, UUID: p.run.TableUUID, Location: meta.Location(), MetadataLocation: p.table.Pointer.MetadataLocation,
		FormatVersion: meta.Version(), Branch: p.branch(), SnapshotID: snap.SnapshotID, SequenceNumber: snap.SequenceNumber,
		SchemaID: meta.CurrentSchema().ID, DefaultSpecID: meta.DefaultPartitionSpec(), SortOrderID: meta.DefaultSortOrder(), Properties: meta.Properties(),
	}
	var faults error
	raw := func(list []json.RawMessage, v any) []json.RawMessage {
		data, err := json.Marshal(v)
		if err != nil && faults == nil {
			faults = fmt.Errorf("encode pinned state: %w", err)
		}
		return append(list, data)
	}
	for _, s := range meta.Schemas() {
		pinned.Schemas = raw(pinned.Schemas, s)
	}
	for _, s := range meta.PartitionSpecs() {
		pinned.Specs = raw(pinned.Specs, s)
	}
	for _, s := range meta.SortOrders() {
		pinned.SortOrders = raw(pinned.SortOrders, s)
	}
	return pinned, faults
}

func (p *planner) branch() string {
	if b := p.request.Args["branch"]; b != "" {
		return b
	}
	return table.MainBranch
}
