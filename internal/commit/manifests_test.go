package commit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
	"firn/internal/store"
)

const rewriteManifests = maintenance.RewriteManifests

// planManifests writes the index of a rewrite of manifests with these arguments, as key, value pairs.
func (x *fixture) planManifests(args ...string) {
	x.t.Helper()
	x.planManifestsAs(3, args...)
}

// planManifestsAs does so for the run with that token.
func (x *fixture) planManifestsAs(token int64, args ...string) {
	x.t.Helper()
	meta := x.table.State().Metadata
	head := meta.CurrentSnapshot()
	x.run = maintenance.Run{
		RunID: maintenance.NewRunID(meta.TableUUID().String(), head.SnapshotID, token), Table: x.table.ID, TableUUID: meta.TableUUID().String(), Token: token,
	}
	x.work = handoff.Open(x.world.Store, workLocation, x.run.RunID)
	request := maintenance.JobRequest{Job: rewriteManifests, Args: map[string]string{"spec_id": fmt.Sprint(meta.DefaultPartitionSpec())}}
	for i := 0; i < len(args); i += 2 {
		request.Args[args[i]] = args[i+1]
	}
	x.index = handoff.Index{
		V: 1, Run: x.run, Job: rewriteManifests, Request: request, Batches: []handoff.Batch{{}},
		Detail: x.json(handoff.ManifestsDetail{SnapshotID: head.SnapshotID, SequenceNumber: head.SequenceNumber}),
	}
	x.put(x.work.Index(rewriteManifests), &x.index)
}

func (x *fixture) mergeWith(st store.ReadWriter, c committer.Committer) (maintenance.CommitOutput, error) {
	return x.function(st, c).Handle(context.Background(), maintenance.CommitInput{V: 1, Run: x.run, Job: rewriteManifests})
}

func (x *fixture) mergeResult() handoff.CommitResult {
	x.t.Helper()
	var r handoff.CommitResult
	x.check(x.work.Read(context.Background(), x.work.Commit(rewriteManifests, 0), &r))
	return r
}

func (x *fixture) headManifests() []iceberg.ManifestFile {
	x.t.Helper()
	manifests, err := lake.Manifests(context.Background(), x.world.Store, x.head())
	x.check(err)
	return manifests
}

// facts spell the live entries of the head with everything that a rewrite of manifests must keep, statistics included.
func (x *fixture) facts() []string {
	x.t.Helper()
	state := x.table.State()
	var out []string
	for _, e := range x.entryList(x.head().SnapshotID) {
		rowID := "-"
		if e.FirstRowID != nil {
			rowID = fmt.Sprint(*e.FirstRowID)
		}
		out = append(out, fmt.Sprintf("%s@%v spec %d data %d file %d snapshot %d row %s %x", e.File.FilePath(), e.File.ContentOffset() != nil, e.SpecID,
			e.DataSequence, e.FileSequence, e.SnapshotID, rowID, x.encode(state, e).File))
	}
	slices.Sort(out)
	return out
}

// merge wants the rewrite committed, with rows and entries as before, sound manifests and the totals of the parent.
func (x *fixture) merge() handoff.CommitResult {
	x.t.Helper()
	rows, facts, parent := x.rows(), x.facts(), x.head()
	out, err := x.mergeWith(nil, nil)
	x.check(err)
	if out.Outcome != maintenance.Committed || out.Next != maintenance.NextPlan {
		x.t.Fatalf("%+v: want committed, then plan", out)
	}
	x.sameTable(rows, facts)
	head := x.head()
	for _, key := range []string{"total-records", "total-data-files", "total-delete-files", "total-files-size"} {
		if was, is := parent.Summary.Properties[key], head.Summary.Properties[key]; was != is {
			x.t.Errorf("summary %s became %q, was %q", key, is, was)
		}
	}
	r, summary := x.mergeResult(), head.Summary.Properties
	if head.Summary.Operation != table.OpReplace || summary["entries-processed"] != "0" || summary["changed-partition-count"] != "0" ||
		summary["manifests-replaced"] != fmt.Sprint(r.Columns[columnRewrittenManifests]) ||
		summary["manifests-created"] != fmt.Sprint(r.Columns[columnAddedManifests]) {
		x.t.Errorf("operation %s, summary %v, columns %v", head.Summary.Operation, summary, r.Columns)
	}
	return r
}

func (x *fixture) sameTable(rows, facts []string) {
	x.t.Helper()
	if after := x.rows(); !slices.Equal(rows, after) {
		x.t.Errorf("rows changed:\n before %q\n after  %q", rows, after)
	}
	if after := x.facts(); !slices.Equal(facts, after) {
		x.t.Errorf("entries changed:\n before %q\n after  %q", facts, after)
	}
	x.checkManifests()
}

