//go:build interop

package histories

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// writer is a step of an engine that is not Firn. It says what it did, "" when it had nothing to do, and keeps the model.
type writer struct {
	weight int
	name   string
	run    func(h *history) string
}

func writers() []writer {
	return []writer{
		{12, "spark insert", (*history).insert},
		{8, "spark delete", (*history).sparkDelete},
		{6, "spark update", (*history).update},
		{6, "spark merge", (*history).merge},
		{6, "pyiceberg append", (*history).pyAppend},
		{3, "pyiceberg delete", (*history).pyDelete},
		{3, "pyiceberg overwrite", (*history).pyOverwrite},
		{3, "pyiceberg upsert", (*history).pyUpsert},
		{12, "java upsert", (*history).javaUpsert},
		{4, "spark alter schema", (*history).alterSchema},
		{3, "spark alter partitions", (*history).alterPartitions},
		{2, "spark write order", (*history).writeOrder},
		{4, "spark properties", (*history).alterProperties},
		{4, "spark refs", (*history).alterRefs},
		{1, "spark upgrade", (*history).upgrade},
	}
}

// source is the table in Spark, by a route of its own, and its rows on a branch.
func (h *history) source() (name, branch string, rs rows) {
	name, branch = map[string]string{"sql": "lake", "rest": "rest"}[h.route()]+"."+h.table, h.branch()
	if branch != "main" {
		name += ".branch_" + branch
	}
	return name, branch, h.m.refs[branch]
}

// branch draws the branch to write to.
func (h *history) branch() string {
	if _, ok := h.m.refs["b"]; ok && h.m.rng.IntN(4) == 0 {
		return "b"
	}
	return "main"
}

func (h *history) route() string { return []string{"sql", "rest"}[h.m.rng.IntN(2)] }

func (h *history) sql(text string, args ...any) string {
	text = fmt.Sprintf(text, args...)
	if r := h.lake.engine(h.t, command{"do": "sql", "sql": text}); r.Error != "" {
		h.fail("Spark: %s\n%s", r.Error, text)
	}
	return text
}

func (h *history) values(added []row) string {
	var lines []string
	for _, r := range added {
		var parts []string
		for _, c := range h.m.columns {
			parts = append(parts, c.literal(r[c.id]))
		}
		lines = append(lines, "("+strings.Join(parts, ", ")+")")
	}
	return strings.Join(lines, ", ")
}

func (h *history) insert() string {
	name, branch, rs := h.source()
	added := h.m.draw(1 + h.m.rng.IntN(40))
	h.sql("INSERT INTO %s VALUES %s", name, h.values(added))
	rs.add(added)
	return fmt.Sprintf("%d rows into %s", len(added), branch)
}

func (h *history) sparkDelete() string {
	name, branch, rs := h.source()
	c := h.m.condition()
	h.sql("DELETE FROM %s WHERE %s", name, c.sql)
	return fmt.Sprintf("%d rows of %s where %s", rs.remove(c.holds), branch, c.sql)
}

func (r rows) remove(holds func(row) bool) int {
	before := len(r)
	maps.DeleteFunc(r, func(_ int64, values row) bool { return holds(values) })
	return before - len(r)
}

// other draws a column that an update may set.
func (h *history) other() column { return h.m.columns[1+h.m.rng.IntN(len(h.m.columns)-1)] }

func (h *history) update() string {
	name, branch, rs := h.source()
	c, set := h.m.condition(), h.other()
	v := h.m.value(set)
	h.sql("UPDATE %s SET %s = %s WHERE %s", name, set.name, set.literal(v), c.sql)
	n := 0
	for _, r := range rs {
		if c.holds(r) {
			r[set.id] = v
			n++
		}
	}
	return fmt.Sprintf("%d rows of %s, %s where %s", n, branch, set.name, c.sql)
}

func (h *history) merge() string {
	name, branch, rs := h.source()
	ids := h.m.some(rs, 1+h.m.rng.IntN(25))
	changed, added := h.m.again(ids), h.m.draw(1+h.m.rng.IntN(6))
	var names []string
	for _, c := range h.m.columns {
		names = append(names, c.name)
	}
	h.sql("MERGE INTO %s t USING (SELECT * FROM VALUES %s AS v(%s)) s ON t.id = s.id WHEN MATCHED AND s.id %% 4 = 0 THEN DELETE "+
		"WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *", name, h.values(slices.Concat(changed, added)), strings.Join(names, ", "))
	rs.add(changed)
	for _, id := range ids {
		if id%4 == 0 {
			delete(rs, id)
		}
	}
	rs.add(added)
	return fmt.Sprintf("%d changed or deleted, %d added on %s", len(changed), len(added), branch)
}

