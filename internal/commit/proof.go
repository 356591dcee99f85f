package commit

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/apache/iceberg-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"golang.org/x/sync/errgroup"

	"firn/internal/handoff"
	"firn/internal/store"
)

// prove checks the group's proof: the rows that went in, less those that were deleted, came out, with the same nulls and values in every column,
// in files whose records add up, each of which is named once.
func (g *group) prove(p handoff.Proof) *verdict {
	var in, out int64
	for _, e := range g.inputs {
		in += e.File.Count()
	}
	paths := map[string]bool{}
	for _, o := range g.outputs {
		out += o.File.Count()
		if paths[o.File.FilePath()] {
			return refused("output %s is named twice", o.File.FilePath())
		}
		paths[o.File.FilePath()] = true
	}
	switch {
	case p.RowsIn != in:
		return refused("proof: %d rows were read, the inputs hold %d", p.RowsIn, in)
	case p.RowsOut != out:
		return refused("proof: %d rows were written, the outputs hold %d", p.RowsOut, out)
	case p.RowsDeleted < 0 || p.RowsIn-p.RowsDeleted != p.RowsOut:
		return refused("proof: %d rows in less %d deleted are not %d rows out", p.RowsIn, p.RowsDeleted, p.RowsOut)
	case p.RowsDeleted > 0 && len(g.Deletes) == 0:
		return refused("proof: %d rows were deleted without a delete file", p.RowsDeleted)
	}
	for _, c := range p.Columns {
		if c.NullsIn != c.NullsOut || c.HashIn != c.HashOut {
			return refused("proof: column %d changed: %d nulls and hash %s in, %d and %s out", c.FieldID, c.NullsIn, c.HashIn, c.NullsOut, c.HashOut)
		}
	}
	return nil
}

// footerGuessBytes is what one request reads of an output's end; nearly every footer fits.
const footerGuessBytes = 64 << 10

// reopen checks each output in the store: it is there, has its size, and its Parquet footer can be read and counts its rows.
func (s *session) reopen(ctx context.Context, g *group) (*verdict, error) {
	found := make([]*verdict, len(g.outputs))
	readers, ctx := errgroup.WithContext(ctx)
	readers.SetLimit(objectReaders)
	seen := map[string]bool{}
	for i, o := range g.outputs {
		if path := o.File.FilePath(); seen[path] {
			continue // another vector of a Puffin file
		} else {
			seen[path] = true
		}
		readers.Go(func() error {
			var err error
			found[i], err = reopenFile(ctx, s.port.Store, o.File)
			return err
		})
	}
	if err := readers.Wait(); err != nil {
		return nil, err
	}
	for _, v := range found {
		if v != nil {
			return v, nil
		}
	}
	return nil, nil
}

func reopenFile(ctx context.Context, st store.Reader, f iceberg.DataFile) (*verdict, error) {
	info, err := st.Head(ctx, f.FilePath())
	switch {
	case errors.Is(err, store.ErrNotFound):
		return refused("output %s is not there", f.FilePath()), nil
	case err != nil:
		return nil, err
	case info.SizeBytes != f.FileSizeBytes():
		return refused("output %s has %d bytes, its entry says %d", f.FilePath(), info.SizeBytes, f.FileSizeBytes()), nil
	case f.FileFormat() != iceberg.ParquetFile:
		return nil, nil
	}
	footer, err := readFooter(ctx, st, f.FilePath(), info.SizeBytes)
	if err != nil {
		return nil, err
	}
	var meta format.FileMetaData
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), footer, &meta); len(footer) == 0 || err != nil {
		return refused("output %s has no readable Parquet footer: %v", f.FilePath(), err), nil
	}
	rows := int64(0)
	for _, g := range meta.RowGroups {
		rows += g.NumRows
	}
	if meta.NumRows != f.Count() || rows != f.Count() {
		return refused("output %s has %d rows, its entry says %d", f.FilePath(), meta.NumRows, f.Count()), nil
	}
	return nil, nil
}

// readFooter returns a Parquet file's footer with one request, or two when it is large; nothing when the file does not end as one.
func readFooter(ctx context.Context, st store.Reader, location string, size int64) ([]byte, error) {
	const trailer = 8 // length and magic
	data, err := st.GetRange(ctx, location, size-min(size, footerGuessBytes), min(size, footerGuessBytes))
	if err != nil {
		return nil, err
	}
	if len(data) < trailer || string(data[len(data)-4:]) != "PAR1" {
		return nil, nil
	}
	length := int64(binary.LittleEndian.Uint32(data[len(data)-trailer:]))
	if length+trailer > size {
		return nil, nil
	}
	if length+trailer > int64(len(data)) {
		return st.GetRange(ctx, location, size-trailer-length, length)
	}
	return data[int64(len(data))-trailer-length : len(data)-trailer], nil
}
