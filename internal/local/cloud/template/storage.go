package template

import (
	"firn/internal/local/cloud/iam"
)

// Table is an AWS::DynamoDB::Table.
type Table struct {
	Identity                         `json:"-"`
	BillingMode                      string
	AttributeDefinitions             []struct{ AttributeName, AttributeType string }
	KeySchema                        []struct{ AttributeName, KeyType string }
	PointInTimeRecoverySpecification struct{ PointInTimeRecoveryEnabled bool }
	SSESpecification                 struct {
		SSEEnabled              bool
		SSEType, KMSMasterKeyId string
	}
}

// Bucket is an AWS::S3::Bucket. What stands in it is not acted on locally; its keys are checked all the same.
type Bucket struct {
	Identity               `json:"-"`
	BucketEncryption       any
	LifecycleConfiguration struct {
		Rules []struct {
			Id, Prefix, Status             string
			ExpirationInDays               int
			AbortIncompleteMultipartUpload struct{ DaysAfterInitiation int }
		}
	}
	OwnershipControls              any
	PublicAccessBlockConfiguration struct{ BlockPublicAcls, BlockPublicPolicy, IgnorePublicAcls, RestrictPublicBuckets bool }
}

// BucketPolicy is an AWS::S3::BucketPolicy; Bucket is the bucket's name.
type BucketPolicy struct {
	Identity       `json:"-"`
	Bucket         string
	PolicyDocument *iam.Document
}

func (p *BucketPolicy) check() error { return checked(p.PolicyDocument, iam.Resource, p.ID) }

// LogGroup is an AWS::Logs::LogGroup.
type LogGroup struct {
	Identity        `json:"-"`
	RetentionInDays int
	KmsKeyId        string
}

// kind files resources of one type.
type kind struct {
	file func(*Stack, Identity, []byte) error
}

func kinds() map[string]kind {
	watched := kind{func(s *Stack, _ Identity, _ []byte) error { s.Watched++; return nil }}
	return map[string]kind{
		"AWS::Lambda::Function":            {file(func(s *Stack) *map[string]*Function { return &s.Functions }, func(v *Function) *Identity { return &v.Identity })},
		"AWS::Lambda::Version":             {file(func(s *Stack) *map[string]*Version { return &s.Versions }, func(v *Version) *Identity { return &v.Identity })},
		"AWS::Lambda::EventSourceMapping":  {file(func(s *Stack) *map[string]*Mapping { return &s.Mappings }, func(v *Mapping) *Identity { return &v.Identity })},
		"AWS::SQS::Queue":                  {file(func(s *Stack) *map[string]*Queue { return &s.Queues }, func(v *Queue) *Identity { return &v.Identity })},
		"AWS::SQS::QueuePolicy":            {file(func(s *Stack) *map[string]*QueuePolicy { return &s.QueuePolicies }, func(v *QueuePolicy) *Identity { return &v.Identity })},
		"AWS::Events::Rule":                {file(func(s *Stack) *map[string]*Rule { return &s.Rules }, func(v *Rule) *Identity { return &v.Identity })},
		"AWS::Scheduler::Schedule":         {file(func(s *Stack) *map[string]*Schedule { return &s.Schedules }, func(v *Schedule) *Identity { return &v.Identity })},
		"AWS::SNS::Subscription":           {file(func(s *Stack) *map[string]*Subscription { return &s.Subscriptions }, func(v *Subscription) *Identity { return &v.Identity })},
		"AWS::SNS::Topic":                  {file(func(s *Stack) *map[string]*Topic { return &s.Topics }, func(v *Topic) *Identity { return &v.Identity })},
		"AWS::SNS::TopicPolicy":            {file(func(s *Stack) *map[string]*TopicPolicy { return &s.TopicPolicies }, func(v *TopicPolicy) *Identity { return &v.Identity })},
		"AWS::StepFunctions::StateMachine": {file(func(s *Stack) *map[string]*Machine { return &s.Machines }, func(v *Machine) *Identity { return &v.Identity })},
		"AWS::IAM::Role":                   {file(func(s *Stack) *map[string]*Role { return &s.Roles }, func(v *Role) *Identity { return &v.Identity })},
		"AWS::IAM::Policy":                 {file(func(s *Stack) *map[string]*Policy { return &s.Policies }, func(v *Policy) *Identity { return &v.Identity })},
		"AWS::DynamoDB::Table":             {file(func(s *Stack) *map[string]*Table { return &s.Tables }, func(v *Table) *Identity { return &v.Identity })},
		"AWS::S3::Bucket":                  {file(func(s *Stack) *map[string]*Bucket { return &s.Buckets }, func(v *Bucket) *Identity { return &v.Identity })},
		"AWS::S3::BucketPolicy":            {file(func(s *Stack) *map[string]*BucketPolicy { return &s.BucketPolicies }, func(v *BucketPolicy) *Identity { return &v.Identity })},
		"AWS::Logs::LogGroup":              {file(func(s *Stack) *map[string]*LogGroup { return &s.LogGroups }, func(v *LogGroup) *Identity { return &v.Identity })},
		"AWS::CloudWatch::Alarm":           watched,
		"AWS::CloudWatch::Dashboard":       watched,
		"AWS::Logs::MetricFilter":          watched,
	}
}
