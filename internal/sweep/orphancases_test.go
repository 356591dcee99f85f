package sweep_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"firn/internal/icebergtest"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// simple is a table with three commits.
func simple(t testing.TB, opts ...icebergtest.TableOption) (*room, *icebergtest.Table) {
	t.Helper()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", opts...)
	for i := range 3 {
		tbl.Commit(icebergtest.Append(icebergtest.Row{i, "a", 1.5}))
	}
	return newRoom(t, w, tbl.ID), tbl
}

// gone checks which objects are missing, and that the table is whole.
func (r *room) gone(before []string, want ...string) {
	r.t.Helper()
	equal(r.t, "objects removed", r.missing(before), want)
	r.check()
}

// A01: spellings of one scheme are one scheme; another scheme stops the job and is named.
func TestA01SchemeSpelling(t *testing.T) {
	t.Parallel()
	r, tbl := simple(t)
	for i, scheme := range []string{"s3a", "s3a", "s3n", "S3"} {
		tbl.Commit(icebergtest.AddFile(r.dataFile(fmt.Sprintf("s3://world/db/t/data/imported-%d.parquet", i), scheme), nil))
	}
	r.age("s3://world/db/t/data/imported-0.parquet", 10)
	r.put("s3://world/db/t/data/orphan.parquet", 10)
	r.put("s3://world/db/t/metadata/orphan-m0.avro", 10)
	before := r.objects("")
	s := r.orphans(nil)
	equal(t, "orphans removed", r.missing(before), []string{"s3://world/db/t/data/orphan.parquet", "s3://world/db/t/metadata/orphan-m0.avro"})
	if s.Deleted != 2 {
		t.Errorf("summary %+v", s)
	}

	r.put("s3://world/db/t/data/elsewhere.parquet", 10)
	tbl.Commit(icebergtest.AddFile(r.namedFile("gs://world/db/t/data/elsewhere.parquet"), nil))
	before = r.objects("")
	for mode, want := range map[string]maintenance.Outcome{"": maintenance.Refused, "IGNORE": maintenance.NothingToDo} {
		r.newRun()
		s = r.orphans(map[string]string{"prefix_mismatch_mode": mode})
		if s.Outcome != want {
			t.Errorf("mode %q: outcome %s (%s), want %s", mode, s.Outcome, s.Reason, want)
		}
		if mode == "" && !strings.Contains(s.Reason, "s3://world/db/t/data/elsewhere.parquet against gs://world/db/t/data/elsewhere.parquet") {
			t.Errorf("reason %q does not name the pair", s.Reason)
		}
	}
	r.newRun()
	if s = r.orphans(map[string]string{"equal_schemes": `{"gs, oss":"s3"}`}); s.Outcome != maintenance.NothingToDo {
		t.Errorf("equal_schemes: outcome %s (%s)", s.Outcome, s.Reason)
	}
	equal(t, "objects removed", r.missing(before), nil)
}

// dataFile writes a copy of a data file of the table and describes it under another scheme.
func (r *room) dataFile(location, scheme string) iceberg.DataFile {
	r.t.Helper()
	ctx := context.Background()
	var source string
	for info, err := range r.world.Store.List(ctx, "s3://world/db/t/data/", store.ListOptions{}) {
		r.must(err)
		source = info.Location
		break
	}
	data, err := r.world.Store.Get(ctx, source)
	r.must(err)
	r.must(r.world.Store.Put(ctx, location, data, store.WriteOptions{}))
	return r.namedFile(strings.Replace(location, "s3:", scheme+":", 1))
}

// namedFile describes a data file that need not exist.
func (r *room) namedFile(location string) iceberg.DataFile {
	r.t.Helper()
	b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentData, location, iceberg.ParquetFile, nil, nil, nil, 1, 6)
	r.must(err)
	return b.Build()
}

// A02: a sibling whose name extends the table's is not under the table, neither when listed nor when a listing is handed in.
func TestA02SiblingPrefix(t *testing.T) {
	t.Parallel()
	r, _ := simple(t)
	for _, sibling := range []string{"s3://world/db/t_2/data/a.parquet", "s3://world/db/t-backup/a", "s3://world/db/t2"} {
		r.put(sibling, 10)
	}
	r.put("s3://world/db/t/data/orphan.parquet", 10)
	before := r.objects("")
	r.orphans(nil)
	r.gone(before, "s3://world/db/t/data/orphan.parquet")

	r.newRun()
	r.planListing(nil, false, maintenance.SweepItem{Prefix: "s3://world/db/t"})
	if s, err := r.sweepOrphans(); err != nil || s.Outcome != maintenance.Refused || !strings.Contains(s.Reason, `"s3://world/db/t"`) {
		t.Errorf("a prefix without slash: %+v, %v", s, err)
	}
	r.newRun()
	r.planListing(nil, false, maintenance.SweepItem{Prefix: "s3://world/db/"})
	if s, err := r.sweepOrphans(); err != nil || s.Outcome != maintenance.Refused {
		t.Errorf("a prefix above the table: %+v, %v", s, err)
	}
	r.gone(before, "s3://world/db/t/data/orphan.parquet")
}

