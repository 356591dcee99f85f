package compact

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/apache/iceberg-go"

	"firn/internal/compact/engine"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/parquet/projection"
)

const (
	oldestFormat = 1
	newestFormat = 3
	nameMapping  = "schema.name-mapping.default"
	// encryptionKey marks a table whose files are to be encrypted.
	encryptionKey = "encryption.key-id"
	// exactDefault is the largest whole number that survives a decoder into float64, which iceberg-go uses for defaults.
	exactDefault = 1 << 53
)

// table is the pinned state, decoded.
type table struct {
	pinned   *handoff.Pinned
	current  *iceberg.Schema
	raw      json.RawMessage
	schemas  []*iceberg.Schema
	defaults map[int]json.RawMessage // By field ID, over all schemas; the newest schema wins.
	specs    map[int]iceberg.PartitionSpec
	codecs   map[int]*lake.FileCodec // By spec ID, made when first wanted.
	names    iceberg.NameMapping
	sorted   map[int]bool
}

func readTable(p *handoff.Pinned) (*table, error) {
	if p.FormatVersion < oldestFormat || p.FormatVersion > newestFormat {
		return nil, fmt.Errorf("the table has format version %d, known are %d to %d: %w", p.FormatVersion, oldestFormat, newestFormat,
			engine.ErrRefused)
	}
	if p.Properties[encryptionKey] != "" {
		return nil, fmt.Errorf("the table is encrypted (property %s): %w", encryptionKey, engine.ErrRefused)
	}
	t := &table{pinned: p, defaults: map[int]json.RawMessage{}, specs: map[int]iceberg.PartitionSpec{}, codecs: map[int]*lake.FileCodec{}}
	for _, raw := range p.Schemas {
		s := &iceberg.Schema{}
		if err := json.Unmarshal(raw, s); err != nil {
			return nil, fmt.Errorf("read a schema of the table: %w: %w", err, engine.ErrRefused)
		}
		defaults, err := projection.ParseDefaults(raw)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", err, engine.ErrRefused)
		}
		maps.Copy(t.defaults, defaults)
		t.schemas = append(t.schemas, s)
		if s.ID == p.SchemaID {
			t.current, t.raw = s, raw
		}
	}
	if t.current == nil {
		return nil, fmt.Errorf("the table has no schema %d: %w", p.SchemaID, engine.ErrRefused)
	}
	for _, raw := range p.Specs {
		var s iceberg.PartitionSpec
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, fmt.Errorf("read a partition spec of the table: %w: %w", err, engine.ErrRefused)
		}
		t.specs[s.ID()] = s
	}
	if text := p.Properties[nameMapping]; text != "" {
		if err := json.Unmarshal([]byte(text), &t.names); err != nil {
			return nil, fmt.Errorf("read property %s: %w: %w", nameMapping, err, engine.ErrRefused)
		}
	}
	if err := t.checkDefaults(); err != nil {
		return nil, err
	}
	return t, t.readSortOrder()
}

// checkDefaults refuses defaults that may have been rounded on their way through iceberg-go: a long beyond 2^53.
func (t *table) checkDefaults() error {
	for id, raw := range t.defaults {
		f, ok := t.current.FindFieldByID(id)
		if !ok || string(raw) == "null" || !f.Type.Equals(iceberg.PrimitiveTypes.Int64) {
			continue
		}
		if n, err := json.Number(raw).Int64(); err != nil || n > exactDefault || n < -exactDefault {
			return fmt.Errorf("the initial default %s of column %s may not be exact: %w", raw, f.Name, engine.ErrRefused)
		}
	}
	return nil
}

// readSortOrder finds the columns of the table's sort order, which always keep bounds.
func (t *table) readSortOrder() error {
	t.sorted = map[int]bool{}
	for _, raw := range t.pinned.SortOrders {
		var order struct {
			ID     int `json:"order-id"`
			Fields []struct {
				Source  int   `json:"source-id"`
				Sources []int `json:"source-ids"`
			} `json:"fields"`
		}
		if err := json.Unmarshal(raw, &order); err != nil {
			return fmt.Errorf("read a sort order of the table: %w: %w", err, engine.ErrRefused)
		}
		if order.ID != t.pinned.SortOrderID {
			continue
		}
		for _, f := range order.Fields {
			for _, id := range append(f.Sources, f.Source) {
				t.sorted[id] = true
			}
		}
	}
	return nil
}

// spec finds a spec, and the newest schema that holds its source columns: a file is encoded and decoded with these two.
func (t *table) spec(id int) (iceberg.PartitionSpec, *iceberg.Schema, error) {
	spec, ok := t.specs[id]
	if !ok {
		return spec, nil, fmt.Errorf("the table has no partition spec %d: %w", id, engine.ErrRefused)
	}
	if hasSources(spec, t.current) {
		return spec, t.current, nil
	}
	var newest *iceberg.Schema
	for _, s := range t.schemas {
		if hasSources(spec, s) && (newest == nil || s.ID > newest.ID) {
			newest = s
		}
	}
	if newest == nil {
		return spec, nil, fmt.Errorf("no schema has all source columns of partition spec %d: %w", id, engine.ErrRefused)
	}
	return spec, newest, nil
}

func hasSources(spec iceberg.PartitionSpec, s *iceberg.Schema) bool {
	for i := range spec.NumFields() {
		f := spec.Field(i)
		if _, void := f.Transform.(iceberg.VoidTransform); void {
			continue
		}
		if _, ok := s.FindFieldByID(f.SourceID()); !ok {
			return false
		}
	}
	return true
}

// codec encodes and decodes the files of a spec.
func (t *table) codec(id int) (*lake.FileCodec, error) {
	if c := t.codecs[id]; c != nil {
		return c, nil
	}
	spec, schema, err := t.spec(id)
	if err != nil {
		return nil, err
	}
	c, err := lake.NewFileCodec(spec, schema)
	if err != nil {
		// iceberg-go cannot spell some specs in Avro, such as two decimals of different width: no manifest could hold the file.
		return nil, fmt.Errorf("encode files of partition spec %d: %w: %w", id, err, engine.ErrRefused)
	}
	t.codecs[id] = c
	return c, nil
}

// file decodes the file of an entry.
func (t *table) file(e handoff.Entry) (iceberg.DataFile, error) {
	c, err := t.codec(e.SpecID)
	if err != nil {
		return nil, err
	}
	f, err := c.Decode(e.File)
	if err != nil {
		return nil, fmt.Errorf("read the entry of %s: %w", e.Path, err)
	}
	return f, nil
}

// entry encodes an output.
func (t *table) entry(f iceberg.DataFile, g *handoff.Group) (handoff.Entry, error) {
	c, err := t.codec(g.OutputSpecID)
	if err != nil {
		return handoff.Entry{}, err
	}
	data, err := c.Encode(f)
	if err != nil {
		return handoff.Entry{}, fmt.Errorf("write the entry of %s: %w: %w", f.FilePath(), err, engine.ErrRefused)
	}
	return handoff.Entry{File: data, Path: f.FilePath(), SpecID: g.OutputSpecID, DataSequence: g.DataSequence}, nil
}
