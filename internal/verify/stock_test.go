package verify

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/store"
)

// stock lets iceberg-go's own transactions work on a world's table.
type stock struct {
	iceio.IO
	x *scene
}

func (s stock) WriteFile(name string, p []byte) error {
	return s.x.world.Store.Put(context.Background(), name, bytes.Clone(p), store.WriteOptions{})
}

func (s stock) Remove(name string) error {
	_, _, err := s.x.world.Store.Delete(context.Background(), []string{name})
	return err
}

func (s stock) Create(name string) (iceio.FileWriter, error) {
	return &stockFile{io: s, name: name}, nil
}

type stockFile struct {
	bytes.Buffer
	io   stock
	name string
}

func (f *stockFile) ReadFrom(r io.Reader) (int64, error) { return f.Buffer.ReadFrom(r) }
func (f *stockFile) Close() error                        { return f.io.WriteFile(f.name, f.Bytes()) }

func (s stock) LoadTable(_ context.Context, id table.Identifier) (*table.Table, error) {
	state := s.x.table.State()
	return table.New(id, state.Metadata, state.Pointer.MetadataLocation, func(ctx context.Context) (iceio.IO, error) {
		return stock{lake.FileIO(ctx, s.x.world.Store), s.x}, nil
	}, s), nil
}

func (s stock) CommitTable(_ context.Context, _ table.Identifier, reqs []table.Requirement, updates []table.Update) (table.Metadata, string, error) {
	state := s.x.table.State()
	for _, r := range reqs {
		if err := r.Validate(state.Metadata); err != nil {
			return nil, "", err
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
	return next.Metadata, next.Pointer.MetadataLocation, nil
}

func realNow() time.Time { return time.Now() }

// TestRevivedByTheStockLibrary replays a fault of a public compactor: a position delete file is removed with the files that were rewritten although
// a file that was left alone needs it. Two deleted rows come back, without an error, and are named.
func TestRevivedByTheStockLibrary(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := icebergtest.NewWorld(t)
	x := &scene{t: t, world: w, table: w.NewTable("db.t")}
	w.Clock.Set(realNow().Add(-time.Hour)) // iceberg-go's transactions read the real clock
	big := x.table.Commit(icebergtest.Append(numbered(1000, 1100)...)).DataFiles[0]
	var small []string
	for i := range int64(5) {
		small = append(small, x.table.Commit(icebergtest.Append(numbered(i*3, i*3+3)...)).DataFiles...)
	}
	x.table.Commit(icebergtest.DeletePositionsTogether(icebergtest.Position{Path: big, Pos: 3}, icebergtest.Position{Path: big, Pos: 4},
		icebergtest.Position{Path: small[0], Pos: 1}))
	tbl, err := stock{x: x}.LoadTable(ctx, table.Identifier{"db", "t"})
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := tbl.Scan().PlanFiles(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tasks = slices.DeleteFunc(tasks, func(t table.FileScanTask) bool { return t.File.FilePath() == big })
	if _, err := tbl.RewriteDataFiles(ctx, []table.CompactionTaskGroup{{Tasks: tasks}}, table.RewriteDataFilesOptions{}); err != nil {
		t.Fatal(err)
	}
	id := x.table.State().Metadata.CurrentSnapshot().SnapshotID
	r, err := x.verifier().Snapshot(ctx, x.table.State(), id)
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, row := range r.Rows {
		rows = append(rows, fmt.Sprintf("%s %s at %d of %t", row.Kind, row.Values, row.Position, row.File == big))
	}
	want := []string{`resurrected {"id":1003,"g":"g1","val":501.5} at 3 of true`, `resurrected {"id":1004,"g":"g2","val":502} at 4 of true`}
	if r.Verdict != Different || r.Counts[Resurrected] != 2 || len(r.Counts) != 1 || !slices.Equal(rows, want) {
		t.Errorf("%s, counts %v, rows %q: want %q", r.Verdict, r.Counts, rows, want)
	}
	a, err := x.verifier().History(ctx, x.table.State())
	if err != nil || a.Different != 1 {
		t.Errorf("audit %+v, %v: want this rewrite to be found (its operation is %s)", a, err, r.Operation)
	}
}
