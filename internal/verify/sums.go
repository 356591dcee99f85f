package verify

import (
	"context"
	"sync"
)

// buckets is into how many parts row hashes are sorted: rows are looked at again only in those whose sums differ.
const buckets = 4096

func bucketOf(hash uint64) int { return int(hash >> 52) }

// bucket sums the live rows whose hashes begin alike; dead counts deleted ones.
type bucket struct {
	sum
	rows, dead int64
}

// side is everything that is known of one snapshot's part after one pass.
type side struct {
	rows    int64
	buckets []bucket
	columns []columnSum
	// lineage sums rows together with their lineage.
	lineage sum
}

// sums are both sides.
type sums struct{ before, after side }

// sum reads both sides once.
func (r *reader) sum(ctx context.Context) (*sums, error) {
	out := &sums{}
	for _, one := range []struct {
		files []liveFile
		into  *side
	}{{r.before, &out.before}, {r.after, &out.after}} {
		one.into.buckets, one.into.columns = make([]bucket, buckets), make([]columnSum, len(r.target.Layout.Leaves))
		var mu sync.Mutex
		err := r.each(ctx, one.files, func(c *chunk) error {
			mu.Lock()
			defer mu.Unlock()
			one.into.add(c)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *side) add(c *chunk) {
	for i, h := range c.hashes {
		b := &s.buckets[bucketOf(h)]
		if !c.live[i] {
			b.dead++
			continue
		}
		s.rows++
		b.rows++
		b.add(h)
		if c.lineage != nil {
			s.lineage.add(mix(h ^ c.lineage[i]))
		}
	}
	for i := range c.columns {
		s.columns[i].merge(c.columns[i].sum)
		s.columns[i].nulls += c.columns[i].nulls
	}
}

// report compares the sides.
func (s *sums) report(r *reader, out *Report) {
	out.RowsBefore, out.RowsAfter = s.before.rows, s.after.rows
	out.Verdict = Equal
	if len(s.differing()) > 0 {
		out.Verdict = Different
	}
	for i, leaf := range r.target.Layout.Leaves {
		if lineage(leaf) {
			continue
		}
		out.ColumnsCompared++
		if b, a := s.before.columns[i], s.after.columns[i]; b != a {
			out.Columns = append(out.Columns, Column{FieldID: leaf.FieldID, Name: leaf.Path, NullsBefore: b.nulls, NullsAfter: a.nulls})
		}
	}
	if r.target.Layout.Lineage && len(r.before)+len(r.after) > 0 {
		out.RowLineage = "kept"
		if s.before.lineage != s.after.lineage {
			out.RowLineage = "changed"
		}
	}
}

// differing are the buckets whose rows differ.
func (s *sums) differing() []int {
	var out []int
	for i, b := range s.before.buckets {
		if a := s.after.buckets[i]; a.rows != b.rows || a.sum != b.sum {
			out = append(out, i)
		}
	}
	return out
}
