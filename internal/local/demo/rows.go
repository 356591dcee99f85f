package demo

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// row is one event of a web shop.
type row struct {
	id     int64
	at     time.Time
	user   string
	page   string
	amount float64
	// bought says that amount is set; it is null else.
	bought bool
}

// schema is the table's schema; field IDs are assigned anew when the table is made, in this order.
func schema() *iceberg.Schema {
	return iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "event_id", Type: iceberg.PrimitiveTypes.Int64, Required: true},
		iceberg.NestedField{ID: 2, Name: "event_at", Type: iceberg.PrimitiveTypes.TimestampTz, Required: true},
		iceberg.NestedField{ID: 3, Name: "user_id", Type: iceberg.PrimitiveTypes.String, Required: true},
		iceberg.NestedField{ID: 4, Name: "page", Type: iceberg.PrimitiveTypes.String},
		iceberg.NestedField{ID: 5, Name: "amount", Type: iceberg.PrimitiveTypes.Float64},
	)
}

// spec partitions by day.
func spec() *iceberg.PartitionSpec {
	s := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{2}, FieldID: 1000, Name: "event_day", Transform: iceberg.DayTransform{}})
	return &s
}

// makeRows invents rows with times spread over the span that ends at end. Some have no page, most have no amount.
func makeRows(rng *rand.Rand, firstID int64, count int, end time.Time, span time.Duration) []row {
	pages := []string{"/", "/search", "/product/snow-shovel", "/product/ice-axe", "/product/crampons", "/cart", "/checkout", "/account"}
	rows := make([]row, count)
	for i := range rows {
		r := row{
			id: firstID + int64(i), at: end.Add(-time.Duration(rng.Int64N(int64(span)))).Truncate(time.Microsecond),
			user: fmt.Sprintf("user-%05d", rng.IntN(20_000)),
		}
		if page := rng.IntN(len(pages) + 1); page < len(pages) {
			r.page = pages[page]
		}
		if rng.IntN(20) == 0 {
			r.bought, r.amount = true, float64(rng.IntN(50_000))/100
		}
		rows[i] = r
	}
	return rows
}

// record makes an arrow record of rows in the table's schema.
func record(current *iceberg.Schema, rows []row) (arrow.RecordBatch, error) {
	arrowSchema, err := table.SchemaToArrowSchema(current, nil, true, false)
	if err != nil {
		return nil, fmt.Errorf("convert schema: %w", err)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrowSchema)
	defer b.Release()
	ids, times, users := b.Field(0).(*array.Int64Builder), b.Field(1).(*array.TimestampBuilder), b.Field(2).(*array.StringBuilder)
	pages, amounts := b.Field(3).(*array.StringBuilder), b.Field(4).(*array.Float64Builder)
	for _, r := range rows {
		ids.Append(r.id)
		times.Append(arrow.Timestamp(r.at.UnixMicro()))
		users.Append(r.user)
		if r.page == "" {
			pages.AppendNull()
		} else {
			pages.Append(r.page)
		}
		if r.bought {
			amounts.Append(r.amount)
		} else {
			amounts.AppendNull()
		}
	}
	return b.NewRecordBatch(), nil
}

// deletes makes an arrow record of position deletes in one data file.
func deletes(path string, positions []int64) (arrow.RecordBatch, error) {
	arrowSchema, err := table.SchemaToArrowSchema(iceberg.PositionalDeleteSchema, nil, true, false)
	if err != nil {
		return nil, fmt.Errorf("convert schema: %w", err)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrowSchema)
	defer b.Release()
	for _, p := range positions {
		b.Field(0).(*array.StringBuilder).Append(path)
		b.Field(1).(*array.Int64Builder).Append(p)
	}
	return b.NewRecordBatch(), nil
}

// encode writes a record as a Parquet file.
func encode(rec arrow.RecordBatch) ([]byte, *metadata.FileMetaData, error) {
	var out bytes.Buffer
	props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd))
	w, err := pqarrow.NewFileWriter(rec.Schema(), &out, props, pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, nil, fmt.Errorf("open Parquet file: %w", err)
	}
	if err := w.Write(rec); err != nil {
		return nil, nil, fmt.Errorf("write Parquet file: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, nil, fmt.Errorf("close Parquet file: %w", err)
	}
	footer, err := w.FileMetadata()
	if err != nil {
		return nil, nil, fmt.Errorf("read footer back: %w", err)
	}
	return out.Bytes(), footer, nil
}
