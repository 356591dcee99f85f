//go:build interop

package histories

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go"

	"firn/internal/icebergtest"
)

// column is a column of the table. Its ID is ours: it finds values after a rename.
type column struct {
	id   int
	name string
	typ  string
}

// row maps column IDs to values: int64 (whole numbers, days, microseconds), float64, string (texts and decimals), nil.
type row map[int]any

// rows are the rows of a branch or tag by the value of "id", which no two rows share.
type rows map[int64]row

func (r rows) clone() rows {
	out := rows{}
	for id, values := range r {
		out[id] = maps.Clone(values)
	}
	return out
}

// ids returns the rows' IDs, in order.
func (r rows) ids() []int64 { return slices.Sorted(maps.Keys(r)) }

// model is what the table must hold, by our own reckoning.
type model struct {
	rng     *rand.Rand
	columns []column
	refs    map[string]rows // branches
	tags    map[string]rows // by name
	nextID  int64
	nextCol int
	renames int
	version int
	fields  []string // partition fields, as in SQL
}

// columns that no step drops: partitions and sort orders use them.
const (
	colID  = 1
	colCat = 2
	colAt  = 3
)

func newModel(rng *rand.Rand) *model {
	return &model{
		rng: rng, nextID: 1, nextCol: 9, refs: map[string]rows{"main": {}}, tags: map[string]rows{},
		columns: []column{
			{colID, "id", "long"},
			{colCat, "cat", "string"},
			{colAt, "at", "timestamptz"},
			{4, "amount", "decimal(10, 2)"},
			{5, "score", "double"},
			{6, "day", "date"},
			{7, "note", "string"},
			{8, "n", "int"},
		},
	}
}

func (m *model) name(id int) string {
	return m.columns[slices.IndexFunc(m.columns, func(c column) bool { return c.id == id })].name
}

// content is what an engine must find.
func content(columns []column, rs rows) icebergtest.Content {
	var fields []iceberg.NestedField
	for _, c := range columns {
		fields = append(fields, iceberg.NestedField{ID: c.id, Name: c.name, Type: c.iceberg()})
	}
	d := icebergtest.NewDigester(iceberg.NewSchema(0, fields...))
	for _, id := range rs.ids() {
		values := make(icebergtest.Row, len(columns))
		for i, c := range columns {
			values[i] = rs[id][c.id]
		}
		d.Add(values)
	}
	out := d.Content()
	slices.Sort(out.Rows)
	return out
}

func (c column) iceberg() iceberg.Type {
	switch c.typ {
	case "long":
		return iceberg.PrimitiveTypes.Int64
	case "int":
		return iceberg.PrimitiveTypes.Int32
	case "double":
		return iceberg.PrimitiveTypes.Float64
	case "date":
		return iceberg.PrimitiveTypes.Date
	case "timestamptz":
		return iceberg.PrimitiveTypes.TimestampTz
	case "string":
		return iceberg.PrimitiveTypes.String
	}
	var p, s int
	if _, err := fmt.Sscanf(c.typ, "decimal(%d, %d)", &p, &s); err != nil {
		panic("no type " + c.typ)
	}
	return iceberg.DecimalTypeOf(p, s)
}

// sqlType is the type's name in Spark.
func (c column) sqlType() string {
	switch c.typ {
	case "long":
		return "bigint"
	case "timestamptz":
		return "timestamp"
	}
	return c.typ
}

// literal is a value in Spark's SQL.
func (c column) literal(v any) string {
	if v == nil {
		return "CAST(NULL AS " + c.sqlType() + ")"
	}
	switch c.typ {
	case "string":
		return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v.(string)) + "'"
	case "timestamptz":
		return fmt.Sprintf("timestamp_micros(%d)", v)
	case "date":
		return fmt.Sprintf("date_from_unix_date(%d)", v)
	case "double":
		return "CAST('" + strconv.FormatFloat(v.(float64), 'g', -1, 64) + "' AS double)"
	}
	return fmt.Sprintf("CAST('%v' AS %s)", v, c.sqlType())
}

