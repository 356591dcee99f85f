package plan

import (
	"context"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"

	"firn/internal/lake"
	"firn/internal/maintenance"
	"firn/internal/store"
)

const (
	// filesPerRange is about how many objects one child lists: 25 pages of a bucket.
	filesPerRange = 25_000
	// maxRanges bounds the children of one listing; the map runs 40 at a time.
	maxRanges = 40
	// sampledManifests and sampledPaths bound what is read to find where the keys lie.
	sampledManifests, sampledPaths = 32, 20_000
)

// listRanges cuts the listing of a folder into key ranges of about the same number of objects. Where to cut is estimated from the live files' paths:
// orphans lie where files do. However wrong that is, each key belongs to exactly one range.
func (p *planner) listRanges(ctx context.Context, prefix string) ([]maintenance.SweepItem, error) {
	snap := p.table.Metadata.CurrentSnapshot()
	if snap == nil {
		return keyRanges(prefix, nil), nil
	}
	manifests, err := lake.Manifests(ctx, p.reader, snap)
	if err != nil {
		return nil, err
	}
	files := 0
	for _, m := range manifests {
		files += max(int(m.AddedDataFiles())+int(m.ExistingDataFiles()), 0)
	}
	wanted := min(files/filesPerRange+1, maxRanges)
	if wanted == 1 {
		return keyRanges(prefix, nil), nil
	}
	paths, err := p.samplePaths(ctx, manifests, files)
	if err != nil {
		return nil, err
	}
	return keyRanges(prefix, cuts(prefix, paths, wanted)), nil
}

// samplePaths reads paths of live files, evenly over manifests and entries.
func (p *planner) samplePaths(ctx context.Context, manifests []iceberg.ManifestFile, files int) ([]string, error) {
	step := max((len(manifests)+sampledManifests-1)/sampledManifests, 1)
	stride := max(files/step/sampledPaths, 1)
	var paths []string
	n := 0
	for i := 0; i < len(manifests); i += step {
		for e, err := range lake.Entries(ctx, p.reader, manifests[i], lake.EntryOptions{WithoutStats: true, Memo: &p.memo}) {
			if err != nil {
				return nil, err
			}
			if n%stride == 0 {
				paths = append(paths, e.File.FilePath())
			}
			n++
		}
	}
	return paths, nil
}

// cuts picks the locations at which ranges end, spelled as the prefix is: quantiles of the paths that lie under it.
func cuts(prefix string, paths []string, wanted int) []string {
	base, err := store.ParseLocation(prefix)
	if err != nil {
		return nil
	}
	var keys []string
	for _, path := range paths {
		loc, err := store.ParseLocation(path)
		if err != nil || loc.Authority != base.Authority || loc.Canonical().Scheme != base.Canonical().Scheme {
			continue
		}
		if rest, inside := strings.CutPrefix(loc.Key, base.Key); inside && rest != "" {
			keys = append(keys, rest)
		}
	}
	slices.Sort(keys)
	var out []string
	for i := 1; i < wanted && len(keys) > 0; i++ {
		if cut := prefix + keys[len(keys)*i/wanted]; len(out) == 0 || cut > out[len(out)-1] {
			out = append(out, cut)
		}
	}
	return out
}

// keyRanges are the ranges between cuts, which are in order: each begins behind the cut at which the one before ends; the first and the last are open.
func keyRanges(prefix string, cuts []string) []maintenance.SweepItem {
	ranges := make([]maintenance.SweepItem, 0, len(cuts)+1)
	after := ""
	for i, cut := range append(slices.Clone(cuts), "") {
		ranges = append(ranges, maintenance.SweepItem{Range: i, Prefix: prefix, StartAfter: after, EndAt: cut})
		after = cut
	}
	return ranges
}
