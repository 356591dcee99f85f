package commit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"

	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/maintenance"
)

// manifests are the head's manifests.
func (x *fixture) manifests() []iceberg.ManifestFile {
	x.t.Helper()
	m, err := lake.Manifests(context.Background(), x.world.Store, x.head())
	x.check(err)
	return m
}

// checkManifests wants of every manifest of the head what other engines trust: content and counts as in the file, the minimum sequence number
// of its live entries, at least one entry, row IDs that do not overlap.
func (x *fixture) checkManifests() {
	x.t.Helper()
	ctx, next := context.Background(), map[int64]string{}
	for _, m := range x.manifests() {
		data, err := x.world.Store.Get(ctx, m.FilePath())
		x.check(err)
		r, err := iceberg.NewManifestReader(m, bytes.NewReader(data))
		x.check(err)
		if r.ManifestContent() != m.ManifestContent() || m.Length() != int64(len(data)) {
			x.t.Errorf("manifest %s: content %v and %d bytes in the list, %v and %d in the file", m.FilePath(), m.ManifestContent(), m.Length(),
				r.ManifestContent(), len(data))
		}
		var live, all int
		least := int64(-1)
		for e, err := range lake.Entries(ctx, x.world.Store, m, lake.EntryOptions{IncludeDeleted: true}) {
			x.check(err)
			all++
			if (e.File.ContentType() == iceberg.EntryContentData) != (m.ManifestContent() == iceberg.ManifestContentData) {
				x.t.Errorf("manifest %s holds %s", m.FilePath(), e)
			}
			if e.Status == iceberg.EntryStatusDELETED {
				continue
			}
			live++
			if least < 0 || e.DataSequence < least {
				least = e.DataSequence
			}
			if e.FirstRowID != nil {
				for id := *e.FirstRowID; id < *e.FirstRowID+e.File.Count(); id++ {
					if other, taken := next[id]; taken {
						x.t.Errorf("row ID %d is in %s and %s", id, other, e)
					}
					next[id] = e.String()
				}
			}
		}
		if all == 0 {
			x.t.Errorf("manifest %s is empty", m.FilePath())
		}
		if int(m.AddedDataFiles()+m.ExistingDataFiles()) != live {
			x.t.Errorf("manifest %s counts %d live entries, holds %d", m.FilePath(), m.AddedDataFiles()+m.ExistingDataFiles(), live)
		}
		if live > 0 && m.MinSequenceNum() != least {
			x.t.Errorf("manifest %s has minimum sequence number %d, its live entries %d", m.FilePath(), m.MinSequenceNum(), least)
		}
	}
}

// recount compares the head's totals with what is live.
func (x *fixture) recount() {
	x.t.Helper()
	want := map[string]int64{}
	data, deletes := x.live()
	for _, e := range data {
		want["total-data-files"]++
		want["total-records"] += e.File.Count()
		want["total-files-size"] += e.File.FileSizeBytes()
	}
	for _, e := range deletes {
		want["total-delete-files"]++
		size := e.File.FileSizeBytes()
		if lake.IsDeletionVector(e.File) {
			size = *e.File.ContentSizeInBytes()
		}
		want["total-files-size"] += size
		if e.File.ContentType() == iceberg.EntryContentEqDeletes {
			want["total-equality-deletes"] += e.File.Count()
		} else {
			want["total-position-deletes"] += e.File.Count()
		}
	}
	for key, n := range want {
		if key == "total-files-size" && x.table.State().Metadata.Version() == 3 {
			continue // the world's writer counts a Puffin file for each of its vectors
		}
		if got := x.head().Summary.Properties[key]; got != fmt.Sprint(n) {
			x.t.Errorf("%s is %s: want %d", key, got, n)
		}
	}
}

