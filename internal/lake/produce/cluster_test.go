package produce

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/lake/manifest"
	"firn/internal/store"
)

// many is an attempt on a table with n manifests of a few entries each, scattered over partitions, that clusters them into pieces.
func many(t testing.TB, manifests, entries, pieces int) (*icebergtest.World, Attempt) {
	t.Helper()
	ctx := context.Background()
	w := icebergtest.NewWorld(t)
	tbl := w.NewTable("db.t", icebergtest.Partitioned("g"))
	tbl.Commit(icebergtest.Append(row(1, "a")))
	state := tbl.State()
	spec, schema := state.Metadata.PartitionSpec(), state.Metadata.CurrentSchema()
	a := Attempt{Table: state, Parent: state.Metadata.CurrentSnapshot(), SnapshotID: 77, Now: w.Clock.Now(), Rewrite: map[string]bool{}}
	a.Cluster = &Clustering{SpecID: spec.ID(), Pieces: map[iceberg.ManifestContent]int{iceberg.ManifestContentData: pieces}}
	layout, err := manifest.NewLayout(2, spec, schema)
	must(t, err)
	for i := range manifests {
		location := fmt.Sprintf("s3://world/metadata/m-%d.avro", i)
		m, err := layout.NewWriter(iceberg.ManifestContentData, a.Parent.SnapshotID, location)
		must(t, err)
		for j := range entries {
			f, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, fmt.Sprintf("s3://world/data/%d-%d.parquet", i, j), iceberg.ParquetFile,
				map[int]any{1000: fmt.Sprintf("g%03d", (i*entries+j)*37%101)}, nil, nil, 10, 1000)
			must(t, err)
			must(t, m.Existing(manifest.Entry{File: f.Build(), SnapshotID: a.Parent.SnapshotID, DataSequence: 1, FileSequence: 1}))
		}
		data, file, err := m.Close(location)
		must(t, err)
		must(t, w.Store.Put(ctx, location, data, store.WriteOptions{}))
		a.Manifests = append(a.Manifests, file)
		a.Rewrite[location] = true
	}
	// Read back through a list, as commits get them.
	var list bytes.Buffer
	lw, err := iceberg.NewManifestListWriterV2(&list, a.Parent.SnapshotID, 1, nil)
	must(t, err)
	must(t, lw.AddManifests(a.Manifests))
	must(t, lw.Close())
	a.Manifests, err = iceberg.ReadManifestList(&list)
	must(t, err)
	return w, a
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestClusterInWindows: windows that are smaller than an output, and outputs that are smaller than a window, give the same order; no partition is
// in two manifests unless it is longer than one.
func TestClusterInWindows(t *testing.T) {
	for _, c := range []struct {
		pieces int
		target int64
		least  int
	}{{1, 8 << 20, 1}, {7, 8 << 20, 7}, {1, 1000, 5}, {7, 1, 300}} {
		w, a := many(t, 60, 5, c.pieces)
		a.Cluster.TargetBytes = c.target
		product, err := (&Producer{Store: w.Store, NewUUID: uuid.NewRandom}).Snapshot(context.Background(), a)
		must(t, err)
		manifests, err := lake.Manifests(context.Background(), w.Store, product.Snapshot)
		must(t, err)
		var groups, paths []string
		for i, m := range manifests {
			for e, err := range lake.Entries(context.Background(), w.Store, m, lake.EntryOptions{}) {
				must(t, err)
				groups = append(groups, e.File.Partition()[1000].(string))
				paths = append(paths, e.File.FilePath())
			}
			bounds := m.Partitions()[0]
			if i > 0 && c.target > 1<<20 && string(*bounds.LowerBound) <= string(*manifests[i-1].Partitions()[0].UpperBound) {
				t.Errorf("%d pieces: manifest %d begins at %s", c.pieces, i, *bounds.LowerBound)
			}
		}
		if !slices.IsSorted(groups) || len(groups) != 300 || len(manifests) < c.least || product.ReplacedManifests != 60 {
			t.Errorf("%+v: %d manifests of %d entries, in order: %v", c, len(manifests), len(groups), slices.IsSorted(groups))
		}
		slices.Sort(paths)
		if len(slices.Compact(paths)) != 300 {
			t.Errorf("%+v: entries were doubled", c)
		}
	}
}

