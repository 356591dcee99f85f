//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"firn/internal/contract"
	"firn/internal/maintenance"
)

func trail(source, name, table, failed string) map[string]any {
	detail := map[string]any{
		"eventVersion": "1.11", "eventSource": strings.TrimPrefix(source, "aws.") + ".amazonaws.com", "eventName": name, "awsRegion": region, "readOnly": false,
		"requestParameters": map[string]any{"databaseName": "db", "tableInput": map[string]any{"name": table}},
	}
	if failed != "" {
		detail["errorCode"] = failed
	}
	return detail
}

func object(bucket, key string) map[string]any {
	return map[string]any{"version": "0", "bucket": map[string]any{"name": bucket}, "object": map[string]any{"key": key, "size": 1, "etag": "x", "sequencer": "0"}, "reason": "PutObject"}
}

func glueChange(database, table string) map[string]any {
	return map[string]any{"databaseName": database, "tableName": table, "typeOfChange": "UpdateTable", "changedPartitions": []any{}}
}

func own(table string) map[string]any {
	return map[string]any{"v": 1, "source": "my-writer", "namespace": []string{"db"}, "table": table}
}

const (
	glueTable    = "Glue Data Catalog Table State Change"
	glueDatabase = "Glue Data Catalog Database State Change"
	trailCall    = "AWS API Call via CloudTrail"
	created      = "Object Created"
	committedOwn = "Iceberg Table Committed"
	ended        = "Step Functions Execution Status Change"
)

// TestRules: which events reach the queue. One that should not costs a look for nothing, one that should and does not is a commit that waits for the clock.
func TestRules(t *testing.T) { rules(t, document(t)) }

