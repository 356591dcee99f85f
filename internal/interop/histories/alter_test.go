//go:build interop

package histories

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// alter runs an ALTER TABLE of Spark's.
func (h *history) alter(text string, args ...any) string {
	h.sql("ALTER TABLE %s.%s %s", map[string]string{"sql": "lake", "rest": "rest"}[h.route()], h.table, fmt.Sprintf(text, args...))
	return fmt.Sprintf(text, args...)
}

func (h *history) alterSchema() string {
	m := h.m
	switch m.rng.IntN(5) {
	case 0, 1:
		c := column{m.nextCol, "x" + strconv.Itoa(m.nextCol), []string{"int", "string", "double", "decimal(10, 2)", "date", "timestamptz"}[m.rng.IntN(6)]}
		m.nextCol++
		at, place := len(m.columns), ""
		if m.rng.IntN(3) == 0 {
			at = 1 + m.rng.IntN(len(m.columns))
			place = " AFTER " + m.columns[at-1].name
		}
		m.columns = slices.Insert(slices.Clone(m.columns), at, c)
		return h.alter("ADD COLUMN %s %s%s", c.name, c.sqlType(), place)
	case 2:
		i := 1 + m.rng.IntN(len(m.columns)-1)
		m.renames++
		from, to := m.columns[i].name, fmt.Sprintf("r%d", m.renames)
		m.columns = slices.Clone(m.columns)
		m.columns[i].name = to
		return h.alter("RENAME COLUMN %s TO %s", from, to)
	case 3:
		for i, c := range m.columns {
			to := map[string]string{"int": "long", "decimal(10, 2)": "decimal(18, 2)"}[c.typ]
			if to == "" {
				continue
			}
			m.columns = slices.Clone(m.columns)
			m.columns[i].typ = to
			return h.alter("ALTER COLUMN %s TYPE %s", c.name, m.columns[i].sqlType())
		}
	case 4:
		i := slices.IndexFunc(m.columns, func(c column) bool { return c.id > colAt })
		if i < 0 || len(m.columns) < 6 {
			return ""
		}
		c := m.columns[i]
		m.columns = slices.Delete(slices.Clone(m.columns), i, i+1)
		for _, rs := range m.refs {
			for _, r := range rs {
				delete(r, c.id)
			}
		}
		return h.alter("DROP COLUMN %s", c.name)
	}
	return ""
}

// partitionField draws a field of a partition spec.
func (m *model) partitionField() string {
	return [...]string{
		m.name(colCat), fmt.Sprintf("bucket(%d, id)", 2+m.rng.IntN(3)), fmt.Sprintf("truncate(%d, id)", 50+50*m.rng.IntN(3)), "days(" + m.name(colAt) + ")",
		"months(" + m.name(colAt) + ")", fmt.Sprintf("truncate(1, %s)", m.name(colCat)),
	}[m.rng.IntN(6)]
}

// alterPartitions sets, adds or drops a field.
func (h *history) alterPartitions() string {
	m := h.m
	if len(m.fields) > 0 && m.rng.IntN(2) == 0 {
		i := m.rng.IntN(len(m.fields))
		field := m.fields[i]
		m.fields = slices.Delete(m.fields, i, i+1)
		return h.alter("DROP PARTITION FIELD %s", h.current(field))
	}
	field := m.partitionField()
	if len(m.fields) >= 2 || slices.ContainsFunc(m.fields, func(f string) bool { return h.current(f) == field || sameTransform(h.current(f), field) }) {
		return ""
	}
	m.fields = append(m.fields, h.stable(field))
	return h.alter("ADD PARTITION FIELD %s", field)
}

// sameTransform says whether Iceberg takes the fields for redundant or gives them one name.
func sameTransform(a, b string) bool {
	kind := func(f string) string {
		column := f[strings.LastIndexAny(f, "( ,")+1:]
		if strings.Contains(f, "days(") || strings.Contains(f, "months(") {
			return "time"
		}
		return strings.Split(f, "(")[0] + strings.TrimSuffix(column, ")")
	}
	return kind(a) == kind(b)
}

