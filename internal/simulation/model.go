package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/lake/peek"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// rows are what a snapshot must hold: records by row ID, columns included that the current schema does not show. Records are shared and never changed.
type rows map[int64]record

// model is what the table must be, told by its writers.
type model struct {
	reader *reader
	// expected are the rows of each snapshot.
	expected map[int64]rows
	// gone are the rows of expired snapshots.
	gone   map[int64]rows
	nextID int64
	// undone is the head before the last rollback, 0 when there was none.
	undone int64
	// dropped is the schema before a column was dropped, -1 when no schema can come back.
	dropped int
	// staged are the snapshots of the branch beside main.
	staged []int64
	// inFlight are files of writers that have not committed yet, with the time of writing.
	inFlight map[string]time.Time
	// letGo are the files that only expired snapshots reached, with the end of their grace period by the time that the table has of the commit that let them go.
	letGo map[string]time.Time
	// revived are files that were let go of and came back: an earlier expiry may delete them again before a later one's grace period ends.
	revived map[string]bool
	// reachable caches what a metadata file reaches.
	reachable   map[string]bool
	reachableOf string
}

func (m *model) init() {
	m.expected, m.gone, m.inFlight, m.nextID, m.dropped = map[int64]rows{}, map[int64]rows{}, map[string]time.Time{}, 1, -1
	m.letGo, m.revived = map[string]time.Time{}, map[string]bool{}
}

// expect notes what a writer's commit made of the rows and checks that the table agrees.
func (s *Sim) expect(want rows) {
	t := s.state()
	s.expectAt(t, t.Metadata.CurrentSnapshot(), want)
}

// expectAt is expect for a snapshot of any branch.
func (s *Sim) expectAt(t *lake.Table, snap *table.Snapshot, want rows) {
	s.expected[snap.SnapshotID] = want
	s.checkSnapshot(t, snap)
	s.emit(snap.SnapshotID)
}

// checkSnapshot compares a snapshot with the model and with the rules of the format.
func (s *Sim) checkSnapshot(t *lake.Table, snap *table.Snapshot) *snapshotView {
	v, err := s.reader.view(t, snap)
	if err != nil {
		s.failf("snapshot %d: %v", snap.SnapshotID, err)
		return nil
	}
	want, known := s.expected[snap.SnapshotID]
	if !known {
		s.failf("snapshot %d is of nobody", snap.SnapshotID)
		return nil
	}
	columns := t.Metadata.CurrentSchema().Fields()
	for id, rec := range want {
		switch got, ok := v.rows[id]; {
		case !ok:
			s.failf("row %d is lost in snapshot %d", id, snap.SnapshotID)
		case !sameValues(columns, got.rec, rec):
			s.failf("row %d is %q in snapshot %d, want %q", id, rowText(columns, got.rec), snap.SnapshotID, rowText(columns, rec))
		}
	}
	for id, got := range v.rows {
		if _, ok := want[id]; !ok {
			s.failf("row %d is resurrected in snapshot %d: %s at %d", id, snap.SnapshotID, short(got.path), got.pos)
		}
	}
	s.checkNumbers(snap, v)
	return v
}

// checkNumbers checks sequence numbers and counts.
func (s *Sim) checkNumbers(snap *table.Snapshot, v *snapshotView) {
	for _, e := range append(append([]lake.Entry{}, v.data...), v.deletes...) {
		if e.DataSequence > snap.SequenceNumber || e.FileSequence > snap.SequenceNumber {
			s.failf("%s has sequence numbers %d and %d in a snapshot of %d", short(e.File.FilePath()), e.DataSequence, e.FileSequence, snap.SequenceNumber)
		}
	}
	for _, m := range v.manifests {
		entries, err := s.reader.manifest(m)
		if err != nil {
			s.failf("%v", err)
			continue
		}
		if live := int(m.AddedDataFiles()) + int(m.ExistingDataFiles()); live != len(entries) {
			s.failf("manifest %s has %d live entries, its list says %d", short(m.FilePath()), len(entries), live)
		}
		for _, e := range entries {
			if e.DataSequence < m.MinSequenceNum() {
				s.failf("manifest %s has minimum sequence number %d above %d of %s", short(m.FilePath()), m.MinSequenceNum(), e.DataSequence, short(e.File.FilePath()))
			}
		}
	}
	if snap.Summary == nil {
		return
	}
	for key, n := range map[string]int{"total-data-files": len(v.data), "total-delete-files": len(v.deletes)} {
		if said := snap.Summary.Properties.GetInt(key, n); said != n {
			s.failf("summary of snapshot %d says %s %d, there are %d", snap.SnapshotID, key, said, n)
		}
	}
}

