package fleet_test

import (
	"cmp"
	"container/heap"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/apache/iceberg-go"

	"firn/internal/contract"
	"firn/internal/decide"
	"firn/internal/evaluate"
	"firn/internal/event"
	"firn/internal/icebergtest"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/report"
	"firn/internal/simulation/fleet"
	"firn/internal/state"
	"firn/internal/store"
	"firn/internal/telemetry"
)

var (
	tables = flag.Int("tables", 2, "tables of the fleet")
	hours  = flag.Int("hours", 4, "hours that it lives")
	seed   = flag.Uint64("seed", 1, "seed of the writers")
)

const (
	mib          = int64(1) << 20
	workLocation = "mem://work/firn"
	// window is the queue's batch window, perSecond what a run rewrites in a second, overhead what it takes beside that.
	window    = contract.BatchWindowSeconds * time.Second
	perSecond = 125 * mib
	overhead  = time.Minute
	// slack is how long a table may be over its thresholds: the batch window, a look that was put off, the run.
	slack = 10 * time.Minute
)

// fleetPolicy leaves the data files' job on: the others cost no bytes of data files.
const fleetPolicy = `mode: maintain
rewrite_position_delete_files.enabled: false
rewrite_manifests.enabled: false
expire_snapshots.enabled: false
remove_orphan_files.trigger.interval: 0s
reconcile-interval: 6h
`

// file is one live file; a delete file applies to the files of its partition with a lower sequence number.
type file struct {
	path, partition string
	size, sequence  int64
}

// tenant is one table of the fleet.
type tenant struct {
	id      maintenance.TableID
	table   *icebergtest.Table
	writer  writer
	files   []file
	deletes []file
	loads   map[string][]fleet.Hour
	// sequence is the table's last sequence number, rewritten the bytes that runs rewrote.
	sequence, rewritten int64
	location            string
	spec                iceberg.PartitionSpec
	field               int
	// overSince is when a partition went over its thresholds, by partition.
	overSince map[string]time.Time
}

// writer is a kind of writer: how often it commits, and what.
type writer struct {
	name  string
	every time.Duration
	// partitions is how many it writes to; a commit adds so many small files to one of them, and one file of big bytes where that is not 0.
	partitions int
	files      int
	size       int64
	big        int64
	// deletes is the chance that a commit adds an equality delete to the partition.
	deletes float64
	// bursty says that it commits only in the first minutes of every third hour.
	bursty bool
}

func writers() []writer {
	return []writer{
		{name: "streaming", every: 4 * time.Minute, partitions: 1, files: 4, size: 3 * mib},
		{name: "skewed", every: 6 * time.Minute, partitions: 6, files: 5, size: 6 * mib},
		{name: "bursts", every: time.Minute, partitions: 2, files: 8, size: 2 * mib, bursty: true},
		{name: "merge-on-read", every: 20 * time.Minute, partitions: 3, files: 1, size: 20 * mib, deletes: 0.5},
		{name: "batch", every: time.Hour, partitions: 4, files: 2, size: 40 * mib, big: 512 * mib},
	}
}

// write is one commit of a table's writer.
func (h *host) write(who *tenant) {
	w, since := who.writer, h.now.Sub(h.begin)
	if hour := int(since / time.Hour); !w.bursty || hour%3 == 0 && since%time.Hour < 12*time.Minute {
		n := 0
		for n < w.partitions-1 && h.random.IntN(2) == 0 {
			n++ // each partition gets half as much as the one before
		}
		partition := fmt.Sprintf("g=p%d", n)
		if who.loads[partition] == nil {
			who.loads[partition] = make([]fleet.Hour, *hours)
		}
		load := &who.loads[partition][min(hour, *hours-1)]
		var changes []icebergtest.Change
		add := func(size int64) {
			f := file{path: h.path(who), partition: partition, size: size, sequence: who.sequence + 1}
			who.files = append(who.files, f)
			changes = append(changes, icebergtest.AddFile(h.entry(who, f, iceberg.EntryContentData), nil))
		}
		for range w.files {
			size := w.size/2 + h.random.Int64N(w.size)
			load.Files, load.Bytes = load.Files+1, load.Bytes+size
			add(size)
		}
		if w.big > 0 {
			load.FullBytes += w.big
			add(w.big)
		}
		if h.random.Float64() < w.deletes {
			d := file{path: h.path(who), partition: partition, size: 4096, sequence: who.sequence + 1}
			who.deletes = append(who.deletes, d)
			load.Deletes++
			changes = append(changes, icebergtest.AddFile(h.entry(who, d, iceberg.EntryContentEqDeletes), nil))
		}
		h.commit(who, changes...)
		h.note(who)
		h.tell(who.id, 0)
	}
	next := w.every/2 + time.Duration(h.random.Int64N(int64(w.every)))
	h.at(h.now.Add(next), func() { h.write(who) })
}

