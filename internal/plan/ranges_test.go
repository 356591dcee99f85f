package plan

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"firn/internal/store"
)

// TestRangesCoverEveryKeyOnce: whatever the sample says, each object under the prefix is in exactly one range, and siblings are in none. Keys at the
// borders and odd ones are among them.
func TestRangesCoverEveryKeyOnce(t *testing.T) {
	const prefix = "mem://lake/db/t/"
	names := []string{
		"data/a", "data/a/", "data/a/b", "data/a0", "data/a b", "data/%2F", "data/\U0010FFFF", "data/é", "metadata/v1", "metadata/v1.json", "~", "0",
	}
	rapid.Check(t, func(t *rapid.T) {
		ctx, st := context.Background(), store.NewMemory(time.Now)
		var want, sample []string
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, len(names), rapid.ID[string]).Draw(t, "objects") {
			want = append(want, prefix+name)
			if rapid.Bool().Draw(t, "sampled") {
				sample = append(sample, prefix+name)
			}
		}
		for _, name := range rapid.SliceOf(rapid.SampledFrom(names)).Draw(t, "gone") {
			sample = append(sample, prefix+name)
		}
		sample = append(sample, "mem://other/db/t/x", "mem://lake/db/t2/x", "no location")
		for _, location := range append([]string{"mem://lake/db/t2/x", "mem://lake/db/t0"}, want...) {
			if err := st.Put(ctx, location, nil, store.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		wanted := rapid.IntRange(1, 8).Draw(t, "ranges")
		ranges := keyRanges(prefix, cuts(prefix, sample, wanted))
		if len(ranges) > wanted {
			t.Fatalf("%d ranges, wanted %d", len(ranges), wanted)
		}
		var got []string
		for _, r := range ranges {
			for info, err := range st.List(ctx, r.Prefix, store.ListOptions{StartAfter: r.StartAfter, EndAt: r.EndAt}) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, info.Location)
			}
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("ranges %+v list %q, want %q", ranges, got, want)
		}
	})
}

// TestCutsAreEven: a path in another spelling of the scheme counts, and cuts lie at quantiles in the prefix's spelling.
func TestCutsAreEven(t *testing.T) {
	var paths []string
	for i := range 1000 {
		paths = append(paths, fmt.Sprintf("s3a://lake/t/data/%04d.parquet", i))
	}
	got := cuts("s3://lake/t/", paths, 4)
	if want := []string{"s3://lake/t/data/0250.parquet", "s3://lake/t/data/0500.parquet", "s3://lake/t/data/0750.parquet"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
