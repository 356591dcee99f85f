package deletes

import "firn/internal/parquet/column"

// Live appends to dst the runs of rows that a mask leaves of a range, in order; a nil mask leaves all.
func Live(dst []column.Run, m Mask, rows column.Run) []column.Run {
	from := rows.From
	if m != nil {
		it := m.Iterator()
		it.AdvanceIfNeeded(uint64(from))
		for it.HasNext() && it.PeekNext() < uint64(rows.To) {
			at := int64(it.Next())
			if at > from {
				dst = append(dst, column.Run{From: from, To: at})
			}
			from = at + 1
		}
	}
	if from < rows.To {
		dst = append(dst, column.Run{From: from, To: rows.To})
	}
	return dst
}
