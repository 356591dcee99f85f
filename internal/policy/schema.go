package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// SchemaJSON is the JSON Schema of firn.yaml, published as events/schemas/firn.schema.json. It is made of Keys, so that the two cannot differ.
func SchemaJSON() ([]byte, error) {
	layer := map[string]any{partPreset: map[string]any{"enum": []string{PresetSpark, PresetGlue}, "description": "defaults to start from"}}
	layer[PartFrom] = map[string]any{"type": "string", "description": "whose settings these are, for explanations: firn policy import writes it"}
	for _, k := range Keys() {
		addKey(layer, strings.Split(k.Name, "."), k)
	}
	texts := map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}}
	item := object(layer)
	item["properties"].(map[string]any)[partMatch] = map[string]any{
		"type": "string", "description": "pattern of [catalog.]namespace.table; * stands for text without a dot, ** for any text",
	}
	item["required"] = []string{partMatch}
	root := object(layer)
	properties := root["properties"].(map[string]any)
	ref := map[string]any{"$ref": "#/$defs/layer"}
	properties[partCatalogs] = map[string]any{"type": "object", "additionalProperties": ref}
	properties[partNamespaces] = map[string]any{"type": "object", "additionalProperties": ref}
	properties[partTables] = map[string]any{"type": "array", "items": item, "description": "later items override earlier ones"}
	schema := map[string]any{
		"$schema":              "https://json-schema.org/draft/2020-12/schema",
		"title":                "firn.yaml",
		"type":                 "object",
		"additionalProperties": false,
		"properties": map[string]any{
			"catalog":       map[string]any{"type": "string", "description": "name of the default catalog"},
			"catalogs":      map[string]any{"type": "object", "additionalProperties": texts, "description": "properties by catalog, as PyIceberg and Java spell them"},
			"work-location": map[string]any{"type": "string", "description": "where plans, results and fates are written"},
			"spill-dir":     map[string]any{"type": "string", "description": "folder for what sorts spill"},
			"spill-limit-bytes": map[string]any{
				"type": "integer", "minimum": 0, "description": "the most that the sort of one group may spill; 0 is what the disk holds",
			},
			"state-location": map[string]any{"type": "string", "description": "where ledger, lease and history live"},
			"tables": map[string]any{
				"type": "array", "items": map[string]any{"type": "string"},
				"description": "patterns of the tables that Firn may work on, as in policy.tables; all when empty",
			},
			"warehouses": map[string]any{
				"type": "array", "items": map[string]any{"type": "string"},
				"description": "locations under which Firn may read, write and delete; all when empty",
			},
			"max-concurrent-runs": map[string]any{
				"type": "integer", "minimum": 0, "description": "the most automatic runs at once over all tables; 0 is no bound",
			},
			"max-concurrent-runs-per-namespace": map[string]any{
				"type": "integer", "minimum": 0, "description": "the most automatic runs at once in one namespace; 0 is no bound",
			},
			"policy": root,
		},
		"$defs": map[string]any{"layer": object(layer)},
	}
	data, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the schema of firn.yaml: %w", err)
	}
	return append(data, '\n'), nil
}

// object copies the properties, so that callers may add to them.
func object(properties map[string]any) map[string]any {
	copied := map[string]any{}
	maps.Copy(copied, properties)
	return map[string]any{"type": "object", "additionalProperties": false, "properties": copied}
}

// addKey adds a key in both spellings: nested, and with dots from each level on ("trigger.age" inside of its job).
func addKey(properties map[string]any, levels []string, k Key) {
	properties[strings.Join(levels, ".")] = k.schema()
	if len(levels) == 1 {
		return
	}
	nested, ok := properties[levels[0]].(map[string]any)
	if !ok {
		nested = object(nil)
		properties[levels[0]] = nested
	}
	addKey(nested["properties"].(map[string]any), levels[1:], k)
}

func (k Key) schema() map[string]any {
	s := map[string]any{"description": k.Note}
	if k.Default != "" {
		s["default"] = k.Default
	}
	switch k.Kind {
	case KindFlag:
		s["type"] = []string{"boolean", "string"}
	case KindWhole:
		s["type"] = []string{"integer", "string"}
		s["minimum"] = k.Low
	case KindRatio:
		s["type"] = []string{"number", "string"}
		s["minimum"], s["maximum"] = k.Low, k.High
	case KindAmount:
		s["type"] = []string{"number", "string"}
		s["minimum"] = k.Low
	case KindWindows:
		s["type"] = []string{"array", "string"}
		s["items"] = map[string]any{"type": "string"}
	case KindBytes:
		s["type"] = []string{"integer", "string"}
		s["pattern"] = "^[0-9]+ *([KMGT]iB)?$"
	case KindAge:
		s["type"] = "string"
		s["pattern"] = "^([0-9]+(ms|s|m|h|d|w))+$"
	case KindList:
		s["type"] = []string{"array", "string"}
		s["items"] = map[string]any{"type": "string"}
	case KindPairs:
		s["type"] = []string{"object", "string"}
		s["additionalProperties"] = map[string]any{"type": "string"}
	default:
		s["type"] = "string"
		if len(k.Values) > 0 {
			s["enum"] = k.Values
		}
	}
	return s
}
