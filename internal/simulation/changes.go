package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/maintenance"
	"firn/internal/state"
	"firn/internal/store"
)

// evolve changes the schema. A dropped column may come back: old schemas stay in the table, and setting one of them again shows what files still hold.
func (s *Sim) evolve() {
	t := s.state()
	fields := t.Metadata.CurrentSchema().Fields()
	last := fields[len(fields)-1]
	switch n := s.rng.IntN(6); {
	case s.dropped >= 0 && n < 4:
		s.hit("dropped column came back")
		s.table.Update(func(b *table.MetadataBuilder) error { return b.SetCurrentSchemaID(s.dropped) })
		s.dropped = -1
	case len(fields) > 3 && n < 3:
		s.hit("column dropped")
		s.table.Evolve(icebergtest.DropColumn(last.Name))
		s.dropped = t.Metadata.CurrentSchema().ID
	case n == 3:
		s.table.Evolve(icebergtest.AddColumn(fmt.Sprintf("x%d", t.Metadata.LastColumnID()), "long"))
	case n == 4:
		s.table.Evolve(icebergtest.RenameColumn(fields[2].Name, fmt.Sprintf("val%d", s.step)))
	default:
		if fields[2].Type == iceberg.PrimitiveTypes.Int64 {
			return
		}
		s.table.Evolve(icebergtest.PromoteColumn(fields[2].Name, "long"))
		s.dropped = -1 // an int again would not show what was written since
	}
}

// rollback sets main back to an earlier snapshot.
func (s *Sim) rollback() {
	t := s.state()
	head := t.Metadata.CurrentSnapshot()
	var earlier []int64
	for at := head; at != nil && at.ParentSnapshotID != nil; {
		if at = t.Metadata.SnapshotByID(*at.ParentSnapshotID); at != nil {
			earlier = append(earlier, at.SnapshotID)
		}
	}
	if len(earlier) == 0 {
		return
	}
	to := earlier[min(s.rng.IntN(4), len(earlier)-1)]
	s.undone = head.SnapshotID
	s.table.Branch(table.MainBranch, to)
	s.emit(to)
}

// forward sets main to the snapshot from which it was rolled back: the branch's head is what it was, as if nothing had happened.
func (s *Sim) forward() {
	if s.undone != 0 && s.state().Metadata.SnapshotByID(s.undone) != nil {
		s.hit("rollback undone")
		s.table.Branch(table.MainBranch, s.undone)
		s.emit(s.undone)
	}
	s.undone = 0
}

func (s *Sim) tag() {
	t := s.state()
	if s.underWay(maintenance.ExpireSnapshots) {
		s.hit("tag set during an expiry")
	}
	snaps := t.Metadata.Snapshots()
	s.table.Tag(fmt.Sprintf("t%d", s.rng.IntN(3)), snaps[s.rng.IntN(len(snaps))].SnapshotID)
}

func (s *Sim) property() { s.table.SetProperty("owner", strconv.Itoa(s.step)) }

func (s *Sim) repartition() {
	spec := dataSpec(s.state())
	switch {
	case spec.IsUnpartitioned():
		s.table.Repartition("g")
	case s.state().Metadata.Version() > 1:
		s.table.Repartition()
	}
}

func (s *Sim) upgrade() {
	if s.state().Metadata.Version() == 2 {
		s.hit("format upgrade")
		s.table.Upgrade(3)
	}
}

// writeAhead is a writer that has written a file and will commit it some hours later.
func (s *Sim) writeAhead() {
	location := fmt.Sprintf("s3://world/db/t/data/ahead-%d.parquet", s.step)
	if err := s.world.Store.Put(context.Background(), location, []byte("rows"), store.WriteOptions{}); err != nil {
		panic(worldFault(err.Error()))
	}
	s.inFlight[location] = s.world.Clock.Now()
}

// stage is the name of the branch on which writers prepare what main gets later.
const stage = "stage"

