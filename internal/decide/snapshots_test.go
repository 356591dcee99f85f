package decide_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"firn/internal/decide"
	"firn/internal/policy"
)

const dayMS = 24 * 60 * 60 * 1000

// nowMS is the clock of the cases: a hundred days after the epoch of their ages.
const nowMS = 20_000 * dayMS

// TestSnapshots runs testdata/snapshots. "history" takes "s ID age=DAYS parent=ID key=value..." and "branch|tag NAME ID keep=N age=D refage=D";
// "expire" takes the options as arguments.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	var in decide.SnapshotsInput
	datadriven.RunTest(t, "testdata/snapshots", func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "history":
			in = readHistory(t, d.Input)
			return "ok"
		case "expire":
			run := in
			opts, err := expireOptions(t, d)
			if err != nil {
				return err.Error()
			}
			run.Options = opts
			plan, err := decide.Snapshots(run)
			if err != nil {
				return err.Error()
			}
			return describeExpiry(plan)
		default:
			return "unknown command " + d.Cmd
		}
	})
}

func readHistory(t *testing.T, input string) decide.SnapshotsInput {
	t.Helper()
	in := decide.SnapshotsInput{NowMS: nowMS}
	for line := range strings.Lines(input) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		values := map[string]string{}
		for _, w := range words[2:] {
			key, value, _ := strings.Cut(w, "=")
			values[key] = value
		}
		number := func(text string) *int64 {
			if text == "" {
				return nil
			}
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			v := int64(n * dayMS)
			return &v
		}
		if words[0] == "s" {
			s := decide.Snapshot{ID: *number(words[1]) / dayMS, TimestampMS: nowMS - *number(values["age"]), Summary: values}
			if p := values["parent"]; p != "" {
				id := *number(p) / dayMS
				s.ParentID = &id
			}
			in.Snapshots = append(in.Snapshots, s)
			continue
		}
		r := decide.Ref{
			Name: words[1], Branch: words[0] == "branch", SnapshotID: *number(words[2]) / dayMS,
			MaxSnapshotAgeMS: number(values["age"]), MaxRefAgeMS: number(values["refage"]),
		}
		if k := values["keep"]; k != "" {
			n, _ := strconv.Atoi(k)
			r.MinSnapshotsToKeep = &n
		}
		in.Refs = append(in.Refs, r)
	}
	return in
}

func expireOptions(t *testing.T, d *datadriven.TestData) (decide.SnapshotsOptions, error) {
	t.Helper()
	args, properties, guard, limit := map[string]string{}, map[string]string{}, "", 0
	var ids []string
	var pinned []int64
	for _, a := range d.CmdArgs {
		switch value := strings.Join(a.Vals, ","); a.Key {
		case "ids":
			ids = a.Vals
		case "guard":
			guard = value
		case "limit":
			limit, _ = strconv.Atoi(value)
		case "pinned":
			n, _ := strconv.ParseInt(value, 10, 64)
			pinned = append(pinned, n)
		default:
			if strings.Contains(a.Key, ".") {
				properties[a.Key] = value
			} else {
				args[a.Key] = value
			}
		}
	}
	opts, err := decide.ParseSnapshotsOptions(args, ids, properties, time.UnixMilli(nowMS))
	if guard != "" {
		age, err := decide.ParseAge(guard)
		if err != nil {
			t.Fatal(err)
		}
		opts.Guard(age, false)
	}
	opts.Limit, opts.Pinned = limit, pinned
	return opts, err
}

func describeExpiry(plan decide.SnapshotsPlan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "expired %v", plan.ExpiredIDs)
	if len(plan.RemovedRefs) > 0 {
		fmt.Fprintf(&b, " refs %v", plan.RemovedRefs)
	}
	if plan.More {
		b.WriteString(" and more")
	}
	b.WriteString("\n")
	for _, k := range plan.Kept {
		fmt.Fprintf(&b, "kept %d: %s\n", k.ID, k.Why)
	}
	for _, w := range plan.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	return b.String()
}

// TestSeedFigures: 40 snapshots over 30 days, older_than 7 days and retain_last 5 keep 9.
func TestSeedFigures(t *testing.T) {
	t.Parallel()
	in := decide.SnapshotsInput{NowMS: nowMS, Refs: []decide.Ref{{Name: "main", Branch: true, SnapshotID: 40}}}
	for i := range int64(40) {
		s := decide.Snapshot{ID: i + 1, TimestampMS: nowMS - (40-i)*30*dayMS/40}
		if i > 0 {
			s.ParentID = &in.Snapshots[i-1].ID
		}
		in.Snapshots = append(in.Snapshots, s)
	}
	var err error
	in.Options, err = decide.ParseSnapshotsOptions(map[string]string{"older_than": "now-7d", "retain_last": "5"}, nil, nil, time.UnixMilli(nowMS))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := decide.Snapshots(in)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Kept) != 9 || len(plan.ExpiredIDs) != 31 {
		t.Errorf("kept %d, expired %d", len(plan.Kept), len(plan.ExpiredIDs))
	}
}

