package avro

import (
	"encoding/json"
	"fmt"
)

const (
	// maxSchemaBytes bounds a schema's text: a manifest's has about 4 KB, one with a thousand partition fields 100 KB.
	maxSchemaBytes = 4 << 20
	// maxDepth bounds how deep types nest.
	maxDepth = 32
)

// ParseSchema reads a schema from its JSON.
func ParseSchema(text []byte) (*Type, error) {
	if len(text) > maxSchemaBytes {
		return nil, fmt.Errorf("parse schema: it has %d bytes: %w", len(text), ErrUnsupported)
	}
	var root any
	if err := json.Unmarshal(text, &root); err != nil {
		return nil, fmt.Errorf("parse schema: %w: %w", ErrCorrupt, err)
	}
	p := &parser{named: map[string]*Type{}}
	t, err := p.parse(root, "", 0)
	if err != nil {
		return nil, fmt.Errorf("parse schema: %w", err)
	}
	return t, nil
}

// parser knows the named types met so far; one that is still being read is nil.
type parser struct{ named map[string]*Type }

func (p *parser) parse(node any, space string, depth int) (*Type, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("types nest deeper than %d: %w", maxDepth, ErrUnsupported)
	}
	switch n := node.(type) {
	case string:
		return p.name(n, space)
	case []any:
		return p.union(n, space, depth)
	case map[string]any:
		return p.object(n, space, depth)
	}
	return nil, fmt.Errorf("%v is no type: %w", node, ErrCorrupt)
}

// name resolves the name of a primitive or of a type that was defined before.
func (p *parser) name(name, space string) (*Type, error) {
	if k, ok := primitive(name); ok {
		t := &Type{Kind: k}
		t.finish()
		return t, nil
	}
	for _, full := range []string{space + "." + name, name} {
		t, known := p.named[full]
		if !known {
			continue
		}
		if t == nil {
			return nil, fmt.Errorf("type %s holds itself: %w", name, ErrUnsupported)
		}
		return t, nil
	}
	return nil, fmt.Errorf("type %q is not defined: %w", name, ErrCorrupt)
}

func primitive(name string) (Kind, bool) {
	for k := Null; k <= String; k++ {
		if k.String() == name {
			return k, true
		}
	}
	return 0, false
}

func (p *parser) union(branches []any, space string, depth int) (*Type, error) {
	t := &Type{Kind: Union}
	for _, b := range branches {
		branch, err := p.parse(b, space, depth+1)
		if err != nil {
			return nil, err
		}
		if branch.Kind == Union {
			return nil, fmt.Errorf("a union in a union: %w", ErrCorrupt)
		}
		t.Branches = append(t.Branches, branch)
	}
	if len(t.Branches) == 0 {
		return nil, fmt.Errorf("an empty union: %w", ErrCorrupt)
	}
	return t, nil
}

func (p *parser) object(n map[string]any, space string, depth int) (*Type, error) {
	kind, named := n["type"].(string)
	if !named {
		return p.parse(n["type"], space, depth+1) // {"type": {…}} is the inner type
	}
	var t *Type
	var err error
	switch kind {
	case "record", "error", "fixed", "enum":
		return p.define(n, kind, space, depth)
	case "array":
		t = &Type{Kind: Array}
		t.Items, err = p.parse(n["items"], space, depth+1)
	case "map":
		t = &Type{Kind: Map}
		t.Items, err = p.parse(n["values"], space, depth+1)
	default:
		t, err = p.name(kind, space)
	}
	if err != nil {
		return nil, err
	}
	if logical, ok := n["logicalType"].(string); ok {
		t.Logical, t.Scale = logical, number(n["scale"], 0)
	}
	return t, nil
}

// define reads a type with a name.
func (p *parser) define(n map[string]any, kind, space string, depth int) (*Type, error) {
	name, _ := n["name"].(string)
	if own, ok := n["namespace"].(string); ok {
		space = own
	}
	full := space + "." + name
	if _, twice := p.named[full]; twice && name != "" {
		return nil, fmt.Errorf("type %s is defined twice: %w", name, ErrCorrupt)
	}
	p.named[full] = nil
	t := &Type{Name: name, Scale: number(n["scale"], 0)}
	t.Logical, _ = n["logicalType"].(string)
	switch kind {
	case "enum":
		t.Kind = Enum
	case "fixed":
		t.Kind, t.Size = Fixed, number(n["size"], -1)
		if t.Size < 0 {
			return nil, fmt.Errorf("fixed %s of size %v: %w", name, n["size"], ErrCorrupt)
		}
	default:
		t.Kind = Record
		if err := p.fields(t, n, space, depth); err != nil {
			return nil, err
		}
	}
	t.finish()
	p.named[full] = t
	if _, known := p.named["."+name]; !known {
		p.named["."+name] = t
	}
	return t, nil
}

func (p *parser) fields(t *Type, n map[string]any, space string, depth int) error {
	fields, ok := n["fields"].([]any)
	if !ok {
		return fmt.Errorf("record %v has no fields: %w", n["name"], ErrCorrupt)
	}
	for _, raw := range fields {
		f, ok := raw.(map[string]any)
		if !ok {
			return fmt.Errorf("%v is no field: %w", raw, ErrCorrupt)
		}
		name, _ := f["name"].(string)
		inner, err := p.parse(f["type"], space, depth+1)
		if err != nil {
			return fmt.Errorf("field %s: %w", name, err)
		}
		t.Fields = append(t.Fields, Field{Name: name, ID: number(f["field-id"], NoID), Type: inner})
	}
	return nil
}

// number reads a small whole number of the schema.
func number(node any, otherwise int) int {
	f, ok := node.(float64)
	if !ok || f < 0 || f > 1<<31-1 || f != float64(int(f)) {
		return otherwise
	}
	return int(f)
}