// branchOff commits to a branch beside main: appended rows, which an audit looks at before they are published.
func (s *Sim) branchOff() {
	t := s.state()
	head, err := t.Head(stage)
	if err != nil {
		head = t.Metadata.CurrentSnapshot()
		s.table.Branch(stage, head.SnapshotID)
		t = s.state()
	}
	want := maps.Clone(s.expected[head.SnapshotID])
	c := s.table.CommitTo(stage, icebergtest.Append(s.newRows(t, want)...))
	s.expectAt(s.state(), c.Snapshot, want)
	s.staged = append(s.staged, c.Snapshot.SnapshotID)
}

// publish moves main to the branch where that is a fast forward, and picks the branch's snapshots one by one else: the same files under a new
// snapshot. The branch goes.
func (s *Sim) publish() {
	t := s.state()
	head, err := t.Head(stage)
	if err != nil {
		return
	}
	main, forward := t.Metadata.CurrentSnapshot(), false
	for at := head; at != nil && !forward; {
		forward = at.SnapshotID == main.SnapshotID
		if at.ParentSnapshotID == nil {
			break
		}
		at = t.Metadata.SnapshotByID(*at.ParentSnapshotID)
	}
	if forward {
		s.hit("branch fast-forward")
		s.table.Branch(table.MainBranch, head.SnapshotID)
		s.emit(head.SnapshotID)
	} else {
		for _, id := range s.staged {
			s.cherryPick(id)
		}
		s.keepTime() // each pick moved the world's clock, and what follows is stamped with the bubble's
	}
	s.staged = nil
	s.table.Update(func(b *table.MetadataBuilder) error { return b.RemoveSnapshotRef(stage) })
}

// cherryPick adds to main what a staged snapshot added, if it is still there and main does not have it.
func (s *Sim) cherryPick(id int64) {
	t, now, want := s.head()
	snap := t.Metadata.SnapshotByID(id)
	if snap == nil {
		return
	}
	v, err := s.reader.view(t, snap)
	if err != nil {
		panic(worldFault(err.Error()))
	}
	var files []icebergtest.Change
	for _, e := range v.data {
		if e.SnapshotID != id {
			continue
		}
		for rowID, at := range v.rows {
			if _, there := now.rows[rowID]; at.path == e.File.FilePath() && there {
				return
			}
			if at.path == e.File.FilePath() {
				want[rowID] = at.rec
			}
		}
		files = append(files, icebergtest.AddFile(e.File, nil))
	}
	s.hit("cherry-pick")
	s.table.Commit(append(files, icebergtest.Operation(table.OpAppend), icebergtest.Summary("source-snapshot-id", strconv.FormatInt(id, 10)))...)
	s.expect(want)
}

// readd takes a data file out of the table and adds it again in the next snapshot: the same path with another sequence number, to which no earlier
// delete applies.
func (s *Sim) readd() {
	_, v, want := s.head()
	e, ids := s.pick(v)
	if len(ids) == 0 {
		return
	}
	recs, err := s.reader.file(e.File.FilePath())
	if err != nil {
		panic(worldFault(err.Error()))
	}
	back := maps.Clone(want)
	for _, rec := range recs {
		id := number(rec, fieldID, 0)
		if _, elsewhere := want[id]; elsewhere && !slices.Contains(ids, id) {
			return // it would be there twice
		}
		back[id] = rec
	}
	for _, id := range ids {
		delete(want, id)
	}
	s.table.Commit(icebergtest.Remove(withVectors(v, e)...))
	s.expect(want)
	s.hit("file re-added")
	s.table.Commit(icebergtest.AddFile(e.File, nil), icebergtest.Operation(table.OpAppend))
	s.expect(back)
}

// Orders of steps in which a request is carried out long after its process died.
const (
	detoured = "request that landed after its process died and main went back and forth"
	outlived = "request that landed more than a day after its process died, and after a search for orphans"
)

// detour is a request of a dead process that is carried out late. Meanwhile another run ended.
type detour struct {
	late   *call
	kind   string
	closer *run
}

