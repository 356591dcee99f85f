package decide

import (
	"math"
	"slices"
	"strings"
	"time"

	"firn/internal/maintenance"
	"firn/internal/sparksql"
)

// Strategy is how a rewrite of data files orders rows.
type Strategy string

// The strategies of rewrite_data_files.
const (
	// BinPack copies rows in the order of the inputs.
	BinPack Strategy = "binpack"
	// Sort orders the rows of a group by columns.
	Sort Strategy = "sort"
	// ZOrder orders the rows of a group by interleaved bits of columns.
	ZOrder Strategy = "zorder"
)

// ParseStrategy reads the arguments strategy and sort_order as Spark does: binpack when neither is given, sort when only an order is; binpack
// refuses an order; sort needs an order, the call's or the table's; zorder(...) and hilbert(...) stand alone.
func ParseStrategy(strategy, sortOrder string, tableSorted bool) (Strategy, error) {
	strategy, sortOrder = strings.ToLower(strings.TrimSpace(strategy)), strings.TrimSpace(sortOrder)
	switch {
	case strategy == "" && sortOrder == "", strategy == string(BinPack) && sortOrder == "":
		return BinPack, nil
	case strategy == string(BinPack):
		return "", optionErrorf("read argument sort_order: %q cannot be given with strategy binpack", sortOrder)
	case strategy != "" && strategy != string(Sort):
		return "", optionErrorf("read argument strategy: %q is neither binpack nor sort", strategy)
	case sortOrder == "" && !tableSorted:
		return "", optionErrorf("read argument strategy: sort needs a sort_order, since the table has none")
	case sortOrder == "":
		return Sort, nil
	}
	terms, err := sparksql.ParseSortOrder(sortOrder)
	if err != nil {
		return "", optionErrorf("read argument sort_order: %v", err)
	}
	curve := func(t sparksql.SortTerm) bool {
		return t.Function == string(maintenance.ZOrder) || t.Function == string(maintenance.Hilbert)
	}
	switch {
	case !slices.ContainsFunc(terms, curve):
		return Sort, nil
	case len(terms) > 1:
		return "", optionErrorf("read argument sort_order: %q mixes columns and a z-order", sortOrder)
	}
	return ZOrder, nil
}

// Proof is how a rewrite is proved before it is committed.
type Proof string

// The values of option proof.
const (
	// ProofWritten compares what was read with what was written.
	ProofWritten Proof = "written"
	// ProofContent reads inputs and outputs again, and compares all columns.
	ProofContent Proof = "content"
)

// OptionProof is the option's name, which the compaction reads in a group's options.
const OptionProof = "proof"

// JobOrder is the order in which file groups are executed; it never changes what is selected.
type JobOrder string

// The values of rewrite-job-order.
const (
	OrderNone      JobOrder = "none"
	OrderBytesAsc  JobOrder = "bytes-asc"
	OrderBytesDesc JobOrder = "bytes-desc"
	OrderFilesAsc  JobOrder = "files-asc"
	OrderFilesDesc JobOrder = "files-desc"
)

// Option names of rewrite_data_files that messages and other rooms repeat.
const (
	optionTarget = "target-file-size-bytes"
	optionMin    = "min-file-size-bytes"
	optionMax    = "max-file-size-bytes"
)

const (
	defaultTargetFileSizeBytes   = 512 << 20
	defaultMaxFileGroupSizeBytes = 100 << 30
	minFileSizeRatio             = 0.75
	maxFileSizeRatio             = 1.8
)

