package jsonata

import (
	"crypto/md5"  //nolint:gosec // offered because Step Functions offers it; nothing of ours relies on it
	"crypto/sha1" //nolint:gosec // as above
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"math"
	"strings"
	"unicode/utf8"
)

// maxGenerated bounds $range and the text of $hash, as the intrinsic functions that they replace.
const (
	maxGenerated = 1000
	maxHashed    = 10_000
)

// textFunction holds functions on strings.
func textFunction(name string) (function, bool) {
	switch name {
	case "length":
		return function{1, 1, "s", false, func(a []any) (any, error) {
			return float64(utf8.RuneCountInString(a[0].(string))), nil
		}}, true
	case "contains":
		return function{2, 2, "ss", false, func(a []any) (any, error) {
			return strings.Contains(a[0].(string), a[1].(string)), nil
		}}, true
	case "substringBefore":
		return function{2, 2, "ss", false, func(a []any) (any, error) {
			before, _, _ := strings.Cut(a[0].(string), a[1].(string))
			return before, nil
		}}, true
	case "substringAfter":
		return function{2, 2, "ss", false, func(a []any) (any, error) {
			_, after, found := strings.Cut(a[0].(string), a[1].(string))
			if !found {
				return a[0], nil
			}
			return after, nil
		}}, true
	case "join":
		return function{2, 2, "as", false, join}, true
	case "split":
		return function{2, 2, "ss", false, split}, true
	default:
		return function{}, false
	}
}

func join(args []any) (any, error) {
	a, ok := args[0].(*Array)
	if !ok {
		return undefined{}, nil
	}
	parts := make([]string, len(a.Items))
	for i, item := range a.Items {
		s, ok := item.(string)
		if !ok {
			return nil, fmt.Errorf("item %d must be a string, it is %s", i, typeOf(item))
		}
		parts[i] = s
	}
	return strings.Join(parts, args[1].(string)), nil
}

func split(args []any) (any, error) {
	out := &Array{}
	for part := range strings.SplitSeq(args[0].(string), args[1].(string)) {
		out.Items = append(out.Items, part)
	}
	return out, nil
}

// stepFunction holds the additions of Step Functions.
func stepFunction(name string) (function, bool) {
	switch name {
	case "partition":
		return function{2, 2, "an", false, partition}, true
	case "range":
		return function{3, 3, "nnn", false, rangeOf}, true
	case "hash":
		return function{2, 2, "ss", false, hashOf}, true
	case "parse":
		return function{1, 1, "s", false, func(a []any) (any, error) { return Decode([]byte(a[0].(string))) }}, true
	default:
		return function{}, false
	}
}

// partition cuts an array into arrays of the given size; the last may be shorter.
func partition(args []any) (any, error) {
	size := args[1].(float64)
	if size < 1 || size != math.Trunc(size) {
		return nil, fmt.Errorf("size must be a positive integer, it is %s", formatNumber(size))
	}
	a, ok := args[0].(*Array)
	if !ok {
		return undefined{}, nil
	}
	out := &Array{}
	n := int(min(size, float64(len(a.Items))))
	for i := 0; i < len(a.Items); i += n {
		out.Items = append(out.Items, &Array{Items: a.Items[i:min(i+n, len(a.Items))]})
	}
	return out, nil
}

// rangeOf is $range(first, last, step), last included.
func rangeOf(args []any) (any, error) {
	first, last, step := args[0].(float64), args[1].(float64), args[2].(float64)
	for _, f := range []float64{first, last, step} {
		if f != math.Trunc(f) {
			return nil, fmt.Errorf("%s is no integer", formatNumber(f))
		}
	}
	if step == 0 {
		return nil, errors.New("step must not be 0")
	}
	out := &Array{}
	for f := first; (step > 0 && f <= last) || (step < 0 && f >= last); f += step {
		if len(out.Items) == maxGenerated {
			return nil, fmt.Errorf("range has more than %d items", maxGenerated)
		}
		out.Items = append(out.Items, f)
	}
	return out, nil
}

// hashOf is $hash(text, algorithm), in lower-case hexadecimal digits.
func hashOf(args []any) (any, error) {
	text := args[0].(string)
	if len(text) > maxHashed {
		return nil, fmt.Errorf("text has %d bytes, at most %d are allowed", len(text), maxHashed)
	}
	var h hash.Hash
	switch args[1].(string) {
	case "MD5":
		h = md5.New() //nolint:gosec // see the import
	case "SHA-1":
		h = sha1.New() //nolint:gosec // see the import
	case "SHA-256":
		h = sha256.New()
	case "SHA-384":
		h = sha512.New384()
	case "SHA-512":
		h = sha512.New()
	default:
		return nil, fmt.Errorf("algorithm %q is none of MD5, SHA-1, SHA-256, SHA-384, SHA-512", args[1])
	}
	if _, err := h.Write([]byte(text)); err != nil {
		return nil, fmt.Errorf("hash: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