// A file of a table that was born in version 1 has sequence number 0, and that is a number: the minimum stays 0, and an equality delete applies.
func TestSequenceZero(t *testing.T) {
	t.Parallel()
	x := newFixture(t, icebergtest.Version(1))
	paths := x.small(3)
	x.table.Upgrade(2)
	x.pin(false, paths[:2])
	x.compact()
	x.mustCommit(x.rows())
	x.checkManifests()
	x.table.Commit(icebergtest.DeleteEqual([]string{"id"}, icebergtest.Row{int64(1)}, icebergtest.Row{int64(7)}))
	if got := len(x.rows()); got != 7 {
		t.Errorf("%d rows: want 7, an old file's and the output's row deleted", got)
	}
	data, _ := x.live()
	for _, e := range data {
		if e.DataSequence != 0 {
			t.Errorf("%s has data sequence number %d: want 0", e, e.DataSequence)
		}
	}
	x.checkManifests()
}

// Entries that are carried over into a new manifest keep their numbers, so that older deletes still apply to them.
func TestKeptEntriesKeepTheirNumbers(t *testing.T) {
	t.Parallel()
	for _, version := range []int{2, 3} {
		x := newFixture(t, icebergtest.Version(version), icebergtest.Partitioned("g"))
		first := x.table.Commit(icebergtest.Append(row(1, "a"), row(2, "a"), row(3, "b"), row(4, "b")))
		x.table.Commit(icebergtest.Append(row(5, "a")))
		x.table.Commit(icebergtest.DeleteEqual([]string{"id", "g"}, icebergtest.Row{int64(3), "b"}))
		data, _ := x.live()
		before := map[string]lake.Entry{}
		for _, e := range data {
			before[e.File.FilePath()] = e
		}
		x.pin(false, []string{first.DataFiles[0]})
		x.compact()
		x.mustCommit(x.rows())
		x.checkManifests()
		kept := 0
		data, _ = x.live()
		for _, e := range data {
			old, ok := before[e.File.FilePath()]
			if !ok {
				continue
			}
			kept++
			if e.DataSequence != old.DataSequence || e.FileSequence != old.FileSequence || e.SnapshotID != old.SnapshotID || !sameID(e.FirstRowID, old.FirstRowID) {
				t.Errorf("v%d: kept entry changed from %+v to %+v", version, old, e)
			}
			if e.Manifest != old.Manifest && e.Status != iceberg.EntryStatusEXISTING {
				t.Errorf("v%d: carried-over entry %s has status %v", version, e, e.Status)
			}
		}
		if kept != 2 {
			t.Errorf("v%d: %d entries were kept: want 2", version, kept)
		}
	}
}

// One Puffin file holds vectors of two data files; only the rewritten one's entry goes.
func TestVectorsGoByOffset(t *testing.T) {
	t.Parallel()
	x := newFixture(t, icebergtest.Version(3))
	paths := x.small(2)
	x.table.Commit(icebergtest.DeleteVectors(map[string][]int64{paths[0]: {0}, paths[1]: {1, 2}}))
	_, before := x.live()
	x.pin(false, paths[:1])
	x.compact()
	x.mustCommit(x.rows())
	x.checkManifests()
	x.recount()
	_, after := x.live()
	if len(before) != 2 || len(after) != 1 || *after[0].File.ReferencedDataFile() != paths[1] {
		t.Fatalf("vectors %v became %v: want the second file's", before, after)
	}
	for _, b := range before {
		if *b.File.ReferencedDataFile() == paths[1] && (*b.File.ContentOffset() != *after[0].File.ContentOffset() || b.File.FilePath() != after[0].File.FilePath()) {
			t.Errorf("the other file's vector changed from %v to %v", b, after[0])
		}
	}
	s := x.head().Summary.Properties
	if s["removed-dvs"] != "1" || s["removed-position-deletes"] != "1" || s["removed-position-delete-files"] != "" {
		t.Errorf("summary %v", s)
	}
}

