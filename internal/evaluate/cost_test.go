package evaluate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/apache/iceberg-go"

	"firn/internal/contract"
	"firn/internal/evaluate"
	"firn/internal/icebergtest"
	"firn/internal/lake/catalogs"
	"firn/internal/lake/peek"
	"firn/internal/policy"
	"firn/internal/state"
	"firn/internal/store"
	"firn/internal/telemetry"
)

// requests counts the requests that a look sends to the tables' store.
type requests struct {
	store.Reader
	n atomic.Int64
}

func (r *requests) Get(ctx context.Context, location string) ([]byte, error) {
	r.n.Add(1)
	return r.Reader.Get(ctx, location)
}

func (r *requests) GetRange(ctx context.Context, location string, offset, length int64) ([]byte, error) {
	r.n.Add(1)
	return r.Reader.GetRange(ctx, location, offset, length)
}

func (r *requests) Head(ctx context.Context, location string) (store.Info, error) {
	r.n.Add(1)
	return r.Reader.Head(ctx, location)
}

// calls counts reads and writes of state items.
type calls struct {
	state.Items
	reads, writes, writtenBytes atomic.Int64
}

func (c *calls) Get(ctx context.Context, pk, sk string) (state.Item, error) {
	c.reads.Add(1)
	return c.Items.Get(ctx, pk, sk)
}

func (c *calls) Query(ctx context.Context, q state.Query) ([]state.Item, error) {
	c.reads.Add(1)
	return c.Items.Query(ctx, q)
}

func (c *calls) Put(ctx context.Context, item state.Item) error {
	c.writes.Add(1)
	c.writtenBytes.Add(int64(len(item.Data)))
	return c.Items.Put(ctx, item)
}

// inflate makes the table's current state look like one of a large table: so many manifests in the list, and snapshots in the metadata. The last commit's own
// manifest stays as it is; the others are not there, since no look at one commit opens them.
func inflate(tb testing.TB, w *icebergtest.World, tbl *icebergtest.Table, manifests, snapshots, files int) {
	tb.Helper()
	ctx := tb.Context()
	data, err := w.Store.Get(ctx, tbl.Pointer().MetadataLocation)
	if err != nil {
		tb.Fatal(err)
	}
	meta, err := peek.ParseMetadata(data)
	if err != nil {
		tb.Fatal(err)
	}
	head := meta.Head("")
	list, err := peek.ManifestList(ctx, w.Store, head.ManifestList)
	if err != nil {
		tb.Fatal(err)
	}
	for i := len(list); i < manifests; i++ {
		list = append(list, iceberg.NewManifestFile(2, fmt.Sprintf("%s/metadata/%040d-m0.avro", meta.Location, i), 8<<20, 0, int64(i+1)).
			SequenceNum(1, 1).ExistingFiles(int32(files/manifests)).ExistingRows(int64(files)*100/int64(manifests)).AddedFiles(0).DeletedFiles(0).Build())
	}
	var out bytes.Buffer
	if err := iceberg.WriteManifestList(2, &out, head.ID, head.ParentID, &head.SequenceNumber, 0, list); err != nil {
		tb.Fatal(err)
	}
	var doc map[string]any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&doc); err != nil {
		tb.Fatal(err)
	}
	all := doc["snapshots"].([]any)
	location := head.ManifestList + "-large"
	all[len(all)-1].(map[string]any)["manifest-list"] = location
	var older []any
	for i := len(all); i < snapshots; i++ {
		older = append(older, map[string]any{
			"snapshot-id": i + 1, "sequence-number": 1, "timestamp-ms": 1_700_000_000_000 + i, "schema-id": 0,
			"manifest-list": fmt.Sprintf("%s/metadata/snap-%019d-1-0f7c1f0e-8c47-4d9e-9d0c-3d1f7f2a6d5b.avro", meta.Location, i),
			"summary": map[string]string{
				"operation": "append", "added-data-files": "1", "added-records": "100", "added-files-size": "1048576", "total-data-files": "1000000",
				"total-records": "100000000", "total-files-size": "1048576000000", "spark.app.id": "application_1700000000000_0001",
			},
		})
	}
	doc["snapshots"] = append(older, all...)
	large, err := json.Marshal(doc)
	if err != nil {
		tb.Fatal(err)
	}
	for at, content := range map[string][]byte{location: out.Bytes(), tbl.Pointer().MetadataLocation + "-large.metadata.json": large} {
		if err := w.Store.Put(ctx, at, content, store.WriteOptions{}); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Catalog.Swap(ctx, tbl.State().ID, tbl.Pointer(), tbl.Pointer().MetadataLocation+"-large.metadata.json"); err != nil {
		tb.Fatal(err)
	}
}

// onCommit is a look at a table whose last commit added one manifest, and what it costs.
type onCommit struct {
	*looker
	requests *requests
	calls    *calls
	head     state.Head
	world    *icebergtest.World
	logged   *bytes.Buffer
}

// newOnCommit prepares the ledger of a table of three partitions as of the commit before the last one.
func newOnCommit(tb testing.TB, manifests, snapshots, files int) *onCommit {
	tb.Helper()
	return sizedTable{manifests, snapshots, files, 3}.look(tb)
}

