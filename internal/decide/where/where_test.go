package where_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"

	"firn/internal/decide/where"
	"firn/internal/sparksql"
)

// schema has a column of every type; specs 1 to 9 partition by one transform each.
func schema(t testing.TB) where.Schema {
	t.Helper()
	text := `{"type":"struct","schema-id":0,"fields":[
		{"id":1,"name":"i","required":false,"type":"int"},
		{"id":2,"name":"l","required":true,"type":"long"},
		{"id":3,"name":"s","required":false,"type":"string"},
		{"id":4,"name":"d","required":false,"type":"date"},
		{"id":5,"name":"ts","required":false,"type":"timestamptz"},
		{"id":6,"name":"dec","required":false,"type":"decimal(9, 2)"},
		{"id":7,"name":"f","required":false,"type":"double"},
		{"id":8,"name":"b","required":false,"type":"boolean"},
		{"id":9,"name":"u","required":false,"type":"uuid"},
		{"id":10,"name":"bin","required":false,"type":"binary"},
		{"id":11,"name":"ns","required":false,"type":"timestamp_ns"},
		{"id":12,"name":"tm","required":false,"type":"time"},
		{"id":13,"name":"st","required":false,"type":{"type":"struct","fields":[
			{"id":14,"name":"a","required":true,"type":"int"},{"id":15,"name":"B b","required":false,"type":"string"}]}},
		{"id":16,"name":"li","required":false,"type":{"type":"list","element-id":17,"element":"int","element-required":true}},
		{"id":18,"name":"Twin","required":false,"type":"int"},
		{"id":19,"name":"twin","required":false,"type":"int"}]}`
	specs := []string{`{"spec-id":0,"fields":[]}`}
	for i, f := range []string{
		`"identity","source-id":3`, `"bucket[4]","source-id":1`, `"truncate[3]","source-id":3`, `"truncate[10]","source-id":1`, `"year","source-id":5`,
		`"month","source-id":4`, `"day","source-id":5`, `"hour","source-id":5`, `"void","source-id":1`, `"truncate[50]","source-id":6`, `"bucket[8]","source-id":3`,
		`"identity","source-id":4`,
	} {
		specs = append(specs, `{"spec-id":`+string(rune('0'+(i+1)/10))+string(rune('0'+(i+1)%10))+`,"fields":[{"name":"p","field-id":1000,"transform":`+f+`}]}`)
	}
	var raw []json.RawMessage
	for _, s := range specs {
		raw = append(raw, json.RawMessage(strings.Replace(s, `"spec-id":0`, `"spec-id":`, 1)))
	}
	raw[0] = json.RawMessage(specs[0])
	s, err := where.SchemaFromJSON(json.RawMessage(text), raw)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func parse(t *testing.T, text string) *where.Where {
	t.Helper()
	w, err := where.Parse(text, schema(t), someday())
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return w
}

func i32(n int32) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(n)) }

func i64(n int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }

func f64(f float64) []byte { return binary.LittleEndian.AppendUint64(nil, math.Float64bits(f)) }

// bounded is a file of ten rows without nulls in one column.
func bounded(id int, lower, upper []byte) where.File {
	f := where.File{
		RecordCount: 10, ValueCounts: map[int]int64{id: 10}, NullCounts: map[int]int64{id: 0}, NaNCounts: map[int]int64{id: 0},
		LowerBounds: map[int][]byte{}, UpperBounds: map[int][]byte{},
	}
	if lower != nil {
		f.LowerBounds[id] = lower
	}
	if upper != nil {
		f.UpperBounds[id] = upper
	}
	return f
}

// TestBounds tries each operation around the bounds of a file with values from 10 to 20.
func TestBounds(t *testing.T) {
	t.Parallel()
	ints := bounded(1, i32(10), i32(20))
	for text, want := range map[string]bool{
		"i < 10": false, "i < 11": true, "i <= 9": false, "i <= 10": true, "i > 20": false, "i > 19": true, "i >= 21": false, "i >= 20": true,
		"i = 9": false, "i = 10": true, "i = 21": false, "i != 10": true, "i in (1, 2, 30)": false, "i in (1, 15)": true, "i not in (15)": true,
		"i between 1 and 9": false, "i between 20 and 30": true, "i not between 5 and 25": false, "not i > 5": false, "not (i < 10 or i > 20)": true,
		"not (i >= 10 and i <= 20)": false, "i is null": false, "i is not null": true, "i <=> null": false, "i <=> 15": true, "not i <=> 15": true,
		"i = null": false, "not i = null": false, "i in (null)": false, "i in (null, 15)": true, "i not in (null, 99)": false,
		"i < 9.5": false, "i < 10.5": true, "i > 20.0": false, "i >= 19.5": true, "i = 15.5": false, "i != 15.5": true, "i <= 10.0": true,
		"i < 99999999999999999999": true, "i > 99999999999999999999": false, "i = 99999999999999999999": false, "i > -99999999999999999999": true,
		"i = '15'": true, "15 = i": true, "21 > i": true, "10 > i": false, "true": true, "false": false, "null": false, "not null": false,
		"I = 15": true, "i = 1 or i = 15": true, "i = 15 and i = 99": false, "": true, " ": true,
	} {
		if got := parse(t, text).MayMatch(ints); got != want {
			t.Errorf("%s on 10..20: %v, want %v", text, got, want)
		}
	}
}

