package event_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"firn/internal/contract"
	"firn/internal/event"
	"firn/internal/maintenance"
)

const (
	schemas     = "../../events/schemas/"
	ownSchema   = "iceberg-table-committed.schema.json"
	cloudSchema = "iceberg-table-committed-cloudevent.schema.json"
	endedSchema = "firn-run-ended.schema.json"
	heardFolder = "heard/"
)

// compile compiles a schema under events/schemas; references between them are read from there.
func compile(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	files := []string{ownSchema, cloudSchema, endedSchema}
	if strings.HasPrefix(name, heardFolder) {
		files = append(files, name)
	}
	for _, file := range files {
		data, err := os.ReadFile(schemas + file)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource("https://firn.dev/schemas/"+file, doc); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := c.Compile("https://firn.dev/schemas/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func validate(t *testing.T, schema *jsonschema.Schema, body []byte) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return schema.Validate(v)
}

// TestOurPayloadsMatchTheirSchemas validates every sample whose payload is ours, and what Encode writes.
func TestOurPayloadsMatchTheirSchemas(t *testing.T) {
	t.Parallel()
	detail := func(name string) []byte {
		var e struct{ Detail json.RawMessage }
		if err := json.Unmarshal(read(t, name), &e); err != nil {
			t.Fatal(err)
		}
		return e.Detail
	}
	own := compile(t, ownSchema)
	for name, body := range map[string][]byte{
		"committed": read(t, "firn/committed.json"), "schedule": read(t, "schedule/notice.json"), "eventbridge": detail("firn/committed-eventbridge.json"),
		"pipe": detail("firn/committed-bus-pipe.json"), "scheduler": detail("schedule/table.json"),
	} {
		if err := validate(t, own, body); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	cloud := compile(t, cloudSchema)
	for _, name := range []string{"firn/committed-cloudevent.json", "firn/committed-cloudevent-base64.json"} {
		if err := validate(t, cloud, read(t, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if validate(t, cloud, read(t, "lakekeeper/update-structured.json")) == nil {
		t.Error("the schema of our CloudEvent takes another's")
	}
}

// TestSamplesMatchTheirSchemas: every sample matches the schema of its source, and what that schema takes the decoder takes, or it says that no table is
// named: tried with every member of every sample taken away, emptied, and of another type.
func TestSamplesMatchTheirSchemas(t *testing.T) {
	t.Parallel()
	compiled := map[string]*jsonschema.Schema{}
	refused, taken := 0, 0
	for _, name := range sampleNames(t) {
		folder := path.Dir(name)
		if compiled[folder] == nil {
			compiled[folder] = compile(t, heardFolder+folder+".schema.json")
		}
		plain := read(t, name)
		if err := validate(t, compiled[folder], plain); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for where, body := range faulty(t, plain) {
			schemaErr := validate(t, compiled[folder], body)
			_, err := event.Decode(body)
			switch {
			case schemaErr == nil && err != nil && !errors.Is(err, event.ErrNoTable):
				t.Errorf("%s without %s: its schema takes it, the decoder says %v", name, where, err)
			case schemaErr != nil:
				refused++
			default:
				taken++
			}
		}
	}
	if refused < 200 || taken < 1000 {
		t.Errorf("schemas refuse %d faulty samples and take %d", refused, taken)
	}
}

// faulty are copies of a JSON document, in each of which one member of one object is missing, empty, or a number.
func faulty(t *testing.T, document []byte) map[string][]byte {
	t.Helper()
	var root any
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	if err := decoder.Decode(&root); err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	note := func(where string) {
		data, err := json.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		out[where] = data
	}
	var walk func(where string, at any)
	walk = func(where string, at any) {
		switch v := at.(type) {
		case []any:
			for i := range min(len(v), 3) {
				walk(fmt.Sprint(where, "/", i), v[i])
			}
		case map[string]any:
			for member, value := range maps.Clone(v) {
				delete(v, member)
				note(where + "/" + member)
				v[member] = ""
				note(where + "/" + member + ", empty")
				v[member] = 7
				note(where + "/" + member + ", a number")
				v[member] = value
				walk(where+"/"+member, value)
			}
		}
	}
	walk("", root)
	return out
}

// TestNoticesEncodeAndDecode: every table that any sample names goes round as our own event, and as a notice in JSON.
func TestNoticesEncodeAndDecode(t *testing.T) {
	t.Parallel()
	own := compile(t, ownSchema)
	notices := []event.Notice{{
		Source: event.SourceSchedule, EventID: "s",
		Table: maintenance.TableID{Catalog: "lake", Namespace: maintenance.NewNamespace("my db", "x.y"), Name: "ä+b%2F"},
	}}
	for _, name := range sampleNames(t) {
		found, _ := event.Decode(read(t, name))
		notices = append(notices, found...)
	}
	for _, n := range notices {
		data, err := json.Marshal(n)
		var back event.Notice
		if err != nil || json.Unmarshal(data, &back) != nil || !cmp.Equal(n, back) {
			t.Errorf("%s: notice comes back as %+v, %v", data, back, err)
		}
		if n.Location != "" {
			continue
		}
		body, err := event.Encode(n)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, own, body); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		want := event.Notice{Source: event.SourceCommitted, EventID: n.EventID, Table: n.Table, TableUUID: n.TableUUID, SnapshotID: n.SnapshotID}
		if n.Source == event.SourceSchedule {
			want.Source = n.Source
		}
		if got, err := event.Decode(body); err != nil || !cmp.Equal(got, []event.Notice{want}) {
			t.Errorf("%s: decoded %+v, %v", body, got, err)
		}
	}
}

// TestSchemaAndDecoderAgree: what the schema refuses, the decoder refuses, and the other way round.
func TestSchemaAndDecoderAgree(t *testing.T) {
	t.Parallel()
	own := compile(t, ownSchema)
	refused := 0
	for _, body := range []string{
		`{"v":1,"namespace":["db"],"table":"t"}`, `{"v":1,"catalog":"","namespace":["db"],"table":"t"}`, `{"v":1,"catalog":"c d","namespace":["a.b","c"],"table":"t+%"}`,
		`{"v":2,"namespace":["db"],"table":"t"}`, `{"v":"1","namespace":["db"],"table":"t"}`, `{"v":1,"namespace":[],"table":"t"}`, `{"v":1,"table":"t"}`,
		`{"v":1,"namespace":"db","table":"t"}`, `{"v":1,"namespace":[1],"table":"t"}`, `{"v":1,"namespace":["db"]}`, `{"v":1,"namespace":["db"],"table":7}`,
		`{"v":1,"namespace":["db"],"table":""}`, `{"v":1,"namespace":[""],"table":"t"}`, `{"v":1,"namespace":["db"],"table":"../t"}`,
		`{"v":1,"namespace":[".."],"table":"t"}`, `{"v":1,"namespace":["db"],"table":"..."}`, `{"v":1,"namespace":["db"],"table":"t'--"}`,
		`{"v":1,"namespace":["db"],"table":"t;"}`, `{"v":1,"namespace":["d\u001fb"],"table":"t"}`, `{"v":1,"namespace":["db"],"table":"t\u0000"}`,
		`{"v":1,"namespace":["db"],"table":"t\\u"}`, `{"v":1,"namespace":["db"],"table":"\"t\""}`, `{"v":1,"catalog":"a/b","namespace":["db"],"table":"t"}`,
		`{"v":1,"catalog":null,"namespace":["db"],"table":"t"}`, `{"v":1,"namespace":["db"],"table":"t","snapshot_id":1.5}`,
		`{"v":1,"namespace":["db"],"table":"t","snapshot_id":"x"}`, `{"v":1,"namespace":["db"],"table":"t","snapshot_id":"12"}`,
		`{"v":1,"namespace":["db"],"table":"t","snapshot_id":12}`, `{"v":1,"namespace":["db"],"table":"t","event_id":1}`,
		`{"v":1,"namespace":["db"],"table":"` + strings.Repeat("n", 255) + `"}`, `{"v":1,"namespace":["db"],"table":"` + strings.Repeat("n", 256) + `"}`,
	} {
		schemaErr := validate(t, own, []byte(body))
		_, err := event.Decode([]byte(body))
		if (schemaErr == nil) != (err == nil) {
			t.Errorf("%s: schema says %v, decoder %v", body, schemaErr, err)
		}
		if err != nil {
			refused++
		}
	}
	if refused != 24 {
		t.Errorf("%d bodies refused", refused)
	}
}

// TestAsyncAPIRefersToWhatExists: the document parses, and its references lead somewhere.
func TestAsyncAPIRefersToWhatExists(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../events/asyncapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	if doc["asyncapi"] != "3.0.0" || !strings.Contains(string(data), "name: "+event.DetailType+"\n") || !strings.Contains(string(data), "name: "+contract.EventRunEnded+"\n") {
		t.Errorf("version %v, or an event's name is missing", doc["asyncapi"])
	}
	references := regexp.MustCompile(`\$ref: '([^']+)'`).FindAllStringSubmatch(string(data), -1)
	if len(references) < 10 {
		t.Fatalf("%d references", len(references))
	}
	var files []string
	for _, r := range references {
		path, inside := strings.CutPrefix(r[1], "#/")
		if !inside {
			files = append(files, strings.TrimPrefix(path, "./schemas/"))
			continue
		}
		var at any = doc
		for part := range strings.SplitSeq(path, "/") {
			m, _ := at.(map[string]any)
			at = m[part]
		}
		if at == nil {
			t.Errorf("reference %s leads nowhere", r[1])
		}
	}
	if slices.Sort(files); !slices.Equal(files, []string{endedSchema, cloudSchema, ownSchema}) {
		t.Errorf("schemas referred to: %v", files)
	}
}