// A position delete file that spans several data files stays while one of them is live, and goes with the last.
func TestSpanningPositionDelete(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	paths := x.small(3)
	x.table.Commit(icebergtest.DeletePositionsTogether(icebergtest.Position{Path: paths[0], Pos: 0}, icebergtest.Position{Path: paths[1], Pos: 0},
		icebergtest.Position{Path: paths[2], Pos: 0}))
	x.pin(false, paths[:2])
	x.compact()
	x.mustCommit(x.rows())
	if _, deletes := x.live(); len(deletes) != 1 {
		t.Fatalf("%d delete files are live: want the one that the third file needs", len(deletes))
	}
	y := &fixture{t: t, world: x.world, table: x.table}
	y.pin(false, paths[2:])
	y.compact()
	y.mustCommit(y.rows())
	if _, deletes := y.live(); len(deletes) != 0 {
		t.Errorf("%d delete files are live: want none", len(deletes))
	}
}

// A delete file that cannot be read stays.
func TestUnreadablePositionDeleteStays(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	paths := x.small(3)
	d := x.table.Commit(icebergtest.DeletePositionsTogether(icebergtest.Position{Path: paths[0], Pos: 0}, icebergtest.Position{Path: paths[1], Pos: 0}))
	x.pin(false, paths[:2])
	x.compact()
	before := x.rows()
	x.overwrite(d.DeleteFiles[0], func(b []byte) []byte { clear(b); return b })
	out, err := x.commit()
	if err != nil || out.Outcome != maintenance.Committed {
		t.Fatalf("%+v, %v: want committed", out, err)
	}
	_, deletes := x.live()
	if len(deletes) != 1 || len(before) == 0 {
		t.Errorf("%d delete files are live: want the unreadable one", len(deletes))
	}
}

// A delete whose partition differs from its target's is a table fault: the group is refused.
func TestDeleteInAnotherPartition(t *testing.T) {
	t.Parallel()
	x := newFixture(t, icebergtest.Partitioned("g"))
	first := x.table.Commit(icebergtest.Append(row(1, "a"), row(2, "b")))
	x.pin(false, first.DataFiles[:1])
	x.compact()
	d := x.table.Commit(icebergtest.DeletePositions(first.DataFiles[0], 0))
	_, deletes := x.live()
	data, _ := x.live()
	other := data[0].File.Partition()
	if data[0].File.FilePath() == first.DataFiles[0] {
		other = data[1].File.Partition()
	}
	wrong, err := iceberg.NewDataFileBuilder(x.table.State().Metadata.PartitionSpec(), iceberg.EntryContentPosDeletes, d.DeleteFiles[0]+".2",
		iceberg.ParquetFile, other, nil, nil, 1, 10)
	x.check(err)
	x.table.Commit(icebergtest.Remove(deletes[0].File.FilePath()), icebergtest.AddFile(wrong.
		LowerBoundValues(deletes[0].File.LowerBoundValues()).UpperBoundValues(deletes[0].File.UpperBoundValues()).Build(), nil))
	out, err := x.commit()
	if err != nil || out.Outcome != maintenance.Refused || !strings.Contains(out.Reason, "partition") {
		t.Errorf("%+v, %v: want refused", out, err)
	}
}

// Equality deletes go when no live data file in their scope is older, and stay otherwise.
func TestEqualityDeletesGo(t *testing.T) {
	t.Parallel()
	x := newFixture(t, icebergtest.Partitioned("g"))
	a := x.table.Commit(icebergtest.Append(row(1, "a"), row(2, "b")))
	x.table.Commit(icebergtest.DeleteEqual([]string{"id", "g"}, icebergtest.Row{int64(1), "a"}, icebergtest.Row{int64(2), "b"}))
	x.table.Commit(icebergtest.Append(row(3, "a"), row(4, "b")))
	pathOfA := a.DataFiles[0]
	x.pin(false, []string{pathOfA})
	x.compact()
	r := x.mustCommit(x.rows())
	if x.eqCount() != 1 || r.Columns["removed_delete_files_count"] != 1 || r.Columns["added_data_files_count"] != 0 {
		t.Errorf("%d equality deletes are live, columns %v: want partition b's alone", x.eqCount(), r.Columns)
	}
	x.checkManifests()
	x.recount()
}

