package projection

import (
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/apache/iceberg-go"
)

const (
	nanosPerMicro  = 1_000
	microsPerMilli = 1_000
	nanosPerMilli  = 1_000_000
	microsPerDay   = 86_400_000_000
	nanosPerDay    = microsPerDay * nanosPerMicro
	// julianEpoch is 1970-01-01 in the Julian days of INT96.
	julianEpoch = 2_440_588
)

// unit is a clock's resolution, as nanoseconds a tick.
type unit int64

const (
	millis unit = nanosPerMilli
	micros unit = nanosPerMicro
	nanos  unit = 1
)

// instant converts times and timestamps. Whether a file's column is adjusted to UTC is not compared: the table's type says what it means, as
// readers do.
func instant(c *schema.Column, t iceberg.Type) conversion {
	switch t.(type) {
	case iceberg.TimeType:
		return timeOfDay(c)
	case iceberg.TimestampType, iceberg.TimestampTzType:
		return timestamp(c, micros, t)
	case iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		return timestamp(c, nanos, t)
	}
	return conversion{}
}

func timeOfDay(c *schema.Column) conversion {
	from, ok := c.LogicalType().(schema.TimeLogicalType)
	if !ok {
		return when(c.PhysicalType() == parquet.Types.Int64 && plainInteger(c, 64))
	}
	if c.PhysicalType() == parquet.Types.Int32 {
		return each(int32s, int64s, func(v int32) (int64, error) { return int64(v) * microsPerMilli, nil })
	}
	if from.TimeUnit() == schema.TimeUnitNanos {
		return each(int64s, int64s, func(v int64) (int64, error) { return divide(v, nanosPerMicro) })
	}
	return when(from.TimeUnit() == schema.TimeUnitMicros)
}

func timestamp(c *schema.Column, to unit, t iceberg.Type) conversion {
	switch c.PhysicalType() {
	case parquet.Types.Int96:
		return each(int96s, int64s, func(v parquet.Int96) (int64, error) { return int96(v, to) })
	case parquet.Types.Int32:
		return fromDate(c, t)
	case parquet.Types.Int64:
	default:
		return conversion{}
	}
	from := to
	switch l := c.LogicalType().(type) {
	case schema.TimestampLogicalType:
		switch l.TimeUnit() {
		case schema.TimeUnitMillis:
			from = millis
		case schema.TimeUnitMicros:
			from = micros
		case schema.TimeUnitNanos:
			from = nanos
		default:
			return conversion{}
		}
	default:
		if !plainInteger(c, 64) {
			return conversion{}
		}
	}
	switch {
	case from == to:
		return share()
	case from > to:
		return each(int64s, int64s, func(v int64) (int64, error) { return multiply(v, int64(from/to)) })
	default:
		return each(int64s, int64s, func(v int64) (int64, error) { return divide(v, int64(to/from)) })
	}
}

// fromDate is the promotion of format version 3: a date is the midnight at its start; only timestamps without zone are allowed.
func fromDate(c *schema.Column, t iceberg.Type) conversion {
	if !isDate(c) {
		return conversion{}
	}
	perDay := int64(microsPerDay)
	switch t.(type) {
	case iceberg.TimestampType:
	case iceberg.TimestampNsType:
		perDay = nanosPerDay
	default:
		return conversion{}
	}
	return each(int32s, int64s, func(v int32) (int64, error) { return multiply(int64(v), perDay) })
}

// divide refuses to lose digits: a nanosecond column read as microseconds is exact or not read.
func divide(v, by int64) (int64, error) {
	if v%by != 0 {
		return 0, fmt.Errorf("the instant %d has digits below the column's resolution: %w", v, ErrUnmappable)
	}
	return v / by, nil
}

// int96 reads the nanoseconds of the day and the Julian day of an INT96 timestamp. Readers cut it to microseconds, so a microsecond column
// holds what they show.
func int96(v parquet.Int96, to unit) (int64, error) {
	ofDay := int64(binary.LittleEndian.Uint64(v[:8]))
	days := int64(int32(binary.LittleEndian.Uint32(v[8:]))) - julianEpoch
	if ofDay < 0 || ofDay > 2*nanosPerDay {
		return 0, fmt.Errorf("an INT96 timestamp with %d nanoseconds in the day: %w", ofDay, ErrUnmappable)
	}
	start, err := multiply(days, nanosPerDay/int64(to))
	if err != nil {
		return 0, err
	}
	sum := start + ofDay/int64(to)
	if sum < start {
		return 0, fmt.Errorf("an INT96 timestamp overflows: %w", ErrUnmappable)
	}
	return sum, nil
}
