//go:build e2e

// Package e2e runs the deployment that the CDK app synthesises, on this machine: infra/testdata/e2e/template.json says what there is and how it is wired,
// the functions are the real programs, and each call that they make is held against their roles' policies. `make e2e` runs it.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"firn/internal/contract"
	"firn/internal/icebergtest"
	"firn/internal/lake/catalogs"
	"firn/internal/lake/catalogs/catalogtest"
	"firn/internal/local/cloud"
	"firn/internal/local/cloud/template"
	"firn/internal/maintenance"
	"firn/internal/state"
	"firn/internal/state/dynamo"
	"firn/internal/state/dynamo/dynamofake"
	"firn/internal/store"
	"firn/internal/store/storetest"
	"firn/internal/workflow"
)

const (
	root    = "../../../.."
	account = "111122223333"
	region  = "eu-west-1"
	topic   = "arn:aws:sns:eu-west-1:111122223333:commits"
	// secretARN names the secret of the catalog "service", planted is its token: it must be nowhere else.
	secretARN = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:service-AbCdEf"
	planted   = "planted-token-of-the-service"

	assets = "cdk-hnb659fds-assets-" + account + "-" + region
)

func place() template.Place {
	return template.Place{Partition: "aws", Region: region, Account: account, Stack: "Firn"}
}

// programs builds the seven functions for this machine, once.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := filepath.Abs(filepath.Join(root, "bin", "e2e"))
	if err != nil {
		return "", err
	}
	args := []string{"build", "-tags", "lambda.norpc,nosqlite", "-buildvcs=false", "-o", dir + "/"}
	for _, name := range contract.Functions() {
		args = append(args, "./functions/"+name)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build functions: %w\n%s", err, out)
	}
	return dir, nil
})

// document is the synthesised template as decoded JSON, for tests that change it.
func document(t testing.TB) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "infra", "testdata", "e2e", "template.json"))
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, string(data))
}

func decode(t testing.TB, text string) map[string]any {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// clone copies a template that is to be changed.
func clone(t testing.TB, doc map[string]any) map[string]any {
	t.Helper()
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, string(data))
}

// ofType are the resources of a type by logical ID.
func ofType(doc map[string]any, kind string) map[string]map[string]any {
	found := map[string]map[string]any{}
	for id, r := range doc["Resources"].(map[string]any) {
		if r := r.(map[string]any); r["Type"] == kind {
			properties, _ := r["Properties"].(map[string]any)
			found[id] = properties
		}
	}
	return found
}

func read(doc map[string]any, at template.Place) (*template.Stack, error) {
	data, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	return template.Read(data, at)
}

// faults are what a test lets go wrong; its fields may be set before what they are about happens.
type faults struct {
	mu       sync.Mutex
	disturb  func(http.ResponseWriter, *http.Request, cloud.Call) bool
	invoking func(workflow.Invocation) *workflow.TaskError
	observe  func(workflow.Event)
}

func (f *faults) set(change func(*faults)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *faults) get() (func(http.ResponseWriter, *http.Request, cloud.Call) bool, func(workflow.Invocation) *workflow.TaskError, func(workflow.Event)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.disturb, f.invoking, f.observe
}

// deployment is a deployed stack with a lake beside it, in which the test is a writer.
type deployment struct {
	*cloud.Cloud

	t     testing.TB
	world *icebergtest.World
	s3    *storetest.S3Server
	// service is a catalog beside Glue that wants a token.
	service *catalogtest.RESTServer
	glue    *catalogtest.GlueServer
	writer  *catalogs.Glue
	state   state.Store
	faults  *faults
	logs    *logs
}

