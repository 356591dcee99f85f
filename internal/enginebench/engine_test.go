//go:build bench

package enginebench

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/iceberg-go"

	"firn/internal/compact/arrow"
	"firn/internal/compact/engine"
	"firn/internal/compact/metrics"
	"firn/internal/compact/pages"
	"firn/internal/compact/sorted"
	"firn/internal/maintenance"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/projection"
	"firn/internal/parquet/sink"
	"firn/internal/store"
)

// engineMerge runs the engine that a group gets, without catalog, plan and commit. The workload is the one of the environment.
func engineMerge(files []string, out string) error {
	w, err := named(os.Getenv("BENCH_WORKLOAD"))
	if err != nil {
		return err
	}
	job, err := jobOf(w, files, out)
	if err != nil {
		return err
	}
	st, log := store.NewLocal(), slog.New(slog.DiscardHandler)
	var e engine.Engine = pages.New(st, log, pages.Limits{}, arrow.New(st, log, arrow.Limits{}))
	if job.Ordering != nil {
		e = sorted.New(st, log, sorted.Limits{}, sorted.Spill{Dir: out})
	}
	result, err := e.Rewrite(context.Background(), job)
	if err != nil {
		return err
	}
	fmt.Println(result.Name, result.Tiers)
	return nil
}

func named(name string) (workload, error) {
	for _, w := range workloads() {
		if w.name == name {
			return w, nil
		}
	}
	return workload{}, fmt.Errorf("no workload %q", name)
}

// jobOf is the job of a group with the files.
func jobOf(w workload, files []string, out string) (engine.Job, error) {
	props := map[string]string{}
	for _, p := range w.tableProperties(os.Getenv("BENCH_NO_LEVEL") == "") {
		key, value, _ := strings.Cut(p, "=")
		props[key] = value
	}
	l, err := layout.New(schemaOf(w.inputs), false)
	if err != nil {
		return engine.Job{}, err
	}
	job := engine.Job{
		Run: "run", Attempt: "attempt", Target: &projection.Target{Layout: l}, Spec: *iceberg.UnpartitionedSpec, Location: "file://" + out,
		Properties: props, MaxOutputFileSizeBytes: 4 << 30, ExpectedOutputFiles: 1,
	}
	if w.order != "" {
		job.Ordering = ordering(w, l)
	}
	job.Writer, err = sink.ParseOptions(props, l)
	if err != nil {
		return job, err
	}
	if job.Modes, err = metrics.Modes(props, l, nil); err != nil {
		return job, err
	}
	counts, err := rowCounts(filepath.Dir(filepath.Dir(files[0])))
	if err != nil {
		return job, err
	}
	for i, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			return job, err
		}
		b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentData, "file://"+name, iceberg.ParquetFile, nil, nil, nil, counts[i], info.Size())
		if err != nil {
			return job, err
		}
		job.Inputs = append(job.Inputs, engine.Input{DataFile: b.Build()})
	}
	return job, nil
}

// ordering is the workload's order by names of columns.
func ordering(w workload, l *layout.Layout) *maintenance.Ordering {
	o, transform := &maintenance.Ordering{}, "identity"
	if strings.HasPrefix(w.sortOrder, "zorder") {
		o.Curve, o.VarLengthContributionBytes, o.MaxOutputSizeBytes, transform = maintenance.ZOrder, 8, math.MaxInt32, ""
	}
	for name := range strings.SplitSeq(w.order, ", ") {
		for _, leaf := range l.Leaves {
			if leaf.Path == name {
				o.Fields = append(o.Fields, maintenance.OrderingField{SourceID: leaf.FieldID, Transform: transform})
			}
		}
	}
	return o
}
