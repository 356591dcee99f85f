package decide

import (
	"cmp"
	"slices"

	"firn/internal/maintenance"
)

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