// A03: two tables of the catalog at one location: the job on either refuses and names the other.
func TestA03SharedLocation(t *testing.T) {
	t.Parallel()
	r, tbl := simple(t)
	other := maintenance.TableID{Namespace: "db", Name: "twin"}
	var old string
	for e := range tbl.State().Metadata.PreviousFiles() {
		old = e.MetadataFile
	}
	r.must(r.world.Catalog.Register(context.Background(), other, old))
	twin := r.world.Open(other)
	twin.Commit(icebergtest.Append(icebergtest.Row{8, "twin", 0.5}))
	twin.Commit(icebergtest.Append(icebergtest.Row{9, "twin", 0.5}))
	r.put("s3://world/db/t/data/orphan.parquet", 10)
	before := r.objects("")
	for _, id := range []maintenance.TableID{tbl.ID, other} {
		r.id = id
		r.newRun()
		s := r.orphans(nil)
		want := "db.twin"
		if id == other {
			want = "db.t"
		}
		if s.Outcome != maintenance.Refused || !strings.HasSuffix(s.Reason, want) {
			t.Errorf("%s: outcome %s (%s), want a refusal that names %s", id, s.Outcome, s.Reason, want)
		}
		r.gone(before)
	}
}

// A03: a table inside the location keeps its files, its orphans included; a table above it keeps the files that it has in ours.
func TestA03NestedTables(t *testing.T) {
	t.Parallel()
	r, tbl := simple(t)
	inner := r.world.NewTable("db.inner", icebergtest.At("s3://world/db/t/inner"))
	inner.Commit(icebergtest.Append(icebergtest.Row{1, "inner", 0.5}))
	// The inner table owns a file in the outer one's data folder, too.
	r.put("s3://world/db/t/data/of-inner.parquet", 10)
	inner.Commit(icebergtest.AddFile(r.namedFile("s3://world/db/t/data/of-inner.parquet"), nil))
	r.put("s3://world/db/t/inner/data/orphan-of-inner.parquet", 10)
	r.put("s3://world/db/t/data/orphan.parquet", 10)
	before := r.objects("")
	r.orphans(nil)
	r.gone(before, "s3://world/db/t/data/orphan.parquet")

	r.id = inner.ID
	r.put("s3://world/db/t/inner/data/of-outer.parquet", 10)
	tbl.Commit(icebergtest.AddFile(r.namedFile("s3://world/db/t/inner/data/of-outer.parquet"), nil))
	r.newRun()
	before = r.objects("")
	r.orphans(nil)
	equal(t, "objects removed", r.missing(before), []string{"s3://world/db/t/inner/data/orphan-of-inner.parquet"})
}

// A03: a neighbour whose metadata cannot be read stops the job if it may lie at our location, and is a warning if it lies elsewhere.
func TestA03UnreadableNeighbour(t *testing.T) {
	t.Parallel()
	r, _ := simple(t)
	r.put("s3://world/db/t/data/orphan.parquet", 10)
	before := r.objects("")
	lost := maintenance.TableID{Namespace: "db", Name: "lost"}
	r.must(r.world.Catalog.Register(context.Background(), lost, "s3://world/db/t/deeper/metadata/00001-x.metadata.json"))
	if s := r.orphans(nil); s.Outcome != maintenance.Refused || !strings.Contains(s.Reason, "db.lost") {
		t.Errorf("outcome %s (%s)", s.Outcome, s.Reason)
	}
	r.gone(before)
	swap(r, lost, "s3://elsewhere/db/lost/metadata/00001-x.metadata.json")
	r.newRun()
	if s := r.orphans(nil); s.Deleted != 1 || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "db.lost") {
		t.Errorf("summary %+v", s)
	}
	r.gone(before, "s3://world/db/t/data/orphan.parquet")
}

func swap(r *room, id maintenance.TableID, location string) {
	r.t.Helper()
	ctx := context.Background()
	base, err := r.world.Catalog.Load(ctx, id)
	r.must(err)
	r.must(r.world.Catalog.Swap(ctx, id, base, location))
}

