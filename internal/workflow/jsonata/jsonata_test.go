package jsonata_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"firn/internal/workflow/jsonata"
)

func TestCompileRefusesWhatLiesOutsideTheSubset(t *testing.T) {
	for source, want := range map[string]string{
		"$random()":                       "differs from run to run",
		"$uuid()":                         "differs from run to run",
		"$now()":                          "differs from run to run",
		"$millis()":                       "differs from run to run",
		"$shuffle([1])":                   "differs from run to run",
		"$eval('1')":                      "as in Step Functions",
		"$nofunction(1)":                  "unknown or outside the subset",
		"$map([1], $string)":              "outside the subset",
		"$x ~> $string":                   "outside the subset",
		"function($x){$x}":                "outside the subset",
		"$map([1], function($x){$x})":     "outside the subset",
		"($x := 1; $x)":                   "one expression",
		"($x := 1)":                       "outside the subset",
		"()":                              "one expression",
		"$x.*":                            "outside the subset",
		"$x.**":                           "outside the subset",
		"$x{a: b}":                        "outside the subset",
		"$x^(a)":                          "outside the subset",
		"/a/":                             "outside the subset",
		"$x ~> |a|{}|":                    "outside the subset",
		"$string(?)":                      "outside the subset",
		"a.b":                             "field a has no context",
		"$":                               "$ has no context",
		"$$":                              "$$ has no meaning",
		"$x[$$.a]":                        "$$ has no meaning",
		"$string()":                       "takes 1 arguments, got 0",
		"$append([1])":                    "takes 2 arguments, got 1",
		"$hash('x')":                      "takes 2 arguments, got 1",
		"$x.y(1)":                         "only functions with a name",
		"$x[]":                            "must follow a field name",
		"1 +":                             "parse expression",
		"'a":                              "parse expression",
		"":                                "parse expression",
		"$x.\"a\"":                        "parse expression",
		strings.Repeat("(", 600) + "1":    "parse expression",
		strings.Repeat("1+", 20000) + "1": "at most 16384",
		strings.Repeat("-(", 600) + "$x" + strings.Repeat(")", 600): "nested deeper",
	} {
		if _, err := jsonata.Compile(source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, want %q", source, err, want)
		}
	}
}

func TestCompileReportsAllFaults(t *testing.T) {
	_, err := jsonata.Compile("$nofunction(a) & $uuid() & $$")
	for _, want := range []string{"$nofunction", "field a", "$uuid", "$$"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want a mention of %s", err, want)
		}
	}
}

func TestReferencesNameVariablesAndTheirFields(t *testing.T) {
	e, err := jsonata.Compile("$states.input.a[b = $x].c & $y & $states.context.Execution.Id & $z[$w > 1]")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range e.References() {
		got = append(got, r.String())
	}
	want := "$states.input.a $x $y $states.context.Execution.Id $z $w"
	if strings.Join(got, " ") != want {
		t.Fatalf("got %v, want %s", got, want)
	}
}

// TestStepFunctionsAdditions has hashes from sha256sum and friends; AWS documents the rest by example.
func TestStepFunctionsAdditions(t *testing.T) {
	_, lookup := readReference(t)
	for expr, want := range map[string]string{
		"$partition([1..5], 2)":                      "[[1,2],[3,4],[5]]",
		"$partition([1..4], 2)":                      "[[1,2],[3,4]]",
		"$partition([1,2], 1000000)":                 "[[1,2]]",
		"$partition([], 2)":                          "[]",
		"$partition([1], 0)":                         "error",
		"$partition([1], 1.5)":                       "error",
		"$range(1, 9, 2)":                            "[1,3,5,7,9]",
		"$range(9, 1, -4)":                           "[9,5,1]",
		"$range(1, 1, 1)":                            "[1]",
		"$range(2, 1, 1)":                            "[]",
		"$range(1, 2, 0)":                            "error",
		"$range(1, 1001, 1)":                         "error",
		"$hash('abc', 'SHA-256')":                    `"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"`,
		"$hash('abc', 'MD5')":                        `"900150983cd24fb0d6963f7d28e17f72"`,
		"$hash('abc', 'SHA-1')":                      `"a9993e364706816aba3e25717850c26c9cd0d89d"`,
		"$hash('abc', 'sha')":                        "error",
		"$hash(1, 'MD5')":                            "error",
		`$parse('{"b":1,"a":[true]}')`:               `{"b":1,"a":[true]}`,
		"$parse('{')":                                "error",
		"$parse($string($states.input.groups)).size": "[10,20,30]",
		"$parse($missing)":                           "error",
	} {
		got, err := eval(expr, lookup)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%s: got %s (%v), want %s", expr, got, err, want)
		}
	}
}

