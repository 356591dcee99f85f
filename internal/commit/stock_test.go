package commit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// These tests run what iceberg-go offers beside what this room does, and hold the library to its faults: when one of them is mended, its test
// fails and the rule that it made necessary can be looked at again.

// stockIO lets iceberg-go write and remove through the world's store.
type stockIO struct {
	iceio.IO
	st store.Full
}

func (s stockIO) WriteFile(name string, p []byte) error {
	return s.st.Put(context.Background(), name, bytes.Clone(p), store.WriteOptions{})
}

func (s stockIO) Remove(name string) error {
	_, _, err := s.st.Delete(context.Background(), []string{name})
	return err
}

func (s stockIO) Create(name string) (iceio.FileWriter, error) {
	return &stockFile{io: s, name: name}, nil
}

type stockFile struct {
	bytes.Buffer
	io   stockIO
	name string
}

func (f *stockFile) ReadFrom(r io.Reader) (int64, error) { return f.Buffer.ReadFrom(r) }
func (f *stockFile) Close() error                        { return f.io.WriteFile(f.name, f.Bytes()) }

// stock is the catalog that iceberg-go's own transactions commit to. A stale base is retryable, as on REST.
type stock struct {
	x *fixture
	// lost answers that a commit failed after it was applied, as a repetition inside the Glue client does.
	lost bool
}

func (s *stock) fs(ctx context.Context) (iceio.IO, error) {
	return stockIO{lake.FileIO(ctx, s.x.world.Store), s.x.world.Store}, nil
}

func (s *stock) LoadTable(_ context.Context, id table.Identifier) (*table.Table, error) {
	state := s.x.table.State()
	return table.New(id, state.Metadata, state.Pointer.MetadataLocation, s.fs, s), nil
}

func (s *stock) CommitTable(_ context.Context, _ table.Identifier, reqs []table.Requirement, updates []table.Update) (table.Metadata, string, error) {
	state := s.x.table.State()
	for _, r := range reqs {
		if err := r.Validate(state.Metadata); err != nil {
			return nil, "", fmt.Errorf("%w: %w", table.ErrCommitFailed, err)
		}
	}
	s.x.world.Clock.Set(realNow())
	next := s.x.table.Update(func(b *table.MetadataBuilder) error {
		for _, u := range updates {
			if err := u.Apply(b); err != nil {
				return err
			}
		}
		return nil
	})
	if s.lost {
		return nil, "", fmt.Errorf("%w: ConcurrentModificationException", table.ErrCommitFailed)
	}
	return next.Metadata, next.Pointer.MetadataLocation, nil
}

func (x *fixture) stockTable(s *stock) *table.Table {
	x.t.Helper()
	tbl, err := s.LoadTable(context.Background(), table.Identifier{"db", "t"})
	x.check(err)
	return tbl
}

// tasks are iceberg-go's scan tasks of these files.
func (x *fixture) tasks(tbl *table.Table, paths []string) []table.FileScanTask {
	x.t.Helper()
	tasks, err := tbl.Scan().PlanFiles(context.Background())
	x.check(err)
	return slices.DeleteFunc(tasks, func(t table.FileScanTask) bool { return !slices.Contains(paths, t.File.FilePath()) })
}

// readable counts the rows that a scan of the head gives, or tells that it fails.
func (x *fixture) readable() (int, error) {
	state := x.table.State()
	tbl := table.New(table.Identifier{"db", "t"}, state.Metadata, state.Pointer.MetadataLocation,
		func(ctx context.Context) (iceio.IO, error) { return lake.FileIO(ctx, x.world.Store), nil }, nil)
	_, seq, err := tbl.Scan().ToArrowRecords(context.Background())
	if err != nil {
		return 0, err
	}
	n := 0
	for b, err := range seq {
		if err != nil {
			return n, err
		}
		n += int(b.NumRows())
	}
	return n, nil
}

// atRealTime lets iceberg-go's transactions, which read the real clock, work on a world's table.
func (x *fixture) atRealTime() { x.world.Clock.Set(realNow().Add(-time.Hour)) }

