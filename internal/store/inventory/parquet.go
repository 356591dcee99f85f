package inventory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"firn/internal/store"
)

// rowsAtOnce is how many rows of a Parquet file are decoded at a time.
const rowsAtOnce = 256

// parquet reads a Parquet part in ranges.
func (p *Part) parquet(ctx context.Context, src store.Reader, yield func(Object, error) bool) (err error) {
	defer func() {
		if r := recover(); r != nil { // the library panics on some damaged files
			err = faultf("it is damaged: %v", r)
		}
	}()
	in, err := p.open(ctx, src)
	if err != nil {
		return err
	}
	f, err := parquet.OpenFile(ranges{in}, in.size)
	if err != nil {
		return fault(err)
	}
	leaves := f.Schema().Columns()
	columns, kinds := make([]string, len(leaves)), make([]parquet.Node, len(leaves))
	for i, leaf := range leaves {
		columns[i] = strings.ToLower(strings.Join(leaf, "."))
		if found, ok := f.Schema().Lookup(leaf...); ok {
			kinds[i] = found.Node
		}
	}
	at, err := p.fields(columns)
	if err != nil {
		return err
	}
	for _, group := range f.RowGroups() {
		if err := p.rowGroup(group, at, kinds, yield); err != nil {
			return err
		}
	}
	return nil
}

func (p *Part) rowGroup(group parquet.RowGroup, at fields, kinds []parquet.Node, yield func(Object, error) bool) error {
	rows := group.Rows()
	defer rows.Close() //nolint:errcheck // nothing was written
	buf, texts := make([]parquet.Row, rowsAtOnce), make([]string, len(kinds))
	for {
		n, err := rows.ReadRows(buf)
		if err != nil && !errors.Is(err, io.EOF) {
			return fault(err)
		}
		for _, row := range buf[:n] {
			clear(texts)
			for _, v := range row {
				texts[v.Column()] = spell(v, kinds[v.Column()])
			}
			o, wanted, oerr := p.object(at, texts)
			if oerr != nil {
				return oerr
			}
			if wanted && !yield(o, nil) {
				return errStopped
			}
		}
		if err != nil || n == 0 {
			return nil
		}
	}
}

// spell is a value's text. Times are milliseconds since the epoch, whatever their unit is in the file; Spark writes INT96 unless it is told otherwise.
func spell(v parquet.Value, node parquet.Node) string {
	if v.IsNull() {
		return ""
	}
	switch v.Kind() {
	case parquet.Boolean:
		return strconv.FormatBool(v.Boolean())
	case parquet.Int32:
		return strconv.Itoa(int(v.Int32()))
	case parquet.Int64:
		return strconv.FormatInt(v.Int64()/perMilli(node.Type()), 10)
	case parquet.Int96:
		return strconv.FormatInt(int96Millis(v.Int96()), 10)
	case parquet.ByteArray, parquet.FixedLenByteArray:
		return string(v.ByteArray())
	case parquet.Float, parquet.Double:
	}
	return fmt.Sprint(v)
}

// perMilli is how many units of a column of times are a millisecond; 1 for other numbers.
func perMilli(t parquet.Type) int64 {
	if logical := t.LogicalType(); logical != nil {
		if stamp, ok := logical.Value.(*format.TimestampType); ok {
			switch stamp.Unit.Value.(type) {
			case *format.MicroSeconds:
				return 1_000
			case *format.NanoSeconds:
				return 1_000_000
			}
			return 1
		}
	}
	if old := t.ConvertedType(); old != nil && *old == deprecated.TimestampMicros {
		return 1_000
	}
	return 1
}

// int96Millis reads nanoseconds of a day and a Julian day.
func int96Millis(v deprecated.Int96) int64 {
	const epoch = 2_440_588 // the Julian day of 1970-01-01
	nanos := int64(v[1])<<32 | int64(v[0])
	return (int64(v[2])-epoch)*24*time.Hour.Milliseconds() + nanos/1_000_000
}

// ranges reads a file at any place.
type ranges struct{ *file }

// ReadAt implements io.ReaderAt.
func (r ranges) ReadAt(out []byte, off int64) (int, error) {
	data, err := r.src.GetRange(r.ctx, r.part.Location, off, int64(len(out)))
	if err != nil {
		return 0, &readError{fmt.Errorf("read from byte %d: %w", off, err)}
	}
	n := copy(out, data)
	if n < len(out) {
		return n, io.EOF
	}
	return n, nil
}