// A04: a data root that two tables share is not swept; one that is a table's own is, when it is asked for.
func TestA04SharedDataRoot(t *testing.T) {
	t.Parallel()
	r, tbl := simple(t, icebergtest.Property("write.data.path", "s3://shared/root"))
	r.put("s3://shared/root/0101/orphan.parquet", 10)
	r.put("s3://world/db/t/data/orphan.parquet", 10)
	before := r.objects("")
	args := map[string]string{"location": "s3://shared/root/"}
	r.planOrphans(args, true)
	if s, err := r.sweepOrphans(); err != nil || !slices.Equal(s.Files, []string{"s3://shared/root/0101/orphan.parquet"}) {
		t.Errorf("the table's own data root: %+v, %v", s, err)
	}
	r.world.NewTable("db.u", icebergtest.Property("write.data.path", "s3a://shared/root/"))
	r.newRun()
	if s := r.orphans(args); s.Outcome != maintenance.Refused || !strings.Contains(s.Reason, "db.u") {
		t.Errorf("a shared root: outcome %s (%s)", s.Outcome, s.Reason)
	}
	r.newRun()
	if s := r.orphans(map[string]string{"location": "s3://shared/"}); s.Outcome != maintenance.Refused || !strings.Contains(s.Reason, "outside") {
		t.Errorf("a place that is not the table's: outcome %s (%s)", s.Outcome, s.Reason)
	}
	r.gone(before)
	r.newRun()
	r.orphans(nil)
	r.gone(before, "s3://world/db/t/data/orphan.parquet")
	_ = tbl
}

// A05, A06, A11: statistics files, equality deletes, position deletes, a DV's Puffin file, data under metadata/ and beside it, a manifest under
// data/: whatever the metadata names stays, wherever it lies.
func TestA05A06A11EverythingNamedStays(t *testing.T) {
	t.Parallel()
	r, tbl := simple(t, icebergtest.Version(2))
	first := tbl.Commit(icebergtest.Append(icebergtest.Row{10, "b", 0.5}, icebergtest.Row{11, "b", 0.5}))
	tbl.Commit(icebergtest.DeleteEqual([]string{"id"}, icebergtest.Row{1}))
	tbl.Commit(icebergtest.DeletePositions(first.DataFiles[0], 0))
	for _, location := range []string{"s3://world/db/t/metadata/imported.parquet", "s3://world/db/t/imported.parquet"} {
		tbl.Commit(icebergtest.AddFile(r.dataFile(location, "s3"), nil))
	}
	moveManifest(r, tbl, "s3://world/db/t/data/m0.avro")
	tbl.Upgrade(3)
	tbl.Commit(icebergtest.DeleteVector(tbl.Commit(icebergtest.Append(icebergtest.Row{20, "c", 0.5}, icebergtest.Row{21, "c", 0.5})).DataFiles[0], 1))
	r.put("s3://world/db/t/metadata/s.stats", 10)
	r.put("s3://world/db/t/metadata/p.parquet", 10)
	head := tbl.State().Metadata.CurrentSnapshot().SnapshotID
	tbl.Update(func(b *table.MetadataBuilder) error {
		if err := b.SetPartitionStatistics(table.PartitionStatisticsFile{
			SnapshotID: head, StatisticsPath: "s3://world/db/t/metadata/p.parquet", FileSizeInBytes: 6,
		}); err != nil {
			return err
		}
		return b.SetStatistics(table.StatisticsFile{
			SnapshotID: head, StatisticsPath: "s3://world/db/t/metadata/s.stats", FileSizeInBytes: 6, BlobMetadata: []table.BlobMetadata{},
		})
	})
	r.put("s3://world/db/t/data/stray-deletes.parquet", 10)
	r.put("s3://world/db/t/metadata/version-hint.text", 10)
	before := r.objects("")
	for _, l := range before {
		r.age(l, 10)
	}
	s := r.orphans(nil)
	r.gone(before, append([]string{"s3://world/db/t/data/stray-deletes.parquet"}, movedFrom(r, tbl, before)...)...)
	if s.Entries == 0 || s.Manifests == 0 || s.Lists == 0 {
		t.Errorf("summary %+v says that nothing was read", s)
	}
}

