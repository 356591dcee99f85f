package stack_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"

	"firn/infra/stack"
	"firn/internal/contract"
)

const (
	stackKey     = "arn:aws:kms:eu-west-1:111122223333:key/11111111-2222-3333-4444-555555555555"
	warehouseKey = "arn:aws:kms:eu-west-1:111122223333:key/66666666-2222-3333-4444-555555555555"
	secretKey    = "arn:aws:kms:eu-west-1:111122223333:key/77777777-2222-3333-4444-555555555555"
	cluster      = "arn:aws:kafka:eu-west-1:111122223333:cluster/lake/11111111-2222-3333-4444-555555555555-1"
)

// TestKeysOfFunctions: which key a function may use, and for what. TestSecrets has the keys of secrets.
func TestKeysOfFunctions(t *testing.T) {
	both := []string{"kms:Decrypt", "kms:GenerateDataKey"}
	on := map[string][]string{
		contract.FunctionEvaluate: both[:1], contract.FunctionPlan: both[:1], contract.FunctionSweep: both[:1],
		contract.FunctionCompact: both, contract.FunctionCommit: both, contract.FunctionSchedule: nil, contract.FunctionReport: nil,
	}
	tp := synth(t, everything())
	for _, function := range contract.Functions() {
		found := map[string][]string{}
		for _, s := range tp.powers(function) {
			for _, action := range s.actions {
				if strings.HasPrefix(action, "kms:") && s.sid != "CatalogSecretKey" {
					for _, key := range s.resources {
						found[key] = append(found[key], action)
					}
				}
			}
		}
		if !slices.Equal(found[stackKey], both) || !slices.Equal(found[warehouseKey], on[function]) || found[secretKey] != nil {
			t.Errorf("%s uses keys %v", function, found)
		}
	}
	for id, r := range synth(t, minimal()).of("AWS::IAM::Role") {
		if data, _ := json.Marshal(r.Properties); strings.Contains(string(data), "kms:") {
			t.Errorf("role %s has powers on keys where there are none", id)
		}
	}
}

// TestKeyOfTheStack: what the stack keeps is encrypted with its key, and who puts messages there may use it.
func TestKeyOfTheStack(t *testing.T) {
	tp := synth(t, everything())
	for kind, property := range map[string]string{
		"AWS::SQS::Queue": "KmsMasterKeyId", "AWS::S3::Bucket": "BucketEncryption", "AWS::DynamoDB::Table": "SSESpecification", "AWS::Lambda::Function": "KmsKeyArn",
	} {
		for id, r := range tp.of(kind) {
			if !strings.Contains(flat(r.Properties[property]), stackKey) {
				t.Errorf("%s %s: %s is %s", kind, id, property, flat(r.Properties[property]))
			}
		}
	}
	for id, bucket := range tp.of("AWS::S3::Bucket") {
		if text := flat(bucket.Properties["BucketEncryption"]); !strings.Contains(text, `"BucketKeyEnabled":true`) || !strings.Contains(text, `"aws:kms"`) {
			t.Errorf("bucket %s: %s", id, text)
		}
	}
	users := 0
	for id, r := range tp.of("AWS::IAM::Role") {
		if d := fmt.Sprint(r.Properties["Description"]); d == "Firn's clock" || d == "Firn's state machine maintain" {
			for _, s := range tp.role(id) {
				if s.sid == "Keys" && slices.Equal(s.actions, []string{"kms:Decrypt", "kms:GenerateDataKey"}) && slices.Equal(s.resources, []string{stackKey}) {
					users++
				}
			}
		}
	}
	if users != 2 {
		t.Errorf("%d of clock and state machine use the key", users)
	}
}

// TestNetwork: with subnets every function is in them, behind the security groups, and may have network interfaces; without, none.
func TestNetwork(t *testing.T) {
	inside, outside := synth(t, everything()), synth(t, minimal())
	for id, fn := range inside.of("AWS::Lambda::Function") {
		if got := flat(fn.Properties["VpcConfig"]); got != `{"SecurityGroupIds":["sg-0123456789abcdef0"],"SubnetIds":["subnet-0123456789abcdef0"]}` {
			t.Errorf("%s: %s", id, got)
		}
	}
	for id, fn := range outside.of("AWS::Lambda::Function") {
		if fn.Properties["VpcConfig"] != nil {
			t.Errorf("%s is in a network", id)
		}
	}
	for _, function := range contract.Functions() {
		if len(inside.where(function, "ec2:CreateNetworkInterface")) != 1 || len(outside.where(function, "ec2:")) > 0 {
			t.Errorf("%s: powers on network interfaces", function)
		}
	}
}

