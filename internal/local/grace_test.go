package local_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"firn/internal/edge"
	"firn/internal/icebergtest"
	"firn/internal/lake/catalogs"
	"firn/internal/lake/catalogs/catalogtest"
	"firn/internal/local"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// TestExpiryOnAServiceEndsAtOnce: an expiry on a REST catalog does not hold the table for its grace period. It says what waits; a rewrite of manifests runs
// meanwhile, and the first run after the grace period deletes.
func TestExpiryOnAServiceEndsAtOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t")
	for i := range 4 {
		tbl.Commit(icebergtest.Append(icebergtest.Row{i, "a", 1.5}))
	}
	flags := []string{"type=rest", "uri=" + catalogtest.NewRESTServer(t, w.Store).URL}
	config, err := catalogs.LoadConfig(catalogs.Sources{Flags: flags, DefaultCatalog: "service"})
	if err != nil {
		t.Fatal(err)
	}
	cat, err := catalogs.Open(ctx, "service", map[string]string{"type": "rest", "uri": strings.TrimPrefix(flags[1], "uri=")})
	if err != nil {
		t.Fatal(err)
	}
	id := maintenance.TableID{Catalog: "service", Namespace: tbl.ID.Namespace, Name: tbl.ID.Name}
	if err := cat.(catalogs.Registrar).Register(ctx, id, tbl.Pointer().MetadataLocation); err != nil {
		t.Fatal(err)
	}
	clients := edge.NewClients(config, edge.Settings{WorkLocation: "mem://work/firn", StateLocation: "memory:"}, map[string]store.Full{"s3": w.Store, "mem": w.Store})
	clients.UseLake("service", edge.Lake{Catalog: cat, Store: w.Store})
	now := time.Now()
	runner, err := local.NewRunner(ctx, clients, local.Options{
		LockDir: t.TempDir(), Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	run := func(job maintenance.JobRequest) maintenance.ReportOutput {
		t.Helper()
		out, err := runner.Run(ctx, id, maintenance.Request{Trigger: "call", Jobs: []maintenance.JobRequest{job}})
		if err != nil || len(out.Jobs) != 1 {
			t.Fatalf("%+v, %v", out, err)
		}
		return out
	}
	out := run(maintenance.JobRequest{Job: maintenance.ExpireSnapshots, Args: map[string]string{
		"older_than": now.Add(time.Minute).UTC().Format(time.DateTime), "retain_last": "1",
	}})
	wait := out.Jobs[0].Waiting
	if out.Jobs[0].Outcome != maintenance.Committed || wait == nil || wait.Files != 3 || wait.NotBeforeMS < now.Add(15*time.Minute).UnixMilli() {
		t.Fatalf("%+v, waiting %+v: want three manifest lists that wait for 15 minutes", out.Jobs[0], wait)
	}
	if !strings.Contains(out.Jobs[0].Reason, "3 snapshots expired") {
		t.Errorf("reason %q", out.Jobs[0].Reason)
	}
	rewrite := maintenance.JobRequest{Job: maintenance.RewriteManifests}
	now = now.Add(time.Minute)
	if early := run(rewrite); len(early.Earlier) > 0 {
		t.Errorf("deleted after a minute: %+v", early.Earlier)
	}
	now = now.Add(15 * time.Minute)
	late := run(rewrite)
	if len(late.Earlier) != 1 || late.Earlier[0].RunID != out.Run.RunID || late.Earlier[0].Files != 3 ||
		late.Earlier[0].Columns["deleted_manifest_lists_count"] != 3 {
		t.Errorf("deleted %+v: want the three manifest lists of run %s", late.Earlier, out.Run.RunID)
	}
}