// moveManifest copies the newest manifest under another name and commits a snapshot whose list names the copy.
func moveManifest(r *room, tbl *icebergtest.Table, to string) {
	r.t.Helper()
	ctx := context.Background()
	snap := tbl.State().Metadata.CurrentSnapshot()
	data, err := r.world.Store.Get(ctx, snap.ManifestList)
	r.must(err)
	manifests, err := iceberg.ReadManifestList(strings.NewReader(string(data)))
	r.must(err)
	var out strings.Builder
	from := manifests[0].FilePath()
	content, err := r.world.Store.Get(ctx, from)
	r.must(err)
	r.must(r.world.Store.Put(ctx, to, content, store.WriteOptions{}))
	for i, m := range manifests {
		path := m.FilePath()
		if i == 0 {
			path = to
		}
		b := iceberg.NewManifestFile(m.Version(), path, m.Length(), m.PartitionSpecID(), m.SnapshotID()).Content(m.ManifestContent()).
			SequenceNum(m.SequenceNum(), m.MinSequenceNum()).AddedFiles(m.AddedDataFiles()).ExistingFiles(m.ExistingDataFiles()).
			DeletedFiles(m.DeletedDataFiles()).AddedRows(m.AddedRows()).ExistingRows(m.ExistingRows()).DeletedRows(m.DeletedRows()).
			Partitions(m.Partitions())
		manifests[i] = b.Build()
	}
	r.must(iceberg.WriteManifestList(2, &out, snap.SnapshotID, snap.ParentSnapshotID, &snap.SequenceNumber, 0, manifests))
	r.must(r.world.Store.Put(ctx, snap.ManifestList, []byte(out.String()), store.WriteOptions{}))
}

// movedFrom is the manifest that moveManifest left without a name, if no other list names it.
func movedFrom(r *room, tbl *icebergtest.Table, before []string) []string {
	r.t.Helper()
	named := map[string]bool{}
	for _, snap := range tbl.State().Metadata.Snapshots() {
		data, err := r.world.Store.Get(context.Background(), snap.ManifestList)
		r.must(err)
		manifests, err := iceberg.ReadManifestList(strings.NewReader(string(data)))
		r.must(err)
		for _, m := range manifests {
			named[m.FilePath()] = true
		}
	}
	var out []string
	for _, l := range before {
		if strings.Contains(l, "-m") && strings.HasSuffix(l, ".avro") && !named[l] {
			out = append(out, l)
		}
	}
	return out
}

// A07: the root is the catalog's pointer, not the hint; what is committed between listing and deletion is no candidate.
func TestA07StaleRoot(t *testing.T) {
	t.Parallel()
	r, tbl := simple(t)
	r.must(r.world.Store.Put(context.Background(), "s3://world/db/t/metadata/version-hint.text", []byte("1"), store.WriteOptions{}))
	for _, l := range r.objects("") {
		r.age(l, 10)
	}
	r.put("s3://world/db/t/data/late-1.parquet", 10)
	r.put("s3://world/db/t/data/late-2.parquet", 10)
	r.put("s3://world/db/t/data/orphan.parquet", 10)
	before := r.objects("")
	r.between["reach"] = func() { tbl.Commit(icebergtest.AddFile(r.namedFile("s3://world/db/t/data/late-1.parquet"), nil)) }
	r.between["delete"] = func() { tbl.Commit(icebergtest.AddFile(r.namedFile("s3://world/db/t/data/late-2.parquet"), nil)) }
	r.lost = map[string]bool{"": true} // the committed files hold no rows
	s := r.orphans(nil)
	r.gone(before, "s3://world/db/t/data/orphan.parquet")
	if s.Candidates != 2 || s.Deleted != 1 || s.KeptCount != 1 || !strings.Contains(s.Kept[0].Reason, "reachable again") {
		t.Errorf("summary %+v", s)
	}
}

// A08: files of runs of ours are not candidates below the default horizon, even when the caller asks for less: data files, manifests and lists, of
// runs that this work location knows and of others.
func TestA08OwnOpenRuns(t *testing.T) {
	t.Parallel()
	r, _ := simple(t)
	var old []string
	for _, id := range []maintenance.RunID{r.run.RunID, maintenance.NewRunID("other", 8, 1)} {
		for _, name := range []string{"data/00000-%s-1-a.parquet", "metadata/%s-0f3e5c9e-m0.avro", "metadata/snap-77-1-%s-0f3e5c9e.avro"} {
			r.put("s3://world/db/t/"+fmt.Sprintf(name, id), 2)
			old = append(old, "s3://world/db/t/"+fmt.Sprintf(strings.Replace(name, "-", "-old-", 1), id))
			r.put(old[len(old)-1], 4)
		}
	}
	r.put("s3://world/db/t/data/young.parquet", 1.0/24)
	before := r.objects("")
	args := map[string]string{"older_than": r.now.Add(-26 * time.Hour).UTC().Format("2006-01-02 15:04:05")}
	s := r.orphans(args)
	r.gone(before, old...)
	if s.KeptCount != 6 || s.OldestAgeHours != 96 || s.YoungestAgeHours != 96 {
		t.Errorf("summary %+v", s)
	}
}

