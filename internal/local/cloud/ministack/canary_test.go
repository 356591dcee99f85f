//go:build ministack

package ministack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
)

// TestCanaries: where the emulator says something else than AWS does (internal/workflow has AWS's answers for the interpreter of ours), it still says what it
// said when this was written. A change is good news: look whether a run can be played there.
func TestCanaries(t *testing.T) {
	distributed := func(fields string) string {
		return `"M":{"Type":"Map","ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},"StartAt":"P","States":{"P":{"Type":"Pass","End":true}}}` +
			fields + `,"End":true}`
	}
	for name, c := range map[string]struct{ start, states, aws, today string }{
		"K3 items of a distributed map": {"M", distributed(`,"Items":"{% [1..3] %}"`), `[1,2,3]`, `[{}]`},
		"K4 batches":                    {"M", distributed(`,"Items":[1,2,3,4,5],"ItemBatcher":{"MaxItemsPerBatch":2}`), `[{"Items":[1,2]},{"Items":[3,4]},{"Items":[5]}]`, `[{}]`},
		"K9 output of Succeed":          {"S", `"S":{"Type":"Succeed","Output":{"done":true}}`, `{"done":true}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := execute(t, `{"QueryLanguage":"JSONata","StartAt":"`+c.start+`","States":{`+c.states+`}}`)
			if got == c.aws {
				t.Errorf("the emulator answers as AWS now: %s", got)
			} else if got != c.today {
				t.Errorf("the emulator answers %s; it was %s, and AWS answers %s", got, c.today, c.aws)
			}
		})
	}
}

// execute runs a definition on an empty input and returns its output, or its error's name.
func execute(t *testing.T, definition string) string {
	t.Helper()
	client := sfn.NewFromConfig(clients(t))
	name := fmt.Sprintf("canary-%d", time.Now().UnixNano())
	made, err := client.CreateStateMachine(t.Context(), &sfn.CreateStateMachineInput{
		Name: &name, Definition: &definition, RoleArn: aws.String("arn:aws:iam::" + account + ":role/none"),
	})
	if err != nil {
		t.Fatal(err)
	}
	started, err := client.StartExecution(t.Context(), &sfn.StartExecutionInput{StateMachineArn: made.StateMachineArn, Input: aws.String("{}")})
	if err != nil {
		t.Fatal(err)
	}
	for range 300 {
		out, err := client.DescribeExecution(t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: started.ExecutionArn})
		switch {
		case err != nil:
			t.Fatal(err)
		case out.Status == "RUNNING":
			time.Sleep(100 * time.Millisecond)
		case out.Output != nil:
			return *out.Output
		default:
			return aws.ToString(out.Error)
		}
	}
	t.Fatal("the execution does not end")
	return ""
}

// TestK17StaleToken: a table bucket takes a used version token again, which would lose a commit. On AWS the second call is a conflict; tests of commits may not
// run there.
func TestK17StaleToken(t *testing.T) {
	made := call(t, "s3tables", http.MethodPut, "/buckets", `{"name":"canary-bucket"}`, nil)
	var bucket struct{ Arn string }
	if err := json.Unmarshal(made, &bucket); err != nil || bucket.Arn == "" {
		t.Fatalf("%s: %v", made, err)
	}
	call(t, "s3tables", http.MethodPut, "/namespaces/"+bucket.Arn, `{"namespace":["db"]}`, nil)
	var table struct{ VersionToken string }
	if err := json.Unmarshal(call(t, "s3tables", http.MethodPut, "/tables/"+bucket.Arn+"/db", `{"name":"t","format":"ICEBERG"}`, nil), &table); err != nil {
		t.Fatal(err)
	}
	for n := range 2 { // call fails the test when the emulator refuses the second: then this canary is out of date, and good news
		body := fmt.Sprintf(`{"versionToken":%q,"metadataLocation":"s3://canary-bucket/metadata/0000%d.metadata.json"}`, table.VersionToken, n)
		call(t, "s3tables", http.MethodPut, "/tables/"+bucket.Arn+"/db/t/metadata-location", body, nil)
	}
}
