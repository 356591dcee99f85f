// Package decide holds every decision about what to maintain, as functions of plain data: which data files a rewrite selects and how it groups them
// (DataFiles), which snapshots expire (Snapshots), which listed files are orphans (Orphans), which jobs are due (Due). It reads no clock, reaches
// no store and knows no Iceberg library; callers describe the table in its terms. The rules are those of Apache Iceberg's Spark procedures, with
// their names, defaults and arithmetic; docs/compatibility.md lists the deliberate differences. Bad input ends in an error that names the option,
// the value and the bound, never in a guess.
package decide

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/sparksql"
)

// ErrOption marks every error about an option or argument that cannot be used: the caller's fault, not the table's.
var ErrOption = errors.New("option cannot be used")

// optionError is a fault in an option's value; it is an ErrOption and prints without that word.
type optionError struct{ text string }

func (e *optionError) Error() string { return e.text }

func (e *optionError) Is(target error) bool { return target == ErrOption }

func optionErrorf(format string, args ...any) error {
	return &optionError{text: fmt.Sprintf(format, args...)}
}

// optionReader reads typed values out of an options map and collects all faults. Where an option is absent the default applies.
type optionReader struct {
	options map[string]string
	// noun is what the entries are called in messages: option (when empty), argument, property.
	noun  string
	known []string
	errs  []error
}

// faultOf reports what is wrong with the value of one entry.
func (r *optionReader) faultOf(name, format string, args ...any) {
	r.fault("read %s %s: %s", r.nounOf(), name, fmt.Sprintf(format, args...))
}

func (r *optionReader) nounOf() string {
	if r.noun == "" {
		return "option"
	}
	return r.noun
}

func (r *optionReader) fault(format string, args ...any) {
	r.errs = append(r.errs, optionErrorf(format, args...))
}

// text returns the option and remembers its name as known.
func (r *optionReader) text(name string) (string, bool) {
	r.known = append(r.known, name)
	v, ok := r.options[name]
	return strings.TrimSpace(v), ok
}

// whole reads an integer of at least low and at most high.
func (r *optionReader) whole(name string, fallback, low, high int64) int64 {
	text, ok := r.text(name)
	if !ok {
		return fallback
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		r.faultOf(name, "%q is not a whole number", text)
		return fallback
	case n < low:
		r.faultOf(name, "%d must be at least %d", n, low)
		return fallback
	case n > high:
		r.faultOf(name, "%d must be at most %d", n, high)
		return fallback
	}
	return n
}

// count reads an int32, as Spark does for numbers of files, commits and bytes of keys.
func (r *optionReader) count(name string, fallback, low int) int {
	return int(r.whole(name, int64(fallback), int64(low), math.MaxInt32))
}

// flag reads true or false in any case.
func (r *optionReader) flag(name string, fallback bool) bool {
	text, ok := r.text(name)
	if !ok {
		return fallback
	}
	switch strings.ToLower(text) {
	case "true":
		return true
	case "false":
		return false
	}
	r.faultOf(name, "%q is neither true nor false", text)
	return fallback
}

// fraction reads a number above 0 and at most high.
func (r *optionReader) fraction(name string, fallback, high float64) float64 {
	text, ok := r.text(name)
	if !ok {
		return fallback
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsNaN(f) || math.IsInf(f, 0):
		r.faultOf(name, "%q is not a number", text)
		return fallback
	case f <= 0:
		r.faultOf(name, "%v must be above 0", f)
		return fallback
	case f > high:
		r.faultOf(name, "%v must be at most %v", f, high)
		return fallback
	}
	return f
}

// unknown reports every option that nothing has read, with the nearest known one; scope says whose options they are.
func (r *optionReader) unknown(scope string) {
	names := make([]string, 0, len(r.options))
	for name := range r.options {
		if !slices.Contains(r.known, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		r.faultOf(name, "%s has no %s of that name%s", scope, r.nounOf(), maintenance.Suggestion(name, r.known))
	}
}

func (r *optionReader) err() error { return errors.Join(r.errs...) }

const (
	// runMicros is what a run costs beside its bytes, in millionths of a dollar: about 60 transitions of the state machine at $25 a million, its invocations
	// and its items. bytesPerMicro is how many rewritten bytes cost one: $1 for a terabyte. docs/cost.md derives both.
	runMicros     = 2000
	bytesPerMicro = 1_000_000
)

// RunMicros is what a run that rewrites so many bytes costs by the cost model, in millionths of a dollar.
func RunMicros(rewrittenBytes int64) int64 { return runMicros + rewrittenBytes/bytesPerMicro }

// earliestEpochMillis is the least number that is read as milliseconds since the epoch (March 1973): a number of seconds of our times is smaller,
// and so is every count of days somebody meant.
const earliestEpochMillis = 100_000_000_000

// ParseInstant reads a time argument: a timestamp as Spark casts one (UTC without zone), a date, milliseconds since the epoch, "now" or "now-7d",
// and "today" or "today-7d", which count from midnight in UTC.
// Numbers that cannot be milliseconds are refused, since the mistake would delete everything or nothing.
func ParseInstant(text string, now time.Time) (time.Time, error) {
	s := strings.TrimSpace(text)
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		if n < earliestEpochMillis || n > math.MaxInt64/int64(time.Millisecond) {
			return time.Time{}, optionErrorf("%q is neither a timestamp nor milliseconds since the epoch", text)
		}
		return time.UnixMilli(n).UTC(), nil
	}
	rest, relative := strings.CutPrefix(strings.ToLower(s), "now")
	if day, found := strings.CutPrefix(rest, "today"); found {
		rest, relative, now = day, true, now.UTC().Truncate(24*time.Hour)
	}
	if relative {
		if rest = strings.TrimSpace(rest); rest == "" {
			return now, nil
		}
		age, found := strings.CutPrefix(rest, "-")
		if !found {
			return time.Time{}, optionErrorf("%q is no time: want now-7d or the like", text)
		}
		d, err := ParseAge(strings.TrimSpace(age))
		if err != nil {
			return time.Time{}, err
		}
		return now.Add(-d), nil
	}
	at, err := sparksql.ParseTimestamp(s)
	if err != nil {
		return time.Time{}, optionErrorf("%v", err)
	}
	return at, nil
}

// ParseAge reads an age with its unit as policies spell it ("36h", "7d", "1d12h"). A number without unit is refused.
func ParseAge(text string) (time.Duration, error) {
	d, err := policy.ParseAge(text)
	if err != nil {
		return 0, optionErrorf("%v", err)
	}
	return d, nil
}
