// Package settings reads what an operator wants deployed: typed settings from the CDK's context (`-c key=value`) and from a file. It knows every key,
// its default and its limits, and reports all faults at once, each with its key, before anything is synthesised. It knows nothing of the CDK.
package settings

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"firn/internal/contract"
)

// Catalog kinds.
const (
	CatalogGlue     = "glue"
	CatalogREST     = "rest"
	CatalogS3Tables = "s3tables"
	CatalogSQL      = "sql"
)

// Event sources that a deployment can listen to. Our own event, "Iceberg Table Committed", is always heard.
const (
	SourceGlue       = "glue"
	SourceS3         = "s3"
	SourceCloudTrail = "cloudtrail"
)

// Settings is everything that a deployment can be told.
type Settings struct {
	// Warehouses are the locations under which the tables lie: nothing outside of them is read, written or deleted.
	Warehouses []Warehouse
	// Roles are roles of other accounts by which buckets of warehouses are reached; the functions' own roles reach the others.
	Roles []BucketRole
	// Tables are patterns of [catalog.]namespace.table: * is text without a dot, ** any text.
	Tables []string
	// Mode is the mode of automatic runs: observe, opt-in, maintain or off.
	Mode string
	// Catalog is the default catalog.
	Catalog Catalog
	// Secrets are the ARNs of secrets that the catalogs of Config name, SecretKeys those of the KMS keys of secrets that have one of their own.
	Secrets, SecretKeys []string
	// Config is the path of a firn.yaml whose policy and further catalogs are deployed; "" for none.
	Config string
	// Sources are the event sources to listen to, Topics the ARNs of SNS topics to subscribe to, EventAccounts the accounts whose events are heard.
	Sources, Topics, EventAccounts []string
	// Kafka is a topic whose messages a pipe hands to the queue; the zero value is none.
	Kafka Kafka
	// LakeFormation is LakeFormationGrant, or "" to leave grants to the operator.
	LakeFormation string
	// Email and Topic get alarms; Topic is an SNS topic's ARN.
	Email, Topic string
	// Key is the ARN of a KMS key for all that the stack owns, WarehouseKeys those of the warehouses' buckets; "" and empty for S3's own.
	Key           string
	WarehouseKeys []string
	// Subnets and SecurityGroups put the functions into a VPC; empty for none.
	Subnets, SecurityGroups []string
	// Functions are the sizes by function name.
	Functions map[string]Function
	// CompactParallel and SweepParallel bound the children of a Distributed Map.
	CompactParallel, SweepParallel int
	// Queue shapes how events become batches.
	Queue Queue
	// Schedule is the rate at which missed tables are looked for, an expression of EventBridge Scheduler.
	Schedule string
	// LogDays is how long logs are kept.
	LogDays int
	// Account and Region pin the stack; "" leaves both to the deploying credentials.
	Account, Region string
}

// Warehouse is a bucket and a prefix without slashes at its ends.
type Warehouse struct{ Bucket, Prefix string }

// String is the location.
func (w Warehouse) String() string { return "s3://" + w.Bucket + "/" + w.Prefix }

// Catalog describes the default catalog.
type Catalog struct {
	// Name is what tables, events and policies call it.
	Name string
	// Kind is glue, rest, s3tables or sql.
	Kind string
	// Properties are properties under PyIceberg's and Java's names, without secrets.
	Properties map[string]string
	// Secret is the ARN of a secret of Secrets Manager, a JSON object of further properties; "" for none.
	Secret string
}

// Function is the size of one function.
type Function struct {
	// MemoryMB is its memory, 128 to 10,240; CPU grows with it.
	MemoryMB int
	// TimeoutSeconds is at most 900, so that a state's own timeout (960 s) is longer.
	TimeoutSeconds int
	// StorageMB is /tmp, 512 to 10,240.
	StorageMB int
	// Concurrency reserves executions and bounds them; 0 leaves the function in the account's pool.
	Concurrency int
}

// Queue is the event source mapping from the queue of commits to evaluate.
type Queue struct {
	// WindowSeconds is the debounce: how long messages are gathered, 0 to 300.
	WindowSeconds int
	// Batch is the most messages of one call, 1 to 10,000; over 10 needs a window.
	Batch int
	// Parallel is the most concurrent calls, at least 2.
	Parallel int
}

// Defaults are the settings of a deployment that says nothing but where its tables are.
func Defaults() Settings {
	sizes := map[string]Function{
		contract.FunctionEvaluate: {MemoryMB: 512, TimeoutSeconds: 300, StorageMB: 512},
		contract.FunctionSchedule: {MemoryMB: 256, TimeoutSeconds: 900, StorageMB: 512},
		contract.FunctionPlan:     {MemoryMB: 3008, TimeoutSeconds: 900, StorageMB: 512},
		contract.FunctionCompact:  {MemoryMB: 3008, TimeoutSeconds: 900, StorageMB: 10240},
		contract.FunctionCommit:   {MemoryMB: 3008, TimeoutSeconds: 900, StorageMB: 512},
		contract.FunctionSweep:    {MemoryMB: 1769, TimeoutSeconds: 900, StorageMB: 2048},
		contract.FunctionReport:   {MemoryMB: 256, TimeoutSeconds: 300, StorageMB: 512},
	}
	return Settings{
		Mode: ModeObserve, Catalog: Catalog{Name: CatalogGlue, Kind: CatalogGlue, Properties: map[string]string{}}, Functions: sizes,
		CompactParallel: 50, SweepParallel: 20, Queue: Queue{WindowSeconds: contract.BatchWindowSeconds, Batch: 500, Parallel: 5}, Schedule: "rate(15 minutes)", LogDays: 90,
	}
}

