package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"firn/internal/icebergtest"
	"firn/internal/store"
)

// damaged is a table with something wrong, for one test.
type damaged struct {
	*bench
	world *icebergtest.World
	// files are the data files in the order of their commits, lists the manifest lists of the snapshots.
	files, lists []string
	// metadata is the table's metadata as a value that may be edited.
	metadata map[string]any
	// names is what a report has to name.
	names string
}

// damage is a kind of damage.
type damage struct {
	harm func(d *damaged)
	ends map[string]string
}

// damages are the kinds of damage. Each says per job how it must end: "done", or "refused" with the damage named; an empty one is "done".
func damages() map[string]damage {
	all := func(end string) map[string]string {
		m := map[string]string{}
		for _, job := range damagedJobs() {
			m[job[0]] = end
		}
		return m
	}
	return map[string]damage{
		"data file is missing": {func(d *damaged) {
			d.names = d.files[0]
			d.remove(d.files[0])
		}, map[string]string{"rewrite_data_files": "conflict"}},
		"manifest list of an old snapshot is missing": {func(d *damaged) {
			d.names = d.lists[0]
			d.remove(d.lists[0])
		}, map[string]string{"remove_orphan_files": "refused", "expire_snapshots": "refused"}},
		"manifest list of an old snapshot is damaged": {func(d *damaged) {
			d.names = d.lists[0]
			d.put(d.lists[0], []byte("no Avro"))
		}, map[string]string{"remove_orphan_files": "refused", "expire_snapshots": "refused"}},
		"unknown transform": {func(d *damaged) {
			d.names = "future[7]"
			field := map[string]any{"source-id": 1, "field-id": 1000, "name": "f", "transform": "future[7]"}
			specs := d.metadata["partition-specs"].([]any)
			d.metadata["partition-specs"] = append(specs, map[string]any{"spec-id": 1, "fields": []any{field}})
			d.metadata["default-spec-id"], d.metadata["last-partition-id"] = 1, 1000
		}, map[string]string{"rewrite_data_files": "refused"}}, // nobody can write into that spec; all else does not look at it
		"logs are out of order": {func(d *damaged) {
			for _, key := range []string{"metadata-log", "snapshot-log", "snapshots"} {
				slices.Reverse(d.metadata[key].([]any))
			}
		}, nil},
		"current snapshot is not there": {func(d *damaged) {
			d.names = "77"
			d.metadata["current-snapshot-id"] = 77
			d.metadata["refs"] = map[string]any{"main": map[string]any{"snapshot-id": 77, "type": "branch"}}
		}, all("refused")},
		"unknown format version": {func(d *damaged) {
			d.names = "9"
			d.metadata["format-version"] = 9
		}, all("refused")},
	}
}

func damagedJobs() [][]string {
	return [][]string{
		{"rewrite_data_files", "--option", "rewrite-all=true"},
		{"rewrite_position_delete_files", "--option", "rewrite-all=true"},
		{"rewrite_equality_delete_files"},
		{"rewrite_manifests"},
		{"expire_snapshots", "--older-than", "2099-01-01 00:00:00", "--retain-last", "1"},
		{"remove_orphan_files", "--older-than", "2020-01-01 00:00:00"},
	}
}

// TestDamagedTables: every job on every kind of damage. It ends as it should, says what is wrong, and leaves the table no worse than it was.
func TestDamagedTables(t *testing.T) {
	t.Parallel()
	for name, kind := range damages() {
		for i, job := range damagedJobs() {
			if unreadable := len(kind.ends) == len(damagedJobs()); unreadable && i > 0 {
				continue // every job loads the table in the same way
			}
			t.Run(name+"/"+job[0], func(t *testing.T) {
				t.Parallel()
				d := newDamaged(t)
				kind.harm(d)
				d.register()
				before, rows := d.tableObjects(), d.rows()
				got := d.firn(append([]string{"call", job[0], "--table", "db.t", "--json"}, job[1:]...)...)
				end := kind.ends[job[0]]
				d.judge(got, end)
				after := d.tableObjects()
				if end == "refused" && !slices.Equal(before, after) {
					t.Errorf("objects changed: %v, %v", before, after)
				}
				if now := d.rows(); rows != "" && now != rows {
					t.Errorf("rows were %s, and are %s", rows, now)
				}
			})
		}
	}
}

