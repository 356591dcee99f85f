package when

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Cron is a time of the form "minute hour day-of-month month day-of-week", each *, a number, a range a-b, a step */n or a-b/n, or a list of them.
// Sunday is 0 and 7. As in cron, a day matches by either of its two fields when both are limited.
type Cron struct {
	minutes, hours, days, months, weekdays uint64
	anyDay, anyWeekday                     bool
}

// ParseCron reads a cron time.
func ParseCron(text string) (Cron, error) {
	fields := strings.Fields(text)
	if len(fields) != 5 {
		return Cron{}, fmt.Errorf("cron time %q: want five fields", text)
	}
	c := Cron{anyDay: fields[2] == "*", anyWeekday: fields[4] == "*"}
	for i, f := range []struct {
		set       *uint64
		low, high int
	}{{&c.minutes, 0, 59}, {&c.hours, 0, 23}, {&c.days, 1, 31}, {&c.months, 1, 12}, {&c.weekdays, 0, 7}} {
		set, err := cronField(fields[i], f.low, f.high)
		if err != nil {
			return Cron{}, fmt.Errorf("cron time %q: %w", text, err)
		}
		*f.set = set
	}
	if c.weekdays&(1<<7) != 0 {
		c.weekdays |= 1
	}
	if _, found := c.Next(time.UnixMilli(0)); !found {
		return Cron{}, fmt.Errorf("cron time %q never comes", text)
	}
	return c, nil
}

func cronField(text string, low, high int) (set uint64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		span, stepText, stepped := strings.Cut(part, "/")
		from, to, step := low, high, 1
		if span != "*" {
			first, last, isRange := strings.Cut(span, "-")
			if from, err = strconv.Atoi(first); err != nil {
				return 0, fmt.Errorf("%q is no number", first)
			}
			to = from
			if isRange {
				if to, err = strconv.Atoi(last); err != nil {
					return 0, fmt.Errorf("%q is no number", last)
				}
			} else if stepped {
				to = high
			}
		}
		if stepped {
			if step, err = strconv.Atoi(stepText); err != nil || step < 1 {
				return 0, fmt.Errorf("%q is no step", stepText)
			}
		}
		if from < low || to > high || from > to {
			return 0, fmt.Errorf("%q is not within %d to %d", part, low, high)
		}
		for n := from; n <= to; n += step {
			set |= 1 << n
		}
	}
	return set, nil
}

func has(set uint64, n int) bool { return set&(1<<n) != 0 }

func (c Cron) day(t time.Time) bool {
	day, weekday := has(c.days, t.Day()), has(c.weekdays, int(t.Weekday()))
	if c.anyDay || c.anyWeekday {
		return day && weekday
	}
	return day || weekday
}

// Next is the first time after t; found is false when there is none in ten years.
func (c Cron) Next(t time.Time) (next time.Time, found bool) {
	t = t.UTC().Truncate(time.Minute).Add(time.Minute)
	for end := t.AddDate(10, 0, 0); t.Before(end); {
		switch {
		case !has(c.months, int(t.Month())) || !c.day(t):
			t = time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, time.UTC)
		case !has(c.hours, t.Hour()):
			t = t.Truncate(time.Hour).Add(time.Hour)
		case !has(c.minutes, t.Minute()):
			t = t.Add(time.Minute)
		default:
			return t, true
		}
	}
	return time.Time{}, false
}

// Windows are times of the week in which runs may start. None means always.
type Windows []window

// window is a span of minutes on days of the week; one that ends before it begins goes on past midnight.
type window struct {
	days     uint64
	from, to int
}

// ParseWindows reads windows like "22:00-06:00" and "Sat-Sun 08:00-20:00", parted by commas.
func ParseWindows(text string) (Windows, error) {
	var out Windows
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		w := window{days: 1<<7 - 1}
		days, span, limited := strings.Cut(part, " ")
		if !limited {
			span = days
		} else if err := w.setDays(days); err != nil {
			return nil, fmt.Errorf("window %q: %w", part, err)
		}
		first, last, found := strings.Cut(strings.TrimSpace(span), "-")
		var err error
		if w.from, err = minuteOf(first); err == nil && found {
			w.to, err = minuteOf(last)
		}
		if err != nil || !found || w.from == w.to {
			return nil, fmt.Errorf("window %q: want [days] HH:MM-HH:MM", part)
		}
		out = append(out, w)
	}
	return out, nil
}

func (w *window) setDays(text string) error {
	w.days = 0
	first, last, isRange := strings.Cut(text, "-")
	from, err := weekday(first)
	to := from
	if err == nil && isRange {
		to, err = weekday(last)
	}
	if err != nil {
		return err
	}
	for d := from; ; d = (d + 1) % 7 {
		w.days |= 1 << d
		if d == to {
			return nil
		}
	}
}

func weekday(text string) (int, error) {
	for d := range 7 {
		if strings.EqualFold(time.Weekday(d).String()[:3], text) {
			return d, nil
		}
	}
	return 0, fmt.Errorf("%q is no day (Mon, Tue, ...)", text)
}

func minuteOf(text string) (int, error) {
	if text == "24:00" {
		return 24 * 60, nil
	}
	t, err := time.Parse("15:04", text)
	return t.Hour()*60 + t.Minute(), err
}

// Open reports whether a run may start at t.
func (w Windows) Open(t time.Time) bool {
	t = t.UTC()
	minute, today := t.Hour()*60+t.Minute(), int(t.Weekday())
	for _, one := range w {
		overnight := one.to < one.from
		switch {
		case has(one.days, today) && minute >= one.from && (overnight || minute < one.to):
			return true
		case overnight && has(one.days, (today+6)%7) && minute < one.to:
			return true
		}
	}
	return len(w) == 0
}
