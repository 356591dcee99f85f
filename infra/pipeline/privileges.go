package pipeline

import (
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"firn/infra/settings"
	"firn/internal/contract"
)

// powers is what statements are built from: ARNs of what the stack owns, and the settings that say what it does not own. Actions are spelled out, never
// with a wildcard; only commit updates a catalog, only sweep deletes, and compact knows no catalog.
type powers struct {
	settings settings.Settings
	table    string // the state table
	work     string // the work bucket
	config   string // the object of firn.yaml
	queue    string // the queue of commits
	refused  string // the queue of refused messages
	missed   string // the queue of schedule's failed calls
	bus      string // the event bus of outcome events
	machine  string // the state machine
	logs     string // the function's own log group
}

// allow is one statement; resources are ARNs.
func allow(sid string, actions, resources []string) *awsiam.PolicyStatementProps {
	return &awsiam.PolicyStatementProps{Sid: jsii.String(sid), Actions: jsii.Strings(actions...), Resources: jsii.Strings(resources...)}
}

// prefixed is a statement on a bucket that holds for the keys of some prefixes. A read of a missing object is answered by 404, and not by 403, only for who
// may list the bucket; such a read has no prefix, hence IfExists.
func prefixed(sid, operator string, actions []string, bucket string, prefixes []string) *awsiam.PolicyStatementProps {
	var patterns []string
	for _, prefix := range prefixes {
		patterns = append(patterns, prefix, prefix+"/*")
	}
	s := allow(sid, actions, []string{bucket})
	s.Conditions = &map[string]any{operator: map[string]any{"s3:prefix": patterns}}
	return s
}

// Statements lists what a function may do.
func (p powers) statements(function string) []*awsiam.PolicyStatementProps {
	all := []*awsiam.PolicyStatementProps{
		allow("Logs", []string{"logs:CreateLogStream", "logs:PutLogEvents"}, []string{p.logs}),
		allow("Traces", []string{"xray:PutTraceSegments", "xray:PutTelemetryRecords"}, []string{"*"}), // X-Ray has no resources
	}
	if readsConfig(function) {
		all = append(all, allow("Config", []string{"s3:GetObject"}, []string{p.config}))
	}
	if len(p.settings.Subnets) > 0 {
		all = append(all, allow("Network", []string{ // network interfaces of a function have no ARN before they exist
			"ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets", "ec2:DeleteNetworkInterface",
			"ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses",
		}, []string{"*"}))
	}
	all = append(all, p.state(function)...)
	all = append(all, p.catalog(function)...)
	all = append(all, p.warehouse(function)...)
	all = append(all, p.workBucket(function)...)
	switch function {
	case contract.FunctionEvaluate:
		all = append(all,
			allow("Consume", []string{"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"}, []string{p.queue}),
			allow("Refuse", []string{"sqs:SendMessage"}, []string{p.refused}),
			allow("Again", []string{"sqs:SendMessage"}, []string{p.queue})) // a look that is put off
		if p.settings.StartsRuns() {
			all = append(all, allow("Start", []string{"states:StartExecution"}, []string{p.machine}))
		}
	case contract.FunctionSchedule:
		all = append(all, allow("Notice", []string{"sqs:SendMessage"}, []string{p.queue, p.missed}))
	case contract.FunctionReport:
		all = append(all, allow("Notice", []string{"sqs:SendMessage"}, []string{p.queue}), allow("Outcome", []string{"events:PutEvents"}, []string{p.bus}))
	}
	return append(all, p.keys(function)...)
}

// state is the part of the state table: plan and commit renew leases, schedule reads and keeps its cursor, compact and sweep know no state.
func (p powers) state(function string) []*awsiam.PolicyStatementProps {
	actions := map[string][]string{
		contract.FunctionEvaluate: {"dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:DeleteItem", "dynamodb:Query"},
		contract.FunctionSchedule: {"dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"},
		contract.FunctionPlan:     {"dynamodb:GetItem", "dynamodb:PutItem"},
		contract.FunctionCommit:   {"dynamodb:GetItem", "dynamodb:PutItem"},
		contract.FunctionReport:   {"dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"},
	}[function]
	if actions == nil {
		return nil
	}
	return []*awsiam.PolicyStatementProps{allow("State", actions, []string{p.table})}
}

