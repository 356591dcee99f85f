package decide

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"firn/internal/maintenance"
)

// PositionDelete is all a planner sees of one live position delete file or deletion vector.
type PositionDelete struct {
	// FileStats describe the file. Of a deletion vector, Path has "#" and the offset of its blob appended, since one Puffin file holds many, and
	// SizeBytes is the blob's length.
	maintenance.FileStats
	// PackingKey is the partition under which Spark packs: over the fields of all specs, with nulls left out.
	PackingKey string
	// Vector says that it is a deletion vector.
	Vector bool
	// Target is the one data file that it names, "" when it may name several. Dangling says that it applies to no live data file: Target is not
	// live, or every data file of its partition is newer.
	Target   string
	Dangling bool
}

// PositionDeletesOptions are the options of rewrite_position_delete_files with defaults filled in (Iceberg: SizeBasedFileRewritePlanner,
// BinPackRewritePositionDeletePlanner). What only data files have is at values that never count.
type PositionDeletesOptions struct {
	DataFilesOptions
	// Vectors says that outputs are deletion vectors: the table has format version 3.
	Vectors bool
	// FileScoped says that outputs name one data file each (write.delete.granularity=file).
	FileScoped bool
	// TakeDangling selects files that dangle even where the sizes ask for nothing: set for runs of what is due, which may be due by them.
	TakeDangling bool
}

// The granularities of position delete files (table property write.delete.granularity).
const (
	propertyGranularity  = "write.delete.granularity"
	granularityPartition = "partition"
	granularityFile      = "file"
)

const (
	propertyDeleteTarget             = "write.delete.target-file-size-bytes"
	defaultDeleteTargetFileSizeBytes = 64 << 20
)

// ParsePositionDeletesOptions reads the options map of rewrite_position_delete_files; formatVersion is the table's. Defaults come from the table's
// properties. All faults are reported at once; an option that Spark's action does not know is one of them. Every fault is an ErrOption.
func ParsePositionDeletesOptions(options map[string]string, table TableFacts, formatVersion int) (PositionDeletesOptions, error) {
	r := &optionReader{options: options}
	base := DataFilesOptions{
		Strategy: BinPack, CurrentSpecID: table.CurrentSpecID, OutputSpecID: table.CurrentSpecID,
		DeleteFileThreshold: math.MaxInt32, DeleteRatioThreshold: 1, UseStartingSequenceNumber: true, CompressionFactor: 1, ShufflePartitionsPerFile: 1,
	}
	r.sizesOf(&base, table, propertyDeleteTarget, defaultDeleteTargetFileSizeBytes)
	base.MinInputFiles = r.count("min-input-files", 5, 1)
	base.RewriteAll = r.flag("rewrite-all", false)
	base.MaxFileGroupSizeBytes = r.whole("max-file-group-size-bytes", defaultMaxFileGroupSizeBytes, 1, math.MaxInt64)
	base.MaxFileGroupInputFiles = r.whole("max-file-group-input-files", math.MaxInt64, 1, math.MaxInt64)
	base.MaxConcurrentFileGroupRewrites = r.count("max-concurrent-file-group-rewrites", 5, 1)
	base.PartialProgress = r.flag("partial-progress.enabled", false)
	base.MaxCommits = r.count("partial-progress.max-commits", 10, lowestCommits(base.PartialProgress))
	base.MaxFailedCommits = math.MaxInt32 // Spark has no limit here.
	base.JobOrder = r.jobOrder()
	r.unknown(string(maintenance.RewritePositionDeleteFiles))
	o := PositionDeletesOptions{DataFilesOptions: base, Vectors: formatVersion >= 3}
	switch text := strings.ToLower(table.Properties[propertyGranularity]); text {
	case "", granularityPartition:
	case granularityFile:
		o.FileScoped = true
	default:
		r.fault("read property %s: %q is neither %s nor %s", propertyGranularity, text, granularityPartition, granularityFile)
	}
	return o, r.err()
}

// PositionDeletes selects and groups position deletes as Spark's planner does: per partition, by size only. Files arrive in scan order. On format
// version 3 nothing is selected when all are deletion vectors already; else the vectors take part, and all files of one spec and partition become one
// group, so that no data file gets two vectors.
func PositionDeletes(files iter.Seq2[PositionDelete, error], opts PositionDeletesOptions) (maintenance.RewritePlan, error) {
	p := &deletesPlanner{opts: opts, keys: map[string]int{}, facts: map[string]PositionDelete{}}
	p.refused.partitions = map[string]string{}
	for f, err := range files {
		if err != nil {
			return maintenance.RewritePlan{}, fmt.Errorf("plan rewrite_position_delete_files after %d files: %w", p.seen, err)
		}
		p.add(f)
	}
	return p.plan(), nil
}

type deletesPlanner struct {
	opts PositionDeletesOptions
	keys map[string]int
	bins []*deletesBin
	// facts are the files by path, for what FileStats do not say.
	facts map[string]PositionDelete
	seen  int
	// parquet says that a file is no vector.
	parquet bool
	// refused collects the refusals.
	refused dataFilesPlanner
}

// deletesBin is the packing of one partition.
type deletesBin struct{ packing }

func (p *deletesPlanner) add(f PositionDelete) {
	p.seen++
	p.parquet = p.parquet || !f.Vector
	wanted := p.opts.RewriteAll || p.opts.candidate(f.FileStats) || p.dangles(f)
	if !wanted {
		return
	}
	if f.Unsupported != "" {
		p.refused.refuse(f.Path, f.Unsupported)
		return
	}
	i, ok := p.keys[f.PackingKey]
	if !ok {
		i = len(p.bins)
		p.keys[f.PackingKey] = i
		p.bins = append(p.bins, &deletesBin{})
	}
	p.facts[f.Path] = f
	p.bins[i].put(f.FileStats, p)
}

