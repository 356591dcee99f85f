package pipeline

import (
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsscheduler"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssnssubscriptions"
	"github.com/aws/jsii-runtime-go"

	"firn/infra/settings"
	"firn/internal/contract"
)

// sources makes a rule for each chosen source, our own event, and ends of runs; and a subscription for each topic.
func (p *Pipeline) sources() {
	p.rule("Committed", "writers' own events", []string{"Iceberg Table Committed"}, nil, nil)
	p.rule("Ended", "runs that may have ended without report", []string{"Step Functions Execution Status Change"}, []string{"aws.states"}, map[string]any{
		"stateMachineArn": []string{*p.Machine.AttrArn()}, "status": []string{"FAILED", "TIMED_OUT", "ABORTED"},
	})
	for _, source := range p.settings.Sources {
		switch source {
		case settings.SourceGlue:
			p.rule("Glue", "changes of the Glue Data Catalog", []string{"Glue Data Catalog Table State Change", "Glue Data Catalog Database State Change"},
				[]string{"aws.glue"}, p.databases())
		case settings.SourceS3:
			p.rule("Objects", "new metadata files", []string{"Object Created"}, []string{"aws.s3"}, p.metadataFiles())
		case settings.SourceCloudTrail:
			p.rule("Trail", "commits that CloudTrail saw", []string{"AWS API Call via CloudTrail"}, []string{"aws.glue", "aws.s3tables"}, map[string]any{
				"eventName": []string{"UpdateTable", "UpdateTableMetadataLocation"}, "errorCode": []any{map[string]any{"exists": false}},
			})
		}
	}
	for i, arn := range p.settings.Topics {
		topic := awssns.Topic_FromTopicArn(p.Construct, jsii.String("Topic"+strconv.Itoa(i+1)), jsii.String(arn))
		topic.AddSubscription(awssnssubscriptions.NewSqsSubscription(p.Queue, &awssnssubscriptions.SqsSubscriptionProps{
			RawMessageDelivery: jsii.Bool(true), DeadLetterQueue: p.DeadLetters,
		}))
	}
}

func (p *Pipeline) rule(id, what string, types, sources []string, detail map[string]any) {
	pattern := &awsevents.EventPattern{DetailType: jsii.Strings(types...)}
	if sources != nil {
		pattern.Source = jsii.Strings(sources...)
	}
	if detail != nil {
		pattern.Detail = &detail
	}
	if accounts := p.settings.EventAccounts; len(accounts) > 0 && id != "Ended" {
		pattern.Account = jsii.Strings(accounts...)
	}
	awsevents.NewRule(p.Construct, jsii.String(id), &awsevents.RuleProps{
		Description: jsii.String("Firn: " + what), EventPattern: pattern,
		Targets: &[]awsevents.IRuleTarget{awseventstargets.NewSqsQueue(p.Queue, &awseventstargets.SqsQueueProps{DeadLetterQueue: p.DeadLetters})},
	})
}

// databases narrows Glue's events to databases that some pattern of tables can match; nil when one can match any.
func (p *Pipeline) databases() map[string]any {
	var matchers []any
	for _, pattern := range p.settings.Tables {
		database, _ := names(pattern)
		switch {
		case database == "*":
			return nil
		case strings.Contains(database, "*"):
			matchers = append(matchers, map[string]any{"wildcard": database})
		default:
			matchers = append(matchers, database)
		}
	}
	return map[string]any{"databaseName": matchers}
}

// metadataFiles matches metadata files in the warehouses. A bucket sends such events only when its owner has switched EventBridge on: the notifications of
// a bucket that the stack does not own are never touched.
func (p *Pipeline) metadataFiles() map[string]any {
	var buckets []string
	var keys []any
	for _, w := range p.settings.Warehouses {
		buckets = append(buckets, w.Bucket)
		for _, suffix := range []string{".metadata.json", ".metadata.json.gz"} {
			keys = append(keys, map[string]any{"wildcard": w.Prefix + "/*/metadata/*" + suffix})
		}
	}
	slices.Sort(buckets)
	return map[string]any{"bucket": map[string]any{"name": slices.Compact(buckets)}, "object": map[string]any{"key": keys}}
}

// schedule makes the function and the clock that calls it.
func (p *Pipeline) schedule(powers powers) {
	env := p.environment(contract.FunctionSchedule)
	env[contract.EnvQueueURL] = *p.Queue.QueueUrl()
	fn := p.function(contract.FunctionSchedule, powers, env)
	p.Functions[contract.FunctionSchedule] = fn
	statements := []*awsiam.PolicyStatementProps{
		allow("Call", []string{"lambda:InvokeFunction"}, []string{*fn.Lambda.FunctionArn()}),
		allow("Missed", []string{"sqs:SendMessage"}, []string{*p.Missed.QueueArn()}),
	}
	if p.settings.Key != "" {
		statements = append(statements, allow("Keys", []string{"kms:Decrypt", "kms:GenerateDataKey"}, []string{p.settings.Key}))
	}
	role := awsiam.NewRole(p.Construct, jsii.String("ClockRole"), &awsiam.RoleProps{
		AssumedBy:      service("scheduler.amazonaws.com"),
		Description:    jsii.String("Firn's clock"),
		InlinePolicies: &map[string]awsiam.PolicyDocument{"Firn": document(statements)},
	})
	awsscheduler.NewCfnSchedule(p.Construct, jsii.String("Clock"), &awsscheduler.CfnScheduleProps{
		Description:        jsii.String("Firn: look for tables whose events were lost, or whose time has come"),
		ScheduleExpression: jsii.String(p.settings.Schedule),
		FlexibleTimeWindow: &awsscheduler.CfnSchedule_FlexibleTimeWindowProperty{Mode: jsii.String("FLEXIBLE"), MaximumWindowInMinutes: jsii.Number(5)},
		Target: &awsscheduler.CfnSchedule_TargetProperty{
			Arn: fn.Lambda.FunctionArn(), RoleArn: role.RoleArn(), Input: jsii.String("{}"),
			RetryPolicy:      &awsscheduler.CfnSchedule_RetryPolicyProperty{MaximumRetryAttempts: jsii.Number(3), MaximumEventAgeInSeconds: jsii.Number(900)},
			DeadLetterConfig: &awsscheduler.CfnSchedule_DeadLetterConfigProperty{Arn: p.Missed.QueueArn()},
		},
	})
}

func join(values []string) string { return strings.Join(values, ",") }
