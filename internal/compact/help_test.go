package compact_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"

	"firn/internal/compact"
	"firn/internal/compact/arrow"
	"firn/internal/compact/pages"
	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/maintenance"
	"firn/internal/store"
)

const runID = maintenance.RunID("aaaaaaaaaaaaaaaaaaaaaaaaaa")

// bench rewrites all files of a table's current snapshot, as a plan with rewrite-all would.
type bench struct {
	tb           testing.TB
	store        store.Full
	state        *lake.Table
	groups       []handoff.Group
	pinned       handoff.Pinned
	fn           *compact.Function
	work         *handoff.Work
	workLocation string
}

type benchOption func(*bench)

func maxOutput(n int64) benchOption {
	return func(b *bench) {
		for i := range b.groups {
			b.groups[i].MaxOutputFileSizeBytes = n
		}
	}
}

// run gives the groups another run, so that the same files can be rewritten again.
func run(n int) benchOption {
	return func(b *bench) { b.runAs(strings.Repeat("a", 25) + string(rune('b'+n%20))) }
}

func (b *bench) runAs(id string) {
	b.work = handoff.Open(b.store, b.workLocation, maintenance.RunID(id))
	for i := range b.groups {
		b.groups[i].Run.RunID = maintenance.RunID(id)
	}
}

func property(key, value string) benchOption {
	return func(b *bench) { b.pinned.Properties[key] = value }
}

func outputSpec(id int) benchOption {
	return func(b *bench) {
		for i := range b.groups {
			b.groups[i].OutputSpecID = id
		}
	}
}

func limits(l arrow.Limits) benchOption {
	return func(b *bench) {
		b.fn = compact.New(compact.Deps{Store: b.store, WorkLocation: b.workLocation, Engine: arrow.New(b.store, discard(), l)})
	}
}

// copying makes the group go through the page engine however small its pages are.
func copying() benchOption {
	return func(b *bench) {
		e := pages.New(b.store, discard(), pages.Limits{FullPageRows: 1}, arrow.New(b.store, discard(), arrow.Limits{}))
		b.fn = compact.New(compact.Deps{Store: b.store, WorkLocation: b.workLocation, Engine: e})
	}
}

func newBench(tb testing.TB, st store.Full, state *lake.Table, opts ...benchOption) *bench {
	tb.Helper()
	meta := state.Metadata
	b := &bench{tb: tb, store: st, state: state, workLocation: store.Join(meta.Location(), "work")}
	b.fn = compact.New(compact.Deps{Store: st, WorkLocation: b.workLocation})
	b.work = handoff.Open(st, b.workLocation, runID)
	b.pinned = handoff.Pinned{
		V: contract.PayloadVersion, Table: state.ID, UUID: meta.TableUUID().String(), Location: meta.Location(), FormatVersion: meta.Version(),
		SchemaID: meta.CurrentSchema().ID, DefaultSpecID: meta.DefaultPartitionSpec(), SortOrderID: meta.DefaultSortOrder(),
		Properties: maps.Clone(meta.Properties()),
	}
	if b.pinned.Properties == nil {
		b.pinned.Properties = map[string]string{}
	}
	snap := meta.CurrentSnapshot()
	b.pinned.SnapshotID, b.pinned.SequenceNumber = snap.SnapshotID, snap.SequenceNumber
	for _, s := range meta.Schemas() {
		b.pinned.Schemas = append(b.pinned.Schemas, b.json(s))
	}
	for _, s := range meta.PartitionSpecs() {
		b.pinned.Specs = append(b.pinned.Specs, b.json(s))
	}
	for _, s := range meta.SortOrders() {
		b.pinned.SortOrders = append(b.pinned.SortOrders, b.json(s))
	}
	b.plan()
	run(int(snap.SequenceNumber))(b) // Another state is another run.
	for _, o := range opts {
		o(b)
	}
	return b
}

func (b *bench) json(v any) json.RawMessage {
	data, err := json.Marshal(v)
	b.must(err)
	return data
}

func (b *bench) must(err error) {
	b.tb.Helper()
	if err != nil {
		b.tb.Fatal(err)
	}
}

