package inventory

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"

	"firn/internal/store"
)

// read reads the list at a location.
func read(t *testing.T, files map[string][]byte, location string) ([]Object, error) {
	t.Helper()
	ctx, st := context.Background(), store.NewMemory(time.Now)
	for at, data := range files {
		if err := st.Put(ctx, at, data, store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	parts, err := Parts(ctx, st, location)
	if err != nil {
		return nil, err
	}
	var out []Object
	for _, p := range parts {
		for o, err := range p.Objects(ctx, st) {
			if err != nil {
				return out, err
			}
			out = append(out, o)
		}
	}
	return out, nil
}

const noon = 1_795_608_000_123 // 2026-11-25T12:00:00.123Z

func TestLists(t *testing.T) {
	t.Parallel()
	type view struct {
		Path string           `parquet:"file_path"`
		At   deprecated.Int96 `parquet:"last_modified"`
	}
	type inventoryRow struct {
		Bucket string    `parquet:"bucket"`
		Key    string    `parquet:"key"`
		Size   *int64    `parquet:"size"`
		At     time.Time `parquet:"last_modified_date,timestamp(microsecond)"`
		Latest *bool     `parquet:"is_latest"`
		Marker *bool     `parquet:"is_delete_marker"`
	}
	nanos := uint64(12*time.Hour + 123*time.Millisecond)
	day := uint32(noon/86_400_000) + 2_440_588
	yes, no, size := true, false, int64(7)
	manifest := func(format, schema string) []byte {
		return []byte(`{"sourceBucket": "b", "destinationBucket": "arn:aws:s3:::d", "fileFormat": "` + format + `", "fileSchema": "` + schema +
			`", "files": [{"key": "x/part 1.` + strings.ToLower(format) + `", "size": -1, "MD5checksum": ""}]}`)
	}
	for _, c := range []struct {
		name  string
		files map[string][]byte
		at    string
		want  []Object
		fault string
	}{
		{
			"CSV",
			map[string][]byte{"s3://l/l.csv": []byte("last_modified,other,File_Path\n2026-11-25 12:00:00.123,1,\"s3://b/a,b\"\n2026-11-25T12:00:00.123Z,,s3://b/c\n,,s3://b/d\n")},
			"s3://l/l.csv",
			[]Object{{"s3://b/a,b", -1, noon}, {"s3://b/c", -1, noon}, {"s3://b/d", -1, 0}},
			"",
		},
		{
			"JSON Lines",
			map[string][]byte{"s3://l/l.jsonl": []byte("{\"file_path\":\"s3://b/é\",\"last_modified\":1795608000123,\"size\":7}\n\n{\"file_path\":\"s3://b/c\",\"last_modified\":null}\n")},
			"s3://l/l.jsonl",
			[]Object{{"s3://b/é", 7, noon}, {"s3://b/c", -1, 0}},
			"",
		},
		{
			"Spark's folder",
			map[string][]byte{
				"s3://l/view/_SUCCESS": nil, "s3://l/view/.part-0.crc": nil, "s3://l/view/part-1.snappy.parquet": rows(t, view{"s3://b/a", deprecated.Int96{uint32(nanos), uint32(nanos >> 32), day}}),
			},
			"s3://l/view",
			[]Object{{"s3://b/a", -1, noon}},
			"",
		},
		{
			"inventory in Parquet",
			map[string][]byte{
				"s3://d/i/manifest.json": manifest("Parquet", "message s3.inventory {}"),
				"s3://d/x/part 1.parquet": rows(t, inventoryRow{"b", "a b%20", &size, time.UnixMilli(noon), &yes, &no},
					inventoryRow{"b", "old", &size, time.UnixMilli(noon), &no, &no}, inventoryRow{"b", "gone", nil, time.UnixMilli(noon), &yes, &yes}),
			},
			"s3://d/i/manifest.json",
			[]Object{{"s3://b/a b%20", 7, noon}},
			"",
		},
		{"ORC", map[string][]byte{"s3://d/i/manifest.json": manifest("ORC", "struct<bucket:string>")}, "s3://d/i/manifest.json", nil, "Parquet or CSV"},
		{"ORC file", nil, "s3://l/l.orc", nil, "ORC"},
		{"no date in the inventory", map[string][]byte{"s3://d/i/manifest.json": manifest("CSV", "Bucket, Key, Size")}, "s3://d/i/manifest.json", nil, "last modified date"},
		{"another JSON", map[string][]byte{"s3://d/i/manifest.json": []byte(`{"name": "x"}`)}, "s3://d/i/manifest.json", nil, "no S3 Inventory"},
		{"no header", map[string][]byte{"s3://l/l.csv": []byte("s3://b/a,2026-11-25 12:00:00\n")}, "s3://l/l.csv", nil, "no file_path"},
		{"bad time", map[string][]byte{"s3://l/l.csv": []byte("file_path,last_modified\ns3://b/a,yesterday\n")}, "s3://l/l.csv", nil, "line 2: \"yesterday\""},
		{"seconds", map[string][]byte{"s3://l/l.csv": []byte("file_path,last_modified\ns3://b/a,1795608000\n")}, "s3://l/l.csv", nil, "milliseconds"},
		{"cut line", map[string][]byte{"s3://l/l.csv": []byte("file_path,last_modified\ns3://b/a\n")}, "s3://l/l.csv", nil, "wrong number of fields"},
		{"no path", map[string][]byte{"s3://l/l.jsonl": []byte("{\"path\":\"s3://b/a\"}\n")}, "s3://l/l.jsonl", nil, "line 1 has no file_path"},
		{"no Parquet", map[string][]byte{"s3://l/l.parquet": []byte("file_path,last_modified\n")}, "s3://l/l.parquet", nil, "l.parquet"},
		{"no list", map[string][]byte{"s3://l/l.txt": []byte("s3://b/a\n")}, "s3://l/l.txt", nil, "no list of files"},
		{"not packed", map[string][]byte{"s3://l/l.csv.gz": []byte("file_path,last_modified\n")}, "s3://l/l.csv.gz", nil, "unpack"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := read(t, c.files, c.at)
			if c.fault != "" {
				if err == nil || !errors.Is(err, ErrList) || !strings.Contains(err.Error(), c.fault) {
					t.Errorf("%v, %v: want a fault with %q", got, err, c.fault)
				}
				return
			}
			if err != nil || len(got) != len(c.want) {
				t.Fatalf("%v, %v: want %v", got, err, c.want)
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Errorf("%d: %v, want %v", i, got[i], c.want[i])
				}
			}
		})
	}
	if _, err := read(t, nil, "s3://l/absent.csv"); !errors.Is(err, store.ErrNotFound) || errors.Is(err, ErrList) {
		t.Errorf("a list that is not there: %v", err)
	}
}

// rows writes a Parquet file.
func rows[T any](t *testing.T, rows ...T) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := parquet.NewGenericWriter[T](&buf)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}