// A global equality delete applies to every spec: it stays while any older file is live, whatever its partition.
func TestGlobalEqualityDelete(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	old := x.table.Commit(icebergtest.Append(row(1, "a"), row(2, "b")))
	x.table.Repartition("g")
	fresh := x.table.Commit(icebergtest.Append(row(1, "a")))
	x.table.Commit(icebergtest.DeleteEqualGlobally([]string{"id"}, icebergtest.Row{int64(1)}))
	x.table.Commit(icebergtest.Append(row(9, "c")))
	x.pin(false, fresh.DataFiles)
	x.compact()
	x.mustCommit(x.rows())
	if x.eqCount() != 1 {
		t.Fatalf("%d equality deletes are live: want the one that %s needs", x.eqCount(), old.DataFiles[0])
	}
	y := &fixture{t: t, world: x.world, table: x.table}
	y.pin(false, old.DataFiles)
	for i := range y.groups { // keep the old spec: a file of two partitions has no place in the new one
		y.groups[i].OutputSpecID = y.groups[i].SpecID
		data := y.json(&y.groups[i])
		y.check(y.world.Store.Put(context.Background(), y.index.Groups[i], data, writeOver))
	}
	y.compact()
	y.mustCommit(y.rows())
	if y.eqCount() != 0 {
		t.Errorf("%d equality deletes are live: want none", y.eqCount())
	}
}

// A global equality delete whose own spec has no data files applies to those of the other specs all the same.
func TestGlobalEqualityDeleteOfAnotherSpec(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	x.table.Repartition("g")
	first := x.table.Commit(icebergtest.Append(row(1, "a"), row(2, "a"), row(1, "b")))
	x.table.Commit(icebergtest.DeleteEqualGlobally([]string{"id"}, icebergtest.Row{int64(1)}))
	x.table.Commit(icebergtest.Append(row(9, "c")))
	x.pin(false, first.DataFiles[:1])
	x.compact()
	x.mustCommit(x.rows())
	if x.eqCount() != 1 {
		t.Errorf("%d equality deletes are live: want the one that partition b needs", x.eqCount())
	}
}

// Outputs in another spec than their sources: an equality delete that is scoped to the sources' partition arrives.
func TestEqualityDeleteAfterRepartition(t *testing.T) {
	t.Parallel()
	x := newFixture(t, icebergtest.Partitioned("g"))
	first := x.table.Commit(icebergtest.Append(row(1, "a"), row(2, "a")))
	x.table.Repartition("bucket(1, id)")
	x.pin(false, first.DataFiles)
	x.compactGroupInto(0, map[int]any{1000: nil, x.bucketField(): int32(0)})
	x.table.Repartition("g")
	x.table.Commit(icebergtest.DeleteEqual([]string{"id", "g"}, icebergtest.Row{int64(1), "a"}))
	x.want(maintenance.Conflict, "not in the partition of its sources")
}

func (x *fixture) bucketField() int {
	spec := x.table.State().Metadata.PartitionSpec()
	return spec.Field(spec.NumFields() - 1).FieldID
}

// Row lineage: added rows get the IDs that the list writer assigned, kept ones keep theirs, and the table's next row ID moves by exactly that.
func TestRowLineageNumbers(t *testing.T) {
	t.Parallel()
	x := newFixture(t, icebergtest.Version(3))
	paths := x.small(4)
	x.table.Commit(icebergtest.DeleteVector(paths[3], 0))
	next := x.table.State().Metadata.NextRowID()
	x.pin(false, paths[:2])
	x.compact()
	x.mustCommit(x.rows())
	x.checkManifests()
	head := x.head()
	if head.FirstRowID == nil || *head.FirstRowID != next || head.AddedRows == nil || *head.AddedRows != 6 {
		t.Errorf("first row ID %v, added rows %v: want %d and 6", head.FirstRowID, head.AddedRows, next)
	}
	if got := x.table.State().Metadata.NextRowID(); got != next+6 {
		t.Errorf("next row ID %d: want %d", got, next+6)
	}
	data, _ := x.live()
	for _, e := range data {
		if e.FirstRowID == nil {
			t.Errorf("%s has no first row ID", e)
		}
	}
}