// python runs a command of PyIceberg's and says whether it was done: an upsert reads by the schema of the last snapshot, and refuses rows of a newer one.
func (h *history) python(c command, branch string, added []row) bool {
	c["route"], c["table"], c["ref"] = h.route(), h.table, branch
	var plain []map[string]any
	for _, r := range added {
		plain = append(plain, h.m.plain(r))
	}
	c["rows"] = plain
	r := h.lake.engine(h.t, c)
	if strings.Contains(r.Error, "Target schema's field names are not matching") {
		return false
	}
	if r.Error != "" {
		h.fail("PyIceberg: %s\n%v", r.Error, c)
	}
	return true
}

func (h *history) pyAppend() string {
	if !h.pythonWrites() {
		return ""
	}
	branch := h.branch()
	added := h.m.draw(1 + h.m.rng.IntN(30))
	h.python(command{"do": "append"}, branch, added)
	h.m.refs[branch].add(added)
	return fmt.Sprintf("%d rows to %s", len(added), branch)
}

func (h *history) pyDelete() string {
	if !h.pythonReads() {
		return ""
	}
	c := h.m.pythonCondition()
	h.python(command{"do": "delete", "where": c.python}, "main", nil)
	return fmt.Sprintf("%d rows where %s", h.m.refs["main"].remove(c.holds), c.python)
}

func (h *history) pyOverwrite() string {
	if !h.pythonReads() {
		return ""
	}
	c, added := h.m.pythonCondition(), h.m.draw(1+h.m.rng.IntN(10))
	h.python(command{"do": "overwrite", "where": c.python}, "main", added)
	n := h.m.refs["main"].remove(c.holds)
	h.m.refs["main"].add(added)
	return fmt.Sprintf("%d rows where %s with %d", n, c.python, len(added))
}

func (h *history) pyUpsert() string {
	if !h.pythonReads() {
		return ""
	}
	rs := h.m.refs["main"]
	changed := slices.Concat(h.m.again(h.m.some(rs, 1+h.m.rng.IntN(8))), h.m.draw(1+h.m.rng.IntN(4)))
	if !h.python(command{"do": "upsert", "keys": []string{"id"}}, "main", changed) {
		return ""
	}
	rs.add(changed)
	return fmt.Sprintf("%d rows", len(changed))
}

func (h *history) javaUpsert() string {
	branch := h.branch()
	rs := h.m.refs[branch]
	c := command{"do": "upsert", "table": h.table, "branch": branch, "global": h.m.rng.IntN(2) == 0}
	var keys, lists [][]any
	var added []row
	if h.m.rng.IntN(4) == 0 { // all rows of a category, null among them
		var v any
		if k := h.m.rng.IntN(5); k > 0 {
			v = string(rune('a' + k - 1))
		}
		c["columns"], keys = []string{h.m.name(colCat)}, [][]any{{v}}
		rs.remove(func(r row) bool { return r[colCat] == v && r[colID].(int64) >= 0 })
		added = h.m.draw(h.m.rng.IntN(12))
	} else {
		c["columns"] = []string{"id"}
		added = h.m.again(h.m.some(rs, 1+h.m.rng.IntN(12)))
		for _, r := range added {
			keys = append(keys, []any{r[colID]})
		}
		if h.m.rng.IntN(3) == 0 { // deletes only
			for _, r := range added {
				delete(rs, r[colID].(int64))
			}
			added = nil
		}
		added = slices.Concat(added, h.m.draw(h.m.rng.IntN(5)))
	}
	rs.add(added)
	for _, r := range added {
		lists = append(lists, h.m.list(r))
	}
	if len(keys) == 0 && len(lists) == 0 {
		return ""
	}
	c["keys"], c["rows"] = keys, lists
	if r := h.lake.core(h.t, c); r.Error != "" {
		h.fail("Java: %s\n%v", r.Error, c)
	}
	return fmt.Sprintf("%d keys of %v, %d rows on %s, global %v", len(keys), c["columns"], len(lists), branch, c["global"])
}
