package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"firn/internal/local/demo"
	"firn/internal/local/inspect"
)

// demoCommand makes a lake, lets it decay and heals it.
type demoCommand struct {
	Dir     string `help:"Folder to make the lake in; it must be empty. Default: a temporary folder." placeholder:"DIR" type:"path"`
	Keep    bool   `help:"Keep the lake and print how to look at it."`
	Days    int    `default:"12" help:"Day partitions."`
	Commits int    `default:"10" help:"Commits a day."`
	Rows    int    `default:"1000" help:"Rows a commit."`
}

// Run runs the demo; rows that differ afterwards are a failure.
func (c *demoCommand) Run(a *app) error {
	if c.Days < 1 || c.Commits < 1 || c.Rows < 1 {
		return &usageError{errors.New("read --days, --commits and --rows: each must be at least 1")}
	}
	dir, err := c.dir()
	if err != nil {
		return err
	}
	if !c.Keep {
		defer func() { _ = os.RemoveAll(dir) }()
	}
	fmt.Fprintf(a.stdout, "a lake in %s (SQLite catalog, local files)\n", dir)
	start := a.now()
	result, err := demo.Run(a.ctx, demo.Options{
		Dir: dir, Days: c.Days, CommitsPerDay: c.Commits, RowsPerCommit: c.Rows, Now: a.now, Log: a.logger(),
		Say: func(line string) { fmt.Fprintln(a.stdout, line) },
	})
	if err != nil {
		return fmt.Errorf("run demo in %s: %w", dir, err)
	}
	if err := printMeasures(a, result); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "took %s\n", a.now().Sub(start).Round(100*time.Millisecond))
	if c.Keep {
		fmt.Fprintf(a.stdout, "\nlook around:\n  firn --config %[1]s inspect --table shop.events\n  firn --config %[1]s explain --table shop.events\n", result.ConfigFile)
	}
	if len(result.Differences) > 0 {
		return fmt.Errorf("prove that the rows are the same: they differ: %s", strings.Join(result.Differences, "; "))
	}
	return nil
}

// dir makes the lake's folder.
func (c *demoCommand) dir() (string, error) {
	if c.Dir == "" {
		dir, err := os.MkdirTemp("", "firn-demo-")
		if err != nil {
			return "", fmt.Errorf("make folder of the demo: %w", err)
		}
		return dir, nil
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return "", err
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return "", &usageError{fmt.Errorf("make the lake in %s: the folder is not empty: remove it or name another with --dir", dir)}
	}
	return dir, os.MkdirAll(dir, 0o750)
}

// printMeasures prints the table of before and after, and the proof.
func printMeasures(a *app, r demo.Result) error {
	w := tabwriter.NewWriter(a.stdout, 0, 4, 3, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\n\tbefore\tright after\ta week later\t\n")
	line := func(name string, text func(demo.Measure) string) {
		fmt.Fprintf(w, "%-18s\t%s\t%s\t%s\t\n", name, text(r.Before), text(r.Healed), text(r.After))
	}
	count := func(name string, n func(demo.Measure) int64) {
		line(name, func(m demo.Measure) string { return fmt.Sprint(n(m)) })
	}
	count("data files", func(m demo.Measure) int64 { return m.DataFiles })
	line("average data file", func(m demo.Measure) string { return inspect.Size(m.AverageBytes()) })
	count("delete files", func(m demo.Measure) int64 { return m.DeleteFiles })
	count("manifests", func(m demo.Measure) int64 { return m.Manifests })
	count("snapshots", func(m demo.Measure) int64 { return m.Snapshots })
	count("files on disk", func(m demo.Measure) int64 { return m.FilesOnDisk })
	line("bytes on disk", func(m demo.Measure) string { return inspect.Size(m.BytesOnDisk) })
	line("full scan", func(m demo.Measure) string { return m.ScanTime.Round(time.Millisecond).String() })
	count("rows", func(m demo.Measure) int64 { return m.Content.Rows })
	line("digest of all rows", func(m demo.Measure) string { return m.Content.Digest })
	for i, c := range r.Before.Content.Columns {
		line("nulls in "+c.Name, func(m demo.Measure) string { return fmt.Sprint(m.Content.Columns[i].Nulls) })
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(r.Differences) == 0 {
		fmt.Fprintln(a.stdout, "\nthe rows are the same: number, digest, and nulls, least and greatest value of every column (read by iceberg-go's scan)")
	}
	return nil
}
