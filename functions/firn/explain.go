package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/apache/iceberg-go/table"

	"firn/internal/contract"
	"firn/internal/decide/replay"
	"firn/internal/edge"
	"firn/internal/evaluate"
	"firn/internal/lake"
	"firn/internal/local/inspect"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/policy/foreign"
	"firn/internal/state"
	"firn/internal/verify"
)

// explainCommand shows the effective policy of a table and what is due.
type explainCommand struct {
	Table string `required:"" help:"Table (namespace.table)." placeholder:"NS.T"`
	State string `help:"Take earlier runs and the last decision from this state: dynamodb:TABLE, where TABLE is the stack's output StateTable." placeholder:"LOCATION"`
	Past  int    `name:"decisions" help:"Print so many of the last decisions, each with the figures that it was based on." placeholder:"N"`
	JSON  bool   `name:"json" help:"Print one JSON object."`
}

// explanation is the JSON form.
type explanation struct {
	Table string      `json:"table"`
	Mode  policy.Mode `json:"mode"`
	// Automatic says what an automatic run would do now.
	Automatic string               `json:"automatic"`
	Policy    []policy.Explanation `json:"policy"`
	Due       []inspect.Due        `json:"due"`
	// Decision is the last one that events or the clock led to; nil when the state knows of none.
	Decision *state.Decision `json:"decision"`
	// Decisions are the last records of the history, newest first, as many as were asked for.
	Decisions []state.Decision `json:"decisions,omitempty"`
}

