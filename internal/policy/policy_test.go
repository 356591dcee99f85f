package policy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"firn/internal/maintenance"
	"firn/internal/policy"
)

var update = flag.Bool("update", false, "rewrite the published schema")

// TestEffective runs testdata/effective: "document" takes the part policy of firn.yaml; "explain table=... key..." takes table properties and
// command line values as lines "property k=v" and "flag k=v" and shows the named keys, or all that are not built-in; "request" shows a job's request.
func TestEffective(t *testing.T) {
	t.Parallel()
	var doc policy.Document
	datadriven.RunTest(t, "testdata/effective", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "document" {
			var err error
			if doc, err = policy.ParseYAML([]byte(d.Input)); err != nil {
				if !errors.Is(err, policy.ErrPolicy) {
					t.Errorf("error %v is no policy error", err)
				}
				return err.Error()
			}
			return "ok"
		}
		p, err := effective(t, doc, d)
		if err != nil {
			return err.Error()
		}
		if d.Cmd == "request" {
			return request(p.Request(maintenance.Job(d.CmdArgs[1].Key)))
		}
		var b strings.Builder
		for _, e := range p.Explain() {
			if len(d.CmdArgs) > 1 && !slices.ContainsFunc(d.CmdArgs[1:], func(a datadriven.CmdArg) bool { return a.Key == e.Key }) ||
				len(d.CmdArgs) == 1 && e.Source == "built-in" {
				continue
			}
			fmt.Fprintf(&b, "%s = %s (%s)", e.Key, e.Value, e.Source)
			for _, o := range e.Overrode {
				fmt.Fprintf(&b, " over %q (%s)", o.Value, o.Source)
			}
			b.WriteString("\n")
		}
		return b.String()
	})
}

func effective(t *testing.T, doc policy.Document, d *datadriven.TestData) (policy.Policy, error) {
	t.Helper()
	catalog, name, found := strings.Cut(d.CmdArgs[0].Vals[0], ":")
	if !found {
		catalog, name = "", catalog
	}
	id, err := maintenance.ParseTableID(catalog, name)
	if err != nil {
		t.Fatal(err)
	}
	properties, line := map[string]string{}, map[string]string{}
	for text := range strings.Lines(d.Input) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
		key, value, _ := strings.Cut(rest, "=")
		if kind == "property" {
			properties[key] = value
		} else {
			line[key] = value
		}
	}
	return doc.Effective(id, properties, line)
}

func request(r maintenance.JobRequest) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(r.Args)) {
		fmt.Fprintf(&b, "argument %s=%s\n", k, r.Args[k])
	}
	for _, k := range slices.Sorted(maps.Keys(r.Options)) {
		fmt.Fprintf(&b, "option %s=%s\n", k, r.Options[k])
	}
	return b.String()
}

// TestDefaults: without any layer the policy has Spark's defaults and the triggers of the documentation.
func TestDefaults(t *testing.T) {
	t.Parallel()
	p, err := policy.Document{}.Effective(maintenance.TableID{Namespace: "db", Name: "t"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p.Mode() != policy.Observe {
		t.Errorf("mode %s", p.Mode())
	}
	want := policy.Triggers{
		SmallFiles: 100, SmallFilesAged: 5, Age: 24 * time.Hour, DeletedRatio: 0.3, DeleteFiles: 5, PositionDeleteFiles: 100, DanglingDeleteFiles: 1,
		SmallManifests: 100, ExpireInterval: 24 * time.Hour, OrphansInterval: 7 * 24 * time.Hour,
	}
	if got := p.Triggers(); got != want {
		t.Errorf("triggers %+v\nwant %+v", got, want)
	}
	for _, job := range maintenance.Chain() {
		r := p.Request(job)
		wantArgs, wantOptions := map[string]string{}, map[string]string{}
		if job == maintenance.RewriteDataFiles { // what triggers a run is what the run looks for
			wantOptions = map[string]string{"delete-file-threshold": "5", "delete-ratio-threshold": "0.3", "min-input-files": "5"}
		}
		if job == maintenance.RemoveOrphanFiles {
			wantArgs["dry_run"] = "true"
		}
		if !maps.Equal(r.Options, wantOptions) || !maps.Equal(r.Args, wantArgs) {
			t.Errorf("request of %s has %v %v", job, r.Args, r.Options)
		}
	}
}

// TestKeysAreSound: names are unique, defaults are in their normal form, every key has a note.
func TestKeysAreSound(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range policy.Keys() {
		if seen[k.Name] || k.Note == "" {
			t.Errorf("key %s is there twice or has no note", k.Name)
		}
		seen[k.Name] = true
		for _, value := range []string{k.Default, k.Glue} {
			if value == "" {
				continue
			}
			p, err := policy.Document{}.Effective(maintenance.TableID{}, nil, map[string]string{k.Name: value})
			if err != nil {
				t.Errorf("default of %s: %v", k.Name, err)
			} else if s, _ := p.Setting(k.Name); s.Value != value {
				t.Errorf("default of %s is %q, normal form %q", k.Name, value, s.Value)
			}
		}
	}
}

const sample = `
catalog: prod
catalogs: {prod: {type: sql, uri: "sqlite:///w/c.db"}}
work-location: s3://w/firn
policy:
  preset: glue
  mode: maintain
  rewrite_data_files: {min-input-files: 10, target-file-size-bytes: 256MiB, trigger: {small-files: 50}}
  expire_snapshots.older-than: 7d
  catalogs: {prod: {max-runs-per-day: 10}}
  namespaces: {raw: {mode: "off"}}
  tables:
    - match: "*.events_*"
      remove_orphan_files: {enabled: true, equal-schemes: {"gs,abfs": s3}}
      expire_snapshots: {bookmark-keys: [my.offset, "other"]}
`

// TestSchema: the published schema is the one that the keys make, accepts a document that Parse accepts and refuses what Parse refuses.
func TestSchema(t *testing.T) {
	t.Parallel()
	const path = "../../events/schemas/firn.schema.json"
	want, err := policy.SchemaJSON()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%s is not what the keys make (%v): run go test ./internal/policy -update", path, err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(got))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("firn.schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("firn.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for text, ok := range map[string]bool{
		sample:                      true,
		"policy: {mode: sometimes}": false,
		"policy: {rewrite_data_files: {min-input: 3}}":            false,
		"policy: {expire_snapshots: {older-than: 5}}":             false,
		"policy: {tables: [{mode: observe}]}":                     false,
		"policy: {rewrite_data_files.trigger.deleted-ratio: 1.5}": false,
		"polcy: {}": false,
	} {
		value := toJSON(t, text)
		if err := schema.Validate(value); (err == nil) != ok {
			t.Errorf("schema on %q: %v", text, err)
		}
		if part, has := value.(map[string]any)["policy"].(map[string]any); has {
			var typed struct {
				Policy map[string]any `yaml:"policy"`
			}
			if err := yaml.Unmarshal([]byte(text), &typed); err != nil {
				t.Fatal(err)
			}
			if _, err := policy.Parse(typed.Policy); (err == nil) != ok {
				t.Errorf("parse of %v: %v", part, err)
			}
		}
	}
}

// TestReference: docs/policy.md is what the keys make.
func TestReference(t *testing.T) {
	t.Parallel()
	const path = "../../docs/policy.md"
	want := policy.Reference()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s is not what the keys make (%v): run go test ./internal/policy -update", path, err)
	}
}

func toJSON(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"db.t", "db.t", true},
		{"db.t", "db.t2", false},
		{"db.*", "db.t", true},
		{"db.*", "db.a.t", false},
		{"db.**", "db.a.t", true},
		{"*.events_*", "raw.events_2024", true},
		{"*", "db.t", false},
		{"**", "db.t", true},
		{"**.t", "a.b.t", true},
		{"a*c.d", "abbc.d", true},
		{"a*c.d", "ac.d", true},
		{"", "", true},
	} {
		if got := policy.Match(c.pattern, c.name); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.name, got)
		}
	}
}

