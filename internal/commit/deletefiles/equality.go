package deletefiles

import (
	"context"
	"fmt"
	"maps"

	"github.com/apache/iceberg-go"

	"firn/internal/lake"
	"firn/internal/lake/produce"
)

// equality checks a group of equality deletes: what it says of a data file holds as long as the data file is the same, and, where a vector takes the
// place of what was there, as long as the other deletes of the data file are.
func (c *check) equality() (Landing, Verdict, error) {
	c.landing.processed = map[string]int64{}
	named := map[string]bool{}
	for _, refs := range c.g.References {
		for _, ref := range refs {
			named[ref.Path] = true
		}
	}
	for i, in := range c.g.Inputs {
		path := in.File.FilePath()
		found := c.Survey.Found[path]
		if len(found) == 0 {
			continue // what was written in its place is not processed: see Convertible
		}
		if len(found) > 1 {
			return Landing{}, faultf("table fault: %s is live %d times", path, len(found)), nil
		}
		now := found[0]
		at, err := c.scopeOf(now)
		if err != nil {
			return Landing{}, Verdict{}, err
		}
		if now.DataSequence != in.DataSequence || at != (scope{c.g.SpecID, c.g.Partition}) || now.File.FileSizeBytes() != in.File.FileSizeBytes() ||
			now.File.Count() != in.File.Count() {
			return Landing{}, conflictf("%s was replaced by another file of its name", path), nil
		}
		if c.Table.Metadata.Version() >= vectorsSince && named[path] {
			if v := c.replaceDeletes(i, in); v != (Verdict{}) {
				return Landing{}, v, nil
			}
		}
		c.landing.processed[path] = in.DataSequence
	}
	for i, out := range c.g.Outputs {
		if len(c.live[produce.FileOf(out.File)]) > 0 {
			return Landing{}, faultf("output %s is live already", out.File.FilePath()), nil
		}
		for _, ref := range c.g.References[i] {
			if _, live := c.landing.processed[ref.Path]; live {
				c.landing.Add = append(c.landing.Add, out)
				break
			}
		}
	}
	return c.landing, Verdict{}, nil
}

// vectorsSince is the format version whose position deletes are deletion vectors.
const vectorsSince = 3

// replaceDeletes removes the vector of a data file that gets a new one, which must hold what applies now.
func (c *check) replaceDeletes(i int, in lake.Entry) Verdict {
	read := map[produce.File]bool{}
	for _, at := range c.g.Applied[i] {
		if d := c.g.Beside[at]; d.File.ContentType() == iceberg.EntryContentPosDeletes {
			read[produce.FileOf(d.File)] = true
		}
	}
	applying, err := c.deletes.For(in)
	if err != nil {
		return faultf("%v", err)
	}
	for _, d := range applying {
		name := produce.FileOf(d.File)
		switch {
		case d.File.ContentType() != iceberg.EntryContentPosDeletes:
			continue
		case !read[name]:
			return conflictf("delete file %s arrived for %s", d.File.FilePath(), in.File.FilePath())
		case lake.IsDeletionVector(d.File):
			c.landing.Remove = append(c.landing.Remove, d)
		}
		delete(read, name)
	}
	if len(read) > 0 {
		return conflictf("deletes of %s were removed", in.File.FilePath())
	}
	return Verdict{}
}

// Convertible are the equality deletes of landing groups that can go: no live data file that was not looked at needs them. What another writer's rewrite
// made of a data file, with the sequence number of its own start, may need them.
func (h *Head) Convertible(ctx context.Context, manifests []iceberg.ManifestFile, groups []Group, landings []Landing) ([]lake.Entry, error) {
	processed, candidates := map[string]int64{}, map[produce.File]bool{}
	for i, g := range groups {
		maps.Copy(processed, landings[i].processed)
		for _, d := range g.Beside {
			if d.File.ContentType() == iceberg.EntryContentEqDeletes {
				candidates[produce.FileOf(d.File)] = true
			}
		}
	}
	for _, m := range manifests {
		if m.ManifestContent() != iceberg.ManifestContentData {
			continue
		}
		for e, err := range lake.Entries(ctx, h.Store, m, lake.EntryOptions{WithoutStats: true, PruningStats: true}) {
			if err != nil {
				return nil, err
			}
			if sequence, done := processed[e.File.FilePath()]; done && sequence == e.DataSequence {
				continue
			}
			applying, err := h.deletes.For(e)
			if err != nil {
				return nil, fmt.Errorf("look for equality deletes of %s: %w", e, err)
			}
			for _, d := range applying {
				delete(candidates, produce.FileOf(d.File))
			}
		}
	}
	var out []lake.Entry
	for _, d := range h.deletes.All() {
		if d.File.ContentType() == iceberg.EntryContentEqDeletes && candidates[produce.FileOf(d.File)] {
			out = append(out, d)
		}
	}
	return out, nil
}