// DataFilesOptions are the options of rewrite_data_files with defaults filled in (Iceberg: SizeBasedFileRewritePlanner, BinPackRewriteFilePlanner,
// RewriteDataFiles).
type DataFilesOptions struct {
	Strategy Strategy
	// TargetFileSizeBytes is what outputs aim for; files under MinFileSizeBytes or over MaxFileSizeBytes are candidates. Min < target < max.
	TargetFileSizeBytes int64
	MinFileSizeBytes    int64
	MaxFileSizeBytes    int64
	// MinInputFiles is how many files a group needs, unless another rule passes it.
	MinInputFiles int
	// RewriteAll makes every file a candidate and passes every group.
	RewriteAll bool
	// MaxFileGroupSizeBytes and MaxFileGroupInputFiles cut groups.
	MaxFileGroupSizeBytes  int64
	MaxFileGroupInputFiles int64
	// DeleteFileThreshold is the number of delete files, DeleteRatioThreshold (0 to 1) the share of rows under file-scoped deletes, that makes a
	// file a candidate whatever its size.
	DeleteFileThreshold  int
	DeleteRatioThreshold float64
	// MaxFilesToRewrite caps one call; 0 means no cap.
	MaxFilesToRewrite int
	// MaxConcurrentFileGroupRewrites is the number of groups that are rewritten at once.
	MaxConcurrentFileGroupRewrites int
	// PartialProgress commits in up to MaxCommits batches; more than MaxFailedCommits failures fail the job.
	PartialProgress  bool
	MaxCommits       int
	MaxFailedCommits int
	// UseStartingSequenceNumber gives outputs the pinned snapshot's sequence number.
	UseStartingSequenceNumber bool
	JobOrder                  JobOrder
	// CurrentSpecID is the table's default spec; OutputSpecID the spec of the outputs.
	CurrentSpecID         int
	OutputSpecID          int
	RemoveDanglingDeletes bool
	// CompressionFactor and ShufflePartitionsPerFile belong to sort and z-order, VarLengthContributionBytes and MaxOutputSizeBytes to z-order.
	CompressionFactor          float64
	ShufflePartitionsPerFile   int
	VarLengthContributionBytes int
	MaxOutputSizeBytes         int
	// Proof says how a rewrite is proved (ours, not Spark's).
	Proof Proof
	// QuietPeriod leaves files out that were added in this time before the plan (ours, not Spark's): who writes them may replace them while they are
	// rewritten. 0 leaves none out.
	QuietPeriod time.Duration
	// QuietCommits leaves partitions out to which one of the last so many commits of other writers added files (ours, too). 0 leaves none out.
	QuietCommits int
	// RequireGain drops groups that GainsNothing: set for automatic runs, never for a call, which does what Spark does.
	RequireGain bool
	// Tiered leaves files of a group alone that are large beside the smaller ones (datafiles.go): set for automatic runs that are not by age.
	Tiered bool
}

// ForAutomatic sets what automatic runs do beside what Spark does; aged is JobDue.Aged of the decision.
func (o *DataFilesOptions) ForAutomatic(aged bool) {
	o.RequireGain, o.Tiered = true, !aged
}

// TableFacts is what option parsing may look at of the table.
type TableFacts struct {
	// Properties are the table's properties.
	Properties map[string]string
	// CurrentSpecID is the default spec; SpecIDs are all specs of the table.
	CurrentSpecID int
	SpecIDs       []int
}

// DefaultDataFilesOptions returns Spark's defaults for bin-packing a table without properties.
func DefaultDataFilesOptions() DataFilesOptions {
	opts, err := ParseDataFilesOptions(BinPack, nil, TableFacts{})
	if err != nil {
		panic("defaults of rewrite_data_files are invalid: " + err.Error())
	}
	return opts
}

// ParseDataFilesOptions reads the options map of rewrite_data_files. Defaults come from the table's properties; all faults are reported at once,
// and an option that the strategy does not know is one of them. Every fault is an ErrOption.
func ParseDataFilesOptions(strategy Strategy, options map[string]string, table TableFacts) (DataFilesOptions, error) {
	r := &optionReader{options: options}
	opts := DataFilesOptions{Strategy: strategy, CurrentSpecID: table.CurrentSpecID}
	r.sizesOf(&opts, table, "write.target-file-size-bytes", defaultTargetFileSizeBytes)
	opts.MinInputFiles = r.count("min-input-files", 5, 1)
	opts.RewriteAll = r.flag("rewrite-all", false)
	opts.MaxFileGroupSizeBytes = r.whole("max-file-group-size-bytes", defaultMaxFileGroupSizeBytes, 1, math.MaxInt64)
	opts.MaxFileGroupInputFiles = r.whole("max-file-group-input-files", math.MaxInt64, 1, math.MaxInt64)
	opts.DeleteFileThreshold = r.count("delete-file-threshold", math.MaxInt32, 0)
	opts.DeleteRatioThreshold = r.fraction("delete-ratio-threshold", 0.3, 1)
	opts.MaxFilesToRewrite = r.count("max-files-to-rewrite", 0, 1)
	opts.QuietPeriod = r.age("quiet-period")
	opts.QuietCommits = r.count("quiet-commits", 0, 0)
	opts.Proof = r.proof()
	opts.MaxConcurrentFileGroupRewrites = r.count("max-concurrent-file-group-rewrites", 5, 1)
	r.partialProgress(&opts)
	opts.UseStartingSequenceNumber = r.flag("use-starting-sequence-number", true)
	opts.RemoveDanglingDeletes = r.flag("remove-dangling-deletes", false)
	opts.JobOrder = r.jobOrder()
	opts.OutputSpecID = r.count("output-spec-id", table.CurrentSpecID, 0)
	if opts.OutputSpecID != table.CurrentSpecID && !slices.Contains(table.SpecIDs, opts.OutputSpecID) {
		r.fault("read option output-spec-id: the table has no partition spec %d, only %v", opts.OutputSpecID, table.SpecIDs)
	}
	r.sorting(&opts)
	scope := "rewrite_data_files with strategy " + string(strategy)
	r.unknown(scope)
	return opts, r.err()
}

