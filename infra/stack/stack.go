// Package stack puts the constructs Storage, Pipeline and Watch into one stack, Firn: for our own app, and for anybody's.
package stack

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"firn/infra/pipeline"
	"firn/infra/settings"
	"firn/infra/storage"
	"firn/infra/watch"
	"firn/internal/contract"
)

// Props are what a stack is made of.
type Props struct {
	// Settings are checked settings (settings.Parse); required.
	Settings settings.Settings
	// Artifacts is the folder of built functions (artifact.Build); required.
	Artifacts string
	// Config is the path of the functions' firn.yaml (WriteConfig); required.
	Config string
	// Runbook is the address of docs/operations.md that alarms name. Default: that path.
	Runbook string
	// Env pins account and region. Default: those of Settings, else of the deploying credentials.
	Env *awscdk.Environment
}

// Firn is the whole system.
type Firn struct {
	Stack    awscdk.Stack
	Storage  *storage.Storage
	Pipeline *pipeline.Pipeline
	Watch    *watch.Watch
}

// New makes the stack.
func New(scope constructs.Construct, id string, props *Props) *Firn {
	env := props.Env
	if env == nil && props.Settings.Region != "" {
		env = &awscdk.Environment{Region: jsii.String(props.Settings.Region)}
		if props.Settings.Account != "" {
			env.Account = jsii.String(props.Settings.Account)
		}
	}
	this := awscdk.NewStack(scope, jsii.String(id), &awscdk.StackProps{
		Env: env, Description: jsii.String("Firn: maintenance of Apache Iceberg tables"),
	})
	var key awskms.IKey
	if arn := props.Settings.Key; arn != "" {
		key = awskms.Key_FromKeyArn(this, jsii.String("Key"), jsii.String(arn))
	}
	f := &Firn{Stack: this}
	f.Storage = storage.New(this, "Storage", &storage.Props{Key: key})
	f.Pipeline = pipeline.New(this, "Pipeline", &pipeline.Props{
		Settings: props.Settings, Storage: f.Storage, Artifacts: props.Artifacts, Config: props.Config,
	})
	f.Watch = watch.New(this, "Watch", &watch.Props{Pipeline: f.Pipeline, Settings: props.Settings, Runbook: props.Runbook})
	output := func(name, what string, value *string) {
		awscdk.NewCfnOutput(this, jsii.String(name), &awscdk.CfnOutputProps{Description: jsii.String(what), Value: value})
	}
	output("StateTable", "state-location of firn.yaml is dynamodb: and this name", f.Storage.Table.TableName())
	output("WorkBucket", "work-location of firn.yaml is s3:// and this name", f.Storage.Bucket.BucketName())
	var roles []string
	for _, name := range contract.Functions() {
		roles = append(roles, name+"="+*f.Pipeline.Functions[name].Role.RoleArn())
	}
	output("Roles", "whom to name in policies of other accounts' buckets and in Lake Formation", jsii.String(strings.Join(roles, " ")))
	output("CommitQueue", "where commit events go", f.Pipeline.Queue.QueueUrl())
	output("StateMachine", "the state machine maintain", f.Pipeline.Machine.AttrArn())
	config := f.Pipeline.ConfigLocation()
	output("Config", "the firn.yaml that the functions read", jsii.String(config))
	output("Explain", "what the deployment decided about a table, and why",
		jsii.String("bin/firn explain --config "+config+" --state "+contract.StateDynamoDB+*f.Storage.Table.TableName()+" --table NAMESPACE.TABLE"))
	return f
}
