package decide

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"firn/internal/sparksql"
)

// earliestEpochMillis is the least number that is read as milliseconds since the epoch (March 1973): a number of seconds of our times is smaller,
// and so is every count of days somebody meant.
const earliestEpochMillis = 100_000_000_000

// ParseInstant reads a time argument: a timestamp as Spark casts one (UTC without zone), a date, milliseconds since the epoch, "now", or "now-7d".
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

// ParseAge reads an age with its unit: "36h", "7d", "2w", "90m", "1d12h". A number without unit is refused, and so is a negative one.
func ParseAge(text string) (time.Duration, error) {
	var total time.Duration
	rest := strings.TrimSpace(text)
	if rest == "" {
		return 0, optionErrorf("an age is missing: want a number and a unit such as 7d")
	}
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.ParseInt(rest[:digits], 10, 32)
		if err != nil {
			return 0, optionErrorf("%q is no age: want a number and a unit such as 7d", text)
		}
		rest = rest[digits:]
		letters := len(rest) - len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz"))
		unit := map[string]time.Duration{
			"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour,
		}[rest[:letters]]
		if unit == 0 {
			return 0, optionErrorf("%q is no age: the unit of %d is missing or none of ms, s, m, h, d, w", text, n)
		}
		if time.Duration(n) > (math.MaxInt64-total)/unit {
			return 0, optionErrorf("%q is longer than can be counted", text)
		}
		total += time.Duration(n) * unit
		rest = rest[letters:]
	}
	return total, nil
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
	return fmt.Sprintf("%dms", d.Milliseconds())
}