// newOnPartitions does so for more partitions; grow makes the table large behind its last commit.
func newOnPartitions(tb testing.TB, partitions int, grow func(tbl *icebergtest.Table, w *icebergtest.World)) *onCommit {
	tb.Helper()
	w := icebergtest.NewWorld(tb)
	tbl := w.NewTable("db.t", icebergtest.Partitioned("g"))
	tbl.Commit(append([]icebergtest.Change{icebergtest.Append(ids(9)...)}, bare(tb, tbl, partitions-3, 0)...)...)
	c := &onCommit{world: w, requests: &requests{Reader: w.Store}, calls: &calls{Items: state.NewMemory()}, logged: &bytes.Buffer{}}
	document, err := policy.ParseYAML([]byte("mode: maintain\nreconcile-interval: 0s\n"))
	if err != nil {
		tb.Fatal(err)
	}
	c.looker = &looker{world: w, state: state.New(c.calls)}
	c.fn = evaluate.New(evaluate.Deps{
		Catalog: func(context.Context, string) (catalogs.Catalog, store.Reader, error) {
			return w.Catalog, c.requests, nil
		},
		State: c.state, Starter: c.looker, Now: w.Clock.Now, Log: telemetry.NewLogger(c.logged, true, slog.LevelInfo),
		Metrics: telemetry.NewEMF(c.logged, contract.FunctionEvaluate), Policy: document,
	})
	c.deliverB(tb)
	tbl.Commit(icebergtest.Append(ids(3)...))
	grow(tbl, w)
	if c.head, err = c.state.LoadHead(tb.Context(), tbl.State().ID); err != nil {
		tb.Fatal(err)
	}
	return c
}

func (c *onCommit) deliverB(tb testing.TB) {
	tb.Helper()
	out, err := c.fn.Handle(tb.Context(), oneNotice(tb))
	if err != nil || len(out.BatchItemFailures) > 0 {
		tb.Fatalf("the look failed: %v, %v", out, err)
	}
}

// rewind puts the ledger back to the commit before.
func (c *onCommit) rewind(tb testing.TB) {
	tb.Helper()
	now, err := c.state.LoadHead(tb.Context(), c.head.Table)
	if err != nil {
		tb.Fatal(err)
	}
	head := c.head
	head.Version = now.Version
	if _, err := c.state.SaveHead(tb.Context(), head); err != nil {
		tb.Fatal(err)
	}
}

// TestRequestsOfALook: a commit with one manifest costs three requests for objects, whatever the size of the table, and few calls for state. docs/cost.md builds on
// these counts.
func TestRequestsOfALook(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 100, 2000} {
		c := newOnCommit(t, size, size, 10_000*size)
		c.requests.n.Store(0)
		c.calls.reads.Store(0)
		c.calls.writes.Store(0)
		c.calls.writtenBytes.Store(0)
		c.deliverB(t)
		got := Counts{ObjectReads: c.requests.n.Load(), ItemReads: c.calls.reads.Load(), ItemWrites: c.calls.writes.Load()}
		if got != lookCounts() {
			t.Errorf("%d manifests and snapshots: %+v, docs/cost.md counts %+v", size, got, lookCounts())
		}
		if n := c.calls.writtenBytes.Load(); n > 4000 {
			t.Errorf("%d manifests and snapshots: %d bytes of state are written", size, n)
		}
		c.checkIdle(t)
		head, err := c.state.LoadHead(t.Context(), c.head.Table)
		if err != nil || head.Commits != 2 || head.Partitions[0].DataFiles != 2 {
			t.Errorf("head %+v, %v: want both commits", head, err)
		}
	}
}

// checkIdle looks once an hour at a table to which nobody commits, which costs what docs/cost.md counts and says nothing that was said before.
func (c *onCommit) checkIdle(t *testing.T) {
	t.Helper()
	for hour := range 3 {
		c.world.At(c.world.Clock.Now().Add(time.Hour))
		c.requests.n.Store(0)
		c.calls.reads.Store(0)
		c.calls.writes.Store(0)
		c.logged.Reset()
		c.deliverB(t)
		got := Counts{ObjectReads: c.requests.n.Load(), ItemReads: c.calls.reads.Load(), ItemWrites: c.calls.writes.Load()}
		if want := idleCounts(); got != want {
			t.Errorf("hour %d: %+v, docs/cost.md counts %+v", hour, got, want)
		}
		if c.logged.Len() > 0 {
			t.Errorf("hour %d: a look that finds nothing new writes %q", hour, c.logged.String())
		}
	}
}

// BenchmarkLook measures a look at a commit with one manifest: requests, CPU time, and the process's peak memory. Tables of as many manifests cost alike,
// however many files these hold.
func BenchmarkLook(b *testing.B) {
	for _, c := range []struct{ manifests, snapshots, files int }{
		{100, 100, 10_000}, {100, 100, 1_000_000}, {1000, 1000, 10_000_000}, {10_000, 10_000, 100_000_000},
	} {
		b.Run(fmt.Sprintf("manifests=%d/snapshots=%d/files=%d", c.manifests, c.snapshots, c.files), func(b *testing.B) {
			l := newOnCommit(b, c.manifests, c.snapshots, c.files)
			l.requests.n.Store(0)
			b.ReportAllocs()
			var spent time.Duration
			for b.Loop() {
				began := cpuTime(b)
				l.deliverB(b)
				spent += cpuTime(b) - began
				b.StopTimer()
				l.rewind(b)
				b.StartTimer()
			}
			b.ReportMetric(spent.Seconds()*1000/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(l.requests.n.Load())/float64(b.N), "requests/op")
			b.ReportMetric(peakMB(), "peak-MB")
		})
	}
}

// cpuTime is what the process has used of its processors.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// peakMB is the process's largest resident set so far, 0 where the system does not tell.
func peakMB() float64 {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(data), "VmHWM:")
	kb, _ := strconv.ParseFloat(strings.Fields(rest + " 0")[0], 64)
	return kb / 1024
}