func (p *deletesPlanner) dangles(f PositionDelete) bool { return p.opts.TakeDangling && f.Dangling }

func (b *deletesBin) put(f maintenance.FileStats, p *deletesPlanner) {
	full := b.openBytes+f.SizeBytes > p.opts.MaxFileGroupSizeBytes || int64(len(b.open)) >= p.opts.MaxFileGroupInputFiles
	if len(b.open) > 0 && full {
		b.end(p)
	}
	b.open = append(b.open, f)
	b.openBytes += f.SizeBytes
}

// end closes the open bin: all of it when it passes, else what dangles of it.
func (b *deletesBin) end(p *deletesPlanner) {
	files := b.open
	passes := p.opts.RewriteAll || len(files) > 0 && p.opts.groupPasses(files, b.openBytes)
	passes = passes && (p.parquet || !p.opts.Vectors)
	if !passes || p.opts.RequireGain && p.gainsNothing(files) {
		files = slices.DeleteFunc(files, func(f maintenance.FileStats) bool { return !p.dangles(p.facts[f.Path]) })
	}
	if len(files) > 0 {
		b.passed = append(b.passed, files)
	}
	b.open, b.openBytes = nil, 0
}

// gainsNothing says that as many files would come out as went in, those that dangle aside: such a group would be chosen again for ever.
func (p *deletesPlanner) gainsNothing(files []maintenance.FileStats) bool {
	targets, vectors, apart := map[string]bool{}, 0, true
	var size int64
	for _, f := range files {
		fact := p.facts[f.Path]
		size += f.SizeBytes
		if fact.Vector {
			vectors++
		}
		if fact.Dangling {
			continue
		}
		if fact.Target == "" || targets[fact.Target] {
			apart = false // it names several data files, or one that another file names too
		}
		targets[fact.Target] = true
	}
	switch {
	case p.opts.Vectors:
		return vectors == len(files)
	case p.opts.FileScoped:
		return apart
	}
	return p.opts.ExpectedOutputFiles(size) >= len(files)
}

func (p *deletesPlanner) plan() maintenance.RewritePlan {
	var bins [][]maintenance.FileStats
	for _, b := range p.bins {
		b.end(p)
		bins = append(bins, b.passed...)
	}
	var groups []maintenance.FileGroup
	for _, bin := range p.refused.withoutDoubles(bins) {
		groups = append(groups, p.opts.cutGroup(bin)...)
	}
	if p.opts.Vectors {
		groups = united(groups)
	}
	p.opts.JobOrder.sort(groups)
	out := p.refused.result
	out.Groups = groups
	for i := range groups {
		g := &groups[i]
		g.Index = i
		g.ExpectedOutputFiles, g.MaxOutputFileSizeBytes = p.expected(*g), p.opts.WriterMaxFileSizeBytes()
		out.TotalFiles += len(g.Files)
		out.TotalBytes += g.SizeBytes
	}
	out.SkippedFiles = p.seen - out.TotalFiles
	return out
}

// expected predicts the number of outputs: by size, or one for each data file that is known to be named.
func (p *deletesPlanner) expected(g maintenance.FileGroup) int {
	if !p.opts.Vectors && !p.opts.FileScoped {
		return p.opts.ExpectedOutputFiles(g.SizeBytes)
	}
	targets := map[string]bool{}
	for _, f := range g.Files {
		if fact := p.facts[f.Path]; !fact.Dangling {
			targets[fact.Target] = true
		}
	}
	return len(targets)
}

// united joins the groups of one spec and partition.
func united(groups []maintenance.FileGroup) []maintenance.FileGroup {
	var out []maintenance.FileGroup
	at := map[groupKey]int{}
	for _, g := range groups {
		key := groupKey{spec: g.SpecID, partition: g.Partition}
		i, ok := at[key]
		if !ok {
			at[key] = len(out)
			out = append(out, g)
			continue
		}
		out[i].Files = append(slices.Clip(out[i].Files), g.Files...)
		out[i].SizeBytes += g.SizeBytes
	}
	return out
}

// EqualityDeletesOptions are the options of rewrite_equality_delete_files, a procedure of Firn's own, with defaults filled in.
type EqualityDeletesOptions struct {
	// DataFilesOptions hold the sizes: TargetFileSizeBytes is that of new position delete files, MaxFileGroupSizeBytes cuts groups by the bytes of
	// their data files. What else is in them does not count.
	DataFilesOptions
}

// defaultEqualityGroupBytes is the size of a group's data files, of which only the key columns are read.
const defaultEqualityGroupBytes = 10 << 30

// ParseEqualityDeletesOptions reads the options map of rewrite_equality_delete_files. Every fault is an ErrOption, all at once.
func ParseEqualityDeletesOptions(options map[string]string, table TableFacts) (EqualityDeletesOptions, error) {
	r := &optionReader{options: options}
	var o EqualityDeletesOptions
	o.Strategy = BinPack
	r.sizesOf(&o.DataFilesOptions, table, propertyDeleteTarget, defaultDeleteTargetFileSizeBytes)
	o.MaxFileGroupSizeBytes = r.whole("max-file-group-size-bytes", defaultEqualityGroupBytes, 1, math.MaxInt64)
	o.MaxConcurrentFileGroupRewrites = r.count("max-concurrent-file-group-rewrites", 5, 1)
	r.unknown(string(maintenance.RewriteEqualityDeleteFiles))
	return o, r.err()
}