func rules(t testing.TB, doc map[string]any) {
	d := deploy(t, doc)
	machine := "arn:aws:states:" + region + ":" + account + ":stateMachine:"
	for name, resource := range doc["Resources"].(map[string]any) {
		if resource.(map[string]any)["Type"] == "AWS::StepFunctions::StateMachine" {
			machine += "Firn-" + name
		}
	}
	status := func(machine, status string) map[string]any {
		return map[string]any{"stateMachineArn": machine, "status": status, "name": "x", "executionArn": "x"}
	}
	const warehouse = "warehouse/db/t/metadata/00001-aa.metadata.json"
	for _, c := range []struct {
		name, source, kind string
		detail             map[string]any
		want               int
	}{
		{"commit in Glue", "aws.glue", glueTable, glueChange("db", "t"), 1},
		{"other database", "aws.glue", glueTable, glueChange("other", "t"), 0},
		{"database's change", "aws.glue", glueDatabase, map[string]any{"databaseName": "db", "typeOfChange": "CreateTable", "changedTables": []string{"t"}}, 1},
		{"Glue's name by somebody else", "custom", glueTable, glueChange("db", "t"), 0},
		{"another event of Glue", "aws.glue", "Glue Job State Change", glueChange("db", "t"), 0},
		{"metadata file", "aws.s3", created, object("lake", warehouse), 1},
		{"packed metadata file", "aws.s3", created, object("lake", warehouse+".gz"), 1},
		{"data file", "aws.s3", created, object("lake", "warehouse/db/t/data/a.parquet"), 0},
		{"outside of the warehouse", "aws.s3", created, object("lake", "else/db/t/metadata/00001-aa.metadata.json"), 0},
		{"other bucket", "aws.s3", created, object("pond", warehouse), 0},
		{"another account's bucket", "aws.s3", created, object(partner, "tables/db/t/metadata/00001-aa.metadata.json"), 1},
		{"its packed metadata file", "aws.s3", created, object(partner, "tables/db/t/metadata/00001-aa.metadata.json.gz"), 1},
		{"deleted object", "aws.s3", "Object Deleted", object("lake", warehouse), 0},
		{"S3's name by somebody else", "custom", created, object("lake", warehouse), 0},
		{"commit seen by CloudTrail", "aws.glue", trailCall, trail("aws.glue", "UpdateTable", "t", ""), 1},
		{"commit in S3 Tables", "aws.s3tables", trailCall, trail("aws.s3tables", "UpdateTableMetadataLocation", "t", ""), 1},
		{"failed commit", "aws.glue", trailCall, trail("aws.glue", "UpdateTable", "t", "ConcurrentModificationException"), 0},
		{"read seen by CloudTrail", "aws.glue", trailCall, trail("aws.glue", "GetTable", "t", ""), 0},
		{"CloudTrail of another service", "aws.iam", trailCall, trail("aws.iam", "UpdateTable", "t", ""), 0},
		{"another event with a call's fields", "aws.glue", "AWS Console Action via CloudTrail", trail("aws.glue", "UpdateTable", "t", ""), 0},
		{"a writer's own event", "my-writer", committedOwn, own("t"), 1},
		{"some event", "my-writer", "Something Else", own("t"), 0},
		{"failed run", "aws.states", ended, status(machine, "FAILED"), 1},
		{"run that timed out", "aws.states", ended, status(machine, "TIMED_OUT"), 1},
		{"aborted run", "aws.states", ended, status(machine, "ABORTED"), 1},
		{"run that succeeded", "aws.states", ended, status(machine, "SUCCEEDED"), 0},
		{"run of another machine", "aws.states", ended, status(machine+"x", "FAILED"), 0},
		{"a run's name by somebody else", "custom", ended, status(machine, "FAILED"), 0},
		{"another event of Step Functions", "aws.states", "Step Functions Map Run Status Change", status(machine, "FAILED"), 0},
	} {
		d.Publish(c.source, c.kind, c.detail)
		if got := len(d.Messages("Commits")); got != c.want {
			t.Errorf("%s: %d messages, want %d", c.name, got, c.want)
		}
		d.Purge("Commits")
		if c.source == "aws.states" || c.want == 0 {
			continue
		}
		foreign, err := json.Marshal(map[string]any{
			"version": "0", "id": "1", "source": c.source, "detail-type": c.kind, "account": "999999999999", "region": region, "resources": []string{}, "detail": c.detail,
		})
		if err != nil {
			t.Fatal(err)
		}
		d.PublishRaw(foreign)
		if got := len(d.Messages("Commits")); got != 0 {
			t.Errorf("%s, of another account: %d messages, want none", c.name, got)
		}
		d.Purge("Commits")
	}
	if err := d.Notify(topic, `{"v":1}`, nil); err != nil {
		t.Fatal(err)
	}
	if got := d.Messages("Commits"); len(got) != 1 || got[0].Body != `{"v":1}` {
		t.Errorf("notification: %+v, want the message itself", got)
	}
	d.clean()
}

// TestEverySource: a table for each source that alone tells of its commits, and one that nobody tells of, which the clock finds. All end compacted.
func TestEverySource(t *testing.T) { everySource(t, document(t)) }

