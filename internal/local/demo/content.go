package demo

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"firn/internal/lake"
	"firn/internal/store"
)

// Content is what a table's rows hold, whatever their order and whatever files they lie in.
type Content struct {
	Rows int64
	// Digest is the sum over all rows, modulo 2^64, of the first eight bytes of the SHA-256 of the row's values: equal sets of rows have equal sums.
	Digest string
	// Columns are facts by column, in the order of the schema.
	Columns []ColumnFacts
}

// ColumnFacts are facts about one column.
type ColumnFacts struct {
	Name  string
	Nulls int64
	// Min and Max are texts, "" when the column has no value.
	Min, Max string
}

// Differences compares with an earlier content and names what differs; none means that the rows are the same.
func (c Content) Differences(before Content) []string {
	var out []string
	if c.Rows != before.Rows {
		out = append(out, fmt.Sprintf("rows: %d before, %d after", before.Rows, c.Rows))
	}
	if c.Digest != before.Digest {
		out = append(out, fmt.Sprintf("digest: %s before, %s after", before.Digest, c.Digest))
	}
	if len(c.Columns) != len(before.Columns) {
		return append(out, fmt.Sprintf("columns: %d before, %d after", len(before.Columns), len(c.Columns)))
	}
	for i, column := range c.Columns {
		if column != before.Columns[i] {
			out = append(out, fmt.Sprintf("column %s: %+v before, %+v after", column.Name, before.Columns[i], column))
		}
	}
	return out
}

// scan streams all rows of the current snapshot through iceberg-go's scan, deletes applied. The library shares nothing with Firn's own reading,
// so that it can be the judge of Firn's writing.
func scan(ctx context.Context, st store.Reader, t *lake.Table, visit func(arrow.RecordBatch) error) error {
	files := func(ctx context.Context) (iceio.IO, error) { return lake.FileIO(ctx, st), nil }
	reading := table.New(table.Identifier{t.ID.Name}, t.Metadata, t.Pointer.MetadataLocation, files, nil).Scan()
	_, batches, err := reading.ToArrowRecords(ctx)
	if err != nil {
		return fmt.Errorf("scan table %s: %w", t.ID, err)
	}
	for batch, err := range batches {
		if err != nil {
			return fmt.Errorf("scan table %s: %w", t.ID, err)
		}
		err := visit(batch)
		batch.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// scanTime reads all rows once and tells how long that took by the wall clock, and how many there were.
func scanTime(ctx context.Context, st store.Reader, t *lake.Table, now func() time.Time) (time.Duration, int64, error) {
	start, rows := now(), int64(0)
	err := scan(ctx, st, t, func(batch arrow.RecordBatch) error {
		rows += batch.NumRows()
		return nil
	})
	return now().Sub(start), rows, err
}

// content reads all rows and adds them up.
func content(ctx context.Context, st store.Reader, t *lake.Table) (Content, error) {
	var columns []*column
	for _, f := range t.Metadata.CurrentSchema().Fields() {
		columns = append(columns, &column{name: f.Name})
	}
	var c Content
	var sum uint64
	err := scan(ctx, st, t, func(batch arrow.RecordBatch) error {
		if int(batch.NumCols()) != len(columns) {
			return fmt.Errorf("the scan has %d columns, the table %d", batch.NumCols(), len(columns))
		}
		var row []byte
		for i := range int(batch.NumRows()) {
			row = row[:0]
			for n, col := range columns {
				v, err := valueOf(batch.Column(n), i)
				if err != nil {
					return fmt.Errorf("column %s: %w", col.name, err)
				}
				col.add(v)
				row = v.appendTo(row)
			}
			hash := sha256.Sum256(row)
			sum += binary.BigEndian.Uint64(hash[:8])
			c.Rows++
		}
		return nil
	})
	c.Digest = fmt.Sprintf("%016x", sum)
	for _, col := range columns {
		c.Columns = append(c.Columns, col.facts())
	}
	return c, err
}

// value is one value in the form in which values are compared: a number, or a text.
type value struct {
	null    bool
	isText  bool
	isFloat bool
	number  int64
	float   float64
	text    string
}

func valueOf(column arrow.Array, i int) (value, error) {
	if column.IsNull(i) {
		return value{null: true}, nil
	}
	switch a := column.(type) {
	case *array.Int64:
		return value{number: a.Value(i)}, nil
	case *array.Timestamp:
		return value{number: int64(a.Value(i))}, nil
	case *array.Float64:
		return value{isFloat: true, float: a.Value(i)}, nil
	case *array.String:
		return value{isText: true, text: a.Value(i)}, nil
	case *array.LargeString:
		return value{isText: true, text: a.Value(i)}, nil
	case *array.Dictionary:
		return valueOf(a.Dictionary(), a.GetValueIndex(i))
	}
	return value{}, fmt.Errorf("values of %s are not compared here", column.DataType())
}

// appendTo spells the value so that different rows have different spellings.
func (v value) appendTo(row []byte) []byte {
	switch {
	case v.null:
		return append(row, 'n')
	case v.isText:
		row = binary.BigEndian.AppendUint64(append(row, 't'), uint64(len(v.text)))
		return append(row, v.text...)
	case v.isFloat:
		return binary.BigEndian.AppendUint64(append(row, 'f'), math.Float64bits(v.float))
	}
	return binary.BigEndian.AppendUint64(append(row, 'i'), uint64(v.number)) // the bits are what counts
}

func (v value) compare(w value) int {
	return cmp.Or(strings.Compare(v.text, w.text), cmp.Compare(v.float, w.float), cmp.Compare(v.number, w.number))
}

func (v value) String() string {
	switch {
	case v.isText:
		return v.text
	case v.isFloat:
		return fmt.Sprint(v.float)
	}
	return fmt.Sprint(v.number)
}

// column adds up one column.
type column struct {
	name     string
	nulls    int64
	seen     bool
	min, max value
}

func (c *column) add(v value) {
	if v.null {
		c.nulls++
		return
	}
	if v.isText { // an arrow text lives as long as its batch
		v.text = strings.Clone(v.text)
	}
	if !c.seen || v.compare(c.min) < 0 {
		c.min = v
	}
	if !c.seen || v.compare(c.max) > 0 {
		c.max = v
	}
	c.seen = true
}

func (c *column) facts() ColumnFacts {
	f := ColumnFacts{Name: c.name, Nulls: c.nulls}
	if c.seen {
		f.Min, f.Max = c.min.String(), c.max.String()
	}
	return f
}
