package inspect

import (
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
)

//go:embed page.gohtml
var pageText string // embedded text

// maxPageRows bounds each view on the page.
const maxPageRows = 200

// pageTable is a view as the page shows it.
type pageTable struct {
	Name    string
	Columns []string
	Rows    [][]string
	// More counts rows that are left out.
	More int
}

// WriteHTML writes a page of its own, without any request to elsewhere: the health, and the short views.
func (v *View) WriteHTML(ctx context.Context, out io.Writer, h Health) error {
	page, err := template.New("page").Funcs(template.FuncMap{"size": Size}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("read page template: %w", err)
	}
	var tables []pageTable
	for _, name := range []string{"snapshots", "refs", "partitions", "manifests"} {
		rows, err := v.Rows(ctx, name)
		if err != nil {
			return err
		}
		tables = append(tables, pageTableOf(rows))
	}
	if err := page.Execute(out, map[string]any{"Health": h, "Tables": tables}); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

func pageTableOf(r Rows) pageTable {
	t := pageTable{Name: r.View, More: max(0, len(r.Rows)-maxPageRows)}
	var shown []int
	for i, name := range r.Columns {
		if !slices.Contains(r.Wide, name) {
			shown, t.Columns = append(shown, i), append(t.Columns, name)
		}
	}
	for _, row := range r.Rows[:min(maxPageRows, len(r.Rows))] {
		cells := make([]string, 0, len(shown))
		for _, i := range shown {
			cells = append(cells, Cell(row[i]))
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// Cell spells a value of a view for people.
func Cell(v any) string {
	if v == nil {
		return "null"
	}
	return fmt.Sprint(v)
}

// Size spells a number of bytes for people.
func Size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, units := float64(n), "KMGTPE"
	for i := range units {
		if value /= unit; value < unit || i == len(units)-1 {
			return fmt.Sprintf("%.1f %ciB", value, units[i])
		}
	}
	return ""
}
