package sorted

import (
	"context"
	"encoding/binary"
	"fmt"

	"firn/internal/deletes"
	"firn/internal/handoff"
	"firn/internal/parquet/column"
	"firn/internal/store"
)

// flush spills the places of a run that wait in memory.
func (s *sorting) flush(r *run) error {
	if len(r.buffered) == 0 {
		return nil
	}
	at := s.moves.size
	err := s.moves.write(r.buffered)
	r.places = append(r.places, extent{at: at, length: int64(len(r.buffered))})
	r.buffered = r.buffered[:0]
	return err
}

// finished keeps what the permutation needs of the runs of a part.
func (s *sorting) finished(runs []*run) error {
	for _, r := range runs {
		if err := s.flush(r); err != nil {
			return err
		}
		r.buffered, r.base = nil, s.base
	}
	s.spill.truncate(0)
	s.done = append(s.done, runs...)
	s.base = s.placed
	return nil
}

// permute writes the permutation of the group: run after run, which is source after source.
func (s *sorting) permute(ctx context.Context) error {
	up, err := s.store.Create(ctx, s.job.Permutation, store.WriteOptions{IfAbsent: true, ContentType: "application/octet-stream"})
	if err != nil {
		return fmt.Errorf("create permutation %s: %w", s.job.Permutation, err)
	}
	if err = s.writePermutation(up); err == nil {
		err = up.Commit(ctx)
	}
	if err != nil {
		_ = up.Abort(context.WithoutCancel(ctx))
		return fmt.Errorf("write permutation %s: %w", s.job.Permutation, err)
	}
	return nil
}

func (s *sorting) writePermutation(up store.Upload) error {
	var sources, outputs []handoff.RowCounts
	var rows int64
	for _, in := range s.job.Inputs {
		sources = append(sources, handoff.RowCounts{Path: in.FilePath(), Rows: in.Count()})
		rows += in.Count()
	}
	for _, o := range s.outputs {
		outputs = append(outputs, handoff.RowCounts{Path: o.FilePath(), Rows: o.Count()})
	}
	w := handoff.PermutationTo(up, rows)
	for _, r := range s.done {
		if err := s.placesOf(r, w); err != nil {
			return err
		}
	}
	return w.Close(sources, outputs)
}

// placesOf writes where the rows of a run's window went.
func (s *sorting) placesOf(r *run, w *handoff.PermutationWriter) error {
	if r.window.kept == 0 {
		for _, seg := range r.window.segments {
			if err := deleted(w, seg.rows); err != nil {
				return err
			}
		}
		return nil
	}
	places := make([]int64, r.window.kept) // By the row's number in the window.
	var order stream
	order.open(s.moves, r.order, 0, 64<<10)
	for _, e := range r.places {
		var p stream
		p.open(s.moves, e, 0, 64<<10)
		for p.left() > 0 {
			place, err := p.key(4)
			if err != nil {
				return err
			}
			row, err := order.key(4)
			if err != nil {
				return err
			}
			places[binary.LittleEndian.Uint32(row)] = r.base + int64(binary.LittleEndian.Uint32(place))
		}
	}
	var runs []column.Run
	for _, seg := range r.window.segments {
		runs = deletes.Live(runs[:0], seg.in.Mask, seg.rows)
		at := seg.rows.From
		for _, kept := range runs {
			if err := deleted(w, column.Run{From: at, To: kept.From}); err != nil {
				return err
			}
			n := kept.To - kept.From
			if err := w.Append(places[:n]); err != nil {
				return err
			}
			places, at = places[n:], kept.To
		}
		if err := deleted(w, column.Run{From: at, To: seg.rows.To}); err != nil {
			return err
		}
	}
	return nil
}

// deleted writes rows that are in no output.
func deleted(w *handoff.PermutationWriter, rows column.Run) error {
	const most = 64 << 10
	gone := make([]int64, min(most, rows.To-rows.From))
	for i := range gone {
		gone[i] = handoff.RowDeleted
	}
	for n := rows.To - rows.From; n > 0; n -= most {
		if err := w.Append(gone[:min(most, n)]); err != nil {
			return err
		}
	}
	return nil
}
