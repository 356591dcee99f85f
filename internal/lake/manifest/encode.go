package manifest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/apache/iceberg-go"

	"firn/internal/lake/avro"
)

// defaultBlockBytes is what version 1 wants in a field that nobody reads.
const defaultBlockBytes = 64 << 20

// Encoded is an entry in the form of a Layout. What is known of it beside its bytes, its manifest's line in the list wants.
type Encoded struct {
	// Bytes are the entry; the last Tuple of them are its partition.
	Bytes []byte
	Tuple int
	// Status, Records and Sequence are the entry's; Sequence is -1 when it inherits the commit's.
	Status   iceberg.ManifestEntryStatus
	Records  int64
	Sequence int64
}

// Existing encodes a live entry as it stands in a later snapshot's manifest: nothing of it is inherited there. It appends to dst.
func (l *Layout) Existing(dst []byte, e Entry) (Encoded, error) {
	return l.encode(dst, head{iceberg.EntryStatusEXISTING, e.SnapshotID, &e.DataSequence, recorded(e)}, e.File, e.FirstRowID)
}

// Deleted encodes a live entry that a snapshot removes.
func (l *Layout) Deleted(dst []byte, e Entry, snapshot int64) (Encoded, error) {
	return l.encode(dst, head{iceberg.EntryStatusDELETED, snapshot, &e.DataSequence, recorded(e)}, e.File, e.FirstRowID)
}

// Added encodes a file that a snapshot adds. Without a data sequence number it inherits the snapshot's.
func (l *Layout) Added(dst []byte, f iceberg.DataFile, snapshot int64, dataSequence *int64) (Encoded, error) {
	return l.encode(dst, head{iceberg.EntryStatusADDED, snapshot, dataSequence, nil}, f, f.FirstRowID())
}

func recorded(e Entry) *int64 {
	if e.FileSequence == UnknownSequence {
		return nil
	}
	return &e.FileSequence
}

// head are the fields of an entry beside its file.
type head struct {
	status                 iceberg.ManifestEntryStatus
	snapshot               int64
	sequence, fileSequence *int64
}

func (l *Layout) encode(dst []byte, h head, f iceberg.DataFile, firstRow *int64) (Encoded, error) {
	e := Encoded{Status: h.status, Records: f.Count(), Sequence: -1}
	if h.sequence != nil {
		e.Sequence = *h.sequence
	}
	dst = avro.AppendLong(dst, int64(h.status))
	if l.version == 1 {
		dst = avro.AppendLong(dst, h.snapshot)
	} else {
		dst = avro.AppendLong(append(dst, someTag), h.snapshot)
		dst = appendOptional(appendOptional(dst, h.sequence), h.fileSequence)
	}
	tuple, dst, err := l.file(dst, f, firstRow)
	if err != nil {
		return Encoded{}, fmt.Errorf("encode %s: %w", f.FilePath(), err)
	}
	e.Bytes, e.Tuple = dst, len(dst)-tuple
	return e, nil
}

// The tags of a union of null and another type.
const (
	nullTag = 0
	someTag = 2
)

func appendOptional(dst []byte, v *int64) []byte {
	if v == nil {
		return append(dst, nullTag)
	}
	return avro.AppendLong(append(dst, someTag), *v)
}

// file appends the record of a file, and tells where its tuple begins.
func (l *Layout) file(dst []byte, f iceberg.DataFile, firstRow *int64) (tuple int, out []byte, err error) {
	own, _ := f.(*file)
	if own != nil && own.partial {
		return 0, nil, fmt.Errorf("it was read without statistics: %w", ErrUnsupported)
	}
	for _, s := range l.slots {
		switch {
		case s == partition:
			tuple = len(dst)
			dst, err = l.tuple(dst, f, own)
		case own != nil && s >= partition && own.p.verbatim[s-partition] && len(own.bytes(s)) > 0:
			dst = append(dst, own.bytes(s)...)
		default:
			dst = appendField(dst, s, f, firstRow)
		}
	}
	return tuple, dst, err
}

func appendField(dst []byte, s slot, f iceberg.DataFile, firstRow *int64) []byte {
	switch s { //nolint:exhaustive // an entry's own fields are no file's
	case content:
		return avro.AppendLong(dst, int64(f.ContentType()))
	case filePath:
		return avro.AppendBytes(dst, f.FilePath())
	case fileFormat:
		return avro.AppendBytes(dst, string(f.FileFormat()))
	case recordCount:
		return avro.AppendLong(dst, f.Count())
	case fileSize:
		return avro.AppendLong(dst, f.FileSizeBytes())
	case blockSize:
		return avro.AppendLong(dst, defaultBlockBytes)
	case sortOrderID:
		if id := f.SortOrderID(); id != nil {
			return appendOptional(dst, new(int64(*id)))
		}
		return append(dst, nullTag)
	case firstRowID:
		return appendOptional(dst, firstRow)
	case contentOffset:
		return appendOptional(dst, f.ContentOffset())
	case contentSize:
		return appendOptional(dst, f.ContentSizeInBytes())
	case referencedFile:
		if path := f.ReferencedDataFile(); path != nil {
			return avro.AppendBytes(append(dst, someTag), *path)
		}
		return append(dst, nullTag)
	}
	return appendStatistics(dst, s, f)
}