// OpensCatalog reports whether a function opens catalogs, and so may read the catalog's secret.
func OpensCatalog(function string) bool {
	return function != contract.FunctionCompact && function != contract.FunctionReport
}

func (p powers) catalog(function string) []*awsiam.PolicyStatementProps {
	c := p.settings.Catalog
	var all []*awsiam.PolicyStatementProps
	if secrets := p.settings.AllSecrets(); len(secrets) > 0 && OpensCatalog(function) {
		all = append(all, allow("CatalogSecret", []string{"secretsmanager:GetSecretValue"}, secrets))
		if keys := p.settings.SecretKeys; len(keys) > 0 {
			all = append(all, decryptSecrets("CatalogSecretKey", keys))
		}
	}
	if c.Kind == settings.CatalogS3Tables {
		return append(all, p.s3Tables(function)...)
	}
	signing := c.Signing()
	if signing == settings.SigningAPI && OpensCatalog(function) {
		return append(all, allow("CatalogAPI", []string{"execute-api:Invoke"}, api(c.API(), function)))
	}
	if c.Kind != settings.CatalogGlue && signing != settings.SigningGlue || !OpensCatalog(function) {
		return all
	}
	read := []string{"glue:GetTable", "glue:GetTables", "glue:GetDatabases"}
	if function == contract.FunctionPlan || function == contract.FunctionCommit {
		read = []string{"glue:GetTable"}
	}
	if function == contract.FunctionEvaluate {
		read = append(read, "glue:GetTableOptimizer") // tables that Glue maintains are left alone
	}
	if signing != "" {
		read = append(read, "glue:GetCatalog", "glue:GetDatabase")
	}
	all = append(all, allow("CatalogRead", read, p.glue()))
	if function == contract.FunctionCommit {
		all = append(all, allow("CatalogUpdate", []string{"glue:UpdateTable"}, p.glue()))
	}
	return all
}

// decryptSecrets lets secrets be decrypted, by way of Secrets Manager alone.
func decryptSecrets(sid string, keys []string) *awsiam.PolicyStatementProps {
	decrypt := allow(sid, []string{"kms:Decrypt"}, keys)
	decrypt.Conditions = &map[string]any{"StringEquals": map[string]any{
		"kms:ViaService": "secretsmanager." + *awscdk.Aws_REGION() + "." + *awscdk.Aws_URL_SUFFIX(),
	}}
	return decrypt
}

// api are the ARNs of a REST catalog behind API Gateway, in any stage: commit alone may post, which is how tables are updated.
func api(id, function string) []string {
	base := "arn:" + *awscdk.Aws_PARTITION() + ":execute-api:" + *awscdk.Aws_REGION() + ":" + *awscdk.Aws_ACCOUNT_ID() + ":" + id + "/*/"
	arns := []string{base + "GET/*"}
	if function == contract.FunctionCommit {
		arns = append(arns, base+"POST/*")
	}
	return arns
}

// account is the account of the Glue catalog: the stack's, or the one that a property of the catalog names, as Glue's own client and its REST endpoint have it.
func (p powers) account() string {
	c := p.settings.Catalog
	if id := c.Properties["glue.id"]; id != "" {
		return id
	}
	if id := c.Properties["warehouse"]; c.Signing() == settings.SigningGlue && len(id) == 12 && strings.Trim(id, "0123456789") == "" {
		return id
	}
	return *awscdk.Aws_ACCOUNT_ID()
}

// glue are the ARNs of the entrusted tables, with the databases and the catalog that Glue asks for beside them. A pattern of Firn becomes one of IAM, whose
// star also takes dots: the functions themselves hold the narrower rule.
func (p powers) glue() []string {
	base := "arn:" + *awscdk.Aws_PARTITION() + ":glue:" + *awscdk.Aws_REGION() + ":" + p.account() + ":"
	arns := []string{base + "catalog"}
	for _, pattern := range p.settings.Tables {
		database, table := names(pattern)
		arns = append(arns, base+"database/"+database, base+"table/"+database+"/"+table)
	}
	slices.Sort(arns)
	return slices.Compact(arns)
}