func TestF1AtomicRewriteRevivesRows(t *testing.T) {
	t.Parallel()
	world := func(t *testing.T) (*fixture, []string) {
		x := newFixture(t)
		x.atRealTime()
		big := x.table.Commit(icebergtest.Append(numbered(1000, 1100)...)).DataFiles[0]
		small := x.small(5)
		x.table.Commit(icebergtest.DeletePositionsTogether(icebergtest.Position{Path: big, Pos: 3}, icebergtest.Position{Path: big, Pos: 4},
			icebergtest.Position{Path: small[0], Pos: 1}))
		return x, small
	}
	x, small := world(t)
	before := len(x.rows())
	tbl := x.stockTable(&stock{x: x})
	_, err := tbl.RewriteDataFiles(context.Background(), []table.CompactionTaskGroup{{Tasks: x.tasks(tbl, small)}}, table.RewriteDataFilesOptions{})
	x.check(err)
	if after := len(x.rows()); after != before+2 {
		t.Errorf("iceberg-go: %d rows before, %d after: its fault F1 (two deleted rows come back) is mended", before, after)
	}

	x, small = world(t)
	x.pin(false, small)
	x.compact()
	x.mustCommit(x.rows())
	if _, deletes := x.live(); len(deletes) != 1 {
		t.Errorf("%d delete files are live: want the one that the large file needs", len(deletes))
	}
}

// splitFile adds a file of two row groups whose halves a scan makes two tasks of.
func splitFile(t *testing.T) (*fixture, string) {
	t.Helper()
	x := newFixture(t, icebergtest.Property("read.split.target-size", "1"))
	x.atRealTime()
	x.table.Commit(icebergtest.Append(numbered(0, 40)...))
	state := x.table.State()
	batches := x.read(state)
	f := x.writeFile(state, 0, halves(batches), nil, "two-groups.parquet", parquet.WithMaxRowGroupLength(20))
	old, _ := x.live()
	x.table.Commit(icebergtest.Remove(old[0].File.FilePath()), icebergtest.AddFile(f, nil))
	return x, f.FilePath()
}

func halves(batches []arrow.RecordBatch) []arrow.RecordBatch {
	var out []arrow.RecordBatch
	for _, b := range batches {
		out = append(out, b.NewSlice(0, b.NumRows()/2), b.NewSlice(b.NumRows()/2, b.NumRows()))
	}
	return out
}

func TestF2SplitTasksLoseRows(t *testing.T) {
	t.Parallel()
	x, path := splitFile(t)
	before := len(x.rows())
	tbl := x.stockTable(&stock{x: x})
	tasks := x.tasks(tbl, []string{path})
	if len(tasks) != 2 {
		t.Fatalf("%d tasks: want the file's halves", len(tasks))
	}
	_, err := tbl.RewriteDataFiles(context.Background(), []table.CompactionTaskGroup{{Tasks: tasks[:1]}, {Tasks: tasks[1:]}},
		table.RewriteDataFilesOptions{PartialProgress: true})
	if after := len(x.rows()); err == nil && after >= before {
		t.Errorf("iceberg-go: %d rows before, %d after: its fault F2 (half of the rows are lost) is mended", before, after)
	}

	x, path = splitFile(t)
	x.pin(false, []string{path})
	x.compactGroup(0, func(r *handoff.GroupResult) { r.Proof.RowsIn /= 2 }) // a worker that took a task for the file
	x.want(maintenance.Refused, "rows were read")
	x, path = splitFile(t)
	x.pin(false, []string{path})
	x.compact()
	x.mustCommit(x.rows())
}

func TestF3LostAnswerDestroysTable(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	x.atRealTime()
	small := x.small(5)
	tbl := x.stockTable(&stock{x: x, lost: true})
	r, err := tbl.RewriteDataFiles(context.Background(), []table.CompactionTaskGroup{{Tasks: x.tasks(tbl, small)}},
		table.RewriteDataFilesOptions{PartialProgress: true})
	if _, broken := x.readable(); err != nil || len(r.FailedGroups) != 1 || broken == nil {
		t.Errorf("iceberg-go: %v, %d failed groups, reading: %v: its fault F3 (committed files are deleted) is mended", err, len(r.FailedGroups), broken)
	}

	x, before := ready(t)
	f := x.faulty()
	f.commit = func(_ int, c func() (committer.Result, error)) (committer.Result, error) {
		_, err := c()
		x.check(err)
		return committer.Result{}, errLost
	}
	if out, err := x.function(nil, f).Handle(context.Background(), x.input()); err != nil || out.Outcome != maintenance.Committed {
		t.Errorf("%+v, %v: want committed", out, err)
	}
	x.once(before)
}

