package edge_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/smithy-go"

	"firn/internal/edge"
	"firn/internal/maintenance"
)

// TestCure gives each refusal of AWS, in the words that the SDK prints, its one line.
func TestCure(t *testing.T) {
	t.Parallel()
	table := maintenance.TableID{Catalog: "glue", Namespace: maintenance.NewNamespace("db"), Name: "t"}
	for text, want := range map[string]string{
		"operation error Glue: GetTable, get identity: get credentials: failed to refresh cached credentials, no EC2 IMDS role found":                                                                                                                                                 "set AWS_PROFILE",
		"find AWS credentials: not permitted: failed to refresh cached credentials, the SSO session has expired or is invalid":                                                                                                                                                        "aws sso login",
		"operation error S3: GetObject, https response error StatusCode: 400, api error ExpiredToken: The provided token has expired.":                                                                                                                                                "aws sso login",
		"api error UnrecognizedClientException: The security token included in the request is invalid":                                                                                                                                                                                "does not know these keys",
		"api error AccessDeniedException: User: arn:aws:iam::1:user/a is not authorized to perform: glue:GetTable on resource: arn:aws:glue:eu-west-1:1:table/db/t because no identity-based policy allows the glue:GetTable action":                                                  "allow glue:GetTable on arn:aws:glue:eu-west-1:1:table/db/t",
		"api error AccessDenied: User: arn:aws:sts::1:assumed-role/a/b is not authorized to perform: s3:GetObject on resource: \"arn:aws:s3:::lake/w/x\" with an explicit deny in a resource-based policy":                                                                            "denies s3:GetObject on arn:aws:s3:::lake/w/x explicitly",
		"api error AccessDenied: User: arn:aws:sts::1:assumed-role/a/b is not authorized to perform: kms:Decrypt on resource: arn:aws:kms:eu-west-1:1:key/k because no resource-based policy allows it":                                                                               "allow kms:Decrypt on arn:aws:kms:eu-west-1:1:key/k",
		"api error AccessDeniedException: User: arn:aws:iam::1:user/a is not authorized to perform: dynamodb:GetItem on resource: arn:aws:dynamodb:eu-west-1:1:table/Firn-S because no":                                                                                               "allow dynamodb:GetItem on arn:aws:dynamodb:eu-west-1:1:table/Firn-S",
		"read s3://lake/w/m.json: not permitted: operation error S3: GetObject, https response error StatusCode: 403, api error AccessDenied: Access Denied":                                                                                                                          "allow s3:GetObject on arn:aws:s3:::lake/w/m.json",
		"list s3://lake/w/: not permitted: operation error S3: ListObjectsV2, https response error StatusCode: 403, api error AccessDenied: Access Denied":                                                                                                                            "allow s3:ListBucket on arn:aws:s3:::lake to",
		"stat s3://lake/w/x: operation error S3: HeadObject, https response error StatusCode: 403, api error Forbidden: Forbidden":                                                                                                                                                    "allow s3:GetObject on arn:aws:s3:::lake/w/x",
		"operation error Glue: GetTable, api error AccessDeniedException: ":                                                                                                                                                                                                           "allow glue:GetTable on the table",
		"operation error Glue: GetTable, api error AccessDeniedException: Insufficient Lake Formation permission(s): Required Describe on t":                                                                                                                                          `grant-permissions --permissions DESCRIBE SELECT --principal DataLakePrincipalIdentifier=ARN_OF_YOUR_ROLE --resource '{"Table": {"DatabaseName": "db", "Name": "t"}}'`,
		"operation error Glue: UpdateTable, api error AccessDeniedException: Insufficient Lake Formation permission(s) on t":                                                                                                                                                          "DESCRIBE SELECT ALTER",
		"operation error DynamoDB: GetItem, https response error StatusCode: 400, ResourceNotFoundException: Requested resource not found":                                                                                                                                            "output StateTable",
		"Post \"https://glue.eu-wst-1.amazonaws.com/\": dial tcp: lookup glue.eu-wst-1.amazonaws.com on 1.1.1.1:53: no such host":                                                                                                                                                     "check AWS_REGION",
		"load glue.db.t: not an Iceberg table: the Glue table has no parameter table_type":                                                                                                                                                                                            "migrate",
		"read s3://partner/w/m.json: not permitted: operation error S3: GetObject, get identity: get credentials: failed to refresh cached credentials, operation error STS: AssumeRole, api error AccessDenied: User: a is not authorized to perform: sts:AssumeRole on resource: r": "warehouse.roles",

		"load table db.t: catalog pointer moved": "",
	} {
		got := edge.Cure(text, table)
		if !strings.Contains(got, want) || want == "" && got != "" || strings.Contains(got, "\n") {
			t.Errorf("%s\n got %q\nwant %q", text, got, want)
		}
	}
	for code, want := range map[string]bool{"AccessDeniedException": true, "ExpiredToken": true, "ThrottlingException": false} {
		if got := edge.Denied(fmt.Errorf("load: %w", &smithy.GenericAPIError{Code: code})); got != want {
			t.Errorf("%s: denied is %t", code, got)
		}
	}
	if edge.Denied(errors.New("AccessDenied")) {
		t.Error("an error that is none of AWS is taken for one")
	}
}
