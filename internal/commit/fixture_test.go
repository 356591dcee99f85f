package commit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// fixture is a world with a table, and a run that rewrites some of its files.
type fixture struct {
	t     *testing.T
	world *icebergtest.World
	table *icebergtest.Table
	run   maintenance.Run
	work  *handoff.Work
	index handoff.Index
	// groups are the planned groups; pinned is T0.
	groups []handoff.Group
	pinned handoff.Pinned
	t0     *lake.Table
	waits  []time.Duration
	// outputRows cuts a group's outputs; 0 means one output.
	outputRows int64
	// noRowMap leaves the row map out.
	noRowMap bool
}

const workLocation = "mem://work/firn"

func newFixture(t *testing.T, opts ...icebergtest.TableOption) *fixture {
	t.Helper()
	w := icebergtest.NewWorld(t)
	return &fixture{t: t, world: w, table: w.NewTable("db.t", opts...)}
}

func (x *fixture) check(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// function is a commit function over a store and committer; nil means the world's.
func (x *fixture) function(st store.ReadWriter, c committer.Committer) *Function {
	x.t.Helper()
	if st == nil {
		st = x.world.Store
	}
	if c == nil {
		var err error
		c, err = committer.New(x.world.Catalog, st, committer.Options{Now: x.world.Clock.Now})
		x.check(err)
	}
	return &Function{
		Open: func(context.Context, maintenance.TableID) (Port, error) { return Port{Committer: c, Store: st}, nil },
		Work: st, WorkLocation: workLocation, Now: x.world.Clock.Now,
		Sleep: func(ctx context.Context, d time.Duration) error { x.waits = append(x.waits, d); return ctx.Err() },
	}
}

func (x *fixture) input() maintenance.CommitInput {
	return maintenance.CommitInput{V: 1, Run: x.run, Job: maintenance.RewriteDataFiles, Batch: 0}
}

// commit handles the batch with the world's ports.
func (x *fixture) commit() (maintenance.CommitOutput, error) {
	return x.function(nil, nil).Handle(context.Background(), x.input())
}

// mustCommit wants the batch committed and the rows unchanged since before.
func (x *fixture) mustCommit(before []string) handoff.CommitResult {
	x.t.Helper()
	out, err := x.commit()
	x.check(err)
	if out.Outcome != maintenance.Committed {
		x.t.Fatalf("outcome %s: %s: want committed", out.Outcome, out.Reason)
	}
	if after := x.rows(); !slices.Equal(before, after) {
		x.t.Fatalf("rows changed:\n before %q\n after  %q", before, after)
	}
	return x.result()
}

func (x *fixture) result() handoff.CommitResult {
	x.t.Helper()
	var r handoff.CommitResult
	x.check(x.work.Read(context.Background(), x.work.Commit(maintenance.RewriteDataFiles, 0), &r))
	return r
}

// pin plans one group for each list of paths on the table's state and writes pinned state, groups and index.
func (x *fixture) pin(partial bool, groups ...[]string) {
	x.t.Helper()
	ctx := context.Background()
	x.t0 = x.table.State()
	meta := x.t0.Metadata
	snap := meta.CurrentSnapshot()
	x.run = maintenance.Run{
		RunID: maintenance.NewRunID(meta.TableUUID().String(), snap.SnapshotID, 1), Table: x.table.ID, TableUUID: meta.TableUUID().String(), Token: 1,
	}
	x.work = handoff.Open(x.world.Store, workLocation, x.run.RunID)
	x.pinned = handoff.Pinned{
		V: 1, Table: x.table.ID, UUID: x.run.TableUUID, Location: meta.Location(), FormatVersion: meta.Version(), Branch: "main",
		SnapshotID: snap.SnapshotID, SequenceNumber: snap.SequenceNumber, SchemaID: meta.CurrentSchema().ID,
		DefaultSpecID: meta.DefaultPartitionSpec(), Properties: meta.Properties(),
	}
	for _, s := range meta.Schemas() {
		x.pinned.Schemas = append(x.pinned.Schemas, x.json(s))
	}
	for _, s := range meta.PartitionSpecs() {
		x.pinned.Specs = append(x.pinned.Specs, x.json(s))
	}
	x.index = handoff.Index{
		V: 1, Run: x.run, Job: maintenance.RewriteDataFiles, PinnedLocation: x.work.Part(maintenance.RewriteDataFiles, "a", "pinned.json"),
		Batches: []handoff.Batch{{Count: len(groups)}}, PartialProgress: partial,
	}
	x.put(x.index.PinnedLocation, &x.pinned)
	manifests, err := lake.Manifests(ctx, x.world.Store, snap)
	x.check(err)
	deletes, err := lake.BuildDeleteIndex(ctx, x.world.Store, x.t0, manifests)
	x.check(err)
	live := x.entries(snap.SnapshotID)
	for i, paths := range groups {
		g := handoff.Group{
			V: 1, Run: x.run, Job: maintenance.RewriteDataFiles, Index: i, OutputSpecID: meta.DefaultPartitionSpec(), DataSequence: snap.SequenceNumber,
		}
		seen := map[string]int{}
		for _, path := range paths {
			e := live[path]
			in := handoff.GroupInput{Entry: x.encode(x.t0, e)}
			applied, err := deletes.For(e)
			x.check(err)
			for _, d := range applied {
				key := fmt.Sprint(d.File.FilePath(), d.File.ContentOffset())
				if d.File.ContentOffset() != nil {
					key = fmt.Sprint(d.File.FilePath(), *d.File.ContentOffset())
				}
				if _, ok := seen[key]; !ok {
					seen[key] = len(g.Deletes)
					g.Deletes = append(g.Deletes, x.encode(x.t0, d))
				}
				in.Deletes = append(in.Deletes, seen[key])
			}
			g.Inputs = append(g.Inputs, in)
			g.SpecID, g.HasRowLineage = e.SpecID, e.FirstRowID != nil
			g.Partition, err = lake.PartitionKey(*meta.PartitionSpecByID(e.SpecID), e.File.Partition())
			x.check(err)
		}
		location := x.work.Part(maintenance.RewriteDataFiles, "a", fmt.Sprintf("group-%d.json", i))
		x.put(location, &g)
		x.index.Groups = append(x.index.Groups, location)
		x.groups = append(x.groups, g)
	}
	x.put(x.work.Index(maintenance.RewriteDataFiles), &x.index)
}

// replan writes the index again after a test changed it.
func (x *fixture) replan() {
	x.t.Helper()
	data := x.json(&x.index)
	x.check(x.world.Store.Put(context.Background(), x.work.Index(maintenance.RewriteDataFiles), data, store.WriteOptions{}))
}

// compact plays the workers: it reads each group's rows at T0 with iceberg-go, deletes applied, and writes one output a group.
func (x *fixture) compact() {
	x.t.Helper()
	for i := range x.groups {
		x.compactGroup(i, nil)
	}
}

// compactGroup does so for one group; edit may change its result.
func (x *fixture) compactGroup(i int, edit func(*handoff.GroupResult)) {
	x.t.Helper()
	x.compactTo(i, nil, edit)
}

// compactGroupInto writes the output into this partition of the output spec.
func (x *fixture) compactGroupInto(i int, partition map[int]any) {
	x.t.Helper()
	x.compactTo(i, partition, nil)
}

func (x *fixture) compactTo(i int, partition map[int]any, edit func(*handoff.GroupResult)) {
	x.t.Helper()
	g := x.groups[i]
	r := handoff.GroupResult{V: 1, Run: x.run, Job: g.Job, Index: i, Attempt: "a", Outcome: maintenance.Committed}
	e := x.entries(x.pinned.SnapshotID)
	for _, in := range g.Inputs {
		r.Proof.RowsIn += e[in.Path].File.Count()
		if partition == nil {
			partition = e[in.Path].File.Partition()
		}
	}
	rows := int64(0)
	m := handoff.RowMap{V: 1}
	var pieces [][]arrow.RecordBatch
	for _, in := range g.Inputs {
		kept := x.readFile(x.t0, in.Path, true)
		source := handoff.SourceRowMap{Path: in.Path}
		for _, at := range positionsOf(x.texts(x.readFile(x.t0, in.Path, false)), x.texts(kept)) {
			output, offset := 0, rows+int64(len(source.Ranges))
			if x.outputRows > 0 {
				output, offset = int(offset/x.outputRows), offset%x.outputRows
			}
			source.Ranges = append(source.Ranges, handoff.RowRange{First: at, Count: 1, Output: output, Offset: offset})
		}
		m.Sources = append(m.Sources, source)
		for _, b := range kept {
			for b.NumRows() > 0 {
				n := b.NumRows()
				at := 0
				if x.outputRows > 0 {
					n, at = min(n, x.outputRows-rows%x.outputRows), int(rows/x.outputRows)
				}
				if at == len(pieces) {
					pieces = append(pieces, nil)
				}
				pieces[at] = append(pieces[at], b.NewSlice(0, n))
				b, rows = b.NewSlice(n, b.NumRows()), rows+n
			}
		}
	}
	for n, batches := range pieces {
		e := x.writeOutput(g, batches, partition, fmt.Sprintf("%s-g%d-a-%d.parquet", x.run.RunID, i, n))
		r.Outputs, m.Outputs = append(r.Outputs, e), append(m.Outputs, e.Path)
	}
	r.Proof.RowsOut, r.Proof.RowsDeleted = rows, r.Proof.RowsIn-rows
	if !x.noRowMap {
		r.RowMap = x.work.RowMap(g.Job, i, "a")
		x.put(r.RowMap, &m)
	}
	if edit != nil {
		edit(&r)
	}
	x.put(x.work.Result(g.Job, i), &r)
}

func (x *fixture) writeOutput(g handoff.Group, batches []arrow.RecordBatch, partition map[int]any, name string) handoff.Entry {
	x.t.Helper()
	f := x.writeFile(x.t0, g.OutputSpecID, batches, partition, name)
	return x.encode(x.t0, lake.Entry{File: f, SpecID: g.OutputSpecID, DataSequence: g.DataSequence})
}

// writeFile writes a data file with field IDs and iceberg-go's statistics.
func (x *fixture) writeFile(state *lake.Table, spec int, batches []arrow.RecordBatch, partition map[int]any, name string,
	props ...parquet.WriterProperty,
) iceberg.DataFile {
	x.t.Helper()
	schema, err := table.SchemaToArrowSchema(state.Metadata.CurrentSchema(), nil, true, false)
	x.check(err)
	var buf bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &buf, parquet.NewWriterProperties(props...), pqarrow.DefaultWriterProps())
	x.check(err)
	for _, b := range batches {
		x.check(w.Write(array.NewRecordBatch(schema, b.Columns(), b.NumRows())))
	}
	x.check(w.Close())
	footer, err := w.FileMetadata()
	x.check(err)
	path := store.Join(state.Metadata.Location(), "data", name)
	x.check(x.world.Store.Put(context.Background(), path, buf.Bytes(), store.WriteOptions{IfAbsent: true}))
	f, err := table.DataFileFromMetadata(table.DataFileArgs{
		Schema: state.Metadata.CurrentSchema(), Spec: *state.Metadata.PartitionSpecByID(spec), Format: iceberg.ParquetFile, Metadata: footer,
		FilePath: path, FileSize: int64(buf.Len()), Content: iceberg.EntryContentData, PartitionValues: partition,
		FormatVersion: state.Metadata.Version(),
	})
	x.check(err)
	return f
}

