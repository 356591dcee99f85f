package footer

import "encoding/binary"

// Append encodes a record after dst.
func Append(dst []byte, s *Struct) []byte {
	last := int16(0)
	for i := range s.Fields {
		f := &s.Fields[i]
		if delta := int(f.ID) - int(last); delta > 0 && delta <= 15 {
			dst = append(dst, byte(delta)<<4|byte(f.Value.Kind))
		} else {
			dst = append(dst, byte(f.Value.Kind))
			dst = appendZigzag(dst, int64(f.ID))
		}
		last = f.ID
		dst = appendValue(dst, &f.Value, true)
	}
	return append(dst, 0)
}

func appendZigzag(dst []byte, n int64) []byte {
	return binary.AppendUvarint(dst, uint64(n<<1)^uint64(n>>63))
}

func appendValue(dst []byte, v *Value, field bool) []byte {
	switch v.Kind {
	case True, False:
		if !field {
			dst = append(dst, byte(v.Int))
		}
	case Byte:
		dst = append(dst, byte(v.Int))
	case I16, I32, I64:
		dst = appendZigzag(dst, v.Int)
	case Double:
		dst = binary.LittleEndian.AppendUint64(dst, uint64(v.Int))
	case Binary:
		dst = binary.AppendUvarint(dst, uint64(len(v.Bytes)))
		dst = append(dst, v.Bytes...)
	case List, Set:
		if n := len(v.Items.Values); n < 15 {
			dst = append(dst, byte(n)<<4|byte(v.Items.Element))
		} else {
			dst = append(dst, 0xf0|byte(v.Items.Element))
			dst = binary.AppendUvarint(dst, uint64(n))
		}
		dst = appendItems(dst, v.Items)
	case Map:
		dst = binary.AppendUvarint(dst, uint64(len(v.Items.Values)/2))
		if len(v.Items.Values) > 0 {
			dst = append(dst, byte(v.Items.Key)<<4|byte(v.Items.Element))
		}
		dst = appendItems(dst, v.Items)
	case Record:
		dst = Append(dst, v.Struct)
	}
	return dst
}

func appendItems(dst []byte, it *Items) []byte {
	for i := range it.Values {
		dst = appendValue(dst, &it.Values[i], false)
	}
	return dst
}
