// Package fleet lets many tables live for a day on a virtual clock: writers of several kinds commit, evaluate looks, decides and starts runs, and report ends
// them, all of them real; a run itself is a model, which rewrites what the real planner selects and takes as long as its bytes. What was rewritten is held
// against an oracle that knows the future.
package fleet

import "firn/internal/decide"

// Hour is what a partition gets in one hour.
type Hour struct {
	// Files and Bytes are of small files, Deletes counts delete files that apply to the whole partition.
	Files, Deletes int
	Bytes          int64
	// FullBytes are of files that are large enough.
	FullBytes int64
}

// Limits are the thresholds that hold at each hour's end: fewer small files and fewer delete files of a partition than these. 0 is no limit.
type Limits struct{ Files, Deletes int }

// Least is what maintenance of a partition costs at least.
type Least struct {
	Bytes int64
	Runs  int
}

// less orders by bytes, then runs.
func (l Least) less(o Least) bool {
	return l.Bytes < o.Bytes || l.Bytes == o.Bytes && l.Runs < o.Runs
}

// partitionState is a partition at an hour's end: what it holds, as far as a later run pays for it.
type partitionState struct {
	files, deletes int
	small, full    int64
}

// Cheapest is the oracle: over all choices of the hours at whose ends the partition is rewritten, the least bytes that keep the limits, by dynamic programming
// over what the partition holds. A run rewrites all small files, and the whole partition when deletes apply to it; its outputs are those of
// Outputs, so that the last one stays small until it has grown.
func Cheapest(hours []Hour, limits Limits, o decide.DataFilesOptions) Least {
	states := map[partitionState]Least{{}: {}}
	for _, h := range hours {
		next := map[partitionState]Least{}
		keep := func(s partitionState, cost Least) {
			if limits.Files > 0 && s.files >= limits.Files || limits.Deletes > 0 && s.deletes >= limits.Deletes {
				return
			}
			if best, known := next[s]; !known || cost.less(best) {
				next[s] = cost
			}
		}
		for s, cost := range states {
			s.files, s.deletes = s.files+h.Files, s.deletes+h.Deletes
			s.small, s.full = s.small+h.Bytes, s.full+h.FullBytes
			keep(s, cost)
			after, bytes := s.rewritten(o)
			keep(after, Least{Bytes: cost.Bytes + bytes, Runs: cost.Runs + 1})
		}
		states = next
	}
	best, found := Least{}, false
	for _, cost := range states {
		if !found || cost.less(best) {
			best, found = cost, true
		}
	}
	return best
}

// rewritten is the state after a run, and the bytes that it rewrites.
func (s partitionState) rewritten(o decide.DataFilesOptions) (partitionState, int64) {
	bytes := s.small
	if s.deletes > 0 {
		bytes += s.full
	}
	if bytes == 0 {
		return s, 0
	}
	after := partitionState{full: s.full + s.small}
	for _, size := range Outputs(bytes, o) {
		if size < o.MinFileSizeBytes {
			after.files, after.small = after.files+1, after.small+size
		}
	}
	after.full -= after.small
	return after, bytes
}

// Outputs are the sizes of the files that a run makes of so many bytes: a writer fills each to its limit, and the last one with the rest.
func Outputs(bytes int64, o decide.DataFilesOptions) []int64 {
	var sizes []int64
	for limit := o.WriterMaxFileSizeBytes(); bytes > 0; {
		size := min(bytes, limit)
		sizes, bytes = append(sizes, size), bytes-size
	}
	return sizes
}
