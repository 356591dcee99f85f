package stack_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"firn/infra/pipeline"
	"firn/infra/settings"
	"firn/internal/contract"
)

const theirRole = "arn:aws:iam::999988887777:role/firn-"

// TestBucketsByRole: buckets of other accounts are reached in roles of theirs. A function may assume its own of them and no other, only where it touches
// tables' files; its own role has no powers on those buckets, and keeps those on the others.
func TestBucketsByRole(t *testing.T) {
	tp := synth(t, with("warehouse", "s3://lake/warehouse,s3://partner/tables,s3://second/t", "warehouse.roles", "partner="+theirRole+"{function},second="+theirRole+"{function}"))
	for _, function := range contract.Functions() {
		var want []string
		if settings.ReachesFiles(function) {
			want = []string{theirRole + function}
		}
		if on := tp.where(function, "sts:"); !slices.Equal(on, want) {
			t.Errorf("%s assumes %v, want %v", function, on, want)
		}
		for _, s := range tp.powers(function) {
			if text := fmt.Sprint(s.resources); strings.Contains(text, "partner") || strings.Contains(text, "second") {
				t.Errorf("%s has powers of its own on another account's bucket: %v", function, s)
			}
		}
		if on := fmt.Sprint(tp.where(function, "s3:GetObject")); settings.ReachesFiles(function) && !strings.Contains(on, "s3:::lake/warehouse/") {
			t.Errorf("%s reads %v", function, on)
		}
		env := tp.environment(function)[contract.EnvBucketRoles]
		if text := "partner=" + theirRole + function + ",second=" + theirRole + function; len(want) > 0 && env != text || len(want) == 0 && env != nil {
			t.Errorf("%s is told %v", function, env)
		}
	}
	for _, function := range contract.Functions() {
		if plain := synth(t, minimal()); len(plain.where(function, "sts:")) > 0 || plain.environment(function)[contract.EnvBucketRoles] != nil {
			t.Errorf("%s takes roles where there are none", function)
		}
	}
	only := synth(t, map[string]string{"warehouse": "s3://partner/tables", "tables": "db.*", "warehouse.roles": "partner=" + theirRole + "{function}"})
	if on := only.where(contract.FunctionSweep, "s3:DeleteObject"); len(on) != 1 || !strings.HasSuffix(on[0], "/unsettled/*") {
		t.Errorf("sweep deletes on %v in its own role", on)
	}
}

// environment is that of a function.
func (tp *template) environment(function string) map[string]any {
	tp.t.Helper()
	for _, fn := range tp.of("AWS::Lambda::Function") {
		if fn.Properties["Description"] == "Firn: "+function {
			return fn.Properties["Environment"].(map[string]any)["Variables"].(map[string]any)
		}
	}
	tp.t.Fatalf("no function %s", function)
	return nil
}

// TestRolesOfTheOwner: the template that a bucket's owner deploys gives each role what the function's own would have on a bucket of its account, no more and no
// less, and lets that one function in.
func TestRolesOfTheOwner(t *testing.T) {
	data, err := os.ReadFile("../../docs/bucket-roles.json")
	if err != nil {
		t.Fatal(err)
	}
	var theirs struct {
		Parameters map[string]any
		Resources  map[string]resource
	}
	if err := json.Unmarshal(data, &theirs); err != nil {
		t.Fatal(err)
	}
	ours := synth(t, map[string]string{"warehouse": "s3://their-bucket/their-prefix", "tables": "db.*"})
	filled := strings.NewReplacer(`{"Ref":"Prefix"}`, `"their-prefix"`, `{"Fn::Sub":"${Prefix}/*"}`, `"their-prefix/*"`, "${Bucket}", "their-bucket", "${Prefix}", "their-prefix")
	onFiles := func(list []statement) []string {
		var out []string
		for _, s := range list {
			slices.Sort(s.actions)
			condition, _ := json.Marshal(s.condition)
			if text := filled.Replace(fmt.Sprint(s.effect, s.actions, s.resources, string(condition))); strings.Contains(text, "their-bucket") {
				out = append(out, text)
			}
		}
		slices.Sort(out)
		return out
	}
	roles := 0
	for _, function := range contract.Functions() {
		want := onFiles(ours.powers(function))
		role, found := theirs.Resources[pipeline.Title(function)+"Role"]
		if !found {
			if len(want) > 0 {
				t.Errorf("the owner has no role for %s, which needs %v", function, want)
			}
			continue
		}
		roles++
		var got []statement
		for _, policy := range role.Properties["Policies"].([]any) {
			got = append(got, statements(policy.(map[string]any)["PolicyDocument"])...)
		}
		if have := onFiles(got); !slices.Equal(have, want) || len(have) != len(got) {
			t.Errorf("%s may\n%s\nwant\n%s", function, strings.Join(have, "\n"), strings.Join(want, "\n"))
		}
		trust, _ := json.Marshal(role.Properties["AssumeRolePolicyDocument"])
		principal := `"Principal":{"AWS":{"Ref":"` + pipeline.Title(function) + `"}}`
		if name := flat(role.Properties["RoleName"]); name != "${Name}-"+function || strings.Count(string(trust), `"Effect"`) != 1 || !strings.Contains(string(trust), principal) {
			t.Errorf("%s trusts %s", name, trust)
		}
		if theirs.Parameters[pipeline.Title(function)] == nil {
			t.Errorf("no parameter for the role of %s", function)
		}
	}
	if roles != len(theirs.Resources) {
		t.Errorf("%d roles for %d resources", roles, len(theirs.Resources))
	}
}
