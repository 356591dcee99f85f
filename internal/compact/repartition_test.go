package compact_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"firn/internal/compact/arrow"
	"firn/internal/icebergtest"
)

// TestRepartitionReferenceTables rewrites the tables whose files lie in several specs into the current one (A30): each output holds the rows of
// one partition, and the rows are the same.
func TestRepartitionReferenceTables(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"part_evolved", "part_void", "eq_mixed", "manifests300"} {
		for kind, l := range map[string]arrow.Limits{"default": {}, "tiny": {HeldBytes: 1, WholeBelowBytes: 1, RepartitionRows: 1, RowRanges: 1 << 20}} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				ref := icebergtest.Reference(t, name)
				state := ref.Table(t)
				b := newBench(t, ref.Store, state, outputSpec(state.Metadata.DefaultPartitionSpec()), limits(l))
				results := b.rewriteAll()
				for i, r := range results {
					checkProof(t, b, i, r)
				}
				tbl := ref.World(t).Open(ref.ID)
				b.commit(tbl, results)
				for _, fault := range tbl.Rows().Check(ref.Expected.Rows.RowCount, ref.Expected.Columns) {
					t.Error(fault)
				}
			})
		}
	}
}

// TestTransformsBefore1970 is case A62: transforms floor, they do not truncate, so instants before 1970 land in the day, month and year that
// they are in.
func TestTransformsBefore1970(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Columns("id long", "ts timestamptz", "d date"))
	at := func(text string) time.Time {
		v, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	tbl.Commit(icebergtest.Append(
		icebergtest.Row{1, at("1969-12-31T23:59:59.999999Z"), at("1969-12-31T00:00:00Z")},
		icebergtest.Row{2, at("1970-01-01T00:00:00Z"), at("1970-01-01T00:00:00Z")},
		icebergtest.Row{3, at("0001-01-01T00:00:00Z"), at("0001-01-01T00:00:00Z")},
		icebergtest.Row{4, nil, nil},
	))
	n := 0
	for spec, want := range map[string][]string{
		"year(ts)": {"-1", "-1969", "0", "<nil>"}, "month(d)": {"-1", "-23628", "0", "<nil>"},
		"day(ts)": {"-1", "-719162", "0", "<nil>"}, "hour(ts)": {"-1", "-17259888", "0", "<nil>"},
	} {
		tbl.Repartition(spec)
		state := tbl.State()
		b := newBench(t, w.Store, state, outputSpec(state.Metadata.DefaultPartitionSpec()), run(n))
		n++
		results := b.rewriteAll()
		got := map[string]bool{}
		for _, f := range b.outputs(results) {
			for _, v := range f.Partition() {
				text := fmt.Sprintf("%d", v)
				if v == nil {
					text = "<nil>"
				}
				got[text] = true
			}
			if f.Count() != 1 {
				t.Errorf("%s: an output of %d rows", spec, f.Count())
			}
			if part := strings.NewReplacer("(", "_", ")", "").Replace(spec); !strings.Contains(f.FilePath(), "/data/") || part == "" {
				t.Errorf("%s: output at %s", spec, f.FilePath())
			}
		}
		for _, v := range want {
			if !got[v] {
				t.Errorf("%s: partitions %v, want %v", spec, got, want)
			}
		}
	}
}

// TestOutputPlaces covers the layouts of data files: partition folders, and the object-storage layout with and without them.
func TestOutputPlaces(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Columns("id long", "g string"), icebergtest.Partitioned("g"))
	tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a b/c"}))
	file := `00000-0-a{25}[b-z]-[0-9a-f-]{36}-00001\.parquet`
	for n, c := range []struct {
		opts []benchOption
		want string
	}{
		{nil, `/data/g=a\+b%2Fc/` + file},
		{[]benchOption{property("write.object-storage.enabled", "true")}, `/data/[01]{4}/[01]{4}/[01]{4}/[01]{8}/g=a\+b%2Fc/` + file},
		{
			[]benchOption{property("write.object-storage.enabled", "true"), property("write.object-storage.partitioned-paths", "false")},
			`/data/[01]{4}/[01]{4}/[01]{4}/[01]{8}-` + file,
		},
	} {
		b := newBench(t, w.Store, tbl.State(), append(c.opts, run(n))...)
		out := b.outputs(b.rewriteAll())
		if len(out) != 1 || !matches(c.want, out[0].FilePath()) {
			t.Errorf("output at %s, want %s", out[0].FilePath(), c.want)
		}
	}
}

// TestPartitionValuesOfEveryType repartitions by fields of each type: the tuples survive their encoding, each output holds one partition, the
// rows are the same, and rewriting the outputs under the same spec keeps the partitions.
func TestPartitionValuesOfEveryType(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Columns("b boolean", "i int", "l long", "f float", "d double", "dec decimal(9,2)", "wide decimal(30,3)", "dt date",
		"tm time", "ts timestamp", "tz timestamptz", "s string", "u uuid", "x fixed[3]", "y binary"))
	for n := range 3 {
		at := time.Date(1969, 12, 31, 23, 59, 50+n, 123_456_000, time.UTC)
		tbl.Commit(icebergtest.Append(icebergtest.Row{
			n%2 == 0, -n, int64(n) << 40, float32(n) / 2, float64(n) / 3, fmt.Sprintf("-%d.25", n), fmt.Sprintf("1234567890123456789%d.125", n), -n, 1000 * n, at, at,
			strings.Repeat("é/=", n+1), fmt.Sprintf("00000000-0000-0000-0000-00000000000%d", n),
			[]byte{0, byte(n), 255},
			[]byte{byte(n), 0},
		}, make(icebergtest.Row, 15)))
	}
	before := tbl.Rows()
	for n, fields := range [][]string{
		{"b", "i"},
		{"l"},
		{"f"},
		{"d"},
		{"dec"},
		{"wide"},
		{"dt"},
		{"tm"},
		{"ts"},
		{"tz"},
		{"s"},
		{"u"},
		{"x"},
		{"y"},
		{"bucket(4, i)", "bucket(4, dec)", "bucket(4, wide)"},
		{"bucket(4, u)", "bucket(4, x)", "bucket(4, y)", "bucket(4, tz)", "bucket(4, tm)"},
		{"truncate(10, dec)", "truncate(3, i)"},
		{"truncate(10, wide)"},
		{"truncate(2, s)", "truncate(1, y)"},
	} {
		tbl.Repartition(fields...)
		for range 2 {
			state := tbl.State()
			b := newBench(t, w.Store, state, outputSpec(state.Metadata.DefaultPartitionSpec()))
			b.runAs(fmt.Sprintf("%s%c%c", strings.Repeat("c", 24), 'a'+n, 'a'+len(state.Metadata.Snapshots())%26))
			results := b.rewriteAll()
			b.commit(tbl, results)
			if after := tbl.Rows(); after.Digest != before.Digest {
				t.Fatalf("%v: the rows changed", fields)
			}
		}
	}
}
