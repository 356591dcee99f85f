package fleet_test

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/json"
	"fmt"
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
	"firn/internal/maintenance"
	"firn/internal/report"
	"firn/internal/simulation/fleet"
	"firn/internal/state"
	"firn/internal/store"
)

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
	opts.ForAutomatic(request.Aged)
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
		for _, size := range fleet.Outputs(g.SizeBytes, decide.DefaultDataFilesOptions()) {
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
		h.commit(who, append(changes, icebergtest.Remove(slices.Sorted(maps.Keys(gone))...))...)
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

func (h *host) commit(who *tenant, changes ...icebergtest.Change) {
	left := who.table.Pointer().MetadataLocation
	who.table.Commit(changes...)
	who.sequence++
	h.world.Forget(left) // looks happen between commits, and read the current one
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
