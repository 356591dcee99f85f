package local_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"firn/internal/edge"
	"firn/internal/icebergtest"
	"firn/internal/lake/catalogs"
	"firn/internal/local"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// host is a runner over one table of a memory world.
func host(t *testing.T, cat catalogs.Catalog, st *store.Memory, now func() time.Time) *local.Runner {
	t.Helper()
	config, err := catalogs.LoadConfig(catalogs.Sources{Flags: []string{"type=in-memory"}, DefaultCatalog: cat.Name()})
	if err != nil {
		t.Fatal(err)
	}
	stores := map[string]store.Full{"s3": st, "mem": st}
	settings := edge.Settings{WorkLocation: "mem://work/firn", StateLocation: "memory:"}
	clients := edge.NewClients(config, settings, stores)
	mux, err := store.New(store.Config{Stores: stores})
	if err != nil {
		t.Fatal(err)
	}
	clients.UseLake(clients.DefaultCatalog(), edge.Lake{Catalog: cat, Store: mux})
	level := slog.LevelError
	if os.Getenv("FIRN_TEST_LOG") != "" {
		level = slog.LevelInfo
	}
	runner, err := local.NewRunner(context.Background(), clients, local.Options{
		LockDir: t.TempDir(), Now: now, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: level})),
	})
	if err != nil {
		t.Fatal(err)
	}
	return runner
}

// refused are the reference tables that hold files which no engine of ours rewrites, and the word that the reason must hold.
func refused() map[string]string {
	return map[string]string{"fmt_avro": "AVRO", "fmt_orc": "ORC", "encrypted_file": "encrypted"}
}

func TestRewriteAllKeepsEveryReferenceTable(t *testing.T) {
	t.Parallel()
	for _, name := range icebergtest.ReferenceNames(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			ref := icebergtest.Reference(t, name)
			before, beforeErr := icebergtest.ReadRows(ctx, ref.Store, ref.Table(t), nil)
			runner := host(t, ref.Catalog, ref.Store, ref.Clock.Now)
			request := maintenance.JobRequest{Job: maintenance.RewriteDataFiles, Options: map[string]string{"rewrite-all": "true"}}
			report, err := runner.Run(ctx, ref.ID, maintenance.Request{Jobs: []maintenance.JobRequest{request}, Trigger: "call"})
			if err != nil {
				t.Fatal(err)
			}
			job := report.Jobs[0]
			reason := strings.Join(append([]string{job.Reason}, job.Refusals...), "; ") + string(job.Plan)
			if word, isRefused := refused()[name]; isRefused {
				if !strings.Contains(reason, word) {
					t.Errorf("outcome %s: %s: want a refusal that says %s", job.Outcome, reason, word)
				}
				if name != "encrypted_file" {
					return
				}
			} else if job.Outcome != maintenance.Committed && ref.Expected.Counts["data_files"] > 0 {
				t.Fatalf("outcome %s: %s", job.Outcome, reason)
			}
			after, err := icebergtest.ReadRows(ctx, ref.Store, ref.Table(t), nil)
			if err != nil && beforeErr != nil && (name == "encrypted_file" || name == "defaults_v3") {
				t.Skipf("the judge reads this table neither before nor after: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, after); diff != "" && beforeErr == nil {
				t.Errorf("rows changed:\n%s", diff)
			}
			for _, fault := range after.Check(ref.Expected.Rows.RowCount, ref.Expected.Columns) {
				t.Error(fault)
			}
		})
	}
}
