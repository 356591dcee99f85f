package deletes

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"

	"firn/internal/parquet/column"
	"firn/internal/parquet/sink"
	"firn/internal/store"
)

// FileDeletes are deleted rows of one data file.
type FileDeletes struct {
	// Path is the data file's location, spelled as in its manifest entry: readers compare texts.
	Path string
	// Positions are the deleted rows; empty masks are not written.
	Positions Mask
	// Spec and Partition are the data file's. A delete file has those of the data files that it names.
	Spec      iceberg.PartitionSpec
	Partition map[int]any
}

// positionBatch is how many rows of a position delete file are handed to the writer at once.
const positionBatch = 64 << 10

// WritePositions writes one Parquet position delete file under a new name and returns its manifest entry's data file. Rows are ordered by path and
// position, as the specification asks. All deletes must be of one spec and partition, the first one's. With a single data file the result is
// file-scoped: it names the data file, and the bounds of file_path are the whole path; with several it has no bounds of file_path (Java: without
// them readers know that it is scoped to its partition).
func WritePositions(ctx context.Context, st store.Writer, location string, deletes []FileDeletes) (iceberg.DataFile, error) {
	return WritePositionsAs(ctx, st, location, nil, deletes)
}

// WritePositionsAs is WritePositions with the table's write.delete.parquet.* properties, or write.parquet.* where there is none of these.
func WritePositionsAs(ctx context.Context, st store.Writer, location string, props map[string]string, deletes []FileDeletes) (iceberg.DataFile, error) {
	deletes = slices.DeleteFunc(slices.Clone(deletes), func(d FileDeletes) bool { return d.Positions == nil || d.Positions.IsEmpty() })
	if len(deletes) == 0 {
		return nil, fmt.Errorf("write position deletes %s: there are none", location)
	}
	slices.SortFunc(deletes, func(a, b FileDeletes) int { return strings.Compare(a.Path, b.Path) })
	data, footer, err := positionFile(props, deletes)
	if err != nil {
		return nil, fmt.Errorf("write position deletes %s: %w", location, err)
	}
	b, err := iceberg.NewDataFileBuilder(deletes[0].Spec, iceberg.EntryContentPosDeletes, location, iceberg.ParquetFile, deletes[0].Partition, nil, nil,
		footer.Rows, int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("describe position deletes %s: %w", location, err)
	}
	b.ColumnSizes(map[int]int64{pathField: footer.ColumnSizes[0], positionField: footer.ColumnSizes[1]}).SplitOffsets(footer.SplitOffsets)
	if len(deletes) == 1 {
		d := deletes[0]
		b.ReferencedDataFile(d.Path)
		b.LowerBoundValues(map[int][]byte{pathField: []byte(d.Path), positionField: longBytes(d.Positions.Minimum())})
		b.UpperBoundValues(map[int][]byte{pathField: []byte(d.Path), positionField: longBytes(d.Positions.Maximum())})
	}
	if err := st.Put(ctx, location, data, store.WriteOptions{IfAbsent: true, ContentType: "application/vnd.apache.parquet"}); err != nil {
		return nil, fmt.Errorf("write position deletes %s: %w", location, err)
	}
	return b.Build(), nil
}

func longBytes(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

// deleteProperties puts write.delete.parquet.* in the place of write.parquet.* (Iceberg: TableProperties).
func deleteProperties(props map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, props)
	for key, value := range props {
		if name, ok := strings.CutPrefix(key, "write.delete.parquet."); ok {
			out["write.parquet."+name] = value
		}
	}
	return out
}

// positionFile encodes the deletes, which are ordered by path, as one row group.
func positionFile(props map[string]string, deletes []FileDeletes) ([]byte, sink.Footer, error) {
	for i := range deletes[1:] {
		if deletes[i].Path == deletes[i+1].Path {
			return nil, sink.Footer{}, fmt.Errorf("data file %s is named twice", deletes[i].Path)
		}
	}
	t, err := positionTarget()
	if err != nil {
		return nil, sink.Footer{}, err
	}
	opts, err := sink.ParseOptions(deleteProperties(props), t.Layout)
	if err != nil {
		return nil, sink.Footer{}, fmt.Errorf("%w: %w", err, ErrUnusable)
	}
	opts.Metadata = map[string]string{"delete-type": "position"}
	var buf bytes.Buffer
	f, err := sink.Create(&buf, t.Layout, opts)
	if err != nil {
		return nil, sink.Footer{}, err
	}
	err = f.StartRowGroup()
	for _, write := range []func(*sink.Column, []FileDeletes) error{writePaths, writePositions} {
		if err != nil {
			break
		}
		var c *sink.Column
		if c, err = f.NextColumn(); err == nil {
			err = write(c, deletes)
		}
	}
	footer, closeErr := f.Close()
	return buf.Bytes(), footer, errors.Join(err, closeErr)
}

func writePaths(c *sink.Column, deletes []FileDeletes) error {
	for _, d := range deletes {
		path := []byte(d.Path)
		for left := d.Positions.GetCardinality(); left > 0; {
			n := int(min(left, positionBatch))
			b := column.Batch{Rows: n, Levels: n}
			for range n {
				b.Bytes = append(b.Bytes, path)
			}
			if err := c.Write(&b); err != nil {
				return err
			}
			left -= uint64(n)
		}
	}
	return nil
}

func writePositions(c *sink.Column, deletes []FileDeletes) error {
	for _, d := range deletes {
		positions := make([]uint64, positionBatch)
		for it := d.Positions.ManyIterator(); ; {
			n := it.NextMany(positions)
			if n == 0 {
				break
			}
			b := column.Batch{Rows: n, Levels: n}
			for _, p := range positions[:n] {
				b.Int64 = append(b.Int64, int64(p))
			}
			if err := c.Write(&b); err != nil {
				return err
			}
		}
	}
	return nil
}