func (x *fixture) encode(t *lake.Table, e lake.Entry) handoff.Entry {
	x.t.Helper()
	spec := *t.Metadata.PartitionSpecByID(e.SpecID)
	schema, err := t.SpecSchema(spec)
	x.check(err)
	data, err := lake.EncodeFile(e.File, spec, schema)
	x.check(err)
	return handoff.Entry{
		File: data, Path: e.File.FilePath(), SpecID: e.SpecID, DataSequence: e.DataSequence, FileSequence: e.FileSequence, SnapshotID: e.SnapshotID,
		FirstRowID: e.FirstRowID,
	}
}

// entries are the live entries of a snapshot by path; a Puffin file's vectors stand under path and offset.
func (x *fixture) entries(snapshot int64) map[string]lake.Entry {
	x.t.Helper()
	out := map[string]lake.Entry{}
	for _, e := range x.entryList(snapshot) {
		key := e.File.FilePath()
		if lake.IsDeletionVector(e.File) {
			key = fmt.Sprintf("%s@%d", key, *e.File.ContentOffset())
		}
		out[key] = e
	}
	return out
}

func (x *fixture) entryList(snapshot int64) []lake.Entry {
	x.t.Helper()
	ctx := context.Background()
	manifests, err := lake.Manifests(ctx, x.world.Store, x.table.State().Metadata.SnapshotByID(snapshot))
	x.check(err)
	var out []lake.Entry
	for _, m := range manifests {
		for e, err := range lake.Entries(ctx, x.world.Store, m, lake.EntryOptions{}) {
			x.check(err)
			out = append(out, e)
		}
	}
	return out
}