func TestBoundsOfTypes(t *testing.T) {
	t.Parallel()
	day := int32(19800) // 2024-03-18
	micros := int64(day) * 86_400_000_000
	uuid := []byte{0x12, 0x34, 0x56, 0x78, 0x12, 0x34, 0x56, 0x78, 0x12, 0x34, 0x56, 0x78, 0x12, 0x34, 0x56, 0x78}
	for _, c := range []struct {
		text string
		file where.File
		want bool
	}{
		{"d = date '2024-03-18'", bounded(4, i32(day), i32(day)), true},
		{"d < date '2024-03-18'", bounded(4, i32(day), i32(day)), false},
		{"d < '2024-03-19'", bounded(4, i32(day), i32(day)), true},
		{"d < timestamp '2024-03-18 00:00:01'", bounded(4, i32(day), i32(day)), true},
		{"d > timestamp '2024-03-18 00:00:00'", bounded(4, i32(day), i32(day)), false},
		{"d = timestamp '2024-03-18 00:00:01'", bounded(4, i32(day), i32(day)), false},
		{"ts >= timestamp '2024-03-18 00:00:01'", bounded(5, i64(micros), i64(micros)), false},
		{"ts < timestamp '2024-03-18 02:00:00+01:00'", bounded(5, i64(micros), i64(micros)), true},
		{"ts = date '2024-03-18'", bounded(5, i64(micros), i64(micros)), true},
		{"ts = '2024-03-18'", bounded(5, i64(micros), i64(micros)), true},
		{"ts > '2024-03-18'", bounded(5, i32(day), i32(day)), false}, // bounds from before a promotion
		{"ns < timestamp '2024-03-18 00:00:00.000000001'", bounded(11, i64(micros*1000), i64(micros*1000)), true},
		{"ns < timestamp '2024-03-18 00:00:00'", bounded(11, i64(micros*1000), i64(micros*1000)), false},
		{"ns < '9999-01-01'", bounded(11, i64(micros*1000), i64(micros*1000)), true},
		{"tm > '10:00:00'", bounded(12, i64(0), i64(36_000_000_000)), false},
		{"dec < 1.5", bounded(6, []byte{0x00, 0x96}, []byte{0x01, 0x00}), false},
		{"dec < 1.51", bounded(6, []byte{0x00, 0x96}, []byte{0x01, 0x00}), true},
		{"dec > -0.01", bounded(6, []byte{0xff}, []byte{0xff}), false},
		{"dec >= -0.015", bounded(6, []byte{0xff}, []byte{0xff}), true},
		{"dec = 1.555", bounded(6, []byte{0x00}, []byte{0x7f, 0xff}), false},
		{"f < 1.0", bounded(7, f64(1), f64(2)), false},
		{"f < 1.0", bounded(7, f64(math.NaN()), f64(2)), true},
		{"f = 0.0", bounded(7, f64(math.Copysign(0, -1)), f64(math.Copysign(0, -1))), true},
		{"f > 1e300", bounded(7, f64(1), nil), true},
		{"b", bounded(8, []byte{0}, []byte{0}), false},
		{"not b", bounded(8, []byte{0}, []byte{0}), true},
		{"b = true", bounded(8, []byte{0}, []byte{1}), true},
		{"b is true", bounded(8, []byte{0}, []byte{0}), false},
		{"b is not true", bounded(8, []byte{1}, []byte{1}), true},
		{"u = '12345678-1234-5678-1234-567812345678'", bounded(9, uuid, uuid), true},
		{"u > '12345678-1234-5678-1234-567812345678'", bounded(9, uuid, uuid), false},
		{"bin = X'FF'", bounded(10, []byte{0}, []byte{0xfe}), false},
		{"s = 'm'", bounded(3, []byte("a"), []byte("k")), false},
		{"s like 'b%'", bounded(3, []byte("ba"), []byte("bz")), true},
		{"s like 'c%'", bounded(3, []byte("ba"), []byte("bz")), false},
		{"s like 'a%'", bounded(3, []byte("ba"), []byte("bz")), false},
		{"s like 'bazooka%'", bounded(3, []byte("ba"), []byte("bz")), true},
		{"s not like 'b%'", bounded(3, []byte("ba"), []byte("bz")), false},
		{"s not like 'ba%'", bounded(3, []byte("ba"), []byte("bz")), true},
		{"s like '%'", bounded(3, []byte("ba"), []byte("bz")), true},
		{"st.a > 5", bounded(14, i32(1), i32(5)), false},
		{"ST.A > 4", bounded(14, i32(1), i32(5)), true},
		{"st.`b B` = 'x'", bounded(15, nil, nil), true},
		{"st is null", bounded(1, nil, nil), true},
		{"l is null", bounded(2, nil, nil), false},
		{"l is not null", bounded(2, nil, nil), true},
		{"twin = 1", bounded(19, i32(2), i32(3)), false},
		{"Twin = 1", bounded(19, i32(2), i32(3)), true},
		{"i = 1", bounded(1, []byte{1}, []byte{1, 2, 3}), true}, // unreadable bounds are not used
	} {
		text := strings.ReplaceAll(c.text, "b B", "B b")
		if got := parse(t, text).MayMatch(c.file); got != c.want {
			t.Errorf("%s: %v, want %v", text, got, c.want)
		}
	}
}