// TestAnotherAccountsTableBucket: the powers name the other account's bucket and nothing else of it; its owner's policy names our roles, which are printed.
func TestAnotherAccountsTableBucket(t *testing.T) {
	const bucket = "arn:aws:s3tables:eu-west-1:999988887777:bucket/lake"
	tp := synth(t, with("catalog", "s3tables", "catalog.warehouse", bucket, "catalog.uri", "https://s3tables.eu-west-1.amazonaws.com/iceberg"))
	for function, want := range map[string]bool{
		contract.FunctionEvaluate: true, contract.FunctionSchedule: true, contract.FunctionPlan: true, contract.FunctionCompact: true,
		contract.FunctionCommit: true, contract.FunctionSweep: true, contract.FunctionReport: false,
	} {
		on := tp.where(function, "s3tables:")
		if want && !slices.Equal(on, []string{bucket, bucket + "/table/*"}) || !want && len(on) > 0 {
			t.Errorf("%s reaches %v", function, on)
		}
		if on := tp.where(function, "sts:"); len(on) > 0 {
			t.Errorf("%s takes the roles %v", function, on)
		}
	}
	outputs, _ := tp.raw["Outputs"].(map[string]any)
	roles := flat(outputs["Roles"].(map[string]any)["Value"])
	for _, function := range contract.Functions() {
		if !strings.Contains(roles, function+"=${") {
			t.Errorf("output Roles lacks %s: %s", function, roles)
		}
	}
}

// TestRegions: one app holds the stacks of several regions, which share nothing.
func TestRegions(t *testing.T) {
	dir := t.TempDir()
	flags := stack.Flags()
	var templates []string
	noPanic(t, func() {
		app := awscdk.NewApp(&awscdk.AppProps{Context: &flags, Outdir: jsii.String(filepath.Join(dir, "cdk.out"))})
		var made []*stack.Firn
		for _, region := range []string{"eu-west-1", "us-east-1"} {
			props := prepare(t, map[string]string{"warehouse": "s3://lake-" + region + "/w", "tables": "db.*", "account": "111122223333", "region": region})
			made = append(made, stack.New(app, "Firn-"+region, props))
		}
		for i, region := range []string{"eu-west-1", "us-east-1"} {
			if got := *made[i].Stack.Region(); got != region {
				t.Errorf("stack %d is in %s", i, got)
			}
			data, err := json.Marshal(assertions.Template_FromStack(made[i].Stack, nil).ToJSON())
			if err != nil {
				t.Fatal(err)
			}
			templates = append(templates, string(data))
		}
	})
	for i, other := range []string{"us-east-1", "eu-west-1"} {
		if strings.Contains(templates[i], "lake-"+other) || strings.Contains(templates[i], "Fn::ImportValue") || strings.Contains(templates[i], "Fn::GetStackOutput") {
			t.Errorf("a stack knows the one in %s", other)
		}
		if n := strings.Count(templates[i], `"AWS::Lambda::Function"`); n != len(contract.Functions()) {
			t.Errorf("%d functions", n)
		}
	}
}

// TestSignedAPI: a catalog behind API Gateway is read by who opens catalogs, and written by commit; nobody reaches Glue.
func TestSignedAPI(t *testing.T) {
	tp := synth(t, with("catalog", "rest", "catalog.uri", "https://a1b2.execute-api.eu-west-1.amazonaws.com/prod", "catalog.rest.sigv4-enabled", "true"))
	base := "arn:${AWS::Partition}:execute-api:${AWS::Region}:${AWS::AccountId}:a1b2/*/"
	for _, function := range contract.Functions() {
		var want []string
		if slices.Contains(opensCatalogs(), function) {
			want = append(want, base+"GET/*")
		}
		if function == contract.FunctionCommit {
			want = append(want, base+"POST/*")
		}
		if on := tp.where(function, "execute-api:"); !slices.Equal(on, want) || len(tp.where(function, "glue:")) > 0 {
			t.Errorf("%s calls %v, want %v", function, on, want)
		}
	}
}

