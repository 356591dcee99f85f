package edge

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"firn/internal/authority"
	"firn/internal/contract"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// Settings is the part of firn.yaml that says where things are. What to maintain and when is the part "policy", which package policy reads.
type Settings struct {
	// Catalog is the name of the default catalog.
	Catalog string `yaml:"catalog"`
	// Catalogs are properties by catalog name, under PyIceberg's and Java's names.
	Catalogs map[string]map[string]string `yaml:"catalogs"`
	// WorkLocation is where plans, results and fates are written; StateLocation is the path of the state database.
	WorkLocation  string `yaml:"work-location"`
	StateLocation string `yaml:"state-location"`
	// SpillDir is the folder for what sorts spill, "" the system's for temporary files. SpillLimitBytes is the most that one group may spill, 0
	// what the disk holds.
	SpillDir        string `yaml:"spill-dir"`
	SpillLimitBytes int64  `yaml:"spill-limit-bytes"`
	// Tables are patterns of the tables that Firn may work on, Warehouses the locations under which it may read, write and delete; empty lists allow all.
	// See package authority.
	Tables     []string `yaml:"tables"`
	Warehouses []string `yaml:"warehouses"`
	// MaxConcurrentRuns bounds automatic runs at once, over all tables and in one namespace; 0 is no bound.
	MaxConcurrentRuns             int `yaml:"max-concurrent-runs"`
	MaxConcurrentRunsPerNamespace int `yaml:"max-concurrent-runs-per-namespace"`
	// Policy is left for package policy.
	Policy map[string]any `yaml:"policy"`
	// BucketRoles are the ARNs of the roles that reach other accounts' buckets, by bucket. They are a function's own, so they stand in its environment.
	BucketRoles map[string]string `yaml:"-"`
}

// ParseSettings reads firn.yaml. An unknown key is an error that names the nearest known one.
func ParseSettings(text []byte) (Settings, error) {
	var keys map[string]any
	if err := yaml.Unmarshal(text, &keys); err != nil {
		return Settings{}, fmt.Errorf("read firn.yaml: %w", err)
	}
	known := []string{
		"catalog", "catalogs", "work-location", "state-location", "spill-dir", "spill-limit-bytes", "tables", "warehouses",
		"max-concurrent-runs", "max-concurrent-runs-per-namespace", "policy",
	}
	var faults []error
	for key := range keys {
		if !strings.Contains(" "+strings.Join(known, " ")+" ", " "+key+" ") {
			faults = append(faults, fmt.Errorf("read firn.yaml: unknown key %q%s", key, maintenance.Suggestion(key, known)))
		}
	}
	if len(faults) > 0 {
		return Settings{}, errors.Join(faults...)
	}
	var s Settings
	if err := yaml.UnmarshalWithOptions(text, &s, yaml.Strict()); err != nil {
		return Settings{}, fmt.Errorf("read firn.yaml: %w", err)
	}
	if _, err := s.Authority(); err != nil {
		return Settings{}, fmt.Errorf("read firn.yaml: %w", err)
	}
	return s, nil
}

// Authority is what the settings entrust to Firn.
func (s Settings) Authority() (authority.Rules, error) {
	return authority.New(s.Tables, s.Warehouses, s.WorkLocation)
}

// LambdaSettings reads the settings of a function: FIRN_CONFIG holds firn.yaml's text or the location of it, the other variables override it.
func LambdaSettings(ctx context.Context, environ []string) (Settings, error) {
	env := Environment(environ)
	text := env[contract.EnvConfig]
	if loc, err := store.ParseLocation(strings.TrimSpace(text)); err == nil && !strings.Contains(text, "\n") {
		data, err := FetchSettings(ctx, loc.String(), nil)
		if err != nil {
			return Settings{}, fmt.Errorf("read configuration named by %s: %w", contract.EnvConfig, err)
		}
		text = string(data)
	}
	s, err := ParseSettings([]byte(text))
	if err != nil {
		return Settings{}, err
	}
	if v := env[contract.EnvWorkLocation]; v != "" {
		s.WorkLocation = v
	}
	if v := env[contract.EnvStateLocation]; v != "" {
		s.StateLocation = v
	}
	faults := []error{s.SpillFrom(env), s.rolesFrom(env)}
	if s.WorkLocation == "" {
		faults = append(faults, fmt.Errorf("set %s, or work-location in firn.yaml", contract.EnvWorkLocation))
	}
	if s.StateLocation == "" {
		faults = append(faults, fmt.Errorf("set %s, or state-location in firn.yaml", contract.EnvStateLocation))
	}
	return s, errors.Join(faults...)
}

// FetchSettings reads the text of a firn.yaml that lies in a store, with the default credentials. stores replaces stores by scheme.
func FetchSettings(ctx context.Context, location string, stores map[string]store.Full) ([]byte, error) {
	st, err := store.New(store.Config{Stores: stores})
	if err != nil {
		return nil, err
	}
	return st.Get(ctx, location)
}

// SharedState reports whether processes on other machines may use the state, too.
func (s Settings) SharedState() bool {
	return strings.HasPrefix(s.StateLocation, contract.StateDynamoDB)
}

// spillRatio is how many bytes of rows a byte of compressed input is taken for.
const spillRatio = 4

// SortGroupBytes is the most input bytes that a worker can sort within the spill limit; 0 is no limit.
func (s Settings) SortGroupBytes() int64 { return s.SpillLimitBytes / spillRatio }

// SpillFrom lets the environment override where and how much sorts may spill.
func (s *Settings) SpillFrom(env map[string]string) error {
	if v := env[contract.EnvSpillDir]; v != "" {
		s.SpillDir = v
	}
	if v := env[contract.EnvSpillLimitBytes]; v != "" {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("read %s=%s: want a number of bytes", contract.EnvSpillLimitBytes, v)
		}
		s.SpillLimitBytes = n
	}
	return nil
}

// rolesFrom reads which roles the function takes.
func (s *Settings) rolesFrom(env map[string]string) error {
	for pair := range strings.SplitSeq(env[contract.EnvBucketRoles], ",") {
		bucket, role, _ := strings.Cut(pair, "=")
		switch {
		case pair == "":
			continue
		case bucket == "" || !strings.HasPrefix(role, "arn:"):
			return fmt.Errorf("read %s: %q is not bucket=ARN", contract.EnvBucketRoles, pair)
		case s.BucketRoles == nil:
			s.BucketRoles = map[string]string{}
		}
		s.BucketRoles[bucket] = role
	}
	return nil
}

// Environment turns KEY=VALUE pairs into a map.
func Environment(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, pair := range environ {
		if key, value, found := strings.Cut(pair, "="); found {
			env[key] = value
		}
	}
	return env
}

// CatalogConfig merges the settings' catalogs with PyIceberg's file and variables and the command line's flags.
func (s Settings) CatalogConfig(home, dir string, environ, flags []string) (*catalogs.Config, error) {
	return catalogs.LoadConfig(catalogs.Sources{
		HomeDir: home, WorkDir: dir, Environ: environ, Configured: s.Catalogs, Flags: flags, DefaultCatalog: s.Catalog,
	})
}