// A table that was upgraded to version 3 has files without row IDs; they get them with the first commit, and nothing overlaps.
func TestRowLineageAfterUpgrade(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	paths := x.small(4)
	x.table.Upgrade(3)
	x.pin(false, paths[:2])
	x.compact()
	x.mustCommit(x.rows())
	x.checkManifests()
	if got, want := x.table.State().Metadata.NextRowID(), *x.head().FirstRowID+*x.head().AddedRows; got != want || got != 12 {
		t.Errorf("next row ID %d: want %d, 12", got, want)
	}
}

// A moved sequence number means a new manifest list.
func TestNumbersOfTheNewHead(t *testing.T) {
	t.Parallel()
	for _, version := range []int{2, 3} {
		x := newFixture(t, icebergtest.Version(version))
		paths := x.small(3)
		x.pin(false, paths)
		x.compact()
		x.table.Commit(icebergtest.Append(row(100, "a")))
		x.table.Commit(icebergtest.Append(row(101, "a")))
		x.want(maintenance.Committed, "")
		x.checkManifests()
		if x.head().SequenceNumber != 6 {
			t.Errorf("sequence number %d: want 6", x.head().SequenceNumber)
		}
	}
}

// Manifests are cut at the target size, hold one spec each, and lie where the table wants its metadata.
func TestManifestsAreCut(t *testing.T) {
	t.Parallel()
	x := newFixture(t, icebergtest.Partitioned("g"), icebergtest.Property("commit.manifest.target-size-bytes", "20000"),
		icebergtest.Property("write.metadata.path", "s3://world/elsewhere/"))
	var rows []icebergtest.Row
	for i := range int64(250) {
		rows = append(rows, row(i, fmt.Sprintf("%x%x", sha256.Sum256([]byte{byte(i)}), sha256.Sum256([]byte{byte(i), 1}))))
	}
	first := x.table.Commit(icebergtest.Append(rows...))
	x.pin(false, first.DataFiles[:1])
	x.compact()
	x.mustCommit(x.rows())
	x.checkManifests()
	if n := len(x.manifests()); n < 2 {
		t.Errorf("%d manifests: want several", n)
	}
	for _, m := range x.manifests() {
		if !strings.HasPrefix(m.FilePath(), "s3://world/elsewhere/") || strings.Contains(m.FilePath(), "//data") {
			t.Errorf("manifest lies at %s", m.FilePath())
		}
		if m.Length() > 90_000 {
			t.Errorf("manifest %s has %d bytes", m.FilePath(), m.Length())
		}
	}
}

// The partition summaries cover all entries of a manifest, NaN and null told.
func TestPartitionSummaries(t *testing.T) {
	t.Parallel()
	x := newFixture(t, icebergtest.Columns("id long", "d double"), icebergtest.Partitioned("d"))
	nan := 0.0
	nan /= nan
	first := x.table.Commit(icebergtest.Append(icebergtest.Row{1, 1.5}, icebergtest.Row{2, nan}, icebergtest.Row{3, nil}, icebergtest.Row{4, 7.5}))
	x.pin(false, first.DataFiles[:1])
	x.compact()
	x.mustCommit(x.rows())
	x.checkManifests()
	for _, m := range x.manifests() {
		p := m.Partitions()[0]
		if !p.ContainsNull || p.ContainsNaN == nil || !*p.ContainsNaN || p.LowerBound == nil || p.UpperBound == nil {
			t.Errorf("summary %+v", p)
		}
	}
}

// A parent without totals gets none: unknown is not 0.
func TestUnknownTotalsStayAbsent(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	paths := x.small(3)
	x.table.Commit(icebergtest.Append(row(100, "a")), icebergtest.Summary("total-records", ""))
	x.pin(false, paths)
	x.compact()
	x.mustCommit(x.rows())
	s := x.head().Summary.Properties
	if v, ok := s["total-records"]; ok {
		t.Errorf("total-records is %q: want none", v)
	}
	if s["total-data-files"] != "2" {
		t.Errorf("total-data-files is %q: want 2", s["total-data-files"])
	}
}
