//go:build interop

package matrix

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
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

var (
	whole = flag.Bool("whole", false, "run all cells instead of a sample")
	seed  = flag.Uint64("sample", 1, "which sample to run")
)

// sampled is how many ways of writing a sample has, each writer among them: about a minute of CPU time.
const sampled = 5

// way is one way of merging.
type way struct {
	name string
	// properties are the table's; "" keeps the inputs' codec.
	properties map[string]string
	limits     pages.Limits
	delete     bool
	ordering   *maintenance.Ordering
	// tier is where all bytes of native files go: "" where that depends on their pages.
	tier string
}

func ways() []way {
	const groupSize, codec = "write.parquet.row-group-size-bytes", "write.parquet.compression-codec"
	by := &maintenance.Ordering{Fields: []maintenance.OrderingField{{SourceID: 1, Transform: "identity", Descending: true}}}
	return []way{
		{name: "concat", properties: map[string]string{groupSize: "100"}, tier: engine.TierConcat},
		{name: "copy", limits: pages.Limits{FullPageRows: 1}},
		{name: "coalesce", limits: pages.Limits{FullPageRows: 10_000}},
		{name: "filter", limits: pages.Limits{FullPageRows: 1}, delete: true},
		{name: "filter small pages", limits: pages.Limits{FullPageRows: 10_000}, properties: map[string]string{"write.parquet.page-row-limit": "50"}, delete: true},
		{name: "recode", properties: map[string]string{codec: "snappy"}},
		{name: "recode to gzip", properties: map[string]string{codec: "gzip"}},
		{name: "sort", ordering: by},
		{name: "sort and filter", ordering: by, delete: true},
	}
}

// chosen is the sample, or all.
func chosen() (out []variant) {
	all := variants()
	if *whole {
		return all
	}
	rng := rand.New(rand.NewPCG(*seed, 3))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	writers := map[string]bool{}
	for _, v := range all {
		if !writers[v.writer] {
			writers[v.writer] = true
			out = append(out, v)
		}
	}
	for _, v := range all {
		if len(out) < sampled && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// TestMatrix merges the files of each chosen way of writing in each way.
func TestMatrix(t *testing.T) {
	js := judges(t)
	dir := t.TempDir()
	from := map[string][]string{}
	total := newTally()
	known := finished(t, &total)
	for _, v := range chosen() {
		if known[v.String()] {
			continue
		}
		t.Run(v.String(), func(t *testing.T) {
			without := fmt.Sprint(v.without())
			if from[without] == nil {
				from[without] = seeds(t, dir, v.without())
			}
			home := filepath.Join(dir, v.String())
			must(t, os.Mkdir(home, 0o700))
			start, count := time.Now(), newTally()
			mergeAll(t, js, v, v.write(t, js, home, from[without]), &count)
			count.Seconds = time.Since(start).Seconds()
			total.add(count)
			record(t, done{v.String(), count})
			must(t, os.RemoveAll(home))
		})
	}
	total.log(t)
}

// mergeAll merges files in each way, and lets each reader compare the outputs with the inputs.
func mergeAll(t *testing.T, js map[string]*judge, v variant, inputs []string, count *tally) {
	want := map[string][2]facts{}
	for _, reader := range readers(v) {
		var f [2]facts
		for i := range f {
			var err error
			if f[i], err = js[reader].ask(request{Do: "facts", By: reader, Files: inputs, Kept: i == 1}); err != nil {
				t.Fatalf("inputs: %v", err)
			}
		}
		want[reader] = f
	}
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			outputs, result := merge(t, v, w, inputs)
			for reader, f := range want {
				got, err := js[reader].ask(request{Do: "facts", By: reader, Files: outputs, Found: true})
				if err != nil {
					t.Errorf("outputs: %v", err)
					continue
				}
				compare(t, reader, f[index(w.delete)], got, w.ordering != nil)
				count.Compared[reader]++
			}
			count.Cells[v.writer]++
			for tier, n := range result.Tiers {
				count.Tiers[w.name+" "+tier] += n
			}
		})
	}
}

func index(second bool) int {
	if second {
		return 1
	}
	return 0
}