// TestCounts: files of nulls or NaN only, files without statistics, files without rows.
func TestCounts(t *testing.T) {
	t.Parallel()
	nulls := where.File{RecordCount: 10, ValueCounts: map[int]int64{1: 10, 7: 10}, NullCounts: map[int]int64{1: 10, 7: 0}, NaNCounts: map[int]int64{7: 10}}
	bare := where.File{RecordCount: 10}
	for text, want := range map[string][3]bool{ // nulls, bare, empty
		"i is null":     {true, true, false},
		"i is not null": {false, true, false},
		"i > 5":         {false, true, false},
		"i != 5":        {false, true, false},
		"i not in (5)":  {false, true, false},
		"i <=> 5":       {false, true, false},
		"not i <=> 5":   {true, true, false},
		"f > 5":         {false, true, false},
		"not i = 5":     {false, true, false},
		"true":          {true, true, true},
	} {
		w := parse(t, text)
		if got := [3]bool{w.MayMatch(nulls), w.MayMatch(bare), w.MayMatch(where.File{})}; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// TestProjections: conditions asked of partitions.
func TestProjections(t *testing.T) {
	t.Parallel()
	whole, text, null := where.Whole, where.Text, where.Null()
	for _, c := range []struct {
		spec int
		cond string
		part where.Value
		want bool
	}{
		{1, "s = 'eu'", text("eu"), true},
		{1, "s = 'eu'", text("us"), false},
		{1, "s = 'eu'", null, false},
		{1, "s is null", null, true},
		{1, "s != 'eu'", text("eu"), false},
		{1, "s != 'eu'", null, false},
		{1, "s not in ('eu', 'us')", text("us"), false},
		{1, "s like 'e%'", text("us"), false},
		{1, "s not like 'e%'", text("eu"), false},
		{1, "s = 'eu' and i = 1", text("us"), false},
		{1, "s = 'eu' or i = 1", text("us"), true},
		{1, "not (s = 'eu' or s is null)", null, false},
		{1, "s <=> null", text("eu"), false},
		{2, "i = 34", whole(2017239379 % 4), true},
		{2, "i = 34", whole((2017239379 + 1) % 4), false},
		{2, "i > 34", whole(0), true},
		{2, "i in (34, 34)", whole((2017239379 + 2) % 4), false},
		{2, "i is null", whole(1), false},
		{2, "i != 34", whole(2017239379 % 4), true},
		{3, "s = 'europe'", text("eur"), true},
		{3, "s = 'europe'", text("eu"), false},
		{3, "s < 'eur'", text("euz"), false},
		{3, "s <= 'europe'", text("eur"), true},
		{3, "s > 'europe'", text("eur"), true},
		{3, "s > 'europe'", text("eup"), false},
		{3, "s like 'europ%'", text("eur"), true},
		{3, "s like 'europ%'", text("eux"), false},
		{3, "s like 'e%'", text("eux"), true},
		{3, "s like 'e%'", text("fux"), false},
		{3, "s not like 'eur%'", text("eur"), false},
		{3, "s not like 'europ%'", text("eur"), true},
		{3, "s = 'ü東京x'", text("ü東京"), true},
		{4, "i = -1", whole(-10), true},
		{4, "i = -1", whole(0), false},
		{4, "i < 20", whole(20), false},
		{4, "i < 21", whole(20), true},
		{4, "i > 29", whole(20), false},
		{4, "i >= 29", whole(20), true},
		{4, "i > 29.5", whole(20), false},
		{5, "ts < timestamp '2024-01-01'", whole(54), false},
		{5, "ts <= timestamp '2024-01-01'", whole(54), true},
		{5, "ts > timestamp '2023-12-31 23:59:59.999999'", whole(53), false},
		{5, "ts = timestamp '1969-06-01'", whole(-1), true},
		{5, "ts = timestamp '1969-06-01'", whole(0), true},
		{5, "ts = timestamp '1969-06-01'", whole(1), false},
		{6, "d = date '2024-03-18'", whole(650), true},
		{6, "d = date '2024-03-18'", whole(651), false},
		{6, "d < date '2024-03-01'", whole(650), false},
		{6, "d = date '1969-12-31'", whole(-1), true},
		{7, "ts >= timestamp '2024-03-18 12:00:00'", whole(19799), false},
		{7, "ts >= timestamp '2024-03-18 12:00:00'", whole(19800), true},
		{7, "ts < timestamp '2024-03-18 00:00:00'", whole(19800), false},
		{8, "ts < timestamp '2024-03-18 01:00:00'", whole(19800*24 + 1), false},
		{8, "ts < timestamp '2024-03-18 01:00:00.000001'", whole(19800*24 + 1), true},
		{9, "i = 5", null, true},
		{9, "i is not null", null, true},
		{10, "dec = 10.65", where.Decimal(big.NewInt(1050)), true},
		{10, "dec = 10.65", where.Decimal(big.NewInt(1000)), false},
		{10, "dec = -0.01", where.Decimal(big.NewInt(-50)), true},
		{11, "s = 'iceberg'", whole(1210000089 % 8), true},
		{11, "s = 'iceberg'", whole((1210000089 + 1) % 8), false},
		{12, "d between date '2024-03-18' and date '2024-03-20'", whole(19803), false},
		{12, "d between date '2024-03-18' and date '2024-03-20'", whole(19802), true},
	} {
		f := where.File{RecordCount: 5, SpecID: c.spec, Partition: func(id int) (where.Value, bool) { return c.part, id == 1000 }}
		if got := parse(t, c.cond).MayMatch(f); got != c.want {
			t.Errorf("spec %d, %s of %v: %v, want %v", c.spec, c.cond, c.part, got, c.want)
		}
		f.Partition = func(int) (where.Value, bool) { return where.Value{}, false }
		if !parse(t, c.cond).MayMatch(f) {
			t.Errorf("spec %d, %s of an unknown partition does not match", c.spec, c.cond)
		}
	}
}

// someday is when the conditions of these tests are asked: half a minute past noon.
func someday() time.Time {
	return time.Date(2024, 3, 18, 12, 0, 30, 123_456_789, time.FixedZone("", 0))
}

// TestNow compares columns with the current time: to the microsecond, in UTC.
func TestNow(t *testing.T) {
	t.Parallel()
	day := int32(19800) // 2024-03-18
	now := int64(day)*86_400_000_000 + (12*3600+30)*1_000_000 + 123_456
	hour := int64(3600) * 1_000_000
	at := func(v int64) where.File { return bounded(5, i64(v), i64(v)) }
	on := func(v int32) where.File { return bounded(4, i32(v), i32(v)) }
	for _, c := range []struct {
		text string
		file where.File
		want bool
	}{
		{"ts < now()", at(now), false},
		{"ts < current_timestamp()", at(now - 1), true},
		{"ts = current_timestamp", at(now), true},
		{"ts >= now() - interval 1 hour", at(now - hour), true},
		{"ts >= now() - interval 1 hour", at(now - hour - 1), false},
		{"ts > now() - interval '7 days'", at(now - 7*24*hour), false},
		{"ts between now() - interval 2 hours and now() - interval 1 hour", at(now - 90*hour/60), true},
		{"ts between now() - interval 2 hours and now() - interval 1 hour", at(now - 30*hour/60), false},
		{"ts >= current_date()", at(int64(day) * 24 * hour), true},
		{"ts >= current_date()", at(int64(day)*24*hour - 1), false},
		{"ts >= current_date() - interval 3 hours", at(int64(day)*24*hour - 3*hour), true},
		{"ts >= current_date() - interval 3 hours", at(int64(day)*24*hour - 3*hour - 1), false},
		{"ns <= now()", bounded(11, i64(now*1000), i64(now*1000)), true},
		{"ns <= now()", bounded(11, i64(now*1000+1), i64(now*1000+1)), false},
		{"d = current_date()", on(day), true},
		{"d = current_date", on(day - 1), false},
		{"d < current_date() - 7", on(day - 8), true},
		{"d < date_sub(current_date(), 7)", on(day - 7), false},
		{"d in (current_date() - 1, current_date())", on(day - 1), true},
		{"d in (current_date() - 1, current_date())", on(day - 2), false},
		{"d >= now()", on(day), false}, // a date is its midnight
		{"d > now() - interval 13 hours", on(day), true},
		{"d > now() - interval 12 hours", on(day), false},
	} {
		if got := parse(t, c.text).MayMatch(c.file); got != c.want {
			t.Errorf("%s: %v, want %v", c.text, got, c.want)
		}
	}
	for _, zone := range []int{-11, 11} {
		w, err := where.Parse("d = current_date()", schema(t), someday().In(time.FixedZone("", zone*3600)))
		if err != nil || !w.MayMatch(on(day)) {
			t.Errorf("zone %d: %v", zone, err)
		}
	}
}

// TestErrors name position and column.
func TestErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"nosuch = 1":                        "line 1, column 1: the table has no column nosuch",
		"i = 1 and\n  st.aa = 1":            "line 2, column 3: the table has no column st.aa; did you mean st.a?",
		"li.element = 1":                    "the table has no column li.element",
		"isnan(f)":                          "the function isnan over column f cannot be translated into a filter on files",
		"li = 1":                            "column li is nested",
		"st = 1":                            "column st is nested",
		"i = 'x'":                           `column 5: column i of type int cannot be compared with a string "x"`,
		"s = 5":                             "column s of type string cannot be compared with a whole number",
		"d = 5":                             "column d of type date cannot be compared",
		"d = '2024-02-30'":                  "column d of type date cannot be compared",
		"u = 'x'":                           "column u of type uuid cannot be compared",
		"i":                                 "column i of type int is no condition",
		"i like 'x%'":                       "column i of type int has no prefix",
		"f = 'NaN'":                         "column f of type double cannot be compared",
		"TWIN = 1":                          "column TWIN is ambiguous: Twin or twin",
		"i > now()":                         "column i of type int cannot be compared with a timestamp",
		"s > current_date()":                "column s of type string cannot be compared with a date",
		"ts > now() - interval 200000 days": "column ts of type timestamp cannot be compared",
		"i = ":                              "want a column or a value",
	} {
		_, err := where.Parse(text, schema(t), someday())
		var syntax *sparksql.SyntaxError
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &syntax) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	if _, err := where.SchemaFromJSON([]byte(`[]`), nil); err == nil {
		t.Error("a schema that is no object is read")
	}
}

