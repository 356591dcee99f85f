package jsonata

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf16"
)

// truthy is JSONata's cast to boolean. Undefined is false.
func truthy(v any) bool {
	switch v := v.(type) {
	case bool:
		return v
	case string:
		return v != ""
	case float64:
		return v != 0
	case json.Number:
		return true
	case *Object:
		return len(v.keys) > 0
	case *Array:
		return slices.ContainsFunc(v.Items, truthy)
	default:
		return false
	}
}

func isUnsafe(v any) bool {
	_, ok := v.(json.Number)
	return ok
}

// typeOf names a value's type as $type does.
func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64, json.Number:
		return "number"
	case *Array:
		return "array"
	case *Object:
		return "object"
	default:
		return "undefined"
	}
}

func textOf(v any) (any, error) { return toString(v) }

// toString is the cast of $string and &: strings as they are, everything else as JSON.
func toString(v any) (string, error) {
	if s, ok := v.(string); ok {
		return s, nil
	}
	if _, err := settle(v); err != nil {
		return "", err
	}
	b, err := appendValue(nil, v, true)
	return string(b), err
}

func toNumber(args []any) (any, error) {
	switch v := args[0].(type) {
	case float64:
		return v, nil
	case bool:
		if v {
			return 1.0, nil
		}
		return 0.0, nil
	case string:
		return parseNumber(v)
	case json.Number:
		return nil, fmt.Errorf("%s: %w", v, ErrUnsafeInteger)
	default:
		return nil, fmt.Errorf("%s cannot be cast to a number", typeOf(v))
	}
}

// parseNumber reads decimal literals only; an integer that would be rounded is an error.
func parseNumber(text string) (any, error) {
	decimal := regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?([Ee][-+]?[0-9]+)?$`)
	if !decimal.MatchString(text) {
		return nil, fmt.Errorf("%q is no decimal number", text)
	}
	v, err := number(json.Number(text))
	if err != nil {
		return nil, err
	}
	if isUnsafe(v) {
		return nil, fmt.Errorf("%s: %w", text, ErrUnsafeInteger)
	}
	return v, nil
}

func compareNumbers(a, b float64) int { return cmp.Compare(a, b) }

// compareUTF16 orders strings by UTF-16 units, as JavaScript and Java do.
func compareUTF16(a, b string) int {
	x, y := utf16.Encode([]rune(a)), utf16.Encode([]rune(b))
	for i := range min(len(x), len(y)) {
		if c := cmp.Compare(x[i], y[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(x), len(y))
}

func formatNumber(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