// note notes since when partitions are over their thresholds.
func (h *host) note(who *tenant) {
	small, deletes := map[string]int{}, map[string]int{}
	for _, f := range who.files {
		if f.size < 384*mib {
			small[f.partition]++
		}
		deletes[f.partition] = max(deletes[f.partition], who.applying(f))
	}
	for partition := range who.loads {
		over := small[partition] >= limits().Files || deletes[partition] >= limits().Deletes
		if _, was := who.overSince[partition]; over && !was {
			who.overSince[partition] = h.now
		} else if !over {
			delete(who.overSince, partition)
		}
	}
}

// limits are the default triggers.
func limits() fleet.Limits { return fleet.Limits{Files: 100, Deletes: 5} }

// hourEnds judges every table.
func (h *host) hourEnds() {
	for _, id := range slices.SortedFunc(maps.Keys(h.tenants), func(a, b maintenance.TableID) int { return cmp.Compare(a.Name, b.Name) }) {
		who := h.tenants[id]
		for partition, since := range who.overSince {
			h.atBounds++
			if h.now.Sub(since) > slack {
				h.t.Errorf("%s, %s of %s (%s) has been over its thresholds for %s", h.now.Sub(h.begin), partition, id, who.writer.name, h.now.Sub(since))
			}
		}
		h.tell(id, time.Duration(h.random.Int64N(int64(10*time.Minute)))) // schedule's look
	}
	h.hoursEnded++
	h.progress()
}

// progress tells how far a long day is, and what it costs.
func (h *host) progress() {
	if *hours < 12 {
		return
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	h.t.Logf("hour %d: %d files written, %d looks, %d runs, %d MiB rewritten; heap %d MiB", h.hoursEnded, h.files, h.looks, h.runs, h.bytes/mib, int64(memory.HeapAlloc)/mib)
}

func newHost(t *testing.T) *host {
	t.Helper()
	world := icebergtest.NewWorld(t)
	world.StockEvery = 8 // the others by Firn's own manifest writer, which is quick
	h := &host{
		t: t, world: world, state: state.New(state.NewMemory()), tenants: map[maintenance.TableID]*tenant{}, started: map[string]bool{}, begin: time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC),
		random: rand.New(rand.NewPCG(*seed, 7)),
	}
	h.now = h.begin
	world.At(h.now)
	document, err := policy.ParseYAML([]byte(fleetPolicy))
	h.must(err)
	clock := func() time.Time { return h.now }
	h.work = store.NewMemory(clock)
	h.eval = evaluate.New(evaluate.Deps{
		Catalog: func(context.Context, string) (catalogs.Catalog, store.Reader, error) {
			return world.Catalog, world.Store, nil
		},
		State: h.state, Starter: h, Policy: document, Now: clock, Log: slog.New(slog.DiscardHandler), LookInterval: evaluate.DefaultLookInterval,
		Later: func(_ context.Context, body []byte, delay time.Duration) error {
			notices, err := event.Decode(body)
			h.must(err)
			h.tell(notices[0].Table, delay)
			return nil
		},
		Drift: func(_ time.Time, id maintenance.TableID, n int64) error {
			h.proofs++
			if n != 0 {
				t.Errorf("%s: %d partitions of the ledger had drifted", id, n)
			}
			return nil
		},
	})
	h.report = report.New(report.Deps{
		Work: h.work, WorkLocation: workLocation, State: h.state, Metrics: telemetry.Discard{}, Notifier: h, Now: clock, Log: slog.New(slog.DiscardHandler),
	})
	for i := range *tables {
		w := writers()[i%len(writers())]
		tbl := world.NewTable(fmt.Sprintf("db.t%03d", i), icebergtest.Partitioned("g"))
		meta := tbl.State().Metadata
		who := &tenant{
			id: maintenance.TableID{Namespace: "db", Name: fmt.Sprintf("t%03d", i)}, table: tbl, writer: w, loads: map[string][]fleet.Hour{},
			overSince: map[string]time.Time{}, location: meta.Location(), spec: meta.PartitionSpec(),
		}
		for _, f := range who.spec.Fields() {
			who.field = f.FieldID
		}
		h.tenants[who.id] = who
		h.at(h.begin.Add(time.Duration(h.random.Int64N(int64(w.every)))), func() { h.write(who) })
	}
	return h
}