func TestIntegersBeyondDoublesAreRefusedNotRounded(t *testing.T) {
	data, err := jsonata.Decode([]byte(`{"id":9007199254740993,"other":9223372036854775807,"huge":123456789012345678901234,"ok":9007199254740991,"list":[1,-9007199254740993],"whole":3.0}`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := jsonata.Encode(data)
	if want := `{"id":9007199254740993,"other":9223372036854775807,"huge":123456789012345678901234,"ok":9007199254740991,"list":[1,-9007199254740993],"whole":3}`; err != nil || string(text) != want {
		t.Fatalf("data that no expression touches: got %s, %v", text, err)
	}
	lookup := func(string) (any, bool) { return data, true }
	for _, expr := range []string{
		"$d.id", "$d", "$d.list", "{'x': $d.id}", "$d.id + 0", "$d.id = 9007199254740993", "$string($d.id)", "'' & $d.other", "$sum($d.list)",
		"$number('9007199254740993')", "$d.id > 1", "-$d.huge", "$abs($d.id)", "$string($d)",
	} {
		if got, err := eval(expr, lookup); !errors.Is(err, jsonata.ErrUnsafeInteger) {
			t.Errorf("%s: got %s, %v", expr, got, err)
		}
	}
	for expr, want := range map[string]string{"$d.ok": "9007199254740991", "$d.list[0]": "1", "$d.whole": "3", "$count($d.list)": "2", "$exists($d.id)": "true"} {
		if got, err := eval(expr, lookup); err != nil || got != want {
			t.Errorf("%s: got %s, %v", expr, got, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1,"a":2}`:           `"a" is given twice`,
		`1 2`:                     "more than one",
		`{"a":`:                   "EOF",
		``:                        "EOF",
		`[1,`:                     "EOF",
		`1e999`:                   "read number",
		strings.Repeat("[", 1000): "nested deeper",
		`{"a"}`:                   "read JSON",
	} {
		if _, err := jsonata.Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: got %v, want %q", text, err, want)
		}
	}
}

func TestEvalDoesNotChangeItsInput(t *testing.T) {
	answers, lookup := readReference(t)
	states, _ := lookup("states")
	before, err := jsonata.Encode(states)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		_, _ = eval(a.Expr, lookup)
	}
	if after, err := jsonata.Encode(states); err != nil || string(after) != string(before) {
		t.Fatalf("input changed to %s (%v)", after, err)
	}
}

func FuzzCompileAndEval(f *testing.F) {
	cases, err := os.ReadFile("testdata/cases.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.SplitSeq(string(cases), "\n") {
		f.Add(line)
	}
	data, err := jsonata.Decode([]byte(`{"a":[{"b":1},{"b":[2,null]}],"n":3,"s":"x","id":9007199254740993}`))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, source string) {
		if strings.Contains(source, "..") {
			t.Skip("ranges of millions are legal and slow")
		}
		text, err := eval(source, func(string) (any, bool) { return data, true })
		if err != nil {
			return
		}
		if _, err := jsonata.Decode([]byte(text)); err != nil {
			t.Fatalf("%q gave %q, which is no JSON: %v", source, text, err)
		}
	})
}

func FuzzDecodeEncode(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,"x",null,true,{}]}`, `"\u2028<"`, `-0`, `1e300`, `9007199254740993`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := jsonata.Decode([]byte(text))
		if err != nil {
			return
		}
		once, err := jsonata.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		again, err := jsonata.Decode(once)
		if err != nil {
			t.Fatalf("%s does not decode: %v", once, err)
		}
		if twice, err := jsonata.Encode(again); err != nil || string(twice) != string(once) {
			t.Fatalf("%s became %s (%v)", once, twice, err)
		}
	})
}
