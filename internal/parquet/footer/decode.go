package footer

import (
	"encoding/binary"
	"fmt"
)

const (
	// maxDepth bounds nesting: a footer needs about ten levels.
	maxDepth = 32
	// firstCapacity is the most elements that are allocated before any was read.
	firstCapacity = 64
	// openFields is for how many fields of records that have not ended there is room without an allocation.
	openFields = 32
)

// Decode reads one record from the start of data; n is its length in bytes. Binary values share data's memory.
func Decode(data []byte) (s *Struct, n int, err error) {
	var room [openFields]Field
	d := decoder{data: data, open: room[:0]}
	s = d.record(0)
	if d.err != nil {
		return nil, 0, d.err
	}
	return s, d.at, nil
}

// decoder keeps the first fault; after it everything reads as zero.
type decoder struct {
	data []byte
	at   int
	err  error
	// open are the fields of the records that have not ended, outer ones first: they are allocated once it is known how many there are.
	open []Field
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%s at byte %d: %w", what, d.at, ErrMalformed)
	}
}

func (d *decoder) octet() byte {
	if d.err != nil || d.at >= len(d.data) {
		d.fail("unexpected end")
		return 0
	}
	b := d.data[d.at]
	d.at++
	return b
}

func (d *decoder) varint() uint64 {
	if d.err != nil {
		return 0
	}
	n, size := binary.Uvarint(d.data[d.at:])
	if size <= 0 {
		d.fail("bad varint")
		return 0
	}
	d.at += size
	return n
}

func (d *decoder) zigzag() int64 {
	n := d.varint()
	return int64(n>>1) ^ -int64(n&1)
}

func (d *decoder) record(depth int) *Struct {
	s := &Struct{}
	if depth > maxDepth {
		d.fail("nested too deeply")
		return s
	}
	last, begin := int16(0), len(d.open)
	for d.err == nil {
		head := d.octet()
		if head == 0 {
			break
		}
		id := last + int16(head>>4)
		if head>>4 == 0 {
			n := d.zigzag()
			if n != int64(int16(n)) {
				d.fail("bad field number")
			}
			id = int16(n)
		}
		last = id
		v := d.value(Kind(head&0xf), depth, true)
		d.open = append(d.open, Field{ID: id, Value: v})
	}
	s.Fields = append(s.Fields, d.open[begin:]...)
	d.open = d.open[:begin]
	return s
}

// value reads a value; the two booleans of a field lie in its kind, those of a collection in a byte.
func (d *decoder) value(k Kind, depth int, field bool) Value {
	v := Value{Kind: k}
	switch k {
	case True, False:
		if !field {
			v.Int = int64(d.octet())
		}
	case Byte:
		v.Int = int64(int8(d.octet()))
	case I16, I32, I64:
		v.Int = d.zigzag()
	case Double:
		if d.err != nil || len(d.data)-d.at < 8 {
			d.fail("unexpected end")
			return v
		}
		v.Int = int64(binary.LittleEndian.Uint64(d.data[d.at:]))
		d.at += 8
	case Binary:
		n := d.varint()
		if d.err != nil || n > uint64(len(d.data)-d.at) {
			d.fail("a length beyond the end")
			return v
		}
		v.Bytes = d.data[d.at : d.at+int(n) : d.at+int(n)]
		d.at += int(n)
	case List, Set:
		v.Items = d.items(depth)
	case Map:
		v.Items = d.mapping(depth)
	case Record:
		v.Struct = d.record(depth + 1)
	default:
		d.fail(fmt.Sprintf("unknown type %d", k))
	}
	return v
}

// items reads a list: each element takes at least one byte, so a count beyond the rest of the data is a lie.
func (d *decoder) items(depth int) *Items {
	head := d.octet()
	n := uint64(head >> 4)
	if n == 0xf {
		n = d.varint()
	}
	it := &Items{Element: Kind(head & 0xf)}
	d.elements(it, n, 1, depth)
	return it
}

func (d *decoder) mapping(depth int) *Items {
	n := d.varint()
	it := &Items{}
	if n == 0 {
		return it
	}
	kinds := d.octet()
	it.Key, it.Element = Kind(kinds>>4), Kind(kinds&0xf)
	d.elements(it, n, 2, depth)
	return it
}

func (d *decoder) elements(it *Items, n uint64, each int, depth int) {
	if d.err != nil || n > uint64(len(d.data)-d.at) || depth > maxDepth {
		d.fail("a count beyond the end")
		return
	}
	it.Values = make([]Value, 0, min(int(n)*each, firstCapacity))
	for range n {
		if each == 2 {
			it.Values = append(it.Values, d.value(it.Key, depth+1, false))
		}
		it.Values = append(it.Values, d.value(it.Element, depth+1, false))
		if d.err != nil {
			return
		}
	}
}
