package inspect

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/apache/iceberg-go/table"

	"firn/internal/decide"
	"firn/internal/lake/reach"
	"firn/internal/store"
)

const (
	// maxReached bounds how many paths of a table are held to judge its storage, maxListed how many objects of its location are listed.
	maxReached = 500_000
	maxListed  = 20_000
)

// Storage is what a table's storage would give back.
type Storage struct {
	// Expirable is what only snapshots reach that an expiry by the table's retention would remove; sizes of manifest lists are not known and left out.
	Expirable Reclaimable `json:"expirable"`
	// ExpirableSnapshots counts these snapshots.
	ExpirableSnapshots int `json:"expirable_snapshots"`
	// Orphans is an estimate: Listed objects of the location were looked at; unless these were all (Complete), the orphans among them are scaled by the share of
	// the table's files that was met.
	Orphans  Reclaimable `json:"orphans_estimate"`
	Listed   int64       `json:"listed"`
	Complete bool        `json:"listing_complete"`
	// Notes say what could not be told, and why.
	Notes []string `json:"notes,omitempty"`
}

// Reclaimable counts files.
type Reclaimable struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}

// Storage looks at the manifests of all snapshots and at a part of the table's location. What cannot be read becomes a note: it only looks.
func (v *View) Storage(ctx context.Context) Storage {
	var s Storage
	note := func(what string, err error) {
		s.Notes = append(s.Notes, fmt.Sprintf("%s: %v", what, err))
	}
	kept, expired, err := v.byRetention()
	if err != nil {
		note("what an expiry would free is not known", err)
		kept = v.Table.Metadata.Snapshots()
	}
	s.ExpirableSnapshots = len(expired)
	reached := newPaths(maxReached)
	walk := &reach.Walk{Store: v.store}
	if err := walk.Snapshots(ctx, kept, reach.WithEntries, reached.add); err != nil {
		note("storage is not known", err)
		return s
	}
	only := newPaths(maxReached)
	if err := walk.Snapshots(ctx, expired, reach.WithEntries, func(ctx context.Context, f reach.File) error {
		if reached.has(f) {
			return nil
		}
		return only.add(ctx, f)
	}); err != nil {
		note("what an expiry would free is not known", err)
		return s
	}
	s.Expirable = only.sum
	for i := range expired {
		if expired[i].ManifestList != "" {
			s.Expirable.Files++
		}
	}
	if err := v.orphans(ctx, &s, reached, only); err != nil {
		note("orphans are not estimated", err)
	}
	return s
}

// byRetention parts the snapshots by what expire_snapshots would do without arguments.
func (v *View) byRetention() (kept, expired []table.Snapshot, err error) {
	opts, err := decide.ParseSnapshotsOptions(nil, nil, v.Table.Metadata.Properties(), v.now)
	if err != nil {
		return nil, nil, err
	}
	plan, err := v.Table.Expiring(opts, v.now)
	if err != nil {
		return nil, nil, err
	}
	gone := map[int64]bool{}
	for _, id := range plan.ExpiredIDs {
		gone[id] = true
	}
	for _, snap := range v.Table.Metadata.Snapshots() {
		if gone[snap.SnapshotID] {
			expired = append(expired, snap)
		} else {
			kept = append(kept, snap)
		}
	}
	return kept, expired, nil
}

// orphans lists a part of the location and judges it by the rules of remove_orphan_files.
func (v *View) orphans(ctx context.Context, s *Storage, reached ...*paths) error {
	lister, ok := v.store.(store.Lister)
	if !ok {
		return fmt.Errorf("the store of %s does not list", v.Table.Metadata.Location())
	}
	facts := decide.OrphansTable{Properties: v.Table.Metadata.Properties(), Location: v.Table.Metadata.Location()}
	for _, spec := range v.Table.Metadata.PartitionSpecs() {
		for _, f := range spec.Fields() {
			facts.PartitionFields = append(facts.PartitionFields, f.Name)
		}
	}
	rules, err := decide.ParseOrphansOptions(nil, facts, v.now)
	if err != nil {
		return err
	}
	roots, err := reach.Roots(v.Table.Metadata, v.Table.Pointer.MetadataLocation)
	if err != nil {
		return err
	}
	for _, f := range roots {
		if err := reached[0].add(ctx, f); err != nil {
			return err
		}
	}
	met, total := int64(0), int64(0)
	for _, set := range reached {
		total += set.sum.Files
	}
	s.Complete = true
	for info, err := range lister.List(ctx, store.Join(rules.Location, ""), store.ListOptions{}) {
		if err != nil {
			return err
		}
		if s.Listed == maxListed {
			s.Complete = false
			break
		}
		s.Listed++
		f, err := reach.NewFile(info.Location, reach.Listed, info.SizeBytes, info.ModifiedAt.UnixMilli())
		if err != nil {
			return err
		}
		switch {
		case reached[0].has(f), reached[1].has(f):
			met++
		case rules.Skip(decide.Listed{Location: info.Location, SizeBytes: info.SizeBytes, ModifiedAtMS: f.ModifiedAtMS}) == "":
			s.Orphans.Files++
			s.Orphans.Bytes += info.SizeBytes
		}
	}
	if !s.Complete && met > 0 {
		scale := float64(total) / float64(met)
		s.Orphans = Reclaimable{Files: int64(float64(s.Orphans.Files) * scale), Bytes: int64(float64(s.Orphans.Bytes) * scale)}
	}
	return nil
}

// paths is a bounded set of files with the sum of their sizes.
type paths struct {
	mu    sync.Mutex
	files map[string]struct{}
	limit int
	sum   Reclaimable
}

func newPaths(limit int) *paths { return &paths{files: map[string]struct{}{}, limit: limit} }

// add implements reach.Sink.
func (p *paths) add(_ context.Context, f reach.File) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.files[f.Path()]; known {
		return nil
	}
	if len(p.files) == p.limit {
		return fmt.Errorf("the table has more than %d files: ask by a dry run of the job", p.limit)
	}
	p.files[strings.Clone(f.Path())] = struct{}{}
	p.sum.Files++
	p.sum.Bytes += max(0, f.SizeBytes)
	return nil
}

func (p *paths) has(f reach.File) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, known := p.files[f.Path()]
	return known
}
