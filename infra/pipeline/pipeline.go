// Package pipeline is the construct of what Firn does: event sources and a queue, the seven functions, each with a role of its own, the state machine
// "maintain", and the clock.
package pipeline

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awspipes"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3assets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsstepfunctions"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"firn/infra/settings"
	"firn/infra/storage"
	"firn/internal/contract"
)

// Props are what the construct needs; all of them are required.
type Props struct {
	// Settings are checked settings: settings.Parse, or settings.Defaults with what is needed filled in.
	Settings settings.Settings
	// Storage keeps state and work.
	Storage *storage.Storage
	// Artifacts is the folder of built functions, one folder a function: artifact.Build.
	Artifacts string
	// Config is the path of the firn.yaml that the functions read: stack.WriteConfig.
	Config string
}

// Pipeline is everything that runs.
type Pipeline struct {
	// Construct is the scope of what the construct is made of.
	Construct constructs.Construct
	// Functions are the seven functions by name.
	Functions map[string]*Function
	// Machine is the state machine "maintain", MachineLogs its log group.
	Machine     awsstepfunctions.CfnStateMachine
	MachineLogs awslogs.LogGroup
	// Queue takes commit events and notices; DeadLetters what was tried in vain, and events that no queue took.
	Queue, DeadLetters awssqs.Queue
	// Refused takes messages that cannot be understood, Missed failed calls of the clock.
	Refused, Missed awssqs.Queue
	// Kafka is the pipe from a topic; nil when settings name none.
	Kafka awspipes.CfnPipe

	settings  settings.Settings
	storage   *storage.Storage
	artifacts string
	config    awss3assets.Asset
	key       awskms.IKey
}

// maxReceives is how often a message is tried before it is a dead letter.
const maxReceives = 5

// New makes the construct.
func New(scope constructs.Construct, id string, props *Props) *Pipeline {
	this := constructs.NewConstruct(scope, jsii.String(id))
	p := &Pipeline{
		Construct: this, Functions: map[string]*Function{}, settings: props.Settings, storage: props.Storage, artifacts: props.Artifacts,
		config: awss3assets.NewAsset(this, jsii.String("Config"), &awss3assets.AssetProps{Path: jsii.String(props.Config)}),
		key:    key(this, props.Settings.Key),
	}
	p.queues()
	powers := powers{
		settings: props.Settings, table: *props.Storage.Table.TableArn(), work: *props.Storage.Bucket.BucketArn(),
		config: *p.config.Bucket().ArnForObjects(p.config.S3ObjectKey()),
		queue:  *p.Queue.QueueArn(), refused: *p.Refused.QueueArn(), missed: *p.Missed.QueueArn(), bus: bus(),
	}
	for _, name := range []string{contract.FunctionPlan, contract.FunctionCompact, contract.FunctionCommit, contract.FunctionSweep, contract.FunctionReport} {
		env := p.environment(name)
		if name == contract.FunctionReport {
			env[contract.EnvQueueURL], env[contract.EnvEventBus] = *p.Queue.QueueUrl(), powers.bus
		}
		p.Functions[name] = p.function(name, powers, env)
	}
	p.machine()
	powers.machine = *p.Machine.AttrArn()
	p.evaluate(powers)
	p.schedule(powers)
	p.sources()
	p.kafka()
	p.lakeFormation()
	return p
}

// ConfigLocation is where the firn.yaml lies that the functions read: s3://bucket/key.
func (p *Pipeline) ConfigLocation() string { return *p.config.S3ObjectUrl() }

// bus is the ARN of the account's own event bus, which outcome events go to.
func bus() string {
	return "arn:" + *awscdk.Aws_PARTITION() + ":events:" + *awscdk.Aws_REGION() + ":" + *awscdk.Aws_ACCOUNT_ID() + ":event-bus/default"
}

// queues makes the queue of commits, and the three in which messages wait for people.
func (p *Pipeline) queues() {
	queue := func(id string, visibility int, dead *awssqs.DeadLetterQueue) awssqs.Queue {
		props := &awssqs.QueueProps{
			EnforceSSL: jsii.Bool(true), Encryption: awssqs.QueueEncryption_SQS_MANAGED, RetentionPeriod: awscdk.Duration_Days(jsii.Number(14)),
			VisibilityTimeout: awscdk.Duration_Seconds(jsii.Number(visibility)), DeadLetterQueue: dead,
		}
		if p.key != nil {
			props.Encryption, props.EncryptionMasterKey = awssqs.QueueEncryption_KMS, p.key
		}
		return awssqs.NewQueue(p.Construct, jsii.String(id), props)
	}
	const people = 300
	p.DeadLetters, p.Refused, p.Missed = queue("DeadLetters", people, nil), queue("Refused", people, nil), queue("Missed", people, nil)
	// Six times the function's timeout, and the window on top, as Lambda's guide asks for.
	visibility := 6*p.settings.Functions[contract.FunctionEvaluate].TimeoutSeconds + p.settings.Queue.WindowSeconds
	p.Queue = queue("Commits", visibility, &awssqs.DeadLetterQueue{Queue: p.DeadLetters, MaxReceiveCount: jsii.Number(maxReceives)})
}

// evaluate makes the function and its mapping: batches of up to so many messages, gathered for a while, of which single ones may fail.
func (p *Pipeline) evaluate(powers powers) {
	env := p.environment(contract.FunctionEvaluate)
	env[contract.EnvStateMachineARN] = *p.Machine.AttrArn()
	env[contract.EnvQueueURL] = *p.Queue.QueueUrl()
	env[contract.EnvRefusedQueueURL] = *p.Refused.QueueUrl()
	if !p.settings.StartsRuns() {
		env[contract.EnvObserveOnly] = "true"
	}
	if accounts := p.settings.EventAccounts; len(accounts) > 0 {
		env[contract.EnvEventAccounts] = join(accounts)
	}
	fn := p.function(contract.FunctionEvaluate, powers, env)
	p.Functions[contract.FunctionEvaluate] = fn
	awslambda.NewEventSourceMapping(p.Construct, jsii.String("Look"), &awslambda.EventSourceMappingProps{
		Target: fn.Lambda, EventSourceArn: p.Queue.QueueArn(), BatchSize: jsii.Number(p.settings.Queue.Batch),
		MaxBatchingWindow:       awscdk.Duration_Seconds(jsii.Number(p.settings.Queue.WindowSeconds)),
		MaxConcurrency:          jsii.Number(p.settings.Queue.Parallel),
		ReportBatchItemFailures: jsii.Bool(true),
	})
}