// readers are those that can read what is written so: DuckDB knows BYTE_STREAM_SPLIT of floating-point numbers only.
func readers(v variant) []string {
	if v.encoding == "split" && v.version == 2 {
		return []string{"pyarrow", "java"}
	}
	return []string{"pyarrow", "java", "duckdb"}
}

// merge runs the engine that a group of this kind gets.
func merge(t *testing.T, v variant, w way, inputs []string) ([]string, engine.Result) {
	t.Helper()
	st, log := store.NewLocal(), slog.New(slog.DiscardHandler)
	props := map[string]string{"write.parquet.compression-codec": v.codec, "write.parquet.dict-size-bytes": "2000"}
	maps.Copy(props, w.properties)
	l, err := layout.New(schema(v.without()...), false)
	must(t, err)
	job := engine.Job{
		Run: "run", Attempt: "attempt", Target: &projection.Target{Layout: l}, Spec: *iceberg.UnpartitionedSpec, Location: "file://" + filepath.Dir(inputs[0]) + "/" + strings.ReplaceAll(w.name, " ", "-"),
		Properties: props, MaxOutputFileSizeBytes: 512 << 20, Ordering: w.ordering, ExpectedOutputFiles: 1,
	}
	job.Writer, err = sink.ParseOptions(props, l)
	must(t, err)
	job.Modes, err = metrics.Modes(props, l, nil)
	must(t, err)
	for i, path := range inputs {
		info, err := os.Stat(path)
		must(t, err)
		rows := 0
		for _, n := range sizes[i] {
			rows += n
		}
		b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentData, "file://"+path, iceberg.ParquetFile, nil, nil, nil, int64(rows), info.Size())
		must(t, err)
		in := engine.Input{DataFile: b.Build()}
		if w.delete {
			in.Mask = roaring64.New()
			for row := range rows {
				if deleted(row) == 1 {
					in.Mask.Add(uint64(row))
				}
			}
		}
		job.Inputs = append(job.Inputs, in)
	}
	fallback := arrow.New(st, log, arrow.Limits{})
	var e engine.Engine = pages.New(st, log, w.limits, fallback)
	if w.ordering != nil {
		e = sorted.New(st, log, sorted.Limits{}, sorted.Spill{})
	}
	result, err := e.Rewrite(context.Background(), job)
	if errors.Is(err, engine.ErrRefused) {
		t.Fatalf("refused: %v", err)
	}
	must(t, err)
	if n := result.Tiers[engine.TierFallback]; n > 0 {
		t.Errorf("%d bytes went through the fallback: %s", n, result.Name)
	}
	if w.tier != "" && v.native() && (len(result.Tiers) != 1 || result.Tiers[w.tier] == 0) {
		t.Errorf("%v, want all in %s", result.Tiers, w.tier)
	}
	var paths []string
	for _, f := range result.Outputs {
		paths = append(paths, strings.TrimPrefix(f.FilePath(), "file://"))
	}
	return paths, result
}

// compare holds what a reader finds in outputs against what it found in the inputs.
func compare(t *testing.T, reader string, want, got facts, sorted bool) {
	t.Helper()
	if got.Rows != want.Rows {
		t.Errorf("%s: %d rows, want %d", reader, got.Rows, want.Rows)
	}
	if sorted && !got.Descending {
		t.Errorf("%s: the rows are not in order", reader)
	}
	if !sorted && got.Order != want.Order {
		t.Errorf("%s: the rows are in another order", reader)
	}
	for name, digest := range want.Digests {
		if got.Digests[name] != digest {
			t.Errorf("%s: column %s has other values", reader, name)
		}
	}
	for name, c := range want.Columns {
		g := got.Columns[name]
		if found := []int{c.Nulls, c.MinHits, c.MaxHits}[:len(g.Found)]; !slices.Equal(found, g.Found) {
			t.Errorf("%s: filters of column %s find %v, want %v", reader, name, g.Found, found)
		}
		g.Found, c.Found = nil, nil
		if fmt.Sprint(g) != fmt.Sprint(c) {
			t.Errorf("%s: column %s is %+v, want %+v", reader, name, g, c)
		}
	}
}
