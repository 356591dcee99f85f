package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"firn/internal/maintenance"
)

// Sources of values; catalogs, namespaces, tables and properties add their name.
const (
	sourceBuiltIn     = "built-in"
	sourceDeployment  = "deployment"
	sourceProperty    = "table property "
	sourceCommandLine = "command line"
)

// propertyPrefix starts the names of Firn's table properties.
const propertyPrefix = "firn."

// Effective lays the layers over each other for one table: built-in defaults and preset, deployment, catalog, namespace (outer levels first), table
// patterns (in their order), Iceberg's table properties, Firn's table properties, command line (keys as in firn.yaml). All faults are reported.
func (d Document) Effective(table maintenance.TableID, properties, commandLine map[string]string) (Policy, error) {
	p := Policy{settings: map[string]Setting{}}
	layers := d.layersOf(table)
	for _, k := range Keys() {
		p.settings[k.Name] = Setting{Key: k, Value: k.Default, Source: sourceBuiltIn}
	}
	for _, l := range layers {
		if l.preset != "" {
			p.applyPreset(l)
		}
		for _, name := range slices.Sorted(maps.Keys(l.values)) {
			p.set(name, l.values[name], l.described())
		}
	}
	errs := p.icebergProperties(properties)
	errs = append(errs, p.firnProperties(properties)...)
	errs = append(errs, p.commandLine(commandLine)...)
	return p, errors.Join(errs...)
}

// sourcedLayer is a layer with the name that explanations give it.
type sourcedLayer struct {
	layer
	source string
}

// described is the source, and whose settings the layer was imported from.
func (l sourcedLayer) described() string {
	if l.from == "" {
		return l.source
	}
	return l.source + ", from " + l.from
}

// layersOf returns the document's layers that apply to a table, weakest first.
func (d Document) layersOf(table maintenance.TableID) []sourcedLayer {
	layers := []sourcedLayer{{d.deployment, sourceDeployment}}
	if l, ok := d.catalogs[table.Catalog]; ok {
		layers = append(layers, sourcedLayer{l, "catalog " + table.Catalog})
	}
	levels := table.Namespace.Levels()
	for i := range levels {
		name := strings.Join(levels[:i+1], ".")
		if l, ok := d.namespaces[name]; ok {
			layers = append(layers, sourcedLayer{l, "namespace " + name})
		}
	}
	short := maintenance.TableID{Namespace: table.Namespace, Name: table.Name}.String()
	for _, t := range d.tables {
		if Match(t.match, short) || table.Catalog != "" && Match(t.match, table.String()) {
			layers = append(layers, sourcedLayer{t.layer, "tables " + t.match})
		}
	}
	return layers
}

// Match matches a dotted name with a pattern: * stands for any text without a dot, ** for any text. It takes time in proportion to the product of their lengths,
// whatever stars there are: names come from events, and patterns from whoever may write a policy.
func Match(pattern, name string) bool {
	parts := cutPattern(pattern)
	// reached[i] says that the text so far is matched by the parts before i.
	reached, next := make([]bool, len(parts)+1), make([]bool, len(parts)+1)
	reached[0] = true
	skipStars(parts, reached)
	for i := range len(name) {
		clear(next)
		for at, part := range parts {
			switch {
			case !reached[at]:
			case part == "**" || part == "*" && name[i] != '.':
				next[at] = true
			case part == name[i:i+1]:
				next[at+1] = true
			}
		}
		skipStars(parts, next)
		reached, next = next, reached
	}
	return reached[len(parts)]
}

// skipStars lets stars stand for nothing.
func skipStars(parts []string, reached []bool) {
	for at, part := range parts {
		if reached[at] && part[0] == '*' {
			reached[at+1] = true
		}
	}
}

// cutPattern cuts a pattern into stars, double stars, and bytes that stand for themselves.
func cutPattern(pattern string) (parts []string) {
	for pattern != "" {
		n := 1
		if strings.HasPrefix(pattern, "**") {
			n = 2
		}
		parts, pattern = append(parts, pattern[:n]), pattern[n:]
	}
	return parts
}

func (p Policy) set(name, value, source string) {
	s := p.settings[name]
	s.Overrode = append([]Overridden{{s.Value, s.Source}}, s.Overrode...)
	s.Value, s.Source = value, source
	p.settings[name] = s
}

// applyPreset changes the defaults. A preset spark takes an outer preset glue back.
func (p Policy) applyPreset(l sourcedLayer) {
	source := "preset " + l.preset + " (" + l.source + ")"
	for _, k := range Keys() {
		switch {
		case k.Glue == "":
		case l.preset == PresetGlue:
			p.set(k.Name, k.Glue, source)
		case p.settings[k.Name].Source != sourceBuiltIn:
			p.set(k.Name, k.Default, source)
		}
	}
}

// icebergProperties takes what Iceberg's own table properties say.
func (p Policy) icebergProperties(properties map[string]string) []error {
	var errs []error
	for _, k := range Keys() {
		value, ok := properties[k.Property]
		if k.Property == "" || !ok {
			continue
		}
		text, err := k.fromProperty(value)
		if err != nil {
			errs = append(errs, faultf("read table property %s: %v", k.Property, err))
			continue
		}
		p.set(k.Name, text, sourceProperty+k.Property)
	}
	return errs
}

// fromProperty reads an Iceberg property: ages are in milliseconds there, and a least number of zero is legal.
func (k Key) fromProperty(value string) (string, error) {
	if k.PropertyUnit == "ms" {
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil || n < 0 {
			return "", fmt.Errorf("%q is no number of milliseconds", value)
		}
		const longest = int64(200 * 365 * 24 * time.Hour / time.Millisecond)
		return FormatAge(time.Duration(min(n, longest)) * time.Millisecond), nil
	}
	k.Low = 0
	return k.normal(value)
}

// firnProperties takes firn.<key>; other tools' properties are not looked at.
func (p Policy) firnProperties(properties map[string]string) []error {
	known := slices.Sorted(maps.Keys(p.settings))
	var errs []error
	for _, property := range slices.Sorted(maps.Keys(properties)) {
		name, ours := strings.CutPrefix(property, propertyPrefix)
		if !ours {
			continue
		}
		s, ok := p.settings[name]
		if !ok {
			errs = append(errs, faultf("read table property %s: unknown key%s", property, suggestProperty(name, known)))
			continue
		}
		text, err := s.Key.normal(properties[property])
		if err != nil {
			errs = append(errs, faultf("read table property %s: %v", property, err))
			continue
		}
		p.set(name, text, sourceProperty+property)
	}
	return errs
}

func suggestProperty(name string, known []string) string {
	if n := maintenance.NearestName(name, known); n != "" {
		return "; did you mean " + propertyPrefix + n + "?"
	}
	return ""
}

func (p Policy) commandLine(values map[string]string) []error {
	known := slices.Sorted(maps.Keys(p.settings))
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		s, ok := p.settings[name]
		if !ok {
			errs = append(errs, faultf("read key %s: unknown key%s", name, maintenance.Suggestion(name, known)))
			continue
		}
		text, err := s.Key.normal(values[name])
		if err != nil {
			errs = append(errs, faultf("read key %s: %v", name, err))
			continue
		}
		p.set(name, text, sourceCommandLine)
	}
	return errs
}

// CheckProperties checks values of firn.* among properties that are about to be set on a table.
func CheckProperties(properties map[string]string) error {
	_, err := Document{}.Effective(maintenance.TableID{}, properties, nil)
	return err
}
