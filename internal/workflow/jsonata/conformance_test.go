package jsonata_test

import (
	"encoding/json"
	"os"
	"testing"

	"firn/internal/workflow/jsonata"
)

// answer is what the reference engine said: a value as JSON text, undefined, or an error code.
type answer struct {
	Expr      string `json:"expr"`
	Value     string `json:"value"`
	Undefined bool   `json:"undefined"`
	Error     string `json:"error"`
}

func readReference(t *testing.T) ([]answer, func(string) (any, bool)) {
	t.Helper()
	var answers []answer
	text, err := os.ReadFile("testdata/expected.json")
	if err == nil {
		err = json.Unmarshal(text, &answers)
	}
	if err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile("testdata/bindings.json"); err != nil {
		t.Fatal(err)
	}
	v, err := jsonata.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return answers, v.(*jsonata.Object).Lookup
}

// TestSubsetAnswersAsReferenceEngine compares every case with the recorded answer of jsonata 2.2.2 (testdata/generate.mjs).
func TestSubsetAnswersAsReferenceEngine(t *testing.T) {
	answers, lookup := readReference(t)
	if len(answers) < 250 {
		t.Fatalf("only %d cases", len(answers))
	}
	for _, want := range answers {
		t.Run(want.Expr, func(t *testing.T) {
			got, err := eval(want.Expr, lookup)
			if isStricter(want.Expr) {
				if err == nil {
					t.Fatalf("got %s, want a refusal", got)
				}
				return
			}
			switch {
			case want.Error != "" || want.Undefined:
				if err == nil {
					t.Fatalf("got %s, reference: error %q undefined %v", got, want.Error, want.Undefined)
				}
			case err != nil:
				t.Fatalf("got error %v, reference %s", err, want.Value)
			case got != want.Value:
				t.Fatalf("got %s, reference %s", got, want.Value)
			}
		})
	}
}

// isStricter names the cases that we refuse although the reference engine answers: it returns Infinity, which is no JSON.
func isStricter(expr string) bool {
	return expr == "$states.input.n / 0" || expr == "1e308 * 10"
}

func eval(source string, lookup func(string) (any, bool)) (string, error) {
	e, err := jsonata.Compile(source)
	if err != nil {
		return "", err
	}
	v, err := e.Eval(lookup)
	if err != nil {
		return "", err
	}
	text, err := jsonata.Encode(v)
	return string(text), err
}
