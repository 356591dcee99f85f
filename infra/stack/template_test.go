package stack_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"

	"firn/infra/settings"
	"firn/infra/stack"
	"firn/internal/contract"
)

// The runtime of jsii is one process for all tests, and not safe for concurrent use: no test here is parallel.
func TestMain(m *testing.M) {
	code := m.Run()
	jsii.Close()
	os.Exit(code)
}

// minimal are the settings of README's first deployment.
func minimal() map[string]string {
	return map[string]string{"warehouse": "s3://lake/warehouse", "tables": "db.*"}
}

// with adds settings to minimal ones.
func with(pairs ...string) map[string]string {
	values := minimal()
	for i := 0; i < len(pairs); i += 2 {
		values[pairs[i]] = pairs[i+1]
	}
	return values
}

// noPanic turns a panic of the CDK into a failure.
func noPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if fault := recover(); fault != nil {
			t.Fatalf("cdk: %v", fault)
		}
	}()
	f()
}

// prepare makes what a stack of some settings is made of: stand-ins of the functions, and their firn.yaml.
func prepare(t *testing.T, values map[string]string) *stack.Props {
	t.Helper()
	s, err := settings.Parse(values)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range contract.Functions() {
		folder := filepath.Join(dir, name)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "bootstrap"), []byte("code of "+name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(dir, "firn.yaml")
	if err := stack.WriteConfig(s, "../..", config); err != nil {
		t.Fatal(err)
	}
	return &stack.Props{Settings: s, Artifacts: dir, Config: config}
}

// build makes the stack of some settings in an app of its own.
func build(t *testing.T, values map[string]string) (awscdk.App, *stack.Firn) {
	t.Helper()
	props := prepare(t, values)
	var app awscdk.App
	var made *stack.Firn
	noPanic(t, func() {
		flags := stack.Flags()
		app = awscdk.NewApp(&awscdk.AppProps{Context: &flags, Outdir: jsii.String(filepath.Join(props.Artifacts, "cdk.out"))})
		made = stack.New(app, "Firn", props)
	})
	return app, made
}

// template is a synthesised template.
type template struct {
	t         *testing.T
	resources map[string]resource
	raw       map[string]any
	// assets are the contents of assets by their hashes, config is the firn.yaml among them.
	assets map[string]string
	config []byte
}

// committed is the template as it lies in testdata: what changes with every build is replaced by what it stands for.
func (tp *template) committed() []byte {
	tp.t.Helper()
	data, err := json.MarshalIndent(tp.raw, "", " ")
	if err != nil {
		tp.t.Fatal(err)
	}
	for hash, what := range tp.assets {
		data = bytes.ReplaceAll(data, []byte(hash), []byte("ASSET-"+what))
	}
	return append(normal(data), '\n')
}

// readAssets reads which function, or the firn.yaml, is behind each hash.
func (tp *template) readAssets(folder string) {
	tp.t.Helper()
	manifest, err := os.ReadFile(filepath.Join(folder, "Firn.assets.json"))
	if err != nil {
		tp.t.Fatal(err)
	}
	var assets struct {
		Files map[string]struct{ Source struct{ Path string } }
	}
	if err := json.Unmarshal(manifest, &assets); err != nil {
		tp.t.Fatal(err)
	}
	tp.assets = map[string]string{}
	for hash, asset := range assets.Files {
		path := filepath.Join(folder, asset.Source.Path)
		if code, err := os.ReadFile(filepath.Join(path, "bootstrap")); err == nil {
			tp.assets[hash] = strings.TrimPrefix(string(code), "code of ")
		} else if filepath.Ext(path) == ".yaml" {
			tp.assets[hash] = "firn"
			if tp.config, err = os.ReadFile(path); err != nil {
				tp.t.Fatal(err)
			}
		}
	}
}

type resource struct {
	Type           string
	Properties     map[string]any
	DeletionPolicy string
}

// templates keeps templates by their settings: a synthesis takes seconds.
var templates = map[string]*template{}

func synth(t *testing.T, values map[string]string) *template {
	t.Helper()
	key := fmt.Sprint(values)
	if have := templates[key]; have != nil {
		return &template{t: t, resources: have.resources, raw: have.raw, assets: have.assets, config: have.config}
	}
	app, made := build(t, values)
	out := &template{t: t}
	noPanic(t, func() { out.raw = *assertions.Template_FromStack(made.Stack, nil).ToJSON() })
	data, err := json.Marshal(out.raw["Resources"])
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &out.resources); err != nil {
		t.Fatal(err)
	}
	out.readAssets(*app.Outdir())
	templates[key] = out
	return out
}