func everySource(t testing.TB, doc map[string]any) {
	d := deploy(t, doc)
	tables := map[string]*lakeTable{}
	for _, name := range []string{"by_glue", "by_s3", "by_trail", "by_own", "by_topic"} {
		tables[name] = d.table(name)
		tables[name].fill(10, 1)
	}
	d.Publish("aws.glue", glueTable, glueChange("db", "by_glue"))
	d.Publish("aws.s3", created, object("lake", strings.TrimPrefix(tables["by_s3"].Pointer().MetadataLocation, "s3://lake/")))
	d.Publish("aws.glue", trailCall, trail("aws.glue", "UpdateTable", "by_trail", ""))
	d.Publish("my-writer", committedOwn, own("by_own"))
	body, err := json.Marshal(own("by_topic"))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Notify(topic, string(body), nil); err != nil {
		t.Fatal(err)
	}
	forged := fmt.Sprintf(`{"version":"0","id":"1","source":"aws.glue","detail-type":%q,"account":"999999999999","region":%q,"resources":[],"detail":{"databaseName":"db","tableName":"by_clock","typeOfChange":"UpdateTable","changedPartitions":[]}}`, glueTable, region)
	if err := d.Notify(topic, forged, nil); err != nil { // a topic has no rule that looks at the account
		t.Fatal(err)
	}
	tables["by_clock"] = d.table("by_clock")
	tables["by_clock"].fill(10, 1)
	d.settle()
	if n := tables["by_clock"].dataFiles(); n != 10 {
		t.Errorf("an event of a foreign account was heard: %d files", n)
	}
	d.Purge("Refused")
	if err := d.Fire(t.Context(), "Clock"); err != nil {
		t.Error(err)
	}
	var all []*lakeTable
	for _, tbl := range tables {
		all = append(all, tbl)
	}
	d.later(all...)
	for name, tbl := range tables {
		if n := tbl.dataFiles(); n != 1 {
			t.Errorf("%s: %d data files are left", name, n)
		}
	}
	for _, e := range d.ended() {
		if e.Outcome != maintenance.Committed {
			t.Errorf("run on %s ended %s", e.Table, e.Outcome)
		}
	}
	if n := len(d.ended()); n != len(tables) {
		t.Errorf("%d runs, want one a table", n)
	}
	d.clean()
}

// TestDuplicatesAndDisorder: events many times and in any order, among them such as speak of nothing and such as cannot be understood: one run a table,
// batches of the mapping's size, and what is no event waits for people.
func TestDuplicatesAndDisorder(t *testing.T) { duplicatesAndDisorder(t, document(t)) }

func duplicatesAndDisorder(t testing.TB, doc map[string]any) {
	d := deploy(t, doc)
	a, b := d.table("a"), d.table("b")
	a.fill(10, 1)
	b.fill(10, 1)
	contentA, contentB := a.content(), b.content()
	for i := range 130 {
		name := []string{"b", "a", "gone"}[i%3]
		d.Publish("aws.glue", glueTable, glueChange("db", name))
	}
	if err := d.Notify(topic, "this is no event", nil); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		d.Publish("my-writer", committedOwn, own("nobody"))
	}
	d.settle()
	looks := d.Looks()
	if looks.Largest != 100 || looks.Parallel < 2 || looks.Parallel > 5 {
		t.Errorf("looks %+v: want batches of 100, at most 5 at once", looks)
	}
	d.later(a, b)
	if n := len(d.ended()); n != 2 {
		t.Errorf("%d runs, want one a table", n)
	}
	a.unchanged(contentA)
	b.unchanged(contentB)
	if a.dataFiles() != 1 || b.dataFiles() != 1 {
		t.Errorf("%d and %d data files are left", a.dataFiles(), b.dataFiles())
	}
	refused := d.Messages("Refused")
	if len(refused) != 1 || refused[0].Body != "this is no event" || refused[0].Attributes["error"] == "" {
		t.Errorf("refused messages %+v: want the one that is no event, with the reason", refused)
	}
	d.Purge("Refused")
	d.clean()
}

// TestClockFails: a call of the clock that fails goes to the queue that people watch, after the retries of the schedule.
func TestClockFails(t *testing.T) { clockFails(t, document(t)) }

func clockFails(t testing.TB, doc map[string]any) {
	doc = clone(t, doc)
	for _, r := range doc["Resources"].(map[string]any) {
		properties, _ := r.(map[string]any)["Properties"].(map[string]any)
		if properties["Description"] == "Firn: "+contract.FunctionSchedule {
			properties["Environment"].(map[string]any)["Variables"].(map[string]any)[contract.EnvConfig] = "s3://lake/nowhere.yaml"
		}
	}
	d := deploy(t, doc)
	if err := d.Fire(t.Context(), "Clock"); err == nil {
		t.Error("the clock's call succeeded")
	}
	if n := d.Starts(contract.FunctionSchedule); n != 4 {
		t.Errorf("schedule was started %d times, want the call and three retries", n)
	}
	if n := len(d.Messages("Missed")); n != 1 {
		t.Errorf("%d missed calls wait, want 1", n)
	}
}
