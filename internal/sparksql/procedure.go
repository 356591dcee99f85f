package sparksql

import (
	"slices"
	"strconv"
	"strings"

	"firn/internal/maintenance"
)

// argumentType is what a procedure's parameter takes.
type argumentType int

const (
	typeText argumentType = iota
	typeTimestamp
	typeWhole
	typeFlag
	typeMap
	typeIDs
	typeTexts
)

// parameter is one parameter of a procedure; the order is Spark's order of positional arguments.
type parameter struct {
	name string
	kind argumentType
}

// procedures are the signatures of Iceberg's maintenance procedures, and of Firn's own.
func procedures() map[maintenance.Job][]parameter {
	return map[maintenance.Job][]parameter{
		maintenance.RewriteDataFiles: {
			{"table", typeText}, {"strategy", typeText}, {"sort_order", typeText}, {"options", typeMap}, {"where", typeText}, {"branch", typeText},
		},
		maintenance.RewritePositionDeleteFiles: {{"table", typeText}, {"options", typeMap}, {"where", typeText}},
		maintenance.RewriteEqualityDeleteFiles: {{"table", typeText}, {"options", typeMap}}, // Firn's own
		maintenance.RewriteManifests: {
			{"table", typeText}, {"use_caching", typeFlag}, {"spec_id", typeWhole}, {"sort_by", typeTexts},
		},
		maintenance.ExpireSnapshots: {
			{"table", typeText},
			{"older_than", typeTimestamp},
			{"retain_last", typeWhole},
			{"max_concurrent_deletes", typeWhole},
			{"stream_results", typeFlag},
			{"snapshot_ids", typeIDs},
			{"clean_expired_metadata", typeFlag},
		},
		maintenance.RemoveOrphanFiles: {
			{"table", typeText},
			{"older_than", typeTimestamp},
			{"location", typeText},
			{"dry_run", typeFlag},
			{"max_concurrent_deletes", typeWhole},
			{"file_list_view", typeText},
			{"equal_schemes", typeMap},
			{"equal_authorities", typeMap},
			{"prefix_mismatch_mode", typeText},
			{"prefix_listing", typeFlag},
			{"stream_results", typeFlag},
		},
	}
}

// Bound is a call whose procedure and arguments are known.
type Bound struct {
	// Table is the table's name in parts, without the catalog.
	Table []string
	// Request is the job with its arguments as text: maps as JSON objects, times as written. A dry run has the argument dry_run=true.
	Request maintenance.JobRequest
}

// Bind checks the call against the procedure's signature: names, order, types, nothing twice. Errors are *SyntaxError.
func (c *Call) Bind() (Bound, error) {
	job, err := maintenance.ParseJob(c.Procedure)
	if err != nil {
		names := make([]string, 0, len(maintenance.Jobs()))
		for _, j := range maintenance.Jobs() {
			names = append(names, string(j))
		}
		fault := errorAt(c.text, c.pos, "procedure %s is not one of Firn's%s", c.Procedure, maintenance.Suggestion(c.Procedure, names))
		fault.Hint = instead(c.Procedure)
		return Bound{}, fault
	}
	b := Bound{Request: maintenance.JobRequest{Job: job, Args: map[string]string{}}}
	given, err := c.assign(procedures()[job])
	if err != nil {
		return Bound{}, err
	}
	for _, p := range procedures()[job] {
		a, ok := given[p.name]
		if !ok || a.Value.Kind == KindNull {
			continue // NULL stands for the default
		}
		if err := c.store(&b, p, a); err != nil {
			return Bound{}, err
		}
	}
	if b.Table == nil {
		return Bound{}, c.errorAt(c.pos, "%s misses its argument table", c.Procedure)
	}
	if c.DryRun {
		b.Request.Args["dry_run"] = "true"
	}
	return b, nil
}

func (c *Call) errorAt(pos int, format string, args ...any) error {
	return errorAt(c.text, pos, format, args...)
}

// assign gives every argument its parameter.
func (c *Call) assign(parameters []parameter) (map[string]Argument, error) {
	names := make([]string, len(parameters))
	for i, p := range parameters {
		names[i] = p.name
	}
	given := map[string]Argument{}
	named := false
	for i, a := range c.Arguments {
		switch {
		case a.Name != "":
			named = true
		case named:
			return nil, c.errorAt(a.Pos, "a positional argument stands behind a named one")
		case i >= len(parameters):
			return nil, c.errorAt(a.Pos, "%s takes %d arguments, not %d", c.Procedure, len(parameters), len(c.Arguments))
		default:
			a.Name = names[i]
		}
		if !slices.Contains(names, a.Name) {
			return nil, c.errorAt(a.Pos, "%s has no argument %s%s", c.Procedure, a.Name, maintenance.Suggestion(a.Name, names))
		}
		if _, twice := given[a.Name]; twice {
			return nil, c.errorAt(a.Pos, "argument %s is given twice", a.Name)
		}
		given[a.Name] = a
	}
	return given, nil
}

// store checks an argument's type and puts it where the request has it.
func (c *Call) store(b *Bound, p parameter, a Argument) error {
	v := a.Value
	if !fits(v, p.kind) {
		return c.errorAt(a.Pos, "argument %s is %s: want %s", p.name, v.Kind, p.kind)
	}
	switch {
	case p.name == "table":
		parts, err := tableParts(v.Text, c.Catalog)
		if err != nil {
			return c.errorAt(a.Pos, "argument table: %s", err)
		}
		b.Table = parts
	case p.name == "options":
		b.Request.Options = v.Map()
	case p.kind == typeIDs:
		for _, item := range v.Items {
			b.Request.SnapshotIDs = append(b.Request.SnapshotIDs, item.Text)
		}
	default:
		b.Request.Args[p.name] = v.String()
	}
	return nil
}

// String names the type in messages.
func (t argumentType) String() string {
	return [...]string{
		"a string", "a timestamp", "a whole number", "true or false", "map('key', 'value', ...)", "array(id, ...)", "array('name', ...)",
	}[t]
}

// fits also takes strings that read as the type, as a cast would.
func fits(v Value, kind argumentType) bool {
	switch kind {
	case typeTimestamp:
		return slices.Contains([]Kind{KindTimestamp, KindDate, KindString, KindInteger, KindNow}, v.Kind)
	case typeWhole:
		_, err := strconv.ParseInt(v.Text, 10, 64)
		return (v.Kind == KindInteger || v.Kind == KindString) && err == nil
	case typeFlag:
		return v.Kind == KindBoolean || v.Kind == KindString && (strings.EqualFold(v.Text, "true") || strings.EqualFold(v.Text, "false"))
	case typeMap:
		return v.Kind == KindMap && !slices.ContainsFunc(v.Entries, func(e Entry) bool { return e.Key.Kind == KindNull || e.Value.Kind == KindNull })
	case typeIDs:
		return v.Kind == KindArray && !slices.ContainsFunc(v.Items, func(item Value) bool { return !fits(item, typeWhole) })
	case typeTexts:
		return v.Kind == KindArray && !slices.ContainsFunc(v.Items, func(item Value) bool { return item.Kind != KindString })
	default:
		return v.Kind == KindString
	}
}

// tableParts splits a table's name and drops a leading catalog name that repeats the call's.
func tableParts(text, catalog string) ([]string, error) {
	id, err := maintenance.ParseTableID("", text)
	if err != nil {
		return nil, err
	}
	parts := append(id.Namespace.Levels(), id.Name)
	if len(parts) > 2 && catalog != "" && parts[0] == catalog {
		parts = parts[1:]
	}
	return parts, nil
}
