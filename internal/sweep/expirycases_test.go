package sweep_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// swept runs reach and delete after an expiry.
func (r *room) swept() handoff.SweepSummary {
	r.t.Helper()
	s, err := r.reachAndDelete(maintenance.ExpireSnapshots)
	r.must(err)
	return s
}

// A16: what tags and branches keep is read from the head: their files stay.
func TestA16RefsKeepTheirFiles(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	r := newRoom(t, w, tbl.ID)
	tagged := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a", 0.5}))
	tbl.Tag("audit", tagged.Snapshot.SnapshotID)
	branched := tbl.Commit(icebergtest.Append(icebergtest.Row{2, "a", 0.5}))
	tbl.Branch("dev", branched.Snapshot.SnapshotID)
	var ids []int64
	var doomed []string
	last := branched.DataFiles[0]
	for i := range 6 {
		c := tbl.Commit(icebergtest.Append(icebergtest.Row{10 + i, "a", 0.5}), icebergtest.Remove(last))
		ids, doomed, last = append(ids, c.Snapshot.SnapshotID), append(doomed, c.DataFiles[0]), c.DataFiles[0]
	}
	tbl.Commit(icebergtest.Append(icebergtest.Row{99, "a", 0.5}), icebergtest.Remove(last))
	before := r.objects("")
	r.expire(ids...)
	s := r.swept()
	missing := r.missing(before)
	for _, d := range doomed {
		if !slices.Contains(missing, d) {
			t.Errorf("%s stays", d)
		}
	}
	if s.Columns["deleted_data_files_count"] != 6 || s.Columns["deleted_manifest_lists_count"] != 6 || int(s.Deleted) != len(missing) {
		t.Errorf("columns %v, %d objects are gone", s.Columns, len(missing))
	}
	r.check()
}

// A17: a snapshot in the middle: what it deleted is still live in an older one.
func TestA17MiddleSnapshot(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	r := newRoom(t, w, tbl.ID)
	first := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a", 0.5}))
	second := tbl.Commit(icebergtest.Remove(first.DataFiles[0]))
	tbl.Commit(icebergtest.Append(icebergtest.Row{3, "a", 0.5}))
	r.expire(second.Snapshot.SnapshotID)
	before := r.objects("")
	s := r.swept()
	if n := s.Columns["deleted_data_files_count"]; n != 0 {
		t.Errorf("%d data files deleted", n)
	}
	for _, l := range r.missing(before) {
		if strings.HasSuffix(l, ".parquet") {
			t.Errorf("%s is gone", l)
		}
	}
	r.check()
	if got := tbl.RowsAt(first.Snapshot.SnapshotID); got.Count != 1 {
		t.Errorf("the first snapshot has %d rows", got.Count)
	}
}

// A18: a staged snapshot that was published by cherry-pick expires; the file lives on in the publishing one.
func TestA18CherryPicked(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	r := newRoom(t, w, tbl.ID)
	base := tbl.Commit(icebergtest.Append(icebergtest.Row{1, "a", 0.5}))
	tbl.Branch("stage", base.Snapshot.SnapshotID)
	staged := tbl.CommitTo("stage", icebergtest.Append(icebergtest.Row{2, "a", 0.5}), icebergtest.Summary("wap.id", "x"))
	tbl.Update(func(b *table.MetadataBuilder) error { return b.RemoveSnapshotRef("stage") })
	picked := r.fileOf(tbl, staged)
	tbl.Commit(icebergtest.AddFile(picked, nil), icebergtest.Summary("published-wap-id", "x"))
	r.expire(staged.Snapshot.SnapshotID)
	before := r.objects("")
	s := r.swept()
	if s.Columns["deleted_data_files_count"] != 0 || s.Columns["deleted_manifest_lists_count"] != 1 || s.Columns["deleted_manifest_files_count"] != 1 {
		t.Errorf("columns %v", s.Columns)
	}
	if slices.Contains(r.missing(before), staged.DataFiles[0]) {
		t.Error("the published file is gone")
	}
	r.check()
}