// names cuts a pattern into a pattern of databases and one of tables; what it cannot tell apart is wide.
func names(pattern string) (database, table string) {
	parts := strings.Split(pattern, ".")
	switch {
	case strings.Contains(pattern, "**"):
		return "*", "*"
	case len(parts) == 2:
		return parts[0], parts[1]
	case len(parts) == 3: // catalog.namespace.table
		return parts[1], parts[2]
	default:
		return "*", "*"
	}
}

// s3Tables are the powers on a table bucket, which has actions of its own for the objects of its tables. Its service deletes by itself: sweep may not.
func (p powers) s3Tables(function string) []*awsiam.PolicyStatementProps {
	bucket := p.settings.Catalog.Properties["warehouse"]
	tables := []string{bucket, bucket + "/table/*"}
	var all []*awsiam.PolicyStatementProps
	if OpensCatalog(function) {
		all = append(all, allow("CatalogRead", []string{
			"s3tables:GetTableBucket", "s3tables:ListNamespaces", "s3tables:GetNamespace", "s3tables:ListTables", "s3tables:GetTable",
			"s3tables:GetTableMetadataLocation",
		}, tables))
	}
	if function == contract.FunctionCommit {
		all = append(all, allow("CatalogUpdate", []string{"s3tables:UpdateTableMetadataLocation"}, tables))
	}
	if function != contract.FunctionReport && function != contract.FunctionSchedule {
		all = append(all, allow("TableData", []string{"s3tables:GetTableData"}, tables))
	}
	if function == contract.FunctionCommit || function == contract.FunctionCompact {
		all = append(all, allow("TableDataWrite", []string{"s3tables:PutTableData"}, tables))
	}
	return all
}

// warehouse are the powers on the tables' files: on the buckets that the function reaches in its own role, and the roles of other accounts that it takes
// for theirs.
func (p powers) warehouse(function string) []*awsiam.PolicyStatementProps {
	var roles []string
	for _, role := range p.settings.Roles {
		roles = append(roles, role.ARN(function))
	}
	all := p.files(function)
	if slices.Sort(roles); len(roles) > 0 && settings.ReachesFiles(function) {
		all = append(all, allow("TableBuckets", []string{"sts:AssumeRole"}, slices.Compact(roles)))
	}
	return all
}

// files are the powers on the tables' files in buckets that are reached in the function's own role.
func (p powers) files(function string) []*awsiam.PolicyStatementProps {
	var objects, metadata []string
	buckets := map[string][]string{}
	var order []string
	for _, w := range p.settings.Warehouses {
		if _, others := p.settings.RoleOf(w.Bucket); others {
			continue
		}
		base := bucketARN(w.Bucket)
		objects = append(objects, base+"/"+w.Prefix+"/*")
		metadata = append(metadata, base+"/"+w.Prefix+"/*/metadata/*")
		if buckets[base] == nil {
			order = append(order, base)
		}
		buckets[base] = append(buckets[base], w.Prefix)
	}
	var all []*awsiam.PolicyStatementProps
	if len(order) == 0 {
		return nil
	}
	onBuckets := func(sid, operator string, actions ...string) {
		for i, bucket := range order {
			name := sid
			if i > 0 {
				name += string(rune('A' + i%26))
			}
			all = append(all, prefixed(name, operator, actions, bucket, buckets[bucket]))
		}
	}
	switch function {
	case contract.FunctionEvaluate:
		all = append(all, allow("ReadMetadata", []string{"s3:GetObject"}, metadata))
		onBuckets("Missing", "StringLikeIfExists", "s3:ListBucket")
	case contract.FunctionPlan:
		all = append(all, allow("ReadTables", []string{"s3:GetObject"}, objects))
		onBuckets("Missing", "StringLikeIfExists", "s3:ListBucket")
	case contract.FunctionCompact:
		deny := allow("NoMetadata", []string{"s3:PutObject", "s3:AbortMultipartUpload"}, metadata)
		deny.Effect = awsiam.Effect_DENY
		all = append(all, allow("ReadTables", []string{"s3:GetObject"}, objects),
			allow("WriteData", []string{"s3:PutObject", "s3:AbortMultipartUpload"}, objects), deny)
		onBuckets("Missing", "StringLikeIfExists", "s3:ListBucket")
	case contract.FunctionCommit:
		all = append(all, allow("ReadTables", []string{"s3:GetObject"}, objects), allow("WriteTables", []string{"s3:PutObject"}, objects))
		onBuckets("Missing", "StringLikeIfExists", "s3:ListBucket")
	case contract.FunctionSweep:
		all = append(all, allow("ReadTables", []string{"s3:GetObject"}, objects),
			allow("DeleteFiles", []string{"s3:DeleteObject", "s3:AbortMultipartUpload"}, objects))
		onBuckets("Missing", "StringLikeIfExists", "s3:ListBucket")
		onBuckets("Uploads", "StringLike", "s3:ListBucketMultipartUploads")
	}
	return all
}

