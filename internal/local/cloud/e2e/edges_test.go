//go:build e2e

package e2e

import (
	"context"
	"strings"
	"sync"
	"testing"

	"firn/internal/local/cloud/iam"
	"firn/internal/maintenance"
	"firn/internal/store"
	"firn/internal/workflow"
)

// TestUndeliverable: a queue that takes nothing, since its policy was lost. What rules and topics cannot deliver is a dead letter, and not gone.
func TestUndeliverable(t *testing.T) { undeliverable(t, document(t)) }

func undeliverable(t testing.TB, doc map[string]any) {
	doc = clone(t, doc)
	for id, policy := range ofType(doc, "AWS::SQS::QueuePolicy") {
		if strings.Contains(id, "Commits") {
			document := policy["PolicyDocument"].(map[string]any)
			document["Statement"] = document["Statement"].([]any)[:1] // what is left forbids
		}
	}
	d := deploy(t, doc)
	machine := ""
	for _, m := range d.Stack().Machines {
		machine = m.ARN
	}
	d.Publish("aws.glue", glueTable, glueChange("db", "t"))
	d.Publish("aws.s3", created, object("lake", "warehouse/db/t/metadata/00001-aa.metadata.json"))
	d.Publish("aws.glue", trailCall, trail("aws.glue", "UpdateTable", "t", ""))
	d.Publish("my-writer", committedOwn, own("t"))
	d.Publish("aws.states", ended, map[string]any{"stateMachineArn": machine, "status": "FAILED"})
	if err := d.Notify(topic, `{"v":1}`, nil); err != nil {
		t.Fatal(err)
	}
	if n := len(d.Messages("DeadLetters")); n != 6 {
		t.Errorf("%d dead letters, want one a source: %v", n, d.Violations())
	}
}

// TestNoPlainText: buckets, queues and topics of the stack take no call without TLS.
func TestNoPlainText(t *testing.T) { noPlainText(t, document(t)) }

func noPlainText(t testing.TB, doc map[string]any) {
	d := deploy(t, doc)
	refused := func(action, resource string, context map[string]string) {
		if d.Ask("", iam.Request{Action: action, Resource: resource, Context: context}).Denied == nil {
			t.Errorf("%s on %s with %v is not forbidden", action, resource, context)
		}
	}
	for _, q := range d.Stack().Queues {
		refused("sqs:SendMessage", q.ARN, map[string]string{"aws:SecureTransport": "false"})
	}
	for _, topic := range d.Stack().Topics {
		refused("sns:Publish", topic.ARN, map[string]string{"aws:SecureTransport": "false"})
	}
	for _, b := range d.Stack().Buckets {
		refused("s3:GetObject", b.ARN+"/x", map[string]string{"aws:SecureTransport": "false", "s3:TlsVersion": "1.2"})
		refused("s3:GetObject", b.ARN+"/x", map[string]string{"aws:SecureTransport": "true", "s3:TlsVersion": "1.1"})
	}
}

// TestPending: a commit while a run has the table is looked at when the run is over, without another event.
func TestPending(t *testing.T) { pending(t, document(t)) }

func pending(t testing.TB, doc map[string]any) {
	d := deploy(t, doc)
	tbl := d.table("t")
	tbl.fill(10, 1)
	want := tbl.content()
	var once sync.Once
	d.faults.set(func(f *faults) {
		f.invoking = func(call workflow.Invocation) *workflow.TaskError {
			if call.State == "CompactGroup" {
				once.Do(func() {
					d.TableChanged("db", "t")
					if err := d.Poll(context.Background()); err != nil {
						t.Error(err)
					}
					d.Mute("aws.glue", "aws.s3") // nobody tells of the run's own commit: only report does
				})
			}
			return nil
		}
	})
	d.TableChanged("db", "t")
	d.settle()
	tbl.unchanged(want)
	for _, e := range d.Executions() {
		if e.Status != workflow.Succeeded {
			t.Errorf("execution %s ended %s: %s", e.Name, e.Status, e.Cause)
		}
	}
	found := false
	for _, m := range d.Messages("Commits") {
		found = found || strings.Contains(m.Body, "pending") || strings.Contains(m.Body, "later")
	}
	if !found {
		t.Errorf("no notice for the pending table is on the queue: %+v", d.Messages("Commits"))
	}
	d.clean()
}

// TestVanished: objects that vanish under the functions' hands. S3 answers "no such key" only to who may list the bucket, and everybody may; the run says so.
func TestVanished(t *testing.T) { vanished(t, document(t)) }

func vanished(t testing.TB, doc map[string]any) {
	d := deploy(t, doc)
	gone := d.table("gone")
	removeAll := func(prefix string) {
		ctx := context.Background()
		var keys []string
		for o, err := range d.world.Store.List(ctx, prefix, store.ListOptions{}) {
			if err != nil {
				t.Error(err)
				return
			}
			keys = append(keys, o.Location)
		}
		if _, _, err := d.world.Store.Delete(ctx, keys); err != nil {
			t.Error(err)
		}
	}
	gone.fill(1, 1)
	removeAll(gone.State().Metadata.Location() + "/metadata/") // evaluate meets it
	d.TableChanged("db", "gone")
	d.settle()
	for state, part := range map[string]string{"Plan": "/metadata/", "CompactGroup": "/data/", "Commit": "/metadata/", "Compact": ""} {
		tbl := d.table("at_" + strings.ToLower(state))
		tbl.fill(10, 1)
		var once sync.Once
		d.faults.set(func(f *faults) {
			f.invoking, f.observe = nil, nil
			if part != "" {
				f.invoking = func(call workflow.Invocation) *workflow.TaskError {
					if call.State == state {
						once.Do(func() { removeAll(tbl.State().Metadata.Location() + part) })
					}
					return nil
				}
				return
			}
			f.observe = func(e workflow.Event) { // the items of the map itself
				if e.State == state && e.Type == "MapStateEntered" {
					for _, b := range d.Stack().Buckets {
						removeAll("s3://" + b.Name + "/runs/")
					}
				}
			}
		})
		d.TableChanged("db", tbl.ID.Name)
		d.settle()
	}
	for _, e := range d.ended() {
		if e.Outcome == maintenance.Committed {
			t.Errorf("run on %s ended %s", e.Table, e.Outcome)
		}
	}
	for _, v := range d.Violations() {
		t.Error(v)
	}
}
