package pipeline

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awspipes"
	"github.com/aws/jsii-runtime-go"

	"firn/infra/settings"
)

// pipeBatch is the most messages that a pipe hands to SQS at once.
const pipeBatch = 10

// kafka makes the pipe from a topic to the queue of commits, when settings name one. A pipe from Kafka has no dead-letter queue of its own: what it cannot
// hand over stays in the topic and is tried again, and what evaluate cannot use goes the way of all messages of the queue.
func (p *Pipeline) kafka() {
	if !p.settings.Kafka.Used() {
		return
	}
	logs := p.logGroup(p.Construct, "KafkaLogs")
	group := *awscdk.Aws_STACK_NAME() + "-" + *awscdk.Aws_ACCOUNT_ID() + "-" + *awscdk.Aws_REGION() // a reader of its own for each deployment
	role := awsiam.NewRole(p.Construct, jsii.String("KafkaRole"), &awsiam.RoleProps{
		AssumedBy: awsiam.NewServicePrincipal(jsii.String("pipes.amazonaws.com"), &awsiam.ServicePrincipalOpts{
			Conditions: &map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": *awscdk.Aws_ACCOUNT_ID()}},
		}),
		Description:    jsii.String("Firn's pipe from Kafka"),
		InlinePolicies: &map[string]awsiam.PolicyDocument{"Firn": document(p.kafkaStatements(group, *logs.LogGroupArn()))},
	})
	source, parameters := kafkaSource(p.settings.Kafka, group)
	p.Kafka = awspipes.NewCfnPipe(p.Construct, jsii.String("Kafka"), &awspipes.CfnPipeProps{
		Description: jsii.String("Firn: commit events of a topic of Kafka"),
		RoleArn:     role.RoleArn(), Source: jsii.String(source), SourceParameters: parameters, Target: p.Queue.QueueArn(),
		LogConfiguration: &awspipes.CfnPipe_PipeLogConfigurationProperty{
			Level:                        jsii.String("ERROR"),
			CloudwatchLogsLogDestination: &awspipes.CfnPipe_CloudwatchLogsLogDestinationProperty{LogGroupArn: logs.LogGroupArn()},
		},
	})
}

func kafkaSource(k settings.Kafka, group string) (string, *awspipes.CfnPipe_PipeSourceParametersProperty) {
	// What was sent before the first deployment is found by the clock.
	const from = "LATEST"
	var secret *string
	if k.Secret != "" {
		secret = jsii.String(k.Secret)
	}
	of := func(way string) *string {
		if k.How() == way {
			return secret
		}
		return nil
	}
	if k.Cluster != "" {
		p := &awspipes.CfnPipe_PipeSourceManagedStreamingKafkaParametersProperty{
			TopicName: jsii.String(k.Topic), ConsumerGroupId: jsii.String(group), StartingPosition: jsii.String(from), BatchSize: jsii.Number(pipeBatch),
		}
		if secret != nil {
			p.Credentials = &awspipes.CfnPipe_MSKAccessCredentialsProperty{
				SaslScram512Auth: of(settings.KafkaSCRAM512), ClientCertificateTlsAuth: of(settings.KafkaTLS),
			}
		}
		return k.Cluster, &awspipes.CfnPipe_PipeSourceParametersProperty{ManagedStreamingKafkaParameters: p}
	}
	p := &awspipes.CfnPipe_PipeSourceSelfManagedKafkaParametersProperty{
		TopicName: jsii.String(k.Topic), ConsumerGroupId: jsii.String(group), StartingPosition: jsii.String(from), BatchSize: jsii.Number(pipeBatch),
	}
	if len(k.Servers) > 1 {
		p.AdditionalBootstrapServers = jsii.Strings(k.Servers[1:]...)
	}
	if secret != nil {
		p.Credentials = &awspipes.CfnPipe_SelfManagedKafkaAccessConfigurationCredentialsProperty{
			SaslScram512Auth: of(settings.KafkaSCRAM512), SaslScram256Auth: of(settings.KafkaSCRAM256), BasicAuth: of(settings.KafkaBasic),
			ClientCertificateTlsAuth: of(settings.KafkaTLS),
		}
	}
	if len(k.Subnets) > 0 {
		p.Vpc = &awspipes.CfnPipe_SelfManagedKafkaAccessConfigurationVpcProperty{
			Subnets: jsii.Strings(k.Subnets...), SecurityGroup: jsii.Strings(k.SecurityGroups...),
		}
	}
	return "smk://" + k.Servers[0], &awspipes.CfnPipe_PipeSourceParametersProperty{SelfManagedKafkaParameters: p}
}

// kafkaStatements let the pipe read its topic as its group, and send to the queue.
func (p *Pipeline) kafkaStatements(group, logs string) []*awsiam.PolicyStatementProps {
	k := p.settings.Kafka
	all := []*awsiam.PolicyStatementProps{
		allow("Send", []string{"sqs:SendMessage"}, []string{*p.Queue.QueueArn()}),
		allow("Logs", []string{"logs:CreateLogStream", "logs:PutLogEvents"}, []string{logs}),
	}
	if k.Cluster != "" {
		all = append(all, allow("Cluster", []string{"kafka:DescribeClusterV2", "kafka:GetBootstrapBrokers"}, []string{k.Cluster}))
	}
	if k.Cluster != "" && k.Secret == "" {
		all = append(all,
			allow("Connect", []string{"kafka-cluster:Connect", "kafka-cluster:DescribeClusterDynamicConfiguration"}, []string{k.Cluster}),
			allow("Topic", []string{"kafka-cluster:DescribeTopic", "kafka-cluster:ReadData"}, []string{strings.Replace(k.Cluster, ":cluster/", ":topic/", 1) + "/" + k.Topic}),
			allow("Group", []string{"kafka-cluster:DescribeGroup", "kafka-cluster:AlterGroup"}, []string{strings.Replace(k.Cluster, ":cluster/", ":group/", 1) + "/" + group}))
	}
	if k.Cluster != "" || len(k.Subnets) > 0 {
		all = append(all, allow("Network", []string{ // network interfaces of a pipe have no ARN before they exist
			"ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeVpcs", "ec2:DeleteNetworkInterface",
			"ec2:DescribeSubnets", "ec2:DescribeSecurityGroups",
		}, []string{"*"}))
	}
	if k.Secret != "" {
		all = append(all, allow("Secret", []string{"secretsmanager:GetSecretValue"}, []string{k.Secret}))
		if keys := p.settings.SecretKeys; len(keys) > 0 {
			all = append(all, decryptSecrets("SecretKey", keys))
		}
	}
	if p.settings.Key != "" {
		all = append(all, allow("Keys", []string{"kms:Decrypt", "kms:GenerateDataKey"}, []string{p.settings.Key}))
	}
	return all
}
