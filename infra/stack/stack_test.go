package stack_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"firn/internal/contract"
	"firn/internal/workflow/definition"
)

var update = flag.Bool("update", false, "write the golden template anew")

// normal replaces what changes with every build: hashes of assets, and of published versions.
func normal(data []byte) []byte {
	data = regexp.MustCompile(`[0-9a-f]{64}`).ReplaceAll(data, []byte("ASSET"))
	return regexp.MustCompile(`(CurrentVersion[0-9A-F]{8})[0-9a-f]{32}`).ReplaceAll(data, []byte("${1}VERSION"))
}

// TestGolden holds the whole template, and the firn.yaml of its functions, against the committed ones: every change of infrastructure is read in review. They
// are those of README's deployment and an address for alarms, and `make e2e` plays README's steps with them.
func TestGolden(t *testing.T) {
	optIn := with("mode", "opt-in")
	if got := readme(t); fmt.Sprint(got) != fmt.Sprint(optIn) {
		t.Errorf("README deploys with %v, the golden template is made with %v", got, optIn)
	}
	tp := synth(t, with("mode", "opt-in", "alarms.email", "ops@example.com"))
	got := tp.committed()
	same(t, "../testdata/template.golden.json", got)
	same(t, "../testdata/firn.golden.yaml", tp.config)
	if n := len(got); n > 900_000 {
		t.Errorf("template has %d bytes, CloudFormation takes 1,000,000", n)
	}
}

// readme are the settings of the deployment that README shows.
func readme(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\nnpx cdk deploy")
	line, _, _ := strings.Cut(rest, "\n")
	if !found {
		t.Fatal("README has no line that begins with npx cdk deploy")
	}
	values := map[string]string{}
	for _, m := range regexp.MustCompile(`-c ([a-z.]+)=(\S+)`).FindAllStringSubmatch(line, -1) {
		values[m[1]] = strings.Trim(m[2], "'")
	}
	return values
}

// TestDefinition: Step Functions gets the very bytes that the interpreter runs, and each placeholder is a published version or a number.
func TestDefinition(t *testing.T) {
	tp := synth(t, with("compact.parallel", "7"))
	for _, machine := range tp.of("AWS::StepFunctions::StateMachine") {
		if machine.Properties["DefinitionString"] != string(definition.Maintain) {
			t.Error("the definition is not the one that is embedded")
		}
		given := machine.Properties["DefinitionSubstitutions"].(map[string]any)
		if len(given) != len(definition.Substitutions()) {
			t.Errorf("%d substitutions, want %d", len(given), len(definition.Substitutions()))
		}
		for _, name := range definition.Substitutions() {
			value := flat(given[name])
			if strings.HasSuffix(name, "Function") {
				id := strings.Trim(value, "${}")
				version := tp.resources[id]
				if version.Type != "AWS::Lambda::Version" || version.DeletionPolicy != "Retain" {
					t.Errorf("%s is %s, of type %q, deletion %q: want a version that stays", name, value, version.Type, version.DeletionPolicy)
				}
				if want := strings.TrimSuffix(name, "Function"); !strings.Contains(id, want) {
					t.Errorf("%s is %s", name, value)
				}
			} else if name == "CompactConcurrency" && value != "7" || value == "" {
				t.Errorf("%s is %q", name, value)
			}
		}
	}
}

