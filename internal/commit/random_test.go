package commit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/maintenance"
	"firn/internal/verify"
)

// wild is a table whose writers do anything, in an order that a seed decides.
type wild struct {
	*rebaseWorld
	rnd     *rand.Rand
	version int
	next    int64
	// rows are the rows of each data file that was ever written; mine are the position delete files that name one file only.
	rows map[string]int64
	mine map[string]map[string][]int64
	log  []string
}

func newWild(t *testing.T, seed uint64) *wild {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	version := 2 + rnd.IntN(2)
	opts := []icebergtest.TableOption{icebergtest.Version(version)}
	if rnd.IntN(2) == 0 {
		opts = append(opts, icebergtest.Partitioned("g"))
	}
	return &wild{
		rebaseWorld: &rebaseWorld{fixture: newFixture(t, opts...)}, rnd: rnd, version: version, rows: map[string]int64{},
		mine: map[string]map[string][]int64{},
	}
}

// say notes what is done, for the message of a failure.
func (w *wild) say(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

// files are the live data files, in a steady order.
func (w *wild) files() []string {
	data, _ := w.live()
	var out []string
	for _, e := range data {
		out = append(out, e.File.FilePath())
		w.rows[e.File.FilePath()] = e.File.Count()
	}
	slices.Sort(out)
	return out
}

// step lets a writer do one thing.
func (w *wild) step() {
	// Worlds move their clock on with each change; iceberg-go stamps moved refs with the real time.
	time.Sleep(2 * time.Millisecond)
	w.world.Clock.Reset()
	defer w.world.Clock.Reset()
	files := w.files()
	pick := func() string { return files[w.rnd.IntN(len(files))] }
	if len(files) == 0 {
		w.append()
		return
	}
	switch w.rnd.IntN(12) {
	case 0, 1:
		w.append()
	case 2, 3, 4:
		w.deletePositions(pick())
	case 5:
		w.deleteTogether(pick())
	case 6:
		w.say("delete rows of an equal id")
		w.commits(w.equal("id"))
	case 7:
		w.say("upsert")
		w.commits(w.equal("id"), icebergtest.Append(w.row()))
	case 8:
		w.say("remove %s", files[0])
		w.commits(icebergtest.Remove(files[0]))
		delete(w.mine, files[0])
	case 9:
		w.mergeDeletes(pick())
	case 10:
		w.expire()
	case 11:
		if head := w.head(); w.rnd.IntN(3) == 0 && head.ParentSnapshotID != nil && w.table.State().Metadata.SnapshotByID(*head.ParentSnapshotID) != nil {
			w.say("roll back")
			w.table.Branch("main", *head.ParentSnapshotID)
			w.mine = map[string]map[string][]int64{} // what is live is not known any more
		}
	}
}

func (w *wild) row() icebergtest.Row {
	w.next++
	return icebergtest.Row{w.next, []string{"a", "b"}[w.rnd.IntN(2)], w.rnd.Float64()}
}

func (w *wild) append() {
	var rows []icebergtest.Row
	for range 1 + w.rnd.IntN(6) {
		rows = append(rows, w.row())
	}
	w.say("append %d rows", len(rows))
	w.commits(icebergtest.Append(rows...))
}

// equal is an equality delete on the id; under a partitioned spec the partition's column must be there.
func (w *wild) equal(column string) icebergtest.Change {
	id := 1 + w.rnd.Int64N(max(w.next, 1))
	if spec := w.table.State().Metadata.PartitionSpec(); !spec.IsUnpartitioned() {
		return icebergtest.DeleteEqual([]string{column, "g"}, icebergtest.Row{id, []string{"a", "b"}[w.rnd.IntN(2)]})
	}
	return icebergtest.DeleteEqual([]string{column}, icebergtest.Row{id})
}

func (w *wild) positions(path string) []int64 {
	var out []int64
	for range 1 + w.rnd.IntN(3) {
		if p := w.rnd.Int64N(w.rows[path]); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

func (w *wild) deletePositions(path string) {
	positions := w.positions(path)
	w.say("delete rows %v of %s", positions, path)
	if w.version == 3 {
		w.commits(icebergtest.DeleteVector(path, positions...))
		return
	}
	c := w.table.Commit(icebergtest.DeletePositions(path, positions...))
	if w.mine[path] == nil {
		w.mine[path] = map[string][]int64{}
	}
	w.mine[path][c.DeleteFiles[0]] = positions
}

// deleteTogether deletes rows of all files of a partition at once.
func (w *wild) deleteTogether(path string) {
	var together []icebergtest.Position
	vectors := map[string][]int64{}
	data, _ := w.live()
	at := slices.IndexFunc(data, func(e lake.Entry) bool { return e.File.FilePath() == path })
	for _, e := range data {
		if fmt.Sprint(e.File.Partition()) != fmt.Sprint(data[at].File.Partition()) || w.rnd.IntN(2) == 0 {
			continue
		}
		vectors[e.File.FilePath()] = w.positions(e.File.FilePath())
		for _, p := range vectors[e.File.FilePath()] {
			together = append(together, icebergtest.Position{Path: e.File.FilePath(), Pos: p})
		}
	}
	if len(together) == 0 {
		return
	}
	w.say("delete together %v", together)
	if w.version == 3 {
		w.commits(icebergtest.DeleteVectors(vectors))
	} else {
		w.commits(icebergtest.DeletePositionsTogether(together...))
	}
}

// mergeDeletes does what a rewrite of position deletes does to the file-scoped ones of a data file.
func (w *wild) mergeDeletes(path string) {
	if len(w.mine[path]) < 2 {
		return
	}
	var old []string
	var all []int64
	for name, positions := range w.mine[path] {
		old, all = append(old, name), append(all, positions...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	_, deletes := w.live()
	for _, name := range old {
		if !slices.ContainsFunc(deletes, func(e lake.Entry) bool { return e.File.FilePath() == name }) {
			return
		}
	}
	w.say("merge %d delete files of %s", len(old), path)
	c := w.table.Commit(icebergtest.Remove(old...), icebergtest.DeletePositions(path, all...), icebergtest.Operation("replace"))
	w.mine[path] = map[string][]int64{c.DeleteFiles[0]: all}
}

func (w *wild) expire() {
	var old []int64
	for _, s := range w.table.State().Metadata.Snapshots() {
		if s.SnapshotID != w.head().SnapshotID {
			old = append(old, s.SnapshotID)
		}
	}
	if len(old) > 0 && w.rnd.IntN(2) == 0 {
		w.say("expire %d snapshots", len(old))
		w.table.Update(removeSnapshots(old...))
	}
}

// groups plans some live files, at most three groups of one partition each.
func (w *wild) groups() [][]string {
	data, _ := w.live()
	byPartition := map[string][]string{}
	var keys []string
	for _, e := range data {
		key := fmt.Sprint(e.SpecID, e.File.Partition(), w.rnd.IntN(2))
		if w.rnd.IntN(5) == 0 {
			continue
		}
		if len(byPartition[key]) == 0 {
			keys = append(keys, key)
		}
		byPartition[key] = append(byPartition[key], e.File.FilePath())
	}
	slices.Sort(keys)
	var out [][]string
	for _, key := range keys[:min(3, len(keys))] {
		out = append(out, byPartition[key])
	}
	return out
}

// play is one seed: writers, a rewrite, writers, its commit with writers between the attempts.
func (w *wild) play(seed uint64) (handoff.CommitResult, bool) {
	w.t.Helper()
	w.append()
	for range 4 + w.rnd.IntN(8) {
		w.step()
	}
	groups := w.groups()
	if len(groups) == 0 {
		return handoff.CommitResult{}, false
	}
	w.outputRows = w.rnd.Int64N(5)
	w.pin(true, groups...)
	w.compact()
	w.say("rewrite %q", groups)
	for range w.rnd.IntN(6) {
		w.step()
	}
	rows := w.fixture.rows()
	races := w.rnd.IntN(3)
	out := w.handle(func(call int) error {
		if call <= races {
			w.step()
			rows = w.fixture.rows()
		}
		return nil
	})
	if after := w.fixture.rows(); !slices.Equal(rows, after) {
		w.t.Fatalf("seed %d: %+v: rows changed\n before %q\n after  %q\n%s", seed, out, rows, after, strings.Join(w.log, "\n"))
	}
	r := w.result()
	if out.Outcome != maintenance.Committed {
		return r, true
	}
	report, err := (&verify.Verifier{Store: w.world.Store}).Snapshot(context.Background(), w.table.State(), r.SnapshotID)
	if err != nil || report.Verdict != verify.Equal {
		w.t.Fatalf("seed %d: %+v, %v\n%s", seed, report, err, strings.Join(w.log, "\n"))
	}
	return r, true
}

// TestRandomWriters lets writers do anything before T0, after it and between attempts, and holds each commit to the rows that were there right
// before it, as iceberg-go's reader and our own see them. FIRN_SEEDS=from-to plays other seeds.
func TestRandomWriters(t *testing.T) {
	t.Parallel()
	from, to := uint64(1), uint64(8)
	if text := os.Getenv("FIRN_SEEDS"); text != "" {
		if _, err := fmt.Sscanf(text, "%d-%d", &from, &to); err != nil {
			t.Fatal(err)
		}
	}
	landed, rebased, dropped := 0, 0, 0
	for seed := from; seed <= to; seed++ {
		w := newWild(t, seed)
		r, ok := w.play(seed)
		if !ok {
			continue
		}
		landed, dropped = landed+len(r.Groups), dropped+len(r.Dropped)
		if r.Rebased != nil {
			rebased += r.Rebased.Groups
		}
	}
	t.Logf("%d groups landed, %d of them met new deletes, %d were dropped", landed, rebased, dropped)
	if os.Getenv("FIRN_SEEDS") == "" && (landed == 0 || rebased == 0 || dropped == 0) {
		t.Errorf("%d groups landed, %d met new deletes, %d were dropped: want each to happen", landed, rebased, dropped)
	}
}