// swapped looks at a commit that a process of ours made, or tried to make.
func (s *Sim) swapped(p *process, before *lake.Table, err error) {
	late := p.gaveUp || p.run.ended || s.world.Clock.Now().Sub(p.begun) > 960*time.Second
	if err != nil {
		if late {
			s.hit("zombie lost the race")
		}
		s.hit("catalog swap lost the race")
		s.note("  swap lost")
		return
	}
	if late {
		s.hit("zombie commit landed")
	}
	after := s.state()
	s.note("  committed %s", short(after.Pointer.MetadataLocation))
	s.checkChange(before, after)
	s.checkFiles(after)
	s.noteLetGo(p, before, after)
}

// noteLetGo notes which files an expiry let go of.
func (s *Sim) noteLetGo(p *process, before, after *lake.Table) {
	needed := s.reach()
	for _, snap := range before.Metadata.Snapshots() {
		if after.Metadata.SnapshotByID(snap.SnapshotID) != nil {
			continue
		}
		v, err := s.reader.view(before, &snap)
		if err != nil {
			s.failf("snapshot %d: %v", snap.SnapshotID, err)
			continue
		}
		for _, location := range v.files {
			if !needed[location] && !s.revived[location] {
				s.letGo[location] = time.UnixMilli(after.Metadata.LastUpdatedMillis()).UTC().Add(p.grace(""))
			}
		}
	}
}

// checkChange checks what a commit of ours may change: at most one snapshot on top of the head it saw, and snapshots that no ref needs.
func (s *Sim) checkChange(before, after *lake.Table) {
	head := before.Metadata.CurrentSnapshot()
	known := map[int64]bool{}
	for _, snap := range before.Metadata.Snapshots() {
		known[snap.SnapshotID] = true
	}
	kept := map[int64]bool{}
	for _, snap := range after.Metadata.Snapshots() {
		kept[snap.SnapshotID] = true
		if known[snap.SnapshotID] {
			continue
		}
		if rows, back := s.gone[snap.SnapshotID]; back && s.prof.rest {
			s.hit("snapshot of a lost tag restored")
			s.expected[snap.SnapshotID] = rows
			s.checkSnapshot(after, &snap)
			continue
		}
		s.checkOurs(before, after, head, &snap)
	}
	for id := range known {
		if !kept[id] {
			s.hit("snapshot expired")
			s.gone[id] = s.expected[id]
			delete(s.expected, id)
		}
	}
	refs := map[string]int64{}
	for name, ref := range after.Metadata.Refs() {
		refs[name] = ref.SnapshotID
		if !kept[ref.SnapshotID] {
			s.failf("ref %s points to snapshot %d, which is gone", name, ref.SnapshotID)
		}
	}
	for name, ref := range before.Metadata.Refs() {
		if _, there := refs[name]; !there && s.prof.rest && s.gone[ref.SnapshotID] != nil {
			// A service checks only the refs that it is told: one that was set while the request was under way goes with its snapshot, is seen after
			// the commit and set again.
			s.hit("tag lost to an expiry that could not know it")
			continue
		}
		if name != table.MainBranch && refs[name] != ref.SnapshotID {
			s.failf("ref %s pointed to snapshot %d, now to %d", name, ref.SnapshotID, refs[name])
		}
	}
	if a, b := described(before), described(after); a != b {
		s.failf("a commit of ours changed the table: from %s to %s", a, b)
	}
}

// checkOurs checks a new snapshot of ours: same rows as its parent, with the same lineage.
func (s *Sim) checkOurs(before, after *lake.Table, head, snap *table.Snapshot) {
	if head == nil || snap.ParentSnapshotID == nil || *snap.ParentSnapshotID != head.SnapshotID {
		s.failf("snapshot %d was not made on the head %v", snap.SnapshotID, head)
		return
	}
	s.expected[snap.SnapshotID] = s.expected[head.SnapshotID]
	s.checkFirst(snap)
	if snap.SequenceNumber != before.Metadata.LastSequenceNumber()+1 || snap.Summary.Operation != table.OpReplace {
		s.failf("snapshot %d has sequence number %d after %d, operation %s", snap.SnapshotID, snap.SequenceNumber,
			before.Metadata.LastSequenceNumber(), snap.Summary.Operation)
	}
	old, err := s.reader.view(before, head)
	if err != nil {
		s.failf("snapshot %d: %v", head.SnapshotID, err)
		return
	}
	v := s.checkSnapshot(after, snap)
	if v == nil {
		return
	}
	s.expected[snap.SnapshotID] = s.stored(after, v, s.expected[head.SnapshotID])
	carried := false
	for _, e := range v.deletes {
		if e.SnapshotID != snap.SnapshotID || e.FileSequence != snap.SequenceNumber {
			continue
		}
		carried = true
		if after.Metadata.Version() > 2 && e.File.ContentType() == iceberg.EntryContentPosDeletes && !lake.IsDeletionVector(e.File) {
			s.failf("snapshot %d adds %s to a table of version 3", snap.SnapshotID, short(e.File.FilePath()))
		}
	}
	if carried {
		s.hit("deletes carried over to outputs")
	}
	if after.Metadata.Version() < 3 {
		return
	}
	for id, was := range old.rows {
		if is := v.rows[id]; was.rowID >= 0 && (is.rowID != was.rowID || is.lastUpdated != was.lastUpdated) {
			s.failf("row %d had row ID %d and last update %d, now %d and %d", id, was.rowID, was.lastUpdated, is.rowID, is.lastUpdated)
		}
	}
}

