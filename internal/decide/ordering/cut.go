package ordering

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"

	"firn/internal/decide/where"
	"firn/internal/maintenance"
)

// File is what Cut looks at of a file of a group.
type File struct {
	SizeBytes int64
	// Lower and Upper are the bounds of the manifest entry by field ID.
	Lower, Upper map[int][]byte
}

// Cut divides the files of a group that is too large for one worker into groups of at most limit bytes each: files that come first in the
// ordering by their bounds go together. Each group is then ordered by itself; since its outputs have tight bounds, the next run puts files of one
// key range together, so that repeated runs converge to one order. The answer holds indexes of files; a file over the limit is a group of its own.
// Files whose bounds are not known come first.
func Cut(o *maintenance.Ordering, columns []where.Column, files []File, limit int64) [][]int {
	var total int64
	for _, f := range files {
		total += f.SizeBytes
	}
	all := make([]int, len(files))
	for i := range all {
		all[i] = i
	}
	if limit <= 0 || total <= limit {
		return [][]int{all}
	}
	ranks := make([][]uint32, len(files))
	for _, f := range o.Fields {
		rank(ranks, f, columns, files)
	}
	slices.SortStableFunc(all, func(a, b int) int {
		if o.Curve == maintenance.NoCurve {
			return slices.Compare(ranks[a], ranks[b])
		}
		return compareInterleaved(ranks[a], ranks[b])
	})
	// Equal shares, so that no small group is left at the end.
	groups := (total + limit - 1) / limit
	share := min((total+groups-1)/groups, limit)
	var out [][]int
	var size int64
	for _, i := range all {
		if len(out) == 0 || (len(out[len(out)-1]) > 0 && size+files[i].SizeBytes > share) {
			out, size = append(out, nil), 0
		}
		out[len(out)-1] = append(out[len(out)-1], i)
		size += files[i].SizeBytes
	}
	return out
}

// rank appends to each file its place among the bounds of a field: 0 for an unknown one.
func rank(ranks [][]uint32, f maintenance.OrderingField, columns []where.Column, files []File) {
	values := make([]where.Value, len(files))
	var known []int
	at := slices.IndexFunc(columns, func(c where.Column) bool { return c.FieldID == f.SourceID })
	for i := range files {
		bounds := files[i].Lower
		if f.Descending {
			bounds = files[i].Upper
		}
		// Buckets have nothing to do with the order of their source; other transforms keep it.
		data, ok := bounds[f.SourceID]
		if !ok || at < 0 || strings.HasPrefix(f.Transform, "bucket") {
			continue
		}
		if values[i], ok = columns[at].Bound(data); ok {
			known = append(known, i)
		}
	}
	compare := func(a, b int) int {
		c, _ := where.Compare(values[a], values[b])
		if f.Descending {
			return -c
		}
		return c
	}
	slices.SortStableFunc(known, compare)
	place := make([]uint32, len(files))
	for i, file := range known {
		switch {
		case i == 0:
			place[file] = 1
		case compare(known[i-1], file) == 0:
			place[file] = place[known[i-1]]
		default:
			place[file] = place[known[i-1]] + 1
		}
	}
	for i := range ranks {
		ranks[i] = append(ranks[i], place[i])
	}
}

// compareInterleaved compares numbers as if their bits were interleaved: the number whose highest differing bit is the highest of all decides.
func compareInterleaved(a, b []uint32) int {
	decides, highest := 0, -1
	for i := range a {
		if n := bits.Len32(a[i] ^ b[i]); n > highest && a[i] != b[i] {
			decides, highest = i, n
		}
	}
	return cmp.Compare(a[decides], b[decides])
}