// plan groups all live files by spec, partition and lineage, with the deletes that apply.
func (b *bench) plan() {
	b.tb.Helper()
	ctx := context.Background()
	manifests, err := lake.Manifests(ctx, b.store, b.state.Metadata.CurrentSnapshot())
	b.must(err)
	index, err := lake.BuildDeleteIndex(ctx, b.store, b.state, manifests)
	b.must(err)
	byKey := map[string]int{}
	deletes := map[string]map[string]int{}
	for _, m := range manifests {
		if m.ManifestContent() != iceberg.ManifestContentData {
			continue
		}
		for e, err := range lake.Entries(ctx, b.store, m, lake.EntryOptions{}) {
			b.must(err)
			spec := b.state.Metadata.PartitionSpecByID(e.SpecID)
			partition, err := lake.PartitionKey(*spec, e.File.Partition())
			b.must(err)
			key := fmt.Sprint(e.SpecID, "/", partition, "/", e.FirstRowID != nil)
			at, ok := byKey[key]
			if !ok {
				at = len(b.groups)
				byKey[key] = at
				deletes[key] = map[string]int{}
				b.groups = append(b.groups, handoff.Group{
					V: contract.PayloadVersion, Run: maintenance.Run{RunID: runID}, Job: maintenance.RewriteDataFiles, Index: at, SpecID: e.SpecID,
					OutputSpecID: e.SpecID, Partition: partition, HasRowLineage: e.FirstRowID != nil, MaxOutputFileSizeBytes: 512 << 20,
					DataSequence: b.pinned.SequenceNumber, OutputLocation: store.Join(b.pinned.Location, "data"),
				})
			}
			g := &b.groups[at]
			in := handoff.GroupInput{Entry: b.entry(e)}
			applied, err := index.For(e)
			b.must(err)
			for _, d := range applied {
				name := fmt.Sprint(d.File.FilePath(), d.DataSequence)
				if o := d.File.ContentOffset(); o != nil {
					name += fmt.Sprint(*o)
				}
				n, ok := deletes[key][name]
				if !ok {
					n = len(g.Deletes)
					deletes[key][name] = n
					g.Deletes = append(g.Deletes, b.entry(d))
				}
				in.Deletes = append(in.Deletes, n)
			}
			g.Inputs = append(g.Inputs, in)
		}
	}
}

func (b *bench) entry(e lake.Entry) handoff.Entry {
	b.tb.Helper()
	spec := b.state.Metadata.PartitionSpecByID(e.SpecID)
	schema, err := b.state.SpecSchema(*spec)
	b.must(err)
	data, err := lake.EncodeFile(e.File, *spec, schema)
	b.must(err)
	return handoff.Entry{
		File: data, Path: e.File.FilePath(), SpecID: e.SpecID, DataSequence: e.DataSequence, FileSequence: e.FileSequence,
		SnapshotID: e.SnapshotID, FirstRowID: e.FirstRowID,
	}
}

// item writes what the plan would have written for group i.
func (b *bench) item(i int) maintenance.CompactItem {
	b.tb.Helper()
	ctx := context.Background()
	g := b.groups[i]
	item := maintenance.CompactItem{
		V: contract.PayloadVersion, Run: g.Run, Job: g.Job, Group: i, Index: i,
		GroupLocation:  b.work.Part(g.Job, "p", fmt.Sprintf("group-%d.json", i)),
		PinnedLocation: b.work.Part(g.Job, "p", "pinned.json"),
	}
	b.must(b.store.Put(ctx, item.GroupLocation, b.json(g), store.WriteOptions{}))
	b.must(b.store.Put(ctx, item.PinnedLocation, b.json(b.pinned), store.WriteOptions{}))
	return item
}

// rewrite runs group i and returns its result.
func (b *bench) rewrite(i int) handoff.GroupResult {
	b.tb.Helper()
	item := b.item(i)
	out, err := b.fn.Handle(context.Background(), item)
	b.must(err)
	var result handoff.GroupResult
	b.must(b.work.Read(context.Background(), b.work.Result(item.Job, i), &result))
	if out.Outcome != result.Outcome {
		b.tb.Fatalf("answer %s, result %s", out.Outcome, result.Outcome)
	}
	return result
}

// rewriteAll runs all groups, none of which may be refused.
func (b *bench) rewriteAll() []handoff.GroupResult {
	b.tb.Helper()
	var results []handoff.GroupResult
	for i := range b.groups {
		r := b.rewrite(i)
		if r.Outcome != maintenance.Committed {
			b.tb.Fatalf("group %d: %s: %s", i, r.Outcome, r.Reason)
		}
		results = append(results, r)
	}
	return results
}

func (b *bench) decode(e handoff.Entry) iceberg.DataFile {
	b.tb.Helper()
	spec := b.state.Metadata.PartitionSpecByID(e.SpecID)
	schema, err := b.state.SpecSchema(*spec)
	b.must(err)
	f, err := lake.DecodeFile(e.File, *spec, schema)
	b.must(err)
	return f
}

func (b *bench) outputs(results []handoff.GroupResult) []iceberg.DataFile {
	b.tb.Helper()
	var out []iceberg.DataFile
	for _, r := range results {
		for _, e := range r.Outputs {
			out = append(out, b.decode(e))
		}
	}
	return out
}

// commit replaces all inputs by the outputs, as a writer that is not ours would.
func (b *bench) commit(tbl *icebergtest.Table, results []handoff.GroupResult) {
	b.tb.Helper()
	var changes []icebergtest.Change
	var gone []string
	for i, r := range results {
		for _, in := range b.groups[i].Inputs {
			gone = append(gone, in.Path)
		}
		for _, e := range r.Outputs {
			sequence := e.DataSequence
			changes = append(changes, icebergtest.AddFile(b.decode(e), &sequence))
		}
	}
	changes = append(changes, icebergtest.Remove(slices.Compact(gone)...))
	tbl.Commit(changes...)
}
