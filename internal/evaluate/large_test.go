package evaluate_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/google/go-cmp/cmp"

	"firn/internal/icebergtest"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/state"
)

// bare adds data files that nobody reads, one to each of n partitions from an offset on: a look reads manifests only.
func bare(t testing.TB, tbl *icebergtest.Table, n, offset int) []icebergtest.Change {
	t.Helper()
	return sized(t, tbl, n, offset, 123_456_789)
}

func sized(t testing.TB, tbl *icebergtest.Table, n, offset int, size int64) []icebergtest.Change {
	t.Helper()
	return inPartitions(t, tbl, n, size, func(i int) string { return fmt.Sprintf("2026-11-30T13/region=eu-central-1/shop=%07d", offset+i) })
}

func inPartitions(t testing.TB, tbl *icebergtest.Table, n int, size int64, name func(i int) string) []icebergtest.Change {
	t.Helper()
	meta := tbl.State().Metadata
	spec, field := meta.PartitionSpec(), 0
	for _, f := range spec.Fields() {
		field = f.FieldID
	}
	changes := make([]icebergtest.Change, 0, n)
	for i := range n {
		b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, fmt.Sprintf("%s/data/%d-%d.parquet", meta.Location(), len(meta.Snapshots()), i),
			iceberg.ParquetFile, map[int]any{field: name(i)}, nil, nil, 1_234_567, size)
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, icebergtest.AddFile(b.Build(), nil))
	}
	return changes
}

// sizes keeps the largest item that was written.
type sizes struct {
	failingItems
	largest, writes int
}

func (s *sizes) Put(ctx context.Context, item state.Item) error {
	s.largest = max(s.largest, len(item.Data))
	s.writes++
	return s.failingItems.Put(ctx, item)
}

// TestLargeTables: a table of 100,000 partitions (FIRN_BIG=1; a thousand else) keeps every item within DynamoDB's bound, a commit to some partitions
// touches their shards only, and a look that was stopped at any write of the way there ends in the ledger of a scan when it is repeated.
func TestLargeTables(t *testing.T) {
	t.Parallel()
	partitions, stops := 1_000, []int{0, 17, 34}
	if os.Getenv("FIRN_BIG") == "1" {
		partitions, stops = 100_000, []int{0, 1, 2, 100, 128, 200, 254, 255, 256, 257, 258}
	}
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Partitioned("g"))
	tbl.Commit(bare(t, tbl, partitions, 0)...)
	want := scanned(t, w, tbl)
	for _, n := range stops {
		l := newLooker(t, w, observe)
		items := &sizes{failingItems: failingItems{Items: state.NewMemory(), left: -1}}
		l.over(items, policy.Document{})
		items.left = n
		crashed := len(l.tell(t, "t")) > 0
		items.left = -1
		if again := l.tell(t, "t"); len(again) > 0 || !crashed {
			t.Fatalf("stopped at write %d (%t): the next look fails: %v", n, crashed, again)
		}
		if got := l.counters(t, tbl.State().ID); !slices.Equal(want, got) {
			t.Fatalf("stopped at write %d:\n%s", n, cmp.Diff(want, got))
		}
		if items.largest > 400<<10-4<<10 {
			t.Errorf("an item of %d bytes", items.largest)
		}
	}
	l := newLooker(t, w, observe)
	items := &sizes{failingItems: failingItems{Items: state.NewMemory(), left: -1}}
	l.over(items, policy.Document{})
	l.tell(t, "t")
	head, err := l.state.LoadHead(context.Background(), tbl.State().ID)
	if err != nil || len(l.counters(t, head.Table)) != partitions {
		t.Fatalf("%d partitions, %v", len(l.counters(t, head.Table)), err)
	}
	tbl.Commit(bare(t, tbl, 3, 5)...)
	items.writes = 0
	began := time.Now()
	l.tell(t, "t")
	took := time.Since(began)
	if items.writes > 3+3 { // claim, three shards, decision, head
		t.Errorf("a commit to three partitions of %d writes %d items", partitions, items.writes)
	}
	t.Logf("%d partitions in %d shards, the largest item has %d bytes; a look at a commit to three of them writes %d items and takes %s", partitions, head.ShardCount,
		items.largest, items.writes, took.Round(time.Millisecond))
}

