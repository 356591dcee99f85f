package fleet_test

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/aws/aws-lambda-go/events"

	"firn/internal/contract"
	"firn/internal/decide"
	"firn/internal/evaluate"
	"firn/internal/event"
	"firn/internal/handoff"
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
	window    = 20 * time.Second
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

// happening is what happens at an instant.
type happening struct {
	at    time.Time
	order int
	do    func()
}

type agenda []happening

func (a agenda) Len() int      { return len(a) }
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a agenda) Less(i, j int) bool {
	return cmp.Or(a[i].at.Compare(a[j].at), cmp.Compare(a[i].order, a[j].order)) < 0
}
func (a *agenda) Push(x any) { *a = append(*a, x.(happening)) }
func (a *agenda) Pop() any {
	old := *a
	last := old[len(old)-1]
	*a = old[:len(old)-1]
	return last
}

// host plays queue, state machine and clock.
type host struct {
	t       *testing.T
	world   *icebergtest.World
	state   state.Store
	eval    *evaluate.Function
	report  *report.Function
	work    store.ReadWriter
	agenda  agenda
	order   int
	tenants map[maintenance.TableID]*tenant
	begin   time.Time
	now     time.Time
	random  *rand.Rand
	started map[string]bool

	runs, vain, looks, rewrites, files, proofs, atBounds, hoursEnded int
	bytes                                                            int64
}

func (h *host) at(when time.Time, do func()) {
	h.order++
	heap.Push(&h.agenda, happening{when, h.order, do})
}

// Start implements evaluate.Starter: the run ends when its bytes are written.
func (h *host) Start(_ context.Context, name string, input []byte) error {
	var in maintenance.ExecutionInput
	if err := json.Unmarshal(input, &in); err != nil || string(in.Run.RunID) != name {
		return fmt.Errorf("input of %s: %w", name, err)
	}
	if h.started[name] {
		return nil // a repeated start meets the same execution
	}
	h.started[name] = true
	if err := h.state.Renew(context.Background(), in.Run.Table, in.Run.Token, h.now, state.LeaseTTL); err != nil {
		return err // as plan does at once
	}
	who := h.tenants[in.Run.Table]
	groups := h.plan(who, in.Request.Jobs[0])
	bytes := int64(0)
	for _, g := range groups {
		bytes += g.SizeBytes
	}
	pinned := who.sequence
	h.at(h.now.Add(overhead+time.Duration(bytes/perSecond)*time.Second), func() { h.end(who, in, groups, pinned) })
	return nil
}

// Notify implements report.Notifier.
func (h *host) Notify(_ context.Context, id maintenance.TableID) error {
	h.tell(id, 0)
	return nil
}

// tell puts a notice on the queue; it is taken when the batch window ends.
func (h *host) tell(id maintenance.TableID, delay time.Duration) {
	sent := h.now.Add(delay)
	h.at(sent.Add(window), func() { h.deliver(id, sent) })
}

func (h *host) deliver(id maintenance.TableID, sent time.Time) {
	body, err := event.Encode(event.Notice{Source: event.SourceCommitted, Table: id})
	h.must(err)
	h.looks++
	out, err := h.eval.Handle(context.Background(), events.SQSEvent{Records: []events.SQSMessage{{
		MessageId: "m", Body: string(body), Attributes: map[string]string{"SentTimestamp": fmt.Sprint(sent.UnixMilli())},
	}}})
	if err != nil || len(out.BatchItemFailures) > 0 {
		h.t.Fatalf("%s: the look failed: %v, %v", id, out, err)
	}
}

