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

` + "`firn call` and `firn sql`" + ` have Spark's defaults and do not look at the policy. ` + "`firn replay --table NS.T --policy FILE`" + ` plays a policy over the table's own history
([examples](explain-and-replay.md)).

## Presets and import

Preset ` + "`spark`" + ` is the built-in default: Spark's options, and triggers of ours. Preset ` + "`glue`" + ` starts what Glue's optimizers start: 100 files under 75 % of the target or one
delete file, snapshots of five days, orphans of three days every day. (Glue rewrites neither manifests nor position deletes by themselves; the preset leaves these jobs on.)

` + "`firn policy import FILE`" + ` prints a policy from the settings of another maintainer, as its API answers: Glue's ` + "`get-table-optimizer` and `batch-get-table-optimizer`" + `, Polaris'
` + "`applicable-policies`" + ` and single policies of the types ` + "`system.*`" + ` (contents of version 2025-02-03; Polaris' answers name no table, so give ` + "`--match 'ns.*'`" + `). What has no counterpart is told
in a comment. ` + "`imported-from`" + ` stands in each layer, and ` + "`firn explain`" + ` shows it beside every value:

` + "```" + `
aws glue get-table-optimizer --catalog-id 123456789012 --database-name sales --table-name orders --type compaction | firn policy import -
curl -s "$POLARIS/polaris/v1/lake/applicable-policies?namespace=sales&target-name=orders" -H "Authorization: Bearer $TOKEN" | firn policy import --match sales.orders -
` + "```" + `
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