func (x *fixture) head() *table.Snapshot { return x.table.State().Metadata.CurrentSnapshot() }

// live splits the head's live entries into data file paths and delete entries.
func (x *fixture) live() (data, deletes []lake.Entry) {
	x.t.Helper()
	for _, e := range x.entryList(x.head().SnapshotID) {
		if e.File.ContentType() == iceberg.EntryContentData {
			data = append(data, e)
		} else {
			deletes = append(deletes, e)
		}
	}
	return data, deletes
}

// rows reads the table's head with iceberg-go's scan: one JSON text a row, sorted.
func (x *fixture) rows() []string {
	x.t.Helper()
	state := x.table.State()
	out := x.texts(x.read(state))
	sort.Strings(out)
	return out
}

// texts spells rows as JSON.
func (x *fixture) texts(batches []arrow.RecordBatch) []string {
	x.t.Helper()
	var out []string
	for _, b := range batches {
		data, err := b.MarshalJSON()
		x.check(err)
		var rows []json.RawMessage
		x.check(json.Unmarshal(data, &rows))
		for _, r := range rows {
			out = append(out, string(r))
		}
	}
	return out
}

// positionsOf finds where the kept rows, in their order, stand among all rows of a file.
func positionsOf(all, kept []string) []int64 {
	var out []int64
	for at := 0; len(kept) > 0; at++ {
		if all[at] == kept[0] {
			out, kept = append(out, int64(at)), kept[1:]
		}
	}
	return out
}