func (h *host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// plan asks the real planner.
func (h *host) plan(who *tenant, request maintenance.JobRequest) []maintenance.FileGroup {
	opts, err := decide.ParseDataFilesOptions(decide.BinPack, request.Options, decide.TableFacts{})
	h.must(err)
	opts.RequireGain = true
	plan, err := decide.DataFiles(func(yield func(maintenance.FileStats, error) bool) {
		for i, f := range who.files {
			if !yield(maintenance.FileStats{Path: f.path, SizeBytes: f.size, RecordCount: 1000, Partition: f.partition, DeleteFiles: who.applying(f), Ref: i}, nil) {
				return
			}
		}
	}, opts)
	h.must(err)
	return plan.Groups
}

// end commits what the run made, and reports.
func (h *host) end(who *tenant, in maintenance.ExecutionInput, groups []maintenance.FileGroup, pinned int64) {
	h.runs++
	gone := map[string]bool{}
	bytes := int64(0)
	changes := []icebergtest.Change{icebergtest.Operation(table.OpReplace), icebergtest.Summary(contract.SummaryRunID, string(in.Run.RunID))}
	for _, g := range groups {
		h.rewrites++
		bytes += g.SizeBytes
		for _, f := range g.Files {
			gone[f.Path] = true
		}
		for n := range int64(g.ExpectedOutputFiles) {
			size := g.SizeBytes*(n+1)/int64(g.ExpectedOutputFiles) - g.SizeBytes*n/int64(g.ExpectedOutputFiles)
			f := file{path: h.path(who), partition: g.Partition, size: size, sequence: pinned} // deletes that came since apply to it
			who.files = append(who.files, f)
			changes = append(changes, icebergtest.AddFile(h.entry(who, f, iceberg.EntryContentData), &pinned))
		}
	}
	who.files = slices.DeleteFunc(who.files, func(f file) bool { return gone[f.path] })
	for _, path := range who.dead() {
		gone[path] = true
	}
	h.bytes, who.rewritten = h.bytes+bytes, who.rewritten+bytes
	outcome := maintenance.NothingToDo
	if len(groups) > 0 {
		outcome = maintenance.Committed
		who.commit(append(changes, icebergtest.Remove(slices.Sorted(maps.Keys(gone))...))...)
	} else {
		h.vain++
	}
	work, job := handoff.Open(h.work, workLocation, in.Run.RunID), maintenance.RewriteDataFiles
	index := &handoff.Index{V: contract.PayloadVersion, Run: in.Run, Job: job, PlannedAtMS: h.now.UnixMilli(), Batches: []handoff.Batch{{}}}
	_, err := work.WriteOnce(context.Background(), work.Index(job), index)
	h.must(err)
	_, err = work.WriteOnce(context.Background(), work.Commit(job, 0), &handoff.CommitResult{
		V: contract.PayloadVersion, Outcome: outcome, SnapshotID: 1, Columns: map[string]int64{"rewritten_bytes_count": bytes},
	})
	h.must(err)
	_, err = h.report.Handle(context.Background(), maintenance.ReportInput{V: contract.PayloadVersion, Run: in.Run, Request: in.Request})
	h.must(err)
	h.note(who)
}

func (who *tenant) commit(changes ...icebergtest.Change) {
	who.table.Commit(changes...)
	who.sequence++
}

// dead takes out the delete files that apply to no file any more.
func (who *tenant) dead() (paths []string) {
	oldest := map[string]int64{}
	for _, f := range who.files {
		if first, known := oldest[f.partition]; !known || f.sequence < first {
			oldest[f.partition] = f.sequence
		}
	}
	who.deletes = slices.DeleteFunc(who.deletes, func(d file) bool {
		first, known := oldest[d.partition]
		if dead := !known || d.sequence <= first; dead {
			paths = append(paths, d.path)
			return true
		}
		return false
	})
	return paths
}

// applying counts the deletes that apply to a file.
func (who *tenant) applying(f file) int {
	n := 0
	for _, d := range who.deletes {
		if d.partition == f.partition && d.sequence > f.sequence {
			n++
		}
	}
	return n
}

func (h *host) path(who *tenant) string {
	h.files++
	return fmt.Sprintf("%s/data/%07d.parquet", who.location, h.files)
}

// entry describes a file that nobody reads.
func (h *host) entry(who *tenant, f file, content iceberg.ManifestEntryContent) iceberg.DataFile {
	b, err := iceberg.NewDataFileBuilder(who.spec, content, f.path, iceberg.ParquetFile, map[int]any{who.field: f.partition[2:]}, nil, nil, 1000, f.size)
	h.must(err)
	if content == iceberg.EntryContentEqDeletes {
		b = b.EqualityFieldIDs([]int{1})
	}
	return b.Build()
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
		who.commit(changes...)
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
}

func newHost(t *testing.T) *host {
	t.Helper()
	world := icebergtest.NewWorld(t)
	h := &host{
		t: t, world: world, state: state.New(state.NewMemory()), tenants: map[maintenance.TableID]*tenant{}, started: map[string]bool{}, begin: time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC),
		random: rand.New(rand.NewPCG(*seed, 7)), //nolint:gosec // a seeded simulation
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

// maxBytes bounds the bytes that are rewritten, in those of the oracle. The aim is 1.5; the oracle may collect files beyond a threshold until an hour ends,
// while a run starts at the threshold, and then what it left too small is rewritten with the next files.
const maxBytes = 2.5

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
	t.Logf("%d tables, %d hours: %d commits, %d looks, %d ledgers proved; %d runs (%d of partitions, %d in vain), the oracle %d: %.2fx; %d MiB rewritten, the oracle %d: %.2fx; "+
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
