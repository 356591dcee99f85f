package simulation

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/maintenance"
)

// action is one thing that the world may do.
type action struct {
	name   string
	weight int
	do     func(*Sim)
}

func actions() []action {
	return []action{
		{"append", 24, (*Sim).appendRows},
		{"delete rows", 18, (*Sim).deleteRows},
		{"upsert", 12, (*Sim).upsert},
		{"overwrite", 6, (*Sim).overwrite},
		{"another maintainer", 4, (*Sim).otherMaintainer},
		{"schema change", 8, (*Sim).evolve},
		{"append to a branch", 3, (*Sim).branchOff},
		{"publish a branch", 4, (*Sim).publish},
		{"remove a file and add it again", 4, (*Sim).readd},
		{"rollback", 4, (*Sim).rollback},
		{"roll forward", 4, (*Sim).forward},
		{"tag", 3, (*Sim).tag},
		{"property change", 2, (*Sim).property},
		{"repartition", 2, (*Sim).repartition},
		{"upgrade", 3, (*Sim).upgrade},
		{"write without commit", 4, (*Sim).writeAhead},
		{"start a run", 40, (*Sim).startRun},
		{"deliver events", 16, (*Sim).deliver},
		{"kill a run", 5, (*Sim).killLaptop},
		{"let time pass", 6, (*Sim).jump},
	}
}

// act lets the world do one thing.
func (s *Sim) act() {
	list, total := actions(), 0
	for _, a := range list {
		total += a.weight
	}
	at := s.rng.IntN(total)
	for _, a := range list {
		if at -= a.weight; at < 0 {
			s.note("%s", a.name)
			a.do(s)
			return
		}
	}
}

// prepare gives the table its first files.
func (s *Sim) prepare() {
	s.reader = newReader(s)
	s.envLeft = s.prof.actions
	for range 2 + s.rng.IntN(3) {
		s.appendRows()
	}
	if s.rng.IntN(2) == 0 {
		s.deleteRows()
	}
}

// head is the table's current state with its rows.
func (s *Sim) head() (*lake.Table, *snapshotView, rows) {
	t := s.state()
	snap := t.Metadata.CurrentSnapshot()
	v, err := s.reader.view(t, snap)
	if err != nil {
		panic(worldFault(err.Error()))
	}
	if snap == nil {
		return t, v, rows{}
	}
	return t, v, maps.Clone(s.expected[snap.SnapshotID])
}

func group(id int64) string { return string(rune('a' + id%3)) }

// row makes a row of the current schema, for writing and for the model.
func (s *Sim) row(t *lake.Table, id int64) (icebergtest.Row, record) {
	row, texts := icebergtest.Row{}, record{}
	for i, f := range t.Metadata.CurrentSchema().Fields() {
		switch {
		case i == 0:
			row = append(row, id)
			texts[f.ID] = strconv.FormatInt(id, 10)
		case i == 1:
			row = append(row, group(id))
			texts[f.ID] = group(id)
		case s.rng.IntN(6) == 0:
			row = append(row, nil)
		default:
			n := int64(s.rng.IntN(1000))
			row = append(row, n)
			texts[f.ID] = strconv.FormatInt(n, 10)
		}
	}
	return row, texts
}

// newRows makes a few new rows and puts them into the model.
func (s *Sim) newRows(t *lake.Table, want rows) []icebergtest.Row {
	var out []icebergtest.Row
	for range 1 + s.rng.IntN(5) {
		row, rec := s.row(t, s.nextID)
		want[s.nextID] = rec
		out = append(out, row)
		s.nextID++
	}
	return out
}

func (s *Sim) appendRows() {
	t, _, want := s.head()
	s.table.Commit(icebergtest.Append(s.newRows(t, want)...))
	s.expect(want)
}

// pick chooses a live data file that has live rows; their IDs come with it in order.
func (s *Sim) pick(v *snapshotView) (lake.Entry, []int64) {
	byPath := map[string][]int64{}
	for id, at := range v.rows {
		byPath[at.path] = append(byPath[at.path], id)
	}
	if len(byPath) == 0 {
		return lake.Entry{}, nil
	}
	paths := sortedKeys(byPath)
	path := paths[s.rng.IntN(len(paths))]
	slices.Sort(byPath[path])
	for _, e := range v.data {
		if e.File.FilePath() == path {
			return e, byPath[path]
		}
	}
	panic(worldFault("a row lies in no file"))
}