// TestLakeFormation: the grants of each function's role, over Glue's REST endpoint in another account's catalog; no role takes credentials there.
func TestLakeFormation(t *testing.T) {
	tp := synth(t, with("tables", "db.*,raw.clicks", "lake-formation", "grant", "catalog", "rest", "catalog.uri", "https://glue.eu-west-1.amazonaws.com/iceberg",
		"catalog.warehouse", "999988887777", "catalog.rest.sigv4-enabled", "true", "catalog.rest.signing-name", "glue"))
	got := map[string]string{}
	for id, r := range tp.of("AWS::LakeFormation::PrincipalPermissions") {
		on := r.Properties["Resource"].(map[string]any)
		what := "database"
		place, is := on["Database"].(map[string]any)
		if !is {
			what, place = "table", on["Table"].(map[string]any)
		}
		name := fmt.Sprint(place["Name"], place["DatabaseName"], place["TableWildcard"])
		if r.Properties["Catalog"] != "999988887777" || place["CatalogId"] != "999988887777" || flat(r.Properties["PermissionsWithGrantOption"]) != "[]" {
			t.Errorf("%s: %v", id, r.Properties)
		}
		principal := strings.Trim(flat(r.Properties["Principal"].(map[string]any)["DataLakePrincipalIdentifier"]), "${}")
		role := tp.resources[strings.TrimSuffix(principal, ".Arn")]
		function := strings.TrimPrefix(fmt.Sprint(role.Properties["Description"]), "Firn's function ")
		got[function+" "+what+" "+name] = strings.Join(flats(r.Properties["Permissions"]), " ")
	}
	want := map[string]string{}
	for function, rights := range map[string]string{
		contract.FunctionEvaluate: "DESCRIBE SELECT", contract.FunctionSchedule: "DESCRIBE", contract.FunctionPlan: "DESCRIBE SELECT",
		contract.FunctionSweep: "DESCRIBE SELECT", contract.FunctionCommit: "ALTER DESCRIBE SELECT",
	} {
		want[function+" table "+fmt.Sprint(nil, "db", map[string]any{})] = rights
		want[function+" table "+fmt.Sprint("clicks", "raw", nil)] = rights
		if function != contract.FunctionPlan && function != contract.FunctionCommit {
			want[function+" database "+fmt.Sprint("db", nil, nil)] = "DESCRIBE"
			want[function+" database "+fmt.Sprint("raw", nil, nil)] = "DESCRIBE"
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("grants\n%v\nwant\n%v", got, want)
	}
	for _, function := range contract.Functions() {
		if on := tp.where(function, "lakeformation:"); len(on) > 0 {
			t.Errorf("%s takes credentials of Lake Formation", function)
		}
	}
	if on := tp.where(contract.FunctionCommit, "glue:UpdateTable"); len(on) == 0 || !strings.Contains(on[0], ":999988887777:") {
		t.Errorf("commit updates %v", on)
	}
}

// pipe returns the pipe's properties, the source's among them, and its role's statements by Sid.
func (tp *template) pipe(source string) (properties, parameters map[string]any, byID map[string]statement) {
	tp.t.Helper()
	byID = map[string]statement{}
	for _, r := range tp.of("AWS::Pipes::Pipe") {
		properties = r.Properties
		parameters, _ = properties["SourceParameters"].(map[string]any)[source].(map[string]any)
		id := strings.TrimSuffix(strings.Trim(flat(properties["RoleArn"]), "${}"), ".Arn")
		if trust := flat(tp.resources[id].Properties["AssumeRolePolicyDocument"]); !strings.Contains(trust, "pipes.amazonaws.com") || !strings.Contains(trust, "aws:SourceAccount") {
			tp.t.Errorf("role of the pipe trusts %s", trust)
		}
		for _, s := range tp.role(id) {
			byID[s.sid] = s
			for _, action := range s.actions {
				if strings.Contains(action, "*") || slices.Contains(s.resources, "*") && s.sid != "Network" {
					tp.t.Errorf("pipe: %s on %v", action, s.resources)
				}
			}
		}
	}
	return properties, parameters, byID
}

// TestKafka: a pipe from a topic of MSK, entered by IAM, to the queue of commits, whose own dead-letter queue takes what cannot be used. It has never run.
func TestKafka(t *testing.T) {
	tp := synth(t, with("kafka.cluster", cluster, "kafka.topic", "lake.commits", "alarms.email", "ops@example.com"))
	properties, source, may := tp.pipe("ManagedStreamingKafkaParameters")
	queue := tp.resources[strings.TrimSuffix(strings.Trim(flat(properties["Target"]), "${}"), ".Arn")]
	if queue.Type != "AWS::SQS::Queue" || queue.Properties["RedrivePolicy"] == nil || properties["Source"] != cluster {
		t.Errorf("pipe from %v to %v", properties["Source"], queue)
	}
	group := flat(source["ConsumerGroupID"])
	if source["TopicName"] != "lake.commits" || source["StartingPosition"] != "LATEST" || source["BatchSize"] != 10.0 || source["Credentials"] != nil ||
		group != "${AWS::StackName}-${AWS::AccountId}-${AWS::Region}" {
		t.Errorf("source %v", source)
	}
	base := "arn:aws:kafka:eu-west-1:111122223333:"
	name := "/lake/11111111-2222-3333-4444-555555555555-1"
	for sid, want := range map[string]string{
		"Send":    "[sqs:SendMessage] on [" + flat(properties["Target"]) + "]",
		"Cluster": "[kafka:DescribeClusterV2 kafka:GetBootstrapBrokers] on [" + cluster + "]",
		"Connect": "[kafka-cluster:Connect kafka-cluster:DescribeClusterDynamicConfiguration] on [" + cluster + "]",
		"Topic":   "[kafka-cluster:DescribeTopic kafka-cluster:ReadData] on [" + base + "topic" + name + "/lake.commits]",
		"Group":   "[kafka-cluster:AlterGroup kafka-cluster:DescribeGroup] on [" + base + "group" + name + "/" + group + "]",
	} {
		if got := fmt.Sprint(may[sid].actions, " on ", may[sid].resources); got != want {
			t.Errorf("pipe: %s: %s, want %s", sid, got, want)
		}
	}
	if len(may) != 7 { // with Logs and Network
		t.Errorf("pipe: %d statements", len(may))
	}
	alarms := tp.of("AWS::CloudWatch::Alarm")
	for id, alarm := range alarms {
		if strings.Contains(id, "KafkaPipeFailed") && strings.Contains(flat(alarm.Properties["Metrics"]), "AWS/EventBridge/Pipes") {
			text, err := os.ReadFile("../../docs/operations.md")
			if err != nil || !strings.Contains(string(text), "\n## Kafka pipe failed\n") || !strings.HasSuffix(flat(alarm.Properties["AlarmDescription"]), "#kafka-pipe-failed") {
				t.Errorf("runbook of %s: %v", id, err)
			}
			return
		}
	}
	t.Errorf("no alarm watches the pipe among %d", len(alarms))
}

// TestKafkaOfOnesOwn: bootstrap servers in a private network with a secret, a key of the secret, and a key of the queue.
func TestKafkaOfOnesOwn(t *testing.T) {
	const secret = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:kafka-AbCdEf"
	tp := synth(t, with("kafka.servers", "a.example:9096,b.example:9096", "kafka.topic", "commits", "kafka.secret", secret, "kafka.auth", "scram-256",
		"kafka.subnets", "subnet-1", "kafka.security-groups", "sg-1", "secrets.kms", secretKey, "kms", stackKey))
	properties, source, may := tp.pipe("SelfManagedKafkaParameters")
	if properties["Source"] != "smk://a.example:9096" || flat(source["AdditionalBootstrapServers"]) != `["b.example:9096"]` ||
		flat(source["Credentials"]) != `{"SaslScram256Auth":"`+secret+`"}` || flat(source["Vpc"]) != `{"SecurityGroup":["sg-1"],"Subnets":["subnet-1"]}` {
		t.Errorf("pipe from %v: %v", properties["Source"], source)
	}
	for sid, want := range map[string]string{
		"Secret":    "[secretsmanager:GetSecretValue] on [" + secret + "]",
		"SecretKey": "[kms:Decrypt] on [" + secretKey + "]",
		"Keys":      "[kms:Decrypt kms:GenerateDataKey] on [" + stackKey + "]",
	} {
		if got := fmt.Sprint(may[sid].actions, " on ", may[sid].resources); got != want {
			t.Errorf("pipe: %s: %s, want %s", sid, got, want)
		}
	}
	if condition, _ := json.Marshal(may["SecretKey"].condition); !strings.Contains(string(condition), "kms:ViaService") {
		t.Errorf("the secret's key for %s", condition)
	}
	if _, cluster := may["Cluster"]; cluster || len(may["Network"].actions) == 0 || len(may) != 6 {
		t.Errorf("pipe: statements %v", may)
	}
	for _, function := range contract.Functions() {
		if on := tp.where(function, "secretsmanager:"); len(on) > 0 {
			t.Errorf("%s reads %v", function, on)
		}
	}
}
