package event_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"firn/internal/event"
	"firn/internal/maintenance"
)

const samples = "../../events/samples/"

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(samples + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func table(catalog, name string, levels ...string) maintenance.TableID {
	return maintenance.TableID{Catalog: catalog, Namespace: maintenance.NewNamespace(levels...), Name: name}
}

func wanted() map[string][]event.Notice {
	committed := event.Notice{
		Source: event.SourceCommitted, EventID: "e-1", Table: table("lake", "events", "db"),
		TableUUID: "9c12d441-03fe-4693-9a96-a0705ddf69c1", SnapshotID: 3051729675574597004,
	}
	object := event.Notice{Source: event.SourceS3, Location: "s3://lake/wh/db/t a+b%/metadata/x.metadata.json"}
	return map[string][]event.Notice{
		"firn/committed.json": {committed},
		"firn/committed-eventbridge.json": {{
			Source: event.SourceCommitted, EventID: "17793124-05d4-b198-2fde-7ededc63b103", Table: table("lake", "t +%", "a", "b.c"),
			SnapshotID: 3051729675574597004,
		}},
		"glue/table-state-change.json": {
			{Source: event.SourceGlue, EventID: "2617428d-715f-edef-70b8-d210da0317a0", Table: table("", "t1", "d1")},
		},
		"glue/database-state-change.json": {
			{Source: event.SourceGlue, EventID: "2617428d-715f-edef-70b8-d210da0317a1", Table: table("", "t1", "d1")},
			{Source: event.SourceGlue, EventID: "2617428d-715f-edef-70b8-d210da0317a1", Table: table("", "t2", "d1")},
		},
		"s3/object-created.json": {{
			Source: event.SourceS3, EventID: "17793124-05d4-b198-2fde-7ededc63b104",
			Location: "s3://lake/wh/db/t a+b%/metadata/00042-aa.metadata.json",
		}},
		"s3/classic.json":                {object},
		"s3/test-event.json":             nil,
		"sns/s3-direct.json":             {object},
		"sns/committed-through-sqs.json": {committed},
		"schedule/notice.json":           {{Source: event.SourceSchedule, EventID: "s-1", Table: table("lake", "events", "db")}},
	}
}

func TestSamples(t *testing.T) {
	t.Parallel()
	want := wanted()
	files, err := filepath.Glob(samples + "*/*.json")
	if err != nil || len(files) != len(want) {
		t.Fatalf("%d samples, %v: want %d", len(files), err, len(want))
	}
	for name, notices := range want {
		plain := read(t, name)
		for form, body := range map[string][]byte{"plain": plain, "gzip": pack(t, plain), "base64": []byte(base64.StdEncoding.EncodeToString(pack(t, plain)))} {
			got, err := event.Decode(body)
			if err != nil {
				t.Errorf("%s (%s): %v", name, form, err)
			}
			if diff := cmp.Diff(notices, got); diff != "" {
				t.Errorf("%s (%s):\n%s", name, form, diff)
			}
		}
	}
}

func pack(t *testing.T, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(data); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestMalformedEventsAreUnknown(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		``, `{}`, `[]`, `"x"`, `{"v":2,"catalog":"c","namespace":["n"],"table":"t"}`, `{"v":1,"namespace":[],"table":"t"}`,
		`{"Records":[{"eventSource":"aws:sqs"}]}`, `{"detail-type":"Object Created","source":"aws.s3","detail":{}}`,
		`{"detail-type":"Glue Data Catalog Table State Change","source":"aws.glue","detail":{"tableName":"t"}}`,
		`{"detail-type":"EC2 Instance State-change Notification","source":"aws.ec2","detail":{}}`,
		`{"Type":"Notification","Message":"no json"}`, "\x1f\x8b broken",
	} {
		if _, err := event.Decode([]byte(body)); !errors.Is(err, event.ErrUnknown) {
			t.Errorf("%q: error %v", body, err)
		}
	}
}

func TestEncodedNoticeMatchesSchemaAndDecodes(t *testing.T) {
	t.Parallel()
	schema, err := jsonschema.NewCompiler().Compile("../../events/schemas/iceberg-table-committed.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	want := event.Notice{Source: event.SourceSchedule, EventID: "s", Table: table("lake", "a+b", "my db", "x.y")}
	data, err := event.Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range [][]byte{data, read(t, "firn/committed.json"), read(t, "schedule/notice.json")} {
		var v any
		if err := json.Unmarshal(body, &v); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	got, err := event.Decode(data)
	if err != nil || !cmp.Equal(got, []event.Notice{want}) {
		t.Errorf("decoded %+v, %v", got, err)
	}
}

func FuzzDecode(f *testing.F) {
	for name := range wanted() {
		f.Add(read(f, name))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := event.Decode(body); err != nil && !errors.Is(err, event.ErrUnknown) {
			t.Errorf("error without class: %v", err)
		}
	})
}
