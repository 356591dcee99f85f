package when_test

import (
	"strings"
	"testing"
	"time"

	"firn/internal/policy/when"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	instant, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		t.Fatal(err)
	}
	return instant
}

func TestConditions(t *testing.T) {
	t.Parallel()
	facts := when.Facts{
		Values:  map[string]float64{"small-files": 50, "commits": 9, "small-bytes": 1 << 30, "deleted-ratio": 0.25, "since-last-run": 6 * 3600e3},
		SinceMS: at(t, "2026-11-30 02:00").UnixMilli(), NowMS: at(t, "2026-11-30 03:00").UnixMilli(),
	}
	for text, want := range map[string]bool{
		"small-files >= 49":                                    true,
		"small-files >= 50":                                    true,
		"small-files >= 51":                                    false,
		"small-files > 50":                                     false,
		"commits < 10":                                         true,
		"commits <= 8":                                         false,
		"small-bytes >= 1GiB":                                  true,
		"small-bytes >= 1025MiB":                               false,
		"deleted-ratio >= 0.25":                                true,
		"since-last-run >= 6h":                                 true,
		"since-last-run >= 1d":                                 false,
		"small-files >= 50 and commits >= 10":                  false,
		"small-files >= 50 AND commits >= 9":                   true,
		"small-files >= 99 or commits >= 9":                    true,
		"small-files>=99 or commits>=9 and commits>=10":        false,
		"(small-files >= 99 or commits >= 9) and commits < 10": true,
		"cron('0 3 * * *')":                                    true,
		"cron('1 3 * * *')":                                    false,
		"cron('0 2 * * *')":                                    false,
		"cron('*/15 * * * 1-5') and commits >= 9":              true,
	} {
		e, err := when.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, why := e.Holds(facts); got != want || why == "" {
			t.Errorf("%s: %t (%s), want %t", text, got, why, want)
		}
	}
}

func TestFaultyConditions(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "small-files", "small-files >=", "small-files >= many", "small-files = 5", "big-files >= 5", "small-files >= 5 and", "(commits > 1",
		"commits > 1)", "commits > 1 commits > 2", "cron(0 3 * * *)", "cron('0 3 * *')", "cron('61 * * * *')", "cron('0 0 31 2 *')", "since-last-run > 5",
		"commits > -1", "'", strings.Repeat("(", 1000) + "commits > 1", strings.Repeat("commits > 1 or ", 1000) + "commits > 1",
	} {
		if _, err := when.Parse(text); err == nil {
			t.Errorf("%.40q is taken", text)
		}
	}
}

func TestCronNext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ cron, after, want string }{
		{"30 4 * * *", "2026-11-30 04:29", "2026-11-30 04:30"},
		{"30 4 * * *", "2026-11-30 04:30", "2026-12-01 04:30"},
		{"0 0 1 1 *", "2026-11-30 00:00", "2027-01-01 00:00"},
		{"0 12 * * 7", "2026-11-30 00:00", "2026-12-06 12:00"},
		{"0 0 13 * 5", "2026-11-30 00:00", "2026-12-04 00:00"},
		{"5-10/5,59 23 * * *", "2026-11-30 23:06", "2026-11-30 23:10"},
		{"0 0 29 2 *", "2026-11-30 00:00", "2028-02-29 00:00"},
	} {
		cron, err := when.ParseCron(c.cron)
		if err != nil {
			t.Fatal(err)
		}
		if got, found := cron.Next(at(t, c.after)); !found || !got.Equal(at(t, c.want)) {
			t.Errorf("%s after %s: %s, want %s", c.cron, c.after, got, c.want)
		}
	}
}

func TestWindows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		windows, at string
		want        bool
	}{
		{"", "2026-11-30 12:00", true},
		{"22:00-06:00", "2026-11-30 21:59", false},
		{"22:00-06:00", "2026-11-30 22:00", true},
		{"22:00-06:00", "2026-11-30 05:59", true},
		{"22:00-06:00", "2026-11-30 06:00", false},
		{"Sat-Sun 08:00-20:00", "2026-11-30 12:00", false}, // a Monday
		{"Sat-Sun 08:00-20:00", "2026-11-29 12:00", true},
		{"Sun 22:00-02:00", "2026-11-30 01:59", true},
		{"Mon 22:00-02:00", "2026-11-30 01:59", false},
		{"Fri-Mon 00:00-24:00", "2026-11-30 23:59", true},
		{"01:00-02:00, 12:00-13:00", "2026-11-30 12:30", true},
	} {
		w, err := when.ParseWindows(c.windows)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Open(at(t, c.at)); got != c.want {
			t.Errorf("%q at %s: %t", c.windows, c.at, got)
		}
	}
	for _, text := range []string{"22:00", "22:00-25:00", "Someday 01:00-02:00", "01:00-01:00", "a-b"} {
		if _, err := when.ParseWindows(text); err == nil {
			t.Errorf("window %q is taken", text)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"small-files >= 50 and (commits > 1 or cron('0 3 * * *'))", "((", "since-last-run >= 5d"} {
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		if e, err := when.Parse(text); err == nil {
			e.Holds(when.Facts{})
		}
	})
}
