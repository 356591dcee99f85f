package policy

import (
	"fmt"
	"strings"

	"firn/internal/maintenance"
)

// Reference is the policy reference, published as docs/policy.md. It is made of Keys, so that the two cannot differ.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	section(&b, "The table", "")
	for _, job := range maintenance.Chain() {
		section(&b, string(job), job)
	}
	return b.String()
}

const referenceHead = `# Policy reference

Made from the keys in ` + "`internal/policy/keys.go`" + ` by ` + "`go test ./internal/policy -update`" + `; do not edit by hand.

A policy is the part ` + "`policy`" + ` of ` + "`firn.yaml`" + ` (JSON Schema: ` + "`events/schemas/firn.schema.json`" + `). Values are layered, the weakest first:

1. built-in defaults, which are Spark's; ` + "`preset: glue`" + ` in any layer changes those in column *glue*, ` + "`preset: spark`" + ` takes that back;
2. the deployment: keys directly under ` + "`policy`" + `;
3. ` + "`policy.catalogs.NAME`" + `;
4. ` + "`policy.namespaces.NAME`" + `, outer namespaces first;
5. ` + "`policy.tables`" + `, a list of items with ` + "`match`" + `, a pattern of ` + "`[catalog.]namespace.table`" + ` (` + "`*`" + ` is text without a dot, ` + "`**`" + ` any text); later items win;
6. the table's own properties: Iceberg's, in column *property*, then ` + "`firn.KEY`" + `;
7. the command line.

Levels of a key may be nested or joined by dots. Ages need a unit (` + "`36h`, `7d`, `2w`" + `), bytes may have one (` + "`64MiB`" + `). Unknown keys and bad values are errors. A threshold of 0 switches a
trigger off. ` + "`firn explain --table NS.T`" + ` shows every value, where it came from and what it overrode.

` + "`firn call` and `firn sql`" + ` have Spark's defaults and do not look at the policy.
`

func section(b *strings.Builder, title string, job maintenance.Job) {
	fmt.Fprintf(b, "\n## %s\n\n| Key | Values | Default | Glue | Property | What |\n|---|---|---|---|---|---|\n", title)
	for _, k := range Keys() {
		if k.Job != job {
			continue
		}
		name := strings.TrimPrefix(k.Name, string(job)+".")
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s | %s |\n", name, k.describe(), code(k.Default), code(k.Glue), code(k.Property), k.Note)
	}
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// describe says which values a key takes.
func (k Key) describe() string {
	text := string(k.Kind)
	switch {
	case len(k.Values) > 0:
		text = strings.Join(k.Values, ", ")
	case k.High > 0:
		text += fmt.Sprintf(", %v to %v", k.Low, k.High)
	case k.Low > 0:
		text += fmt.Sprintf(", at least %v", k.Low)
	}
	return text
}