// TestSeedFigure900Manifests: 900 manifests, each with files from all over the days, become six; a query for a day then opens one or two of them
// instead of nearly all, as the bounds in the list tell any engine, and reads at most a twentieth of the objects.
func TestSeedFigure900Manifests(t *testing.T) {
	w, a := many(t, 900, 10, 6)
	product, err := (&Producer{Store: w.Store, NewUUID: uuid.NewRandom}).Snapshot(context.Background(), a)
	must(t, err)
	manifests, err := lake.Manifests(context.Background(), w.Store, product.Snapshot)
	must(t, err)
	if len(manifests) > 6 || product.ReplacedManifests != 900 {
		t.Errorf("%d manifests are %d now, want at most 6", product.ReplacedManifests, len(manifests))
	}
	for day := range 101 {
		before, after := opened(a.Manifests, day), opened(manifests, day)
		if after < 1 || after > 2 || before < 20*after {
			t.Errorf("day %d: %d manifests are opened, %d before", day, after, before)
		}
	}
}

// opened counts the manifests that may hold a file of a day.
func opened(manifests []iceberg.ManifestFile, day int) int {
	n, value := 0, fmt.Sprintf("g%03d", day)
	for _, m := range manifests {
		if s := m.Partitions()[0]; string(*s.LowerBound) <= value && value <= string(*s.UpperBound) {
			n++
		}
	}
	return n
}

// TestPieces: every entry is in one piece, there are at most as many as wanted, and no partition is cut.
func TestPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places := make([]place, rapid.IntRange(1, 60).Draw(t, "entries"))
		for i := range places {
			places[i].rank = int32(rapid.IntRange(0, 9).Draw(t, "rank"))
		}
		slices.SortFunc(places, func(a, b place) int { return int(a.rank - b.rank) })
		wanted, plain := rapid.IntRange(1, 12).Draw(t, "wanted"), rapid.Bool().Draw(t, "unpartitioned")
		made := 0
		ends := pieces(places, wanted, plain)
		for i, end := range ends {
			if end {
				made++
			}
			if end && !plain && i+1 < len(places) && places[i].rank == places[i+1].rank {
				t.Fatalf("partition %d is cut", places[i].rank)
			}
		}
		if !ends[len(ends)-1] || made > wanted || plain && made != min(wanted, len(places)) {
			t.Fatalf("%d pieces of %d entries: want %d", made, len(places), wanted)
		}
	})
}

func TestOrderOfPartitionValues(t *testing.T) {
	for _, ascending := range [][]any{
		{nil, int32(-5), int32(2), int32(10)},
		{nil, iceberg.Date(-1), iceberg.Date(9), iceberg.Date(10)},
		{nil, math.Inf(-1), -1.0, 2.0, math.NaN()},
		{nil, false, true},
		{nil, "", "B", "a"},
		{nil, []byte{}, []byte{1}, []byte{0x80}},
		{nil, uuid.UUID{1}, uuid.UUID{0x90}},
		{nil, [2]byte{1, 9}, [2]byte{2, 0}},
	} {
		for i, a := range ascending {
			for j, b := range ascending {
				if got := manifest.CompareValues(a, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
					t.Errorf("%v to %v: %d", a, b, got)
				}
			}
		}
	}
}

// BenchmarkOneDay plans a query for one day over 900 manifests and over what they are rewritten to, in memory: the time of decoding alone, without that of
// the requests, of which there are at most a twentieth. Another engine's times stand in docs/scale.md.
func BenchmarkOneDay(b *testing.B) {
	w, a := many(b, 900, 10, 6)
	product, err := (&Producer{Store: w.Store, NewUUID: uuid.NewRandom}).Snapshot(context.Background(), a)
	must(b, err)
	after, err := lake.Manifests(context.Background(), w.Store, product.Snapshot)
	must(b, err)
	for name, manifests := range map[string][]iceberg.ManifestFile{"before": a.Manifests, "after": after} {
		b.Run(name, func(b *testing.B) {
			files := 0
			for b.Loop() {
				var memo lake.Memo
				files = 0
				for _, m := range manifests {
					if opened([]iceberg.ManifestFile{m}, 50) == 0 {
						continue
					}
					for e, err := range lake.Entries(context.Background(), w.Store, m, lake.EntryOptions{WithoutStats: true, Memo: &memo}) {
						must(b, err)
						if e.File.Partition()[1000] == "g050" {
							files++
						}
					}
				}
			}
			b.ReportMetric(float64(files), "files")
		})
	}
}

func BenchmarkCluster(b *testing.B) {
	w, a := many(b, 10_000, 10, 9)
	p := &Producer{Store: w.Store, NewUUID: uuid.NewRandom}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Snapshot(context.Background(), a); err != nil {
			b.Fatal(err)
		}
	}
}
