package pipeline

import (
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsstepfunctions"
	"github.com/aws/jsii-runtime-go"

	"firn/internal/contract"
	"firn/internal/workflow/definition"
)

// machine makes the state machine from the one definition. Its placeholders become published versions, so that a run keeps the code that it started with.
func (p *Pipeline) machine() {
	p.MachineLogs = p.logGroup(p.Construct, "MaintainLogs")
	role := awsiam.NewRole(p.Construct, jsii.String("MaintainRole"), &awsiam.RoleProps{
		AssumedBy:      service("states.amazonaws.com"),
		Description:    jsii.String("Firn's state machine maintain"),
		InlinePolicies: &map[string]awsiam.PolicyDocument{"Firn": document(p.machineStatements())},
	})
	p.Machine = awsstepfunctions.NewCfnStateMachine(p.Construct, jsii.String("Maintain"), &awsstepfunctions.CfnStateMachineProps{
		RoleArn: role.RoleArn(), StateMachineType: jsii.String("STANDARD"),
		DefinitionString:        jsii.String(string(definition.Maintain)),
		DefinitionSubstitutions: p.substitutions(),
		LoggingConfiguration: &awsstepfunctions.CfnStateMachine_LoggingConfigurationProperty{
			Level: jsii.String("ALL"), IncludeExecutionData: jsii.Bool(true),
			Destinations: &[]any{&awsstepfunctions.CfnStateMachine_LogDestinationProperty{
				CloudWatchLogsLogGroup: &awsstepfunctions.CfnStateMachine_CloudWatchLogsLogGroupProperty{LogGroupArn: p.MachineLogs.LogGroupArn()},
			}},
		},
		TracingConfiguration: &awsstepfunctions.CfnStateMachine_TracingConfigurationProperty{Enabled: jsii.Bool(true)},
	})
	p.Machine.Node().AddDependency(role)
	// A Distributed Map runs children of the machine itself: a policy of its own, since the role is made before the machine.
	machine, name := *p.Machine.AttrArn(), *p.Machine.AttrName()
	executions := "arn:" + *awscdk.Aws_PARTITION() + ":states:" + *awscdk.Aws_REGION() + ":" + *awscdk.Aws_ACCOUNT_ID() + ":execution:" + name
	children := []string{executions + ":*", executions + "/*"}
	awsiam.NewPolicy(p.Construct, jsii.String("MaintainChildren"), &awsiam.PolicyProps{
		Roles: &[]awsiam.IRole{role},
		Document: document([]*awsiam.PolicyStatementProps{
			allow("StartChildren", []string{"states:StartExecution"}, []string{machine}),
			allow("Children", []string{"states:DescribeExecution", "states:StopExecution", "states:RedriveExecution"}, children),
		}),
	})
}

// called are the functions that the state machine calls, by placeholder.
func called() map[string]string {
	return map[string]string{
		"PlanFunction": contract.FunctionPlan, "CompactFunction": contract.FunctionCompact, "CommitFunction": contract.FunctionCommit,
		"SweepFunction": contract.FunctionSweep, "ReportFunction": contract.FunctionReport,
	}
}

func (p *Pipeline) substitutions() map[string]*string {
	values := map[string]*string{
		"CompactConcurrency": jsii.String(strconv.Itoa(p.settings.CompactParallel)),
		"SweepConcurrency":   jsii.String(strconv.Itoa(p.settings.SweepParallel)),
	}
	for placeholder, name := range called() {
		values[placeholder] = p.Functions[name].Version.FunctionArn()
	}
	return values
}

// machineStatements let the machine call its functions (any version, since older runs still call theirs), read items and write results.
func (p *Pipeline) machineStatements() []*awsiam.PolicyStatementProps {
	var versions []string
	for _, name := range []string{contract.FunctionPlan, contract.FunctionCompact, contract.FunctionCommit, contract.FunctionSweep, contract.FunctionReport} {
		versions = append(versions, *p.Functions[name].Lambda.FunctionArn()+":*")
	}
	runs := *p.storage.Bucket.BucketArn() + "/" + contract.WorkPrefix + "*"
	all := []*awsiam.PolicyStatementProps{
		allow("Call", []string{"lambda:InvokeFunction"}, versions),
		allow("Items", []string{"s3:GetObject", "s3:PutObject", "s3:ListMultipartUploadParts", "s3:AbortMultipartUpload"}, []string{runs}),
		allow("ItemsMissing", []string{"s3:ListBucket"}, []string{*p.storage.Bucket.BucketArn()}),
		allow("Traces", []string{
			"xray:PutTraceSegments", "xray:PutTelemetryRecords", "xray:GetSamplingRules", "xray:GetSamplingTargets",
		}, []string{"*"}), // X-Ray has no resources
		allow("LogDelivery", []string{ // log deliveries have no resources
			"logs:CreateLogDelivery", "logs:GetLogDelivery", "logs:UpdateLogDelivery", "logs:DeleteLogDelivery", "logs:ListLogDeliveries",
			"logs:PutResourcePolicy", "logs:DescribeResourcePolicies", "logs:DescribeLogGroups",
		}, []string{"*"}),
	}
	if p.settings.Key != "" {
		all = append(all, allow("Keys", []string{"kms:Decrypt", "kms:GenerateDataKey"}, []string{p.settings.Key}))
	}
	return all
}