// TestA23LongHistory: 200,000 snapshots are decided in one pass a branch, and a limit makes bounded progress, oldest first.
func TestA23LongHistory(t *testing.T) {
	t.Parallel()
	const n = 200_000
	in := decide.SnapshotsInput{NowMS: nowMS, Refs: []decide.Ref{{Name: "main", Branch: true, SnapshotID: n}}}
	ids := make([]int64, n+1)
	for i := range ids {
		ids[i] = int64(i)
	}
	for i := int64(1); i <= n; i++ {
		s := decide.Snapshot{ID: i, TimestampMS: nowMS - (n-i)*60_000}
		if i > 1 {
			s.ParentID = &ids[i-1]
		}
		in.Snapshots = append(in.Snapshots, s)
	}
	in.Options = decide.SnapshotsOptions{OlderThanMS: nowMS - 5*dayMS, RetainLast: 1, MaxRefAgeMS: 1 << 62, Limit: 1000}
	plan, err := decide.Snapshots(in)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.ExpiredIDs) != 1000 || !plan.More || plan.ExpiredIDs[999] != 1000 {
		t.Errorf("expired %d up to %d, more %v", len(plan.ExpiredIDs), plan.ExpiredIDs[len(plan.ExpiredIDs)-1], plan.More)
	}
}

// TestExpiryInvariants: whatever the history, no snapshot of a kept ref expires, main stays, every snapshot is either kept or expired, and a
// second call right after the first finds nothing.
func TestExpiryInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := decide.SnapshotsInput{NowMS: nowMS}
		n := rapid.IntRange(1, 30).Draw(t, "snapshots")
		for i := range n {
			s := decide.Snapshot{ID: int64(i + 1), TimestampMS: nowMS - rapid.Int64Range(0, 20).Draw(t, "age")*dayMS}
			if p := rapid.Int64Range(0, int64(i)).Draw(t, "parent"); p > 0 {
				s.ParentID = &p
			}
			in.Snapshots = append(in.Snapshots, s)
		}
		in.Refs = append(in.Refs, decide.Ref{Name: "main", Branch: true, SnapshotID: rapid.Int64Range(1, int64(n)).Draw(t, "main")})
		for i := range rapid.IntRange(0, 4).Draw(t, "refs") {
			r := decide.Ref{Name: fmt.Sprint("r", i), Branch: rapid.Bool().Draw(t, "branch"), SnapshotID: rapid.Int64Range(1, int64(n)+1).Draw(t, "head")}
			if rapid.Bool().Draw(t, "own") {
				age, keep := rapid.Int64Range(0, 20).Draw(t, "own age")*dayMS, rapid.IntRange(0, 5).Draw(t, "own keep")
				r.MaxSnapshotAgeMS, r.MinSnapshotsToKeep, r.MaxRefAgeMS = &age, &keep, &age
			}
			in.Refs = append(in.Refs, r)
		}
		in.Options = decide.SnapshotsOptions{
			OlderThanMS: nowMS - rapid.Int64Range(-5, 20).Draw(t, "cutoff")*dayMS, RetainLast: rapid.IntRange(0, 5).Draw(t, "retain"), MaxRefAgeMS: 10 * dayMS,
			MinAgeMS: rapid.Int64Range(0, 5).Draw(t, "least age") * dayMS,
		}
		plan, err := decide.Snapshots(in)
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.ExpiredIDs)+len(plan.Kept) != n {
			t.Fatalf("%d expired and %d kept of %d", len(plan.ExpiredIDs), len(plan.Kept), n)
		}
		if slices.Contains(plan.RemovedRefs, "main") {
			t.Fatal("main was removed")
		}
		for _, r := range in.Refs {
			if !slices.Contains(plan.RemovedRefs, r.Name) && slices.Contains(plan.ExpiredIDs, r.SnapshotID) {
				t.Fatalf("snapshot %d of kept ref %s expired", r.SnapshotID, r.Name)
			}
		}
		for _, s := range in.Snapshots {
			if nowMS-s.TimestampMS < in.Options.MinAgeMS && slices.Contains(plan.ExpiredIDs, s.ID) {
				t.Fatalf("snapshot %d is younger than the least age", s.ID)
			}
		}
		in.Snapshots, in.Refs = after(slices.Clone(in.Snapshots), slices.Clone(in.Refs), plan)
		if again, err := decide.Snapshots(in); err != nil || len(again.ExpiredIDs) != 0 || len(again.RemovedRefs) != 0 {
			t.Fatalf("a second call expires %v %v (%v)", again.ExpiredIDs, again.RemovedRefs, err)
		}
	})
}

// TestA14Instants: zero, negative numbers, numbers without unit and seconds are refused where times and ages are read.
func TestA14Instants(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(nowMS).UTC()
	for text, want := range map[string]time.Time{
		"2024-01-02 03:04:05": time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC),
		"1704164645000":       time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC),
		"now":                 now,
		"NOW - 7d":            now.AddDate(0, 0, -7),
		"now-36h":             now.Add(-36 * time.Hour),
		"today-7d":            now.Truncate(24*time.Hour).AddDate(0, 0, -7),
		"2030-01-01":          time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		if got, err := decide.ParseInstant(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v (%v): want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"0", "-1", "3", "1704164645", "2024", "7d", "now-3", "now+7d", "", "yesterday", "99999999999999999999"} {
		if got, err := decide.ParseInstant(text, now); err == nil || !errors.Is(err, decide.ErrOption) {
			t.Errorf("%q is %v (%v): want an option error", text, got, err)
		}
	}
	for text, want := range map[string]time.Duration{"7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "90m": 90 * time.Minute, "2w": 336 * time.Hour, "500ms": time.Second / 2} {
		if got, err := decide.ParseAge(text); err != nil || got != want {
			t.Errorf("%q is %v (%v): want %v", text, got, err, want)
		}
		if again, err := decide.ParseAge(policy.FormatAge(want)); err != nil || again != want {
			t.Errorf("%v prints as %s", want, policy.FormatAge(want))
		}
	}
	for _, text := range []string{"3", "-1d", "", "d", "1y", "1 d", "999999999999d", "106752000000d"} {
		if got, err := decide.ParseAge(text); err == nil {
			t.Errorf("%q is %v: want an error", text, got)
		}
	}
}