// fileOf describes the first data file of a commit again.
func (r *room) fileOf(tbl *icebergtest.Table, c icebergtest.Commit) iceberg.DataFile {
	r.t.Helper()
	info, err := r.world.Store.Head(context.Background(), c.DataFiles[0])
	r.must(err)
	b, err := iceberg.NewDataFileBuilder(tbl.State().Metadata.PartitionSpec(), iceberg.EntryContentData, c.DataFiles[0], iceberg.ParquetFile,
		nil, nil, nil, 1, info.SizeBytes)
	r.must(err)
	return b.Build()
}

// A20: files that are missing already count as done, and the expiry stays a success. An expired list that is missing is skipped.
func TestA20FilesAreMissingAlready(t *testing.T) {
	t.Parallel()
	r, tbl := simple(t)
	var ids []int64
	var files []string
	for i := range 4 {
		c := tbl.Commit(icebergtest.Append(icebergtest.Row{20 + i, "a", 0.5}))
		ids, files = append(ids, c.Snapshot.SnapshotID), append(files, c.DataFiles[0])
	}
	tbl.Commit(icebergtest.Remove(files...))
	lost := tbl.State().Metadata.SnapshotByID(ids[1]).ManifestList
	result := r.expire(ids...)
	_, _, err := r.world.Store.Delete(context.Background(), append(slices.Clone(files), lost))
	r.must(err)
	s := r.swept()
	if s.Columns["deleted_data_files_count"] != 4 || s.Columns["deleted_manifest_lists_count"] != 3 || s.Failed != 0 {
		t.Errorf("columns %v, failed %d", s.Columns, s.Failed)
	}
	if s.KeptCount != 1 || s.Kept[0].Location != lost || result.Outcome != maintenance.Committed {
		t.Errorf("kept %v", s.Kept)
	}
	r.check()
}

// A20: a list that cannot be read now is no lost list: the step fails and is repeated, and then everything goes.
func TestA20TransientReadIsRepeated(t *testing.T) {
	t.Parallel()
	r, tbl := simple(t)
	first := tbl.State().Metadata.Snapshots()[0]
	r.expire(first.SnapshotID)
	r.st.Add(store.Rule{Operation: store.OpGet, Contains: first.ManifestList, Times: 1, Err: store.ErrTransient})
	if _, err := r.reachAndDelete(maintenance.ExpireSnapshots); !errors.Is(err, store.ErrTransient) {
		t.Errorf("error %v", err)
	}
	if s := r.swept(); s.Columns["deleted_manifest_lists_count"] != 1 {
		t.Errorf("columns %v", s.Columns)
	}
	r.check()
}

// A kept manifest that cannot be read, or was cut short, proves nothing: nothing is deleted.
func TestUnreadableKeptManifestDeletesNothing(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(data []byte) []byte{
		"gone":      nil,
		"garbage":   func(data []byte) []byte { return []byte(strings.Repeat("x", len(data))) },
		"cut short": func(data []byte) []byte { return data[:len(data)-100] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, tbl := simple(t)
			doomed := tbl.Commit(icebergtest.Append(icebergtest.Row{9, "z", 0.5}))
			tbl.Commit(icebergtest.Remove(doomed.DataFiles[0]))
			manifest := r.manifestsOf(tbl)[0]
			r.expire(doomed.Snapshot.SnapshotID)
			before := r.objects("")
			ctx := context.Background()
			data, err := r.world.Store.Get(ctx, manifest)
			r.must(err)
			if damage == nil {
				_, _, err = r.world.Store.Delete(ctx, []string{manifest})
			} else {
				err = r.world.Store.Put(ctx, manifest, damage(data), store.WriteOptions{})
			}
			r.must(err)
			s, err := r.reachAndDelete(maintenance.ExpireSnapshots)
			refused := err == nil && s.Outcome == maintenance.Refused && strings.Contains(s.Reason, manifest)
			if !refused && (err == nil || !strings.Contains(err.Error(), manifest)) {
				t.Errorf("%+v, error %v: want a refusal or an error that names %s", s, err, manifest)
			}
			if damage == nil {
				before = slices.DeleteFunc(before, func(l string) bool { return l == manifest })
			}
			equal(t, "objects removed", r.missing(before), nil)
		})
	}
}

