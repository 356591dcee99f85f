package icebergtest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/apache/iceberg-go/table/dv"

	"firn/internal/lake"
	"firn/internal/store"
)

// Change is one part of a commit.
type Change func(c *commit) error

// Append adds rows under the current schema and spec: one data file a partition, in the order in which the partitions appear.
func Append(rows ...Row) Change { return AppendAt(nil, rows...) }

// AppendAt is Append with an explicit data sequence number, as a rewrite writes it.
func AppendAt(sequence *int64, rows ...Row) Change {
	return func(c *commit) error {
		spec := c.base.Metadata.PartitionSpec()
		parts, err := split(spec, c.base.Metadata.CurrentSchema(), rows)
		if err != nil {
			return err
		}
		for _, p := range parts {
			f, err := c.writeFile(fileArgs{
				schema: c.base.Metadata.CurrentSchema(), spec: spec, partition: p.tuple, rows: p.rows,
				content: iceberg.EntryContentData,
			})
			if err != nil {
				return err
			}
			c.add(f, sequence)
		}
		return nil
	}
}

// Remove removes live files by their paths, data files and delete files alike.
func Remove(paths ...string) Change {
	return func(c *commit) error {
		live, err := c.live()
		if err != nil {
			return err
		}
		for _, path := range paths {
			found := false
			for _, e := range live {
				if e.File.FilePath() == path {
					c.remove(e)
					found = true
				}
			}
			if !found {
				return fmt.Errorf("remove %s: it is not live", path)
			}
		}
		return nil
	}
}

// DeletePositions adds a position delete file that is scoped to one data file: its file_path bounds are the whole path.
func DeletePositions(path string, positions ...int64) Change {
	return func(c *commit) error {
		var rows []Row
		for _, p := range positions {
			rows = append(rows, Row{path, p})
		}
		return c.addPositions(path, rows, iceberg.Properties{"write.metadata.metrics.column.file_path": "full"})
	}
}

// Position is a row of a data file.
type Position struct {
	Path string
	Pos  int64
}

// DeletePositionsTogether adds one position delete file that is scoped to the partition of its first position's data file: its bounds are cut,
// as many writers cut them, even when all positions are of one file.
func DeletePositionsTogether(positions ...Position) Change {
	return func(c *commit) error {
		var rows []Row
		for _, p := range positions {
			rows = append(rows, Row{p.Path, p.Pos})
		}
		return c.addPositions(positions[0].Path, rows, nil)
	}
}

func (c *commit) addPositions(path string, rows []Row, props iceberg.Properties) error {
	spec, tuple, err := c.home(path)
	if err != nil {
		return err
	}
	f, err := c.writeFile(fileArgs{
		schema: iceberg.PositionalDeleteSchema, spec: spec, partition: tuple, rows: rows,
		content: iceberg.EntryContentPosDeletes, props: props,
	})
	if err != nil {
		return err
	}
	c.add(f, nil)
	return nil
}

// DeleteVector gives a data file a deletion vector with these positions and those of the vector that it has, which is replaced.
func DeleteVector(path string, positions ...int64) Change {
	return func(c *commit) error { return c.addVectors(map[string][]int64{path: positions}, true) }
}

// DeleteVectors does so for several data files in one Puffin file.
func DeleteVectors(positions map[string][]int64) Change {
	return func(c *commit) error { return c.addVectors(positions, true) }
}

// DeleteVectorBeside adds a deletion vector and leaves the one that the file has: a table fault.
func DeleteVectorBeside(path string, positions ...int64) Change {
	return func(c *commit) error { return c.addVectors(map[string][]int64{path: positions}, false) }
}

// replaceVector removes the deletion vector of a data file and hands over its positions. One that is older than the file, which was removed and added again
// since, dangles: it goes, and its positions with it.
func (c *commit) replaceVector(path string, take func(old *dv.RoaringPositionBitmap)) error {
	since := int64(0)
	for _, e := range c.entries {
		if e.File.ContentType() == iceberg.EntryContentData && e.File.FilePath() == path {
			since = e.DataSequence
		}
	}
	for _, e := range c.entries {
		if ref := e.File.ReferencedDataFile(); !lake.IsDeletionVector(e.File) || ref == nil || *ref != path {
			continue
		}
		if e.DataSequence >= since {
			old, err := dv.ReadDV(lake.FileIO(context.Background(), c.t.w.Store), e.File)
			if err != nil {
				return err
			}
			take(old)
		}
		c.remove(e)
	}
	return nil
}

