package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"firn/internal/commit"
	"firn/internal/commit/alter"
	"firn/internal/edge"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/sparksql"
)

// sqlCommand runs statements written for Spark.
type sqlCommand struct {
	Statement []string `arg:"" optional:"" help:"Statements."`
	File      string   `short:"f" help:"File with statements." type:"existingfile"`
	JSON      bool     `name:"json" help:"Print one JSON object a statement."`
}

// Run parses everything before it runs anything; the first failure ends it.
func (c *sqlCommand) Run(a *app) error {
	text := strings.Join(c.Statement, ";\n")
	if c.File != "" {
		data, err := os.ReadFile(c.File)
		if err != nil {
			return &usageError{fmt.Errorf("read statements: %w", err)}
		}
		text = string(data) + ";\n" + text
	}
	statements, err := sparksql.Parse(text)
	if err != nil {
		return &usageError{err}
	}
	if len(statements) == 0 {
		return &usageError{errors.New("give a statement, or a file with -f")}
	}
	for _, s := range statements {
		a.printed = false // one object a statement
		if err := c.statement(a, s); err != nil {
			return err
		}
	}
	return nil
}

func (c *sqlCommand) statement(a *app, s sparksql.Statement) error {
	switch s := s.(type) {
	case *sparksql.Call:
		return c.call(a, s)
	case *sparksql.SetProperties:
		set := map[string]string{}
		for _, p := range s.Properties {
			set[p.Key] = p.Value
		}
		if err := policy.CheckProperties(set); err != nil {
			return &usageError{err}
		}
		return c.alter(a, s.Table, alter.Properties{Set: set})
	case *sparksql.UnsetProperties:
		return c.alter(a, s.Table, alter.Properties{Unset: s.Keys, IfExists: s.IfExists})
	case *sparksql.SetWriteOrder:
		return c.alter(a, s.Table, alter.WriteOrder{Order: s.Order, Distribution: s.Distribution})
	case *sparksql.SetIdentifierFields:
		fields := alter.IdentifierFields{Drop: s.Drop}
		for _, f := range s.Fields {
			fields.Names = append(fields.Names, f.String())
		}
		return c.alter(a, s.Table, fields)
	case *sparksql.SetRef:
		return c.alter(a, s.Table, alter.Ref{
			Name: s.Name, Tag: s.Tag, Create: s.Create, Replace: s.Replace, IfNotExists: s.IfNotExists, SnapshotID: s.SnapshotID,
			MaxRefAgeMS: s.MaxRefAgeMS, MaxSnapshotAgeMS: s.MaxSnapshotAgeMS, MinSnapshotsToKeep: s.MinSnapshotsToKeep,
		})
	case *sparksql.DropRef:
		return c.alter(a, s.Table, alter.DropRef{Name: s.Name, Tag: s.Tag, IfExists: s.IfExists})
	}
	return &usageError{fmt.Errorf("run statement %q: unknown kind", s.Source())}
}

func (c *sqlCommand) call(a *app, call *sparksql.Call) error {
	bound, err := call.Bind()
	if err != nil {
		return &usageError{err}
	}
	id, err := a.sqlTable(call.Catalog, bound.Table)
	if err != nil {
		return err
	}
	return a.call(id, bound.Request, bound.Request.Args["dry_run"] == "true", c.JSON)
}

// sqlTable resolves a table's name parts; catalog "" and spark_catalog mean the default catalog, and so does a first part that names it.
func (a *app) sqlTable(catalog string, parts []string) (maintenance.TableID, error) {
	clients, err := a.open()
	if err != nil {
		return maintenance.TableID{}, err
	}
	if catalog == "" || strings.EqualFold(catalog, "spark_catalog") {
		catalog = clients.DefaultCatalog()
	}
	if len(parts) > 2 && (parts[0] == catalog || strings.EqualFold(parts[0], "spark_catalog")) {
		parts = parts[1:]
	}
	if len(parts) < 2 {
		return maintenance.TableID{}, &usageError{fmt.Errorf("find table %s: want namespace.table", strings.Join(parts, "."))}
	}
	last := len(parts) - 1
	id := maintenance.TableID{Catalog: catalog, Namespace: maintenance.NewNamespace(parts[:last]...), Name: parts[last]}
	return id, a.ask(id)
}

// alter changes a table in a commit of its own.
func (c *sqlCommand) alter(a *app, parts []string, change alter.Change) error {
	id, err := a.alterTable(parts)
	if err != nil {
		return err
	}
	l, err := a.clients.Lake(a.ctx, id.Catalog)
	if err != nil {
		return err
	}
	port, err := committerOf(a, l)
	if err != nil {
		return err
	}
	if err := alter.Commit(a.ctx, port, id, change); err != nil {
		return err
	}
	if c.JSON {
		return a.printJSON(map[string]any{"statement": "ALTER TABLE", "table": id.String(), "outcome": maintenance.Committed})
	}
	_, err = fmt.Fprintf(a.stdout, "altered %s\n", id)
	return err
}

// alterTable resolves a name of ALTER TABLE, whose first part may name any configured catalog.
func (a *app) alterTable(parts []string) (maintenance.TableID, error) {
	if _, err := a.open(); err != nil {
		return maintenance.TableID{}, err
	}
	if len(parts) > 2 {
		if _, err := a.clients.Lake(a.ctx, parts[0]); err == nil {
			return a.sqlTable(parts[0], parts[1:])
		}
	}
	return a.sqlTable("", parts)
}

func committerOf(a *app, l edge.Lake) (commit.Port, error) {
	c, err := committer.New(l.Catalog, l.Store, committer.Options{Now: a.now})
	return commit.Port{Committer: c, Store: l.Store}, err
}

// mapText is how a map argument travels: as a JSON object.
func mapText(pairs []string) (string, error) {
	if len(pairs) == 0 {
		return "", nil
	}
	m := map[string]string{}
	for _, pair := range pairs {
		key, value, found := strings.Cut(pair, "=")
		if !found {
			return "", fmt.Errorf("read %q: want A=B", pair)
		}
		m[key] = value
	}
	data, err := json.Marshal(m)
	return string(data), err
}

// listText is how an array argument travels: as a JSON array.
func listText(items []string) (string, error) {
	if len(items) == 0 {
		return "", nil
	}
	data, err := json.Marshal(items)
	return string(data), err
}
