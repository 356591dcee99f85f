package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"firn/internal/edge"
	"firn/internal/lake"
	"firn/internal/local/inspect"
	"firn/internal/maintenance"
	"firn/internal/policy"
)

// inspectCommand shows a table's health, or one of its metadata tables.
type inspectCommand struct {
	Table string `required:"" help:"Table (namespace.table)." placeholder:"NS.T"`
	View  string `help:"Show a metadata table of Spark instead: snapshots, history, refs, files, entries, manifests, partitions, position_deletes, metadata_log_entries, all_files, ..." placeholder:"V"`
	JSON  bool   `name:"json" help:"Print one JSON object."`
	HTML  string `name:"html" help:"Write a page of its own to this file." placeholder:"FILE" type:"path"`
}

// Run looks and prints.
func (c *inspectCommand) Run(a *app) error {
	if c.HTML != "" && (c.JSON || c.View != "") {
		return &usageError{errors.New("give --html without --json and --view")}
	}
	look, err := a.look(c.Table)
	if err != nil {
		return err
	}
	if c.View != "" {
		return c.view(a, look)
	}
	health, err := look.health(a)
	if err != nil {
		return err
	}
	storage := look.view.Storage(a.ctx)
	if other := a.otherMaintainer(look); other != "" {
		storage.Notes = append(storage.Notes, other)
	}
	health.Storage = &storage
	switch {
	case c.JSON:
		return a.printJSON(health)
	case c.HTML != "":
		return c.page(a, look, health)
	}
	return printHealth(a.stdout, health)
}

// look is a table as inspect, explain and run --due see it.
type look struct {
	view   *inspect.View
	policy policy.Policy
	past   inspect.History
}

// look loads a table, its effective policy and what is known of earlier runs.
func (a *app) look(name string) (look, error) {
	id, err := a.table(name)
	if err != nil {
		return look{}, err
	}
	return a.lookAt(a.ctx, id)
}

// lookAt is look for a table whose name was parsed.
func (a *app) lookAt(ctx context.Context, id maintenance.TableID) (look, error) {
	l, err := a.clients.Lake(ctx, id.Catalog)
	if err != nil {
		return look{}, err
	}
	t, err := lake.Load(ctx, l.Catalog, l.Store, id)
	if err != nil {
		return look{}, err
	}
	var out look
	if out.policy, err = effective(a.clients, t); err != nil {
		return look{}, err
	}
	if out.past, err = inspect.Past(ctx, a.history(), id, a.now()); err != nil {
		return look{}, err
	}
	out.view, err = inspect.Look(ctx, l.Store, t, a.now())
	return out, err
}

// effective lays the configuration's policy and the table's properties over each other.
func effective(clients *edge.Clients, t *lake.Table) (policy.Policy, error) {
	document, err := policy.Parse(clients.Settings().Policy)
	if err != nil {
		return policy.Policy{}, &usageError{err}
	}
	p, err := document.Effective(t.ID, t.Metadata.Properties(), nil)
	if err != nil {
		return policy.Policy{}, &usageError{fmt.Errorf("policy of table %s: %w", t.ID, err)}
	}
	return p, nil
}

func (l look) health(a *app) (inspect.Health, error) { return l.view.Health(a.ctx, l.policy, l.past) }