// TestMatchIsARegularExpression: on any pattern and name; and no number of stars makes it slow, which tried every way to part the name among them would for hours.
func TestMatchIsARegularExpression(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.SampledFrom([]byte("ab.*"))
		pattern, name := string(rapid.SliceOfN(letters, 0, 12).Draw(t, "pattern")), string(rapid.SliceOfN(letters, 0, 12).Draw(t, "name"))
		text := strings.NewReplacer("**", ".*", "*", "[^.]*", ".", `\.`).Replace(pattern)
		if got, want := policy.Match(pattern, name), regexp.MustCompile("^"+text+"$").MatchString(name); got != want {
			t.Fatalf("%q matches %q: %t, as %s it does: %t", pattern, name, got, text, want)
		}
	})
	if policy.Match(strings.Repeat("**a", 100)+"b", strings.Repeat("a", 10_000)) {
		t.Error("there is no b")
	}
}

// FuzzParse: no text makes the parser panic; what is accepted makes a policy for any table, and every value reads back.
func FuzzParse(f *testing.F) {
	f.Add("mode: maintain\ntables: [{match: \"**\", rewrite_data_files: {min-input-files: 2}}]", "db.t")
	f.Add("preset: glue\ncatalogs: {c: {mode: \"off\"}}\nexpire_snapshots.older-than: 1w", "a.b.c")
	f.Add("remove_orphan_files: {equal-schemes: {a: b}}", "x.y")
	f.Add("tables: [{match: \"**a**a**a**a**a**a**a**a**a**a**a**b\"}]", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	f.Fuzz(func(t *testing.T, text, name string) {
		doc, err := policy.ParseYAML([]byte(text))
		if err != nil {
			return
		}
		id, err := maintenance.ParseTableID("c", name)
		if err != nil {
			return
		}
		p, err := doc.Effective(id, nil, nil)
		if err != nil {
			t.Fatalf("a parsed document has no policy: %v", err)
		}
		line := map[string]string{}
		for _, e := range p.Explain() {
			if e.Value != "" {
				line[e.Key] = e.Value
			}
		}
		if _, err := doc.Effective(id, nil, line); err != nil {
			t.Fatalf("values do not read back: %v", err)
		}
	})
}

func TestRoundAge(t *testing.T) {
	t.Parallel()
	for age, want := range map[time.Duration]string{
		0: "0s", 42*time.Second + 400*time.Millisecond: "42s", 59*time.Minute + 59*time.Second: "59m59s", 3*time.Hour + 5*time.Minute: "3h5m",
		47 * time.Hour: "47h0m", 48 * time.Hour: "2d", 283*time.Hour + 12*time.Minute: "11d19h",
	} {
		if got := policy.RoundAge(age); got != want {
			t.Errorf("%v: %s, want %s", age, got, want)
		}
	}
}
