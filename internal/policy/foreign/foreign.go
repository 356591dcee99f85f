// Package foreign turns the settings of other maintainers of Iceberg tables into a policy of ours: those of Glue's table optimizers, and Polaris'
// maintenance policies of the types system.*. It reads the answers of their APIs as JSON, so it needs no permission and no network. What has no counterpart
// is told, never dropped in silence.
package foreign

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"firn/internal/maintenance"
	"firn/internal/policy"
)

// ErrForeign marks settings that cannot be read.
var ErrForeign = errors.New("settings cannot be imported")

// Layer is an item of policy.tables: what one optimizer or one policy says.
type Layer struct {
	// Match is the pattern of the tables.
	Match string `json:"match"`
	// From says where the values come from; firn explain shows it.
	From string `json:"imported_from"`
	// Values are keys of a policy and their values, as firn.yaml spells them.
	Values map[string]string `json:"values"`
	// Notes say what was not imported, and what is different here.
	Notes []string `json:"notes,omitempty"`
}

func (l *Layer) set(key, value string) { l.Values[key] = value }

func (l *Layer) note(format string, args ...any) {
	l.Notes = append(l.Notes, fmt.Sprintf(format, args...))
}

// Import reads one JSON document, tells whose it is, and returns its layers. match is the pattern of the tables for documents that name none, and takes the
// place of the name in those that do.
func Import(document []byte, match string) ([]Layer, error) {
	var o map[string]json.RawMessage
	if err := json.Unmarshal(document, &o); err != nil {
		return nil, fmt.Errorf("read settings: %w: %w", ErrForeign, err)
	}
	var layers []Layer
	var err error
	switch {
	case o["TableOptimizer"] != nil || o["TableOptimizers"] != nil:
		layers, err = glue(document, match)
	case o["applicable-policies"] != nil || o["policies"] != nil || o["policy"] != nil:
		layers, err = polaris(document, match)
	default:
		err = fmt.Errorf("read settings with members %s: neither an answer of Glue's GetTableOptimizer and BatchGetTableOptimizer nor of Polaris' policies: %w",
			slices.Sorted(maps.Keys(o)), ErrForeign)
	}
	if err != nil {
		return nil, err
	}
	for _, l := range layers {
		if l.Match == "" {
			return nil, fmt.Errorf("import %s: it names no table: give --match with a pattern of tables: %w", l.From, ErrForeign)
		}
		if err := l.check(); err != nil {
			return nil, fmt.Errorf("import %s: %w: %w", l.From, ErrForeign, err)
		}
	}
	return layers, nil
}

// check proves that our own parser takes the layer.
func (l *Layer) check() error {
	_, err := policy.ParseYAML([]byte("tables:\n" + l.YAML("  ")))
	return err
}

// YAML is the layer as an item of policy.tables.
func (l *Layer) YAML(indent string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s- match: %s\n%s  %s: %s\n", indent, strconv.Quote(l.Match), indent, policy.PartFrom, strconv.Quote(l.From))
	for _, key := range slices.Sorted(maps.Keys(l.Values)) {
		fmt.Fprintf(&b, "%s  %s: %s\n", indent, key, strconv.Quote(l.Values[key]))
	}
	for _, note := range l.Notes {
		fmt.Fprintf(&b, "%s  # %s\n", indent, strings.Join(strings.Fields(note), " "))
	}
	return b.String()
}

// Document is the part policy of firn.yaml with these layers.
func Document(layers []Layer) string {
	var b strings.Builder
	b.WriteString("policy:\n  tables:\n")
	for _, l := range layers {
		b.WriteString(l.YAML("    "))
	}
	return b.String()
}

// job says that a job takes part in automatic runs.
func (l *Layer) job(job maintenance.Job, enabled bool) {
	l.set(string(job)+".enabled", strconv.FormatBool(enabled))
}

// strategy imports how rows are ordered.
func (l *Layer) strategy(name string) {
	key := string(maintenance.RewriteDataFiles) + ".strategy"
	switch strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name)) {
	case "binpack":
		l.set(key, "binpack")
	case "sort":
		l.set(key, "sort")
		l.note("strategy sort follows the table's sort order; without one a run is refused")
	case "":
	default:
		l.note("strategy %s was not imported: set rewrite_data_files.sort-order to zorder(...) or hilbert(...) with its columns, and strategy to sort", name)
	}
}

// days spells an age.
func days(n int64) string { return strconv.FormatInt(n, 10) + "d" }
