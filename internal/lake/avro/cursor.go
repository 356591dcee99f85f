package avro

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// Cursor steps through the values in a block. After the first value that is not there Err is set, and every further call returns zero.
type Cursor struct {
	// Data are the bytes, At is how many of them were read.
	Data []byte
	At   int
	// Err wraps ErrCorrupt.
	Err error
}

// fail records the first error and makes the cursor find nothing more.
func (c *Cursor) fail(format string, args ...any) {
	if c.Err == nil {
		c.Err = fmt.Errorf("byte %d: "+format+": %w", append(append([]any{c.At}, args...), ErrCorrupt)...)
	}
	c.At = len(c.Data)
}

// Long reads an int, a long or the number of a branch.
func (c *Cursor) Long() int64 {
	if c.At < len(c.Data) {
		if b := c.Data[c.At]; b < 0x80 { // most numbers have one byte
			c.At++
			return int64(b>>1) ^ -int64(b&1)
		}
	}
	u, n := binary.Uvarint(c.Data[c.At:])
	if n <= 0 {
		c.fail("a number does not end")
		return 0
	}
	c.At += n
	return int64(u>>1) ^ -int64(u&1)
}

// Boolean reads a boolean.
func (c *Cursor) Boolean() bool {
	b := c.Fixed(1)
	return len(b) == 1 && b[0] != 0
}

// Float reads a float.
func (c *Cursor) Float() float32 {
	b := c.Fixed(4)
	if b == nil {
		return 0
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(b))
}

// Double reads a double.
func (c *Cursor) Double() float64 {
	b := c.Fixed(8)
	if b == nil {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}

// Bytes reads bytes or a string. The result is a part of Data.
func (c *Cursor) Bytes() []byte {
	n := c.Long()
	if n < 0 || n > int64(len(c.Data)-c.At) {
		c.fail("a text of %d bytes, %d are left", n, len(c.Data)-c.At)
		return nil
	}
	return c.Fixed(int(n))
}

// Fixed reads n bytes; nil when they are not there. The result is a part of Data.
func (c *Cursor) Fixed(n int) []byte {
	if n < 0 || n > len(c.Data)-c.At {
		c.fail("%d bytes are wanted, %d are left", n, len(c.Data)-c.At)
		return nil
	}
	b := c.Data[c.At : c.At+n : c.At+n]
	c.At += n
	return b
}

// Branch reads which branch of a union follows; any other type is returned as it is.
func (c *Cursor) Branch(t *Type) *Type {
	for t.Kind == Union {
		i := c.Long()
		if i < 0 || i >= int64(len(t.Branches)) {
			c.fail("branch %d of a union of %d", i, len(t.Branches))
			return nullType()
		}
		t = t.Branches[i]
	}
	return t
}

func nullType() *Type { return &Type{Kind: Null, empty: true} }

// Items reads the start of the next run of items of an array or map: their number, 0 at the end.
func (c *Cursor) Items() int64 {
	n := c.Long()
	if n < 0 {
		c.Long() // the run's length in bytes
		n = -n
	}
	if n < 0 {
		c.fail("a list of %d items", n)
		return 0
	}
	return n
}

// Skip steps over a value.
func (c *Cursor) Skip(t *Type) {
	switch t.Kind {
	case Int, Long, Enum:
		c.Long()
	case Bytes, String:
		c.Bytes()
	case Null, Boolean, Float, Double, Fixed:
		c.Fixed(t.width())
	case Record:
		c.skipRecord(t)
	case Union:
		c.Skip(c.Branch(t))
	case Array, Map:
		c.skipItems(t)
	}
}

func (c *Cursor) skipRecord(t *Type) {
	if t.steps != nil {
		c.skipSteps(t.steps)
		return
	}
	for i := range t.Fields {
		if c.Err != nil {
			return
		}
		c.Skip(t.Fields[i].Type)
	}
}

func (c *Cursor) skipSteps(steps []step) {
	for _, s := range steps {
		switch s.kind {
		case varint:
			c.Long()
		case sized:
			c.Bytes()
		case fixed:
			c.Fixed(s.size)
		}
	}
}

func (c *Cursor) skipItems(t *Type) {
	for c.Err == nil {
		n := c.Long()
		if n == 0 {
			return
		}
		if n < 0 {
			size := c.Long()
			if size < 0 || size > int64(len(c.Data)-c.At) {
				c.fail("a list of %d bytes, %d are left", size, len(c.Data)-c.At)
				return
			}
			c.At += int(size)
			continue
		}
		c.skipRun(t, n)
	}
}

func (c *Cursor) skipRun(t *Type, n int64) {
	if t.Kind == Array && t.Items.empty {
		return // however many they are, they have no bytes
	}
	if t.Kind == Array && t.Items.numbers > 0 && n <= int64(len(c.Data)) {
		c.skipNumbers(int(n) * t.Items.numbers)
		return
	}
	for ; n > 0 && c.Err == nil; n-- {
		if t.Kind == Map {
			c.Bytes()
		}
		if t.Items.steps != nil {
			c.skipSteps(t.Items.steps)
		} else {
			c.Skip(t.Items)
		}
	}
}

// lastBytes has the bit of each byte that is set in all bytes of a number but its last.
const lastBytes = 0x8080808080808080

// skipNumbers steps over n numbers: by their last bytes, eight bytes at a time. Statistics of columns are mostly such numbers.
func (c *Cursor) skipNumbers(n int) {
	for n >= 8 && c.At+8 <= len(c.Data) {
		n -= bits.OnesCount64(^binary.LittleEndian.Uint64(c.Data[c.At:]) & lastBytes)
		c.At += 8
	}
	// The last eight bytes may end inside of a number, which is still to be counted.
	for ; n > 0 && c.Err == nil; n-- {
		for c.At < len(c.Data) && c.Data[c.At] >= 0x80 {
			c.At++
		}
		if c.At++; c.At > len(c.Data) {
			c.At = len(c.Data)
			c.fail("a number does not end")
		}
	}
}