// Run scans the table, asks the policy, and prints both.
func (c *explainCommand) Run(a *app) error {
	a.state = c.State
	look, err := a.look(c.Table)
	if err != nil {
		return err
	}
	health, err := look.health(a)
	if err != nil {
		return err
	}
	e := explanation{
		Table: health.Table, Mode: look.policy.Mode(), Automatic: automatic(look.policy.Mode(), health.Automatic()), Policy: look.policy.Explain(), Due: health.Due,
	}
	if other := a.otherMaintainer(look); other != "" && e.Mode != policy.Off {
		e.Automatic = "none: " + other
	}
	if e.Decision, err = a.lastDecision(look.view.Table.ID); err != nil {
		return err
	}
	if c.Past > 0 {
		if e.Decisions, err = a.history().Decisions(a.ctx, look.view.Table.ID, c.Past); err != nil {
			return err
		}
	}
	if c.JSON {
		return a.printJSON(e)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "key\tvalue\tsource\tinstead of")
	for _, x := range e.Policy {
		value := x.Value
		if value == "" {
			value = "-"
		}
		over := make([]string, 0, len(x.Overrode))
		for _, o := range x.Overrode {
			over = append(over, fmt.Sprintf("%s (%s)", o.Value, o.Source))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", x.Key, value, x.Source, strings.Join(over, ", "))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := printDue(a.stdout, e.Due); err != nil {
		return err
	}
	if _, err = fmt.Fprintf(a.stdout, "\nautomatic runs: %s\n", e.Automatic); err != nil {
		return err
	}
	return printDecision(a.stdout, e, a.clients.Settings())
}

// lastDecision is the last decision about a table: the one in its ledger, which counts those alike, or a later one that could not be kept there.
func (a *app) lastDecision(id maintenance.TableID) (*state.Decision, error) {
	st := a.history()
	head, err := st.LoadHead(a.ctx, id)
	if err != nil {
		return nil, err
	}
	newest, err := st.Decisions(a.ctx, id, 1)
	if err != nil {
		return nil, err
	}
	last := head.Decision
	if len(newest) > 0 && (last == nil || newest[0].AtMS >= max(last.AtMS, last.LastMS)) {
		last = &newest[0]
	}
	return last, nil
}

// printDecision prints the last decision; where a shared state knows of none, what that means.
func printDecision(out io.Writer, e explanation, settings edge.Settings) error {
	d := e.Decision
	if d == nil {
		if !settings.SharedState() {
			return nil
		}
		_, err := fmt.Fprintf(out, "last decision: none about %s in %s: the table's next commit or the clock leads to one; if none comes, is the table among the "+
			"deployment's tables, and its catalog called so there (--catalog)?\n", e.Table, settings.StateLocation)
		return err
	}
	fmt.Fprint(out, "last decision: ")
	printOne(out, *d)
	for _, past := range e.Decisions {
		fmt.Fprint(out, "in the history: ")
		printOne(out, past)
		for _, name := range slices.Sorted(maps.Keys(past.Inputs)) {
			fmt.Fprintf(out, "  %s: %d\n", name, past.Inputs[name])
		}
	}
	return nil
}

// printOne prints what was decided, and why.
func printOne(out io.Writer, d state.Decision) {
	stamp := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
	fmt.Fprintf(out, "%s at %s", d.Action, stamp(d.AtMS))
	if d.Same > 0 {
		fmt.Fprintf(out, " and %d times more until %s", d.Same, stamp(d.LastMS))
	}
	if d.RunID != "" {
		fmt.Fprintf(out, ", run %s", d.RunID)
	}
	fmt.Fprintln(out)
	if d.Skip != "" {
		fmt.Fprintf(out, "  %s\n", d.Skip)
	}
	for _, reason := range d.Reasons {
		fmt.Fprintf(out, "  %s\n", reason)
	}
}

// otherMaintainer says who else maintains the table, by the rule of automatic runs; "" for nobody.
func (a *app) otherMaintainer(l look) string {
	t := l.view.Table
	in, err := a.clients.Lake(a.ctx, t.ID.Catalog)
	if err != nil {
		return ""
	}
	asked := evaluate.Maintained{Table: t.ID, Catalog: in.Catalog, Location: t.Metadata.Location(), Policy: l.policy, Now: a.now()}
	for _, snap := range t.Metadata.Snapshots() {
		if snap.Summary != nil && snap.Summary.Operation == table.OpReplace && snap.Summary.Properties[contract.SummaryRunID] == "" {
			asked.ForeignRewriteMS = max(asked.ForeignRewriteMS, snap.TimestampMs)
		}
	}
	by, err := asked.By(a.ctx)
	if err != nil {
		a.logger().Warn("whether the catalog maintains the table is not known", "error", err.Error())
	}
	return by
}

// automatic says what an automatic run would do.
func automatic(mode policy.Mode, due []string) string {
	switch {
	case mode == policy.Off:
		return "none: mode is off"
	case len(due) == 0:
		return "none: nothing is due"
	case mode == policy.Observe:
		return "none: mode is observe; with firn.mode=maintain they would run " + strings.Join(due, ", ")
	}
	return "would run " + strings.Join(due, ", ")
}

// replayCommand plays a policy over a table's own history.
type replayCommand struct {
	Table  string `required:"" help:"Table (namespace.table)." placeholder:"NS.T"`
	Since  string `default:"30d" help:"How far back." placeholder:"30d"`
	Policy string `help:"File with the policy to try, as the part policy of firn.yaml or a whole firn.yaml; the configured policy without it." placeholder:"FILE" type:"path"`
	JSON   bool   `name:"json" help:"Print one JSON object."`
}

// replayed is the JSON form.
type replayed struct {
	Table string `json:"table"`
	replay.Report
}

// Run reads the history and plays. The table's own properties count as they are now.
func (c *replayCommand) Run(a *app) error {
	back, err := policy.ParseAge(c.Since)
	if err != nil || back <= 0 {
		return &usageError{fmt.Errorf("read --since: %q is no age, as 30d or 12h is", c.Since)}
	}
	look, err := a.look(c.Table)
	if err != nil {
		return err
	}
	p := look.policy
	if c.Policy != "" {
		if p, err = proposed(c.Policy, look.view.Table); err != nil {
			return &usageError{err}
		}
	}
	history, err := look.view.Since(a.ctx, a.now().Add(-back))
	if err != nil {
		return err
	}
	report, err := replay.Play(history, p, replay.Options{})
	if err != nil {
		return &usageError{err}
	}
	if c.JSON {
		return a.printJSON(replayed{Table: look.view.Table.ID.String(), Report: report})
	}
	return inspect.WriteReplay(a.stdout, look.view.Table.ID.String(), report)
}

// proposed reads a policy from a file and lays it over the table's properties.
func proposed(path string, t *lake.Table) (policy.Policy, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return policy.Policy{}, fmt.Errorf("read --policy: %w", err)
	}
	settings, whole := edge.ParseSettings(text)
	document, err := policy.Parse(settings.Policy)
	if whole != nil || len(settings.Policy) == 0 {
		document, err = policy.ParseYAML(text)
	}
	if err != nil {
		return policy.Policy{}, fmt.Errorf("%s: %w", path, err)
	}
	return document.Effective(t.ID, t.Metadata.Properties(), nil)
}