// deleteRows is a merge-on-read delete: by vector in version 3, by position else, scoped to a file or to a partition.
func (s *Sim) deleteRows() {
	t, v, want := s.head()
	e, ids := s.pick(v)
	if len(ids) == 0 {
		return
	}
	ids = ids[:1+s.rng.IntN(len(ids))]
	path, positions := e.File.FilePath(), []int64{}
	for _, id := range ids {
		positions = append(positions, v.rows[id].pos)
		delete(want, id)
	}
	if t.Metadata.Version() > 2 {
		// A vector takes the place of all position deletes of its file.
		positions = append(positions, v.masked[path]...)
		slices.Sort(positions)
		s.table.Commit(icebergtest.DeleteVector(path, slices.Compact(positions)...))
		s.expect(want)
		return
	}
	if s.rng.IntN(2) == 0 {
		slices.Sort(positions)
		s.table.Commit(icebergtest.DeletePositions(path, positions...))
		s.expect(want)
		return
	}
	var together []icebergtest.Position
	for _, id := range slices.Sorted(maps.Keys(v.rows)) {
		at := v.rows[id]
		other := slices.IndexFunc(v.data, func(o lake.Entry) bool { return o.File.FilePath() == at.path })
		home := v.data[other].SpecID == e.SpecID && maps.Equal(v.data[other].File.Partition(), e.File.Partition())
		if slices.Contains(ids, id) || home && s.rng.IntN(5) == 0 {
			together = append(together, icebergtest.Position{Path: at.path, Pos: at.pos})
			delete(want, id)
		}
	}
	slices.SortFunc(together, func(a, b icebergtest.Position) int {
		if a.Path != b.Path {
			if a.Path < b.Path {
				return -1
			}
			return 1
		}
		return int(a.Pos - b.Pos)
	})
	s.table.Commit(icebergtest.DeletePositionsTogether(together...))
	s.expect(want)
}

// upsert deletes rows by equality and writes them anew, as a streaming writer does.
func (s *Sim) upsert() {
	t, v, want := s.head()
	spec := dataSpec(t)
	if !spec.IsUnpartitioned() && slices.ContainsFunc(v.data, func(e lake.Entry) bool { return e.SpecID != spec.ID() }) {
		return // a delete of the current spec would not apply to files of another
	}
	ids := slices.Sorted(maps.Keys(want))
	var deletes, fresh []icebergtest.Row
	columns := []string{"id"}
	if !spec.IsUnpartitioned() {
		columns = append(columns, "g")
	}
	for _, id := range ids {
		if s.rng.IntN(len(ids)) > 2 {
			continue
		}
		deletes = append(deletes, append(icebergtest.Row{}, icebergtest.Row{id, group(id)}[:len(columns)]...))
		delete(want, id)
		if s.rng.IntN(4) > 0 {
			row, rec := s.row(t, id)
			fresh, want[id] = append(fresh, row), rec
		}
	}
	if len(deletes) == 0 {
		return
	}
	changes := []icebergtest.Change{icebergtest.DeleteEqual(columns, deletes...)}
	if len(fresh) > 0 {
		changes = append(changes, icebergtest.Append(fresh...))
	}
	s.table.Commit(changes...)
	s.expect(want)
}

// overwrite replaces a data file by its rows with new values, or by nothing.
func (s *Sim) overwrite() {
	t, v, want := s.head()
	e, ids := s.pick(v)
	if len(ids) == 0 {
		return
	}
	changes := []icebergtest.Change{icebergtest.Remove(withVectors(v, e)...)}
	var fresh []icebergtest.Row
	for _, id := range ids {
		delete(want, id)
		if s.rng.IntN(3) > 0 {
			row, rec := s.row(t, id)
			fresh, want[id] = append(fresh, row), rec
		}
	}
	if len(fresh) > 0 {
		changes = append(changes, icebergtest.Append(fresh...))
	}
	s.table.Commit(changes...)
	s.expect(want)
}

// withVectors lists a data file and its deletion vector, where the vector is alone in its Puffin file.
func withVectors(v *snapshotView, e lake.Entry) []string {
	out := []string{e.File.FilePath()}
	for _, d := range v.deletes {
		if !lake.IsDeletionVector(d.File) || *d.File.ReferencedDataFile() != e.File.FilePath() {
			continue
		}
		shared := slices.ContainsFunc(v.deletes, func(o lake.Entry) bool {
			return o.File.FilePath() == d.File.FilePath() && *o.File.ReferencedDataFile() != e.File.FilePath()
		})
		if !shared {
			out = append(out, d.File.FilePath())
		}
	}
	return out
}

// otherMaintainer compacts a few files in another way than we would: with a new sequence number.
func (s *Sim) otherMaintainer() {
	_, v, want := s.head()
	first, _ := s.pick(v)
	if first.File == nil {
		return
	}
	var gone []string
	var again []icebergtest.Row
	columns := s.state().Metadata.CurrentSchema().Fields()
	for _, e := range v.data {
		if e.SpecID != first.SpecID || !maps.Equal(e.File.Partition(), first.File.Partition()) || len(gone) > 4 {
			continue
		}
		gone = append(gone, withVectors(v, e)...)
		recs, err := s.reader.file(e.File.FilePath())
		if err != nil {
			panic(worldFault(err.Error()))
		}
		for _, id := range slices.Sorted(maps.Keys(v.rows)) {
			if at := v.rows[id]; at.path == e.File.FilePath() {
				again = append(again, asRow(columns, recs[at.pos]))
				want[id] = visible(columns, recs[at.pos])
			}
		}
	}
	s.table.Commit(icebergtest.Remove(gone...), icebergtest.Append(again...), icebergtest.Operation(table.OpReplace))
	s.expect(want)
}

