//go:build e2e

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"firn/internal/contract"
	"firn/internal/icebergtest"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// TestSecret: a table of a catalog whose token is in Secrets Manager is maintained; the token is in no template, no environment, no log, no event and no work
// object, and who does not open catalogs does not ask for it: their roles would not allow it.
func TestSecret(t *testing.T) { secretCatalog(t, document(t)) }

func secretCatalog(t testing.TB, doc map[string]any) {
	d := deploy(t, doc)
	tbl := d.world.NewTable("db.served", icebergtest.Partitioned("g"))
	for i := range 12 {
		tbl.Commit(icebergtest.Append(icebergtest.Row{int64(i), "g1", 0.5}))
	}
	catalog, err := catalogs.OpenREST("service", map[string]string{"uri": d.service.URL, "token": planted})
	if err != nil {
		t.Fatal(err)
	}
	id := tbl.ID
	id.Catalog = "service"
	if err := catalog.Register(t.Context(), id, tbl.Pointer().MetadataLocation); err != nil {
		t.Fatal(err)
	}
	event := own("served")
	event["catalog"] = "service"
	d.Publish("my-writer", committedOwn, event)
	d.settle()
	runs := d.ended()
	if len(runs) != 1 || runs[0].Outcome != maintenance.Committed || runs[0].Jobs[0].Columns["rewritten_data_files_count"] != 12 {
		t.Fatalf("outcomes %+v: want one committed run over 12 files", runs)
	}
	if ptr, err := catalog.Load(t.Context(), id); err != nil || ptr.MetadataLocation == tbl.Pointer().MetadataLocation {
		t.Errorf("the service still points to %s: %v", ptr.MetadataLocation, err)
	}
	if err := d.Fire(t.Context(), "Clock"); err != nil { // schedule lists the service's tables
		t.Error(err)
	}
	d.settle()
	d.clean()
	nowhere(t, d, doc)
}

// nowhere looks for the planted token where it must not be.
func nowhere(t testing.TB, d *deployment, doc map[string]any) {
	t.Helper()
	template, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(template), planted) {
		t.Error("the template has the secret")
	}
	for _, fn := range d.Stack().Functions {
		for name, value := range fn.Environment.Variables {
			if strings.Contains(value, planted) {
				t.Errorf("variable %s of %s has the secret", name, fn.ID)
			}
		}
	}
	if d.logs.contain(planted) {
		t.Error("a log has the secret")
	}
	for _, e := range d.Events(contract.EventRunEnded) {
		if strings.Contains(string(e), planted) {
			t.Error("an outcome event has the secret")
		}
	}
	for _, b := range d.Stack().Buckets {
		for o, err := range d.world.Store.List(t.Context(), "s3://"+b.Name+"/", store.ListOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			if data, err := d.world.Store.Get(t.Context(), o.Location); err != nil || strings.Contains(string(data), planted) {
				t.Errorf("%s has the secret, or cannot be read: %v", o.Location, err)
			}
		}
	}
}
