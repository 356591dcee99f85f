package settings_test

import (
	"os"
	"path/filepath"
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