// sizesOf reads target, min and max. The target's default is a table property or its own default; those of min and max are shares of the target, cut
// to whole bytes.
func (r *optionReader) sizesOf(opts *DataFilesOptions, table TableFacts, property string, fallback int64) {
	properties := &optionReader{options: table.Properties, noun: "property"}
	target := properties.whole(property, fallback, 1, math.MaxInt64/4)
	if _, given := r.options[optionTarget]; !given {
		r.errs = append(r.errs, properties.errs...)
	}
	target = r.whole(optionTarget, target, 1, math.MaxInt64/4)
	opts.TargetFileSizeBytes = target
	opts.MinFileSizeBytes = r.whole(optionMin, int64(float64(target)*minFileSizeRatio), 0, math.MaxInt64)
	opts.MaxFileSizeBytes = r.whole(optionMax, int64(float64(target)*maxFileSizeRatio), 1, math.MaxInt64)
	if opts.MinFileSizeBytes >= target {
		r.fault("read option %s: %d must be below %s, which is %d", optionMin, opts.MinFileSizeBytes, optionTarget, target)
	}
	if opts.MaxFileSizeBytes <= target {
		r.fault("read option %s: %d must be above %s, which is %d", optionMax, opts.MaxFileSizeBytes, optionTarget, target)
	}
}

// age reads a duration; 0 when it is not given.
func (r *optionReader) age(name string) time.Duration {
	text, ok := r.text(name)
	if !ok {
		return 0
	}
	d, err := ParseAge(text)
	if err != nil {
		r.fault("read option %s: %v", name, err)
	}
	return d
}

func (r *optionReader) partialProgress(opts *DataFilesOptions) {
	const maxCommits = "partial-progress.max-commits"
	opts.PartialProgress = r.flag("partial-progress.enabled", false)
	opts.MaxCommits = r.count(maxCommits, 10, lowestCommits(opts.PartialProgress))
	opts.MaxFailedCommits = r.count("partial-progress.max-failed-commits", max(opts.MaxCommits, 0), 0)
}

// lowestCommits bounds partial-progress.max-commits; Spark looks at the number only when it is used.
func lowestCommits(partialProgress bool) int {
	if partialProgress {
		return 1
	}
	return math.MinInt32
}

func (r *optionReader) proof() Proof {
	text, ok := r.text(OptionProof)
	switch p := Proof(strings.ToLower(text)); {
	case !ok, p == ProofWritten:
		return ProofWritten
	case p == ProofContent:
		return p
	default:
		r.fault("read option %s: %q is neither %s nor %s", OptionProof, text, ProofWritten, ProofContent)
		return ProofWritten
	}
}

func (r *optionReader) jobOrder() JobOrder {
	const name = "rewrite-job-order"
	text, ok := r.text(name)
	if !ok {
		return OrderNone
	}
	known := []JobOrder{OrderNone, OrderBytesAsc, OrderBytesDesc, OrderFilesAsc, OrderFilesDesc}
	order := JobOrder(strings.ToLower(text))
	if !slices.Contains(known, order) {
		r.fault("read option %s: %q is none of %v", name, text, known)
		return OrderNone
	}
	return order
}

// sorting reads what only sort and z-order know; for binpack these options are unknown, as in Spark.
func (r *optionReader) sorting(opts *DataFilesOptions) {
	opts.CompressionFactor, opts.ShufflePartitionsPerFile = 1, 1
	if opts.Strategy == BinPack {
		return
	}
	opts.CompressionFactor = r.fraction("compression-factor", 1, math.MaxFloat64)
	opts.ShufflePartitionsPerFile = r.count("shuffle-partitions-per-file", 1, 1)
	if opts.Strategy == ZOrder {
		opts.VarLengthContributionBytes = r.count("var-length-contribution", 8, 1)
		opts.MaxOutputSizeBytes = r.count("max-output-size", math.MaxInt32, 1)
	}
}
