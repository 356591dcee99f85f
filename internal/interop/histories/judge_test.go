//go:build interop

package histories

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"firn/internal/icebergtest"
)

// judge compares what the engines find after a step with the model.
func (h *history) judge(step, did string) {
	h.checkMetadata()
	want := content(h.m.columns, h.m.refs["main"])
	h.compare("Iceberg's reader", h.lake.core(h.t, command{"do": "read", "table": h.table}).content(h, "Iceberg's reader"), want)
	if step == "firn" {
		h.afterFirn(did, want)
	}
	for _, name := range slices.Sorted(maps.Keys(h.m.refs)) {
		if name != "main" {
			h.readRef(name, h.m.refs[name])
		}
	}
	if h.m.rng.IntN(4) == 0 || step == "firn" {
		for _, name := range slices.Sorted(maps.Keys(h.m.tags)) {
			h.readRef(name, h.m.tags[name])
		}
	}
	if step != "firn" {
		h.look(want)
	}
}

func (r reply) content(h *history, reader string) icebergtest.Content {
	if r.Error != "" {
		h.fail("%s: %s", reader, r.Error)
	}
	return r.Content
}

func (h *history) compare(reader string, got, want icebergtest.Content) {
	if d := difference(got, want); d != "" {
		h.fail("%s finds %s", reader, d)
	}
}

func (h *history) readRef(name string, rs rows) {
	reader := "Iceberg's reader of " + name
	h.compare(reader, h.lake.core(h.t, command{"do": "read", "table": h.table, "ref": name}).content(h, reader), content(h.m.columns, rs))
}

// checkMetadata lets Iceberg's library go over all that the metadata names.
func (h *history) checkMetadata() {
	r := h.lake.core(h.t, command{"do": "check", "table": h.table})
	if r.Error != "" {
		h.fail("Iceberg's library: %s", r.Error)
	}
	// PyIceberg's summaries do not always add up, with no doing of ours: only snapshots of Firn's count
	faults := slices.DeleteFunc(r.Faults, func(f string) bool { return strings.Contains(f, " says total-") && !strings.Contains(f, ", rewrite_") })
	if len(faults) > 0 {
		h.fail("Iceberg's library:\n%s", strings.Join(faults, "\n"))
	}
	h.head = r.Counts
}

// readers are the engines that judge beside Iceberg's own reader.
func readers() []string { return []string{"spark", "pyiceberg", "duckdb"} }

// ask lets an engine read main, and says how it differs from the model.
func (h *history) ask(engine string, want icebergtest.Content) string {
	r := h.lake.engine(h.t, command{"do": "read", "engine": engine, "route": h.route(), "table": h.table})
	if r.Error != "" {
		return r.Error
	}
	return difference(*r.Facts, want)
}

// look notes, before a step of Firn's, which readers are right and the rows' lineage. Spark must be.
func (h *history) look(want icebergtest.Content) {
	h.able = map[string]bool{}
	engine := one(h, readers()...)
	d := h.ask(engine, want)
	if d != "" && engine == "spark" {
		h.fail("Spark, after a step of another engine: %s", d)
	}
	h.able[engine] = d == ""
	if d != "" {
		h.tally.count(engine+" cannot read", true)
		h.log = append(h.log, "    "+engine+" does not read this rightly: "+firstLine(d))
		if testing.Verbose() {
			h.t.Log(h.log[len(h.log)-1])
		}
	}
	h.lineage = nil
	if h.m.version == 3 && h.m.rng.IntN(3) == 0 {
		h.lineage = h.readLineage()
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line[:min(len(line), 200)]
}

func (h *history) readLineage() map[string][2]*int64 {
	r := h.lake.engine(h.t, command{"do": "lineage", "route": h.route(), "table": h.table})
	if r.Error != "" {
		h.fail("Spark reads the lineage: %s", r.Error)
	}
	return r.Lineage
}

// afterFirn lets another engine read, and compares the rows' lineage with that before.
func (h *history) afterFirn(did string, want icebergtest.Content) {
	engine := "spark"
	for _, other := range readers() {
		if h.able[other] {
			engine = other
		}
	}
	if d := h.ask(engine, want); d != "" {
		h.fail("%s: %s\nafter firn %s", engine, d, did)
	}
	if h.lineage == nil {
		return
	}
	now := h.readLineage()
	for id, was := range h.lineage {
		is := now[id]
		if was[0] != nil && (is[0] == nil || *is[0] != *was[0]) || was[1] != nil && was[0] != nil && (is[1] == nil || *is[1] != *was[1]) {
			h.fail("row %s has lineage %s: want %s\nafter firn %s", id, spell(is), spell(was), did)
		}
	}
}

func spell(lineage [2]*int64) string {
	out := ""
	for _, n := range lineage {
		if n == nil {
			out += " null"
		} else {
			out += fmt.Sprint(" ", *n)
		}
	}
	return strings.TrimSpace(out)
}

// pythonWrites and pythonReads say what PyIceberg can do with the table: it writes no format version 3, and reads no equality deletes.
func (h *history) pythonWrites() bool { return h.m.version == 2 }

func (h *history) pythonReads() bool { return h.pythonWrites() && h.head["head_equality_deletes"] == 0 }
