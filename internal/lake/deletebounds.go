package lake

import (
	"bytes"
	"encoding/binary"
	"math/big"
	"slices"

	"github.com/apache/iceberg-go"
)

// schemaFields are the top-level columns of all schemas of a table by ID, in the newest definition: an equality delete may name a column that
// was dropped since.
type schemaFields map[int]iceberg.NestedField

func fieldsByID(t *Table) schemaFields {
	fields := schemaFields{}
	add := func(s *iceberg.Schema) {
		for _, f := range s.Fields() {
			if _, ok := fields[f.ID]; !ok {
				fields[f.ID] = f
			}
		}
	}
	add(t.Metadata.CurrentSchema())
	for _, s := range slices.Backward(t.Metadata.Schemas()) {
		add(s)
	}
	return fields
}

// mayMatch reports whether an equality delete file can delete a row of the data file, by null counts and bounds, as Java's DeleteFileIndex does
// (canContainEqDeletesForFile). Missing statistics prove nothing, nested columns are not looked at. Null equals null.
func (s schemaFields) mayMatch(deletes equalityDelete, file fileStats) bool {
	deleted := deletes.stats
	for _, id := range deletes.fields {
		field, ok := s[id]
		if !ok || file.mayHoldNull(field) && deleted.mayHoldNull(field) {
			continue
		}
		if file.allNull(field) && deleted.noneNull(field) || deleted.allNull(field) && file.noneNull(field) {
			return false
		}
		if !overlap(field.Type, deleted, file, id) {
			return false
		}
	}
	return true
}

type fileStats struct {
	values, nulls map[int]int64
	lower, upper  map[int][]byte
}

func statsOf(f iceberg.DataFile) fileStats {
	return fileStats{f.ValueCounts(), f.NullValueCounts(), f.LowerBoundValues(), f.UpperBoundValues()}
}

func (s fileStats) mayHoldNull(f iceberg.NestedField) bool {
	if f.Required {
		return false
	}
	n, known := s.nulls[f.ID]
	return !known || n > 0
}

func (s fileStats) allNull(f iceberg.NestedField) bool {
	if f.Required {
		return false
	}
	n, known := s.nulls[f.ID]
	v, counted := s.values[f.ID]
	return known && counted && n == v
}

func (s fileStats) noneNull(f iceberg.NestedField) bool {
	if f.Required {
		return true
	}
	n, known := s.nulls[f.ID]
	return known && n <= 0
}

// overlap compares the bounds of a column; a missing or unreadable bound overlaps everything.
func overlap(typ iceberg.Type, a, b fileStats, id int) bool {
	return notAfter(typ, a.lower[id], b.upper[id]) && notAfter(typ, b.lower[id], a.upper[id])
}

func notAfter(typ iceberg.Type, lower, upper []byte) bool {
	if lower == nil || upper == nil {
		return true
	}
	switch typ.(type) {
	case iceberg.Int32Type, iceberg.DateType:
		return notAfterInteger(lower, upper, 4, 4)
	case iceberg.Int64Type:
		return notAfterInteger(lower, upper, 4, 8) // 4 bytes in files from before the promotion of an int
	case iceberg.TimeType, iceberg.TimestampType, iceberg.TimestampTzType, iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		return notAfterInteger(lower, upper, 8, 8) // 4 bytes would be days from before the promotion of a date
	case iceberg.StringType, iceberg.BinaryType, iceberg.FixedType:
		return bytes.Compare(lower, upper) <= 0
	case iceberg.DecimalType:
		return twosComplement(lower).Cmp(twosComplement(upper)) <= 0
	default:
		// Floats: their bounds leave NaN out, which equals NaN. UUIDs: some writers order them as signed numbers.
		return true
	}
}

// notAfterInteger compares little-endian integers of shortest to longest bytes; any other length compares with nothing.
func notAfterInteger(lower, upper []byte, shortest, longest int) bool {
	low, ok1 := littleEndian(lower, shortest, longest)
	high, ok2 := littleEndian(upper, shortest, longest)
	return !ok1 || !ok2 || low <= high
}

func littleEndian(b []byte, shortest, longest int) (int64, bool) {
	switch {
	case len(b) < shortest || len(b) > longest:
		return 0, false
	case len(b) == 4:
		return int64(int32(binary.LittleEndian.Uint32(b))), true
	case len(b) == 8:
		return int64(binary.LittleEndian.Uint64(b)), true
	}
	return 0, false
}

func twosComplement(b []byte) *big.Int {
	v := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return v
}