// stored is what the rows are after a commit of ours: what was rewritten has lost the columns that were dropped at its time. A value that is still
// there must be the row's.
func (s *Sim) stored(t *lake.Table, v *snapshotView, want rows) rows {
	shown := map[int]bool{}
	for _, f := range t.Metadata.CurrentSchema().Fields() {
		shown[f.ID] = true
	}
	out := make(rows, len(want))
	for id, rec := range want {
		out[id] = rec
		for field, value := range rec {
			got, there := v.rows[id].rec[field]
			switch {
			case shown[field] || there && got == value:
			case there:
				s.failf("row %d has %q in the dropped column %d, want %q", id, got, field, value)
			default:
				out[id] = maps.Clone(out[id])
				delete(out[id], field)
			}
		}
	}
	return out
}

// described spells what no commit of ours changes.
func described(t *lake.Table) string {
	props, err := json.Marshal(t.Metadata.Properties())
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("version %d, schema %d, spec %d, order %d, %s", t.Metadata.Version(), t.Metadata.CurrentSchema().ID,
		t.Metadata.DefaultPartitionSpec(), t.Metadata.DefaultSortOrder(), props)
}

// reach is every location that the current metadata needs.
func (s *Sim) reach() map[string]bool {
	t := s.state()
	if s.reachableOf == t.Pointer.MetadataLocation {
		return s.reachable
	}
	found := map[string]bool{t.Pointer.MetadataLocation: true}
	for entry := range t.Metadata.PreviousFiles() {
		found[entry.MetadataFile] = true
	}
	for _, snap := range t.Metadata.Snapshots() {
		v, err := s.reader.view(t, &snap)
		if err != nil {
			s.failf("snapshot %d: %v", snap.SnapshotID, err)
			continue
		}
		for _, location := range v.files {
			found[location] = true
		}
	}
	s.reachable, s.reachableOf = found, t.Pointer.MetadataLocation
	return found
}

// checkFiles checks that every file that the table needs is there.
func (s *Sim) checkFiles(t *lake.Table) {
	for location := range s.reach() {
		if _, err := s.world.Store.Head(context.Background(), location); err != nil {
			s.failf("%s is needed by the table's metadata %s and missing", short(location), short(t.Pointer.MetadataLocation))
		}
	}
}

// beforeDelete checks a deletion before it happens.
func (s *Sim) beforeDelete(p *process, locations []string) {
	for _, location := range locations {
		s.hit("object deleted")
		if s.reach()[location] {
			s.failf("%s deletes %s, which the table needs", p.name, short(location))
		}
		// Without a grace period files may go at once, also by a clock that is behind the table's.
		if end, ok := s.letGo[location]; ok && p.grace("") > 0 && p.now().Before(end) {
			s.failf("%s deletes %s at %s by its clock, and the grace period ends at %s", p.name, short(location), p.now(), end)
		}
		if _, ok := s.inFlight[location]; ok {
			s.failf("%s deletes %s, which a writer is about to commit", p.name, short(location))
		}
		if !strings.HasPrefix(location, "s3://world/db/t/") && !strings.HasPrefix(location, workLocation) {
			s.failf("%s deletes %s, which is not the table's", p.name, location)
		}
	}
}

