package source

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"firn/internal/parquet/column"
)

const (
	// batchLevels and batchBytes bound a batch: whichever is reached first. A single row is never cut.
	batchLevels = 16 << 10
	batchBytes  = 4 << 20
)

// Scan yields the column of one row group from row from on, until row to, both counted in the file, in batches of whole rows. The batch and
// what its values point to are only valid during the call of yield. A column that ends early or is longer than its row group is unreadable.
func (f *File) Scan(group, col int, rows column.Run, yield func(*column.Batch) error) error {
	g := f.Groups[group]
	if rows.From < g.First || rows.To > g.First+g.Rows || rows.From > rows.To {
		return fmt.Errorf("scan rows %d to %d of row group %d of %s: out of range", rows.From, rows.To, group, f.Location)
	}
	defer f.objects.release()
	var callback error
	var fault any
	err := guard(func() error {
		s, err := f.open(group, col, g, rows)
		if err != nil {
			return err
		}
		s.yield = func(b *column.Batch) (err error) {
			defer func() {
				if fault = recover(); fault != nil {
					err = errors.New("panic in the consumer of a column")
				}
				callback = err
			}()
			return yield(b)
		}
		return s.walk()
	})
	if fault != nil {
		panic(fault) // The consumer's fault, not the file's.
	}
	if callback != nil {
		return callback
	}
	return f.classify(fmt.Sprintf("read column %s of", f.Schema.Column(col).Path()), err)
}

func (f *File) open(group, col int, g Group, rows column.Run) (*scanner, error) {
	rg := f.reader.RowGroup(group)
	meta, err := rg.MetaData().ColumnChunk(col)
	if err != nil {
		return nil, err
	}
	start, length := span(meta)
	f.objects.limit = start + length
	s := &scanner{group: g, rows: rows, batch: batchLevels, descr: f.Schema.Column(col)}
	if ours(s.descr, meta) {
		s.walk = func() error { return f.decode(s, group, col, meta) }
		return s, nil
	}
	chunk, err := rg.Column(col)
	if err != nil {
		return nil, err
	}
	if chunk == nil {
		return nil, errors.New("unknown physical type")
	}
	s.chunk = chunk
	s.walk = func() error { return errors.Join(s.run(), chunk.Close()) }
	if n := meta.NumValues(); n > 0 {
		average := max(meta.TotalUncompressedSize()/n, 1)
		s.batch = max(min(batchBytes/average, batchLevels, n), 1)
	}
	return s, nil
}

// scanner walks one column chunk.
type scanner struct {
	// walk reads it; chunk is arrow-go's reader, nil when pages are decoded by package chunk.
	walk  func() error
	chunk file.ColumnChunkReader
	descr *schema.Column
	group Group
	rows  column.Run
	batch int64
	yield func(*column.Batch) error
	// next is the position of the first row of pending.
	next    int64
	pending column.Batch
	out     column.Batch
}

func (s *scanner) run() error {
	s.next = s.group.First
	var err error
	switch c := s.chunk.(type) {
	case *file.BooleanColumnChunkReader:
		err = scan(s, c, func(v *column.Values) *[]bool { return &v.Bool })
	case *file.Int32ColumnChunkReader:
		err = scan(s, c, func(v *column.Values) *[]int32 { return &v.Int32 })
	case *file.Int64ColumnChunkReader:
		err = scan(s, c, func(v *column.Values) *[]int64 { return &v.Int64 })
	case *file.Int96ColumnChunkReader:
		err = scan(s, c, func(v *column.Values) *[]parquet.Int96 { return &v.Int96 })
	case *file.Float32ColumnChunkReader:
		err = scan(s, c, func(v *column.Values) *[]float32 { return &v.Float })
	case *file.Float64ColumnChunkReader:
		err = scan(s, c, func(v *column.Values) *[]float64 { return &v.Double })
	case *file.ByteArrayColumnChunkReader:
		err = scan(s, c, func(v *column.Values) *[]parquet.ByteArray { return &v.Bytes })
	case *file.FixedLenByteArrayColumnChunkReader:
		err = scan(s, c, func(v *column.Values) *[]parquet.FixedLenByteArray { return &v.Fixed })
	default:
		return errors.New("unknown physical type")
	}
	if err != nil {
		return err
	}
	return s.ended()
}

// ended checks that the column ended with its row group.
func (s *scanner) ended() error {
	if end := s.group.First + s.group.Rows; s.rows.To == end && s.next != end {
		return fmt.Errorf("the column has %d rows, its row group %d", s.next-s.group.First, s.group.Rows)
	}
	return nil
}

