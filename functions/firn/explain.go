package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"text/tabwriter"

	"firn/internal/contract"
	"firn/internal/lake"
	"firn/internal/local/inspect"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/verify"
)

// explainCommand shows the effective policy of a table and what is due.
type explainCommand struct {
	Table string `required:"" help:"Table (namespace.table)." placeholder:"NS.T"`
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
}

// Run scans the table, asks the policy, and prints both.
func (c *explainCommand) Run(a *app) error {
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
	_, err = fmt.Fprintf(a.stdout, "\nautomatic runs: %s\n", e.Automatic)
	return err
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
