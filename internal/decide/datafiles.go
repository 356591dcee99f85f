package decide

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"iter"
	"math"
	"slices"
	"strings"

	"firn/internal/maintenance"
)

// maxRefusals is how many refused files a plan names; the rest is counted.
const maxRefusals = 20

// DataFiles selects and groups data files as Spark's bin-pack planner does. Files arrive in scan order; the plan depends on nothing else, so the
// same files and options always give the same plan.
//
// Spark decides per partition, and throws all files of older specs together under the partition whose values are all null, which files of the current
// spec may have too; so does this. A group that passed is then cut by spec, partition and row lineage, because a Firn group never mixes them: the
// selected files are Spark's, the groups may be smaller.
//
// A file that no engine can rewrite, or that is live twice, is left out and counted as refused.
func DataFiles(files iter.Seq2[maintenance.FileStats, error], opts DataFilesOptions) (maintenance.RewritePlan, error) {
	p := &dataFilesPlanner{opts: opts, keys: map[scanKey]int{}, partitions: map[string]string{}}
	for f, err := range files {
		if err != nil {
			return maintenance.RewritePlan{}, fmt.Errorf("plan rewrite_data_files after %d files: %w", p.seen, err)
		}
		p.add(f)
	}
	return p.plan(), nil
}

// scanKey is the key under which Spark packs: a partition of the current spec, or everything of older specs with what of the current spec has nulls only.
type scanKey struct {
	old       bool
	partition string
}

// onlyNulls reports a partition without any value: that of an unpartitioned spec, and "1000=null,1001=null".
func onlyNulls(partition string) bool {
	for field := range strings.SplitSeq(partition, ",") {
		if field != "" && !strings.HasSuffix(field, "=null") {
			return false
		}
	}
	return !strings.Contains(partition, `"`)
}

// packing is the state of one key: the open bin, and the bins that passed.
type packing struct {
	open      []maintenance.FileStats
	openBytes int64
	passed    [][]maintenance.FileStats
}

type dataFilesPlanner struct {
	opts       DataFilesOptions
	keys       map[scanKey]int
	packings   []*packing
	partitions map[string]string
	seen       int
	result     maintenance.RewritePlan
}

func (p *dataFilesPlanner) add(f maintenance.FileStats) {
	p.seen++
	if !p.opts.RewriteAll && !p.opts.candidate(f) {
		return
	}
	if f.Unsupported != "" {
		p.refuse(f.Path, f.Unsupported)
		return
	}
	k := p.packingOf(f)
	if text, ok := p.partitions[f.Partition]; ok {
		f.Partition = text // one copy of the text for all files of a partition
	} else {
		p.partitions[f.Partition] = f.Partition
	}
	k.add(f, &p.opts)
}

func (p *dataFilesPlanner) packingOf(f maintenance.FileStats) *packing {
	key := scanKey{old: true}
	if f.SpecID == p.opts.CurrentSpecID && !onlyNulls(f.Partition) {
		key = scanKey{partition: f.Partition}
	}
	i, ok := p.keys[key]
	if !ok {
		i = len(p.packings)
		p.keys[key] = i
		p.packings = append(p.packings, &packing{})
	}
	return p.packings[i]
}

// add puts a file into the open bin or closes that for good and opens another: look-back 1, no sorting. A file over the limit has a bin of its own.
func (k *packing) add(f maintenance.FileStats, opts *DataFilesOptions) {
	full := k.openBytes+f.SizeBytes > opts.MaxFileGroupSizeBytes || int64(len(k.open)) >= opts.MaxFileGroupInputFiles
	if len(k.open) > 0 && full {
		k.close(opts)
	}
	k.open = append(k.open, f)
	k.openBytes += f.SizeBytes
}

func (k *packing) close(opts *DataFilesOptions) {
	if len(k.open) > 0 && (opts.RewriteAll || opts.groupPasses(k.open, k.openBytes)) {
		k.passed = append(k.passed, k.open)
	}
	k.open, k.openBytes = nil, 0
}

func (p *dataFilesPlanner) refuse(path, reason string) {
	p.result.RefusedFiles++
	if len(p.result.Refusals) < maxRefusals {
		p.result.Refusals = append(p.result.Refusals, maintenance.FileRefusal{Path: path, Reason: reason})
	}
}

