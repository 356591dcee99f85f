package avro

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

const (
	magic = "Obj\x01"
	// maxValueBytes bounds one value of the header.
	maxValueBytes = 16 << 20
	// maxValues bounds the number of the header's values.
	maxValues = 1000
	// chunkBytes is how much of a stream is asked for at once.
	chunkBytes = 256 << 10
	syncBytes  = 16
)

// Reader reads one container file, block by block. It is not safe for concurrent use. Close gives its buffers back.
type Reader struct {
	in    input
	codec codec
	sync  []byte
	meta  map[string][]byte
	pool  *Pool
	buf   []byte
	block int
}

// Open reads the header of a file that is in memory. A nil pool is fine.
func (p *Pool) Open(data []byte) (*Reader, error) { return p.open(input{buf: data}) }

// OpenStream reads the header of a file that is read front to back.
func (p *Pool) OpenStream(r io.Reader) (*Reader, error) { return p.open(input{r: r}) }

func (p *Pool) open(in input) (*Reader, error) {
	r := &Reader{in: in, pool: p, meta: map[string][]byte{}}
	if err := r.header(); err != nil {
		return nil, fmt.Errorf("read header: %w", err)
	}
	var err error
	if r.codec, err = p.codec(string(r.meta["avro.codec"])); err != nil {
		return nil, err
	}
	r.buf = p.Lend(0)
	return r, nil
}

// Metadata is a value of the header, nil when it has none of that name. It must not be changed.
func (r *Reader) Metadata(key string) []byte { return r.meta[key] }

// Schema is the text of the schema.
func (r *Reader) Schema() []byte { return r.meta["avro.schema"] }

// Close gives the reader's buffers back; what Block returned is no longer valid.
func (r *Reader) Close() {
	if r.buf != nil {
		r.pool.Return(r.buf)
		r.buf = nil
	}
	r.codec.close(r.pool)
}

func (r *Reader) header() error {
	m, err := r.in.take(len(magic))
	if err != nil {
		return err
	}
	if string(m) != magic {
		return fmt.Errorf("it does not begin with %q: %w", magic, ErrCorrupt)
	}
	for {
		n, err := r.in.number()
		if err != nil {
			return err
		}
		if n < 0 {
			n = -n
			if _, err := r.in.number(); err != nil {
				return err
			}
		}
		if n == 0 {
			break
		}
		if n < 0 || n > maxValues {
			return fmt.Errorf("it has %d values: %w", n, ErrCorrupt)
		}
		for range n {
			if err := r.value(); err != nil {
				return err
			}
		}
	}
	sync, err := r.in.take(syncBytes)
	r.sync = slices.Clone(sync)
	return err
}

func (r *Reader) value() error {
	key, err := r.in.text()
	if err != nil {
		return err
	}
	name := string(key)
	value, err := r.in.text()
	if err != nil {
		return fmt.Errorf("value %q: %w", name, err)
	}
	if len(r.meta) >= maxValues {
		return fmt.Errorf("it has more than %d values: %w", maxValues, ErrCorrupt)
	}
	if r.in.r != nil {
		value = slices.Clone(value) // the buffer moves on
	}
	r.meta[name] = value
	return nil
}

// Block returns the number of values in the next block and its bytes, which are valid until the next call; io.EOF at the end of the file.
func (r *Reader) Block() (count int64, data []byte, err error) {
	ended, err := r.in.ended()
	if err != nil {
		return 0, nil, fmt.Errorf("block %d: %w", r.block, err)
	}
	if ended {
		return 0, nil, io.EOF
	}
	count, data, err = r.next()
	if err != nil {
		return 0, nil, fmt.Errorf("block %d: %w", r.block, err)
	}
	r.block++
	return count, data, nil
}

func (r *Reader) next() (count int64, data []byte, err error) {
	if count, err = r.in.number(); err != nil {
		return 0, nil, err
	}
	size, err := r.in.number()
	if err != nil {
		return 0, nil, err
	}
	if count < 0 || size < 0 || size > 1<<31 {
		return 0, nil, fmt.Errorf("%d values in %d bytes: %w", count, size, ErrCorrupt)
	}
	packed, err := r.in.take(int(size) + syncBytes)
	if err != nil {
		return 0, nil, err
	}
	if !bytes.Equal(packed[size:], r.sync) {
		return 0, nil, fmt.Errorf("the sync marker is wrong: %w", ErrCorrupt)
	}
	data, err = r.codec.unpack(r.buf[:0], packed[:size])
	if err != nil {
		return 0, nil, err
	}
	if r.codec.copies() {
		r.buf = data
	}
	return count, data, nil
}

// input is a file in memory, or the part of a stream that is.
type input struct {
	buf []byte
	at  int
	r   io.Reader
}

// fill makes n bytes available, and reports how many are.
func (in *input) fill(n int) (int, error) {
	if in.r == nil || len(in.buf)-in.at >= n {
		return len(in.buf) - in.at, nil
	}
	in.buf, in.at = append(in.buf[:0], in.buf[in.at:]...), 0
	for len(in.buf) < n {
		// Grow by what came, not by what a length in the file promises.
		in.buf = slices.Grow(in.buf, chunkBytes)
		got, err := in.r.Read(in.buf[len(in.buf) : len(in.buf)+chunkBytes])
		in.buf = in.buf[:len(in.buf)+got]
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
	}
	return len(in.buf), nil
}

func (in *input) ended() (bool, error) {
	n, err := in.fill(1)
	return n == 0, err
}

func (in *input) take(n int) ([]byte, error) {
	have, err := in.fill(n)
	if err != nil {
		return nil, err
	}
	if have < n {
		return nil, fmt.Errorf("%d bytes are wanted, %d are left: %w", n, have, ErrCorrupt)
	}
	b := in.buf[in.at : in.at+n]
	in.at += n
	return b, nil
}

func (in *input) number() (int64, error) {
	if _, err := in.fill(10); err != nil {
		return 0, err
	}
	c := Cursor{Data: in.buf[in.at:min(in.at+10, len(in.buf))]}
	n := c.Long()
	in.at += c.At
	return n, c.Err
}

func (in *input) text() ([]byte, error) {
	n, err := in.number()
	if err != nil {
		return nil, err
	}
	if n < 0 || n > maxValueBytes {
		return nil, fmt.Errorf("a text of %d bytes: %w", n, ErrCorrupt)
	}
	return in.take(int(n))
}
