package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"firn/internal/icebergtest"
	"firn/internal/lake"
)

// TestMissingMetadata: a manifest, manifest list or metadata file that is gone ends every procedure as a refusal that names it, and the table is
// untouched: it is the table's own damage, and no repetition mends it.
func TestMissingMetadata(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(*testing.T, *icebergtest.Ref) string{
		"manifest":      func(t *testing.T, ref *icebergtest.Ref) string { return manifestsOf(t, ref)[0] },
		"last manifest": func(t *testing.T, ref *icebergtest.Ref) string { list := manifestsOf(t, ref); return list[len(list)-1] },
		"manifest list": func(t *testing.T, ref *icebergtest.Ref) string {
			return ref.Table(t).Metadata.CurrentSnapshot().ManifestList
		},
		"metadata file": func(_ *testing.T, ref *icebergtest.Ref) string { return ref.Expected.MetadataFile },
	}
	for _, args := range [][]string{
		{"rewrite_data_files", "--option", "rewrite-all=true"},
		{"rewrite_manifests"},
		{"expire_snapshots", "--older-than", "2099-01-01 00:00:00", "--retain-last", "1"},
		{"remove_orphan_files", "--older-than", "2020-01-01 00:00:00"},
	} {
		for kind, pick := range kinds {
			t.Run(args[0]+" without "+kind, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				ref := b.reference("snaps40")
				gone := pick(t, ref)
				remove(t, ref, gone)
				before := b.objects(ref)
				got := b.firn(append([]string{"call", args[0], "--table", "db.snaps40", "--json"}, args[1:]...)...)
				object := b.object(got)
				reason, _ := object["reason"].(string)
				if got.code != exitRefused || object["outcome"] != "refused" || !strings.Contains(reason, gone[strings.LastIndexByte(gone, '/')+1:]) {
					t.Errorf("exit %d: %s%s", got.code, got.stdout, got.stderr)
				}
				if after := b.objects(ref); !slices.Equal(before, after) {
					t.Errorf("the table's objects changed: %d before, %d after", len(before), len(after))
				}
			})
		}
	}
}

func manifestsOf(t *testing.T, ref *icebergtest.Ref) []string {
	t.Helper()
	manifests, err := lake.Manifests(context.Background(), ref.Store, ref.Table(t).Metadata.CurrentSnapshot())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range manifests {
		out = append(out, m.FilePath())
	}
	return out
}
