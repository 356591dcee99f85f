package where

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// transform is a partition transform; width is the number of buckets or the truncation width.
type transform struct {
	name  string
	width int
}

// parseTransform reads a transform; one that is not known projects nothing.
func parseTransform(text string) transform {
	name, parameter, has := strings.Cut(strings.TrimSuffix(strings.ToLower(strings.TrimSpace(text)), "]"), "[")
	switch {
	case (name == "bucket" || name == "truncate") && has:
		if n, err := strconv.Atoi(parameter); err == nil && n > 0 {
			return transform{name, n}
		}
	case name == "identity" || name == "void" || name == "year" || name == "month" || name == "day" || name == "hour":
		return transform{name: name}
	}
	return transform{name: "unknown"}
}

func (t transform) ofTime() bool {
	return t.name == "year" || t.name == "month" || t.name == "day" || t.name == "hour"
}

// apply transforms a value of a column's type; false when the transform does not take it.
func (t transform) apply(v Value, of Type) (Value, bool) {
	switch t.name {
	case "identity":
		return v, true
	case "bucket":
		return t.bucket(v, of)
	case "truncate":
		return t.truncate(v, of)
	}
	if !t.ofTime() || v.kind != valueWhole {
		return Value{}, false
	}
	perDay := map[TypeKind]int64{TypeDate: 1, TypeTimestamp: microsPerDay, TypeTimestampNS: nanosPerDay}[of.Kind]
	if perDay == 0 {
		return Value{}, false
	}
	days := floorDiv(v.whole, perDay)
	switch t.name {
	case "day":
		return Whole(days), true
	case "hour":
		return Whole(floorDiv(v.whole, perDay/24)), perDay > 1
	}
	if days > math.MaxInt32 || days < math.MinInt32 {
		return Value{}, false
	}
	at := time.Unix(days*86400, 0).UTC()
	years := int64(at.Year() - 1970)
	if t.name == "year" {
		return Whole(years), true
	}
	return Whole(years*12 + int64(at.Month()) - 1), true
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// bucket hashes as the Iceberg spec says (appendix B).
func (t transform) bucket(v Value, of Type) (Value, bool) {
	var data []byte
	switch {
	case v.kind == valueText:
		data = []byte(v.text)
	case v.kind == valueBig:
		data = toTwosComplement(v.big)
	case v.kind == valueWhole && of.Kind != TypeBoolean:
		n := v.whole
		if of.Kind == TypeTimestampNS {
			n = floorDiv(n, 1000)
		}
		data = binary.LittleEndian.AppendUint64(nil, uint64(n)) // the bits are hashed
	default:
		return Value{}, false
	}
	return Whole(int64(murmur3(data)&math.MaxInt32) % int64(t.width)), true
}

func (t transform) truncate(v Value, of Type) (Value, bool) {
	switch v.kind {
	case valueWhole:
		w := int64(t.width)
		cut := v.whole - ((v.whole%w)+w)%w
		return Whole(cut), (of.Kind == TypeInt || of.Kind == TypeLong) && cut <= v.whole // no projection where it overflows
	case valueBig:
		rest := new(big.Int).Mod(v.big, big.NewInt(int64(t.width)))
		return Decimal(rest.Sub(v.big, rest)), true
	case valueText:
		if of.Kind != TypeString {
			return Text(v.text[:min(t.width, len(v.text))]), true
		}
		count := 0
		for i := range v.text {
			if count == t.width {
				return Text(v.text[:i]), true
			}
			count++
		}
		return v, true
	}
	return Value{}, false
}

// step is the next value of a type with whole units. Texts and floats have no neighbour: the value itself is a safe bound.
func (v Value) step(by int64) Value {
	switch {
	case v.kind == valueWhole && (by < 0 && v.whole > math.MinInt64 || by > 0 && v.whole < math.MaxInt64):
		v.whole += by
	case v.kind == valueBig:
		v.big = new(big.Int).Add(v.big, big.NewInt(by))
	}
	return v
}

// murmur3 is the 32-bit x86 variant with seed 0.
func murmur3(data []byte) uint32 {
	const c1, c2 = 0xcc9e2d51, 0x1b873593
	mix := func(k uint32) uint32 { return bits.RotateLeft32(k*c1, 15) * c2 }
	h, rest := uint32(0), data
	for ; len(rest) >= 4; rest = rest[4:] {
		h = bits.RotateLeft32(h^mix(binary.LittleEndian.Uint32(rest)), 13)*5 + 0xe6546b64
	}
	if len(rest) > 0 {
		var last [4]byte
		copy(last[:], rest)
		h ^= mix(binary.LittleEndian.Uint32(last[:]))
	}
	h ^= uint32(len(data)) // lengths of values
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}