// A08, the metadata file itself: one that was written after the table's last commit may be what a slow catalog is about to point to. An older one lost.
func TestA08MetadataFileOfALateCommit(t *testing.T) {
	t.Parallel()
	r, tbl := simple(t)
	late, lost := "s3://world/db/t/metadata/00099-late.metadata.json", "s3://world/db/t/metadata/00099-lost.metadata.json"
	r.now = r.world.Clock.Now().Add(36 * time.Hour)
	for _, l := range r.objects("") {
		r.age(l, 2)
	}
	r.put(late, 1.4)
	r.put(lost, 1.6)
	before := r.objects("")
	args := map[string]string{"older_than": r.now.Add(-26 * time.Hour).UTC().Format("2006-01-02 15:04:05")}
	s := r.orphans(args)
	r.gone(before, lost)
	if s.KeptCount != 1 || s.Kept[0].Location != late || !strings.Contains(s.Kept[0].Reason, "last commit, or at most 10 minutes before it") {
		t.Errorf("kept %v of head at %d", s.Kept, tbl.State().Metadata.LastUpdatedMillis())
	}
}

// A09: keys are opaque bytes.
func TestA09OddKeys(t *testing.T) {
	t.Parallel()
	r, tbl := simple(t, icebergtest.Partitioned("g"))
	var want []string
	for i, folder := range []string{"g=11%2F12%2F13", "g=a b", "g=100%", "g=", "g=null", "g=a#b?c+d", "g=new\nline", "g=\xff\xfe"} {
		live := "s3://world/db/t/data/" + folder + "/live.parquet"
		r.put(live, 10)
		b, err := iceberg.NewDataFileBuilder(tbl.State().Metadata.PartitionSpec(), iceberg.EntryContentData, live, iceberg.ParquetFile,
			map[int]any{1000: fmt.Sprint(i)}, nil, nil, 1, 6)
		r.must(err)
		tbl.Commit(icebergtest.AddFile(b.Build(), nil))
		orphan := "s3://world/db/t/data/" + folder + "/orphan.parquet"
		r.put(orphan, 10)
		want = append(want, orphan)
	}
	r.lost = map[string]bool{"": true}
	before := r.objects("")
	r.orphans(nil)
	r.gone(before, want...)
}

// A10: the whole path counts, not the name.
func TestA10SameBaseName(t *testing.T) {
	t.Parallel()
	r, tbl := simple(t)
	r.put("s3://world/db/t/data/a/f.parquet", 10)
	r.put("s3://world/db/t/data/b/f.parquet", 10)
	tbl.Commit(icebergtest.AddFile(r.namedFile("s3://world/db/t/data/a/f.parquet"), nil))
	r.lost = map[string]bool{"": true}
	before := r.objects("")
	r.orphans(nil)
	r.gone(before, "s3://world/db/t/data/b/f.parquet")
}

// What attempts left that lost a race: younger than three days they may belong to a commit that still lands, whatever age the call is told; older ones go.
func TestLeftoversOfLostRaces(t *testing.T) {
	t.Parallel()
	r, _ := simple(t)
	head := time.UnixMilli(r.world.Open(r.id).State().Metadata.LastUpdatedMillis())
	r.now = head.Add(4 * 24 * time.Hour)
	run := string(maintenance.NewRunID("some-uuid", 7, 7))
	at := func(name string, age time.Duration) string {
		location := "s3://world/db/t/metadata/" + name
		r.put(location, age.Hours()/24)
		return location
	}
	const day = 24 * time.Hour
	// After the head: a metadata file, of whoever, asserts it. What a run of ours wrote may be announced in a work location that is not this one.
	young := []string{
		at("00009-11111111-2222-3333-4444-555555555555.metadata.json", 2*day), at("00009-x.gz.metadata.json", 2*day), at("v9.metadata.json.gz", 2*day),
		at(run+"-a-m0.avro", 2*day), at("snap-5-"+run+"-a.avro", 2*day),
	}
	old := []string{
		at("00009-y.metadata.json", 5*day), at(run+"-b-m0.avro", 5*day), at("snap-6-1-abc.avro", 2*day), at("abc-m0.avro", 2*day),
		at("00003-z.metadata.json", 4*day+time.Hour), // before the head: its attempt asserts what is no head any more
	}
	before := r.objects("")
	s := r.orphans(map[string]string{"older_than": r.now.Add(-day).UTC().Format(time.RFC3339)})
	r.gone(before, old...)
	if s.KeptCount != int64(len(young)) {
		t.Errorf("%d kept: want %d: %v", s.KeptCount, len(young), s.Kept)
	}
}