func (c *commit) addVectors(positions map[string][]int64, replace bool) error {
	w := dv.NewDVWriter(puffinOutput{c: c}, func(id int32) *iceberg.PartitionSpec {
		return c.base.Metadata.PartitionSpecByID(int(id))
	})
	paths := make([]string, 0, len(positions))
	for path := range positions {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		spec, tuple, err := c.home(path)
		if err != nil {
			return err
		}
		if replace {
			if err := c.replaceVector(path, func(old *dv.RoaringPositionBitmap) { w.Load(path, old, int32(spec.ID()), tuple) }); err != nil {
				return err
			}
		}
		if err := w.Add(path, positions[path], int32(spec.ID()), tuple); err != nil {
			return err
		}
	}
	files, err := w.Flush(context.Background(), c.newPath("puffin"))
	for _, f := range files {
		c.add(f, nil)
	}
	return err
}

// DeleteEqual adds an equality delete file on the named columns. Under a partitioned spec the columns must hold the sources of the partition
// fields; one file a partition is written then.
func DeleteEqual(columns []string, rows ...Row) Change {
	return func(c *commit) error { return c.addEqual(c.base.Metadata.PartitionSpec(), columns, rows) }
}

// DeleteEqualGlobally adds an equality delete file under the table's unpartitioned spec: it applies to every partition.
func DeleteEqualGlobally(columns []string, rows ...Row) Change {
	return func(c *commit) error {
		for _, spec := range c.base.Metadata.PartitionSpecs() {
			if spec.IsUnpartitioned() {
				return c.addEqual(spec, columns, rows)
			}
		}
		return fmt.Errorf("table %s has no unpartitioned spec", c.t.ID)
	}
}

func (c *commit) addEqual(spec iceberg.PartitionSpec, columns []string, rows []Row) error {
	schema, err := c.base.Metadata.CurrentSchema().Select(true, columns...)
	if err != nil {
		return err
	}
	fields := make([]iceberg.NestedField, len(columns))
	ids := make([]int, len(columns))
	for i, column := range columns {
		fields[i], _ = schema.FindFieldByName(column)
		ids[i] = fields[i].ID
	}
	schema = iceberg.NewSchema(schema.ID, fields...)
	parts, err := split(spec, schema, rows)
	if err != nil {
		return err
	}
	for _, p := range parts {
		f, err := c.writeFile(fileArgs{
			schema: schema, spec: spec, partition: p.tuple, rows: p.rows, content: iceberg.EntryContentEqDeletes, equality: ids,
		})
		if err != nil {
			return err
		}
		c.add(f, nil)
	}
	return nil
}

// AddFile adds a file that the test made; sequence nil inherits the new snapshot's.
func AddFile(f iceberg.DataFile, sequence *int64) Change {
	return func(c *commit) error { c.add(f, sequence); return nil }
}

// Operation overrides the snapshot's operation, which else follows from what is added and removed.
func Operation(op table.Operation) Change {
	return func(c *commit) error { c.operation = op; return nil }
}

// Summary sets a property of the snapshot's summary.
func Summary(key, value string) Change {
	return func(c *commit) error { c.summary[key] = value; return nil }
}

// puffinOutput is the IO that the vector writer writes to.
type puffinOutput struct {
	iceio.IO
	c *commit
}

func (p puffinOutput) WriteFile(name string, data []byte) error {
	return p.c.t.w.Store.Put(context.Background(), name, data, store.WriteOptions{IfAbsent: true})
}

func (puffinOutput) Create(name string) (iceio.FileWriter, error) {
	return nil, fmt.Errorf("create %s: %w", name, errors.ErrUnsupported)
}
