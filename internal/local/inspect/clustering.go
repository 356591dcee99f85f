package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/iceberg-go/table"

	"firn/internal/decide/where"
	"firn/internal/lake"
	"firn/internal/maintenance"
)

const (
	// deepClustering is the depth from which on files overlap so much that a sort pays: a query for one value then reads that many files instead of one
	// or two. Fewer than minClusteredFiles files of a partition are not worth it.
	deepClustering    = 8
	minClusteredFiles = 16
)

// Clustering tells how far the data files of the worst partition follow the first column of the table's sort order.
type Clustering struct {
	Partition string `json:"partition"`
	Column    string `json:"column"`
	// Files are the partition's data files with bounds of the column. Depth is in how many of them a value of the column is looked for on average: 1 when no
	// two files overlap, Files when all do.
	Files int64   `json:"files"`
	Depth float64 `json:"depth"`
}

// clusters collects the bounds of the sort order's first column.
type clusters struct {
	column where.Column
	spans  map[string][]span
}

// span is a file's range of the column.
type span struct{ lower, upper where.Value }

// newClusters is nil for a table without a sort order, or with one whose first field does not keep the order of a column (bucket).
func (v *View) newClusters() (*clusters, error) {
	schema, err := v.Table.WhereSchema()
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(v.Table.Metadata.SortOrders(), func(o table.SortOrder) bool { return o.OrderID() == v.Table.Metadata.DefaultSortOrder() })
	if at < 0 || v.Table.Metadata.SortOrders()[at].Len() == 0 {
		return nil, nil
	}
	first := v.Table.Metadata.SortOrders()[at].Field(0)
	column := slices.IndexFunc(schema.Columns, func(c where.Column) bool { return slices.Equal(first.SourceIDs, []int{c.FieldID}) })
	if column < 0 || strings.HasPrefix(first.Transform.String(), "bucket") {
		return nil, nil
	}
	return &clusters{column: schema.Columns[column], spans: map[string][]span{}}, nil
}

// add notes a data file of a partition.
func (c *clusters) add(partition string, e lake.Entry) {
	if c == nil {
		return
	}
	lower, ok := c.column.Bound(e.File.LowerBoundValues()[c.column.FieldID])
	upper, ok2 := c.column.Bound(e.File.UpperBoundValues()[c.column.FieldID])
	if ok && ok2 {
		c.spans[partition] = append(c.spans[partition], span{lower, upper})
	}
}

// worst is the partition of the greatest depth; nil when nothing is known.
func (c *clusters) worst() *Clustering {
	if c == nil {
		return nil
	}
	var out *Clustering
	for partition, spans := range c.spans {
		d := depth(spans)
		if out == nil || cmp.Or(cmp.Compare(d, out.Depth), cmp.Compare(out.Partition, partition)) > 0 {
			out = &Clustering{Partition: partition, Column: c.column.Name(), Files: int64(len(spans)), Depth: d}
		}
	}
	return out
}

// depth is the mean, over the files' lower bounds, of the number of files that hold the value.
func depth(spans []span) float64 {
	compare := func(a, b where.Value) int {
		c, _ := where.Compare(a, b)
		return c
	}
	lowers, uppers := make([]where.Value, len(spans)), make([]where.Value, len(spans))
	for i, s := range spans {
		lowers[i], uppers[i] = s.lower, s.upper
	}
	slices.SortFunc(lowers, compare)
	slices.SortFunc(uppers, compare)
	total, begun, ended := 0, 0, 0
	for _, value := range lowers {
		for begun < len(lowers) && compare(lowers[begun], value) <= 0 {
			begun++
		}
		for ended < len(uppers) && compare(uppers[ended], value) < 0 {
			ended++
		}
		total += begun - ended
	}
	return float64(total) / float64(max(len(spans), 1))
}

// askForSort turns a deep clustering into what the table asks for. No trigger starts such a sort, since it rewrites the whole table: a person does.
func (h *Health) askForSort() {
	c := h.Clustering
	if c == nil || c.Depth < deepClustering || c.Files < minClusteredFiles || slices.Contains(h.AsksFor, string(maintenance.RewriteDataFiles)) {
		return
	}
	reason := fmt.Sprintf("files overlap: a value of %s is in the range of %.0f of the %d files of a partition; a sort by the table's order, or a z-order, separates them",
		c.Column, c.Depth, c.Files)
	for i, d := range h.Due {
		if d.Job == string(maintenance.RewriteDataFiles) {
			h.Due[i] = Due{Job: d.Job, Due: true, Reason: reason, Call: "CALL system.rewrite_data_files(table => '" + h.name +
				"', strategy => 'sort', options => map('rewrite-all', 'true'))"}
		}
	}
	h.AsksFor = append([]string{string(maintenance.RewriteDataFiles)}, h.AsksFor...)
}

// Automatic lists the jobs that a run of the chain would do: those that the table asks for without a call by hand.
func (h *Health) Automatic() []string {
	jobs := []string{}
	for _, d := range h.Due {
		if d.Due && d.Call == "" {
			jobs = append(jobs, d.Job)
		}
	}
	return jobs
}
