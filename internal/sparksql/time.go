package sparksql

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseTimestamp reads a timestamp as Spark casts a string to one: year, year-month or a date, then "T" or a space and hours, minutes, seconds with
// up to nine decimals, then a zone (Z, UTC, GMT, UTC+1, +01:00). Without a zone it is UTC. Zones by region name are refused.
func ParseTimestamp(text string) (time.Time, error) {
	fault := func(what string) (time.Time, error) {
		return time.Time{}, fmt.Errorf("read timestamp %q: %s", text, what)
	}
	s := strings.TrimSpace(text)
	at := strings.IndexAny(s, "T ")
	datePart, clock := s, ""
	if at > 0 {
		datePart, clock = s[:at], strings.TrimSpace(s[at+1:])
	}
	day, err := parseDate(datePart)
	if err != nil {
		return fault("want yyyy-mm-dd hh:mm:ss")
	}
	if clock == "" {
		return day, nil
	}
	clock, offset, err := cutZone(clock)
	if err != nil {
		return fault(err.Error())
	}
	sinceMidnight, ok := parseClock(clock)
	if !ok {
		return fault("want hh:mm:ss after the date")
	}
	return day.Add(sinceMidnight - offset), nil
}

// ParseDate reads a date as Spark casts a string to one: year, year-month, year-month-day; what follows "T" or a space is ignored.
func ParseDate(text string) (time.Time, error) {
	s := strings.TrimSpace(text)
	if at := strings.IndexAny(s, "T "); at > 0 {
		s = s[:at]
	}
	day, err := parseDate(s)
	if err != nil {
		return time.Time{}, fmt.Errorf("read date %q: want yyyy-mm-dd", text)
	}
	return day, nil
}

func parseDate(s string) (time.Time, error) {
	parts := strings.Split(s, "-")
	fields := [3]int{0, 1, 1}
	if len(parts) > 3 || len(parts[0]) < 4 || len(parts[0]) > 6 {
		return time.Time{}, strconv.ErrSyntax
	}
	for i, part := range parts {
		n, ok := digits(part, 6)
		if !ok || i > 0 && len(part) > 2 {
			return time.Time{}, strconv.ErrSyntax
		}
		fields[i] = n
	}
	day := time.Date(fields[0], time.Month(fields[1]), fields[2], 0, 0, 0, 0, time.UTC)
	if int(day.Month()) != fields[1] || day.Day() != fields[2] || fields[1] < 1 {
		return time.Time{}, strconv.ErrRange
	}
	return day, nil
}

// parseClock reads h:m[:s[.fraction]].
func parseClock(s string) (time.Duration, bool) {
	s, fraction, hasFraction := strings.Cut(s, ".")
	parts := strings.Split(s, ":")
	if len(parts) > 3 || hasFraction && len(parts) != 3 || len(fraction) > 9 {
		return 0, false
	}
	var total time.Duration
	for i, part := range parts {
		unit := [...]time.Duration{time.Hour, time.Minute, time.Second}[i]
		n, ok := digits(part, 2)
		if !ok || n >= [...]int{24, 60, 60}[i] {
			return 0, false
		}
		total += time.Duration(n) * unit
	}
	if fraction == "" {
		return total, true
	}
	n, ok := digits(fraction+strings.Repeat("0", 9-len(fraction)), 9)
	return total + time.Duration(n), ok
}

// cutZone takes the zone off the end of a clock time.
func cutZone(clock string) (rest string, offset time.Duration, err error) {
	end := strings.IndexFunc(clock, func(r rune) bool { return !strings.ContainsRune("0123456789:.", r) })
	if end < 0 {
		return clock, 0, nil
	}
	rest, zone := strings.TrimSpace(clock[:end]), strings.ToUpper(strings.TrimSpace(clock[end:]))
	for _, utc := range [...]string{"UTC", "GMT", "UT", "Z"} {
		if cut, found := strings.CutPrefix(zone, utc); found {
			if zone = cut; zone == "" {
				return rest, 0, nil
			}
			break
		}
	}
	sign := time.Duration(1)
	switch {
	case strings.HasPrefix(zone, "-"):
		sign = -1
	case !strings.HasPrefix(zone, "+"):
		return "", 0, fmt.Errorf("time zone %q is not supported, give an offset such as +01:00", strings.TrimSpace(clock[end:]))
	}
	hours, minutes, _ := strings.Cut(zone[1:], ":")
	if minutes == "" && len(hours) == 4 {
		hours, minutes = hours[:2], hours[2:]
	}
	h, ok := digits(hours, 2)
	m, okM := 0, true
	if minutes != "" {
		m, okM = digits(minutes, 2)
	}
	if !ok || !okM || h > 18 || m > 59 {
		return "", 0, fmt.Errorf("time zone offset %q is not valid", zone)
	}
	return rest, sign * (time.Duration(h)*time.Hour + time.Duration(m)*time.Minute), nil
}

// digits reads 1 to most decimal digits.
func digits(s string, most int) (int, bool) {
	if s == "" || len(s) > most || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}
