package sweep_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"firn/internal/icebergtest"
	"firn/internal/maintenance"
)

// differs lists the oracle's cases in which ours keeps more than Spark deletes, with the reason.
func differs() map[string]string {
	return map[string]string{
		"two_tables/rof_dry_3d":       "a live table nested in the location is not ours to clean",
		"two_tables/rof_real_3d":      "a live table nested in the location is not ours to clean",
		"two_tables/rof_location_ext": "another table's location is refused",
		"orphans_names/rof_real_3d":   "names with # and ? are really deleted; Spark lists them and deletes another key",
	}
}

// text turns an oracle argument into the text of a request.
func text(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return strings.TrimSuffix(strings.TrimPrefix(s, "TIMESTAMP '"), "'")
	}
	return string(raw)
}

// TestOrphansAreSparks runs every remove_orphan_files case of the oracle that lists the location: the same orphans, the same objects gone.
func TestOrphansAreSparks(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, name := range icebergtest.ReferenceNames(t) {
		if !strings.HasPrefix(name, "orphans") && name != "two_tables" && name != "empty_table" && name != "stats_ndv" {
			continue
		}
		for _, c := range icebergtest.Reference(t, name).OracleNames() {
			step := icebergtest.Reference(t, name).Oracle(t, c).Steps
			if len(step) != 1 || step[0].Procedure != "remove_orphan_files" {
				continue
			}
			seen++
			t.Run(name+"/"+c, func(t *testing.T) {
				t.Parallel()
				orphanCase(t, icebergtest.Reference(t, name), step[0], differs()[name+"/"+c])
			})
		}
	}
	if seen < 20 {
		t.Errorf("only %d cases were found", seen)
	}
}

func orphanCase(t *testing.T, ref *icebergtest.Ref, step icebergtest.OracleStep, why string) {
	r := newRoom(t, ref.World(t), ref.ID)
	r.now = time.UnixMilli(step.NowMS)
	r.sortBytes = 2000 // every set is spilled
	if ref.Name == "two_tables" {
		registerNeighbours(t, r, ref)
	}
	args := map[string]string{}
	for k, v := range step.Args {
		args[k] = text(t, v)
	}
	before := r.objects("")
	r.planOrphans(args, args["dry_run"] == "true")
	got, err := r.sweepOrphans()
	r.must(err)
	var want []string
	for _, row := range step.Result {
		want = append(want, text(t, row["orphan_file_location"]))
	}
	removed := make([]string, 0, len(step.ObjectsRemoved))
	for _, key := range step.ObjectsRemoved {
		removed = append(removed, "s3://firn-ref/"+key)
	}
	if why != "" {
		t.Logf("differs from Spark: %s", why)
		want, removed = ours(ref, want)
		if args["dry_run"] == "true" {
			removed = nil
		}
	}
	if step.Error != "" || strings.Contains(why, "refused") {
		if got.Outcome != maintenance.Refused || got.Reason == "" {
			t.Errorf("outcome %s (%s): Spark fails with %s", got.Outcome, got.Reason, step.Error)
		}
		want, removed = nil, nil
	}
	equal(t, "orphans", listed(t, r, got.FilesLocation), want)
	equal(t, "objects removed", r.missing(before), removed)
	if args["dry_run"] != "true" && got.Deleted != int64(len(removed)) {
		t.Errorf("%d deleted: want %d", got.Deleted, len(removed))
	}
	r.check()
}

// ours is what is orphaned where ours differs: Spark's list without the nested table, all of it deleted.
func ours(ref *icebergtest.Ref, sparks []string) (want, removed []string) {
	for _, l := range sparks {
		if !strings.HasPrefix(l, ref.Expected.Location+"/nested/") {
			want = append(want, l)
		}
	}
	return want, want
}

