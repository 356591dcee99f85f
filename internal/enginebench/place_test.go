//go:build bench

package enginebench

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"

	"firn/internal/icebergtest"
)

// place is the table over the inputs, which each run registers in a catalog of its own.
type place struct {
	*testing.T
	b        *bench
	location string
	// metadata is the table's, by whether it sets the codec's level.
	metadata map[bool]string
	catalog  string
}

// newPlace makes a table that has the inputs, and their deletes in a commit after them.
func newPlace(t *testing.T, b *bench) *place {
	t.Helper()
	w := icebergtest.NewLocalWorld(t)
	p := &place{T: t, b: b, location: "file://" + t.TempDir() + "/table", metadata: map[bool]string{}}
	counts, err := rowCounts(b.folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, leveled := range []bool{true, false} {
		name := fmt.Sprintf("db.t%t", leveled)
		opts := []icebergtest.TableOption{icebergtest.Schema(schemaOf(b.inputs)), icebergtest.At(p.location)}
		for _, property := range b.tableProperties(leveled) {
			key, value, _ := strings.Cut(property, "=")
			opts = append(opts, icebergtest.Property(key, value))
		}
		table := w.NewTable(name, opts...)
		table.Commit(p.changes("data", iceberg.EntryContentData, counts)...)
		if b.deletes != "" {
			table.Commit(p.changes("deletes-"+b.deletes, iceberg.EntryContentPosDeletes, counts)...)
		}
		p.metadata[leveled] = table.State().Pointer.MetadataLocation
	}
	return p
}

// zstdLevel is that of every contestant.
const zstdLevel = 3

// tableProperties are those of the workload's table.
func (w *workload) tableProperties(leveled bool) []string {
	out := []string{"write.parquet.compression-codec=" + w.codec}
	if leveled && w.codec == "zstd" {
		out = append(out, fmt.Sprintf("write.parquet.compression-level=%d", zstdLevel))
	}
	return append(out, w.properties...)
}

// rowCounts reads how many rows each file of a folder has.
func rowCounts(folder string) (counts []int64, err error) {
	raw, err := os.ReadFile(filepath.Join(folder, "rows.json"))
	if err == nil {
		err = json.Unmarshal(raw, &counts)
	}
	return counts, err
}

// changes adds the first files of a folder; a hundredth of the rows is deleted.
func (p *place) changes(kind string, content iceberg.ManifestEntryContent, counts []int64) (out []icebergtest.Change) {
	p.Helper()
	for n, name := range p.b.parts(kind) {
		info, err := os.Stat(name)
		if err != nil {
			p.Fatal(err)
		}
		rows := counts[n]
		if content != iceberg.EntryContentData {
			rows /= 100
		}
		f, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, content, "file://"+name, iceberg.ParquetFile, nil, nil, nil, rows, info.Size())
		if err != nil {
			p.Fatal(err)
		}
		out = append(out, icebergtest.AddFile(f.Build(), nil))
	}
	return out
}

// schemaOf is what generate.py writes, numbered as a new table numbers it.
func schemaOf(inputs string) *iceberg.Schema {
	s, err := iceberg.AssignFreshSchemaIDs(fieldsOf(inputs), nil)
	if err != nil {
		panic(err)
	}
	return s
}

// fieldsOf is the same with numbers that are unique only.
func fieldsOf(inputs string) *iceberg.Schema {
	p := iceberg.PrimitiveTypes
	n := 0
	field := func(name string, typ iceberg.Type) iceberg.NestedField {
		n++
		return iceberg.NestedField{ID: n, Name: name, Type: typ}
	}
	if inputs == "blobs" {
		return iceberg.NewSchema(0, field("id", p.Int64), field("payload", p.Binary))
	}
	if strings.HasPrefix(inputs, "lineitem") {
		money := iceberg.DecimalTypeOf(15, 2)
		return iceberg.NewSchema(0,
			field("orderkey", p.Int64), field("partkey", p.Int64), field("suppkey", p.Int64), field("linenumber", p.Int32), field("quantity", money),
			field("extendedprice", money), field("discount", money), field("tax", money), field("returnflag", p.String), field("linestatus", p.String),
			field("shipdate", p.Date), field("commitdate", p.Date), field("receiptdate", p.Date), field("shipinstruct", p.String),
			field("shipmode", p.String), field("comment", p.String))
	}
	element, key, value := field("element", p.String), field("key", p.String), field("value", p.String)
	geo := &iceberg.StructType{FieldList: []iceberg.NestedField{field("lat", p.Float64), field("lon", p.Float64)}}
	device := &iceberg.StructType{FieldList: []iceberg.NestedField{field("os", p.String), field("version", p.Int32), field("geo", geo)}}
	return iceberg.NewSchema(0,
		field("id", p.Int64), field("ts", p.TimestampTz), field("user_id", p.String), field("country", p.String), field("amount", iceberg.DecimalTypeOf(18, 4)),
		field("status", p.Int32), field("ok", p.Bool), field("score", p.Float64), field("payload", p.String),
		field("tags", &iceberg.ListType{ElementID: element.ID, Element: element.Type}),
		field("attrs", &iceberg.MapType{KeyID: key.ID, KeyType: key.Type, ValueID: value.ID, ValueType: value.Type}), field("device", device))
}

func (p *place) firn(args ...string) *exec.Cmd {
	cmd := exec.Command(p.b.firn, append(args, "--catalog", "bench", "-P", "type=sql", "-P", "uri=sqlite:///"+p.catalog+"/catalog.db",
		"-P", "warehouse="+p.location)...)
	cmd.Env = append(os.Environ(), "FIRN_HOME="+p.catalog+"/home")
	return cmd
}

// reset registers the table in a new catalog.
func (p *place) reset(leveled bool) {
	p.Helper()
	p.catalog = p.TempDir()
	run(p.T, p.firn("register", "--table", "db.t", "--metadata-location", p.metadata[leveled]))
}

// rewrite is the measured command: one output for all inputs.
func (p *place) rewrite() *exec.Cmd {
	args := []string{"call", "rewrite_data_files", "--table", "db.t", "--option", "rewrite-all=true", "--option", "target-file-size-bytes=4294967296", "--json"}
	if p.b.sortOrder != "" {
		args = append(args, "--strategy", "sort", "--sort-order", p.b.sortOrder)
	}
	return p.firn(args...)
}

// outputs matches the data files that a rewrite left.
func (p *place) outputs() string {
	return strings.TrimPrefix(p.location, "file://") + "/data/*.parquet"
}

// clear removes them.
func (p *place) clear() {
	names, err := filepath.Glob(p.outputs())
	if err != nil {
		p.Fatal(err)
	}
	for _, name := range names {
		if err := os.Remove(name); err != nil {
			p.Fatal(err)
		}
	}
}
