//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"firn/internal/contract"
	"firn/internal/icebergtest"
	"firn/internal/local/cloud/template"
	"firn/internal/maintenance"
	"firn/internal/store"
	"firn/internal/workflow"
)

// decayed is a deployment with a table that needs every job: small files, old snapshots, many manifests, debris that is old enough.
func decayed(t testing.TB, doc map[string]any) (d *deployment, tbl *lakeTable, debris string) {
	t.Helper()
	return decayedIn(t, doc, "s3://lake/warehouse")
}

// decayedIn is decayed with the table in a warehouse of the caller's.
func decayedIn(t testing.TB, doc map[string]any, warehouse string) (d *deployment, tbl *lakeTable, debris string) {
	t.Helper()
	d = deploy(t, doc)
	d.world.Location = warehouse
	d.world.Clock.Set(time.Now().Add(-10 * 24 * time.Hour))
	tbl = d.table("t",
		icebergtest.Property("firn.expire_snapshots.trigger.interval", "1d"),
		icebergtest.Property("firn.remove_orphan_files.trigger.interval", "1d"),
		icebergtest.Property("firn.remove_orphan_files.enabled", "true"))
	tbl.fill(1, 2)
	d.TableChanged("db", "t") // the first look: ages count from it
	d.settle()
	ctx := context.Background()
	head, err := d.state.LoadHead(ctx, tbl.ID)
	if err == nil {
		head.FirstSeenMS -= (9 * 24 * time.Hour).Milliseconds()
		_, err = d.state.SaveHead(ctx, head)
	}
	if err != nil {
		t.Fatal(err)
	}
	tbl.fill(12, 2)
	debris = tbl.State().Metadata.Location() + "/data/debris-of-a-dead-writer.parquet"
	bucket, key, _ := strings.Cut(strings.TrimPrefix(debris, "s3://"), "/")
	d.s3.Seed(t, bucket, key, []byte("debris"), time.Now().Add(-5*24*time.Hour))
	return d, tbl, debris
}

// TestChain: a run of all jobs that are due. In the end the table is small, old snapshots and the debris are gone, and the rows are the same.
func TestChain(t *testing.T) { chain(t, document(t)) }

func chain(t testing.TB, doc map[string]any) {
	d, tbl, debris := decayed(t, doc)
	healed(t, d, tbl, debris)
}

// healed lets the run of all due jobs come, and sees that it did them.
func healed(t testing.TB, d *deployment, tbl *lakeTable, debris string) {
	t.Helper()
	want := tbl.content()
	d.TableChanged("db", "t")
	d.later(tbl)
	tbl.unchanged(want)
	if _, err := d.world.Store.Head(context.Background(), debris); err == nil {
		t.Error("debris is still there")
	}
	if n := len(tbl.State().Metadata.Snapshots()); n > 3 {
		t.Errorf("%d snapshots are left", n)
	}
	runs := d.ended()
	if len(runs) != 1 || runs[0].Outcome != maintenance.Committed {
		t.Fatalf("outcomes %+v: want one committed run", runs)
	}
	done := map[maintenance.Job]maintenance.Outcome{}
	for _, job := range runs[0].Jobs {
		done[job.Job] = job.Outcome
	}
	for _, job := range []maintenance.Job{maintenance.RewriteDataFiles, maintenance.ExpireSnapshots, maintenance.RemoveOrphanFiles} {
		if done[job] != maintenance.Committed {
			t.Errorf("%s ended %q: %v", job, done[job], done)
		}
	}
	d.clean()
}

// TestNewVersionInMidRun: a deployment in the middle of a run. The run ends with the code that it started with; the next one takes the new code.
func TestNewVersionInMidRun(t *testing.T) { newVersionInMidRun(t, document(t)) }

