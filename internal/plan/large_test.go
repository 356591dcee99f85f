package plan_test

import (
	"fmt"
	"os"
	"path"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/maintenance"
	"firn/internal/plan"
	"firn/internal/store"
)

// TestLargePlan plans a rewrite of every file of a table: 100,000 files in 10,000 manifests with FIRN_BIG=1, in 3 s on two cores and 200 MB of memory, what this
// process held before included; a thousand files without figures otherwise. The groups hold every file.
func TestLargePlan(t *testing.T) {
	big, manifests := os.Getenv("FIRN_BIG") == "1", 100
	w, work, at := icebergtest.NewWorld(t), store.ReadWriter(store.NewMemory(time.Now)), workLocation
	if big {
		manifests, w, work, at = 10_000, icebergtest.NewLocalWorld(t), store.NewLocal(), "file://"+t.TempDir()
	}
	tbl := w.Scattered(manifests, 10)
	d := newDesk(t, w, tbl, func(deps *plan.Deps) { deps.Work, deps.WorkLocation = work, at })
	defer debug.SetGCPercent(debug.SetGCPercent(80)) // the programs'
	if big {
		debug.FreeOSMemory()
		forget(t)
	}
	before, start := used(t), time.Now()
	out := d.next(t, rewrite(map[string]string{"rewrite-all": "true"}), maintenance.Cursor{})
	if big {
		took, cpu, peak := time.Since(start), used(t)-before, peakMemory(t)
		t.Logf("%d files in %d groups: %v, %v of CPU, peak memory %d MB", manifests*10, out.ItemCount, took, cpu, peak>>20)
		if took > 3*time.Second || peak > 200<<20 {
			t.Errorf("%v, %d MB: want at most 3 s and 200 MB", took, peak>>20)
		}
	}
	if out.Next != maintenance.NextCompact || out.ItemCount != 365 {
		t.Errorf("next %s, %d groups: want one a partition", out.Next, out.ItemCount)
	}
	checkGroups(t, handoff.Open(work, at, d.run.RunID), tbl.State(), manifests*10)
}

// checkGroups makes sure that the groups of a job hold every file of a scattered table once, with the statistics of its entry.
func checkGroups(t *testing.T, work *handoff.Work, tbl *lake.Table, want int) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	codec, err := lake.NewFileCodec(tbl.Metadata.PartitionSpec(), tbl.Metadata.CurrentSchema())
	must(err)
	var index handoff.Index
	must(work.Read(t.Context(), work.Index(maintenance.RewriteDataFiles), &index))
	met := map[string]bool{}
	for _, location := range index.Groups {
		var group handoff.Group
		must(work.Read(t.Context(), location, &group))
		for _, in := range group.Inputs {
			f, err := codec.Decode(in.File)
			must(err)
			var n int64
			_, err = fmt.Sscanf(path.Base(in.Path), "%d.parquet", &n)
			must(err)
			if f.FilePath() != in.Path || f.Partition()[1000] != n*37%365 || f.ValueCounts()[16] != 1000+n {
				t.Fatalf("%s became %s of partition %v with %d values", in.Path, f.FilePath(), f.Partition(), f.ValueCounts()[16])
			}
			met[in.Path] = true
		}
	}
	if len(met) != want {
		t.Errorf("%d files are in the groups, want %d", len(met), want)
	}
}

// used is the CPU time of this process.
func used(t *testing.T) time.Duration {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// forget makes the peak of this process's memory its present size.
func forget(t *testing.T) {
	t.Helper()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Skip("no peak memory on this system: ", err)
	}
}

func peakMemory(t *testing.T) (peak int64) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscanf(rest, "%d kB", &peak); err != nil {
		t.Fatal(err)
	}
	return peak << 10
}
