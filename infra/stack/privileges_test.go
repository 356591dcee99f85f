package stack_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"firn/internal/contract"
)

// everything are the settings under which most statements exist.
func everything() map[string]string {
	return with("mode", "opt-in", "warehouse", "s3://lake/warehouse,s3://lake/other,s3://second/wh", "catalog.secret", "arn:aws:secretsmanager:eu-west-1:111122223333:secret:planted-AbCdEf", "secrets.kms", secretKey,
		"vpc.subnets", "subnet-0123456789abcdef0", "vpc.security-groups", "sg-0123456789abcdef0", "kms", stackKey, "warehouse.kms", warehouseKey)
}

// TestOneFunctionOnePower holds the privileges of DESIGN against every function: who may do a dangerous thing, and on what.
func TestOneFunctionOnePower(t *testing.T) {
	for name, values := range map[string]map[string]string{"minimal": with("mode", "maintain"), "everything": everything()} {
		tp := synth(t, values)
		only := func(action string, allowed ...string) {
			t.Helper()
			for _, function := range contract.Functions() {
				if on := tp.where(function, action); (len(on) > 0) != slices.Contains(allowed, function) {
					t.Errorf("%s: %s on %v by %s; only %v may", name, action, on, function, allowed)
				}
			}
		}
		only("glue:UpdateTable", contract.FunctionCommit)
		only("s3:DeleteObject", contract.FunctionSweep)
		only("s3:DeleteObjectVersion")
		only("glue:Delete")
		only("glue:Create")
		only("glue:BatchDelete")
		only("s3:PutBucket")
		only("s3:PutObjectAcl")
		only("s3:AbortMultipartUpload", contract.FunctionCompact, contract.FunctionSweep)
		only("glue:", contract.FunctionEvaluate, contract.FunctionSchedule, contract.FunctionPlan, contract.FunctionCommit, contract.FunctionSweep)
		only("dynamodb:PutItem", contract.FunctionEvaluate, contract.FunctionSchedule, contract.FunctionPlan, contract.FunctionCommit, contract.FunctionReport)
		only("dynamodb:DeleteItem", contract.FunctionEvaluate)
		only("events:", contract.FunctionReport)
		only("dynamodb:Scan")
		only("dynamodb:DeleteTable")
		only("states:StartExecution", contract.FunctionEvaluate)
		only("lambda:")
		only("iam:")
		only("sqs:ReceiveMessage", contract.FunctionEvaluate)
		only("sqs:SendMessage", contract.FunctionEvaluate, contract.FunctionSchedule, contract.FunctionReport)
		if name == "everything" {
			only("secretsmanager:", opensCatalogs()...)
		}
	}
}

// TestObserveStartsNothing: a deployment observes until it is told otherwise, and then no role may start the state machine, whatever a table asks for; what the
// machine's own role may start are its children, while it runs. The other modes let evaluate start it, and nobody else.
func TestObserveStartsNothing(t *testing.T) {
	for mode, starts := range map[string]bool{"": false, "off": false, "opt-in": true, "maintain": true} {
		values := minimal()
		if mode != "" {
			values["mode"] = mode
		}
		tp := synth(t, values)
		for id, r := range tp.of("AWS::IAM::Role") {
			may := r.Properties["Description"] == "Firn's state machine maintain" || starts && r.Properties["Description"] == "Firn's function evaluate"
			for _, s := range tp.role(id) {
				if does := slices.Contains(s.actions, "states:StartExecution"); does && !may {
					t.Errorf("mode %q: %v may start runs", mode, r.Properties["Description"])
				}
			}
		}
		if on := tp.where(contract.FunctionEvaluate, "states:StartExecution"); (len(on) > 0) != starts {
			t.Errorf("mode %q: evaluate may start %v", mode, on)
		}
		for id, fn := range tp.of("AWS::Lambda::Function") {
			env := fn.Properties["Environment"].(map[string]any)["Variables"].(map[string]any)
			if observes := env[contract.EnvObserveOnly] == "true"; observes != (!starts && env[contract.EnvStateMachineARN] != nil) {
				t.Errorf("mode %q: %s observes only: %t", mode, id, observes)
			}
		}
		want := cmp.Or(map[string]string{"": "observe", "opt-in": "observe", "off": `"off"`}[mode], mode)
		if !strings.Contains(string(tp.config), "mode: "+want+"\n") {
			t.Errorf("mode %q: firn.yaml says\n%s", mode, tp.config)
		}
	}
}