func newVersionInMidRun(t testing.TB, doc map[string]any) {
	d := deploy(t, doc)
	tbl := d.table("t")
	tbl.fill(10, 1)
	want := tbl.content()
	stack, err := read(nextVersions(t, doc))
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	deployed := make(chan error, 1)
	d.faults.set(func(f *faults) {
		f.invoking = func(call workflow.Invocation) *workflow.TaskError {
			if call.State == "CompactGroup" {
				once.Do(func() { deployed <- d.Deploy(stack) })
			}
			return nil
		}
	})
	d.TableChanged("db", "t")
	d.settle()
	if err := <-deployed; err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{contract.FunctionCommit, contract.FunctionReport} {
		if d.Invocations(verb, 1) != 1 || d.Invocations(verb, 2) != 0 {
			t.Errorf("%s: version 1 was called %d times, version 2 %d times", verb, d.Invocations(verb, 1), d.Invocations(verb, 2))
		}
	}
	tbl.unchanged(want)
	d.later(tbl) // the look that our own commit asks for
	d.world.Clock.Set(time.Now())
	tbl.fill(12, 1)
	d.TableChanged("db", "t")
	d.later(tbl)
	if d.Invocations(contract.FunctionCommit, 2) != 1 || d.Invocations(contract.FunctionReport, 2) != 1 || tbl.dataFiles() > 2 {
		t.Errorf("the next run: version 2 of commit was called %d times, %d data files are left", d.Invocations(contract.FunctionCommit, 2), tbl.dataFiles())
	}
	d.clean()
}

// nextVersions is a template in which each published version is a new one, and a place where they have the number 2. Those of the old template are retained.
func nextVersions(t testing.TB, doc map[string]any) (map[string]any, template.Place) {
	t.Helper()
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	next, at := decode(t, strings.ReplaceAll(string(data), "VERSION", "NEXT")), place()
	at.Versions = map[string]int{}
	for id := range next["Resources"].(map[string]any) {
		if strings.HasSuffix(id, "NEXT") {
			at.Versions[id] = 2
		}
	}
	return next, at
}

// TestPowers: what roles must not do is refused, whoever has taken their place.
func TestPowers(t *testing.T) { powers(t, document(t)) }

func powers(t testing.TB, doc map[string]any) {
	d := deploy(t, doc)
	tbl := d.table("t")
	tbl.fill(1, 1)
	ctx, location := context.Background(), tbl.State().Metadata.Location()
	roles := map[string]string{}
	for id, r := range doc["Resources"].(map[string]any) {
		if properties, _ := r.(map[string]any)["Properties"].(map[string]any); r.(map[string]any)["Type"] == "AWS::IAM::Role" {
			if verb, is := strings.CutPrefix(properties["Description"].(string), "Firn's function "); is {
				roles[verb] = "Firn-" + id
			}
		}
	}
	remove := func(location string) func(store.Full) error {
		return func(s store.Full) error {
			_, failures, err := s.Delete(ctx, []string{location})
			for _, f := range failures {
				err = errors.Join(err, f.Err)
			}
			return err
		}
	}
	for _, c := range []struct {
		verb, what string
		do         func(store.Full) error
	}{
		{contract.FunctionCompact, "write metadata", func(s store.Full) error {
			return s.Put(ctx, location+"/metadata/forged.metadata.json", []byte("{}"), store.WriteOptions{})
		}},
		{contract.FunctionCompact, "write elsewhere", func(s store.Full) error { return s.Put(ctx, "s3://lake/else/x", []byte("x"), store.WriteOptions{}) }},
		{contract.FunctionCommit, "delete", remove(location + "/data/x")},
		{contract.FunctionSweep, "write a table's files", func(s store.Full) error { return s.Put(ctx, location+"/data/x", []byte("x"), store.WriteOptions{}) }},
		{contract.FunctionSweep, "delete elsewhere", remove("s3://lake/else/x")},
		{contract.FunctionEvaluate, "read data", func(s store.Full) error { _, err := s.Get(ctx, location+"/data/x.parquet"); return err }},
		{contract.FunctionReport, "read a table", func(s store.Full) error { _, err := s.Get(ctx, location+"/metadata/x"); return err }},
		{contract.FunctionSchedule, "read work", func(s store.Full) error { _, err := s.Get(ctx, "s3://firn-storageworkd07184ae/runs/x"); return err }},
	} {
		s, err := store.New(store.Config{Properties: map[string]string{
			"s3.endpoint": d.URL(), "s3.region": region, "s3.access-key-id": roles[c.verb], "s3.secret-access-key": "local",
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.do(s); err == nil || len(d.ForgetViolations()) == 0 {
			t.Errorf("%s may %s: %v", c.verb, c.what, err)
		}
	}
}
