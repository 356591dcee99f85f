package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"firn/internal/contract"
)

// Key is one setting.
type Key struct {
	// Name is what stands before the = of -c, and the key in a file.
	Name string
	// Doc says what it is, in one line.
	Doc string

	set func(s *Settings, value string) error
}

// CatalogPrefix begins the keys that are passed to the catalog as properties.
const CatalogPrefix = "catalog."

// Keys lists all settings in the order of the documentation. Beside them, catalog.PROPERTY sets a property of the catalog.
func Keys() []Key {
	keys := []Key{
		{"warehouse", "locations of the tables, s3://bucket/prefix, parted by commas", setWarehouses},
		{"tables", "patterns of the tables that Firn may maintain, parted by commas", list(func(s *Settings) *[]string { return &s.Tables })},
		{"mode", "observe (default), opt-in, maintain or off", text(func(s *Settings) *string { return &s.Mode })},
		{"catalog", "glue (default), rest, s3tables or sql", text(func(s *Settings) *string { return &s.Catalog.Kind })},
		{"catalog.name", "what tables and policies call the catalog; default: its kind", text(func(s *Settings) *string { return &s.Catalog.Name })},
		{"catalog.secret", "ARN of a secret with further properties of the catalog", text(func(s *Settings) *string { return &s.Catalog.Secret })},
		{"secrets", "ARNs of the secrets of config's further catalogs", list(func(s *Settings) *[]string { return &s.Secrets })},
		{"secrets.kms", "ARNs of the keys of secrets that have one of their own", list(func(s *Settings) *[]string { return &s.SecretKeys })},
		{"config", "path of a firn.yaml with policy and further catalogs", text(func(s *Settings) *string { return &s.Config })},
		{"sources", "glue, s3, cloudtrail, parted by commas; default: glue for Glue, else s3", list(func(s *Settings) *[]string { return &s.Sources })},
		{"topics", "ARNs of SNS topics with commit events", list(func(s *Settings) *[]string { return &s.Topics })},
		{"accounts", "accounts whose events are heard; default: all that may reach the queue", list(func(s *Settings) *[]string { return &s.EventAccounts })},
		{"lake-formation", "grant: the template grants the roles what they need in Lake Formation", text(func(s *Settings) *string { return &s.LakeFormation })},
		{"alarms.email", "address that gets alarms", text(func(s *Settings) *string { return &s.Email })},
		{"alarms.topic", "ARN of an SNS topic that gets alarms", text(func(s *Settings) *string { return &s.Topic })},
		{"kms", "ARN of a key for the state table, the work bucket and the queues", text(func(s *Settings) *string { return &s.Key })},
		{"warehouse.kms", "ARNs of the keys of the warehouses' buckets", list(func(s *Settings) *[]string { return &s.WarehouseKeys })},
		{"warehouse.roles", "roles by which other accounts' buckets are reached, bucket=ARN with {function} in its name", setRoles},
		{"vpc.subnets", "IDs of subnets for the functions", list(func(s *Settings) *[]string { return &s.Subnets })},
		{"vpc.security-groups", "IDs of security groups for the functions", list(func(s *Settings) *[]string { return &s.SecurityGroups })},
		{"queue.window", fmt.Sprintf("seconds for which events are gathered; default: %d", contract.BatchWindowSeconds), number(func(s *Settings) *int { return &s.Queue.WindowSeconds })},
		{"queue.batch", "most events of one look", number(func(s *Settings) *int { return &s.Queue.Batch })},
		{"queue.parallel", "most concurrent looks", number(func(s *Settings) *int { return &s.Queue.Parallel })},
		{"compact.parallel", "most file groups of one run at once", number(func(s *Settings) *int { return &s.CompactParallel })},
		{"sweep.parallel", "most key ranges of one sweep at once", number(func(s *Settings) *int { return &s.SweepParallel })},
		{"schedule", "how often missed tables are looked for, rate(15 minutes)", text(func(s *Settings) *string { return &s.Schedule })},
		{"logs.days", "how long logs are kept", number(func(s *Settings) *int { return &s.LogDays })},
		{"account", "account of the stack; default: the deploying credentials'", text(func(s *Settings) *string { return &s.Account })},
		{"region", "region of the stack; default: the deploying credentials'", text(func(s *Settings) *string { return &s.Region })},
	}
	keys = append(keys, kafkaKeys()...)
	for _, name := range contract.Functions() {
		size := func(pick func(*Function) *int) func(*Settings, string) error {
			return func(s *Settings, value string) error {
				f := s.Functions[name]
				err := atoi(pick(&f), value)
				s.Functions[name] = f
				return err
			}
		}
		keys = append(keys,
			Key{name + ".memory", "MB of memory", size(func(f *Function) *int { return &f.MemoryMB })},
			Key{name + ".timeout", "seconds, at most 900", size(func(f *Function) *int { return &f.TimeoutSeconds })},
			Key{name + ".storage", "MB of /tmp", size(func(f *Function) *int { return &f.StorageMB })},
			Key{name + ".concurrency", "reserved concurrent executions; 0 is none", size(func(f *Function) *int { return &f.Concurrency })})
	}
	return keys
}