// registerNeighbours puts the tables that lie in and beside the table into the catalog.
func registerNeighbours(t *testing.T, r *room, ref *icebergtest.Ref) {
	t.Helper()
	latest := map[string]string{}
	for _, o := range ref.Expected.Objects {
		folder, name, _ := strings.Cut(o.Key, "/metadata/")
		if strings.HasSuffix(name, ".metadata.json") && "s3://firn-ref/"+folder != ref.Expected.Location && name > latest[folder] {
			latest[folder] = name
		}
	}
	if len(latest) != 2 {
		t.Fatalf("neighbours %v: want two", latest)
	}
	for folder, name := range latest {
		id := maintenance.TableID{Namespace: "db", Name: strings.ReplaceAll(folder, "/", "_")}
		r.must(ref.Catalog.Register(context.Background(), id, "s3://firn-ref/"+folder+"/metadata/"+name))
	}
}

// listed reads the list of files.
func listed(t *testing.T, r *room, location string) []string {
	t.Helper()
	if location == "" {
		return nil
	}
	data, err := r.st.Get(context.Background(), location)
	r.must(err)
	var out []string
	for line := range strings.Lines(string(data)) {
		var l string
		r.must(json.Unmarshal([]byte(line), &l))
		out = append(out, l)
	}
	return out
}

// TestExpiredFilesAreSparks replays every first expiry of the oracle: the commit's part by the snapshots that Spark removed, then reach and
// delete. The same objects go, and the same counts are told. A dry run before it tells the same.
func TestExpiredFilesAreSparks(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, name := range icebergtest.ReferenceNames(t) {
		ref := icebergtest.Reference(t, name)
		for _, c := range ref.OracleNames() {
			steps := ref.Oracle(t, c).Steps
			if steps[0].Procedure != "expire_snapshots" || steps[0].Error != "" || len(steps[0].SnapshotsRemoved) == 0 {
				continue
			}
			seen++
			t.Run(name+"/"+c, func(t *testing.T) {
				t.Parallel()
				expiryCase(t, icebergtest.Reference(t, name), steps[0])
			})
		}
	}
	if seen < 20 {
		t.Errorf("only %d cases were found", seen)
	}
}

func expiryCase(t *testing.T, ref *icebergtest.Ref, step icebergtest.OracleStep) {
	r := newRoom(t, ref.World(t), ref.ID)
	r.now, r.sortBytes = time.UnixMilli(step.NowMS), 3000
	ref.Clock.Set(r.now)
	columns := map[string]int64{}
	for k, v := range step.Result[0] {
		r.must(json.Unmarshal(v, new(int64)))
		var n int64
		r.must(json.Unmarshal(v, &n))
		columns[k] = n
	}
	var want []string
	for _, key := range step.ObjectsRemoved {
		if !strings.HasSuffix(key, ".metadata.json") { // left the log: commit hands it over
			want = append(want, "s3://firn-ref/"+key)
		}
	}
	before := r.objects("")
	result := r.wouldExpire(step.SnapshotsRemoved...)
	result.Expired.Refs = step.RefsRemoved

	r.dryExpiry(*result.Expired)
	dry, err := r.reachAndDelete(maintenance.ExpireSnapshots)
	r.must(err)
	if dry.Outcome != maintenance.DryRun || !maps.Equal(dry.Columns, columns) {
		t.Errorf("dry run: %s %v, Spark %v", dry.Outcome, dry.Columns, columns)
	}
	equal(t, "dry run's files", canonical(listed(t, r, dry.FilesLocation)), canonical(want))
	equal(t, "objects removed by the dry run", r.missing(before), nil)

	r.newRun()
	r.removeSnapshots(step.SnapshotsRemoved)
	r.committed(result)
	got, err := r.reachAndDelete(maintenance.ExpireSnapshots)
	r.must(err)
	equal(t, "objects removed", r.missing(before), want)
	if !maps.Equal(got.Columns, columns) {
		t.Errorf("columns %v: Spark %v", got.Columns, columns)
	}
	if got.UnfinishedRanges != 0 || got.Failed != 0 || got.KeptCount != 0 {
		t.Errorf("summary %+v", got)
	}
	r.check()
}

func canonical(list []string) []string {
	out := slices.Clone(list)
	for i := range out {
		out[i] = strings.Replace(out[i], "s3a://", "s3://", 1)
	}
	return out
}
