package lake_test

import (
	"context"
	"testing"
	"time"

	"github.com/apache/iceberg-go"

	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/lake/peek"
	"firn/internal/store"
)

// FuzzManifest feeds broken manifests and manifest lists: any error will do, a panic or an endless stream will not.
func FuzzManifest(f *testing.F) {
	for _, name := range []string{"part_multi", "manifests_v1", "eq_mixed"} {
		ref := icebergtest.Reference(f, name)
		head := ref.Table(f).Metadata.CurrentSnapshot()
		list, err := ref.Store.Get(context.Background(), head.ManifestList)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(list)
		manifests, err := lake.Manifests(context.Background(), ref.Store, head)
		if err != nil {
			f.Fatal(err)
		}
		data, err := ref.Store.Get(context.Background(), manifests[0].FilePath())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		ctx, st := context.Background(), store.NewMemory(time.Now)
		if err := st.Put(ctx, "s3://b/m", data, store.WriteOptions{}); err != nil {
			return
		}
		_, _ = peek.ManifestList(ctx, st, "s3://b/m")
		for _, content := range []iceberg.ManifestContent{iceberg.ManifestContentData, iceberg.ManifestContentDeletes} {
			m := iceberg.NewManifestFile(3, "s3://b/m", int64(len(data)), 0, 1).Content(content).SequenceNum(1, 1).Build()
			for _, opts := range []lake.EntryOptions{{}, {WithoutStats: true}} {
				for e, err := range lake.Entries(ctx, st, m, opts) {
					if err != nil {
						break
					}
					lake.FileScoped(e.File)
				}
			}
		}
	})
}
