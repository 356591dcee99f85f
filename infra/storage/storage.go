// Package storage is the construct of what Firn keeps: the state table and the work bucket. Both outlive the stack: a table's fate logs and history are
// not to be lost by a wrong command.
package storage

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"firn/internal/contract"
)

// Props are what the construct can be told. The zero value is usable.
type Props struct {
	// Key encrypts table and bucket; nil leaves it to keys that AWS owns.
	Key awskms.IKey
	// RunDays is how long plans and results are kept; 0 means 30, as many as a run's files may wait for their sweep.
	RunDays int
}

// Storage is the state table and the work bucket.
type Storage struct {
	// Construct is the scope of what the construct is made of.
	Construct constructs.Construct
	// Table holds ledger, leases and history: partition key pk, sort key sk.
	Table awsdynamodb.Table
	// Bucket holds plans, results and fate logs under contract.WorkPrefix, marks of unsettled runs under contract.UnsettledPrefix.
	Bucket awss3.Bucket
}

// New makes the construct.
func New(scope constructs.Construct, id string, props *Props) *Storage {
	if props == nil {
		props = &Props{}
	}
	days := props.RunDays
	if days == 0 {
		days = 30
	}
	this := constructs.NewConstruct(scope, jsii.String(id))
	table := awsdynamodb.NewTable(this, jsii.String("State"), &awsdynamodb.TableProps{
		PartitionKey:                     &awsdynamodb.Attribute{Name: jsii.String("pk"), Type: awsdynamodb.AttributeType_STRING},
		SortKey:                          &awsdynamodb.Attribute{Name: jsii.String("sk"), Type: awsdynamodb.AttributeType_STRING},
		BillingMode:                      awsdynamodb.BillingMode_PAY_PER_REQUEST,
		PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: jsii.Bool(true)},
		Encryption:                       tableEncryption(props.Key),
		EncryptionKey:                    props.Key,
		RemovalPolicy:                    awscdk.RemovalPolicy_RETAIN,
	})
	bucket := awss3.NewBucket(this, jsii.String("Work"), &awss3.BucketProps{
		BlockPublicAccess: awss3.BlockPublicAccess_BLOCK_ALL(),
		ObjectOwnership:   awss3.ObjectOwnership_BUCKET_OWNER_ENFORCED,
		EnforceSSL:        jsii.Bool(true),
		MinimumTLSVersion: jsii.Number(1.2),
		Encryption:        bucketEncryption(props.Key),
		EncryptionKey:     props.Key,
		BucketKeyEnabled:  bucketKey(props.Key),
		RemovalPolicy:     awscdk.RemovalPolicy_RETAIN,
		LifecycleRules: &[]*awss3.LifecycleRule{
			{Id: jsii.String("runs"), Prefix: jsii.String(contract.WorkPrefix), Expiration: awscdk.Duration_Days(jsii.Number(days))},
			{Id: jsii.String("uploads"), AbortIncompleteMultipartUploadAfter: awscdk.Duration_Days(jsii.Number(7))},
		},
	})
	return &Storage{Construct: this, Table: table, Bucket: bucket}
}

func tableEncryption(key awskms.IKey) awsdynamodb.TableEncryption {
	if key == nil {
		return awsdynamodb.TableEncryption_DEFAULT
	}
	return awsdynamodb.TableEncryption_CUSTOMER_MANAGED
}

func bucketEncryption(key awskms.IKey) awss3.BucketEncryption {
	if key == nil {
		return awss3.BucketEncryption_S3_MANAGED
	}
	return awss3.BucketEncryption_KMS
}

// bucketKey asks for S3's bucket keys where there is a key: they save most calls of KMS.
func bucketKey(key awskms.IKey) *bool {
	if key == nil {
		return nil
	}
	return jsii.Bool(true)
}