// TestResources: what holds for every resource of a kind.
func TestResources(t *testing.T) {
	tp := synth(t, minimal())
	dead := map[string]bool{}
	for _, q := range tp.of("AWS::SQS::Queue") {
		if redrive, is := q.Properties["RedrivePolicy"].(map[string]any); is {
			dead[flat(redrive["deadLetterTargetArn"])] = true
		}
	}
	for _, rule := range tp.of("AWS::Events::Rule") {
		for _, target := range rule.Properties["Targets"].([]any) {
			letters, is := target.(map[string]any)["DeadLetterConfig"].(map[string]any)
			if !is {
				t.Errorf("target of rule %v has no dead-letter queue", rule.Properties["Description"])
				continue
			}
			dead[flat(letters["Arn"])] = true
		}
	}
	for id, schedule := range tp.of("AWS::Scheduler::Schedule") {
		letters, is := schedule.Properties["Target"].(map[string]any)["DeadLetterConfig"].(map[string]any)
		if !is {
			t.Errorf("schedule %s has no dead-letter queue", id)
			continue
		}
		dead[flat(letters["Arn"])] = true
	}
	for id, q := range tp.of("AWS::SQS::Queue") {
		// Refused is a dead-letter queue that evaluate fills by itself.
		if q.Properties["RedrivePolicy"] == nil && !dead["${"+id+".Arn}"] && !strings.Contains(id, "Refused") {
			t.Errorf("queue %s neither has a dead-letter queue nor is one", id)
		}
		if q.Properties["SqsManagedSseEnabled"] != true || q.Properties["MessageRetentionPeriod"].(float64) < 1_000_000 {
			t.Errorf("queue %s: %v", id, q.Properties)
		}
	}
	for id, bucket := range tp.of("AWS::S3::Bucket") {
		block := bucket.Properties["PublicAccessBlockConfiguration"].(map[string]any)
		for _, key := range []string{"BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"} {
			if block[key] != true {
				t.Errorf("bucket %s: %s is %v", id, key, block[key])
			}
		}
		if bucket.DeletionPolicy != "Retain" || bucket.Properties["BucketEncryption"] == nil || bucket.Properties["BucketName"] != nil {
			t.Errorf("bucket %s: deletion %s, %v", id, bucket.DeletionPolicy, bucket.Properties)
		}
		if bucket.Properties["NotificationConfiguration"] != nil {
			t.Errorf("bucket %s has notifications", id)
		}
	}
	for id, group := range tp.of("AWS::Logs::LogGroup") {
		if group.Properties["RetentionInDays"] != 90.0 {
			t.Errorf("log group %s: %v", id, group.Properties)
		}
	}
	for id, table := range tp.of("AWS::DynamoDB::Table") {
		recovery := flat(table.Properties["PointInTimeRecoverySpecification"])
		if table.DeletionPolicy != "Retain" || table.Properties["BillingMode"] != "PAY_PER_REQUEST" || table.Properties["TableName"] != nil ||
			!strings.Contains(recovery, `"PointInTimeRecoveryEnabled":true`) {
			t.Errorf("table %s: deletion %s, %v", id, table.DeletionPolicy, table.Properties)
		}
	}
	for id, r := range tp.resources {
		if strings.HasPrefix(r.Type, "Custom::") || strings.Contains(r.Type, "CustomResource") {
			t.Errorf("%s is a custom resource, %s", id, r.Type)
		}
	}
	if n := len(tp.of("AWS::Lambda::Function")); n != len(contract.Functions()) {
		t.Errorf("%d functions, want %d: none but ours", n, len(contract.Functions()))
	}
	tls := 0
	for _, policy := range tp.of("AWS::S3::BucketPolicy") {
		for _, s := range statements(policy.Properties["PolicyDocument"]) {
			if data, _ := json.Marshal(s.condition); s.effect == "Deny" && strings.Contains(string(data), "aws:SecureTransport") {
				tls++
			}
		}
	}
	if tls != 1 {
		t.Errorf("%d policies of buckets ask for TLS, want 1", tls)
	}
}