// maxBytes bounds the bytes that are rewritten, in those of the oracle.
const maxBytes = 1.5

// TestFleet: every table is inside of its policy's thresholds at each hour's end (but for those that went over in the last ten minutes, which a look and a run
// take), and runs are at most twice those of an oracle that knew the future. `make fleet` plays a whole day of fifty tables.
func TestFleet(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	end := h.begin.Add(time.Duration(*hours) * time.Hour)
	for hour := 1; hour <= *hours; hour++ {
		h.at(h.begin.Add(time.Duration(hour)*time.Hour-time.Millisecond), h.hourEnds)
	}
	for h.agenda.Len() > 0 && h.agenda[0].at.Before(end) {
		next := heap.Pop(&h.agenda).(happening)
		h.now = next.at
		h.world.At(h.now)
		next.do()
	}
	var oracle fleet.Least
	options := decide.DefaultDataFilesOptions()
	kinds := map[string][3]int64{}
	for _, who := range h.tenants {
		var mine fleet.Least
		for _, loads := range who.loads {
			least := fleet.Cheapest(loads, limits(), options)
			mine.Bytes, mine.Runs = mine.Bytes+least.Bytes, mine.Runs+least.Runs
		}
		oracle.Bytes, oracle.Runs = oracle.Bytes+mine.Bytes, oracle.Runs+mine.Runs
		k := kinds[who.writer.name]
		kinds[who.writer.name] = [3]int64{k[0] + 1, k[1] + who.rewritten, k[2] + mine.Bytes}
	}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		k := kinds[name]
		t.Logf("%s: %d tables, %d MiB rewritten, the oracle %d", name, k[0], k[1]/mib, k[2]/mib)
	}
	bytes, runs := float64(h.bytes)/float64(oracle.Bytes), float64(h.runs)/float64(oracle.Runs)
	t.Logf("%d tables, %d hours: %d files written, %d looks, %d ledgers proved; %d runs (%d of partitions, %d in vain), the oracle %d: %.2fx; %d MiB rewritten, the oracle %d: %.2fx; "+
		"%d of %d tables at an hour's end had just gone over", *tables, *hours, h.files, h.looks, h.proofs, h.runs, h.rewrites, h.vain, oracle.Runs, runs, h.bytes/mib, oracle.Bytes/mib,
		bytes, h.atBounds, h.hoursEnded**tables)
	if h.runs == 0 || oracle.Runs == 0 || *hours >= 12 && (bytes > maxBytes || runs > 2) {
		t.Errorf("%.2f times the oracle's bytes, %.2f its runs, %.2f its rewrites of partitions", bytes, runs, float64(h.rewrites)/float64(oracle.Runs))
	}
}

// TestOracle: small cases that one can count by hand, and no choice of hours is cheaper than the oracle's.
func TestOracle(t *testing.T) {
	t.Parallel()
	o := decide.DefaultDataFilesOptions()
	every := func(n int, h fleet.Hour) []fleet.Hour {
		out := make([]fleet.Hour, n)
		for i := range out {
			out[i] = h
		}
		return out
	}
	for name, c := range map[string]struct {
		hours  []fleet.Hour
		limits fleet.Limits
		want   fleet.Least
	}{
		"nothing":                     {nil, limits(), fleet.Least{}},
		"never reached":               {every(3, fleet.Hour{Files: 33, Bytes: 33 * mib}), limits(), fleet.Least{}},
		"once":                        {every(4, fleet.Hour{Files: 33, Bytes: 33 * mib}), limits(), fleet.Least{Bytes: 66 * mib, Runs: 1}},
		"as early as it may":          {[]fleet.Hour{{Files: 10, Bytes: 10 * mib}, {Files: 69, Bytes: 90 * mib}, {Files: 21, Bytes: 20 * mib}}, limits(), fleet.Least{Bytes: 10 * mib, Runs: 1}},
		"deletes rewrite all of it":   {[]fleet.Hour{{FullBytes: 512 * mib, Deletes: 4}, {Deletes: 1}}, limits(), fleet.Least{Bytes: 512 * mib, Runs: 1}},
		"without limits nothing":      {every(9, fleet.Hour{Files: 500, Bytes: mib}), fleet.Limits{}, fleet.Least{}},
		"a full output is left alone": {every(3, fleet.Hour{Files: 80, Bytes: 500 * mib}), limits(), fleet.Least{Bytes: 1000 * mib, Runs: 1}},
	} {
		if got := fleet.Cheapest(c.hours, c.limits, o); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
