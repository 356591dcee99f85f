package pattern_test

import (
	"encoding/json"
	"testing"

	"firn/internal/local/cloud/pattern"
)

func decode(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// TestMatch: one operator of EventBridge a row.
func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, event string
		want           bool
	}{
		{`{"a":["x","y"]}`, `{"a":"y"}`, true},
		{`{"a":["x","y"]}`, `{"a":"z"}`, false},
		{`{"a":["x"]}`, `{}`, false},
		{`{"a":["x"]}`, `{"a":["w","x"]}`, true},
		{`{"a":[1]}`, `{"a":1}`, true},
		{`{"a":[null]}`, `{"a":null}`, true},
		{`{"a":[null]}`, `{}`, false},
		{`{"a":{"b":["x"]}}`, `{"a":{"b":"x","c":1}}`, true},
		{`{"a":{"b":["x"]}}`, `{"a":"x"}`, false},
		{`{"a":["x"],"b":["y"]}`, `{"a":"x","b":"z"}`, false},
		{`{"a":[{"prefix":"ab"}]}`, `{"a":"abc"}`, true},
		{`{"a":[{"prefix":{"equals-ignore-case":"AB"}}]}`, `{"a":"abc"}`, true},
		{`{"a":[{"suffix":".json"}]}`, `{"a":"x.json"}`, true},
		{`{"a":[{"suffix":".json"}]}`, `{"a":"x.json.gz"}`, false},
		{`{"a":[{"wildcard":"wh/*/metadata/*.json"}]}`, `{"a":"wh/db/t/metadata/1.json"}`, true},
		{`{"a":[{"wildcard":"wh/*/metadata/*.json"}]}`, `{"a":"wh/db/t/data/1.json"}`, false},
		{`{"a":[{"equals-ignore-case":"X"}]}`, `{"a":"x"}`, true},
		{`{"a":[{"exists":false}]}`, `{"b":1}`, true},
		{`{"a":[{"exists":false}]}`, `{"a":null}`, false},
		{`{"d":{"a":[{"exists":false}]}}`, `{"d":{}}`, true},
		{`{"d":{"a":[{"exists":false}]}}`, `{}`, true},
		{`{"a":[{"exists":true}]}`, `{"a":"x"}`, true},
		{`{"a":[{"anything-but":["x"]}]}`, `{"a":"x"}`, false},
		{`{"a":[{"anything-but":"x"}]}`, `{"a":"y"}`, true},
		{`{"a":[{"anything-but":{"prefix":"x"}}]}`, `{"a":"xy"}`, false},
		{`{"a":[{"numeric":[">",0,"<=",5]}]}`, `{"a":5}`, true},
		{`{"a":[{"numeric":[">",0,"<=",5]}]}`, `{"a":6}`, false},
		{`{"$or":[{"a":["x"]},{"b":["y"]}]}`, `{"b":"y"}`, true},
		{`{"$or":[{"a":["x"]},{"b":["y"]}]}`, `{"b":"z"}`, false},
	} {
		p, err := pattern.Compile(decode(t, c.pattern))
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		if got, err := p.MatchJSON([]byte(c.event)); err != nil || got != c.want {
			t.Errorf("%s on %s: %t, %v", c.pattern, c.event, got, err)
		}
	}
}

// TestUnknownIsRefused: an operator that is not known here, and what is no pattern.
func TestUnknownIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{}`, `[]`, `{"a":"x"}`, `{"a":[]}`, `{"a":[["x"]]}`, `{"a":[{"cidr":"10.0.0.0/8"}]}`, `{"a":[{"prefix":1}]}`, `{"a":[{"exists":"yes"}]}`,
		`{"a":[{"prefix":"a","suffix":"b"}]}`, `{"a":[{"numeric":["~",1]}]}`, `{"a":[{"wildcard":"a**b"}]}`, `{"$or":[{"a":["x"]}]}`,
	} {
		if _, err := pattern.Compile(decode(t, text)); err == nil {
			t.Errorf("%s: accepted", text)
		}
	}
}