// notes are texts that name mangling, bounds and encodings trip over.
var notes = []string{"", "plain", "it's", `back\slash`, "ünïcödé", "日本語", "😀 beyond the plane", "a\nline", `"quoted"`, "a long text that no bound holds in full, so it is cut"}

// value draws a value; one in eight is null.
func (m *model) value(c column) any {
	if c.id == colID {
		m.nextID++
		return m.nextID - 1
	}
	if m.rng.IntN(8) == 0 {
		return nil
	}
	switch {
	case c.id == colCat:
		return string(rune('a' + m.rng.IntN(4)))
	case c.typ == "string":
		return notes[m.rng.IntN(len(notes))] + strconv.Itoa(m.rng.IntN(5))
	case c.typ == "timestamptz":
		return int64(1_600_000_000_000_000) + m.rng.Int64N(40*86_400_000_000)
	case c.typ == "date":
		return int64(18_000) + m.rng.Int64N(50)
	case c.typ == "double":
		return [...]float64{-1.5, 0, 0.25, 1e300, 3.5}[m.rng.IntN(5)]
	case c.typ == "int":
		return int64(m.rng.IntN(2000) - 1000)
	case c.typ == "long":
		return m.rng.Int64() - m.rng.Int64()
	}
	return fmt.Sprintf("%d.%02d", m.rng.IntN(2000)-1000, m.rng.IntN(100))
}

// draw makes rows with new IDs.
func (m *model) draw(n int) []row {
	out := make([]row, n)
	for i := range out {
		out[i] = row{}
		for _, c := range m.columns {
			out[i][c.id] = m.value(c)
		}
	}
	return out
}

// again draws new values for the rows with these IDs.
func (m *model) again(ids []int64) []row {
	out := m.draw(len(ids))
	for i, id := range ids {
		out[i][colID] = id
	}
	return out
}

func (r rows) add(added []row) {
	for _, values := range added {
		r[values[colID].(int64)] = values
	}
}

// some draws up to n of the rows' IDs.
func (m *model) some(rs rows, n int) []int64 {
	ids := rs.ids()
	m.rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids[:min(n, len(ids))]
}

// condition selects rows, in Spark's SQL, in PyIceberg's, and here.
type condition struct {
	sql, python string
	holds       func(row) bool
}

// condition draws one.
func (m *model) condition() condition {
	switch m.rng.IntN(4) {
	case 0:
		cat := m.name(colCat)
		letter := string(rune('a' + m.rng.IntN(4)))
		if m.rng.IntN(2) == 0 {
			return condition{cat + " = '" + letter + "' AND id % 3 = 0", "", func(r row) bool { return r[colCat] == letter && r[colID].(int64)%3 == 0 }}
		}
		return condition{cat + " IS NULL", cat + " is null", func(r row) bool { return r[colCat] == nil }}
	case 1:
		k := int64(m.rng.IntN(9))
		return condition{fmt.Sprintf("id %% 9 = %d", k), "", func(r row) bool { return r[colID].(int64)%9 == k }}
	}
	low := m.rng.Int64N(m.nextID)
	high := low + m.rng.Int64N(30)
	return condition{
		fmt.Sprintf("id BETWEEN %d AND %d", low, high), fmt.Sprintf("id >= %d and id <= %d", low, high),
		func(r row) bool { id := r[colID].(int64); return id >= low && id <= high },
	}
}

// pythonCondition draws one that PyIceberg understands.
func (m *model) pythonCondition() condition {
	for {
		if c := m.condition(); c.python != "" {
			return c
		}
	}
}

// plain is a row as the engines' JSON takes it, by column name.
func (m *model) plain(r row) map[string]any {
	out := map[string]any{}
	for _, c := range m.columns {
		out[c.name] = r[c.id]
	}
	return out
}

// list is a row as the Java server takes it, in the order of the columns.
func (m *model) list(r row) []any {
	out := make([]any, len(m.columns))
	for i, c := range m.columns {
		out[i] = r[c.id]
	}
	return out
}
