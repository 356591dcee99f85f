package main

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"firn/internal/icebergtest"
)

// TestSeedFigure10000Manifests plans over 100,000 data files in 10,000 manifests in 3 s of CPU and 200 MB of memory, rewrites the manifests in 60 s
// and 300 MB, and plans again.
func TestSeedFigure10000Manifests(t *testing.T) {
	if os.Getenv("FIRN_BIG") == "" {
		t.Skip("writes 10,000 manifests: set FIRN_BIG=1")
	}
	b := newBench(t)
	tbl := icebergtest.NewLocalWorld(t).Scattered(10_000, 10)
	b.must("register", "--table", "db.t", "--metadata-location", tbl.Pointer().MetadataLocation)
	for _, step := range []struct {
		name   string
		args   []string
		cpu    time.Duration
		peak   int64
		column string
		want   string
	}{
		{"plan", []string{"rewrite_data_files", "--dry-run"}, 3 * time.Second, 200 << 20, "", ""},
		{"rewrite", []string{"rewrite_manifests"}, 60 * time.Second, 300 << 20, "rewritten_manifests_count", "10000"},
		{"plan again", []string{"rewrite_data_files", "--dry-run"}, 3 * time.Second, 200 << 20, "", ""},
	} {
		got, state, peak := b.program(append(append([]string{"call"}, step.args...), "--table", "db.t", "--json")...)
		cpu := state.UserTime() + state.SystemTime()
		t.Logf("%s: %v of CPU, peak memory %d MB", step.name, cpu, peak>>20)
		if got.code != exitDone {
			t.Fatalf("%s: exit %d\n%s%s", step.name, got.code, got.stdout, got.stderr)
		}
		if cpu > step.cpu || peak > step.peak {
			t.Errorf("%s: %v of CPU, %d MB: want at most %v and %d MB", step.name, cpu, peak>>20, step.cpu, step.peak>>20)
		}
		if object := b.object(got); step.column != "" && object[step.column] != json.Number(step.want) {
			t.Errorf("%s: result %v", step.name, object)
		}
	}
}