// manifestsOf lists the manifests of the current snapshot, oldest snapshot last.
func (r *room) manifestsOf(tbl *icebergtest.Table) []string {
	r.t.Helper()
	data, err := r.world.Store.Get(context.Background(), tbl.State().Metadata.CurrentSnapshot().ManifestList)
	r.must(err)
	manifests, err := iceberg.ReadManifestList(strings.NewReader(string(data)))
	r.must(err)
	var out []string
	for _, m := range manifests {
		out = append(out, m.FilePath())
	}
	slices.Reverse(out)
	return out
}

// A21: statistics and partition statistics of expired snapshots go and are counted; the kept snapshot's stay.
func TestA21Statistics(t *testing.T) {
	t.Parallel()
	r, tbl := simple(t)
	var ids []int64
	for i, snap := range tbl.State().Metadata.Snapshots() {
		name := "s3://world/db/t/metadata/" + string(rune('a'+i))
		r.put(name+".stats", 10)
		r.put(name+".parquet", 10)
		tbl.Update(func(b *table.MetadataBuilder) error {
			if err := b.SetPartitionStatistics(table.PartitionStatisticsFile{SnapshotID: snap.SnapshotID, StatisticsPath: name + ".parquet"}); err != nil {
				return err
			}
			return b.SetStatistics(table.StatisticsFile{SnapshotID: snap.SnapshotID, StatisticsPath: name + ".stats", BlobMetadata: []table.BlobMetadata{}})
		})
		ids = append(ids, snap.SnapshotID)
	}
	before := r.objects("")
	r.expire(ids[:2]...)
	s := r.swept()
	if s.Columns["deleted_statistics_files_count"] != 4 {
		t.Errorf("columns %v", s.Columns)
	}
	missing := r.missing(before)
	for _, name := range []string{"a", "b", "c"} {
		for _, ext := range []string{".stats", ".parquet"} {
			if got := slices.Contains(missing, "s3://world/db/t/metadata/"+name+ext); got != (name != "c") {
				t.Errorf("%s%s gone: %v", name, ext, got)
			}
		}
	}
	r.check()
}

// A22: content outside of the table's folders stays unless the caller allows it.
func TestA22FilesOutside(t *testing.T) {
	t.Parallel()
	for _, allowed := range []bool{false, true} {
		r, tbl := simple(t)
		outside := "s3://elsewhere/imported.parquet"
		r.put(outside, 10)
		imported := tbl.Commit(icebergtest.AddFile(r.namedFile(outside), nil))
		tbl.Commit(icebergtest.Remove(outside))
		before := r.objects("")
		result := r.wouldExpire(imported.Snapshot.SnapshotID)
		r.removeSnapshots(result.Expired.SnapshotIDs)
		if allowed {
			r.committed(result, "delete_outside_location", "true")
		} else {
			r.committed(result)
		}
		s := r.swept()
		if gone := slices.Contains(r.missing(before), outside); gone != allowed {
			t.Errorf("allowed %v: gone %v", allowed, gone)
		}
		if !allowed && (s.KeptCount != 1 || s.Kept[0].Location != outside) {
			t.Errorf("kept %v", s.Kept)
		}
		r.check()
	}
}

// A tag on an expired snapshot that the head knows and the expiry did not: nothing is deleted.
func TestTagSetDuringExpiry(t *testing.T) {
	t.Parallel()
	r, tbl := simple(t)
	first := tbl.State().Metadata.Snapshots()[0]
	result := r.wouldExpire(first.SnapshotID)
	r.committed(result)
	tbl.Tag("late", first.SnapshotID) // and the snapshot is still there: somebody brought it back
	before := r.objects("")
	s := r.swept()
	if s.Deleted != 0 || s.Candidates != 0 {
		t.Errorf("summary %+v", s)
	}
	r.gone(before)
}