func newDamaged(t *testing.T) *damaged {
	t.Helper()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	d := &damaged{bench: newBench(t), world: w}
	for i := range 4 {
		d.files = append(d.files, tbl.Commit(icebergtest.Append(icebergtest.Row{i, "a", 1.5}, icebergtest.Row{i + 10, "b", 1.5})).DataFiles...)
	}
	for _, path := range d.files[1:3] {
		tbl.Commit(icebergtest.DeletePositions(path, 0))
	}
	tbl.Commit(icebergtest.DeleteEqual([]string{"id"}, icebergtest.Row{13}))
	for _, s := range tbl.State().Metadata.Snapshots() {
		d.lists = append(d.lists, s.ManifestList)
	}
	data, err := w.Store.Get(context.Background(), tbl.Pointer().MetadataLocation)
	if err == nil {
		decoder := json.NewDecoder(strings.NewReader(string(data)))
		decoder.UseNumber()
		err = decoder.Decode(&d.metadata)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.proc.stores["s3"] = w.Store
	return d
}

func (d *damaged) remove(location string) {
	d.t.Helper()
	if _, _, err := d.world.Store.Delete(context.Background(), []string{location}); err != nil {
		d.t.Fatal(err)
	}
}

func (d *damaged) put(location string, data []byte) {
	d.t.Helper()
	if err := d.world.Store.Put(context.Background(), location, data, store.WriteOptions{}); err != nil {
		d.t.Fatal(err)
	}
}

// register makes the metadata, as it is now, a table: its name is in the catalog whether Firn can read it or not.
func (d *damaged) register() {
	d.t.Helper()
	data, err := json.Marshal(d.metadata)
	if err != nil {
		d.t.Fatal(err)
	}
	location := fmt.Sprint(d.metadata["location"]) + "/metadata/00042-0c9ffa6c-2c8b-4b1e-9fd3-8d8f3d1a7a11.metadata.json"
	d.put(location, []byte(`{"format-version":2,"table-uuid":"`+fmt.Sprint(d.metadata["table-uuid"])+`","location":"x","last-sequence-number":0,"last-updated-ms":0,"last-column-id":1,"schemas":[{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"a","required":false,"type":"int"}]}],"current-schema-id":0,"partition-specs":[{"spec-id":0,"fields":[]}],"default-spec-id":0,"last-partition-id":999,"sort-orders":[{"order-id":0,"fields":[]}],"default-sort-order-id":0}`))
	d.must("register", "--table", "db.t", "--metadata-location", location)
	d.put(location, data)
}

// tableObjects lists the table's objects.
func (d *damaged) tableObjects() []string {
	d.t.Helper()
	var out []string
	for info, err := range d.world.Store.List(context.Background(), fmt.Sprint(d.metadata["location"])+"/", store.ListOptions{}) {
		if err != nil {
			d.t.Fatal(err)
		}
		out = append(out, info.Location)
	}
	return out
}

// rows are the table's rows, "" when they cannot be read.
func (d *damaged) rows() string {
	d.t.Helper()
	a := &app{process: d.proc, ctx: context.Background(), now: time.Now}
	look, err := a.look("db.t")
	if err != nil {
		return ""
	}
	defer func() { _ = a.close() }()
	content, err := icebergtest.ReadRows(context.Background(), d.world.Store, look.view.Table, nil)
	if err != nil {
		return ""
	}
	return fmt.Sprint(content)
}

// judge compares how a job ended.
func (d *damaged) judge(got outcome, end string) {
	d.t.Helper()
	text := got.stdout + got.stderr
	switch end {
	case "":
		if got.code != exitDone {
			d.t.Errorf("exit %d: %s: want it done", got.code, text)
		}
		return
	case "refused":
		if got.code != exitRefused {
			d.t.Errorf("exit %d: %s: want it refused", got.code, text)
		}
	default:
		if got.code == exitOther {
			d.t.Errorf("exit %d: %s: want %s", got.code, text, end)
		}
	}
	if name := d.names[strings.LastIndexByte(d.names, '/')+1:]; !strings.Contains(text, name) {
		d.t.Errorf("%s does not name %s", text, name)
	}
}