func (p *dataFilesPlanner) plan() maintenance.RewritePlan {
	var bins [][]maintenance.FileStats
	for _, k := range p.packings {
		k.close(&p.opts)
		bins = append(bins, k.passed...)
	}
	bins = capFiles(bins, p.opts.MaxFilesToRewrite)
	for _, bin := range p.withoutDoubles(bins) {
		for _, g := range p.opts.cutGroup(bin) {
			if p.opts.Tiered {
				g = p.opts.tier(g)
			}
			if !p.opts.RequireGain || !p.opts.GainsNothing(g) {
				p.result.Groups = append(p.result.Groups, g)
			}
		}
	}
	p.opts.JobOrder.sort(p.result.Groups)
	for i := range p.result.Groups {
		g := &p.result.Groups[i]
		g.Index = i
		p.result.TotalFiles += len(g.Files)
		p.result.TotalBytes += g.SizeBytes
	}
	p.result.SkippedFiles = p.seen - p.result.TotalFiles
	return p.result
}

// capFiles keeps whole bins until the budget ends and cuts the last one to its first files. The group rules are not asked again, as in Spark.
func capFiles(bins [][]maintenance.FileStats, budget int) [][]maintenance.FileStats {
	if budget <= 0 {
		return bins
	}
	var kept [][]maintenance.FileStats
	for _, bin := range bins {
		if budget == 0 {
			break
		}
		bin = bin[:min(len(bin), budget)]
		budget -= len(bin)
		kept = append(kept, bin)
	}
	return kept
}

// withoutDoubles drops every bin that holds a path which is live more than once: rows of such a file are read twice, and no rewrite may settle
// whether that is right.
func (p *dataFilesPlanner) withoutDoubles(bins [][]maintenance.FileStats) [][]maintenance.FileStats {
	if !anyDouble(bins) {
		return bins
	}
	times := map[string]int{}
	for _, bin := range bins {
		for _, f := range bin {
			times[f.Path]++
		}
	}
	return slices.DeleteFunc(bins, func(bin []maintenance.FileStats) bool {
		double := false
		for _, f := range bin {
			if times[f.Path] > 1 {
				p.refuse(f.Path, fmt.Sprintf("the table lists this file %d times", times[f.Path]))
				double = true
			}
		}
		return double
	})
}

// anyDouble looks for equal hashes of paths, which takes a tenth of the memory of comparing them; false means that no path occurs twice.
func anyDouble(bins [][]maintenance.FileStats) bool {
	count := 0
	for _, bin := range bins {
		count += len(bin)
	}
	seed, hashes := maphash.MakeSeed(), make([]uint64, 0, count)
	for _, bin := range bins {
		for _, f := range bin {
			hashes = append(hashes, maphash.String(seed, f.Path))
		}
	}
	slices.Sort(hashes)
	for i := 1; i < len(hashes); i++ {
		if hashes[i] == hashes[i-1] {
			return true
		}
	}
	return false
}

// candidate is the rule for one file.
func (o *DataFilesOptions) candidate(f maintenance.FileStats) bool {
	return o.outsideDesiredSize(f) || o.tooManyDeletes(f) || o.tooHighDeleteRatio(f)
}

func (o *DataFilesOptions) outsideDesiredSize(f maintenance.FileStats) bool {
	return f.SizeBytes < o.MinFileSizeBytes || f.SizeBytes > o.MaxFileSizeBytes
}

func (o *DataFilesOptions) tooManyDeletes(f maintenance.FileStats) bool {
	return f.DeleteFiles >= o.DeleteFileThreshold
}

// tooHighDeleteRatio counts file-scoped deletes only; several may name the same row, so the sum is cut at the record count.
func (o *DataFilesOptions) tooHighDeleteRatio(f maintenance.FileStats) bool {
	if f.DeleteFiles == 0 || f.RecordCount == 0 {
		return false
	}
	deleted := min(f.FileScopedDeletedRows, f.RecordCount)
	return float64(deleted)/float64(f.RecordCount) >= o.DeleteRatioThreshold
}

// groupPasses is the rule for one group. The last two lines make groups of a single file legal.
func (o *DataFilesOptions) groupPasses(files []maintenance.FileStats, totalBytes int64) bool {
	enoughInputFiles := len(files) > 1 && len(files) >= o.MinInputFiles
	enoughContent := len(files) > 1 && totalBytes > o.TargetFileSizeBytes
	tooMuchContent := totalBytes > o.MaxFileSizeBytes
	return enoughInputFiles || enoughContent || tooMuchContent ||
		slices.ContainsFunc(files, o.tooManyDeletes) ||
		slices.ContainsFunc(files, o.tooHighDeleteRatio)
}

// groupKey is what all files of a Firn group have in common.
type groupKey struct {
	spec      int
	partition string
	lineage   bool
}

