package settings_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"firn/infra/settings"
	"firn/internal/contract"
)

// TestDefaults: warehouse and tables are enough.
func TestDefaults(t *testing.T) {
	t.Parallel()
	s, err := settings.Parse(map[string]string{"warehouse": "s3://b/p/", "tables": "db.*, raw.x"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Mode != "observe" || s.Catalog.Name != "glue" || len(s.Sources) != 1 || s.Sources[0] != "glue" || s.Warehouses[0].String() != "s3://b/p" ||
		len(s.Tables) != 2 || len(s.Functions) != len(contract.Functions()) {
		t.Errorf("settings %+v", s)
	}
}

const msk = "arn:aws:kafka:eu-west-1:111122223333:cluster/lake/11111111-2222-3333-4444-555555555555-1"

// TestVariants: what is right is taken.
func TestVariants(t *testing.T) {
	t.Parallel()
	for _, more := range []map[string]string{
		{"kafka.cluster": msk, "kafka.topic": "lake.commits"},
		{"kafka.servers": "a.example:9092,b.example:9092", "kafka.topic": "t", "kafka.subnets": "subnet-1", "kafka.security-groups": "sg-1"},
		{"kafka.servers": "[::1]:9092", "kafka.topic": "t", "kafka.auth": "basic", "kafka.secret": "arn:aws:secretsmanager:eu-west-1:111122223333:secret:k-AbCdEf"},
		{"lake-formation": "grant", "tables": "db.*,raw.t,glue.mart.*"},
		{"warehouse.roles": "b = arn:aws:iam::999988887777:role/team/firn-{function}"},
		{"catalog": "rest", "catalog.uri": "https://a1b2.execute-api.eu-west-1.amazonaws.com/prod", "catalog.rest.sigv4-enabled": "TRUE"},
		{"catalog": "rest", "catalog.uri": "https://glue.eu-west-1.amazonaws.com/iceberg", "catalog.rest.auth.type": "sigv4", "catalog.rest.signing-name": "glue", "lake-formation": "grant"},
	} {
		values := map[string]string{"warehouse": "s3://b/p", "tables": "db.*"}
		maps.Copy(values, more)
		if _, err := settings.Parse(values); err != nil {
			t.Errorf("%v: %v", more, err)
		}
	}
}

// TestKeysAreDocumented: each setting has its line in docs/operations.md, with the words that the program says.
func TestKeysAreDocumented(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range settings.Keys() {
		function, _, _ := strings.Cut(key.Name, ".")
		if !slices.Contains(contract.Functions(), function) && !strings.Contains(string(data), "\n| `"+key.Name+"` | "+key.Doc) {
			t.Errorf("docs/operations.md has no line | `%s` | %s", key.Name, key.Doc)
		}
	}
}

// TestFaults: every fault is reported, all at once, each with its key.
func TestFaults(t *testing.T) {
	t.Parallel()
	for fault, values := range map[string]map[string]string{
		"warehouse is missing":            {"tables": "db.*"},
		"tables is missing":               {"warehouse": "s3://b/p"},
		"a whole bucket":                  {"warehouse": "s3://b"},
		"no location":                     {"warehouse": "/tmp/x"},
		"overlap":                         {"warehouse": "s3://b/p,s3://b/p/q"},
		"no empty steps":                  {"warehouse": "s3://b/p/../q"},
		"mode=on":                         {"mode": "on"},
		`unknown source "kinesis"`:        {"sources": "glue,kinesis"},
		"catalog=hive":                    {"catalog": "hive"},
		"catalog.uri is missing":          {"catalog": "rest"},
		"the ARN of the table bucket":     {"catalog": "s3tables"},
		"needs catalog.secret":            {"catalog": "sql", "catalog.uri": "postgresql://h/db"},
		"Secrets Manager":                 {"catalog.token": "hunter2"},
		"whole ARN of one secret":         {"catalog.secret": "arn:aws:secretsmanager:eu-west-1:111122223333:secret:lake"},
		"the six characters":              {"secrets": "arn:aws:secretsmanager:eu-west-1:111122223333:secret:*-AbCdEf"},
		"secrets.kms=alias/x":             {"secrets.kms": "alias/x"},
		"catalog.uri: a secret":           {"catalog": "sql", "catalog.uri": "postgresql://u:p@h/db"},
		"compact.memory=64":               {"compact.memory": "64"},
		"commit.timeout=901":              {"commit.timeout": "901"},
		"want a whole number":             {"plan.memory": "2GB"},
		"queue.parallel=1":                {"queue.parallel": "1"},
		"needs a queue.window":            {"queue.window": "0"},
		"logs.days=10":                    {"logs.days": "10"},
		"schedule=hourly":                 {"schedule": "hourly"},
		"did you mean warehouse?":         {"warehose": "s3://b/p"},
		"unknown setting":                 {"colour": "blue"},
		"belong together":                 {"vpc.subnets": "subnet-1"},
		"topics=x: want an ARN":           {"topics": "x"},
		"no account ID of 12 digits":      {"accounts": "12"},
		"account without region":          {"account": "111122223333"},
		"alarms.topic=arn:aws:sqs:r:1:q:": {"alarms.topic": "arn:aws:sqs:r:1:q"},

		"a=arn:aws:iam::999988887777:role/x-{function}: no warehouse": {"warehouse": "s3://b/p", "warehouse.roles": "a=arn:aws:iam::999988887777:role/x-{function}"},
		"b=arn:aws:iam::999988887777:role/firn: want {function}":      {"warehouse": "s3://b/p", "warehouse.roles": "b=arn:aws:iam::999988887777:role/firn"},
		"want the ARN of a role":                                      {"warehouse": "s3://b/p", "warehouse.roles": "b=arn:aws:iam::9:role/x-{function}"},
		"the bucket has a role":                                       {"warehouse": "s3://b/p", "warehouse.roles": "b=arn:aws:iam::999988887777:role/x-{function},b=arn:aws:iam::999988887777:role/y-{function}"},
		"is not bucket=ARN":                                           {"warehouse.roles": "arn:aws:iam::999988887777:role/x-{function}"},
		"opened by its own policy":                                    {"warehouse.roles": "b=arn:aws:iam::999988887777:role/x-{function}", "catalog": "s3tables", "catalog.warehouse": "arn:aws:s3tables:eu-west-1:999988887777:bucket/lake"},
		"kafka.cluster is missing":                                    {"kafka.topic": "t"},
		"kafka.topic=: want":                                          {"kafka.servers": "h:9092"},
		"kafka.topic=a b: want":                                       {"kafka.servers": "h:9092", "kafka.topic": "a b"},
		"name one of them":                                            {"kafka.servers": "h:9092", "kafka.cluster": msk},
		"want an ARN of kafka":                                        {"kafka.cluster": "lake"},
		"ends with cluster/NAME/UUID":                                 {"kafka.cluster": "arn:aws:kafka:eu-west-1:111122223333:cluster/lake"},
		"a pipe takes 3":                                              {"kafka.servers": "a:1,b:1,c:1,d:1"},
		"kafka.servers=h: want host:port":                             {"kafka.servers": "h"},
		"kafka.servers=h:0: want host:port":                           {"kafka.servers": "h:0"},
		"kafka.auth=scram-256: want scram-512 or tls":                 {"kafka.cluster": msk, "kafka.auth": "scram-256"},
		"kafka.auth=tls needs kafka.secret":                           {"kafka.cluster": msk, "kafka.auth": "tls"},
		"kafka.security-groups belong together":                       {"kafka.servers": "h:1", "kafka.subnets": "subnet-1"},
		"knows its own":                                               {"kafka.cluster": msk, "kafka.subnets": "subnet-1"},
		"or kafka.subnets of a private network":                       {"kafka.servers": "h:1"},
		"kafka.secret=x: want the whole ARN":                          {"kafka.servers": "h:1", "kafka.secret": "x"},

		"a table bucket is catalog=s3tables": {"catalog": "rest", "catalog.uri": "https://h", "catalog.rest.sigv4-enabled": "true", "catalog.rest.signing-name": "s3tables"},
		"want glue or execute-api":           {"catalog": "rest", "catalog.uri": "https://h", "catalog.rest.sigv4-enabled": "true", "catalog.rest.signing-name": "es"},
		"signed for API Gateway":             {"catalog": "rest", "catalog.uri": "https://h", "catalog.rest.auth.type": "sigv4"},
		"lake-formation=yes":                 {"lake-formation": "yes"},
		"catalog=sql is not governed":        {"lake-formation": "grant", "catalog": "sql"},
		"tables=raw.clicks_* is neither":     {"lake-formation": "grant", "tables": "raw.clicks_*"},
		"tables=** is neither":               {"lake-formation": "grant", "tables": "**"},
		"tables=*.t is neither":              {"lake-formation": "grant", "tables": "*.t"},
	} {
		if _, err := settings.Parse(values); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%v: error %v, want %q", values, err, fault)
		}
	}
	_, err := settings.Parse(map[string]string{"mode": "x", "warehouse": "s3://b", "compact.memory": "1", "foo": ""})
	for _, key := range []string{"mode=x", "warehouse=s3://b", "compact.memory=1", "foo", "tables is missing"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("error %v, want %q in it", err, key)
		}
	}
}

