//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"firn/internal/icebergtest"
)

// page reads a document of the project.
func page(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// blocks are the fenced blocks of a language under a heading.
func blocks(t *testing.T, text, heading, language string) []string {
	t.Helper()
	_, section, found := strings.Cut(text, "\n"+heading+"\n")
	if !found {
		t.Fatalf("there is no heading %q", heading)
	}
	if end := regexp.MustCompile(`(?m)^#{2,} `).FindStringIndex(section); end != nil {
		section = section[:end[0]]
	}
	var out []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(section, -1) {
		out = append(out, m[1])
	}
	return out
}

// visitor is a role with the policies that docs/operations.md prints for people: the first to look, the second to alter a table.
const visitor = "Firn-Visitor"

// withVisitor adds the role to a template.
func withVisitor(t *testing.T, doc map[string]any) map[string]any {
	t.Helper()
	policies := []any{}
	for i, text := range blocks(t, page(t, "docs/operations.md"), "### Policies for looking at a table in Glue", "json") {
		policies = append(policies, map[string]any{"PolicyName": fmt.Sprint("P", i), "PolicyDocument": decode(t, text)})
	}
	if len(policies) != 2 {
		t.Fatalf("docs/operations.md prints %d policies, want 2", len(policies))
	}
	doc["Resources"].(map[string]any)["Visitor"] = map[string]any{"Type": "AWS::IAM::Role", "Properties": map[string]any{
		"AssumeRolePolicyDocument": map[string]any{"Version": "2012-10-17", "Statement": []any{map[string]any{
			"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": map[string]any{"Service": "lambda.amazonaws.com"},
		}}},
		"Policies": policies,
	}}
	return doc
}

// shell runs one line of the README in the checkout, with the account's endpoint, region and the visitor's keys in the environment.
func (d *deployment) shell(home, line string, outputs map[string]string) string {
	d.t.Helper()
	cmd := exec.Command("bash", "-c", line)
	cmd.Dir = root
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "AWS_") && !strings.HasPrefix(pair, "PYICEBERG_") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	cmd.Env = append(cmd.Env, "FIRN_HOME="+home, "AWS_ENDPOINT_URL="+d.URL(), "AWS_REGION="+region, "AWS_ACCESS_KEY_ID="+visitor, "AWS_SECRET_ACCESS_KEY=s",
		"AWS_EC2_METADATA_DISABLED=true", "CONFIG="+outputs["Config"], "STATE_TABLE="+outputs["StateTable"])
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Fatalf("%s\n%v\n%s", line, err, out)
	}
	return string(out)
}

// TestTenMinutes plays "Your Glue table in ten minutes" of the README: its own lines, one after the other, as somebody who has no more than the policies that
// the documentation prints. Where it deploys, the template and the firn.yaml are deployed that the CDK app makes of the same line (infra's TestGolden).
func TestTenMinutes(t *testing.T) {
	lines := blocks(t, page(t, "README.md"), "## Your Glue table in ten minutes", "sh")
	if len(lines) != 1 {
		t.Fatalf("README has %d blocks of commands there, want 1", len(lines))
	}
	doc := withVisitor(t, decode(t, page(t, "infra/testdata/template.golden.json")))
	stack, err := read(doc, place())
	if err != nil {
		t.Fatal(err)
	}
	before, err := read(withVisitor(t, decode(t, `{"Resources": {}}`)), place())
	if err != nil {
		t.Fatal(err)
	}
	d := prepare(t, stack, []byte(page(t, "infra/testdata/firn.golden.yaml")))
	if err := d.Deploy(before); err != nil {
		t.Fatal(err)
	}
	tbl := d.table("orders")
	tbl.fill(7, 1)
	insert := func() {
		d.world.Clock.Set(time.Now())
		var files []icebergtest.Change
		for i := range 100 {
			files = append(files, icebergtest.Append(icebergtest.Row{int64(i), "g00", 1.5}))
		}
		tbl.commit(files...)
		d.TableChanged("db", "orders")
		d.later(tbl)
	}
	home := t.TempDir()
	var want icebergtest.Content
	played := 0
	for line := range strings.Lines(lines[0]) {
		step := func(command string) bool { return strings.HasPrefix(line, command) }
		expect := func(parts ...string) {
			t.Helper()
			played++
			out := d.shell(home, line, stack.Outputs)
			for _, part := range parts {
				if !strings.Contains(out, part) {
					t.Errorf("%s does not say %q:\n%s", line, part, out)
				}
			}
		}
		switch {
		case step("make firn"):
			expect()
		case step("bin/firn inspect "):
			expect("db.orders", "7 (7 parquet)", "it asks for:")
		case step("bin/firn run --dry-run "):
			expect("would replace 7 files", "for about $0.0020", "nothing was changed")
		case step("npx cdk bootstrap"), step("npx cdk destroy"):
			played++ // CloudFormation's
		case step("npx cdk deploy "):
			played++
			if err := d.Deploy(stack); err != nil {
				t.Fatal(err)
			}
			insert()
			want = tbl.content()
		case step("bin/firn explain "):
			expect("last decision: observe at ", "rewrite_data_files: true: ", "with firn.mode=maintain they would run rewrite_data_files")
			command, _, _ := strings.Cut(line, "#")
			command = strings.NewReplacer(`"`, "", "$CONFIG", stack.Outputs["Config"], "$STATE_TABLE", stack.Outputs["StateTable"]).Replace(strings.TrimSpace(command))
			if printed := strings.ReplaceAll(stack.Outputs["Explain"], "NAMESPACE.TABLE", "db.orders"); printed != command {
				t.Errorf("the deployment prints %q, README says %q", printed, command)
			}
			if n := tbl.dataFiles(); n != 107 || len(d.Executions()) != 0 {
				t.Errorf("in mode observe %d files are left of 107, %d runs", n, len(d.Executions()))
			}
		case step("bin/firn sql ") && strings.Contains(line, " SET "):
			expect("altered default.db.orders")
			d.later(tbl)
			tbl.unchanged(want)
			if n := tbl.dataFiles(); n != 1 {
				t.Errorf("in mode maintain %d data files are left, want 1", n)
			}
		case step("bin/firn sql ") && strings.Contains(line, " UNSET "):
			expect("altered default.db.orders")
			runs := len(d.Executions())
			insert()
			if n := tbl.dataFiles(); n != 101 || len(d.Executions()) != runs {
				t.Errorf("observed again, %d files are left of 101, and %d runs began", n, len(d.Executions())-runs)
			}
		default:
			t.Errorf("README has a line that nobody plays: %s", line)
		}
	}
	if played != 9 {
		t.Errorf("%d lines were played, want 9", played)
	}
	for _, statement := range d.Unneeded() {
		if strings.HasPrefix(statement, "Visitor") {
			t.Errorf("docs/operations.md allows people %s, and nothing needed it", statement)
		}
	}
	d.clean()
}
