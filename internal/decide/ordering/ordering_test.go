package ordering_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"firn/internal/decide"
	"firn/internal/decide/ordering"
	"firn/internal/decide/where"
)

const schemaText = `{"type":"struct","fields":[
	{"id":1,"name":"id","required":true,"type":"long"},
	{"id":2,"name":"ts","required":false,"type":"timestamptz"},
	{"id":3,"name":"s","required":false,"type":"string"},
	{"id":4,"name":"st","required":false,"type":{"type":"struct","fields":[{"id":5,"name":"a","required":false,"type":"int"}]}},
	{"id":6,"name":"tags","required":false,"type":{"type":"list","element-id":7,"element":"string","element-required":false}},
	{"id":8,"name":"amount","required":false,"type":"decimal(9,2)"},
	{"id":9,"name":"ID","required":false,"type":"long"},
	{"id":10,"name":"day","required":false,"type":"date"}]}`

const specText = `{"spec-id":0,"fields":[{"source-id":10,"field-id":1000,"transform":"identity","name":"day"}]}`

func table(t *testing.T, current int, orders ...string) ordering.Table {
	t.Helper()
	schema, err := where.SchemaFromJSON(json.RawMessage(schemaText), []json.RawMessage{json.RawMessage(specText)})
	if err != nil {
		t.Fatal(err)
	}
	var raw []json.RawMessage
	for _, o := range orders {
		raw = append(raw, json.RawMessage(o))
	}
	return ordering.NewTable(schema, 0, raw, current)
}

const (
	unsorted = `{"order-id":0,"fields":[]}`
	byTime   = `{"order-id":1,"fields":[{"transform":"identity","source-id":2,"direction":"desc","null-order":"nulls-last"},
		{"transform":"identity","source-id":1,"direction":"asc","null-order":"nulls-first"}]}`
	byBucket  = `{"order-id":2,"fields":[{"transform":"bucket[4]","source-id":1,"direction":"asc","null-order":"nulls-first"}]}`
	byUnknown = `{"order-id":3,"fields":[{"transform":"spiral","source-id":1,"direction":"asc","null-order":"nulls-first"}]}`
	dropped   = `{"order-id":4,"fields":[{"transform":"identity","source-id":99,"direction":"asc","null-order":"nulls-first"}]}`
)

// resolve goes the way of a call: strategy and options first.
func resolve(t *testing.T, tbl ordering.Table, strategy, text string) (string, error) {
	t.Helper()
	s, err := decide.ParseStrategy(strategy, text, tbl.SortOrderID != 0)
	if err != nil {
		return "", err
	}
	opts, err := decide.ParseDataFilesOptions(s, nil, decide.TableFacts{})
	if err != nil {
		t.Fatal(err)
	}
	o, err := ordering.Resolve(opts, text, tbl)
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(data), nil
}

func TestOrderings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, strategy, text string
		current              int
		want                 string
	}{
		{"a column", "", "s", 0, `{"fields":[{"source_id":3,"transform":"identity"}]}`},
		{"nested, in another case", "sort", "ST.A desc", 0, `{"fields":[{"source_id":5,"transform":"identity","descending":true,"nulls_last":true}]}`},
		{"the exact spelling wins", "sort", "ID", 0, `{"fields":[{"source_id":9,"transform":"identity"}]}`},
		{
			"transforms", "sort", "bucket(16, id), days(ts) desc nulls first, truncate(s, 2)", 0,
			`{"fields":[{"source_id":1,"transform":"bucket[16]"},{"source_id":2,"transform":"day","descending":true},{"source_id":3,"transform":"truncate[2]"}]}`,
		},
		{
			"the table's order", "sort", "", 1,
			`{"fields":[{"source_id":2,"transform":"identity","descending":true,"nulls_last":true},{"source_id":1,"transform":"identity"}],"sort_order_id":1}`,
		},
		{"another order of the table", "sort", "bucket(4, id)", 1, `{"fields":[{"source_id":1,"transform":"bucket[4]"}],"sort_order_id":2}`},
		{"nearly the table's order", "sort", "ts desc, id nulls last", 1, `{"fields":[{"source_id":2,"transform":"identity","descending":true,"nulls_last":true},{"source_id":1,"transform":"identity","nulls_last":true}]}`},
		{"bin-pack of an unsorted table", "", "", 0, `null`},
		{"bin-pack of a sorted table", "binpack", "", 2, `{"fields":[{"source_id":1,"transform":"bucket[4]"}],"sort_order_id":2}`},
		{"bin-pack of an order that cannot be followed", "binpack", "", 3, `null`},
		{"bin-pack of an order by a dropped column", "", "", 4, `null`},
		{
			"z-order", "sort", "zorder(id, s)", 0,
			`{"curve":"zorder","fields":[{"source_id":1,"transform":"identity"},{"source_id":3,"transform":"identity"}],"var_length_contribution_bytes":8,"max_output_size_bytes":2147483647}`,
		},
		{
			"partition columns are left out of a curve", "", "hilbert(day, st.a)", 1,
			`{"curve":"hilbert","fields":[{"source_id":5,"transform":"identity"}],"var_length_contribution_bytes":8,"max_output_size_bytes":2147483647}`,
		},
	} {
		got, err := resolve(t, table(t, c.current, unsorted, byTime, byBucket, byUnknown, dropped), c.strategy, c.text)
		if err != nil || got != c.want {
			t.Errorf("%s:\n got %s, %v\nwant %s", c.name, got, err, c.want)
		}
	}
}

func TestRefusedOrderings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"nosuch":                "cannot find field nosuch",
		"ides":                  "cannot find field ides",
		"iD":                    "may be id or ID",
		"st":                    "no primitive",
		"tags":                  "no primitive",
		"tags.element":          "cannot find field",
		"id, zorder(s)":         "mixes columns and a z-order",
		"zorder(id), zorder(s)": "mixes",
		"zorder(day)":           "identity partition columns",
		"zorder(amount)":        "type decimal",
		"zorder(nosuch, id)":    "cannot find field nosuch",
		"zorder(4, id)":         "columns and nothing else",
		"zorder(id) desc":       "no direction",
		"zorder()":              "instead of \")\"",
		"spiral(id)":            "transform spiral is not supported",
		"bucket(id)":            "needs a number",
		"bucket(0, id)":         "needs a number",
		"bucket(4, id, s)":      "one column",
		"days(id)":              "does not apply to column id",
		"days(4, ts)":           "takes no number",
		"hours(day)":            "does not apply",
		"truncate(2, ts)":       "does not apply",
		"id sideways":           "does not belong",
	} {
		_, err := resolve(t, table(t, 0, unsorted), "sort", text)
		if !errors.Is(err, decide.ErrOption) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v: want an option error with %q", text, err, want)
		}
	}
	for strategy, text := range map[string]string{"sort": "", "binpack": "id", "zorder": "id"} {
		if _, err := resolve(t, table(t, 0, unsorted), strategy, text); !errors.Is(err, decide.ErrOption) {
			t.Errorf("strategy %s with %q: %v", strategy, text, err)
		}
	}
	if _, err := resolve(t, table(t, 3, unsorted, byUnknown), "sort", ""); !errors.Is(err, decide.ErrRefused) || !strings.Contains(err.Error(), "spiral") {
		t.Errorf("a table order that is not known: %v", err)
	}
}