// cutGroup parts a bin by spec, partition and row lineage, in the order in which they were first seen.
func (o *DataFilesOptions) cutGroup(bin []maintenance.FileStats) []maintenance.FileGroup {
	var groups []maintenance.FileGroup
	at := map[groupKey]int{}
	if first := keyOf(bin[0]); !slices.ContainsFunc(bin, func(f maintenance.FileStats) bool { return keyOf(f) != first }) {
		groups = []maintenance.FileGroup{{SpecID: first.spec, Partition: first.partition, HasRowLineage: first.lineage, Files: bin}}
		for i := range bin {
			groups[0].SizeBytes += bin[i].SizeBytes
		}
		return o.predict(groups)
	}
	for _, f := range bin {
		key := keyOf(f)
		i, ok := at[key]
		if !ok {
			i = len(groups)
			at[key] = i
			groups = append(groups, maintenance.FileGroup{SpecID: f.SpecID, Partition: f.Partition, HasRowLineage: f.HasRowLineage})
		}
		groups[i].Files = append(groups[i].Files, f)
		groups[i].SizeBytes += f.SizeBytes
	}
	return o.predict(groups)
}

func keyOf(f maintenance.FileStats) groupKey { return groupKey{f.SpecID, f.Partition, f.HasRowLineage} }

// predict fills in what the writers need to know.
func (o *DataFilesOptions) predict(groups []maintenance.FileGroup) []maintenance.FileGroup {
	for i := range groups {
		groups[i].ExpectedOutputFiles = o.ExpectedOutputFiles(groups[i].SizeBytes)
		groups[i].MaxOutputFileSizeBytes = o.WriterMaxFileSizeBytes()
	}
	return groups
}

// sort orders groups for execution; equal ones stay in scan order.
func (j JobOrder) sort(groups []maintenance.FileGroup) {
	slices.SortStableFunc(groups, func(a, b maintenance.FileGroup) int {
		switch j {
		case OrderBytesAsc:
			return cmp.Compare(a.SizeBytes, b.SizeBytes)
		case OrderBytesDesc:
			return cmp.Compare(b.SizeBytes, a.SizeBytes)
		case OrderFilesAsc:
			return cmp.Compare(len(a.Files), len(b.Files))
		case OrderFilesDesc:
			return cmp.Compare(len(b.Files), len(a.Files))
		default:
			return 0
		}
	})
}

// WriterMaxFileSizeBytes is the size at which a writer starts another output: half-way between target and max, so that a task that turns out
// slightly larger than the target does not spawn a tiny second file (512 MiB: 716.8 MiB).
func (o *DataFilesOptions) WriterMaxFileSizeBytes() int64 {
	return o.TargetFileSizeBytes + int64(float64(o.MaxFileSizeBytes-o.TargetFileSizeBytes)*0.5)
}

// ExpectedOutputFiles predicts the number of outputs for a group of that many input bytes (Spark: expectedOutputFiles). With target 512 MiB and
// min 384 MiB:
//
//	 100 MiB → 1 below the target
//	 900 MiB → 2 the remainder 388 is a valid file of its own
//	1126 MiB → 2 spread: the average 563 is under 110 % of the target
//	1127 MiB → 3 the average would be 563.5: the remainder stays a small file
func (o *DataFilesOptions) ExpectedOutputFiles(inputBytes int64) int {
	if o.Strategy != BinPack && o.Strategy != "" {
		inputBytes = int64(float64(inputBytes) * o.CompressionFactor)
	}
	target := o.TargetFileSizeBytes
	if inputBytes < target {
		return 1
	}
	whole, rest := inputBytes/target, inputBytes%target
	ceiling := whole
	if rest > 0 {
		ceiling++
	}
	average := inputBytes / whole
	spread := math.Min(1.1*float64(target), float64(o.WriterMaxFileSizeBytes()))
	if rest <= o.MinFileSizeBytes && float64(average) < spread {
		return int(whole)
	}
	return int(ceiling)
}

// splitOverheadBytes is what Spark adds to a split for rounding.
const splitOverheadBytes = 5 << 10

// SplitSizeBytes is how much of a group one writer task reads, so that the group ends in the expected number of outputs.
func (o *DataFilesOptions) SplitSizeBytes(inputBytes int64) int64 {
	estimate := inputBytes/int64(o.ExpectedOutputFiles(inputBytes)) + splitOverheadBytes
	if estimate < o.TargetFileSizeBytes {
		return o.TargetFileSizeBytes
	}
	return min(estimate, o.WriterMaxFileSizeBytes())
}

