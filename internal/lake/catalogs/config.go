package catalogs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// Catalog properties that decide which client is made; each client names its own beside its code.
const (
	// PropType is the kind of catalog.
	PropType = "type"
	// PropImpl is Java's way to name the kind: the class.
	PropImpl = "catalog-impl"
	// PropURI names the service or database of a catalog.
	PropURI = "uri"
	// PropWarehouse names the warehouse inside a REST service, or the root of new tables elsewhere.
	PropWarehouse = "warehouse"
)

// DefaultName is the catalog that is meant when none is named and no source names one: PyIceberg's word.
const DefaultName = "default"

const (
	// pyicebergFile is PyIceberg's configuration file; looked for in PYICEBERG_HOME, the home folder and the working folder, in this order.
	pyicebergFile = ".pyiceberg.yaml"
	envPrefix     = "pyiceberg_"
	envCatalog    = "catalog__"
)

// Sources are the places where catalog properties stand. A later one wins, key by key: PyIceberg's file, the PYICEBERG_CATALOG__NAME__KEY
// variables, firn.yaml, the command line.
type Sources struct {
	// HomeDir and WorkDir are the folders where PyIceberg's file may lie; "" is not looked at.
	HomeDir, WorkDir string
	// Environ is the process environment, KEY=VALUE each.
	Environ []string
	// Configured are firn.yaml's catalogs: name to properties.
	Configured map[string]map[string]string
	// Flags are the command line's KEY=VALUE pairs; they are for whichever catalog is asked for.
	Flags []string
	// DefaultCatalog is the name that firn.yaml or the command line gave, if any.
	DefaultCatalog string
}

// Config is the properties of all catalogs, merged. Names are compared without case, and '_' and '-' are the same: environment variables know
// neither small letters nor '-'.
type Config struct {
	defaultName string
	properties  map[string]map[string]string
	flags       map[string]string
}

// LoadConfig reads and merges the sources. A malformed file or flag is an error that names it.
func LoadConfig(s Sources) (*Config, error) {
	c := &Config{defaultName: DefaultName, properties: map[string]map[string]string{}, flags: map[string]string{}}
	environ := map[string]string{}
	for _, pair := range s.Environ {
		if key, value, ok := strings.Cut(pair, "="); ok {
			environ[strings.ToLower(key)] = value
		}
	}
	for _, dir := range []string{environ["pyiceberg_home"], s.HomeDir, s.WorkDir} {
		found, err := c.addFile(dir)
		if err != nil {
			return nil, err
		}
		if found {
			break
		}
	}
	for key, value := range environ {
		c.addVariable(key, value)
	}
	for name, props := range s.Configured {
		c.add(name, props)
	}
	for _, pair := range s.Flags {
		key, value, ok := strings.Cut(pair, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return nil, fmt.Errorf("read catalog property %q: want KEY=VALUE", pair)
		}
		c.flags[key] = value
	}
	if s.DefaultCatalog != "" {
		c.defaultName = s.DefaultCatalog
	}
	return c, nil
}

// Default is the name of the catalog that is meant when none is named.
func (c *Config) Default() string { return c.defaultName }

// Properties returns a catalog's properties; name "" means the default one. A catalog that no source describes is an error.
func (c *Config) Properties(name string) (map[string]string, error) {
	if name == "" {
		name = c.defaultName
	}
	props := maps.Clone(c.properties[nameKey(name)])
	if props == nil {
		props = map[string]string{}
	}
	maps.Copy(props, c.flags)
	if len(props) == 0 {
		return nil, fmt.Errorf("find catalog %q: no properties in firn.yaml, %s or PYICEBERG_CATALOG__%s__… (configured: %s)", name, pyicebergFile,
			strings.ToUpper(strings.ReplaceAll(name, "-", "_")), strings.Join(sortedKeys(c.properties), ", "))
	}
	return props, nil
}

// nameKey is how names of catalogs are compared.
func nameKey(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

func (c *Config) add(name string, props map[string]string) {
	key := nameKey(name)
	if c.properties[key] == nil {
		c.properties[key] = map[string]string{}
	}
	maps.Copy(c.properties[key], props)
}

// addVariable reads PYICEBERG_CATALOG__NAME__KEY: two underscores in KEY stand for a dot, one for a dash.
func (c *Config) addVariable(key, value string) {
	rest, ok := strings.CutPrefix(key, envPrefix)
	if !ok {
		return
	}
	if rest == "default_catalog" && value != "" {
		c.defaultName = value
		return
	}
	rest, ok = strings.CutPrefix(rest, envCatalog)
	if !ok {
		return
	}
	if name, prop, ok := strings.Cut(rest, "__"); ok && name != "" && prop != "" {
		c.add(name, map[string]string{strings.ReplaceAll(strings.ReplaceAll(prop, "__", "."), "_", "-"): value})
	}
}

// addFile reads PyIceberg's file in a folder and says whether there was one.
func (c *Config) addFile(dir string) (bool, error) {
	if dir == "" {
		return false, nil
	}
	path := filepath.Join(dir, pyicebergFile)
	data, err := os.ReadFile(path) // the operator's own folder
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read catalog configuration: %w", err)
	}
	var document map[string]any
	if err := yaml.Unmarshal(data, &document); err != nil {
		return false, fmt.Errorf("read catalog configuration %s: %w", path, err)
	}
	for key, value := range document {
		switch strings.ToLower(key) {
		case "default-catalog":
			if name, ok := value.(string); ok && name != "" {
				c.defaultName = name
			}
		case "catalog":
			entries, ok := value.(map[string]any)
			if !ok && value != nil {
				return false, fmt.Errorf("read catalog configuration %s: want a map of catalogs under %q", path, key)
			}
			for name, entry := range entries {
				props, err := flatten(entry)
				if err != nil {
					return false, fmt.Errorf("read catalog configuration %s: catalog %q: %w", path, name, err)
				}
				c.add(name, props)
			}
		}
	}
	return len(document) > 0, nil
}

// flatten turns one catalog's YAML map into properties: keys in lower case as PyIceberg reads them, scalars as text.
func flatten(entry any) (map[string]string, error) {
	fields, ok := entry.(map[string]any)
	if !ok && entry != nil {
		return nil, errors.New("want a map of properties")
	}
	props := make(map[string]string, len(fields))
	for key, value := range fields {
		switch v := value.(type) {
		case string:
			props[strings.ToLower(key)] = v
		case nil:
		case bool:
			props[strings.ToLower(key)] = strconv.FormatBool(v)
		case map[string]any, []any:
			return nil, fmt.Errorf("property %q is no text", key)
		default:
			props[strings.ToLower(key)] = fmt.Sprint(v)
		}
	}
	return props, nil
}
