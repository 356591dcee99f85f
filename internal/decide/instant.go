package decide

import (
	"math"
	"strconv"
	"strings"
	"time"

	"firn/internal/policy"
	"firn/internal/sparksql"
)

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
