package metrics

import (
	"fmt"
	"strconv"
	"strings"

	"firn/internal/parquet/layout"
)

// Mode says what is kept of a column.
type Mode struct {
	// Counts keeps value, null and NaN counts; Bounds keeps lower and upper bounds too.
	Counts, Bounds bool
	// Truncate is the most code points or bytes of a string or binary bound; 0 keeps it whole.
	Truncate int
}

const (
	defaultModeKey  = "write.metadata.metrics.default"
	columnModeKey   = "write.metadata.metrics.column."
	inferredColumns = "write.metadata.metrics.max-inferred-column-defaults"
	// defaultInferred is how many columns get metrics when the table says nothing (Java's MetricsConfig).
	defaultInferred = 100
	defaultTruncate = 16
)

// Modes reads the metrics properties of a table, as Java's MetricsConfig does; sorted holds the field IDs of the table's sort order, which keep
// bounds whatever the default is. Columns below a list or map keep nothing.
func Modes(props map[string]string, l *layout.Layout, sorted map[int]bool) ([]Mode, error) {
	text, explicit := props[defaultModeKey]
	otherwise := Mode{Counts: true, Bounds: true, Truncate: defaultTruncate}
	if explicit {
		var err error
		if otherwise, err = parseMode(text); err != nil {
			return nil, fmt.Errorf("read property %s: %w", defaultModeKey, err)
		}
	}
	limit := defaultInferred
	if text, ok := props[inferredColumns]; ok {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 0 {
			return nil, fmt.Errorf("read property %s = %q: want a number", inferredColumns, text)
		}
		limit = n
	}
	modes := make([]Mode, len(l.Leaves))
	for i, leaf := range l.Leaves {
		mode := otherwise
		if !explicit && i >= limit {
			mode = Mode{}
		}
		if sorted[leaf.FieldID] && !mode.Bounds {
			mode = Mode{Counts: true, Bounds: true, Truncate: defaultTruncate}
		}
		if text, ok := props[columnModeKey+leaf.Path]; ok {
			var err error
			if mode, err = parseMode(text); err != nil {
				return nil, fmt.Errorf("read property %s%s: %w", columnModeKey, leaf.Path, err)
			}
		}
		if leaf.Repeated() {
			mode = Mode{}
		}
		modes[i] = mode
	}
	return modes, nil
}

func parseMode(text string) (Mode, error) {
	switch name := strings.ToLower(strings.TrimSpace(text)); {
	case name == "none":
		return Mode{}, nil
	case name == "counts":
		return Mode{Counts: true}, nil
	case name == "full":
		return Mode{Counts: true, Bounds: true}, nil
	case strings.HasPrefix(name, "truncate(") && strings.HasSuffix(name, ")"):
		n, err := strconv.Atoi(strings.TrimSpace(name[len("truncate(") : len(name)-1]))
		if err != nil || n <= 0 {
			break
		}
		return Mode{Counts: true, Bounds: true, Truncate: n}, nil
	}
	return Mode{}, fmt.Errorf("metrics mode %q: want none, counts, full or truncate(length)", text)
}