func (c *inspectCommand) view(a *app, l look) error {
	if !inspect.IsView(c.View) {
		_, err := l.view.Rows(a.ctx, c.View)
		return &usageError{err}
	}
	rows, err := l.view.Rows(a.ctx, c.View)
	if err != nil {
		return err
	}
	if c.JSON {
		return a.printJSON(rows)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	var shown []int
	for i, name := range rows.Columns {
		if !slices.Contains(rows.Wide, name) {
			shown = append(shown, i)
			fmt.Fprintf(w, "%s\t", name)
		}
	}
	fmt.Fprintln(w)
	for _, row := range rows.Rows {
		for _, i := range shown {
			fmt.Fprintf(w, "%s\t", inspect.Cell(row[i]))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// page writes the HTML file; a page that cannot be written whole is removed.
func (c *inspectCommand) page(a *app, l look, h inspect.Health) (err error) {
	f, err := os.Create(c.HTML)
	if err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(c.HTML)
		}
	}()
	return l.view.WriteHTML(a.ctx, f, h)
}

// printHealth prints the health for people.
func printHealth(out io.Writer, h inspect.Health) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	line("table", "%s, format version %d", h.Table, h.FormatVersion)
	line("location", "%s", h.Location)
	line("metadata", "%s, %d files in the log", h.MetadataLocation, h.MetadataFiles)
	line("snapshots", "%d%s", h.Snapshots.Count, ages(h.Snapshots))
	line("refs", "%s", strings.Join(h.Refs, ", "))
	formats := make([]string, 0, len(h.DataFiles.Formats))
	for _, name := range slices.Sorted(maps.Keys(h.DataFiles.Formats)) {
		formats = append(formats, fmt.Sprintf("%d %s", h.DataFiles.Formats[name], name))
	}
	line("data files", "%d (%s), %s, average %s, %d under 75 %% of %s; %d rows before deletes", h.DataFiles.DataFiles, strings.Join(formats, ", "),
		inspect.Size(h.DataFiles.DataBytes), inspect.Size(h.DataFiles.Average), h.DataFiles.SmallFiles, inspect.Size(h.TargetBytes), h.DataFiles.Records)
	line("delete files", "%d position, %d equality, %d vectors, %s; %d deleted positions; %d dangling; %d data files have deletes", h.DeleteFiles.Position,
		h.DeleteFiles.Equality, h.DeleteFiles.Vectors, inspect.Size(h.DeleteFiles.Bytes), h.DeleteFiles.Positions, h.DeleteFiles.Dangling,
		h.DataFiles.WithDeletes)
	line("manifests", "%d data, %d delete, %s; %d under half of %s", h.Manifests.Data, h.Manifests.Delete, inspect.Size(h.Manifests.Bytes),
		h.Manifests.Small, inspect.Size(h.Manifests.TargetBytes))
	printStorage(line, h.Storage)
	for _, fault := range h.Faults {
		line("fault", "%s", fault)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%d partitions; most small files:\n", h.Partitions)
	w = tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "  partition\tspec\tsmall\tdata files\tbytes\tposition deletes\tequality deletes\tvectors")
	for _, p := range h.TopPartitions {
		fmt.Fprintf(w, "  %s\t%d\t%d\t%d\t%s\t%d\t%d\t%d\n", p.Name, p.SpecID, p.SmallFiles, p.DataFiles, inspect.Size(p.DataBytes), p.PositionDeleteFiles,
			p.EqualityDeleteFiles, p.DeletionVectors)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return printDue(out, h.Due)
}

// printStorage tells what the storage would give back.
func printStorage(line func(name, format string, args ...any), s *inspect.Storage) {
	if s == nil {
		return
	}
	line("expirable", "%d snapshots; %d files, %s that only they reach", s.ExpirableSnapshots, s.Expirable.Files, inspect.Size(s.Expirable.Bytes))
	looked := "all"
	if !s.Complete {
		looked = "the first"
	}
	line("orphans", "about %d files, %s (estimate: %s %d objects of the location were looked at)", s.Orphans.Files, inspect.Size(s.Orphans.Bytes), looked, s.Listed)
	for _, note := range s.Notes {
		line("note", "%s", note)
	}
}

func ages(s inspect.Snapshots) string {
	if s.Count == 0 {
		return ""
	}
	return fmt.Sprintf(", the oldest %s old, the newest %s", s.OldestAge, s.NewestAge)
}

// printDue prints what the table asks for and why.
func printDue(out io.Writer, due []inspect.Due) error {
	fmt.Fprintln(out, "\nit asks for:")
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, d := range due {
		word := "no"
		if d.Due {
			word = "yes"
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\n", d.Job, word, strings.TrimSuffix(d.Reason+": "+d.Call, ": "))
	}
	return w.Flush()
}