// goAway kills the process of a request that is under way, and takes main back to the head's parent: the head that the request asserts is gone, for a
// while, in which a run closes the dead one. What looks like a proof that the request cannot land is none.
func (s *Sim) goAway(c *call) bool {
	head := s.state().Metadata.CurrentSnapshot()
	if s.detour != nil || head == nil || head.ParentSnapshotID == nil || s.state().Metadata.SnapshotByID(*head.ParentSnapshotID) == nil {
		return false
	}
	s.strand(c)
	s.undone = head.SnapshotID
	s.table.Branch(table.MainBranch, *head.ParentSnapshotID)
	s.detour = &detour{late: c, kind: detoured, closer: s.call(maintenance.Request{Trigger: "call", Jobs: []maintenance.JobRequest{{
		Job: maintenance.ExpireSnapshots, Args: map[string]string{"retain_last": "1000"},
	}}}, c.p.run.state)}
	return true
}

// outlive kills the process of a request that is under way, and lets more than a day pass. Then somebody who knows nothing of its run, on another machine,
// looks for orphans that are as young as allowed.
func (s *Sim) outlive(c *call) bool {
	if s.detour != nil {
		return false
	}
	s.strand(c)
	s.letPass(26 * time.Hour)
	s.states = append(s.states, state.NewMemory())
	s.detour = &detour{late: c, kind: outlived, closer: s.call(maintenance.Request{Trigger: "call", Jobs: []maintenance.JobRequest{{
		Job: maintenance.RemoveOrphanFiles, Args: map[string]string{"older_than": s.world.Clock.Now().Add(-25 * time.Hour).Format(time.DateTime)},
	}}}, len(s.states)-1)}
	return true
}

// strand kills a run whose request is on its way.
func (s *Sim) strand(c *call) {
	c.sent, c.notBefore = true, maxSteps
	s.note("%s dies, its request is on its way", c.p.run.name)
	s.killRun(c.p.run)
}

// comeBack lets the request arrive when the other run has ended.
func (s *Sim) comeBack() {
	d := s.detour
	if d == nil {
		return
	}
	s.mu.Lock()
	over := d.closer.ended || d.closer.dead
	s.mu.Unlock()
	if !over {
		return
	}
	s.hit(d.kind)
	s.detour, d.late.notBefore = nil, 0
	if d.kind == detoured {
		s.forward()
	}
}

// revived is a file that came back between the search for what may be deleted and the deletion.
const revived = "file of an expired snapshot added again before it was deleted"

// revive adds a file again that only expired snapshots reached, after a run found that it may be deleted and before it deletes anything. It does so only
// while nobody else is at work: between a look at the head and the deletion that follows, nothing helps.
func (s *Sim) revive() {
	p := s.found
	s.found = nil
	if p == nil || s.calm || s.rng.IntN(2) == 0 {
		return
	}
	s.mu.Lock()
	alone := !slices.ContainsFunc(s.pending, func(c *call) bool { return c.p.run != p.run })
	s.mu.Unlock()
	if !alone {
		return
	}
	_, v, want := s.head()
	for _, list := range sortedKeys(s.reader.views) {
		for _, e := range s.reader.views[list].data {
			location := e.File.FilePath()
			if _, gone := s.letGo[location]; !gone || s.reach()[location] || !s.exists(location) || !s.addAgain(e, v, want) {
				continue
			}
			s.hit(revived)
			s.note("%s is added again", short(location))
			delete(s.letGo, location)
			s.revived[location] = true
			return
		}
	}
}

// addAgain adds a file whose rows are not in the table.
func (s *Sim) addAgain(e lake.Entry, v *snapshotView, want rows) bool {
	recs, err := s.reader.file(e.File.FilePath())
	if err != nil {
		panic(worldFault(err.Error()))
	}
	back := maps.Clone(want)
	for _, rec := range recs {
		id := number(rec, fieldID, 0)
		if _, there := v.rows[id]; there {
			return false
		}
		back[id] = rec
	}
	s.table.Commit(icebergtest.AddFile(e.File, nil), icebergtest.Operation(table.OpAppend))
	s.expect(back)
	return true
}
