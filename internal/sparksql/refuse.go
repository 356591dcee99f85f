package sparksql

import (
	"slices"
	"strings"

	"firn/internal/maintenance"
)

// MetadataTables are Spark's metadata tables of a table, all of which firn inspect shows as views.
func MetadataTables() []string {
	return []string{
		"snapshots", "history", "refs", "metadata_log_entries", "files", "data_files", "delete_files", "entries", "manifests", "partitions",
		"position_deletes", "all_files", "all_data_files", "all_delete_files", "all_entries", "all_manifests",
	}
}

// refuse names the command that does what a statement of another kind, or of another engine, asks for.
func (p *parser) refuse(start token) error {
	switch {
	case start.is("select") || start.is("with") || start.is("show") || start.is("describe") || start.is("desc"):
		return p.refuseQuery(start)
	case start.is("optimize"):
		return p.refuseOptimize(start)
	case start.is("vacuum"):
		p.next()
		p.accept("table")
		name := p.nameOr("NS.T")
		return p.hint(start, runs(maintenance.ExpireSnapshots, name)+", and "+runs(maintenance.RemoveOrphanFiles, name), "VACUUM is another engine's statement")
	}
	words := []string{"CALL", "EXPLAIN", "ALTER"}
	return p.hint(start, strings.TrimPrefix(maintenance.Suggestion(start.text, words), "; "),
		"%s starts no statement that is understood here: want CALL, EXPLAIN CALL or ALTER TABLE", start.describe())
}

// runs spells a call.
func runs(job maintenance.Job, table string, arguments ...string) string {
	return "CALL system." + string(job) + "(" + strings.Join(append([]string{"table => '" + table + "'"}, arguments...), ", ") + ") does it here"
}

// nameOr reads a table's name, or gives the stand-in where none follows.
func (p *parser) nameOr(standIn string) string {
	name, err := p.identifier()
	if err != nil {
		return standIn
	}
	return strings.Join(name, ".")
}

// until goes to one of the words, or to the end of the statement.
func (p *parser) until(words ...string) (token, bool) {
	for {
		t := p.peek()
		if t.kind == tokenEnd || t.is(";") {
			return t, false
		}
		if slices.ContainsFunc(words, t.is) {
			return t, true
		}
		p.next()
	}
}

// whereArgument is the text of WHERE up to the end of the statement as an argument, none without one.
func (p *parser) whereArgument() []string {
	if _, found := p.until("where"); !found {
		return nil
	}
	p.next()
	from := p.peek().pos
	end, _ := p.until()
	text := strings.TrimSpace(p.text[min(from, end.pos):end.pos])
	return []string{"where => '" + strings.ReplaceAll(text, "'", "''") + "'"}
}

// refuseOptimize answers OPTIMIZE of Athena, Dremio and others.
func (p *parser) refuseOptimize(start token) error {
	p.next()
	p.accept("table")
	name := p.nameOr("NS.T")
	mark := p.at
	if t, found := p.until("manifests", "zorder"); found && t.is("manifests") {
		return p.hint(start, runs(maintenance.RewriteManifests, name), "OPTIMIZE is another engine's statement")
	} else if found {
		p.next()
		p.accept("by")
		var order SortTerm
		if p.accept("(") {
			if err := p.sortArguments(&order); err != nil {
				return err
			}
		}
		columns := make([]string, len(order.Columns))
		for i, c := range order.Columns {
			columns[i] = c.String()
		}
		return p.hint(start, runs(maintenance.RewriteDataFiles, name, "sort_order => 'zorder("+strings.Join(columns, ", ")+")'"),
			"OPTIMIZE is another engine's statement")
	}
	p.at = mark
	return p.hint(start, runs(maintenance.RewriteDataFiles, name, p.whereArgument()...), "OPTIMIZE is another engine's statement")
}

// refuseExecute answers Trino's ALTER TABLE ... EXECUTE.
func (p *parser) refuseExecute(start token, table []string) error {
	job := map[string]maintenance.Job{
		"optimize": maintenance.RewriteDataFiles, "optimize_manifests": maintenance.RewriteManifests,
		"expire_snapshots": maintenance.ExpireSnapshots, "remove_orphan_files": maintenance.RemoveOrphanFiles,
	}[strings.ToLower(p.next().text)]
	if job == "" {
		return p.hint(start, elsewhere, "ALTER TABLE ... EXECUTE is Trino's statement")
	}
	var arguments []string
	if job == maintenance.RewriteDataFiles {
		arguments = p.whereArgument()
	}
	return p.hint(start, runs(job, strings.Join(table, "."), arguments...), "ALTER TABLE ... EXECUTE is Trino's statement")
}

// instead says what to do about a procedure of Spark's that is no maintenance.
func instead(procedure string) string {
	switch procedure {
	case "rollback_to_snapshot", "rollback_to_timestamp", "set_current_snapshot", "cherrypick_snapshot", "publish_changes", "fast_forward":
		return "it moves rows, which is the writing engine's work"
	case "ancestors_of":
		return "firn inspect --table NS.T --view history shows which snapshots are ancestors"
	case "register_table":
		return "firn register --table NS.T --metadata-location URI does it"
	case "snapshot", "migrate", "add_files", "rewrite_table_path", "compute_table_stats", "compute_partition_stats", "create_changelog_view", "undelete_column":
		return "it belongs to the engine that writes the table"
	}
	return ""
}

// refuseQuery names the command that shows what a query on a metadata table would.
func (p *parser) refuseQuery(start token) error {
	for {
		if _, found := p.until("from"); !found {
			return p.hint(start, "firn inspect --table NS.T [--view files] shows a table's state", "queries are not executed here")
		}
		p.next()
		name, err := p.identifier()
		if err != nil {
			continue // a subquery
		}
		last := len(name) - 1
		view := strings.ToLower(name[last])
		if last > 0 && slices.Contains(MetadataTables(), view) {
			table := strings.Join(name[:last], ".")
			return p.hint(start, "firn inspect --table "+table+" --view "+view+" shows it", "queries are not executed here")
		}
	}
}
