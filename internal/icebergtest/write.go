package icebergtest

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/codec"
	"github.com/apache/iceberg-go/table"

	"firn/internal/lake"
	"firn/internal/lake/avro"
	"firn/internal/lake/manifest"
	"firn/internal/store"
)

// fileArgs describe one Parquet file.
type fileArgs struct {
	schema    *iceberg.Schema
	spec      iceberg.PartitionSpec
	partition map[int]any
	rows      []Row
	content   iceberg.ManifestEntryContent
	equality  []int
	props     iceberg.Properties
}

// writeFile writes a Parquet file and describes it as a data file, with the statistics that iceberg-go takes from the footer.
func (c *commit) writeFile(a fileArgs) (iceberg.DataFile, error) {
	codec := compress.Codecs.Zstd
	if c.base.Metadata.Properties()["write.parquet.compression-codec"] == "uncompressed" {
		codec = compress.Codecs.Uncompressed
	}
	data, footer, err := encodeParquet(a.schema, a.rows, codec)
	if err != nil {
		return nil, err
	}
	path := c.newPath("parquet")
	if err := c.t.w.Store.Put(context.Background(), path, data, store.WriteOptions{IfAbsent: true}); err != nil {
		return nil, err
	}
	return table.DataFileFromMetadata(table.DataFileArgs{
		Schema: a.schema, Spec: a.spec, Format: iceberg.ParquetFile, Metadata: footer, FilePath: path, FileSize: int64(len(data)),
		Content: a.content, PartitionValues: a.partition, Properties: a.props, EqualityFieldIDs: a.equality,
		FormatVersion: c.base.Metadata.Version(),
	})
}

func encodeParquet(schema *iceberg.Schema, rows []Row, codec compress.Compression) ([]byte, *metadata.FileMetaData, error) {
	arrowSchema, err := table.SchemaToArrowSchema(schema, nil, true, false)
	if err != nil {
		return nil, nil, err
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrowSchema)
	defer b.Release()
	typ := schema.AsStruct()
	for _, row := range rows {
		values := normalStruct(&typ, row).([]any)
		for i, f := range schema.Fields() {
			appendArrow(b.Field(i), f.Type, values[i])
		}
	}
	record := b.NewRecordBatch()
	defer record.Release()
	var out bytes.Buffer
	w, err := pqarrow.NewFileWriter(arrowSchema, &out, parquet.NewWriterProperties(parquet.WithCompression(codec)),
		pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, nil, err
	}
	if err := w.Write(record); err != nil {
		return nil, nil, err
	}
	if err := w.Close(); err != nil {
		return nil, nil, err
	}
	footer, err := w.FileMetadata()
	return out.Bytes(), footer, err
}

// part is the rows of one partition.
type part struct {
	tuple map[int]any
	rows  []Row
}

// split groups rows by partition in order of appearance.
func split(spec iceberg.PartitionSpec, schema *iceberg.Schema, rows []Row) ([]*part, error) {
	var parts []*part
	byKey := map[string]*part{}
	for _, row := range rows {
		tuple := map[int]any{}
		for i := range spec.NumFields() {
			field := spec.Field(i)
			value, err := transform(schema, row, field)
			if err != nil {
				return nil, err
			}
			tuple[field.FieldID] = value
		}
		key, err := lake.PartitionKey(spec, tuple)
		if err != nil {
			return nil, err
		}
		p, ok := byKey[key]
		if !ok {
			p = &part{tuple: tuple}
			byKey[key] = p
			parts = append(parts, p)
		}
		p.rows = append(p.rows, row)
	}
	return parts, nil
}

// kind is what the entries of one manifest have in common.
type kind struct {
	content iceberg.ManifestContent
	spec    int
}

// job is a manifest to write: files that are added, or the live entries of a manifest of the parent.
type job struct {
	kind
	location string
	added    []addition
	from     iceberg.ManifestFile
	entries  []lake.Entry
}