func (x *fixture) read(state *lake.Table) []arrow.RecordBatch {
	x.t.Helper()
	return x.readTasks(state, func(tasks []table.FileScanTask) []table.FileScanTask { return tasks })
}

// readFile reads one data file, with the deletes that apply to it or without.
func (x *fixture) readFile(state *lake.Table, path string, withDeletes bool) []arrow.RecordBatch {
	x.t.Helper()
	return x.readTasks(state, func(tasks []table.FileScanTask) []table.FileScanTask {
		for _, t := range tasks {
			if t.File.FilePath() != path {
				continue
			}
			t.Start, t.Length = 0, t.File.FileSizeBytes() // a scan splits large files
			if !withDeletes {
				t.DeleteFiles, t.EqualityDeleteFiles, t.DeletionVectorFiles = nil, nil, nil
			}
			return []table.FileScanTask{t}
		}
		return nil
	})
}

func (x *fixture) readTasks(state *lake.Table, choose func([]table.FileScanTask) []table.FileScanTask) []arrow.RecordBatch {
	x.t.Helper()
	ctx := context.Background()
	tbl := table.New(table.Identifier{"db", "t"}, state.Metadata, state.Pointer.MetadataLocation,
		func(ctx context.Context) (iceio.IO, error) { return lake.FileIO(ctx, x.world.Store), nil }, nil)
	scan := tbl.Scan()
	tasks, err := scan.PlanFiles(ctx)
	x.check(err)
	_, seq, err := scan.ReadTasks(ctx, choose(tasks))
	x.check(err)
	var out []arrow.RecordBatch
	for b, err := range seq {
		x.check(err)
		b.Retain()
		out = append(out, b)
	}
	return out
}

func (x *fixture) json(v any) json.RawMessage {
	x.t.Helper()
	data, err := json.Marshal(v)
	x.check(err)
	return data
}

func (x *fixture) put(location string, v any) {
	x.t.Helper()
	_, err := x.work.WriteOnce(context.Background(), location, v)
	x.check(err)
}

func numbered(from, to int64) []icebergtest.Row {
	var out []icebergtest.Row
	for i := from; i < to; i++ {
		out = append(out, icebergtest.Row{i, "a", float64(i) / 2})
	}
	return out
}

// small appends n files of three rows each, one a commit, and returns their paths.
func (x *fixture) small(n int) []string {
	x.t.Helper()
	var paths []string
	for i := range int64(n) {
		c := x.table.Commit(icebergtest.Append(numbered(i*3, i*3+3)...))
		paths = append(paths, c.DataFiles...)
	}
	return paths
}

func realNow() time.Time { return time.Now() }

func removeSnapshots(ids ...int64) func(b *table.MetadataBuilder) error {
	return func(b *table.MetadataBuilder) error { return b.RemoveSnapshots(ids, false) }
}

// writeOver replaces an object, as no room of ours does.
var writeOver = store.WriteOptions{}
