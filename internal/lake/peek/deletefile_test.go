package peek_test

import (
	"testing"

	"github.com/apache/iceberg-go"

	"firn/internal/lake/peek"
)

func TestFileScoped(t *testing.T) {
	t.Parallel()
	const path = "s3://bucket/table/data/00001.parquet"
	file := func(content iceberg.ManifestEntryContent, format iceberg.FileFormat, referenced, lower, upper string) iceberg.DataFile {
		b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, content, "s3://bucket/d", format, nil, nil, nil, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		if referenced != "" {
			b.ReferencedDataFile(referenced)
		}
		if lower != "" {
			b.LowerBoundValues(map[int][]byte{2147483546: []byte(lower)})
		}
		if upper != "" {
			b.UpperBoundValues(map[int][]byte{2147483546: []byte(upper)})
		}
		return b.Build()
	}
	const positions, parquet = iceberg.EntryContentPosDeletes, iceberg.ParquetFile
	tests := []struct {
		name string
		file iceberg.DataFile
		want string
		dv   bool
	}{
		{"deletion vector", file(positions, iceberg.PuffinFile, path, "", ""), path, true},
		{"referenced data file", file(positions, parquet, path, "", ""), path, false},
		{"equal bounds", file(positions, parquet, "", path, path), path, false},
		{"no bounds", file(positions, parquet, "", "", ""), "", false},
		{"lower bound only", file(positions, parquet, "", path, ""), "", false},
		{"different bounds", file(positions, parquet, "", path, path+"x"), "", false},
		{"bounds cut without rounding up", file(positions, parquet, "", path[:16], path[:16]), "", false},
		{"equality deletes", file(iceberg.EntryContentEqDeletes, parquet, "", path, path), "", false},
		{"data", file(iceberg.EntryContentData, parquet, "", path, path), "", false},
	}
	for _, tt := range tests {
		got, ok := peek.FileScoped(tt.file)
		if got != tt.want || ok != (tt.want != "") || peek.IsDeletionVector(tt.file) != tt.dv {
			t.Errorf("%s: scoped to %q, %t, vector %t", tt.name, got, ok, peek.IsDeletionVector(tt.file))
		}
	}
}

func TestSameFile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"s3a://b/k": "s3://b/k", "s3n://b/k": "s3://b/k", "s3://b/k": "s3://b/k", "/a//b/../c": "file:///a/c", "file:/a/c": "file:///a/c",
		"relative": "relative",
	} {
		if got := peek.SameFile(text); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}
