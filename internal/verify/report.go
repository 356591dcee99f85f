package verify

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"firn/internal/maintenance"
)

// Verdict is what a comparison found.
type Verdict string

// The verdicts.
const (
	// Equal: the snapshot has its parent's rows.
	Equal Verdict = "equal"
	// Different: it has not.
	Different Verdict = "different"
	// Unverifiable: the two cannot be compared.
	Unverifiable Verdict = "unverifiable"
)

// Kind says what happened to a row.
type Kind string

// The kinds of faults.
const (
	// Resurrected rows were deleted in the parent and are live in the snapshot.
	Resurrected Kind = "resurrected"
	// Lost rows are live in the parent and not in the snapshot.
	Lost Kind = "lost"
	// Duplicated rows are live more often than in the parent.
	Duplicated Kind = "duplicated"
	// Appeared rows are in no file of the parent that differs. A row of which a value changed is lost and appeared.
	Appeared Kind = "appeared"
)

// Report is what a comparison of a snapshot with its parent found.
type Report struct {
	Table          string    `json:"table"`
	SnapshotID     int64     `json:"snapshot_id,string"`
	ParentID       int64     `json:"parent_id,string,omitempty"`
	SequenceNumber int64     `json:"sequence_number"`
	CommittedAt    time.Time `json:"committed_at"`
	Operation      string    `json:"operation"`
	// Engine, RunID and Job say who made the snapshot, as its summary says.
	Engine string            `json:"engine,omitempty"`
	RunID  maintenance.RunID `json:"run_id,omitempty"`
	Job    maintenance.Job   `json:"job,omitempty"`

	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason,omitempty"`
	// FilesBefore and FilesAfter were read of the parent and of the snapshot; rows are those that are live in them.
	FilesBefore int   `json:"files_before"`
	FilesAfter  int   `json:"files_after"`
	RowsBefore  int64 `json:"rows_before"`
	RowsAfter   int64 `json:"rows_after"`
	// Columns are the columns that differ; ColumnsCompared were compared.
	ColumnsCompared int      `json:"columns_compared"`
	Columns         []Column `json:"columns,omitempty"`
	// RowLineage is "kept", "changed", or "" when the files have none.
	RowLineage string `json:"row_lineage,omitempty"`
	// Counts are the faulty rows by kind; Rows name the first ones of each.
	Counts map[Kind]int64 `json:"counts,omitempty"`
	Rows   []Row          `json:"rows,omitempty"`
}

// Column is a column whose values differ.
type Column struct {
	FieldID     int    `json:"field_id"`
	Name        string `json:"name"`
	NullsBefore int64  `json:"nulls_before"`
	NullsAfter  int64  `json:"nulls_after"`
}

// Row is a faulty row, and where it was found: a lost one in a file of the parent, others in a file of the snapshot.
type Row struct {
	Kind Kind `json:"kind"`
	// Times is how often it is lost or too many.
	Times    int64           `json:"times"`
	File     string          `json:"file"`
	Position int64           `json:"position"`
	Values   json.RawMessage `json:"values"`
}

// Audit is the result for all rewrites of a table's history.
type Audit struct {
	Table        string   `json:"table"`
	Equal        int      `json:"equal"`
	Different    int      `json:"different"`
	Unverifiable int      `json:"unverifiable"`
	Snapshots    []Report `json:"snapshots"`
}

func (a *Audit) add(r Report) {
	switch r.Verdict {
	case Equal:
		a.Equal++
	case Different:
		a.Different++
	case Unverifiable:
		a.Unverifiable++
	}
	a.Snapshots = append(a.Snapshots, r)
}

// Text prints the report for people.
func (r Report) Text(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	line("table", "%s", r.Table)
	line("snapshot", "%d, %s, %s%s", r.SnapshotID, r.Operation, r.CommittedAt.Format(time.RFC3339), r.by())
	if r.ParentID != 0 {
		line("parent", "%d", r.ParentID)
	}
	line("verdict", "%s", r.Verdict)
	if r.Reason != "" {
		line("reason", "%s", r.Reason)
	}
	if r.Verdict != Unverifiable {
		line("read", "%d files of the parent, %d of the snapshot; %d columns", r.FilesBefore, r.FilesAfter, r.ColumnsCompared)
		line("live rows in them", "%d before, %d after", r.RowsBefore, r.RowsAfter)
	}
	if r.RowLineage != "" {
		line("row lineage", "%s", r.RowLineage)
	}
	for _, k := range kinds() {
		if n := r.Counts[k]; n > 0 {
			line(string(k), "%d rows", n)
		}
	}
	for _, c := range r.Columns {
		line("column", "%s (%d) differs; %d nulls before, %d after", c.Name, c.FieldID, c.NullsBefore, c.NullsAfter)
	}
	for _, row := range r.Rows {
		times := ""
		if row.Times > 1 {
			times = fmt.Sprintf(" %d times", row.Times)
		}
		line(string(row.Kind)+times, "%s  (row %d of %s)", row.Values, row.Position, row.File)
	}
	return w.Flush()
}

func kinds() []Kind { return []Kind{Resurrected, Lost, Duplicated, Appeared} }

func (r Report) by() string {
	var parts []string
	if r.Engine != "" {
		parts = append(parts, r.Engine)
	}
	if r.RunID != "" {
		parts = append(parts, fmt.Sprintf("%s of run %s", r.Job, r.RunID))
	}
	if len(parts) == 0 {
		return ""
	}
	return ", by " + strings.Join(parts, ", ")
}

// Text prints the audit for people: one line a snapshot, then the whole report of each that differs.
func (a Audit) Text(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "snapshot\tcommitted\tverdict\trows\tby\tremark")
	for _, r := range a.Snapshots {
		var remarks []string
		for _, k := range kinds() {
			if n := r.Counts[k]; n > 0 {
				remarks = append(remarks, fmt.Sprintf("%d %s", n, k))
			}
		}
		if r.Reason != "" {
			remarks = append(remarks, r.Reason)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\t%s\n", r.SnapshotID, r.CommittedAt.Format(time.RFC3339), r.Verdict, r.RowsAfter,
			strings.TrimPrefix(r.by(), ", by "), strings.Join(remarks, "; "))
	}
	fmt.Fprintf(w, "%d rewrites: %d equal, %d different, %d unverifiable\n", len(a.Snapshots), a.Equal, a.Different, a.Unverifiable)
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range a.Snapshots {
		if r.Verdict != Different {
			continue
		}
		if _, err := fmt.Fprintln(out); err != nil {
			return err
		}
		if err := r.Text(out); err != nil {
			return err
		}
	}
	return nil
}