// TestWhereFunctionsWrite: writes and deletions stay within the warehouses' prefixes and the work bucket.
func TestWhereFunctionsWrite(t *testing.T) {
	tp := synth(t, everything())
	var work string
	for id := range tp.of("AWS::S3::Bucket") {
		work = "${" + id + ".Arn}"
	}
	arn := "arn:${AWS::Partition}:s3:::"
	lake := []string{arn + "lake/other/*", arn + "lake/warehouse/*", arn + "second/wh/*"}
	metadata := []string{arn + "lake/other/*/metadata/*", arn + "lake/warehouse/*/metadata/*", arn + "second/wh/*/metadata/*"}
	runs, marks := work+"/runs/*", work+"/unsettled/*"
	check := func(function, action string, want ...string) {
		t.Helper()
		slices.Sort(want)
		if got := tp.where(function, action); !slices.Equal(got, want) {
			t.Errorf("%s may %s on\n%s\nwant\n%s", function, action, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	check(contract.FunctionSweep, "s3:DeleteObject", append(slices.Clone(lake), marks)...)
	check(contract.FunctionSweep, "s3:AbortMultipartUpload", append(slices.Clone(lake), runs)...)
	check(contract.FunctionCompact, "s3:AbortMultipartUpload", append(slices.Clone(lake), runs)...)
	check(contract.FunctionSweep, "s3:PutObject", runs, marks)
	check(contract.FunctionCommit, "s3:PutObject", append(slices.Clone(lake), runs)...)
	check(contract.FunctionCompact, "s3:PutObject", append(slices.Clone(lake), runs)...)
	check(contract.FunctionPlan, "s3:PutObject", runs)
	check(contract.FunctionReport, "s3:PutObject", runs)
	check(contract.FunctionEvaluate, "s3:PutObject")
	check(contract.FunctionSchedule, "s3:PutObject")
	for _, s := range tp.powers(contract.FunctionCompact) {
		if s.effect == "Deny" {
			slices.Sort(s.resources)
			if !slices.Equal(s.resources, metadata) || !slices.Contains(s.actions, "s3:PutObject") {
				t.Errorf("compact is denied %v on %v", s.actions, s.resources)
			}
			return
		}
	}
	t.Error("compact may write metadata")
}

// TestEvaluateReadsMetadataOnly: it never sees a row.
func TestEvaluateReadsMetadataOnly(t *testing.T) {
	tp := synth(t, minimal())
	for _, on := range tp.where(contract.FunctionEvaluate, "s3:GetObject") {
		if strings.Contains(on, "lake") && on != "arn:${AWS::Partition}:s3:::lake/warehouse/*/metadata/*" {
			t.Errorf("evaluate reads %s", on)
		}
	}
	if on := tp.where(contract.FunctionSchedule, "s3:"); len(on) != 1 { // firn.yaml
		t.Errorf("schedule reads %v", on)
	}
	if on := tp.where(contract.FunctionReport, "s3:GetObject"); len(on) != 1 || !strings.HasSuffix(on[0], "/runs/*") {
		t.Errorf("report reads %v", on)
	}
}

// withoutResource are the actions for which AWS has no resource-level form.
func withoutResource() []string {
	return []string{
		"xray:PutTraceSegments", "xray:PutTelemetryRecords", "xray:GetSamplingRules", "xray:GetSamplingTargets",
		"logs:CreateLogDelivery", "logs:GetLogDelivery", "logs:UpdateLogDelivery", "logs:DeleteLogDelivery", "logs:ListLogDeliveries",
		"logs:PutResourcePolicy", "logs:DescribeResourcePolicies", "logs:DescribeLogGroups",
		"ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets", "ec2:DeleteNetworkInterface",
		"ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses",
	}
}

// TestNoWildcards: no action is a wildcard; a resource is one only where AWS has no other form.
func TestNoWildcards(t *testing.T) {
	tp := synth(t, everything())
	for id := range tp.of("AWS::IAM::Role") {
		for _, s := range tp.role(id) {
			for _, action := range s.actions {
				if strings.Contains(action, "*") {
					t.Errorf("role %s: action %s", id, action)
				}
				if slices.Contains(s.resources, "*") && !slices.Contains(withoutResource(), action) {
					t.Errorf("role %s: %s on everything", id, action)
				}
			}
			for _, r := range s.resources {
				if strings.HasPrefix(r, "arn:${AWS::Partition}:s3:::*") || strings.Contains(r, ":s3:::lake/*") {
					t.Errorf("role %s: %v on %s", id, s.actions, r)
				}
			}
		}
	}
}

// TestMachineRole: it calls its five functions, and its own children only.
func TestMachineRole(t *testing.T) {
	tp := synth(t, minimal())
	for id, r := range tp.of("AWS::IAM::Role") {
		if r.Properties["Description"] != "Firn's state machine maintain" {
			continue
		}
		calls, children := 0, map[string][]string{}
		for _, s := range tp.role(id) {
			for _, action := range s.actions {
				if action == "lambda:InvokeFunction" {
					calls = len(s.resources)
				}
				if strings.HasPrefix(action, "states:") {
					children[action] = s.resources
				}
			}
		}
		if calls != 5 {
			t.Errorf("%d functions, want 5", calls)
		}
		for _, action := range []string{"states:StartExecution", "states:DescribeExecution", "states:StopExecution", "states:RedriveExecution"} {
			if len(children[action]) == 0 || !strings.Contains(fmt.Sprint(children[action]), "Maintain") {
				t.Errorf("%s on %v", action, children[action])
			}
		}
		if inline, _ := json.Marshal(r.Properties); strings.Contains(string(inline), "PipelineMaintain"+"0") {
			t.Error("the role names the machine, which names the role")
		}
		return
	}
	t.Error("no role of the state machine")
}

// TestGlueNames: a pattern of tables becomes ARNs.
func TestGlueNames(t *testing.T) {
	base := "arn:${AWS::Partition}:glue:${AWS::Region}:${AWS::AccountId}:"
	for tables, want := range map[string][]string{
		"db.*":             {"catalog", "database/db", "table/db/*"},
		"raw.clicks_*,a.b": {"catalog", "database/a", "database/raw", "table/a/b", "table/raw/clicks_*"},
		"glue.db.t":        {"catalog", "database/db", "table/db/t"},
		"**":               {"catalog", "database/*", "table/*/*"},
	} {
		got := synth(t, with("tables", tables)).where(contract.FunctionCommit, "glue:UpdateTable")
		for i := range want {
			want[i] = base + want[i]
		}
		if !slices.Equal(got, want) {
			t.Errorf("tables=%s: %v, want %v", tables, got, want)
		}
	}
}

// TestCatalogs: the variants of catalogs have the powers that they need, by function.
func TestCatalogs(t *testing.T) {
	bucket := "arn:aws:s3tables:eu-west-1:111122223333:bucket/lake"
	tables := synth(t, with("catalog", "s3tables", "catalog.warehouse", bucket, "catalog.uri", "https://s3tables.eu-west-1.amazonaws.com/iceberg"))
	for _, function := range contract.Functions() {
		update := len(tables.where(function, "s3tables:UpdateTableMetadataLocation")) > 0
		if update != (function == contract.FunctionCommit) || len(tables.where(function, "glue:")) > 0 || len(tables.where(function, "s3tables:Delete")) > 0 {
			t.Errorf("%s on a table bucket: update %t", function, update)
		}
	}
	if len(tables.where(contract.FunctionCompact, "s3tables:PutTableData")) == 0 || len(tables.where(contract.FunctionCompact, "s3tables:GetTableMetadataLocation")) > 0 {
		t.Error("compact on a table bucket")
	}
	signed := synth(t, with("catalog", "rest", "catalog.uri", "https://glue.eu-west-1.amazonaws.com/iceberg", "catalog.rest.sigv4-enabled", "true",
		"catalog.rest.signing-name", "glue"))
	if len(signed.where(contract.FunctionCommit, "glue:UpdateTable")) == 0 || len(signed.where(contract.FunctionPlan, "glue:UpdateTable")) > 0 ||
		len(signed.where(contract.FunctionPlan, "glue:GetCatalog")) == 0 || len(signed.where(contract.FunctionCompact, "glue:")) > 0 {
		t.Error("powers on Glue's REST endpoint")
	}
	rest := synth(t, with("catalog", "rest", "catalog.uri", "https://catalog.example.com"))
	for _, function := range contract.Functions() {
		if on := rest.where(function, "glue:"); len(on) > 0 {
			t.Errorf("%s reaches Glue at %v", function, on)
		}
	}
}

// opensCatalogs are the functions that read the secrets of catalogs.
func opensCatalogs() []string {
	return []string{contract.FunctionEvaluate, contract.FunctionSchedule, contract.FunctionPlan, contract.FunctionCommit, contract.FunctionSweep}
}

// TestSecrets: who opens catalogs reads exactly the secrets that settings name, and their keys only on the way through Secrets Manager.
func TestSecrets(t *testing.T) {
	const one, other = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:planted-AbCdEf", "arn:aws:secretsmanager:eu-west-1:111122223333:secret:other-AbCdEf"
	tp := synth(t, with("catalog", "rest", "catalog.uri", "https://c", "catalog.secret", one, "secrets", other+","+one))
	for _, function := range opensCatalogs() {
		if on := tp.where(function, "secretsmanager:"); !slices.Equal(on, []string{other, one}) {
			t.Errorf("%s reads %v", function, on)
		}
	}
	tp = synth(t, everything())
	for _, function := range opensCatalogs() {
		found := false
		for _, s := range tp.powers(function) {
			if s.sid == "CatalogSecretKey" {
				condition, _ := json.Marshal(s.condition)
				found = slices.Equal(s.actions, []string{"kms:Decrypt"}) && strings.Contains(s.resources[0], "key/77777777") && len(s.resources) == 1 &&
					strings.Contains(string(condition), "secretsmanager.")
			}
		}
		if !found {
			t.Errorf("%s may not decrypt secrets, or more than them", function)
		}
	}
}

// TestNoSecrets: the ARN of a secret is in policies alone, its value nowhere.
func TestNoSecrets(t *testing.T) {
	tp := synth(t, everything())
	for id, r := range tp.resources {
		if text := flat(r.Properties); strings.Contains(text, "secret:planted") && r.Type != "AWS::IAM::Role" {
			t.Errorf("%s %s knows the secret's ARN", r.Type, id)
		}
	}
}