// wrote looks at what processes write to the work location.
func (s *Sim) wrote(p *process, location string, data []byte) {
	if strings.Contains(location, "/sweep/reach-") && p.run != nil {
		s.found = p
	}
	if strings.Contains(location, "/fate-") && strings.Contains(string(data), `"abandoned":true`) && !strings.Contains(string(data), `"result":`) {
		s.hit("fate log closed by sweep")
	}
	if strings.Contains(location, "/unsettled/") && strings.Contains(string(data), `"not_before_ms"`) {
		s.hit("files of an expiry wait")
	}
	if fate, isEnd := strings.CutSuffix(location, ".end.json"); isEnd && !s.exists(location) {
		s.checkFateEnd(fate+".json", data)
	}
	if strings.HasSuffix(location, "/earlier.json") {
		s.hit("files of an expiry deleted by a later run")
	}
}

// checkFirst wants no snapshot to land of a batch that has its result: that says how the batch ended, and what it did not commit is being swept.
func (s *Sim) checkFirst(snap *table.Snapshot) {
	id := snap.Summary.Properties[contract.SummaryCommitID]
	part := strings.Split(id, "/") // run, job, batch
	if len(part) != 3 {
		s.failf("snapshot %d carries commit ID %q", snap.SnapshotID, id)
		return
	}
	batch, err := strconv.Atoi(part[2])
	work := handoff.Open(s.world.Store, workLocation, maintenance.RunID(part[0]))
	if result := work.Commit(maintenance.Job(part[1]), batch); err != nil || s.exists(result) {
		s.failf("snapshot %d lands, and batch %s has its result", snap.SnapshotID, id)
	}
}

// checkFateEnd wants no attempt written down as lost whose snapshot is in the table, unless that was sent again and the other attempt is not lost:
// the batch would be reported as not done, and tried again.
func (s *Sim) checkFateEnd(location string, data []byte) {
	ctx, work := context.Background(), handoff.Open(s.world.Store, workLocation, "")
	var end handoff.FateEnd
	if err := json.Unmarshal(data, &end); err != nil || end.Outcome == maintenance.Committed {
		return
	}
	id := s.fate(work, location).SnapshotID
	if id == 0 || s.state().Metadata.SnapshotByID(id) == nil {
		return
	}
	log := location[:strings.LastIndexByte(location, '-')+1]
	for n := 0; s.exists(fmt.Sprintf("%s%04d.json", log, n)); n++ {
		var other handoff.FateEnd
		entry := fmt.Sprintf("%s%04d.json", log, n)
		err := work.Read(ctx, fmt.Sprintf("%s%04d.end.json", log, n), &other)
		open := entry != location && errors.Is(err, store.ErrNotFound) // it is looked for again
		if (open || other.Outcome == maintenance.Committed) && s.fate(work, entry).SnapshotID == id {
			return
		}
	}
	s.failf("%s is written down as %s, and its snapshot %d is in the table", short(location), end.Outcome, id)
}

// fate reads an entry of a fate log.
func (s *Sim) fate(work *handoff.Work, location string) (f handoff.Fate) {
	if err := work.Read(context.Background(), location, &f); err != nil {
		s.failf("read fate: %v", err)
	}
	return f
}

// objects lists what lies under the table's location.
func (s *Sim) objects() []string {
	var found []string
	for info, err := range s.world.Store.List(context.Background(), "s3://world/db/t/", store.ListOptions{}) {
		if err != nil {
			s.failf("list: %v", err)
			return nil
		}
		found = append(found, info.Location)
	}
	return found
}

// dataSpec is the spec that writers write under.
func dataSpec(t *lake.Table) iceberg.PartitionSpec { return t.Metadata.PartitionSpec() }

// keeping is the world's store with a memory for what was decoded from small objects: metadata files, lists and manifests never change under their
// names, and decoding them again and again for every process would take most of a seed's time. The bytes are asked for each time: faults of the store
// strike all the same.
type keeping struct {
	store.Full
	// known are the table metadata that the world knows.
	known func(location string) (table.Metadata, bool)

	mu   sync.Mutex
	held map[[2]string]any
}

var (
	_ peek.Keeper = (*keeping)(nil)
	_ peek.Keeper = storePort{}
)

// Kept implements peek.Keeper.
func (k *keeping) Kept(location, form string, _ int, decode func() (any, error)) (any, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := [2]string{location, form}
	if form == "table" || form == "answer" {
		if meta, ok := k.known(location); ok {
			return meta, nil
		}
	}
	if value, known := k.held[at]; known {
		return value, nil
	}
	value, err := decode()
	if err == nil {
		k.held[at] = value
	}
	return value, err
}

// Kept implements peek.Keeper.
func (s storePort) Kept(location, form string, sizeBytes int, decode func() (any, error)) (any, error) {
	return s.inner.(peek.Keeper).Kept(location, form, sizeBytes, decode)
}