// TestLongPartitionNames: values of any length, which writers choose, are counted apart, and the ledger's items stay within DynamoDB's bound.
func TestLongPartitionNames(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{30, 100} { // in the head, and in shards
		w := icebergtest.NewWorld(t)
		tbl := w.NewTable("db.t", icebergtest.Partitioned("g"))
		long := strings.Repeat("\u00fc\x01", 20_000)
		name := func(i int) string { return fmt.Sprint(long, i) }
		tbl.Commit(inPartitions(t, tbl, partitions, 1000, name)...)
		l := newLooker(t, w, observe)
		items := &sizes{failingItems: failingItems{Items: state.NewMemory(), left: -1}}
		l.over(items, policy.Document{})
		l.tell(t, "t")
		tbl.Commit(inPartitions(t, tbl, partitions/2, 1000, name)...)
		l.tell(t, "t")
		counters := l.counters(t, tbl.State().ID)
		twice := 0
		for _, c := range counters {
			if c.DataFiles == 2 {
				twice++
			}
		}
		if len(counters) != partitions || twice != partitions/2 {
			t.Errorf("%d partitions of %d are known, %d with two files", len(counters), partitions, twice)
		}
		if items.largest > 40<<10 {
			t.Errorf("an item of %d bytes", items.largest)
		}
	}
}

// TestLargeTablesAskFewShards: a decision reads the shards that it needs. Where every partition is due one is enough; a condition that no partition fulfils,
// while the largest figures of each shard do together, costs each shard once.
func TestLargeTablesAskFewShards(t *testing.T) {
	t.Parallel()
	const partitions = 300
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Partitioned("g"))
	tbl.Commit(bare(t, tbl, partitions, 0)...)
	tbl.Commit(bare(t, tbl, partitions/2, 0)...)
	tbl.Commit(sized(t, tbl, partitions/2, partitions, 380_000_000)...)
	for policyText, want := range map[string]struct {
		due   bool
		reads func(shards int64) bool
	}{
		"rewrite_data_files: {trigger: {small-files: 3}}":                                     {false, func(int64) bool { return true }},
		"rewrite_data_files: {trigger: {small-files: 1}}":                                     {true, func(shards int64) bool { return shards == 1 }},
		"rewrite_data_files: {trigger: {small-files: 2}}":                                     {true, func(shards int64) bool { return shards == 1 }},
		"rewrite_data_files: {trigger: {when: data-files >= 2 and small-bytes >= 300000000}}": {false, func(shards int64) bool { return shards > 1 && shards <= 16 }},
	} {
		l := newLooker(t, w, observe)
		document, err := policy.ParseYAML([]byte(observe + policyText))
		if err != nil {
			t.Fatal(policyText, err)
		}
		reads := &calls{Items: state.NewMemory()}
		l.over(reads, document)
		l.tell(t, "t")
		head, err := l.state.LoadHead(t.Context(), tbl.State().ID)
		if err != nil || head.ShardCount == 0 || head.Decision == nil {
			t.Fatalf("%+v, %v", head, err)
		}
		reads.reads.Store(0)
		l.tell(t, "t")
		shards := reads.reads.Load() - lookCounts().ItemReads
		if head.ShardCount != 16 {
			t.Fatalf("%d shards", head.ShardCount)
		}
		if due := slices.Contains(head.Decision.Due, maintenance.RewriteDataFiles); due != want.due || !want.reads(shards) {
			t.Errorf("%s: due %v, %d of %d shards read", policyText, head.Decision.Due, shards, head.ShardCount)
		}
	}
}