// A snapshot that comes back between reach and delete, and a file that is added again: both stay.
func TestReachableAgainBetweenReachAndDelete(t *testing.T) {
	t.Parallel()
	r, tbl := simple(t)
	doomed := tbl.Commit(icebergtest.Append(icebergtest.Row{9, "z", 0.5}))
	again := r.fileOf(tbl, doomed)
	other := tbl.Commit(icebergtest.Append(icebergtest.Row{10, "z", 0.5}))
	tbl.Commit(icebergtest.Remove(doomed.DataFiles[0], other.DataFiles[0]))
	r.expire(doomed.Snapshot.SnapshotID, other.Snapshot.SnapshotID)
	before := r.objects("")
	r.between["delete"] = func() {
		tbl.Commit(icebergtest.AddFile(again, nil))
		tbl.Update(func(b *table.MetadataBuilder) error {
			back := *other.Snapshot
			back.TimestampMs = r.world.Clock.Now().UnixMilli()
			back.SequenceNumber = tbl.State().Metadata.LastSequenceNumber() + 1
			if err := b.AddSnapshot(&back); err != nil {
				return err
			}
			return b.SetSnapshotRef("back", back.SnapshotID, table.TagRef)
		})
	}
	s := r.swept()
	missing := r.missing(before)
	if slices.Contains(missing, doomed.DataFiles[0]) || slices.Contains(missing, other.DataFiles[0]) || slices.Contains(missing, other.Snapshot.ManifestList) {
		t.Errorf("gone: %v", missing)
	}
	if !slices.Contains(missing, doomed.Snapshot.ManifestList) || s.KeptCount == 0 {
		t.Errorf("summary %+v", s)
	}
	r.check()
}

// Without a settled commit nothing is deleted: the state may be unknown.
func TestExpiryWithoutSettledCommit(t *testing.T) {
	t.Parallel()
	for _, outcome := range []maintenance.Outcome{"", maintenance.Conflict, maintenance.Refused} {
		r, tbl := simple(t)
		result := r.wouldExpire(tbl.State().Metadata.Snapshots()[0].SnapshotID)
		result.Outcome = outcome
		if outcome == "" {
			_, err := r.work().WriteOnce(context.Background(), r.work().Index(maintenance.ExpireSnapshots),
				&handoff.Index{V: 1, Run: r.run, Job: maintenance.ExpireSnapshots})
			r.must(err)
		} else {
			r.committed(result)
		}
		before := r.objects("")
		if s := r.swept(); s.Outcome != maintenance.NothingToDo {
			t.Errorf("%q: outcome %s", outcome, s.Outcome)
		}
		r.gone(before)
	}
}

// A table that was made anew under the name is not judged by the old one's plan.
func TestTableMadeAnew(t *testing.T) {
	t.Parallel()
	r, tbl := simple(t)
	r.expire(tbl.State().Metadata.Snapshots()[0].SnapshotID)
	before := r.objects("")
	r.run.TableUUID = "00000000-0000-0000-0000-000000000000"
	if s := r.swept(); s.Outcome != maintenance.Refused || s.Deleted != 0 {
		t.Errorf("summary %+v", s)
	}
	r.gone(before)
}

// TestExpiryOfATableRegisteredTwice: the files that one entry lets go of are the other's head. Nothing is deleted, and the other entry is named.
func TestExpiryOfATableRegisteredTwice(t *testing.T) {
	t.Parallel()
	r, tbl := simple(t)
	other := maintenance.TableID{Namespace: "db", Name: "twin"}
	r.must(r.world.Catalog.Register(context.Background(), other, tbl.Pointer().MetadataLocation))
	want := r.world.Open(other).Rows()
	doomed := tbl.State().Metadata.CurrentSnapshot().SnapshotID
	tbl.Commit(icebergtest.Append(icebergtest.Row{9, "z", 0.5}))
	before := r.objects("")
	r.expire(doomed)
	s, err := r.reachAndDelete(maintenance.ExpireSnapshots)
	r.must(err)
	if s.Outcome != maintenance.Refused || !strings.Contains(s.Reason, "db.twin") || s.Deleted != 0 {
		t.Errorf("outcome %s (%s), %d deleted: want a refusal that names db.twin", s.Outcome, s.Reason, s.Deleted)
	}
	r.gone(before)
	if got := r.world.Open(other).Rows(); got.Digest != want.Digest || got.Count != want.Count {
		t.Errorf("the other entry has %d rows, want %d", got.Count, want.Count)
	}
}
