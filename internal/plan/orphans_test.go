package plan_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"

	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/maintenance"
)

func orphans(location string) maintenance.Request {
	args := map[string]string{}
	if location != "" {
		args["location"] = location
	}
	return maintenance.Request{Jobs: []maintenance.JobRequest{{Job: maintenance.RemoveOrphanFiles, Args: args}}}
}

// TestOrphansElsewhereAreNotListed: a location outside of the table's folders, one above them too, is refused by the plan, so that nothing is listed. A
// folder inside is looked through, as in Spark, and so is one that a write.*.path property names.
func TestOrphansElsewhereAreNotListed(t *testing.T) {
	t.Parallel()
	for location, prefix := range map[string]string{
		"":                             "s3://world/db/t/",
		"s3://world/db/t":              "s3://world/db/t/",
		"s3a://world/db/t/data/":       "s3a://world/db/t/data/",
		"s3://world/imported/t":        "s3://world/imported/t/",
		"s3://world/db":                "",
		"s3://world/db/t2":             "",
		"s3://elsewhere/db/t":          "",
		"s3://world":                   "",
		"s3://x--table-s3/db/t":        "",
		"file:///world/db/t":           "",
		"no location":                  "",
		"s3://world/db/t/../t2":        "s3://world/db/t/../t2/", // a key is opaque: two points are a name
		"s3://world/imported/t/../../": "s3://world/imported/t/../../",
	} {
		w, tbl := smallTable(t)
		tbl.SetProperty("write.data.path", "s3://world/imported/t")
		d := newDesk(t, w, tbl)
		out := d.next(t, orphans(location), maintenance.Cursor{})
		if prefix == "" {
			index := d.index(t, maintenance.RemoveOrphanFiles)
			if out.Next != maintenance.NextFinish || index.Outcome != maintenance.Refused {
				t.Errorf("location %q: next %s, outcome %q: %s", location, out.Next, index.Outcome, index.Reason)
			}
			continue
		}
		if items := d.listed(t, out); out.Next != maintenance.NextList || len(items) != 1 || items[0].Prefix != prefix || items[0].EndAt != "" {
			t.Errorf("location %q: next %s, items %+v", location, out.Next, items)
		}
	}
}

// listed reads the ranges to list.
func (d *desk) listed(t *testing.T, out maintenance.PlanOutput) []maintenance.SweepItem {
	t.Helper()
	if out.Next != maintenance.NextList {
		return nil
	}
	data, err := d.work.Get(context.Background(), handoff.Location("mem", out.Items))
	if err != nil {
		t.Fatal(err)
	}
	var items []maintenance.SweepItem
	for line := range bytes.Lines(data) {
		var in maintenance.SweepInput
		if err := json.Unmarshal(line, &in); err != nil {
			t.Fatal(err)
		}
		items = append(items, *in.Item)
	}
	if len(items) != out.ItemCount {
		t.Errorf("%d items, said %d", len(items), out.ItemCount)
	}
	return items
}

// TestBigListingIsCut: the listing of a table with 60,000 files is cut into three ranges of about the same number of them.
func TestBigListingIsCut(t *testing.T) {
	t.Parallel()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	const files = 60_000
	changes := make([]icebergtest.Change, files)
	for i := range files {
		location := fmt.Sprintf("s3://world/db/t/data/p=%03d/%05d.parquet", i%500, i)
		b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentData, location, iceberg.ParquetFile, nil, nil, nil, 1, 6)
		if err != nil {
			t.Fatal(err)
		}
		changes[i] = icebergtest.AddFile(b.Build(), nil)
	}
	tbl.Commit(changes...)
	items := newDesk(t, w, tbl).cut(t)
	if len(items) != 3 || items[0].StartAfter != "" || items[2].EndAt != "" {
		t.Fatalf("%+v", items)
	}
	for i, item := range items {
		if item.Range != i || i > 0 && item.StartAfter != items[i-1].EndAt || item.Prefix != "s3://world/db/t/" {
			t.Errorf("range %d: %+v", i, item)
		}
	}
	for i, want := range []string{"/data/p=16", "/data/p=33"} {
		if !strings.Contains(items[i].EndAt, want) {
			t.Errorf("range %d ends at %s", i, items[i].EndAt)
		}
	}
}

func (d *desk) cut(t *testing.T) []maintenance.SweepItem {
	t.Helper()
	return d.listed(t, d.next(t, orphans(""), maintenance.Cursor{}))
}
