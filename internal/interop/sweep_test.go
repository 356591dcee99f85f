//go:build interop

package interop

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"firn/internal/icebergtest"
)

// TestExpiryKeepsWhatIsLeft rewrites tables with old snapshots, expires, and lets PyIceberg read every snapshot that is left.
func TestExpiryKeepsWhatIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := []string{"snaps40", "snaps_rollback", "snaps_wap"}
	expected, kept := map[string]icebergtest.Expected{}, map[string]int{}
	var jobs []job
	for _, name := range names {
		expected[name] = w.add(name)
		w.call("rewrite_data_files", name, "--option", "rewrite-all=true")
		before := len(w.keys())
		got := w.call("expire_snapshots", name, "--older-than", time.Now().Add(-25*time.Hour).UTC().Format("2006-01-02 15:04:05"), "--retain-last", "1")
		lists, err := got["deleted_manifest_lists_count"].(json.Number).Int64()
		if err != nil || lists == 0 || len(w.keys()) >= before {
			t.Errorf("%s: expiry removed %v manifest lists, and %d of %d objects", name, got["deleted_manifest_lists_count"], before-len(w.keys()), before)
		}
		kept[name] = len(expected[name].RowsBySnapshot) + 1 - int(lists)
		jobs = append(jobs, job{Do: "read", Table: "db." + name, Raw: true}, job{Do: "snapshots", Table: "db." + name})
	}
	verdicts := w.judge(jobs...)
	for i, name := range names {
		now, all := verdicts[2*i], verdicts[2*i+1]
		if now.Error != "" || all.Error != "" {
			t.Errorf("PyIceberg reads %s: %s%s", name, now.Error, all.Error)
			continue
		}
		for _, fault := range now.Facts.Check(expected[name].Rows.RowCount, expected[name].Columns) {
			t.Errorf("%s: %s", name, fault)
		}
		if len(all.Snapshots) != kept[name] {
			t.Errorf("%s: %d snapshots are left: want %d", name, len(all.Snapshots), kept[name])
		}
		for id, rows := range all.Snapshots {
			if want, old := expected[name].RowsBySnapshot[id]; old && rows != want {
				t.Errorf("%s: snapshot %s has %+v: want %+v", name, id, rows, want)
			}
		}
	}
}

// TestOrphansGoAndRowsStay removes what the reference tables name as placed beside them, and nothing else.
func TestOrphansGoAndRowsStay(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"orphans", "orphans_names", "orphans_s3a"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			expected := w.add(name)
			limit := time.Now().Add(-72 * time.Hour)
			placed := map[string]bool{}
			for _, p := range expected.PlacedObjects {
				placed[p.Key] = !strings.HasSuffix(p.Key, "/version-hint.text") // part of a table for Java, which some catalogs write
			}
			var left []string
			gone := 0
			for _, o := range expected.Objects {
				if placed[o.Key] && time.UnixMilli(o.LastModifiedMS).Before(limit) {
					gone++
				} else {
					left = append(left, o.Key)
				}
			}
			slices.Sort(left)
			args := []string{"--older-than", limit.UTC().Format("2006-01-02 15:04:05")}
			dry := w.call("remove_orphan_files", name, append(args, "--dry-run")...)
			if dry["orphan_files_count"] != json.Number(strconv.Itoa(gone)) || len(w.keys()) != len(expected.Objects) {
				t.Errorf("dry run: %v with %d objects left: want %d orphans of %d", dry, len(w.keys()), gone, len(expected.Objects))
			}
			got := w.call("remove_orphan_files", name, args...)
			if keys := w.keys(); got["deleted_files_count"] != json.Number(strconv.Itoa(gone)) || !slices.Equal(keys, left) {
				t.Errorf("deleted %v: want %d\nleft %s\nwant %s", got["deleted_files_count"], gone, strings.Join(keys, " "), strings.Join(left, " "))
			}
			rows := w.read(name)
			for _, fault := range rows.Check(expected.Rows.RowCount, expected.Columns) {
				t.Error(fault)
			}
		})
	}
}