// policyCommand holds what is done with policies themselves.
type policyCommand struct {
	Import importCommand `cmd:"" help:"Turn the settings of Glue's table optimizers or Polaris' maintenance policies into a policy."`
}

// importCommand reads answers of other maintainers' APIs and prints the part policy of firn.yaml. It changes nothing.
type importCommand struct {
	Match string   `help:"Pattern of the tables ([catalog.]namespace.table, * and **), for settings that name none, or in place of their table." placeholder:"PATTERN"`
	Files []string `arg:"" name:"file" help:"JSON answers: aws glue get-table-optimizer or batch-get-table-optimizer, Polaris' applicable-policies; - is standard input."`
	JSON  bool     `name:"json" help:"Print one JSON object."`
}

// Run imports all files, or none.
func (c *importCommand) Run(a *app) error {
	layers := []foreign.Layer{}
	for _, name := range c.Files {
		var text []byte
		var err error
		if name == "-" {
			text, err = io.ReadAll(io.LimitReader(a.stdin, maxSettings))
		} else {
			text, err = os.ReadFile(name)
		}
		if err != nil {
			return &usageError{fmt.Errorf("read settings: %w", err)}
		}
		more, err := foreign.Import(text, c.Match)
		if err != nil {
			return &usageError{fmt.Errorf("%s: %w", name, err)}
		}
		layers = append(layers, more...)
	}
	if c.JSON {
		return a.printJSON(map[string]any{"layers": layers, "policy": foreign.Document(layers)})
	}
	_, err := io.WriteString(a.stdout, foreign.Document(layers))
	return err
}

// maxSettings bounds what is read from standard input.
const maxSettings = 64 << 20

// verifyCommand compares rewrites with their parents, row by row.
type verifyCommand struct {
	Table      string `required:"" help:"Table (namespace.table)." placeholder:"NS.T"`
	SnapshotID int64  `name:"snapshot-id" help:"Snapshot to compare with its parent; the newest rewrite of main without it." placeholder:"ID"`
	History    bool   `help:"Compare every retained rewrite with its parent."`
	Rows       int    `help:"Name at most this many rows of each kind of fault." default:"20" placeholder:"N"`
	JSON       bool   `name:"json" help:"Print one JSON object."`
}

// Run reads both sides and prints the verdict. Rows that differ end with status 1, what cannot be compared with that of a refusal.
func (c *verifyCommand) Run(a *app) error {
	if c.History && c.SnapshotID != 0 {
		return &usageError{errors.New("give --history without --snapshot-id")}
	}
	if c.Rows < 1 {
		return &usageError{fmt.Errorf("--rows is %d: want at least 1", c.Rows)}
	}
	id, err := a.table(c.Table)
	if err != nil {
		return err
	}
	l, err := a.clients.Lake(a.ctx, id.Catalog)
	if err != nil {
		return err
	}
	t, err := lake.Load(a.ctx, l.Catalog, l.Store, id)
	if err != nil {
		return err
	}
	v := &verify.Verifier{Store: l.Store, Samples: c.Rows, Seed: rand.Uint64()} //nolint:gosec // ChaCha8 with a seed of the system's
	if c.History {
		return c.audit(a, v, t)
	}
	r, err := v.Snapshot(a.ctx, t, c.SnapshotID)
	if errors.Is(err, verify.ErrUnverifiable) {
		err = maintenance.Named(contract.ErrorRefused, err)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		err = a.printJSON(r)
	} else {
		err = r.Text(a.stdout)
	}
	if err == nil && r.Verdict == verify.Different {
		err = fmt.Errorf("snapshot %d has not the rows of its parent", r.SnapshotID)
	}
	return err
}

// audit compares every rewrite of the history.
func (c *verifyCommand) audit(a *app, v *verify.Verifier, t *lake.Table) error {
	found, err := v.History(a.ctx, t)
	if err != nil {
		return err
	}
	if c.JSON {
		err = a.printJSON(found)
	} else {
		err = found.Text(a.stdout)
	}
	switch {
	case err != nil:
		return err
	case found.Different > 0:
		return fmt.Errorf("%d of %d rewrites have not the rows of their parents", found.Different, len(found.Snapshots))
	case found.Unverifiable > 0 && found.Equal == 0:
		return maintenance.Named(contract.ErrorRefused, fmt.Errorf("none of %d rewrites can be compared", found.Unverifiable))
	}
	return nil
}
