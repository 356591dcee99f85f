package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"firn/internal/local/inspect"
	"firn/internal/policy"
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
		Table: health.Table, Mode: look.policy.Mode(), Automatic: automatic(look.policy.Mode(), health.AsksFor), Policy: look.policy.Explain(), Due: health.Due,
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