// TestSecretsAreNotEchoed: the message names the key of a secret and not its value.
func TestSecretsAreNotEchoed(t *testing.T) {
	t.Parallel()
	_, err := settings.Parse(map[string]string{"catalog.credential": "id:hunter2", "catalog": "rest", "catalog.uri": "https://u:hunter2@h"})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v", err)
	}
}

// TestContext: our keys are told from the CDK's, a file is nested or flat, and the context wins over it.
func TestContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := "warehouse: [s3://a/b, s3://c/d]\ntables: db.*\ncatalog: {kind: rest, uri: https://x, header.X: 1}\ncompact: {memory: 5307}\nmode: off\n"
	if err := os.WriteFile(filepath.Join(dir, "eu.yaml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	values, err := settings.Context(`{"settings":"eu.yaml","mode":"maintain","@aws-cdk/core:x":true,"aws:cdk:y":1,"tree-metadata":false}`, dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := settings.Parse(values)
	if err != nil {
		t.Fatal(err)
	}
	if s.Mode != "maintain" || len(s.Warehouses) != 2 || s.Catalog.Kind != "rest" || s.Catalog.Properties["header.X"] != "1" ||
		s.Functions["compact"].MemoryMB != 5307 || s.Sources[0] != "s3" {
		t.Errorf("settings %+v", s)
	}
	for _, text := range []string{`{"settings":"absent.yaml"}`, `[`} {
		if _, err := settings.Context(text, dir); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}