// of returns the resources of a type by logical ID, and fails when there is none.
func (tp *template) of(kind string) map[string]resource {
	tp.t.Helper()
	found := map[string]resource{}
	for id, r := range tp.resources {
		if r.Type == kind {
			found[id] = r
		}
	}
	if len(found) == 0 {
		tp.t.Errorf("no resource of type %s", kind)
	}
	return found
}

// flat writes a value with intrinsic functions as text: ${Logical.Attribute}.
func flat(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case map[string]any:
		if ref, is := v["Ref"].(string); is {
			return "${" + ref + "}"
		}
		if get, is := v["Fn::GetAtt"].([]any); is {
			return fmt.Sprintf("${%v.%v}", get[0], get[1])
		}
		if sub, is := v["Fn::Sub"].(string); is {
			return sub
		}
		if join, is := v["Fn::Join"].([]any); is {
			var parts []string
			for _, part := range join[1].([]any) {
				parts = append(parts, flat(part))
			}
			return strings.Join(parts, fmt.Sprint(join[0]))
		}
	}
	data, _ := json.Marshal(v)
	return string(data)
}

// flats is flat of one value or of a list.
func flats(v any) []string {
	if list, is := v.([]any); is {
		var out []string
		for _, one := range list {
			out = append(out, flat(one))
		}
		return out
	}
	return []string{flat(v)}
}

// statement is one statement of a policy.
type statement struct {
	sid, effect        string
	actions, resources []string
	condition          any
}

func statements(document any) []statement {
	var out []statement
	doc, _ := document.(map[string]any)
	list, _ := doc["Statement"].([]any)
	for _, one := range list {
		s := one.(map[string]any)
		sid, _ := s["Sid"].(string)
		out = append(out, statement{sid, s["Effect"].(string), flats(s["Action"]), flats(s["Resource"]), s["Condition"]})
	}
	return out
}

// powers are the statements of a function's role: those in it, and those of policies attached to it.
func (tp *template) powers(function string) []statement {
	tp.t.Helper()
	for id, r := range tp.of("AWS::IAM::Role") {
		if r.Properties["Description"] == "Firn's function "+function {
			return tp.role(id)
		}
	}
	tp.t.Fatalf("function %s has no role", function)
	return nil
}

func (tp *template) role(id string) []statement {
	r := tp.resources[id]
	if managed := r.Properties["ManagedPolicyArns"]; managed != nil {
		tp.t.Errorf("role %s has managed policies %v", id, managed)
	}
	var out []statement
	inline, _ := r.Properties["Policies"].([]any)
	for _, policy := range inline {
		out = append(out, statements(policy.(map[string]any)["PolicyDocument"])...)
	}
	for _, policy := range tp.resources {
		if policy.Type == "AWS::IAM::Policy" && slices.Contains(flats(policy.Properties["Roles"]), "${"+id+"}") {
			out = append(out, statements(policy.Properties["PolicyDocument"])...)
		}
	}
	return out
}

// where lists the resources on which a function may do what begins with the action, sorted; a deny is left out.
func (tp *template) where(function, action string) []string {
	tp.t.Helper()
	found := map[string]bool{}
	for _, s := range tp.powers(function) {
		for _, a := range s.actions {
			if s.effect == "Allow" && strings.HasPrefix(a, action) {
				for _, r := range s.resources {
					found[r] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}