// TestFunctions: what each function is given.
func TestFunctions(t *testing.T) {
	tp := synth(t, with("compact.memory", "5307", "compact.storage", "4096", "compact.concurrency", "40"))
	for id, fn := range tp.of("AWS::Lambda::Function") {
		p := fn.Properties
		if p["Runtime"] != "provided.al2023" || p["Handler"] != "bootstrap" || flat(p["Architectures"]) != `["arm64"]` ||
			flat(p["TracingConfig"]) != `{"Mode":"Active"}` || p["LoggingConfig"] == nil {
			t.Errorf("function %s: %v", id, p)
		}
		env := p["Environment"].(map[string]any)["Variables"].(map[string]any)
		for name, wanted := range map[string]bool{
			contract.EnvConfig:       !strings.Contains(id, "Report"), // report knows no table
			contract.EnvWorkLocation: true, contract.EnvStateLocation: true,
			contract.EnvSpillLimitBytes: strings.Contains(id, "Compact") || strings.Contains(id, "Plan"),
			contract.EnvSpillDir:        false, // the system's folder is /tmp
		} {
			if (env[name] != nil) != wanted {
				t.Errorf("function %s has %s = %v: wanted is %t", id, name, env[name], wanted)
			}
		}
		if !strings.HasPrefix(flat(env[contract.EnvStateLocation]), contract.StateDynamoDB+"${") {
			t.Errorf("function %s: state at %s", id, flat(env[contract.EnvStateLocation]))
		}
		if strings.Contains(id, "Plan") && env[contract.EnvSpillLimitBytes] != "3096000000" { // plan cuts sorts by what compact may spill
			t.Errorf("plan: %v", env)
		}
		if strings.Contains(id, "Compact") {
			if p["MemorySize"] != 5307.0 || p["ReservedConcurrentExecutions"] != 40.0 || env[contract.EnvSpillLimitBytes] != "3096000000" {
				t.Errorf("compact: %v", p)
			}
		}
	}
	for _, mapping := range tp.of("AWS::Lambda::EventSourceMapping") {
		p := mapping.Properties
		if p["BatchSize"] != 500.0 || p["MaximumBatchingWindowInSeconds"] != 20.0 || flat(p["FunctionResponseTypes"]) != `["ReportBatchItemFailures"]` ||
			flat(p["ScalingConfig"]) != `{"MaximumConcurrency":5}` {
			t.Errorf("mapping: %v", p)
		}
	}
	for id, q := range tp.of("AWS::SQS::Queue") {
		if strings.Contains(id, "Commits") && q.Properties["VisibilityTimeout"].(float64) < 6*300 {
			t.Errorf("visibility of %s: %v", id, q.Properties["VisibilityTimeout"])
		}
	}
}

// TestSources: a rule for each chosen source, narrowed to what is entrusted, and for the ends of runs.
func TestSources(t *testing.T) {
	patterns := func(values map[string]string) string {
		var all []string
		for _, rule := range synth(t, values).of("AWS::Events::Rule") {
			all = append(all, flat(rule.Properties["EventPattern"]))
		}
		slices.Sort(all)
		return strings.Join(all, "\n")
	}
	for name, c := range map[string]struct {
		values map[string]string
		want   []string
		not    []string
	}{
		"glue":         {minimal(), []string{`"databaseName":["db"]`, `Glue Data Catalog Table State Change`, `["FAILED","TIMED_OUT","ABORTED"]`, `Iceberg Table Committed`}, []string{"aws.s3"}},
		"any database": {with("tables", "**"), []string{`"source":["aws.glue"]`}, []string{"databaseName"}},
		"all three": {
			with("sources", "glue,s3,cloudtrail", "accounts", "111122223333"),
			[]string{`{"wildcard":"warehouse/*/metadata/*.metadata.json"}`, `"name":["lake"]`, `"errorCode":[{"exists":false}]`, `"account":["111122223333"]`},
			nil,
		},
		"rest": {with("catalog", "rest", "catalog.uri", "https://c"), []string{"aws.s3"}, []string{"aws.glue"}},
	} {
		got := patterns(c.values)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no pattern holds %s:\n%s", name, want, got)
			}
		}
		for _, not := range c.not {
			if strings.Contains(got, not) {
				t.Errorf("%s: a pattern holds %s:\n%s", name, not, got)
			}
		}
	}
	tp := synth(t, with("topics", "arn:aws:sns:eu-west-1:111122223333:commits"))
	for _, s := range tp.of("AWS::SNS::Subscription") {
		if s.Properties["RawMessageDelivery"] != true || s.Properties["RedrivePolicy"] == nil {
			t.Errorf("subscription: %v", s.Properties)
		}
	}
}
