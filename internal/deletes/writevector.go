package deletes

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/puffin"

	"firn/internal/store"
)

// EncodeVector makes a deletion vector's blob; see DecodeVector for its form. The mask is compacted on the way (runs instead of single positions).
func EncodeVector(m Mask) ([]byte, error) {
	m.RunOptimize()
	blob := make([]byte, 4, vectorFrame+int(m.GetSerializedSizeInBytes()))
	buf := bytes.NewBuffer(append(blob, vectorMagic...))
	if _, err := m.WriteTo(buf); err != nil {
		return nil, fmt.Errorf("encode a deletion vector: %w", err)
	}
	blob = buf.Bytes()
	if len(blob)+4 > maxVectorBytes {
		return nil, fmt.Errorf("encode a deletion vector: it has %d bytes: %w", len(blob)+4, ErrUnusable)
	}
	binary.BigEndian.PutUint32(blob, uint32(len(blob)-4))
	return binary.BigEndian.AppendUint32(blob, crc32.ChecksumIEEE(blob[4:])), nil
}

// WriteVectors writes one Puffin file under a new name with a deletion vector for each data file, ordered by path, and returns the manifest
// entries' data files in this order. Empty masks are not written.
func WriteVectors(ctx context.Context, st store.Writer, location string, deletes []FileDeletes) ([]iceberg.DataFile, error) {
	deletes = slices.DeleteFunc(slices.Clone(deletes), func(d FileDeletes) bool { return d.Positions == nil || d.Positions.IsEmpty() })
	if len(deletes) == 0 {
		return nil, fmt.Errorf("write deletion vectors %s: there are none", location)
	}
	slices.SortFunc(deletes, func(a, b FileDeletes) int { return strings.Compare(a.Path, b.Path) })
	var buf bytes.Buffer
	w, err := puffin.NewWriter(&buf)
	if err != nil {
		return nil, fmt.Errorf("write deletion vectors %s: %w", location, err)
	}
	blobs := make([]puffin.BlobMetadata, len(deletes))
	for i, d := range deletes {
		if i > 0 && deletes[i-1].Path == d.Path {
			return nil, fmt.Errorf("write deletion vectors %s: data file %s is named twice", location, d.Path)
		}
		blob, err := EncodeVector(d.Positions)
		if err != nil {
			return nil, fmt.Errorf("write deletion vectors %s: %s: %w", location, d.Path, err)
		}
		// The specification asks for -1, since the snapshot is not known yet, and for these two properties.
		if blobs[i], err = w.AddBlob(puffin.BlobMetadataInput{
			Type: puffin.BlobTypeDeletionVector, SnapshotID: -1, SequenceNumber: -1, Fields: []int32{},
			Properties: map[string]string{
				"referenced-data-file": d.Path, "cardinality": strconv.FormatUint(d.Positions.GetCardinality(), 10),
			},
		}, blob); err != nil {
			return nil, fmt.Errorf("write deletion vectors %s: %w", location, err)
		}
	}
	if err := w.Finish(); err != nil {
		return nil, fmt.Errorf("write deletion vectors %s: %w", location, err)
	}
	files := make([]iceberg.DataFile, len(deletes))
	for i, d := range deletes {
		b, err := iceberg.NewDataFileBuilder(d.Spec, iceberg.EntryContentPosDeletes, location, iceberg.PuffinFile, d.Partition, nil, nil,
			int64(d.Positions.GetCardinality()), int64(buf.Len()))
		if err != nil {
			return nil, fmt.Errorf("describe deletion vectors %s: %w", location, err)
		}
		files[i] = b.ReferencedDataFile(d.Path).ContentOffset(blobs[i].Offset).ContentSizeInBytes(blobs[i].Length).Build()
	}
	if err := st.Put(ctx, location, buf.Bytes(), store.WriteOptions{IfAbsent: true, ContentType: "application/octet-stream"}); err != nil {
		return nil, fmt.Errorf("write deletion vectors %s: %w", location, err)
	}
	return files, nil
}