// readAtT0 reads a group with iceberg-go at T0; then a row of it is deleted, and the result is committed on a freshly loaded table.
func TestF4DeletesBetweenReadAndLoadAreNotSeen(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	x.atRealTime()
	small := x.small(5)
	s := &stock{x: x}
	tbl := x.stockTable(s)
	result, err := table.ExecuteCompactionGroup(context.Background(), tbl, table.CompactionTaskGroup{Tasks: x.tasks(tbl, small)})
	x.check(err)
	x.table.Commit(icebergtest.DeletePositions(small[0], 0))
	before := len(x.rows())
	txn := x.stockTable(s).NewTransaction()
	x.check(txn.NewRewrite(nil).ApplyResult(result).Commit(context.Background()))
	_, err = txn.Commit(context.Background())
	x.check(err)
	if after := len(x.rows()); after != before+1 {
		t.Errorf("iceberg-go: %d rows before, %d after: its fault F4 (a deleted row comes back) is mended", before, after)
	}

	x = newFixture(t)
	small = x.small(5)
	x.pin(false, small)
	x.compact()
	x.table.Commit(icebergtest.DeletePositions(small[0], 0))
	if r := x.want(maintenance.Committed, ""); r.Rebased == nil || r.Rebased.Positions != 1 {
		t.Errorf("rebased %+v: want the deleted row carried over", r.Rebased)
	}
}

func TestF5AnyEqualityDeleteStopsRewrites(t *testing.T) {
	t.Parallel()
	retries := icebergtest.Property("commit.retry.num-retries", "4")
	x := newFixture(t, retries)
	x.atRealTime()
	small := x.small(5)
	s := &stock{x: x}
	tbl := x.stockTable(s)
	result, err := table.ExecuteCompactionGroup(context.Background(), tbl, table.CompactionTaskGroup{Tasks: x.tasks(tbl, small)})
	x.check(err)
	sequence := x.head().SequenceNumber
	txn := tbl.NewTransaction()
	x.check(txn.NewRewrite(nil).ApplyResult(result).DataSequenceNumber(sequence).Commit(context.Background()))
	x.table.Commit(icebergtest.DeleteEqual([]string{"id"}, icebergtest.Row{int64(7)}))
	_, err = txn.Commit(context.Background())
	if !errors.Is(err, table.ErrConflictingDeleteFiles) {
		t.Errorf("iceberg-go: %v: its fault F5 (an equality delete stops a rewrite that keeps its sequence number) is mended", err)
	}

	x = newFixture(t, retries)
	small = x.small(5)
	x.pin(false, small)
	x.compact()
	x.table.Commit(icebergtest.DeleteEqual([]string{"id"}, icebergtest.Row{int64(7)}))
	x.want(maintenance.Committed, "")
}

func TestF5AppendStopsRewriteThatRemovesDeletes(t *testing.T) {
	t.Parallel()
	retries := icebergtest.Property("commit.retry.num-retries", "4")
	world := func(t *testing.T) (*fixture, []string) {
		x := newFixture(t, retries)
		x.atRealTime()
		small := x.small(5)
		x.table.Commit(icebergtest.DeletePositions(small[0], 1))
		return x, small
	}
	x, small := world(t)
	s := &stock{x: x}
	tbl := x.stockTable(s)
	result, err := table.ExecuteCompactionGroup(context.Background(), tbl, table.CompactionTaskGroup{Tasks: x.tasks(tbl, small)})
	x.check(err)
	txn := tbl.NewTransaction()
	x.check(txn.NewRewrite(nil).ApplyResult(result).Commit(context.Background()))
	x.table.Commit(icebergtest.Append(row(1000, "a")))
	if _, err = txn.Commit(context.Background()); err == nil {
		t.Error("iceberg-go: its fault F5 (an append stops a rewrite that removes deletes) is mended")
	}

	x, small = world(t)
	x.pin(false, small)
	x.compact()
	x.table.Commit(icebergtest.Append(row(1000, "a")))
	x.want(maintenance.Committed, "")
	if _, deletes := x.live(); len(deletes) != 0 {
		t.Errorf("%d delete files are live: want none", len(deletes))
	}
}