func asRow(columns []iceberg.NestedField, rec record) icebergtest.Row {
	row := icebergtest.Row{}
	for i, f := range columns {
		text, ok := rec[f.ID]
		switch {
		case !ok:
			row = append(row, nil)
		case i == 1:
			row = append(row, text)
		default:
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				panic(worldFault(err.Error()))
			}
			row = append(row, n)
		}
	}
	return row
}

// startRun starts a run of some of the jobs.
func (s *Sim) startRun() {
	number := 0
	if s.prof.twoStates {
		number = s.rng.IntN(2)
	}
	if s.busy(number) && s.rng.IntN(4) > 0 && !s.prof.skewed {
		s.deleteRows() // the run that is under way meets a commit instead
		return
	}
	var request maintenance.Request
	request.Trigger = "call"
	if s.rng.IntN(3) > 0 {
		request.Jobs = append(request.Jobs, s.rewriteRequest())
	}
	if s.rng.IntN(3) == 0 {
		request.Jobs = append(request.Jobs, s.partial(maintenance.RewritePositionDeleteFiles, map[string]string{"rewrite-all": "true"}))
	}
	if s.rng.IntN(4) == 0 {
		request.Jobs = append(request.Jobs, maintenance.JobRequest{Job: maintenance.RewriteEqualityDeleteFiles})
	}
	if s.rng.IntN(3) == 0 {
		request.Jobs = append(request.Jobs, maintenance.JobRequest{Job: maintenance.RewriteManifests})
	}
	if s.rng.IntN(3) == 0 {
		request.Jobs = append(request.Jobs, maintenance.JobRequest{Job: maintenance.ExpireSnapshots, Args: map[string]string{
			"older_than": s.world.Clock.Now().Format(time.DateTime), "retain_last": strconv.Itoa(1 + s.rng.IntN(4)),
		}})
	}
	if s.rng.IntN(3) == 0 {
		sweep := maintenance.JobRequest{Job: maintenance.RemoveOrphanFiles}
		if s.rng.IntN(2) == 0 {
			// The least age that is allowed: what zombies wrote must stay all the same.
			sweep.Args = map[string]string{"older_than": s.world.Clock.Now().Add(-25 * time.Hour).Format(time.DateTime)}
		}
		request.Jobs = append(request.Jobs, sweep)
	}
	if len(request.Jobs) > 0 {
		s.call(request, number)
	}
}

func (s *Sim) rewriteRequest() maintenance.JobRequest {
	options := map[string]string{"rewrite-all": "true"}
	if s.rng.IntN(3) == 0 {
		options = map[string]string{"min-input-files": "2", "delete-file-threshold": "1"}
	}
	if s.rng.IntN(2) == 0 {
		options["max-file-group-size-bytes"] = strconv.Itoa(1000 + s.rng.IntN(4000))
	}
	request := s.partial(maintenance.RewriteDataFiles, options)
	switch s.rng.IntN(5) {
	case 0:
		request.Args = map[string]string{"strategy": "sort", "sort_order": "id DESC NULLS LAST"}
	case 1:
		request.Args = map[string]string{"strategy": "sort", "sort_order": "zorder(id,g)"}
	}
	return request
}

// partial is the request of a rewrite that may commit in several steps.
func (s *Sim) partial(job maintenance.Job, options map[string]string) maintenance.JobRequest {
	if s.rng.IntN(2) == 0 {
		options["partial-progress.enabled"] = "true"
		options["partial-progress.max-commits"] = strconv.Itoa(1 + s.rng.IntN(3))
	}
	return maintenance.JobRequest{Job: job, Options: options}
}

// oldest is how long a process may live: half a day less than the horizon of orphans.
const oldest = 60 * time.Hour

// jump lets minutes, a day or half a week pass. No process outlives the horizon of orphans: machines of that age are gone.
func (s *Sim) jump() {
	s.letPass([]time.Duration{20 * time.Minute, 3 * time.Hour, 26 * time.Hour, 30 * time.Hour, 4 * 24 * time.Hour}[s.rng.IntN(5)])
}

func (s *Sim) letPass(d time.Duration) {
	at := s.world.Clock.Now().Add(d)
	for _, p := range s.procs {
		if !p.dead && at.Sub(p.begun) > oldest {
			s.kill(p)
		}
	}
	for _, location := range sortedKeys(s.inFlight) {
		if at.Sub(s.inFlight[location]) > 23*time.Hour {
			// The writer gave up. What it wrote is an orphan now.
			delete(s.inFlight, location)
		}
	}
	s.note("%s pass", d)
	s.pass(d)
}
