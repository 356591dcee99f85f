package stack

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"firn/infra/settings"
)

// WriteConfig writes the firn.yaml of the functions: what the settings say, and the policy and further catalogs of the operator's own firn.yaml if the
// settings name one. It is checked against the schema in the checkout of Firn before anything is synthesised.
func WriteConfig(s settings.Settings, root, path string) error {
	document, err := config(s, root)
	if err != nil {
		return err
	}
	data, err := yaml.Marshal(document)
	if err != nil {
		return fmt.Errorf("encode firn.yaml: %w", err)
	}
	if err := check(data, filepath.Join(root, "events", "schemas", "firn.schema.json")); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // holds no secret
		return fmt.Errorf("make folder of firn.yaml: %w", err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil { //nolint:gosec // holds no secret
		return fmt.Errorf("write firn.yaml: %w", err)
	}
	return nil
}

func config(s settings.Settings, root string) (map[string]any, error) {
	document := map[string]any{}
	if s.Config != "" {
		path := s.Config
		if !filepath.IsAbs(path) {
			path = filepath.Join(root, path)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("config=%s: %w", s.Config, err)
		}
		if err := yaml.Unmarshal(data, &document); err != nil {
			return nil, fmt.Errorf("config=%s: %w", s.Config, err)
		}
	}
	var faults []error
	for key, setting := range map[string]string{
		"catalog": "catalog", "tables": "tables", "warehouses": "warehouse", "work-location": "", "state-location": "", "spill-dir": "", "spill-limit-bytes": "",
	} {
		if _, found := document[key]; found && setting == "" {
			faults = append(faults, fmt.Errorf("config=%s: %s is the deployment's own", s.Config, key))
		} else if found {
			faults = append(faults, fmt.Errorf("config=%s: %s is the setting %s", s.Config, key, setting))
		}
	}
	properties := map[string]string{"type": kind(s.Catalog.Kind)}
	maps.Copy(properties, s.Catalog.Properties)
	if s.Catalog.Secret != "" {
		properties["secret"] = s.Catalog.Secret
	}
	if s.Catalog.Kind == settings.CatalogS3Tables {
		properties["rest.sigv4-enabled"], properties["rest.signing-name"] = "true", "s3tables"
	}
	catalogs, _ := document["catalogs"].(map[string]any)
	if catalogs == nil {
		catalogs = map[string]any{}
	}
	for name, other := range catalogs {
		faults = append(faults, secrets(s, name, other))
	}
	if _, found := catalogs[s.Catalog.Name]; found {
		faults = append(faults, fmt.Errorf("config=%s: catalog %s is described by settings", s.Config, s.Catalog.Name))
	}
	catalogs[s.Catalog.Name] = properties
	policy, _ := document["policy"].(map[string]any)
	if policy == nil {
		policy = map[string]any{}
	}
	if _, found := policy["mode"]; found {
		faults = append(faults, fmt.Errorf("config=%s: policy.mode is the setting mode", s.Config))
	}
	policy["mode"] = s.PolicyMode()
	warehouses := make([]string, len(s.Warehouses))
	for i, w := range s.Warehouses {
		warehouses[i] = w.String()
	}
	document["catalog"], document["catalogs"], document["policy"] = s.Catalog.Name, catalogs, policy
	document["tables"], document["warehouses"] = s.Tables, warehouses
	return document, errors.Join(faults...)
}

// kind is the type of catalog that the functions know: a table bucket speaks REST.
func kind(of string) string {
	if of == settings.CatalogS3Tables {
		return settings.CatalogREST
	}
	return of
}

// secrets faults properties of a catalog that would put a secret into an asset, and a secret that the functions may not read.
func secrets(s settings.Settings, name string, catalog any) error {
	properties, _ := catalog.(map[string]any)
	var faults []error
	for key, value := range properties {
		text := fmt.Sprint(value)
		switch {
		case settings.Secret(key) || key == "uri" && settings.Userinfo(text):
			faults = append(faults, fmt.Errorf("config=%s: catalogs.%s.%s: a secret has no place in an asset: keep it in Secrets Manager, and name its ARN as property secret", s.Config, name, key))
		case key == "secret" && !slices.Contains(s.AllSecrets(), text):
			faults = append(faults, fmt.Errorf("config=%s: catalogs.%s.secret: name %s in the setting secrets, too: the functions may read nothing else", s.Config, name, text))
		}
	}
	return errors.Join(faults...)
}

// check holds a firn.yaml against its schema.
func check(data []byte, schema string) error {
	text, err := yaml.YAMLToJSON(data)
	if err != nil {
		return fmt.Errorf("read firn.yaml: %w", err)
	}
	var document any
	if err := json.Unmarshal(text, &document); err != nil {
		return fmt.Errorf("read firn.yaml: %w", err)
	}
	compiled, err := jsonschema.NewCompiler().Compile(schema)
	if err != nil {
		return fmt.Errorf("read schema of firn.yaml: %w", err)
	}
	if err := compiled.Validate(document); err != nil {
		if fault, is := errors.AsType[*jsonschema.ValidationError](err); is {
			return fmt.Errorf("firn.yaml: %s", strings.Join(leaves(fault), "; "))
		}
		return fmt.Errorf("firn.yaml: %w", err)
	}
	return nil
}

// leaves are the innermost faults, each with its key.
func leaves(fault *jsonschema.ValidationError) []string {
	if len(fault.Causes) == 0 {
		lines := strings.Split(strings.TrimSpace(fault.Error()), "\n")
		last := strings.TrimPrefix(strings.TrimSpace(lines[len(lines)-1]), "- ")
		return []string{strings.Join(fault.InstanceLocation, ".") + ": " + last}
	}
	var all []string
	for _, cause := range fault.Causes {
		all = append(all, leaves(cause)...)
	}
	return all
}