// TestMergeOfEachVersion: small manifests, tombstones and deletes of every kind become one manifest of each content.
func TestMergeOfEachVersion(t *testing.T) {
	t.Parallel()
	for _, version := range []int{1, 2, 3} {
		t.Run(fmt.Sprint("v", version), func(t *testing.T) {
			x := newFixture(t, icebergtest.Version(version))
			paths := x.small(5)
			want := map[iceberg.ManifestContent]int{iceberg.ManifestContentData: 1}
			switch version {
			case 2:
				x.table.Commit(icebergtest.DeletePositions(paths[0], 1))
				x.table.Commit(icebergtest.DeleteEqual([]string{"id"}, icebergtest.Row{int64(4)}))
			case 3:
				x.table.Commit(icebergtest.DeleteVector(paths[0], 1))
				x.table.Commit(icebergtest.DeleteVector(paths[1], 0))
			}
			if version > 1 {
				want[iceberg.ManifestContentDeletes] = 1
			}
			x.table.Commit(icebergtest.Remove(paths[4]))
			x.planManifests()
			r := x.merge()
			got := map[iceberg.ManifestContent]int{}
			for _, m := range x.headManifests() {
				got[m.ManifestContent()]++
				if m.AddedDataFiles() != 0 || m.DeletedDataFiles() != 0 || m.SnapshotID() != r.SnapshotID {
					t.Errorf("manifest of snapshot %d with %d added and %d deleted files", m.SnapshotID(), m.AddedDataFiles(), m.DeletedDataFiles())
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%v manifests: want %v", got, want)
			}
			// A second execution answers the same, a second call has nothing to do.
			location := x.table.Pointer().MetadataLocation
			if out, err := x.mergeWith(nil, nil); err != nil || out.SnapshotID != r.SnapshotID {
				t.Errorf("second execution: %+v, %v", out, err)
			}
			x.planManifests()
			out, err := x.mergeWith(nil, nil)
			if err != nil || out.Outcome != maintenance.NothingToDo || x.table.Pointer().MetadataLocation != location {
				t.Errorf("second call: %+v, %v: want nothing to do", out, err)
			}
		})
	}
}

// A table that was upgraded from version 1 keeps sequence number 0 as the least; one that became version 3 keeps entries without row IDs apart.
func TestMergeAfterUpgrade(t *testing.T) {
	t.Parallel()
	x := newFixture(t, icebergtest.Version(1))
	x.small(3)
	x.table.Upgrade(2)
	x.small(2)
	x.planManifests()
	x.merge()
	if m := x.headManifests(); len(m) != 1 || m[0].MinSequenceNum() != 0 {
		t.Errorf("%d manifests, the first from sequence number %d: want one from 0", len(m), m[0].MinSequenceNum())
	}
	x.table.Upgrade(3)
	x.table.Commit(icebergtest.Append(numbered(50, 53)...))
	next := x.table.State().Metadata.NextRowID()
	x.planManifests()
	x.merge()
	head := x.head()
	if head.FirstRowID == nil || *head.FirstRowID != next || x.table.State().Metadata.NextRowID() != next+*head.AddedRows {
		t.Errorf("snapshot's rows begin at %v, %v added; the table went from %d to %d", head.FirstRowID, head.AddedRows, next,
			x.table.State().Metadata.NextRowID())
	}
}

// TestMergeOfOneSpec: manifests of other specs stay as they are (case A84).
func TestMergeOfOneSpec(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	x.small(3)
	x.table.Repartition("g")
	x.table.Commit(icebergtest.Append(icebergtest.Row{int64(100), "b", 1.0}, icebergtest.Row{int64(101), "a", 1.0}))
	x.table.Commit(icebergtest.Append(icebergtest.Row{int64(102), "c", 1.0}, icebergtest.Row{int64(103), "a", 1.0}))
	specs := func() map[int32]int {
		out := map[int32]int{}
		for _, m := range x.headManifests() {
			out[m.PartitionSpecID()]++
		}
		return out
	}
	current := int32(x.table.State().Metadata.DefaultPartitionSpec())
	x.planManifests()
	if r := x.merge(); r.Columns[columnRewrittenManifests] != 2 || specs()[current] != 1 || specs()[0] != 3 {
		t.Errorf("columns %v, manifests by spec %v: want 3 of spec 0 and 1 of spec %d", r.Columns, specs(), current)
	}
	x.planManifests("spec_id", "0")
	if r := x.merge(); r.Columns[columnRewrittenManifests] != 3 || specs()[current] != 1 || specs()[0] != 1 {
		t.Errorf("columns %v, manifests by spec %v: want 1 of each", r.Columns, specs())
	}
}

// TestMergeClusters: entries stand in the order of their partitions, by value and not by text, and each manifest has its own range.
func TestMergeClusters(t *testing.T) {
	t.Parallel()
	x := newFixture(t, icebergtest.Partitioned("id", "g"), icebergtest.Property("commit.manifest.target-size-bytes", "12000"))
	for i := range int64(12) {
		x.table.Commit(icebergtest.Append(
			icebergtest.Row{(i * 7) % 12, string(rune('a' + i%3)), 1.0}, icebergtest.Row{nil, string(rune('a' + i%3)), 1.0}))
	}
	order := func(field int) (values []string) {
		for _, m := range x.headManifests() {
			for e, err := range lake.Entries(context.Background(), x.world.Store, m, lake.EntryOptions{}) {
				x.check(err)
				values = append(values, fmt.Sprint(e.File.Partition()[field]))
			}
		}
		return values
	}
	x.planManifests()
	r := x.merge()
	if n := r.Columns[columnAddedManifests]; n < 3 || n > 12 {
		t.Errorf("%d manifests: want several", n)
	}
	want := "<nil> <nil> <nil> <nil> <nil> <nil> <nil> <nil> <nil> <nil> <nil> <nil> 0 1 2 3 4 5 6 7 8 9 10 11"
	if got := strings.Join(order(1000), " "); got != want {
		t.Errorf("ids %s: want %s", got, want)
	}
	x.planManifests("sort_by", `["g"]`, "target_size_bytes", "8388608")
	x.merge()
	if got := strings.Join(order(1001), ""); got != "aaaaaaaabbbbbbbbcccccccc" {
		t.Errorf("sorted by g: %s", got)
	}
}

// TestMergeBesideOthers: an append, and another rewrite of the manifests, between plan and commit, and between two attempts (case A88).
func TestMergeBesideOthers(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]func(x *fixture){
		"append": func(x *fixture) { x.table.Commit(icebergtest.Append(numbered(900, 903)...)) },
		"delete": func(x *fixture) {
			data, _ := x.live()
			x.table.Commit(icebergtest.DeletePositions(data[0].File.FilePath(), 0))
		},
		"removal": func(x *fixture) {
			data, _ := x.live()
			x.table.Commit(icebergtest.Remove(data[1].File.FilePath()))
		},
		"another rewrite and an append": func(x *fixture) {
			mine, index, work := x.run, x.index, x.work
			x.planManifestsAs(4)
			if out, err := x.mergeWith(nil, nil); err != nil || out.Outcome != maintenance.Committed {
				x.t.Errorf("the other rewrite: %+v, %v", out, err)
			}
			x.run, x.index, x.work = mine, index, work
			x.table.Commit(icebergtest.Append(numbered(900, 903)...))
		},
		"data rewrite of the same files": func(x *fixture) {
			data, _ := x.live()
			x.table.Commit(icebergtest.Append(numbered(0, 3)...), icebergtest.Remove(data[len(data)-1].File.FilePath()))
		},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprint(name, late), func(t *testing.T) {
				x := newFixture(t)
				x.small(4)
				x.planManifests()
				f := x.faulty()
				var rows, facts []string
				disturb := func() { other(x); rows, facts = x.rows(), x.facts() }
				if late {
					f.commit = func(n int, c func() (committer.Result, error)) (committer.Result, error) {
						if n == 1 {
							disturb()
						}
						return c()
					}
				} else {
					disturb()
				}
				out, err := x.mergeWith(nil, f)
				if err != nil || out.Outcome != maintenance.Committed {
					t.Fatalf("%+v, %v: want committed", out, err)
				}
				x.sameTable(rows, facts)
				if late != (f.calls == 2) {
					t.Errorf("%d calls", f.calls)
				}
			})
		}
	}
}

