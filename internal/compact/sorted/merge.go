package sorted

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"firn/internal/compact/output"
	"firn/internal/parquet/chunk"
	"firn/internal/parquet/encoding"
)

// merge joins the sorted runs of a part and writes them to outputs.
type merge struct {
	*sorting
	runs []*run
	tree *tree
	// keys are the streams of keys; cursors[c][r] is how far column c of run r was written.
	keys    []stream
	cursors [][]int64
	// rows are those not written yet; perFile is how many an output gets.
	rows, perFile int64
	bytesPerRow   float64
	out           *output.File
	// lead is the partition of the open output, as its part of the keys.
	lead []byte
	seq  []uint16
}

// lastPart is the share of an output's size below which no further row group is begun: 1/lastPart.
const lastPart = 20

// merge writes a part in order. files is into how many outputs it is divided.
func (s *sorting) merge(ctx context.Context, runs []*run, inputs []*input, files int) (err error) {
	m := &merge{sorting: s, runs: runs}
	var size, all int64
	for _, in := range inputs {
		size += in.FileSizeBytes()
		all += in.Count()
	}
	for _, r := range runs {
		m.rows += r.window.kept
	}
	if m.rows == 0 {
		return nil
	}
	m.bytesPerRow = max(float64(size)/float64(all), 0.01)
	m.perFile = (m.rows + int64(max(files, 1)) - 1) / int64(max(files, 1))
	m.cursors = make([][]int64, len(s.forms))
	for i := range m.cursors {
		m.cursors[i] = make([]int64, len(runs))
	}
	if err := m.start(); err != nil {
		return err
	}
	defer func() {
		if m.out != nil {
			m.out.Abort(ctx, s.log)
		}
	}()
	for m.rows > 0 {
		if err := m.rowGroup(ctx); err != nil {
			return err
		}
	}
	return m.roll(ctx)
}

// buffer is how much of each run is read at once.
func (m *merge) buffer() int {
	return int(max(min(m.limits.MergeBytes/int64(len(m.runs)), 1<<20), 4<<10))
}

// start opens the keys.
func (m *merge) start() error {
	m.keys = make([]stream, len(m.runs))
	leaves := make([]leaf, len(m.runs))
	for i, r := range m.runs {
		m.keys[i].open(m.spill, r.keys, 0, m.buffer())
		if err := m.advance(&leaves[i], i); err != nil {
			return err
		}
	}
	m.tree = newTree(leaves)
	return nil
}

// advance brings the next key of a run to its leaf.
func (m *merge) advance(l *leaf, run int) error {
	if m.keys[run].left() == 0 {
		*l = leaf{done: true}
		return nil
	}
	key, err := m.keys[run].key(m.keyWidth)
	if err != nil {
		return err
	}
	l.key, l.prefix = key, prefixOf(key)
	return nil
}

// take finds the runs of the next rows, up to n of them, and up to the first row of another partition.
func (m *merge) take(n int64) error {
	m.seq = m.seq[:0]
	leading := m.encoder.Leading() > 0
	for int64(len(m.seq)) < n {
		first := m.tree.first()
		l := &m.tree.leaves[first]
		if leading && !bytes.Equal(m.encoder.Lead(l.key), m.lead) {
			return nil
		}
		m.seq = append(m.seq, uint16(first))
		if err := m.advance(l, first); err != nil {
			return err
		}
		m.tree.update()
	}
	return nil
}

// open starts an output if there is none for the next row.
func (m *merge) open(ctx context.Context) error {
	partition := m.job.Partition
	if m.job.Repartition {
		lead := m.encoder.Lead(m.tree.leaves[m.tree.first()].key)
		if m.out != nil && !bytes.Equal(lead, m.lead) {
			if err := m.roll(ctx); err != nil {
				return err
			}
		}
		m.lead = append(m.lead[:0], lead...)
		partition = m.partitions.values(m.encoder, lead)
	}
	if m.out != nil && m.room() <= 0 {
		if err := m.roll(ctx); err != nil {
			return err
		}
	}
	if m.out != nil {
		return nil
	}
	create := output.Create
	if output.Paged(encoding.Codec(m.job.Writer.Codec)) {
		create = output.CreatePages
	}
	var err error
	m.out, err = create(ctx, m.store, m.job, len(m.outputs), partition)
	return err
}

// room is how many rows the open output takes, 0 when it is full or the rest is not worth a row group.
func (m *merge) room() int64 {
	n := m.perFile - m.out.Rows
	if limit := m.job.MaxOutputFileSizeBytes; limit > 0 {
		left := limit - m.out.SizeBytes
		if left <= limit/lastPart {
			return 0
		}
		n = min(n, max(int64(float64(left)/m.bytesPerRow), 1))
	}
	return n
}

// rowGroup writes the next row group.
func (m *merge) rowGroup(ctx context.Context) error {
	if err := m.open(ctx); err != nil {
		return err
	}
	n := max(int64(float64(m.job.Writer.RowGroupBytes)/m.bytesPerRow), 1)
	if room := m.room(); n+n/10 > room {
		n = room // No small row group is left at the end.
	}
	if err := m.take(min(n, m.rows)); err != nil {
		return err
	}
	before := m.out.SizeBytes
	if err := m.startRowGroup(); err != nil {
		return err
	}
	for i := range m.forms {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.column(i); err != nil {
			return fmt.Errorf("write output %s: %w", m.out.Location, err)
		}
	}
	size, err := m.endRowGroup()
	if err != nil {
		return fmt.Errorf("write output %s: %w", m.out.Location, err)
	}
	m.out.SizeBytes = size
	if err := m.place(); err != nil {
		return err
	}
	rows := int64(len(m.seq))
	m.rows -= rows
	m.out.Rows += rows
	m.bytesPerRow = max(float64(size-before)/float64(rows), 0.01)
	return nil
}