func appendStatistics(dst []byte, s slot, f iceberg.DataFile) []byte {
	switch s { //nolint:exhaustive // the others are appended by appendField
	case columnSizes:
		return appendNumbers(dst, f.ColumnSizes())
	case valueCounts:
		return appendNumbers(dst, f.ValueCounts())
	case nullCounts:
		return appendNumbers(dst, f.NullValueCounts())
	case nanCounts:
		return appendNumbers(dst, f.NaNValueCounts())
	case lowerBounds:
		return appendBounds(dst, f.LowerBoundValues())
	case upperBounds:
		return appendBounds(dst, f.UpperBoundValues())
	case keyMetadata:
		if key := f.KeyMetadata(); key != nil {
			return avro.AppendBytes(append(dst, someTag), key)
		}
		return append(dst, nullTag)
	case splitOffsets:
		return appendList(dst, f.SplitOffsets())
	case equalityIDs:
		return appendList(dst, f.EqualityFieldIDs())
	}
	return dst
}

func appendList[N int | int64](dst []byte, values []N) []byte {
	if values == nil {
		return append(dst, nullTag)
	}
	dst = append(dst, someTag)
	if len(values) > 0 {
		dst = avro.AppendLong(dst, int64(len(values)))
	}
	for _, v := range values {
		dst = avro.AppendLong(dst, int64(v))
	}
	return append(dst, 0)
}

func appendNumbers(dst []byte, values map[int]int64) []byte {
	return appendPairs(dst, values, func(dst []byte, v int64) []byte { return avro.AppendLong(dst, v) })
}

func appendBounds(dst []byte, values map[int][]byte) []byte {
	return appendPairs(dst, values, func(dst, v []byte) []byte { return avro.AppendBytes(dst, v) })
}

func appendPairs[V any](dst []byte, values map[int]V, value func([]byte, V) []byte) []byte {
	if values == nil {
		return append(dst, nullTag)
	}
	dst = append(dst, someTag)
	if len(values) > 0 {
		dst = avro.AppendLong(dst, int64(len(values)))
	}
	for _, id := range slices.Sorted(maps.Keys(values)) {
		dst = value(avro.AppendLong(dst, int64(id)), values[id])
	}
	return append(dst, 0)
}

// tuple appends the partition tuple.
func (l *Layout) tuple(dst []byte, f iceberg.DataFile, own *file) ([]byte, error) {
	if own != nil && sameParts(own.p.parts, l.parts) {
		return append(dst, own.bytes(partition)...), nil
	}
	values := f.Partition()
	known := 0
	for _, p := range l.parts {
		v, ok := values[p.id]
		if ok {
			known++
		}
		value, _ := p.t.Optional()
		switch {
		case value == nil && v != nil:
			return nil, fmt.Errorf("partition field %d has the value %v, its source column is gone: %w", p.id, v, ErrTableFault)
		case value == nil:
		case v == nil:
			dst = append(dst, nullTag)
		default:
			var err error
			if dst, err = appendValue(append(dst, someTag), value, v); err != nil {
				return nil, fmt.Errorf("partition field %d: %w", p.id, err)
			}
		}
	}
	if known < len(values) {
		return nil, fmt.Errorf("its partition %v has fields that spec %d lacks: %w", values, l.spec.ID(), ErrTableFault)
	}
	return dst, nil
}

// sameParts reports whether tuples of both forms have the same bytes.
func sameParts(a, b []part) bool {
	return slices.EqualFunc(a, b, func(a, b part) bool {
		x, xFirst := a.t.Optional()
		y, yFirst := b.t.Optional()
		if a.id != b.id || !xFirst || !yFirst {
			return false
		}
		if isWhole(x) && isWhole(y) {
			return (x.Kind == y.Kind || x.Kind == avro.Int) && unit(x) == unit(y)
		}
		decimal := x.Logical == "decimal" || y.Logical == "decimal"
		return x.Kind == y.Kind && x.Size == y.Size && x.Scale == y.Scale && (!decimal || x.Logical == y.Logical)
	})
}

// unit is what a number of a logical type counts: milliseconds are converted, everything else is kept as it is.
func unit(t *avro.Type) bool {
	switch t.Logical {
	case "time-millis", "timestamp-millis", "local-timestamp-millis":
		return true
	}
	return false
}

// Transport encodes files of one partition spec for transport, as entries of a manifest of format version 3: it has every field of 1 and 2. It is
// immutable. One serves all files of a group, since what it knows of the format weighs more than a file.
type Transport struct {
	layout  *Layout
	program *program
}

// NewTransport makes the transport of a partition spec. The schema must hold the spec's source columns.
func NewTransport(spec iceberg.PartitionSpec, schema *iceberg.Schema) (*Transport, error) {
	l, err := NewLayout(3, spec, schema)
	if err != nil {
		return nil, err
	}
	p, err := compileType(l.entry, nil)
	if err != nil {
		return nil, err
	}
	return &Transport{layout: l, program: p}, nil
}

// Append encodes a file, behind dst.
func (t *Transport) Append(dst []byte, f iceberg.DataFile) ([]byte, error) {
	size := len(f.FilePath()) + 80
	if own, ok := f.(*file); ok {
		size += len(own.raw)
	}
	dst = append(avro.AppendLong(slices.Grow(dst, size), int64(iceberg.EntryStatusADDED)), nullTag, nullTag, nullTag)
	_, dst, err := t.layout.file(dst, f, f.FirstRowID())
	return dst, err
}

// Decode decodes what Append made, for the same spec and schema.
func (t *Transport) Decode(data []byte) (iceberg.DataFile, error) {
	c := avro.Cursor{Data: data}
	f := &file{p: t.program, spec: int32(t.layout.spec.ID())}
	for i := range t.program.entry {
		if op := &t.program.entry[i]; op.slot == dataFile {
			f.read(&c, Options{})
		} else {
			c.Skip(op.t)
		}
	}
	switch {
	case c.Err != nil:
		return nil, c.Err
	case c.At != len(data):
		return nil, fmt.Errorf("%d bytes are left: %w", len(data)-c.At, avro.ErrCorrupt)
	case f.path == "":
		return nil, fmt.Errorf("it names no file: %w", ErrTableFault)
	}
	return f, nil
}
