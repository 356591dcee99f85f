package footer

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// TrailerBytes is the length of what follows the footer: its length and the magic.
const TrailerBytes = 8

// Magic opens and closes a Parquet file.
const Magic = "PAR1"

// ErrEncrypted says that the footer is encrypted.
var ErrEncrypted = errors.New("the file is encrypted")

// Length reads the trailer at the end of tail and returns the footer's length in bytes; size is the file's.
func Length(tail []byte, size int64) (int64, error) {
	if len(tail) < TrailerBytes || size < TrailerBytes+int64(len(Magic)) {
		return 0, fmt.Errorf("%d bytes are no Parquet file: %w", size, ErrMalformed)
	}
	end := tail[len(tail)-TrailerBytes:]
	switch string(end[4:]) {
	case Magic:
	case "PARE":
		return 0, ErrEncrypted
	default:
		return 0, fmt.Errorf("the Parquet magic is missing: %w", ErrMalformed)
	}
	n := int64(binary.LittleEndian.Uint32(end))
	if n > size-TrailerBytes-int64(len(Magic)) {
		return 0, fmt.Errorf("a footer of %d bytes in a file of %d: %w", n, size, ErrMalformed)
	}
	return n, nil
}

// DecodeFile reads a footer.
func DecodeFile(data []byte) (File, error) {
	s, _, err := Decode(data)
	if err != nil {
		return File{}, fmt.Errorf("read a footer: %w", err)
	}
	return File{s}, nil
}

// AppendFile encodes a footer with its trailer after dst.
func AppendFile(dst []byte, f File) []byte {
	before := len(dst)
	dst = Append(dst, f.Struct)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(dst)-before))
	return append(dst, Magic...)
}