// Check returns every fault of the settings, each with its key; nil when there is none.
func (s Settings) Check() error {
	faults := slices.Concat(s.checkTables(), s.checkRoles(), s.checkCatalog(), s.checkSigning(), s.checkLakeFormation(), s.checkKafka(), s.checkSizes())
	if !slices.Contains([]string{ModeObserve, ModeOptIn, ModeMaintain, ModeOff}, s.Mode) {
		faults = append(faults, fmt.Errorf("mode=%s: want observe, opt-in, maintain or off", s.Mode))
	}
	for _, source := range s.Sources {
		if !slices.Contains([]string{SourceGlue, SourceS3, SourceCloudTrail}, source) {
			faults = append(faults, fmt.Errorf("sources: unknown source %q: known are glue, s3 and cloudtrail (Kafka: kafka.topic); our own event is always heard", source))
		}
	}
	faults = append(faults, arns("topics", "sns", s.Topics), arns("alarms.topic", "sns", one(s.Topic)), arns("kms", "kms", one(s.Key)),
		arns("warehouse.kms", "kms", s.WarehouseKeys), arns("secrets.kms", "kms", s.SecretKeys),
		secretARNs("catalog.secret", one(s.Catalog.Secret)), secretARNs("secrets", s.Secrets))
	for _, account := range s.EventAccounts {
		if len(account) != 12 || strings.Trim(account, "0123456789") != "" {
			faults = append(faults, fmt.Errorf("accounts: %q is no account ID of 12 digits", account))
		}
	}
	if (len(s.Subnets) == 0) != (len(s.SecurityGroups) == 0) {
		faults = append(faults, errors.New("vpc.subnets and vpc.security-groups belong together"))
	}
	if s.Account != "" && s.Region == "" {
		faults = append(faults, errors.New("account without region: name both or neither"))
	}
	return errors.Join(faults...)
}

// The modes of a deployment.
const (
	// ModeObserve starts no runs, whatever a table or the policy says: no role may start one.
	ModeObserve = "observe"
	// ModeOptIn is the policy's mode observe, which a table's property or a layer of the policy overrides.
	ModeOptIn    = "opt-in"
	ModeMaintain = "maintain"
	ModeOff      = "off"
)

// StartsRuns reports whether anything in the deployment may start a run.
func (s Settings) StartsRuns() bool { return s.Mode == ModeOptIn || s.Mode == ModeMaintain }

// PolicyMode is the mode in the policy's deployment layer.
func (s Settings) PolicyMode() string {
	if s.Mode == ModeOptIn {
		return ModeObserve
	}
	return s.Mode
}

// AllSecrets are the ARNs of the secrets of all catalogs, each once.
func (s Settings) AllSecrets() []string {
	all := append(one(s.Catalog.Secret), s.Secrets...)
	slices.Sort(all)
	return slices.Compact(all)
}

func (s Settings) checkTables() []error {
	var faults []error
	if len(s.Warehouses) == 0 {
		faults = append(faults, errors.New("warehouse is missing: the location of the tables, s3://bucket/prefix; several parted by commas"))
	}
	if len(s.Tables) == 0 {
		faults = append(faults, errors.New("tables is missing: patterns as db.*, parted by commas; ** is every table"))
	}
	for i, w := range s.Warehouses {
		switch {
		case w.Prefix == "":
			faults = append(faults, fmt.Errorf("warehouse=s3://%s: a whole bucket is too much to delete in; name a prefix", w.Bucket))
		case slices.ContainsFunc(strings.Split(w.Prefix, "/"), func(step string) bool { return step == "" || step == "." || step == ".." }) ||
			strings.ContainsAny(w.Prefix, "*?$ "):
			faults = append(faults, fmt.Errorf("warehouse=%s: a prefix has no empty steps, dots, spaces or wildcards", w))
		}
		for _, other := range s.Warehouses[:i] {
			if w.Bucket == other.Bucket && (strings.HasPrefix(w.Prefix+"/", other.Prefix+"/") || strings.HasPrefix(other.Prefix+"/", w.Prefix+"/")) {
				faults = append(faults, fmt.Errorf("warehouse: %s and %s overlap", other, w))
			}
		}
	}
	return faults
}

