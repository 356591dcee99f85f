package sorted

import "encoding/binary"

// stream reads an extent of the spill from front to end.
type stream struct {
	spill *spill
	// at and end bound what was not read yet; buf[pos:] is what was.
	at, end int64
	buf     []byte
	pos     int
	size    int
}

// open starts at an offset of an extent. size is how much is read at once; the memory of an earlier use is kept.
func (s *stream) open(sp *spill, e extent, from int64, size int) {
	*s = stream{spill: sp, at: e.at + from, end: e.at + e.length, buf: s.buf[:0], size: size}
}

// left is the number of bytes that were not consumed.
func (s *stream) left() int64 { return s.end - s.at + int64(len(s.buf)-s.pos) }

// ahead makes n bytes available and returns them without consuming them; fewer only at the end.
func (s *stream) ahead(n int) ([]byte, error) {
	if have := len(s.buf) - s.pos; have < n && s.at < s.end {
		copy(s.buf, s.buf[s.pos:])
		s.buf, s.pos = s.buf[:have], 0
		want := int(min(int64(max(s.size, n)-have), s.end-s.at))
		if cap(s.buf) < have+want {
			s.buf = append(make([]byte, 0, have+want), s.buf...)
		}
		s.buf = s.buf[:have+want]
		if err := s.spill.readAt(s.buf[have:], s.at); err != nil {
			return nil, err
		}
		s.at += int64(want)
	}
	return s.buf[s.pos:], nil
}

// records appends the next record of the stream that each row comes from, until a number of rows or of bytes is reached; n is how many rows.
func records(dst []byte, streams []stream, f *form, rows []uint16, maxBytes int) (out []byte, n int, err error) {
	if f.stride > 0 {
		for _, r := range rows {
			s := &streams[r]
			if len(s.buf)-s.pos < f.stride {
				if _, err := s.ahead(f.stride); err != nil {
					return dst, n, err
				}
			}
			b := s.buf[s.pos : s.pos+f.stride]
			s.pos += f.stride
			if f.stride == 8 {
				dst = append(dst, b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7])
			} else {
				dst = append(dst, b...)
			}
		}
		return dst, len(rows), nil
	}
	for n < len(rows) && len(dst) < maxBytes {
		rec, err := streams[rows[n]].record(f)
		if err != nil {
			return dst, n, err
		}
		dst = append(dst, rec...)
		n++
	}
	return dst, n, nil
}

// record consumes one record of a form. It is valid until the next call.
func (s *stream) record(f *form) ([]byte, error) {
	b, err := s.ahead(f.measure())
	if err != nil {
		return nil, err
	}
	n := f.size(b)
	if n > len(b) {
		if b, err = s.ahead(n); err != nil {
			return nil, err
		}
	}
	s.pos += n
	return b[:n], nil
}

// key consumes one key; width 0 means that its length is in front. It is valid until the next call.
func (s *stream) key(width int) ([]byte, error) {
	head := 0
	if width == 0 {
		b, err := s.ahead(lengthBytes)
		if err != nil {
			return nil, err
		}
		head, width = lengthBytes, int(binary.LittleEndian.Uint32(b))
	}
	b, err := s.ahead(head + width)
	if err != nil {
		return nil, err
	}
	s.pos += head + width
	return b[head : head+width], nil
}