// keptManifests lists the parent's manifests again; those that hold removed files are written anew with DELETED entries.
func (c *commit) keptManifests() ([]iceberg.ManifestFile, error) {
	var kept []iceberg.ManifestFile
	for _, m := range c.manifests {
		var entries []lake.Entry
		touched := false
		for _, e := range c.entries {
			if e.Manifest == m.FilePath() {
				entries = append(entries, e)
				touched = touched || c.removed[e.File]
			}
		}
		if m.AddedDataFiles() == 0 && m.ExistingDataFiles() == 0 {
			continue
		}
		if !touched {
			kept = append(kept, m)
			continue
		}
		again, err := c.writeManifest(job{kind: kind{m.ManifestContent(), int(m.PartitionSpecID())}, from: m, entries: entries})
		if err != nil {
			return nil, err
		}
		kept = append(kept, again)
	}
	return kept, nil
}

// newManifests writes the added files, one manifest a content and spec.
func (c *commit) newManifests() ([]iceberg.ManifestFile, error) {
	groups, order := map[kind][]addition{}, []kind{}
	for _, a := range c.added {
		k := kind{content: iceberg.ManifestContentData, spec: int(a.file.SpecID())}
		if a.file.ContentType() != iceberg.EntryContentData {
			k.content = iceberg.ManifestContentDeletes
		}
		if _, ok := groups[k]; !ok {
			order = append(order, k)
		}
		groups[k] = append(groups[k], a)
	}
	var out []iceberg.ManifestFile
	for _, k := range order {
		m, err := c.writeManifest(job{kind: k, added: groups[k]})
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func (c *commit) writeManifest(j job) (iceberg.ManifestFile, error) {
	spec := *c.base.Metadata.PartitionSpecByID(j.spec)
	schema, err := c.base.SpecSchema(spec)
	if err != nil {
		return nil, err
	}
	c.written++
	j.location = store.Join(c.base.Metadata.Location(), "metadata", fmt.Sprintf("%d-m%d.avro", c.id, c.written))
	write := c.stockManifest
	if c.t.w.quick(int(c.id)) {
		write = c.ownManifest
	}
	data, m, err := write(j, spec, schema)
	if err != nil {
		return nil, err
	}
	return m, c.t.w.Store.Put(context.Background(), j.location, data, store.WriteOptions{IfAbsent: true})
}

// stockManifest writes a manifest with iceberg-go.
func (c *commit) stockManifest(j job, spec iceberg.PartitionSpec, schema *iceberg.Schema) ([]byte, iceberg.ManifestFile, error) {
	var out bytes.Buffer
	w, err := iceberg.NewManifestWriter(c.base.Metadata.Version(), &out, spec, schema, c.id, iceberg.WithManifestWriterContent(j.content))
	if err != nil {
		return nil, nil, err
	}
	for _, a := range j.added {
		f, err := c.native(a.file)
		if err != nil {
			return nil, nil, err
		}
		if err := w.Add(iceberg.NewManifestEntry(iceberg.EntryStatusADDED, &c.id, a.sequence, nil, f)); err != nil {
			return nil, nil, err
		}
	}
	if j.from != nil {
		if err := c.copyManifest(w, j.from, j.entries); err != nil {
			return nil, nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, nil, err
	}
	m, err := w.ToManifestFile(j.location, int64(out.Len()), iceberg.WithManifestFileContent(j.content))
	return out.Bytes(), m, err
}

// native makes a file that Firn read one of iceberg-go's, whose writer takes no others.
func (c *commit) native(f iceberg.DataFile) (iceberg.DataFile, error) {
	if _, ok := f.(iceberg.AvroEntryMarshaler); ok {
		return f, nil
	}
	spec := *c.base.Metadata.PartitionSpecByID(int(f.SpecID()))
	schema, err := c.base.SpecSchema(spec)
	if err != nil {
		return nil, err
	}
	data, err := lake.EncodeFile(f, spec, schema)
	if err != nil {
		return nil, err
	}
	return codec.DecodeDataFile(data, spec, schema, 3)
}

// copyManifest writes the live entries of a manifest again, as iceberg-go reads them.
func (c *commit) copyManifest(w *iceberg.ManifestWriter, m iceberg.ManifestFile, entries []lake.Entry) error {
	data, err := c.t.w.Store.Get(context.Background(), m.FilePath())
	if err != nil {
		return err
	}
	raw, err := iceberg.ReadManifest(m, bytes.NewReader(data), true)
	if err != nil {
		return err
	}
	if len(raw) != len(entries) {
		return fmt.Errorf("manifest %s has %d live entries, iceberg-go reads %d", m.FilePath(), len(entries), len(raw))
	}
	for i, e := range entries {
		write := w.Existing
		if c.removed[e.File] {
			write = w.Delete
		}
		if err := write(raw[i]); err != nil {
			return err
		}
	}
	return nil
}

// ownManifest writes a manifest with Firn's writer.
func (c *commit) ownManifest(j job, spec iceberg.PartitionSpec, schema *iceberg.Schema) ([]byte, iceberg.ManifestFile, error) {
	layout, err := manifest.NewLayout(c.base.Metadata.Version(), spec, schema)
	if err != nil {
		return nil, nil, err
	}
	w, err := layout.Lent(c.t.w.Memo).NewWriter(j.content, c.id, j.location)
	if err != nil {
		return nil, nil, err
	}
	for _, a := range j.added {
		if err := w.Add(a.file, a.sequence); err != nil {
			return nil, nil, err
		}
	}
	for _, e := range j.entries {
		write := w.Existing
		if c.removed[e.File] {
			write = w.Delete
		}
		if err := write(e); err != nil {
			return nil, nil, err
		}
	}
	return w.Close(j.location)
}

// listFields are the fields of a manifest list of format version 3, in which that of version 2 lacks the last (specification, "Manifest Lists").
func listFields() []avro.Field {
	integer, long, text := avro.Scalar(avro.Int), avro.Scalar(avro.Long), avro.Scalar(avro.Bytes)
	summary := avro.NewRecord("r508", avro.Field{Name: "contains_null", ID: 509, Type: avro.Scalar(avro.Boolean)},
		avro.Field{Name: "contains_nan", ID: 518, Type: avro.NewOptional(avro.Scalar(avro.Boolean))},
		avro.Field{Name: "lower_bound", ID: 510, Type: avro.NewOptional(text)}, avro.Field{Name: "upper_bound", ID: 511, Type: avro.NewOptional(text)})
	return []avro.Field{
		{Name: "manifest_path", ID: 500, Type: avro.Scalar(avro.String)},
		{Name: "manifest_length", ID: 501, Type: long},
		{Name: "partition_spec_id", ID: 502, Type: integer},
		{Name: "content", ID: 517, Type: integer},
		{Name: "sequence_number", ID: 515, Type: long},
		{Name: "min_sequence_number", ID: 516, Type: long},
		{Name: "added_snapshot_id", ID: 503, Type: long},
		{Name: "added_files_count", ID: 504, Type: integer},
		{Name: "existing_files_count", ID: 505, Type: integer},
		{Name: "deleted_files_count", ID: 506, Type: integer},
		{Name: "added_rows_count", ID: 512, Type: long},
		{Name: "existing_rows_count", ID: 513, Type: long},
		{Name: "deleted_rows_count", ID: 514, Type: long},
		{Name: "partitions", ID: 507, Type: avro.NewOptional(avro.NewList(summary, 508))},
		{Name: "first_row_id", ID: 520, Type: avro.NewOptional(long)},
	}
}

// quickList writes a manifest list of version 2 or 3 and returns the row ID behind those that it gave to manifests without one.
func (c *commit) quickList(manifests []iceberg.ManifestFile) (data []byte, next int64, err error) {
	version, fields := c.base.Metadata.Version(), listFields()
	if version < 3 {
		fields = fields[:len(fields)-1]
	}
	schema, err := avro.NewRecord("manifest_file", fields...).Schema()
	if err != nil {
		return nil, 0, err
	}
	next = c.base.Metadata.NextRowID()
	w := c.t.w.Encoders.NewWriter(map[string][]byte{"avro.schema": schema, "format-version": strconv.AppendInt(nil, int64(version), 10)}, [16]byte(hash(c.id)[:16]))
	for _, m := range manifests {
		sequence, least, first := m.SequenceNum(), m.MinSequenceNum(), m.FirstRowID()
		if sequence < 0 {
			sequence = c.sequence
		}
		if least < 0 {
			least = c.sequence
		}
		if version > 2 && first == nil && m.ManifestContent() == iceberg.ManifestContentData {
			first = new(next)
			next += m.AddedRows() + m.ExistingRows()
		}
		line := avro.AppendBytes(nil, m.FilePath())
		for _, n := range []int64{
			m.Length(), int64(m.PartitionSpecID()), int64(m.ManifestContent()), sequence, least, m.SnapshotID(), int64(m.AddedDataFiles()),
			int64(m.ExistingDataFiles()), int64(m.DeletedDataFiles()), m.AddedRows(), m.ExistingRows(), m.DeletedRows(),
		} {
			line = avro.AppendLong(line, n)
		}
		line = appendSummaries(line, m.Partitions())
		if version > 2 && first != nil {
			line = avro.AppendLong(append(line, some), *first)
		} else if version > 2 {
			line = append(line, none)
		}
		if err := w.Append(line); err != nil {
			return nil, 0, err
		}
	}
	data, err = w.Close()
	return data, next, err
}

// The tags of a union of null and another type.
const none, some = 0, 2

func appendSummaries(dst []byte, summaries []iceberg.FieldSummary) []byte {
	flag := func(v bool) byte {
		if v {
			return 1
		}
		return 0
	}
	dst = append(dst, some)
	if len(summaries) > 0 {
		dst = avro.AppendLong(dst, int64(len(summaries)))
	}
	for _, s := range summaries {
		dst = append(dst, flag(s.ContainsNull))
		if s.ContainsNaN == nil {
			dst = append(dst, none)
		} else {
			dst = append(dst, some, flag(*s.ContainsNaN))
		}
		for _, bound := range []*[]byte{s.LowerBound, s.UpperBound} {
			if bound == nil {
				dst = append(dst, none)
			} else {
				dst = avro.AppendBytes(append(dst, some), *bound)
			}
		}
	}
	return avro.AppendLong(dst, 0)
}

func (c *commit) writeList(snap *table.Snapshot, manifests []iceberg.ManifestFile) error {
	snap.ManifestList = store.Join(c.base.Metadata.Location(), "metadata", fmt.Sprintf("snap-%d-1-%d.avro", c.id, c.sequence))
	var data []byte
	var err error
	if first := c.base.Metadata.NextRowID(); c.t.w.quick(int(c.id)) && c.base.Metadata.Version() > 1 {
		var next int64
		if data, next, err = c.quickList(manifests); err == nil && c.base.Metadata.Version() > 2 {
			snap.FirstRowID, snap.AddedRows = &first, new(next-first)
		}
	} else {
		data, err = c.stockList(snap, manifests)
	}
	if err != nil {
		return err
	}
	return c.t.w.Store.Put(context.Background(), snap.ManifestList, data, store.WriteOptions{IfAbsent: true})
}

// stockList writes a manifest list with iceberg-go.
func (c *commit) stockList(snap *table.Snapshot, manifests []iceberg.ManifestFile) ([]byte, error) {
	var out bytes.Buffer
	var w *iceberg.ManifestListWriter
	var err error
	first := c.base.Metadata.NextRowID()
	switch c.base.Metadata.Version() {
	case 1:
		w, err = iceberg.NewManifestListWriterV1(&out, c.id, snap.ParentSnapshotID)
	case 2:
		w, err = iceberg.NewManifestListWriterV2(&out, c.id, c.sequence, snap.ParentSnapshotID)
	default:
		w, err = iceberg.NewManifestListWriterV3(&out, c.id, c.sequence, first, snap.ParentSnapshotID)
	}
	if err != nil {
		return nil, err
	}
	if err := w.AddManifests(manifests); err != nil {
		return nil, err
	}
	if next := w.NextRowID(); next != nil {
		snap.FirstRowID, snap.AddedRows = &first, new(*next-c.base.Metadata.NextRowID())
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