// stable and current keep fields across renames: names of columns as IDs.
func (h *history) stable(field string) string {
	for _, id := range []int{colCat, colAt} {
		field = replaceWord(field, h.m.name(id), "#"+strconv.Itoa(id))
	}
	return field
}

func (h *history) current(field string) string {
	for _, id := range []int{colCat, colAt} {
		field = strings.ReplaceAll(field, "#"+strconv.Itoa(id), h.m.name(id))
	}
	return field
}

func replaceWord(text, word, by string) string {
	if text == word {
		return by
	}
	for _, end := range []string{"(" + word + ")", " " + word + ")"} {
		text = strings.ReplaceAll(text, end, end[:1]+by+")")
	}
	return text
}

func (h *history) writeOrder() string {
	if h.m.rng.IntN(4) == 0 {
		return h.alter("WRITE UNORDERED")
	}
	return h.alter("WRITE LOCALLY ORDERED BY %s, id DESC", h.m.name([]int{colCat, colAt}[h.m.rng.IntN(2)]))
}

// propertyList has table properties and the values that steps give them.
func propertyList() [][]string {
	return [][]string{
		{"write.delete.mode", "merge-on-read", "copy-on-write"},
		{"write.update.mode", "merge-on-read", "copy-on-write"},
		{"write.merge.mode", "merge-on-read", "copy-on-write"},
		{"write.delete.granularity", "file", "partition"},
		{"write.metadata.delete-after-commit.enabled", "true", "false"},
		{"write.metadata.previous-versions-max", "2", "5"},
		{"write.metadata.compression-codec", "gzip", "none"},
		{"write.parquet.compression-codec", "zstd", "snappy", "gzip", "uncompressed"},
		{"commit.manifest-merge.enabled", "false", "true"},
		{"commit.manifest.min-count-to-merge", "2", "100"},
		{"write.metadata.metrics.default", "counts", "truncate(16)", "full", "none"},
		{"write.object-storage.enabled", "true", "false"},
		{"write.parquet.row-group-size-bytes", "4096", "134217728"},
		{"write.parquet.page-size-bytes", "512", "1048576"},
		{"write.target-file-size-bytes", "20000", "536870912"},
	}
}

func (h *history) alterProperties() string {
	all := propertyList()
	p := all[h.m.rng.IntN(len(all))]
	if h.m.rng.IntN(2) == 0 {
		p = all[h.m.rng.IntN(4)]
	}
	return h.alter("SET TBLPROPERTIES ('%s' = '%s')", p[0], p[1+h.m.rng.IntN(len(p)-1)])
}

// alterRefs makes, moves or drops a branch or a tag.
func (h *history) alterRefs() string {
	m := h.m
	if len(m.refs["main"]) == 0 {
		return ""
	}
	_, branched := m.refs["b"]
	switch k := m.rng.IntN(6); {
	case k < 2 && !branched:
		m.refs["b"] = m.refs["main"].clone()
		return h.alter("CREATE BRANCH b")
	case k == 2 && branched:
		delete(m.refs, "b")
		return h.alter("DROP BRANCH b")
	case k == 3 && branched:
		delete(m.refs, "b")
		m.refs["b"] = m.refs["main"].clone()
		return h.alter("REPLACE BRANCH b")
	}
	name := "t" + strconv.Itoa(m.rng.IntN(2))
	if _, tagged := m.tags[name]; tagged {
		delete(m.tags, name)
		return h.alter("DROP TAG %s", name)
	}
	m.tags[name] = m.refs["main"].clone()
	return h.alter("CREATE TAG %s", name)
}

func (h *history) upgrade() string {
	if h.m.version == 3 {
		return ""
	}
	h.m.version = 3
	return h.alter("SET TBLPROPERTIES ('format-version' = '3')")
}