// Parse reads values by key over the defaults and checks the whole. The error holds every fault.
func Parse(values map[string]string) (Settings, error) {
	s := Defaults()
	keys := map[string]Key{}
	for _, key := range Keys() {
		keys[key.Name] = key
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		key, known := keys[name]
		switch {
		case known:
			if err := key.set(&s, strings.TrimSpace(values[name])); err != nil {
				faults = append(faults, fmt.Errorf("%s=%s: %w", name, values[name], err))
			}
		case strings.HasPrefix(name, CatalogPrefix):
			s.Catalog.Properties[strings.TrimPrefix(name, CatalogPrefix)] = values[name]
		default:
			faults = append(faults, fmt.Errorf("%s: unknown setting%s", name, nearest(name, slices.Collect(maps.Keys(keys)))))
		}
	}
	if values["catalog.name"] == "" {
		s.Catalog.Name = s.Catalog.Kind
	}
	if len(s.Sources) == 0 && values["sources"] == "" {
		s.Sources = []string{SourceS3}
		if s.Catalog.Kind == CatalogGlue {
			s.Sources = []string{SourceGlue}
		}
	}
	return s, errors.Join(append(faults, s.Check())...)
}

// Context picks our settings out of the CDK's context (the JSON of CDK_CONTEXT_JSON): keys with a colon, a slash or an @ are the CDK's own. The value
// of "settings" names a file of further settings, which the context overrides; its relative path starts at dir.
func Context(text, dir string) (map[string]string, error) {
	context := map[string]any{}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &context); err != nil {
			return nil, fmt.Errorf("read context: %w", err)
		}
	}
	given := map[string]string{}
	for key, value := range context {
		if !strings.ContainsAny(key, ":/@") && !strings.HasPrefix(key, "cdk-") && key != "tree-metadata" {
			flatten(given, key, value)
		}
	}
	path := given["settings"]
	delete(given, "settings")
	if path == "" {
		return given, nil
	}
	data, err := os.ReadFile(resolve(dir, path))
	if err != nil {
		return nil, fmt.Errorf("settings=%s: %w", path, err)
	}
	var document map[string]any
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, fmt.Errorf("settings=%s: %w", path, err)
	}
	values := map[string]string{}
	for key, value := range document {
		flatten(values, key, value)
	}
	maps.Copy(values, given)
	return values, nil
}

// flatten joins nested keys by dots and lists by commas.
func flatten(into map[string]string, key string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			if name == "kind" {
				flatten(into, key, inner) // catalog: {kind: rest, uri: ...}
				continue
			}
			flatten(into, key+"."+name, inner)
		}
	case []any:
		parts := make([]string, len(v))
		for i, part := range v {
			parts[i] = fmt.Sprint(part)
		}
		into[key] = strings.Join(parts, ",")
	case nil:
		into[key] = ""
	default:
		into[key] = fmt.Sprint(v)
	}
}

func resolve(dir, path string) string {
	if strings.HasPrefix(path, "/") || dir == "" {
		return path
	}
	return dir + "/" + path
}

func setWarehouses(s *Settings, value string) error {
	s.Warehouses = nil
	for _, location := range split(value) {
		rest, found := strings.CutPrefix(location, "s3://")
		bucket, prefix, _ := strings.Cut(rest, "/")
		if !found || bucket == "" || strings.ContainsAny(bucket, "*?$ ") {
			return fmt.Errorf("%q is no location s3://bucket/prefix", location)
		}
		s.Warehouses = append(s.Warehouses, Warehouse{Bucket: bucket, Prefix: strings.Trim(prefix, "/")})
	}
	return nil
}

func text(pick func(*Settings) *string) func(*Settings, string) error {
	return func(s *Settings, value string) error {
		*pick(s) = value
		return nil
	}
}

func list(pick func(*Settings) *[]string) func(*Settings, string) error {
	return func(s *Settings, value string) error {
		*pick(s) = split(value)
		return nil
	}
}

func number(pick func(*Settings) *int) func(*Settings, string) error {
	return func(s *Settings, value string) error { return atoi(pick(s), value) }
}

func atoi(into *int, value string) error {
	n, err := strconv.Atoi(value)
	if err != nil {
		return errors.New("want a whole number")
	}
	*into = n
	return nil
}

func split(value string) []string {
	var parts []string
	for part := range strings.SplitSeq(value, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// nearest suggests the known key with the fewest edits, when there is one within three.
func nearest(name string, known []string) string {
	best, distance := "", 4
	for _, candidate := range slices.Sorted(slices.Values(known)) {
		if d := edits(name, candidate); d < distance {
			best, distance = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// edits is Levenshtein's distance.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
