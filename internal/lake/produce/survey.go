package produce

import (
	"context"
	"fmt"
	"iter"
	"math"
	"sync"

	"github.com/apache/iceberg-go"
	"golang.org/x/sync/errgroup"

	"firn/internal/lake"
	"firn/internal/lake/manifest"
	"firn/internal/store"
)

// manifestReaders bounds how many manifests are read at once. A decoded manifest of the target size takes about 80 MB.
const manifestReaders = 4

// Question is what a survey shall find out.
type Question struct {
	// Paths are data files, spelled as in their entries, whose live entries are wanted. They do not count for the minimum sequence numbers.
	Paths map[string]bool
	// Targets are data files to which position deletes point, in the form of lake.SameFile: which of them are live?
	Targets map[string]bool
}

// Survey is what one pass over the live data entries of a head told.
type Survey struct {
	// Found are the live entries of the wanted paths, without statistics. More than one for a path is a fault of the table.
	Found map[string][]lake.Entry
	// Live are the targets that are live, the wanted paths among them.
	Live map[string]bool
	// Files counts the live data files.
	Files int64

	asked  map[string]bool
	lowest map[scope]int64
}

// scope is a partition of a spec.
type scope struct {
	spec int
	key  string
}

// Look reads the live entries of all data manifests once, without statistics.
func Look(ctx context.Context, st store.Reader, t *lake.Table, manifests []iceberg.ManifestFile, q Question) (*Survey, error) {
	return (&Surveyor{Store: st}).Look(ctx, t, manifests, q)
}

// Surveyor makes surveys of one head after the other for the attempts of one commit. It reads a manifest once: a later survey costs only the
// manifests that are new. It is not safe for concurrent use.
type Surveyor struct {
	Store store.Reader

	first *Question
	known map[listed]*Survey
	memo  manifest.Memo
}

// listed is a manifest with what its list says of it and its entries inherit.
type listed struct {
	path       string
	sequence   int64
	firstRowID int64
}

func listedAs(m iceberg.ManifestFile) listed {
	l := listed{path: m.FilePath(), sequence: m.SequenceNum(), firstRowID: -1}
	if id := m.FirstRowID(); id != nil {
		l.firstRowID = *id
	}
	return l
}

// Look surveys a head. The paths of the question must be the first survey's; its targets may be others, but only the first survey's are answered.
func (s *Surveyor) Look(ctx context.Context, t *lake.Table, manifests []iceberg.ManifestFile, q Question) (*Survey, error) {
	if s.first == nil {
		s.first = &q
	}
	out := &Survey{Found: map[string][]lake.Entry{}, Live: map[string]bool{}, asked: s.first.Targets, lowest: map[scope]int64{}}
	known := map[listed]*Survey{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(manifestReaders)
	for _, m := range manifests {
		if m.ManifestContent() != iceberg.ManifestContentData {
			continue
		}
		if part := s.known[listedAs(m)]; part != nil {
			mu.Lock()
			known[listedAs(m)] = part
			out.merge(part)
			mu.Unlock()
			continue
		}
		spec := t.Metadata.PartitionSpecByID(int(m.PartitionSpecID()))
		if spec == nil {
			return nil, fmt.Errorf("manifest %s has unknown partition spec %d: %w", m.FilePath(), m.PartitionSpecID(), lake.ErrTableFault)
		}
		group.Go(func() error {
			part := &Survey{Found: map[string][]lake.Entry{}, Live: map[string]bool{}, lowest: map[scope]int64{}}
			if err := part.read(s.entries(ctx, m), *spec, *s.first); err != nil {
				return fmt.Errorf("survey the head: %w", err)
			}
			mu.Lock()
			defer mu.Unlock()
			known[listedAs(m)] = part
			out.merge(part)
			return nil
		})
	}
	err := group.Wait()
	if err == nil {
		s.known = known // what is listed no more is forgotten
	}
	return out, err
}

// entries streams the live entries of a manifest.
func (s *Surveyor) entries(ctx context.Context, m iceberg.ManifestFile) iter.Seq2[lake.Entry, error] {
	return lake.Entries(ctx, s.Store, m, lake.EntryOptions{WithoutStats: true, Memo: &s.memo})
}

func (s *Survey) read(entries iter.Seq2[lake.Entry, error], spec iceberg.PartitionSpec, q Question) error {
	for e, err := range entries {
		if err != nil {
			return err
		}
		s.Files++
		path := e.File.FilePath()
		if len(q.Targets) > 0 {
			if same := lake.SameFile(path); q.Targets[same] {
				s.Live[same] = true
			}
		}
		if q.Paths[path] {
			s.Found[path] = append(s.Found[path], e)
			continue
		}
		key, err := lake.PartitionKey(spec, e.File.Partition())
		if err != nil {
			return fmt.Errorf("%s: %w", e, err)
		}
		s.lower(scope{e.SpecID, key}, e.DataSequence)
	}
	return nil
}

func (s *Survey) merge(part *Survey) {
	s.Files += part.Files
	for path, entries := range part.Found {
		s.Found[path] = append(s.Found[path], entries...)
	}
	for path := range part.Live {
		s.Live[path] = true
	}
	for at, sequence := range part.lowest {
		s.lower(at, sequence)
	}
}

func (s *Survey) lower(at scope, sequence int64) {
	if before, ok := s.lowest[at]; !ok || sequence < before {
		s.lowest[at] = sequence
	}
}

// lowestOfAll is the lowest data sequence number of all scopes, math.MaxInt64 when there is no data file.
func lowestOfAll(lowest map[scope]int64) int64 {
	least := int64(math.MaxInt64)
	for _, sequence := range lowest {
		least = min(least, sequence)
	}
	return least
}
