// Package maintenance holds the nouns of table maintenance as plain, comparable data: table ID, job, run ID, file stats, file group, plan,
// group result, outcome, and the payloads that travel between the states of the state machine. It decides nothing and reaches nothing.
package maintenance

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// levelSeparator joins the levels of a namespace inside one comparable string, as the Iceberg REST protocol does (U+001F).
const levelSeparator = "\x1f"

// Namespace is the path of a namespace, its levels joined by U+001F so that the value stays comparable and a level may contain dots.
type Namespace string

// NewNamespace joins levels.
func NewNamespace(levels ...string) Namespace { return Namespace(strings.Join(levels, levelSeparator)) }

// Levels splits the namespace; an empty namespace has none.
func (n Namespace) Levels() []string {
	if n == "" {
		return nil
	}
	return strings.Split(string(n), levelSeparator)
}

// String prints the levels with dots between them.
func (n Namespace) String() string { return strings.Join(n.Levels(), ".") }

// MarshalJSON writes the levels as an array.
func (n Namespace) MarshalJSON() ([]byte, error) {
	levels := n.Levels()
	if levels == nil {
		levels = []string{}
	}
	return json.Marshal(levels)
}

// UnmarshalJSON reads an array of levels.
func (n *Namespace) UnmarshalJSON(data []byte) error {
	var levels []string
	if err := json.Unmarshal(data, &levels); err != nil {
		return fmt.Errorf("decode namespace levels: %w", err)
	}
	*n = NewNamespace(levels...)
	return nil
}

// TableID names a table inside a configured catalog. Its identity over time is the table UUID in its metadata, not this name.
type TableID struct {
	// Catalog is the configured catalog's name, "" for the default one.
	Catalog string `json:"catalog"`
	// Namespace is the table's namespace.
	Namespace Namespace `json:"namespace"`
	// Name is the table's name inside the namespace.
	Name string `json:"name"`
}

// ParseTableID reads "ns.t" or "a.b.t" (the last dot parts the table's name); levels that hold dots are given in back quotes, as in Spark.
func ParseTableID(catalog, text string) (TableID, error) {
	levels, err := splitIdentifier(text)
	if err != nil {
		return TableID{}, fmt.Errorf("parse table name %q: %w", text, err)
	}
	if len(levels) < 2 {
		return TableID{}, fmt.Errorf("parse table name %q: want namespace.table", text)
	}
	last := len(levels) - 1
	return TableID{Catalog: catalog, Namespace: NewNamespace(levels[:last]...), Name: levels[last]}, nil
}

// splitIdentifier splits a dotted identifier whose parts may be in back quotes (a doubled back quote stands for one).
func splitIdentifier(text string) ([]string, error) {
	var parts []string
	var part strings.Builder
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '`' && quoted && i+1 < len(text) && text[i+1] == '`':
			part.WriteByte(c)
			i++
		case c == '`':
			quoted = !quoted
		case c == '.' && !quoted:
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteByte(c)
		}
	}
	if quoted {
		return nil, errors.New("close the back quote")
	}
	parts = append(parts, part.String())
	if slices.Contains(parts, "") {
		return nil, errors.New("remove the empty part")
	}
	return parts, nil
}

// String prints namespace and name with dots; the catalog is left out when it is the default one.
func (t TableID) String() string {
	name := t.Name
	if ns := t.Namespace.String(); ns != "" {
		name = ns + "." + name
	}
	if t.Catalog != "" {
		name = t.Catalog + "." + name
	}
	return name
}

// Validate reports what is missing.
func (t TableID) Validate() error {
	if t.Name == "" {
		return errors.New("table ID without name")
	}
	if t.Namespace == "" {
		return fmt.Errorf("table ID %q without namespace", t.Name)
	}
	return nil
}
