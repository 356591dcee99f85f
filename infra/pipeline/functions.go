package pipeline

import (
	"path/filepath"
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"firn/infra/settings"
	"firn/internal/contract"
)

// Function is one function with its role, log group and published version.
type Function struct {
	Lambda awslambda.Function
	// Version is the published version of this code and configuration; older ones stay for the runs that they started.
	Version awslambda.Version
	Role    awsiam.Role
	Logs    awslogs.LogGroup
}

// function makes one function: a folder under functions/, a role with its own powers, a log group.
func (p *Pipeline) function(name string, powers powers, env map[string]string) *Function {
	size := p.settings.Functions[name]
	scope := constructs.NewConstruct(p.Construct, jsii.String(Title(name)))
	logs := p.logGroup(scope, "Logs")
	powers.logs = *logs.LogGroupArn()
	role := awsiam.NewRole(scope, jsii.String("Role"), &awsiam.RoleProps{
		AssumedBy:      service("lambda.amazonaws.com"),
		Description:    jsii.String("Firn's function " + name),
		InlinePolicies: &map[string]awsiam.PolicyDocument{"Firn": document(powers.statements(name))},
	})
	variables := map[string]*string{}
	for key, value := range env {
		variables[key] = jsii.String(value)
	}
	props := &awslambda.FunctionProps{
		Description:           jsii.String("Firn: " + name),
		Runtime:               awslambda.Runtime_PROVIDED_AL2023(),
		Architecture:          awslambda.Architecture_ARM_64(),
		Handler:               jsii.String("bootstrap"),
		Code:                  awslambda.Code_FromAsset(jsii.String(filepath.Join(p.artifacts, name)), nil),
		MemorySize:            jsii.Number(size.MemoryMB),
		EphemeralStorageSize:  awscdk.Size_Mebibytes(jsii.Number(size.StorageMB)),
		Timeout:               awscdk.Duration_Seconds(jsii.Number(size.TimeoutSeconds)),
		Tracing:               awslambda.Tracing_ACTIVE,
		LogGroup:              logs,
		Environment:           &variables,
		EnvironmentEncryption: p.key,
		Role:                  role.WithoutPolicyUpdates(nil), // its powers stand in privileges.go, all of them
		CurrentVersionOptions: &awslambda.VersionOptions{RemovalPolicy: awscdk.RemovalPolicy_RETAIN},
	}
	if size.Concurrency > 0 {
		props.ReservedConcurrentExecutions = jsii.Number(size.Concurrency)
	}
	if name == contract.FunctionSchedule {
		props.DeadLetterQueue = p.Missed
	}
	fn := awslambda.NewFunction(scope, jsii.String("Function"), props)
	if len(p.settings.Subnets) > 0 {
		cfn := fn.Node().DefaultChild().(awslambda.CfnFunction)
		cfn.AddPropertyOverride(jsii.String("VpcConfig"), map[string]any{
			"SubnetIds": p.settings.Subnets, "SecurityGroupIds": p.settings.SecurityGroups,
		})
	}
	return &Function{Lambda: fn, Version: fn.CurrentVersion(), Role: role, Logs: logs}
}

func (p *Pipeline) logGroup(scope constructs.Construct, id string) awslogs.LogGroup {
	return awslogs.NewLogGroup(scope, jsii.String(id), &awslogs.LogGroupProps{
		Retention:     awslogs.RetentionDays(retention(p.settings.LogDays)),
		RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
	})
}

// environment is what a function reads at its start: places, never secrets.
func (p *Pipeline) environment(name string) map[string]string {
	env := map[string]string{
		contract.EnvWorkLocation:  "s3://" + *p.storage.Bucket.BucketName(),
		contract.EnvStateLocation: contract.StateDynamoDB + *p.storage.Table.TableName(),
	}
	if readsConfig(name) {
		env[contract.EnvConfig] = p.ConfigLocation()
	}
	if len(p.settings.Roles) > 0 && settings.ReachesFiles(name) {
		var roles []string
		for _, role := range p.settings.Roles {
			roles = append(roles, role.Bucket+"="+role.ARN(name))
		}
		env[contract.EnvBucketRoles] = join(roles)
	}
	if name == contract.FunctionCompact || name == contract.FunctionPlan { // plan cuts sorts by what compact may spill
		env[contract.EnvSpillLimitBytes] = strconv.Itoa(spillBytes(p.settings.Functions[contract.FunctionCompact]))
	}
	return env
}

// readsConfig reports a function that knows tables. Report knows a run's work and state, and where both are stands in its environment.
func readsConfig(function string) bool { return function != contract.FunctionReport }

// spillBytes leaves part of /tmp free for what is not spilled: 1 GB, or a half of a small one.
func spillBytes(f settings.Function) int {
	total := f.StorageMB * 1_000_000
	return max(total-1_000_000_000, total/2)
}

// retention maps days to the CDK's names of them.
func retention(days int) string {
	return map[int]string{
		1: "ONE_DAY", 3: "THREE_DAYS", 5: "FIVE_DAYS", 7: "ONE_WEEK", 14: "TWO_WEEKS", 30: "ONE_MONTH", 60: "TWO_MONTHS", 90: "THREE_MONTHS",
		120: "FOUR_MONTHS", 150: "FIVE_MONTHS", 180: "SIX_MONTHS", 365: "ONE_YEAR", 400: "THIRTEEN_MONTHS", 545: "EIGHTEEN_MONTHS", 731: "TWO_YEARS",
		1096: "THREE_YEARS", 1827: "FIVE_YEARS", 2192: "SIX_YEARS", 2557: "SEVEN_YEARS", 2922: "EIGHT_YEARS", 3288: "NINE_YEARS", 3653: "TEN_YEARS",
	}[days]
}

// Title is a function's name as a construct's.
func Title(name string) string { return string(name[0]-'a'+'A') + name[1:] }

// key imports the stack's KMS key; nil when there is none.
func key(scope constructs.Construct, arn string) awskms.IKey {
	if arn == "" {
		return nil
	}
	return awskms.Key_FromKeyArn(scope, jsii.String("Key"), jsii.String(arn))
}
