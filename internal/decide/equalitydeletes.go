package decide

import (
	"math"

	"firn/internal/maintenance"
)

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
