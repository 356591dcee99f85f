package lake

import (
	"encoding/binary"
	"testing"

	"github.com/apache/iceberg-go"
)

// column describes the statistics of column 1 of a file; a negative count is an unknown one.
type column struct {
	values, nulls int64
	lower, upper  []byte
}

func (c column) stats() fileStats {
	s := fileStats{map[int]int64{}, map[int]int64{}, map[int][]byte{}, map[int][]byte{}}
	if c.values >= 0 {
		s.values[1] = c.values
	}
	if c.nulls >= 0 {
		s.nulls[1] = c.nulls
	}
	if c.lower != nil {
		s.lower[1], s.upper[1] = c.lower, c.upper
	}
	return s
}

func le4(v int32) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(v)) }
func le8(v int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(v)) }

func TestEqualityDeletesArePrunedByStatistics(t *testing.T) {
	t.Parallel()
	types := iceberg.PrimitiveTypes
	ints := func(low, high int64) column { return column{10, 0, le8(low), le8(high)} }
	tests := []struct {
		name          string
		typ           iceberg.Type
		required      bool
		deletes, data column
		want          bool
	}{
		{"ranges overlap", types.Int64, false, ints(5, 9), ints(9, 20), true},
		{"below", types.Int64, false, ints(-5, 8), ints(9, 20), false},
		{"above", types.Int64, false, ints(21, 30), ints(9, 20), false},
		{"no bounds in the data file", types.Int64, false, ints(5, 9), column{10, 0, nil, nil}, true},
		{"no statistics at all", types.Int64, false, column{-1, -1, nil, nil}, column{-1, -1, nil, nil}, true},
		{"null deletes null", types.Int64, false, column{10, 1, le8(1), le8(2)}, column{10, 1, le8(9), le8(9)}, true},
		{"unknown nulls may be", types.Int64, false, column{10, -1, le8(1), le8(2)}, column{10, 1, le8(9), le8(9)}, true},
		{"nulls against none", types.Int64, false, column{1, 1, nil, nil}, column{10, 0, le8(9), le8(9)}, false},
		{"none against only nulls", types.Int64, false, column{1, 0, le8(9), le8(9)}, column{10, 10, nil, nil}, false},
		{"required columns have no nulls", types.Int64, true, column{10, -1, le8(1), le8(2)}, column{10, -1, le8(9), le8(9)}, false},
		{"promoted int", types.Int64, false, ints(-1, -1), column{10, 0, le4(-3), le4(-2)}, false},
		{"promoted int that matches", types.Int64, false, ints(-3, -3), column{10, 0, le4(-3), le4(-2)}, true},
		{"promoted date has days, not microseconds", types.Timestamp, false, column{10, 0, le8(1e15), le8(1e15)}, column{10, 0, le4(19000), le4(19000)}, true},
		{"bound of a wrong length", types.Int32, false, column{10, 0, le8(1), le8(1)}, column{10, 0, le4(9), le4(9)}, true},
		{"texts by bytes", types.String, false, column{10, 0, []byte("b"), []byte("c")}, column{10, 0, []byte("a"), []byte("az")}, false},
		{"negative decimals", iceberg.DecimalTypeOf(9, 2), false, column{10, 0, []byte{0xff}, []byte{0xff}}, column{10, 0, []byte{0x00}, []byte{0x01}}, false},
		{"decimals of different length", iceberg.DecimalTypeOf(9, 2), false, column{10, 0, []byte{0x7f}, []byte{0x7f}}, column{10, 0, []byte{0x00, 0x80}, []byte{0x01, 0x00}}, false},
		{"floats: NaN has no bounds", types.Float64, false, column{10, 0, le8(0), le8(0)}, column{10, 0, le8(1), le8(1)}, true},
		{"UUIDs", types.UUID, false, column{10, 0, make([]byte, 16), make([]byte, 16)}, column{10, 0, []byte{1}, []byte{2}}, true},
		{"dates", types.Date, false, column{10, 0, le4(1), le4(1)}, column{10, 0, le4(2), le4(3)}, false},
	}
	for _, tt := range tests {
		fields := schemaFields{1: {ID: 1, Name: "c", Type: tt.typ, Required: tt.required}}
		d := equalityDelete{fields: []int{1}, stats: tt.deletes.stats()}
		if got := fields.mayMatch(d, tt.data.stats()); got != tt.want {
			t.Errorf("%s: may match is %t, want %t", tt.name, got, tt.want)
		}
		if !(schemaFields{}).mayMatch(d, tt.data.stats()) {
			t.Errorf("%s: an unknown column prunes", tt.name)
		}
	}
}
