package stack_test

import (
	"fmt"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
)

// acceptance is a finding of cdk-nag's AwsSolutions that we accept.
type acceptance struct {
	// path is the resource, "" the whole stack; applies narrows a rule to what its finding names, as a pattern.
	rule, path, applies string
	reason              string
}

func accepted() []acceptance {
	return []acceptance{
		{rule: "AwsSolutions-S1", path: "/Firn/Storage/Work/Resource", reason: "plans and results of 30 days; CloudTrail data events tell who read them"},
		{rule: "AwsSolutions-SQS3", path: "/Firn/Pipeline/Refused/Resource", reason: "evaluate fills it with what cannot be understood: a dead-letter queue"},
		{rule: "AwsSolutions-IAM5", applies: `/^Resource::\*$/`, reason: "X-Ray and log deliveries have no resource; TestNoWildcards lists the actions"},
		{rule: "AwsSolutions-IAM5", applies: `/^Resource::arn:<AWS::Partition>:s3:::lake\/warehouse\/.*\*$/`, reason: "objects below the operator's prefix"},
		{rule: "AwsSolutions-IAM5", applies: `/^Resource::<StorageWork.*\.Arn>\/(runs|unsettled)\/\*$/`, reason: "objects of runs in our own bucket"},
		{rule: "AwsSolutions-IAM5", applies: `/^Resource::arn:<AWS::Partition>:glue:.*:table\/db\/\*$/`, reason: "the operator's pattern of tables"},
		{rule: "AwsSolutions-IAM5", applies: `/^Resource::<Pipeline[A-Za-z]*Function.*\.Arn>:\*$/`, reason: "versions of our own functions: older runs still call theirs"},
		{rule: "AwsSolutions-IAM5", applies: `/^Resource::arn:<AWS::Partition>:states:.*:execution:<PipelineMaintain.*>[:\/]\*$/`, reason: "children of our own machine"},
	}
}

// TestNag: AwsSolutions finds nothing but what is accepted with a reason.
func TestNag(t *testing.T) {
	app, made := build(t, minimal())
	noPanic(t, func() {
		for _, a := range accepted() {
			suppression := &cdknag.NagPackSuppression{Id: jsii.String(a.rule), Reason: jsii.String(a.reason)}
			if a.applies != "" {
				suppression.AppliesTo = &[]any{&cdknag.RegexAppliesTo{Regex: jsii.String(a.applies)}}
			}
			list := &[]*cdknag.NagPackSuppression{suppression}
			if a.path == "" {
				cdknag.NagSuppressions_AddStackSuppressions(made.Stack, list, nil)
			} else {
				cdknag.NagSuppressions_AddResourceSuppressionsByPath(made.Stack, a.path, list, nil)
			}
		}
		awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(nil), nil)
		found := assertions.Annotations_FromStack(made.Stack)
		rules := assertions.Match_StringLikeRegexp(jsii.String("AwsSolutions-.*"))
		for _, f := range append(*found.FindError(jsii.String("*"), rules), *found.FindWarning(jsii.String("*"), rules)...) {
			t.Errorf("%.300s", fmt.Sprint(f.Entry.Data)) //nolint:staticcheck // the assertions still return this type
		}
	})
}