func (s Settings) checkCatalog() []error {
	var faults []error
	c := s.Catalog
	if !slices.Contains([]string{CatalogGlue, CatalogREST, CatalogS3Tables, CatalogSQL}, c.Kind) {
		return []error{fmt.Errorf("catalog=%s: want glue, rest, s3tables or sql", c.Kind)}
	}
	if c.Name == "" || strings.ContainsAny(c.Name, "./\\*'\" ") {
		faults = append(faults, fmt.Errorf("catalog.name=%s: want a plain name", c.Name))
	}
	for key, value := range c.Properties {
		if Secret(key) || key == "uri" && Userinfo(value) {
			faults = append(faults, fmt.Errorf("catalog.%s: a secret has no place in settings, templates and environments: keep it in Secrets Manager and name its ARN as catalog.secret", key))
		}
	}
	if (c.Kind == CatalogREST || c.Kind == CatalogSQL) && c.Properties["uri"] == "" && c.Secret == "" {
		faults = append(faults, fmt.Errorf("catalog.uri is missing: a catalog of kind %s has one", c.Kind))
	}
	if c.Kind == CatalogS3Tables && !strings.HasPrefix(c.Properties["warehouse"], "arn:") {
		faults = append(faults, errors.New("catalog.warehouse is missing: the ARN of the table bucket"))
	}
	if c.Kind == CatalogSQL && (c.Secret == "" || len(s.Subnets) == 0) {
		faults = append(faults, errors.New("catalog=sql needs catalog.secret (the database's URI with its password) and vpc.subnets from which it is reached"))
	}
	return faults
}

func (s Settings) checkSizes() []error {
	var faults []error
	within := func(key string, value, low, high int) {
		if value < low || value > high {
			faults = append(faults, fmt.Errorf("%s=%d: want %d to %d", key, value, low, high))
		}
	}
	for _, name := range contract.Functions() {
		f := s.Functions[name]
		within(name+".memory", f.MemoryMB, 128, 10240)
		within(name+".timeout", f.TimeoutSeconds, 1, 900)
		within(name+".storage", f.StorageMB, 512, 10240)
		within(name+".concurrency", f.Concurrency, 0, 10000)
	}
	within("compact.parallel", s.CompactParallel, 1, 10000)
	within("sweep.parallel", s.SweepParallel, 1, 10000)
	within("queue.window", s.Queue.WindowSeconds, 0, 300)
	within("queue.batch", s.Queue.Batch, 1, 10000)
	within("queue.parallel", s.Queue.Parallel, 2, 1000)
	if s.Queue.Batch > 10 && s.Queue.WindowSeconds == 0 {
		faults = append(faults, fmt.Errorf("queue.batch=%d needs a queue.window of at least 1", s.Queue.Batch))
	}
	if !slices.Contains(LogDays(), s.LogDays) {
		faults = append(faults, fmt.Errorf("logs.days=%d: CloudWatch Logs keeps %v", s.LogDays, LogDays()))
	}
	if !strings.HasPrefix(s.Schedule, "rate(") && !strings.HasPrefix(s.Schedule, "cron(") || !strings.HasSuffix(s.Schedule, ")") {
		faults = append(faults, fmt.Errorf("schedule=%s: want rate(15 minutes) or cron(...)", s.Schedule))
	}
	return faults
}

// LogDays lists how many days CloudWatch Logs can keep logs.
func LogDays() []int {
	return []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653}
}

// Secret reports a property that holds a secret, under the names of PyIceberg and Java.
func Secret(key string) bool {
	for _, part := range []string{"token", "credential", "secret-access-key", "session-token", "password", "access-key-id"} {
		if strings.HasSuffix(key, part) {
			return true
		}
	}
	return false
}

// Userinfo reports a URI with a password.
func Userinfo(uri string) bool {
	_, rest, found := strings.Cut(uri, "://")
	authority, _, _ := strings.Cut(rest, "/")
	user, _, at := strings.Cut(authority, "@")
	return found && at && strings.Contains(user, ":") || strings.Contains(uri, "password=")
}

func one(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// arns faults what is no ARN of the service.
func arns(key, service string, values []string) error {
	var faults []error
	for _, value := range values {
		parts := strings.SplitN(value, ":", 6)
		if len(parts) < 6 || parts[0] != "arn" || parts[2] != service || parts[3] == "" || parts[4] == "" || parts[5] == "" {
			faults = append(faults, fmt.Errorf("%s=%s: want an ARN of %s", key, value, service))
		}
	}
	return errors.Join(faults...)
}

// secretARNs faults what is not the whole ARN of one secret: IAM compares all of it, with the six characters that Secrets Manager appends to the name.
func secretARNs(key string, values []string) error {
	faults := []error{arns(key, "secretsmanager", values)}
	for _, value := range values {
		if dash := strings.LastIndexByte(value, '-'); dash < 0 || len(value)-dash != 7 || strings.ContainsAny(value, "*?$") {
			faults = append(faults, fmt.Errorf("%s=%s: want the whole ARN of one secret, with the six characters at its end (aws secretsmanager describe-secret)", key, value))
		}
	}
	return errors.Join(faults...)
}
