package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"firn/internal/maintenance"
)

// Document is the part "policy" of firn.yaml: values for the whole deployment, and for catalogs, namespaces and tables by name.
type Document struct {
	deployment layer
	catalogs   map[string]layer
	namespaces map[string]layer
	tables     []tableLayer
}

// layer is what one part of the document sets: normal forms by key, and a preset.
type layer struct {
	values map[string]string
	preset string
	// from says whose settings were imported into the layer.
	from string
}

type tableLayer struct {
	match string
	layer
}

// The presets.
const (
	PresetSpark = "spark"
	PresetGlue  = "glue"
)

// Parts of the document that are no keys.
const (
	partPreset     = "preset"
	partCatalogs   = "catalogs"
	partNamespaces = "namespaces"
	partTables     = "tables"
	partMatch      = "match"
	// PartFrom says in a layer whose settings it was imported from (package foreign); explanations show it.
	PartFrom = "imported-from"
)

// ParseYAML reads the text of the part "policy".
func ParseYAML(text []byte) (Document, error) {
	var root map[string]any
	if err := yaml.Unmarshal(text, &root); err != nil {
		return Document{}, faultf("read policy: %v", err)
	}
	return Parse(root)
}

// Parse reads the part "policy" of firn.yaml as generic maps, lists and plain values. All faults are reported at once.
func Parse(root map[string]any) (Document, error) {
	p := &documentParser{}
	rest := maps.Clone(root)
	doc := Document{catalogs: p.named(rest, partCatalogs), namespaces: p.named(rest, partNamespaces), tables: p.tables(rest)}
	doc.deployment = p.layer("policy", rest, partCatalogs, partNamespaces, partTables)
	return doc, errors.Join(p.errs...)
}

type documentParser struct {
	errs []error
}

func (p *documentParser) fault(format string, args ...any) {
	p.errs = append(p.errs, faultf(format, args...))
}

// named reads a map of layers by name, and takes it out of rest.
func (p *documentParser) named(rest map[string]any, part string) map[string]layer {
	value, ok := rest[part]
	delete(rest, part)
	if !ok {
		return nil
	}
	byName, ok := value.(map[string]any)
	if !ok {
		p.fault("read policy.%s: want a map by name", part)
		return nil
	}
	layers := map[string]layer{}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		at := "policy." + part + "." + name
		values, ok := byName[name].(map[string]any)
		if !ok {
			p.fault("read %s: want keys and values", at)
			continue
		}
		layers[name] = p.layer(at, values)
	}
	return layers
}

// tables reads the list of table layers; later ones override earlier ones.
func (p *documentParser) tables(rest map[string]any) []tableLayer {
	value, ok := rest[partTables]
	delete(rest, partTables)
	if !ok {
		return nil
	}
	list, ok := value.([]any)
	if !ok {
		p.fault("read policy.%s: want a list whose items have %s", partTables, partMatch)
		return nil
	}
	var layers []tableLayer
	for i, item := range list {
		at := fmt.Sprintf("policy.%s[%d]", partTables, i)
		values, ok := item.(map[string]any)
		match, isText := "", false
		if ok {
			match, isText = values[partMatch].(string)
		}
		if !isText || match == "" {
			p.fault("read %s: it has no %s", at, partMatch)
			continue
		}
		values = maps.Clone(values)
		delete(values, partMatch)
		layers = append(layers, tableLayer{match: match, layer: p.layer(at, values)})
	}
	return layers
}

// layer reads keys and values; nested maps join their names with dots. parts are further names that are allowed beside keys, for suggestions.
func (p *documentParser) layer(at string, values map[string]any, parts ...string) layer {
	l := layer{values: map[string]string{}}
	keys := byName()
	known := append(slices.Sorted(maps.Keys(keys)), append(parts, partPreset, PartFrom)...)
	var walk func(prefix string, values map[string]any)
	walk = func(prefix string, values map[string]any) {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			full, value := prefix+name, values[name]
			nested, isMap := value.(map[string]any)
			k, ok := keys[full]
			switch {
			case full == partPreset:
				l.preset = p.preset(at, value)
			case full == PartFrom:
				if l.from, ok = value.(string); !ok {
					p.fault("read %s.%s: want a text", at, PartFrom)
				}
			case ok && (!isMap || k.Kind == KindPairs):
				text, err := k.normal(value)
				if err != nil {
					p.fault("read %s.%s: %v", at, full, err)
				}
				l.values[full] = text
			case isMap && hasPrefix(known, full+"."):
				walk(full+".", nested)
			default:
				p.fault("read %s.%s: unknown key%s", at, full, maintenance.Suggestion(full, known))
			}
		}
	}
	walk("", values)
	return l
}

func (p *documentParser) preset(at string, value any) string {
	name, _ := value.(string)
	if name != PresetSpark && name != PresetGlue {
		p.fault("read %s.%s: %v is none of %s, %s", at, partPreset, value, PresetSpark, PresetGlue)
	}
	return name
}

func hasPrefix(names []string, prefix string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, prefix) })
}

// KeyNames lists the names of all keys.
func KeyNames() []string { return slices.Sorted(maps.Keys(byName())) }

func byName() map[string]Key {
	keys := map[string]Key{}
	for _, k := range Keys() {
		keys[k.Name] = k
	}
	return keys
}