func TestMergeCrashes(t *testing.T) {
	t.Parallel()
	for _, applied := range []bool{false, true} {
		for n := 0; ; n++ {
			x := newFixture(t)
			paths := x.small(3)
			x.table.Commit(icebergtest.DeletePositions(paths[0], 1))
			x.table.Commit(icebergtest.DeletePositions(paths[1], 1))
			rows, facts := x.rows(), x.facts()
			x.planManifests()
			faults := store.NewFaults(x.world.Store, store.Rule{Operation: store.OpChange, Skip: n, Crash: true, Applied: applied})
			_, err := x.mergeWith(faults, nil)
			if faults.Fired() == 0 {
				if x.check(err); n < 5 {
					t.Errorf("Handle made %d writes only", n)
				}
				break
			}
			out, err := x.mergeWith(nil, nil)
			if err != nil || out.Outcome != maintenance.Committed || x.ours() != 1 {
				t.Fatalf("after a crash at change %d: %+v, %v, %d snapshots: want committed once", n, out, err, x.ours())
			}
			x.sameTable(rows, facts)
			x.spared(x.mergeResult().Unneeded)
		}
	}
}

// spared wants no unneeded file to be part of a retained snapshot.
func (x *fixture) spared(unneeded []string) {
	x.t.Helper()
	for _, s := range x.table.State().Metadata.Snapshots() {
		manifests, err := lake.Manifests(context.Background(), x.world.Store, &s)
		x.check(err)
		needed := []string{s.ManifestList}
		for _, m := range manifests {
			needed = append(needed, m.FilePath())
		}
		for _, path := range unneeded {
			if slices.Contains(needed, path) {
				x.t.Errorf("%s is unneeded but snapshot %d needs it", path, s.SnapshotID)
			}
		}
	}
}

