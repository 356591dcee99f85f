//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"firn/internal/contract"
	"firn/internal/local/cloud/template"
	"firn/internal/store"
)

// partner is a bucket of another account, which the functions reach in roles of its owner.
const (
	partner        = "partner"
	partnerAccount = "999988887777"
	partnerRole    = "arn:aws:iam::" + partnerAccount + ":role/firn-"
)

// verb is the verb of a role of the stack, "" when it is none of a function.
func verb(description string) string {
	name, is := strings.CutPrefix(description, "Firn's function ")
	if !is {
		return ""
	}
	return name
}

// rolesOfTheOwner deploys docs/bucket-roles.json as the bucket's owner would, with the roles that the stack prints.
func rolesOfTheOwner(t testing.TB, stack *template.Stack) map[string]*template.Role {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "docs", "bucket-roles.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{"Name": "firn", "Bucket": partner, "Prefix": "tables"}
	for _, r := range stack.Roles {
		if name := verb(r.Description); name != "" {
			values[strings.ToUpper(name[:1])+name[1:]] = r.ARN
		}
	}
	var replaced []string
	for name := range doc["Parameters"].(map[string]any) {
		replaced = append(replaced, `{"Ref":"`+name+`"}`, `"`+values[name]+`"`, "${"+name+"}", values[name])
	}
	delete(doc, "Parameters")
	delete(doc, "AWSTemplateFormatVersion")
	names := map[string]string{}
	for id, r := range doc["Resources"].(map[string]any) {
		properties := r.(map[string]any)["Properties"].(map[string]any)
		name, _ := properties["RoleName"].(map[string]any)["Fn::Sub"].(string)
		names[id] = strings.NewReplacer(replaced...).Replace(name)
		delete(properties, "RoleName")
	}
	if data, err = json.Marshal(doc); err != nil {
		t.Fatal(err)
	}
	theirs, err := template.Read([]byte(strings.NewReplacer(replaced...).Replace(string(data))), template.Place{Partition: "aws", Region: region, Account: partnerAccount, Stack: "Owner"})
	if err != nil {
		t.Fatal(err)
	}
	roles := map[string]*template.Role{}
	for id, r := range theirs.Roles {
		roles["arn:aws:iam::"+partnerAccount+":role/"+names[id]] = r
	}
	return roles
}

// TestOtherAccount: a table in another account's bucket is looked at, rewritten, expired and swept in the roles of the bucket's owner, each function in its own.
func TestOtherAccount(t *testing.T) { otherAccount(t, document(t)) }

func otherAccount(t testing.TB, doc map[string]any) {
	d, tbl, debris := decayedIn(t, doc, "s3://"+partner+"/tables")
	healed(t, d, tbl, debris)
	want := []string{partnerRole + contract.FunctionCommit, partnerRole + contract.FunctionCompact, partnerRole + contract.FunctionEvaluate, partnerRole + contract.FunctionPlan, partnerRole + contract.FunctionSweep}
	if got := d.Assumed(); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("roles %v were assumed, want %v", got, want)
	}
}

// TestOneRoleOneFunction: no function gets into the role of another, nobody into a role that does not name him, and the roles keep the functions' powers apart.
func TestOneRoleOneFunction(t *testing.T) {
	d := deploy(t, document(t))
	ctx := context.Background()
	assume := func(role, arn string) (aws.CredentialsProvider, error) {
		out, err := sts.New(sts.Options{Region: region, BaseEndpoint: aws.String(d.URL()), Credentials: credentials.NewStaticCredentialsProvider(role, "s", "")}).
			AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: &arn, RoleSessionName: aws.String("test"), DurationSeconds: aws.Int32(3600)})
		if err != nil {
			return nil, err
		}
		return credentials.NewStaticCredentialsProvider(*out.Credentials.AccessKeyId, *out.Credentials.SecretAccessKey, ""), nil
	}
	for _, r := range d.Stack().Roles {
		for _, function := range contract.Functions() {
			_, err := assume(r.Name, partnerRole+function)
			own := verb(r.Description) == function && function != contract.FunctionSchedule && function != contract.FunctionReport
			if (err == nil) != own || own && len(d.ForgetViolations()) > 0 || !own && len(d.ForgetViolations()) == 0 {
				t.Errorf("%s into the role of %s: %v", r.Description, function, err)
			}
			if provider := err == nil; provider && function == contract.FunctionCompact {
				s, err := store.New(store.Config{Properties: map[string]string{
					"s3.endpoint": d.URL(), "s3.region": region, "s3.access-key-id": "assumed-firn-compact", "s3.secret-access-key": "local",
				}})
				if err != nil {
					t.Fatal(err)
				}
				_, failures, err := s.Delete(ctx, []string{"s3://" + partner + "/tables/db/t/data/x"})
				if err == nil && len(failures) == 0 || len(d.ForgetViolations()) == 0 {
					t.Errorf("compact deletes in its role: %v %v", failures, err)
				}
				if err := s.Put(ctx, "s3://"+partner+"/else/x", []byte("x"), store.WriteOptions{}); err == nil || len(d.ForgetViolations()) == 0 {
					t.Errorf("compact writes outside of the prefix: %v", err)
				}
			}
		}
	}
}