// typedReader is what arrow-go's column chunk readers have in common.
type typedReader[T any] interface {
	HasNext() bool
	Err() error
	ReadBatch(batchSize int64, values []T, defLevels, repLevels []int16) (int64, int, error)
	ReadBatchInPage(batchSize int64, values []T, defLevels, repLevels []int16) (int64, int, error)
}

// scan reads batches until the wanted rows are done. A column without repetition is read page by page, so that byte values need no copy; with
// repetition a row may span pages, so arrow-go copies them and an unfinished row is carried to the next round.
func scan[T any](s *scanner, r typedReader[T], slot func(*column.Values) *[]T) error {
	var def, rep []int16
	if s.descr.MaxDefinitionLevel() > 0 {
		def = make([]int16, s.batch)
	}
	if s.descr.MaxRepetitionLevel() > 0 {
		rep = make([]int16, s.batch)
	}
	values := make([]T, s.batch)
	for s.next < s.rows.To && r.HasNext() {
		read := r.ReadBatchInPage
		if rep != nil {
			read = r.ReadBatch
		}
		levels, n, err := read(s.batch, values, def, rep)
		if err != nil {
			return err
		}
		if levels == 0 {
			return errors.Join(errors.New("a page without values"), r.Err())
		}
		b := column.Batch{Levels: int(levels)}
		*slot(&b.Values) = values[:n]
		if def != nil {
			b.Def = def[:levels]
		}
		if rep != nil {
			b.Rep = rep[:levels]
		}
		if err := s.checked(&b); err != nil {
			return err
		}
		if rep == nil {
			b.Rows = int(levels)
			err = s.emit(&b)
		} else {
			err = s.carry(&b, false)
		}
		if err != nil {
			return err
		}
	}
	if err := r.Err(); err != nil {
		return err
	}
	if rep != nil && s.next < s.rows.To {
		return s.carry(&column.Batch{}, true)
	}
	return nil
}

// checked compares levels and values, so that damage is not carried on.
func (s *scanner) checked(b *column.Batch) error {
	want := b.Levels
	if len(b.Def) > 0 {
		want = 0
		top := s.descr.MaxDefinitionLevel()
		for _, d := range b.Def {
			if d > top || d < 0 {
				return fmt.Errorf("definition level %d of at most %d", d, top)
			}
			if d == top {
				want++
			}
		}
	}
	for _, r := range b.Rep {
		if top := s.descr.MaxRepetitionLevel(); r > top || r < 0 {
			return fmt.Errorf("repetition level %d of at most %d", r, top)
		}
	}
	if n := b.Len(); n != want {
		return fmt.Errorf("a page holds %d values, its levels say %d", n, want)
	}
	return nil
}

// carry adds b to the pending levels and emits the rows that are complete; last says that no more comes.
func (s *scanner) carry(b *column.Batch, last bool) error {
	p := &s.pending
	p.Levels += b.Levels
	p.Def = append(p.Def, b.Def...)
	p.Rep = append(p.Rep, b.Rep...)
	p.Append(b.Values)
	if p.Levels == 0 {
		return nil
	}
	if p.Rep[0] != 0 {
		return errors.New("the first row does not start at repetition level 0")
	}
	cut, rows := 0, 0
	for i, r := range p.Rep {
		if r == 0 {
			rows++
			cut = i
		}
	}
	if last {
		cut = p.Levels
	} else {
		rows--
	}
	if rows == 0 {
		return nil
	}
	done := *p
	present := cut
	if len(p.Def) > 0 {
		present = 0
		for _, d := range p.Def[:cut] {
			if d == s.descr.MaxDefinitionLevel() {
				present++
			}
		}
		done.Def = p.Def[:cut]
	}
	total := p.Len()
	done.Levels, done.Rows, done.Rep, done.Values = cut, rows, p.Rep[:cut], p.Slice(0, present)
	if err := s.emit(&done); err != nil {
		return err
	}
	rest := column.Batch{Levels: p.Levels - cut}
	if len(p.Def) > 0 {
		rest.Def = append(rest.Def, p.Def[cut:]...)
	}
	rest.Rep = append(rest.Rep, p.Rep[cut:]...)
	rest.Append(p.Slice(present, total))
	s.pending = rest
	return nil
}

// emit cuts the batch to the wanted rows.
func (s *scanner) emit(b *column.Batch) error {
	b.First = s.next
	s.next += int64(b.Rows)
	if end := s.group.First + s.group.Rows; s.next > end {
		return fmt.Errorf("the column has more than the %d rows of its row group", s.group.Rows)
	}
	from, to := max(b.First, s.rows.From), min(s.next, s.rows.To)
	if from >= to {
		return nil
	}
	if from == b.First && to == s.next {
		return s.yield(b)
	}
	s.out.Reset()
	b.Keep(&s.out, []column.Run{{From: from, To: to}}, s.descr.MaxDefinitionLevel())
	return s.yield(&s.out)
}