// TestMergeLostAnswers: the answer is lost and the table moves on, or the snapshot expires while its manifests live on.
func TestMergeLostAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		applied bool
		then    func(x *fixture)
		calls   int
	}{
		{"it landed", true, func(*fixture) {}, 1},
		{"it landed, another commit on top", true, func(x *fixture) { x.table.Commit(icebergtest.Append(numbered(900, 903)...)) }, 1},
		{"it landed, another commit on top, and expired", true, func(x *fixture) {
			ours := x.head().SnapshotID
			x.table.Commit(icebergtest.Append(numbered(900, 903)...))
			x.table.Update(removeSnapshots(ours))
		}, 1},
		{"it did not land", false, func(*fixture) {}, 2},
		{"it did not land, the table moved on", false, func(x *fixture) { x.table.Commit(icebergtest.Append(numbered(900, 903)...)) }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newFixture(t)
			x.small(4)
			x.planManifests()
			f := x.faulty()
			var rows, facts []string
			f.commit = func(n int, call func() (committer.Result, error)) (committer.Result, error) {
				if n > 1 {
					return call()
				}
				if c.applied {
					_, err := call()
					x.check(err)
				}
				c.then(x)
				rows, facts = x.rows(), x.facts()
				return committer.Result{}, errLost
			}
			out, err := x.mergeWith(nil, f)
			if err != nil || out.Outcome != maintenance.Committed || f.calls != c.calls {
				t.Fatalf("%+v, %v after %d calls: want committed after %d", out, err, f.calls, c.calls)
			}
			x.sameTable(rows, facts)
			x.spared(x.mergeResult().Unneeded)
		})
	}
}

// TestMergeRefusals: a list that lies, and a spec that is gone, leave the table as it is.
func TestMergeRefusals(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	x.small(2)
	x.planManifests("spec_id", "5")
	if out, err := x.mergeWith(nil, nil); err != nil || out.Outcome != maintenance.Refused || !strings.Contains(out.Reason, "no partition spec 5") {
		t.Errorf("%+v, %v: want refused", out, err)
	}
	x = newFixture(t)
	x.small(3)
	m := x.headManifests()
	data, err := x.world.Store.Get(context.Background(), m[0].FilePath())
	x.check(err)
	x.table.Commit(icebergtest.Remove(x.entryOf(m[0])))
	x.check(x.world.Store.Put(context.Background(), x.touched(m), data, writeOver))
	x.planManifests()
	location := x.table.Pointer().MetadataLocation
	out, err := x.mergeWith(nil, nil)
	if err != nil || out.Outcome != maintenance.Refused || !strings.Contains(out.Reason, "its list says") || x.table.Pointer().MetadataLocation != location {
		t.Errorf("%+v, %v: want refused", out, err)
	}
}

// entryOf is the one data file of a manifest.
func (x *fixture) entryOf(m iceberg.ManifestFile) (path string) {
	for e, err := range lake.Entries(context.Background(), x.world.Store, m, lake.EntryOptions{}) {
		x.check(err)
		path = e.File.FilePath()
	}
	return path
}

// touched is the head's manifest that is not among the earlier ones.
func (x *fixture) touched(earlier []iceberg.ManifestFile) string {
	for _, m := range x.headManifests() {
		if !slices.ContainsFunc(earlier, func(e iceberg.ManifestFile) bool { return e.FilePath() == m.FilePath() }) {
			return m.FilePath()
		}
	}
	return ""
}