const (
	// batchRows and batchBytes bound what is handed to the writer at once.
	batchRows  = 16 << 10
	batchBytes = 1 << 20
)

func (m *merge) startRowGroup() error {
	if m.out.Pages == nil {
		return m.out.Parquet.StartRowGroup()
	}
	m.out.Pages.StartRowGroup(int64(len(m.seq)))
	return nil
}

func (m *merge) endRowGroup() (int64, error) {
	if m.out.Pages == nil {
		return m.out.Parquet.EndRowGroup()
	}
	return m.out.Pages.EndRowGroup()
}

// column writes one column of a row group: the next record of the run that each row comes from.
func (m *merge) column(i int) error {
	if m.out.Pages == nil {
		return m.batches(i)
	}
	// A dictionary of the group is taken over unless it would be most of the column; else the writer finds out whether one pays.
	d := m.dictionaries[i]
	if d != nil && (m.form(i) != allCodes || 2*d.Len() > len(m.seq)) {
		d = nil
	}
	w, err := m.out.Pages.StartColumn(d)
	if err != nil {
		return err
	}
	if err := m.vectors(i, d != nil, w.Append); err != nil {
		return err
	}
	done, err := m.out.Pages.EndColumn()
	if err != nil {
		return err
	}
	m.sumOut[i] += done.Sum
	m.nullsOut[i] += uint64(done.Nulls)
	return m.out.AddChunk(i, done)
}

// batches writes a column through the arrow writer.
func (m *merge) batches(i int) error {
	f, b := &m.forms[i], &m.scratch.batch
	dst, err := m.out.Parquet.NextColumn()
	if err != nil {
		return err
	}
	return m.vectors(i, false, func(v *chunk.Vector) error {
		sum, err := v.Sum(&f.column, nil)
		if err != nil {
			return err
		}
		m.sumOut[i] += sum
		m.nullsOut[i] += uint64(v.Entries - v.Values)
		if err := toBatch(b, &f.column, v); err != nil {
			return err
		}
		m.out.Metrics.Add(i, b)
		return dst.Write(b)
	})
}

// coding says how the records of a column lie in the runs of a part.
type coding int

const (
	noCodes coding = iota
	allCodes
	someCodes
)

func (m *merge) form(i int) coding {
	coded := 0
	for _, r := range m.runs {
		if r.coded[i] {
			coded++
		}
	}
	switch coded {
	case 0:
		return noCodes
	case len(m.runs):
		return allCodes
	}
	return someCodes
}

// vectors yields the rows of a column of a row group, as indices of the group's dictionary if codes are wanted, else with PLAIN values. A vector
// is only valid during the call of yield.
func (m *merge) vectors(i int, codes bool, yield func(*chunk.Vector) error) error {
	f, d, v := &m.forms[i], m.dictionaries[i], &m.scratch.converted
	kind, coded := m.form(i), codedForm(m.forms[i])
	streams := m.scratch.streamsOf(len(m.runs))
	for r, run := range m.runs {
		streams[r].open(m.spill, run.columns[i], m.cursors[i][r], m.buffer())
	}
	for at := 0; at < len(m.seq); {
		rows := m.seq[at:min(at+batchRows, len(m.seq))]
		block, n := m.scratch.block[:0], 0
		var err error
		switch {
		case kind == noCodes:
			block, n, err = records(block, streams, f, rows, batchBytes)
		case codes:
			block, n, err = records(block, streams, &coded, rows, batchBytes)
		default:
			block, n, err = m.expanded(block, streams, i, rows)
		}
		if err != nil {
			return err
		}
		m.scratch.block = block
		if codes {
			decodeCodes(v, f, d, block)
		} else {
			m.scratch.plain = f.decode(v, m.scratch.plain, block)
		}
		at += n
		if err := yield(v); err != nil {
			return err
		}
	}
	for r, run := range m.runs {
		m.cursors[i][r] = run.columns[i].length - streams[r].left()
	}
	return nil
}

// expanded is records with codes replaced by their values.
func (m *merge) expanded(dst []byte, streams []stream, i int, rows []uint16) (out []byte, n int, err error) {
	f, coded := &m.forms[i], codedForm(m.forms[i])
	for n < len(rows) && len(dst) < batchBytes {
		run := rows[n]
		if !m.runs[run].coded[i] {
			rec, err := streams[run].record(f)
			if err != nil {
				return dst, n, err
			}
			dst = append(dst, rec...)
		} else {
			rec, err := streams[run].record(&coded)
			if err != nil {
				return dst, n, err
			}
			dst = decoded(dst, f, m.dictionaries[i], rec)
		}
		n++
	}
	return dst, n, nil
}

// place records where the rows of the row group went.
func (m *merge) place() error {
	limit := m.buffer()
	for _, r := range m.seq {
		run := m.runs[r]
		run.buffered = binary.LittleEndian.AppendUint32(run.buffered, uint32(m.placed-m.base))
		m.placed++
		if len(run.buffered) >= limit {
			if err := m.flush(run); err != nil {
				return err
			}
		}
	}
	return nil
}

// roll finishes the open output.
func (m *merge) roll(ctx context.Context) error {
	made, err := m.out.Finish(ctx, m.store)
	if err != nil {
		return err
	}
	m.outputs = append(m.outputs, made)
	m.out = nil
	return nil
}