// workBucket are the powers on plans, results and fate logs. Sweep alone deletes there, too: the marks of runs that it has settled, and nothing else.
func (p powers) workBucket(function string) []*awsiam.PolicyStatementProps {
	if function == contract.FunctionEvaluate || function == contract.FunctionSchedule {
		return nil
	}
	runs, unsettled := p.work+"/"+contract.WorkPrefix+"*", p.work+"/"+contract.UnsettledPrefix+"*"
	objects := []string{runs}
	if function == contract.FunctionSweep {
		objects = append(objects, unsettled)
	}
	all := []*awsiam.PolicyStatementProps{
		allow("Work", []string{"s3:GetObject", "s3:PutObject"}, objects),
		allow("WorkMissing", []string{"s3:ListBucket"}, []string{p.work}),
	}
	if function == contract.FunctionCompact || function == contract.FunctionSweep {
		all = append(all, allow("WorkUploads", []string{"s3:AbortMultipartUpload"}, []string{runs}))
	}
	if function == contract.FunctionSweep {
		all = append(all, allow("WorkMarks", []string{"s3:DeleteObject"}, []string{unsettled}))
	}
	return all
}

// keys are the powers on KMS keys: the stack's for everybody, since each function writes to the work bucket, the state table or the queue; those of the
// warehouses to decrypt for who reads there, and to encrypt for who writes there.
func (p powers) keys(function string) []*awsiam.PolicyStatementProps {
	var all []*awsiam.PolicyStatementProps
	if p.settings.Key != "" {
		all = append(all, allow("Keys", []string{"kms:Decrypt", "kms:GenerateDataKey"}, []string{p.settings.Key}))
	}
	actions := map[string][]string{
		contract.FunctionEvaluate: {"kms:Decrypt"},
		contract.FunctionPlan:     {"kms:Decrypt"},
		contract.FunctionSweep:    {"kms:Decrypt"},
		contract.FunctionCompact:  {"kms:Decrypt", "kms:GenerateDataKey"},
		contract.FunctionCommit:   {"kms:Decrypt", "kms:GenerateDataKey"},
	}[function]
	if keys := p.settings.WarehouseKeys; len(keys) > 0 && actions != nil {
		all = append(all, allow("WarehouseKeys", actions, keys))
	}
	return all
}

func bucketARN(name string) string { return "arn:" + *awscdk.Aws_PARTITION() + ":s3:::" + name }

// document turns statements into a policy document.
func document(statements []*awsiam.PolicyStatementProps) awsiam.PolicyDocument {
	list := make([]awsiam.PolicyStatement, len(statements))
	for i, s := range statements {
		list[i] = awsiam.NewPolicyStatement(s)
	}
	return awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{Statements: &list})
}

// role makes a role of a service with one inline policy.
func service(name string) awsiam.ServicePrincipal {
	return awsiam.NewServicePrincipal(jsii.String(name), nil)
}