// TestValueOf reads what iceberg-go's partition tuples hold.
func TestValueOf(t *testing.T) {
	t.Parallel()
	same := func(a, b where.Value) bool { return a == b }
	dec := func(v where.Value) bool { return !v.IsNull() }
	for _, c := range []struct {
		in any
		ok func(where.Value) bool
	}{
		{nil, where.Value.IsNull},
		{int32(5), func(v where.Value) bool { return same(v, where.Whole(5)) }},
		{iceberg.Date(7), func(v where.Value) bool { return same(v, where.Whole(7)) }},
		{iceberg.Timestamp(8), func(v where.Value) bool { return same(v, where.Whole(8)) }},
		{true, func(v where.Value) bool { return same(v, where.Whole(1)) }},
		{float32(1.5), func(v where.Value) bool { return same(v, where.Float(1.5)) }},
		{"x", func(v where.Value) bool { return same(v, where.Text("x")) }},
		{[]byte("y"), func(v where.Value) bool { return same(v, where.Text("y")) }},
		{[16]byte{1}, func(v where.Value) bool { return same(v, where.Text("\x01"+strings.Repeat("\x00", 15))) }},
		{iceberg.DecimalLiteral{Scale: 2}, dec},
		{iceberg.Decimal{Scale: 2}, dec},
	} {
		if v, known := where.ValueOf(c.in); !known || !c.ok(v) {
			t.Errorf("%T: %v, %v", c.in, v, known)
		}
	}
	if _, known := where.ValueOf(struct{}{}); known {
		t.Error("an unknown type has a value")
	}
}
