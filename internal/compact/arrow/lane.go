package arrow

import (
	"context"
	"fmt"

	"firn/internal/compact/output"
	"firn/internal/parquet/column"
)

// share is what one input gives to a lane.
type share struct {
	input int
	rows  selection
}

// segment is a run of rows of one row group of an input that goes into one output row group.
type segment struct {
	input *input
	group int
	rows  column.Run
	sel   selection
	kept  int64
	bytes int64 // Estimated bytes of the kept rows in the output.
}

// lane writes the rows of one partition, input after input, into outputs of at most the wanted size.
type lane struct {
	*rewrite
	partition map[int]any
	shares    []share
	// next is the share to open next; ready are segments that are cut already.
	next  int
	ready []segment
	out   *output.File
	// ratio is output bytes per estimated byte, learnt from finished row groups.
	ratio float64
}

// Sizes that steer the cutting.
const (
	// lastPart is the share of an output's size below which no further row group is begun: 1/lastPart.
	lastPart = 20
	// smallestCut is the fewest rows that a segment is cut to.
	smallestCut = 1000
)

func (l *lane) run(ctx context.Context) error {
	l.ratio = 1
	defer func() { l.out.Abort(ctx, l.log) }()
	for {
		group, err := l.fill(ctx)
		if err != nil {
			return err
		}
		if len(group) == 0 {
			break
		}
		if l.out == nil {
			if l.out, err = l.create(ctx, l.partition); err != nil {
				return err
			}
		}
		if err := l.write(ctx, group); err != nil {
			return fmt.Errorf("write output %s: %w", l.out.Location, err)
		}
		l.release()
		if l.room() <= 0 {
			if err := l.roll(ctx); err != nil {
				return err
			}
		}
	}
	if l.out == nil {
		return nil
	}
	return l.roll(ctx)
}

// roll finishes the open output.
func (l *lane) roll(ctx context.Context) error {
	out := l.out
	l.out = nil
	return l.finish(ctx, out)
}

// room is how many bytes the open output may still take, 0 when the rest is not worth a row group.
func (l *lane) room() int64 {
	limit := l.job.MaxOutputFileSizeBytes
	if limit <= 0 {
		return l.job.Writer.RowGroupBytes
	}
	if l.out == nil {
		return limit
	}
	room := limit - l.out.SizeBytes
	if room <= limit/lastPart {
		return 0
	}
	return room
}

// fill gathers the segments of the next output row group: until its size is reached, or the inputs that it needs are all that may be held.
func (l *lane) fill(ctx context.Context) ([]segment, error) {
	target := max(min(l.job.Writer.RowGroupBytes, l.room()), 1)
	var group []segment
	var size int64
	for size < target {
		if len(l.ready) == 0 {
			more, err := l.more(ctx, len(group) > 0)
			if err != nil {
				return nil, err
			}
			if !more {
				break
			}
		}
		s := l.ready[0]
		bytes := l.estimate(s)
		switch room := target - size; {
		case bytes <= room+target/10:
			l.ready = l.ready[1:]
		case size > target/2 && bytes < target:
			return group, nil // A whole segment fits the next row group: do not cut it.
		default:
			var rest segment
			if s, rest = cut(s, float64(room)/float64(bytes)); rest.kept == 0 {
				l.ready = l.ready[1:]
			} else {
				l.ready[0] = rest
			}
		}
		if s.kept > 0 {
			group = append(group, s)
			size += l.estimate(s)
		}
	}
	return group, nil
}

func (l *lane) estimate(s segment) int64 { return max(int64(float64(s.bytes)*l.ratio), 1) }

// cut splits a segment so that about the given part of its rows come first.
func cut(s segment, part float64) (first, rest segment) {
	rows := max(int64(float64(s.rows.To-s.rows.From)*part), smallestCut)
	if s.rows.From+rows >= s.rows.To {
		return s, segment{}
	}
	at := s.rows.From + rows
	first, rest = s, s
	first.rows.To, rest.rows.From = at, at
	first.kept = s.sel.countIn(first.rows)
	rest.kept = s.kept - first.kept
	first.bytes = s.bytes * first.kept / s.kept
	rest.bytes = s.bytes - first.bytes
	return first, rest
}

// more opens the next inputs and cuts them into segments. begun says that the row group has rows already: then inputs beyond the held limit
// wait for the next one.
func (l *lane) more(ctx context.Context, begun bool) (bool, error) {
	held := l.held()
	var batch []*input
	var shares []share
	for l.next < len(l.shares) {
		sh := l.shares[l.next]
		in := l.inputs[sh.input]
		if sh.rows.count() == 0 {
			l.next++
			continue
		}
		cost := min(in.FileSizeBytes(), l.wholeBelow(sh))
		if held+cost > l.limits.HeldBytes && (begun || len(batch) > 0) {
			break
		}
		held += cost
		batch, shares = append(batch, in), append(shares, sh)
		l.next++
		if len(batch) == l.limits.FetchConcurrency {
			break
		}
	}
	if len(batch) == 0 {
		return false, nil
	}
	if err := l.openAll(ctx, batch, l.wholeBelow(shares[0])); err != nil {
		return false, err
	}
	for _, sh := range shares {
		l.ready = append(l.ready, segments(l.inputs[sh.input], sh.rows)...)
	}
	return len(l.ready) > 0, nil
}

// wholeBelow keeps an input in memory only if the lane takes most of it; a lane of one partition among many reads ranges instead, so that its
// row groups are not cut short by what is held.
func (l *lane) wholeBelow(sh share) int64 {
	if sh.rows.only != nil && 2*sh.rows.count() < sh.rows.rows {
		return min(l.limits.WholeBelowBytes, 256<<10)
	}
	return l.limits.WholeBelowBytes
}

func segments(in *input, sel selection) []segment {
	var out []segment
	for g, group := range in.file.Groups {
		rows := column.Run{From: group.First, To: group.First + group.Rows}
		kept := sel.countIn(rows)
		if kept == 0 {
			continue
		}
		bytes := int64(float64(group.CompressedBytes) * float64(kept) / float64(group.Rows))
		out = append(out, segment{input: in, group: g, rows: rows, sel: sel, kept: kept, bytes: bytes})
	}
	return out
}

// release closes inputs that no segment waits for.
func (l *lane) release() {
	waiting := make(map[int]bool, len(l.ready))
	for _, s := range l.ready {
		waiting[s.input.index] = true
	}
	for _, in := range l.inputs {
		if in.file != nil && !waiting[in.index] {
			in.close()
		}
	}
}