// GainsNothing says that a rewrite of the group would not have fewer files, and neither splits an oversize file, nor applies a delete, nor sorts,
// nor changes the spec: it would be chosen and rewritten for ever.
func (o *DataFilesOptions) GainsNothing(g maintenance.FileGroup) bool {
	if o.RewriteAll || g.SpecID != o.OutputSpecID || (o.Strategy != BinPack && o.Strategy != "") {
		return false
	}
	reason := func(f maintenance.FileStats) bool { return f.DeleteFiles > 0 || f.SizeBytes > o.MaxFileSizeBytes }
	if slices.ContainsFunc(g.Files, reason) {
		return false
	}
	return g.ExpectedOutputFiles >= len(g.Files)
}

// Batch is a range of groups that one commit takes: Count groups from First on.
type Batch struct {
	First, Count int
}

// Batches cuts a plan's groups into commits: one without partial progress, else ceil(groups / max-commits) groups a commit. With 11 groups and at
// most 10 commits that is 6 commits of two groups. The first commit takes at least together groups.
func (o *DataFilesOptions) Batches(groups, together int) []Batch {
	size := groups
	if o.PartialProgress {
		size = (groups + o.MaxCommits - 1) / o.MaxCommits
	}
	var batches []Batch
	for first := 0; first < groups; {
		b := Batch{First: first, Count: min(max(size, together-first), groups-first)}
		batches = append(batches, b)
		first += b.Count
	}
	return batches
}

// WithoutRowIDs is how many groups, from the first on, a commit to a table of format version 3 takes together: up to the last one whose rows have no
// IDs yet, as after an upgrade. Any commit gives IDs to all of them (Iceberg spec, Row Lineage for Upgraded Tables), and a rewrite that was made
// before would take them away again, which is a conflict.
func WithoutRowIDs(groups []maintenance.FileGroup) int {
	for i, g := range slices.Backward(groups) {
		if !g.HasRowLineage {
			return i + 1
		}
	}
	return 0
}

const (
	// tierShare is the share of the bytes of all smaller files from which on a file is large beside them: 1/tierShare. Files of a size are merged when there
	// are more than tierShare of them, so that a byte is rewritten once for each such factor that its file grows by.
	tierShare = 16
	// maxLeftShare bounds how many small files a tier leaves: 1/maxLeftShare of the number that makes a partition due, or runs would follow each other.
	maxLeftShare = 10
	// minLeft is how many files must be allowed to stay: a single one saves nothing, since the files of the runs between grow as large and are taken each time.
	minLeft = 2
)

// tier leaves the largest small files of a group alone, those that earlier runs wrote as a rule: a run that starts as soon as a partition is due makes a
// file under the least size, and to rewrite that with every run costs the square of the bytes that came. Spark's planner takes all small files; it
// knows no next run. Files that deletes or their size make candidates stay in the group.
//
// A group is not tiered when it is sorted or changes the spec: there what was written counts, not the number of files.
func (o *DataFilesOptions) tier(g maintenance.FileGroup) maintenance.FileGroup {
	most := o.MinInputFiles / maxLeftShare
	if most < minLeft || o.RewriteAll || g.SpecID != o.OutputSpecID || (o.Strategy != BinPack && o.Strategy != "") {
		return g
	}
	needed := func(f maintenance.FileStats) bool {
		return f.SizeBytes >= o.MinFileSizeBytes || o.tooManyDeletes(f) || o.tooHighDeleteRatio(f)
	}
	var small []int
	sum := int64(0)
	for i, f := range g.Files {
		if !needed(f) {
			small = append(small, i)
			sum += f.SizeBytes
		}
	}
	if len(small) < o.MinInputFiles {
		return g // deletes made it due
	}
	slices.SortStableFunc(small, func(a, b int) int { return cmp.Compare(g.Files[a].SizeBytes, g.Files[b].SizeBytes) })
	left := map[int]bool{}
	for n := len(small) - 1; n > 0 && len(left) < most; n-- {
		size := g.Files[small[n]].SizeBytes
		if size*tierShare <= sum-size {
			break
		}
		left[small[n]], sum = true, sum-size
	}
	if len(left) == 0 {
		return g
	}
	files := make([]maintenance.FileStats, 0, len(g.Files)-len(left))
	g.SizeBytes = 0
	for i, f := range g.Files {
		if !left[i] {
			files, g.SizeBytes = append(files, f), g.SizeBytes+f.SizeBytes
		}
	}
	g.Files = files
	return o.predict([]maintenance.FileGroup{g})[0]
}