// deploy starts the stack of the template.
func deploy(t testing.TB, doc map[string]any) *deployment {
	t.Helper()
	d, err := tryDeploy(t, doc)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// tryDeploy is deploy with faults of the template as an error.
func tryDeploy(t testing.TB, doc map[string]any) (*deployment, error) {
	t.Helper()
	stack, err := read(doc, place())
	if err != nil {
		return nil, err
	}
	config, err := os.ReadFile(filepath.Join(root, "infra", "testdata", "e2e", "firn.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	d := prepare(t, stack, config)
	if err := d.Deploy(stack); err != nil {
		return nil, err
	}
	return d, nil
}

// prepare makes an account in which nothing is deployed yet, with what the stack will find there, and the firn.yaml of its functions.
func prepare(t testing.TB, stack *template.Stack, config []byte) *deployment {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	buckets := []string{"lake", partner, assets}
	for _, b := range stack.Buckets {
		buckets = append(buckets, b.Name)
	}
	d := &deployment{t: t, faults: &faults{}, logs: &logs{}, glue: catalogtest.NewGlueServer(t)}
	s3 := storetest.NewS3Server(t, buckets...)
	d.s3 = s3
	d.world = icebergtest.NewWorld(t)
	d.world.Clock.Set(time.Now().Add(-time.Hour))
	d.world.Location = "s3://lake/warehouse"
	if d.world.Store, err = store.New(store.Config{Properties: s3.Properties}); err != nil {
		t.Fatal(err)
	}
	d.service = catalogtest.NewRESTServer(t, d.world.Store)
	d.service.Token = planted
	config = bytes.ReplaceAll(config, []byte("https://catalog.example.com"), []byte(d.service.URL))
	s3.Seed(t, assets, "ASSET-firn.yaml", config, time.Now())
	items := dynamofake.Start(t)
	d.Cloud, err = cloud.New(cloud.Options{
		Place: place(), S3: s3, DynamoDB: items.Config.Handler, Glue: d.glue, Now: time.Now, Others: rolesOfTheOwner(t, stack), Secrets: map[string]string{secretARN: `{"token":"` + planted + `"}`}, Noisy: []string{"lake"}, Log: d.logs.add,
		Program: func(key string) (string, error) {
			name, is := strings.CutPrefix(strings.TrimSuffix(key, ".zip"), "ASSET-")
			if !is {
				return "", fmt.Errorf("asset %s is not known", key)
			}
			return filepath.Join(bin, name), nil
		},
		Disturb: func(w http.ResponseWriter, r *http.Request, call cloud.Call) bool {
			disturb, _, _ := d.faults.get()
			return disturb != nil && disturb(w, r, call)
		},
		Invoking: func(i workflow.Invocation) *workflow.TaskError {
			if _, invoking, _ := d.faults.get(); invoking != nil {
				return invoking(i)
			}
			return nil
		},
		Observe: func(e workflow.Event) {
			if _, _, observe := d.faults.get(); observe != nil {
				observe(e)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what the functions wrote:\n%s", d.logs.text())
		}
	})
	d.writer, err = catalogs.OpenGlue(t.Context(), "glue", map[string]string{
		"glue.endpoint": d.glue.URL, "glue.region": region, "glue.access-key-id": "writer", "glue.secret-access-key": "w",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range stack.Tables {
		d.state = state.New(dynamo.New(dynamodb.New(dynamodb.Options{
			Region: region, BaseEndpoint: aws.String(d.URL()), Credentials: credentials.NewStaticCredentialsProvider(cloud.Operator, "s", ""),
		}), table.Name))
	}
	return d
}

// logs keeps the last lines that functions wrote.
type logs struct {
	mu    sync.Mutex
	lines []string
}

func (l *logs) add(function, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, function+": "+line)
}

func (l *logs) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines[max(0, len(l.lines)-80):], "\n")
}

func (l *logs) contain(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(strings.Join(l.lines, "\n"), part)
}

// lakeTable is a table in Glue that the test writes to.
type lakeTable struct {
	*icebergtest.Table

	d *deployment
}

// table makes a table db.NAME in Glue.
func (d *deployment) table(name string, opts ...icebergtest.TableOption) *lakeTable {
	d.t.Helper()
	tbl := d.world.NewTable("db."+name, append([]icebergtest.TableOption{icebergtest.Partitioned("g")}, opts...)...)
	tbl.ID.Catalog = "glue"
	d.glue.PutTable(map[string]any{
		"DatabaseName": "db", "Name": name, "VersionId": "0", "CatalogId": account, "TableType": "EXTERNAL_TABLE",
		"StorageDescriptor": map[string]any{"Location": tbl.State().Metadata.Location()},
		"Parameters":        map[string]any{"table_type": "ICEBERG", "metadata_location": tbl.Pointer().MetadataLocation},
	})
	return &lakeTable{Table: tbl, d: d}
}

// commit commits as an engine would, against what Glue points to now. No event is sent.
func (t *lakeTable) commit(changes ...icebergtest.Change) icebergtest.Commit {
	t.d.t.Helper()
	base := t.follow()
	c := t.Commit(changes...)
	if err := t.d.writer.Swap(context.Background(), t.ID, base, t.Pointer().MetadataLocation); err != nil {
		t.d.t.Fatal(err)
	}
	return c
}

// follow lets the test's own view of the table follow Glue.
func (t *lakeTable) follow() catalogs.Pointer {
	t.d.t.Helper()
	ctx := context.Background()
	ptr, err := t.d.writer.Load(ctx, t.ID)
	if err != nil {
		t.d.t.Fatal(err)
	}
	if base := t.Pointer(); base.MetadataLocation != ptr.MetadataLocation {
		if err := t.d.world.Catalog.Swap(ctx, t.ID, base, ptr.MetadataLocation); err != nil {
			t.d.t.Fatal(err)
		}
	}
	return ptr
}

// content reads the table's rows as they are now.
func (t *lakeTable) content() icebergtest.Content {
	t.d.t.Helper()
	t.follow()
	return t.Rows()
}

// dataFiles counts the live data files.
func (t *lakeTable) dataFiles() int {
	t.d.t.Helper()
	t.follow()
	text := t.State().Metadata.CurrentSnapshot().Summary.Properties["total-data-files"]
	var n int
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.d.t.Fatalf("total-data-files is %q", text)
	}
	return n
}

// fill commits small files: so many commits with a file in each of so many partitions.
func (t *lakeTable) fill(commits, partitions int) {
	t.d.t.Helper()
	for i := range commits {
		var rows []icebergtest.Row
		for p := range partitions {
			rows = append(rows, icebergtest.Row{int64(i*partitions + p), fmt.Sprintf("g%02d", p), float64(i) / 3})
		}
		t.commit(icebergtest.Append(rows...))
	}
}

// settle lets everything happen that can happen now.
func (d *deployment) settle() {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := d.Settle(ctx); err != nil {
		d.t.Error(err)
	}
}

// later lets so much time pass that every table may be looked at again and every message is visible again, and settles.
func (d *deployment) later(tables ...*lakeTable) {
	d.t.Helper()
	ctx := context.Background()
	for _, t := range tables {
		look, err := d.state.LastLook(ctx, t.ID)
		if err == nil && !look.At.IsZero() {
			err = d.state.ClaimLook(ctx, look, time.Now().Add(-time.Hour))
		}
		if err != nil {
			d.t.Error(err)
		}
	}
	d.Elapse()
	d.settle()
}

// ended are the outcome events so far, the newest last.
func (d *deployment) ended() []runEnded {
	d.t.Helper()
	var out []runEnded
	for _, data := range d.Events(contract.EventRunEnded) {
		var e struct{ Detail runEnded }
		if err := json.Unmarshal(data, &e); err != nil {
			d.t.Error(err)
		}
		out = append(out, e.Detail)
	}
	return out
}

// runEnded is what the test reads of an outcome event.
type runEnded struct {
	RunID   string              `json:"run_id"`
	Table   string              `json:"table"`
	Outcome maintenance.Outcome `json:"outcome"`
	Jobs    []struct {
		Job     maintenance.Job     `json:"job"`
		Outcome maintenance.Outcome `json:"outcome"`
		Columns map[string]int64    `json:"columns"`
	} `json:"jobs"`
}

// clean fails the test when a policy did not allow a call, and when anything was given up or refused.
func (d *deployment) clean() {
	d.t.Helper()
	for _, v := range d.Violations() {
		d.t.Error(v)
	}
	for _, queue := range []string{"DeadLetters", "Refused", "Missed"} {
		for _, m := range d.Messages(queue) {
			d.t.Errorf("queue %s has %s %v", queue, m.Body, m.Attributes)
		}
	}
}

// unchanged fails the test when the table's rows are not the wanted ones.
func (t *lakeTable) unchanged(want icebergtest.Content) {
	t.d.t.Helper()
	if diff := cmp.Diff(want, t.content()); diff != "" {
		t.d.t.Errorf("rows of %s changed:\n%s", t.ID, diff)
	}
}
