package policy

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"firn/internal/policy/when"
)

// normal checks a value for a key and brings it into its normal form. The error says what is wrong, without the key.
func (k Key) normal(value any) (string, error) {
	text, err := textOf(value)
	if err != nil {
		return "", err
	}
	text = strings.TrimSpace(text)
	switch k.Kind {
	case KindFlag:
		lower := strings.ToLower(text)
		if lower != "true" && lower != "false" {
			return "", fmt.Errorf("%q is neither true nor false", text)
		}
		return lower, nil
	case KindWhole:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return "", fmt.Errorf("%q is not a whole number", text)
		}
		return strconv.FormatInt(n, 10), k.bounds(float64(n), text)
	case KindBytes:
		n, err := ParseBytes(text)
		if err != nil {
			return "", err
		}
		return strconv.FormatInt(n, 10), k.bounds(float64(n), text)
	case KindCondition:
		if text != "" {
			_, err = when.Parse(text)
		}
		return text, err
	case KindWindows:
		_, err := when.ParseWindows(text)
		return text, err
	case KindRatio, KindAmount:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return "", fmt.Errorf("%q is not a number", text)
		}
		return strconv.FormatFloat(f, 'f', -1, 64), k.bounds(f, text)
	case KindAge:
		d, err := ParseAge(text)
		if err != nil {
			return "", err
		}
		return FormatAge(d), nil
	case KindPairs:
		var pairs map[string]string
		if text != "" && json.Unmarshal([]byte(text), &pairs) != nil {
			return "", fmt.Errorf("%q is no map of texts", text)
		}
		return text, nil
	}
	if len(k.Values) > 0 && !slices.Contains(k.Values, text) {
		return "", fmt.Errorf("%q is none of %s", text, strings.Join(k.Values, ", "))
	}
	return text, nil
}

func (k Key) bounds(n float64, text string) error {
	if n < k.Low {
		return fmt.Errorf("%s must be at least %v", text, k.Low)
	}
	if k.High > 0 && n > k.High {
		return fmt.Errorf("%s must be at most %v", text, k.High)
	}
	return nil
}

// textOf writes a value of a YAML or JSON document as text: lists with commas, maps as JSON.
func textOf(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			text, ok := item.(string)
			if !ok || strings.Contains(text, ",") {
				return "", fmt.Errorf("%v is no text without a comma", item)
			}
			items[i] = text
		}
		return strings.Join(items, ","), nil
	case map[string]any:
		data, err := json.Marshal(v)
		return string(data), err
	case nil:
		return "", fmt.Errorf("the value is missing")
	}
	if n, ok := wholeOf(value); ok {
		return n, nil
	}
	return "", fmt.Errorf("%v is no plain value", value)
}

func wholeOf(value any) (string, bool) {
	switch v := value.(type) {
	case int:
		return strconv.Itoa(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case uint64:
		return strconv.FormatUint(v, 10), true
	}
	return "", false
}

func splitList(text string) []string {
	var out []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// ParseBytes reads a number of bytes with an optional unit KiB, MiB, GiB or TiB.
func ParseBytes(text string) (int64, error) {
	number, shift := text, 0
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if cut, found := strings.CutSuffix(text, unit); found {
			number, shift = strings.TrimSpace(cut), 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no number of bytes (units are KiB, MiB, GiB, TiB)", text)
	}
	if n > math.MaxInt64>>shift || n < 0 {
		return 0, fmt.Errorf("%q is out of range", text)
	}
	return n << shift, nil
}

// ParseAge reads an age with its unit: "36h", "7d", "2w", "90m", "1d12h". A number without unit is refused, and so is a negative one.
func ParseAge(text string) (time.Duration, error) {
	var total time.Duration
	rest := strings.TrimSpace(text)
	if rest == "" {
		return 0, faultf("an age is missing: want a number and a unit such as 7d")
	}
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		if err != nil {
			return 0, faultf("%q is no age: want a number and a unit such as 7d", text)
		}
		rest = rest[digits:]
		letters := len(rest) - len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz"))
		unit := map[string]time.Duration{
			"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour,
		}[rest[:letters]]
		if unit == 0 {
			return 0, faultf("%q is no age: the unit of %d is missing or none of ms, s, m, h, d, w", text, n)
		}
		if n > int64((math.MaxInt64-total)/unit) {
			return 0, faultf("%q is longer than can be counted", text)
		}
		total += time.Duration(n) * unit
		rest = rest[letters:]
	}
	return total, nil
}

// RoundAge spells a time that has passed, for people: "11d19h", "3h5m", "42s". Two units are enough.
func RoundAge(age time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case age >= 2*day:
		text := fmt.Sprintf("%dd", age/day)
		if hours := age % day / time.Hour; hours > 0 {
			text += fmt.Sprintf("%dh", hours)
		}
		return text
	case age >= time.Hour:
		return fmt.Sprintf("%dh%dm", age/time.Hour, age%time.Hour/time.Minute)
	}
	return age.Round(time.Second).String()
}

// FormatAge prints an age as ParseAge reads it, in the largest whole unit.
func FormatAge(d time.Duration) string {
	for _, u := range [...]struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if d >= u.unit && d%u.unit == 0 {
			return fmt.Sprintf("%d%s", d/u.unit, u.name)
		}
	}
	if d == 0 {
		return "0s"
	}
	return fmt.Sprintf("%dms", d.Milliseconds())
}
