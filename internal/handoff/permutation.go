package handoff

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"firn/internal/contract"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// A permutation is the row map of a rewrite that moved each row by itself, such as a sort. It is one object:
//
//	entries   for each source in turn one number a row, little endian, 4 or 8 bytes wide: where the row is in the outputs, counted through all
//	          of them in order, or all ones for a row that deletes of T0 removed
//	trailer   JSON: version, width, the sources and the outputs with their rows
//	length    of the trailer, 4 bytes, little endian
//	magic     "FPM1"
//
// Readers fetch the end, then only the ranges of the entries that they look up.

const (
	permutationMagic = "FPM1"
	permutationEnd   = 4 + len(permutationMagic)
	// permutationTail is what the first request fetches; permutationGap the distance up to which entries are read with one request.
	permutationTail = 256 << 10
	permutationGap  = 64 << 10
	permutationRead = 4 << 20
)

// ErrPermutation says that an object is no permutation, or not the one that was asked for.
var ErrPermutation = errors.New("unusable permutation")

// Permutation is the location of the permutation that one attempt at a group writes.
func (w *Work) Permutation(job maintenance.Job, group int, attempt string) string {
	return store.Join(w.base, string(job), fmt.Sprintf("permutation-%06d-%s.bin", group, attempt))
}

// RowCounts is a file with its number of rows.
type RowCounts struct {
	Path string `json:"path"`
	Rows int64  `json:"rows"`
}

type permutationTrailer struct {
	V       int         `json:"v"`
	Width   int         `json:"width"`
	Sources []RowCounts `json:"sources"`
	Outputs []RowCounts `json:"outputs"`
}

// PermutationWriter writes a permutation; see PermutationTo.
type PermutationWriter struct {
	w     io.Writer
	width int
	rows  int64
	buf   []byte
}

// RowDeleted stands for a row that is in no output.
const RowDeleted = int64(-1)

// PermutationTo starts a permutation of at most that many rows on w.
func PermutationTo(w io.Writer, rows int64) *PermutationWriter {
	p := &PermutationWriter{w: w, width: 4}
	if rows >= math.MaxUint32 {
		p.width = 8
	}
	return p
}

// Append adds the next rows of the sources: the place of each in the outputs, or RowDeleted.
func (p *PermutationWriter) Append(places []int64) error {
	p.rows += int64(len(places))
	p.buf = p.buf[:0]
	for _, n := range places {
		if p.width == 4 {
			p.buf = binary.LittleEndian.AppendUint32(p.buf, uint32(n))
		} else {
			p.buf = binary.LittleEndian.AppendUint64(p.buf, uint64(n))
		}
	}
	_, err := p.w.Write(p.buf)
	return err
}

// Close writes the trailer. The rows of the sources must be those that were appended.
func (p *PermutationWriter) Close(sources, outputs []RowCounts) error {
	var rows int64
	for _, s := range sources {
		rows += s.Rows
	}
	if rows != p.rows {
		return fmt.Errorf("close permutation: %d rows were appended of %d", p.rows, rows)
	}
	data, err := json.Marshal(permutationTrailer{V: contract.PayloadVersion, Width: p.width, Sources: sources, Outputs: outputs})
	if err != nil {
		return fmt.Errorf("encode permutation: %w", err)
	}
	data = binary.LittleEndian.AppendUint32(data, uint32(len(data)))
	_, err = p.w.Write(append(data, permutationMagic...))
	return err
}

// Place is where a row went: into an output, by its index in Permutation.Outputs, at an offset from its start. Deleted rows are in none.
type Place struct {
	Deleted bool
	Output  int
	Offset  int64
}

// Permutation is an open permutation. Its methods may be called concurrently.
type Permutation struct {
	// Sources and Outputs are the files with their rows.
	Sources, Outputs []RowCounts

	store    store.Reader
	location string
	width    int64
	ends     []int64
}

// OpenPermutation reads the trailer. An object that is none is ErrPermutation, one of another version ErrVersion.
func OpenPermutation(ctx context.Context, st store.Reader, location string) (*Permutation, error) {
	info, err := st.Head(ctx, location)
	if err != nil {
		return nil, fmt.Errorf("read permutation %s: %w", location, err)
	}
	fetch := func(n int64) ([]byte, error) {
		n = min(n, info.SizeBytes)
		data, err := st.GetRange(ctx, location, info.SizeBytes-n, n)
		if err == nil && int64(len(data)) != n {
			err = fmt.Errorf("%d bytes of %d: %w", len(data), n, ErrPermutation)
		}
		return data, err
	}
	tail, err := fetch(permutationTail)
	if err != nil {
		return nil, fmt.Errorf("read permutation %s: %w", location, err)
	}
	if len(tail) < permutationEnd || string(tail[len(tail)-len(permutationMagic):]) != permutationMagic {
		return nil, fmt.Errorf("read permutation %s: no magic at its end: %w", location, ErrPermutation)
	}
	length := int64(binary.LittleEndian.Uint32(tail[len(tail)-permutationEnd:]))
	if length > info.SizeBytes-int64(permutationEnd) {
		return nil, fmt.Errorf("read permutation %s: a trailer of %d bytes: %w", location, length, ErrPermutation)
	}
	if want := length + int64(permutationEnd); int64(len(tail)) < want {
		if tail, err = fetch(want); err != nil {
			return nil, fmt.Errorf("read permutation %s: %w", location, err)
		}
	}
	var t permutationTrailer
	end := int64(len(tail) - permutationEnd)
	if err := json.Unmarshal(tail[end-length:end], &t); err != nil {
		return nil, fmt.Errorf("read permutation %s: %w: %w", location, err, ErrPermutation)
	}
	if t.V != contract.PayloadVersion {
		return nil, fmt.Errorf("read permutation %s: version %d: %w", location, t.V, ErrVersion)
	}
	p := &Permutation{Sources: t.Sources, Outputs: t.Outputs, store: st, location: location, width: int64(t.Width)}
	return p, p.check(info.SizeBytes - length - int64(permutationEnd))
}

// check compares the rows of the files with the bytes of the entries.
func (p *Permutation) check(entryBytes int64) error {
	var rows, out int64
	for _, s := range p.Sources {
		rows += s.Rows
	}
	for _, o := range p.Outputs {
		out += o.Rows
		p.ends = append(p.ends, out)
	}
	if (p.width != 4 && p.width != 8) || rows*p.width != entryBytes || out > rows {
		return fmt.Errorf("read permutation %s: %d rows of %d bytes in %d bytes, %d rows out: %w", p.location, rows, p.width, entryBytes, out,
			ErrPermutation)
	}
	return nil
}

// Source is the index of a source by its path, -1 when it is none.
func (p *Permutation) Source(path string) int {
	return slices.IndexFunc(p.Sources, func(s RowCounts) bool { return s.Path == path })
}

// Lookup tells where rows of a source went. Positions are ascending; the answer has one place for each. Near ones are read together.
func (p *Permutation) Lookup(ctx context.Context, source int, positions []int64) ([]Place, error) {
	if !slices.IsSorted(positions) {
		return nil, fmt.Errorf("look up rows of %s: positions are not ascending: %w", p.Sources[source].Path, ErrPermutation)
	}
	out := make([]Place, 0, len(positions))
	for len(positions) > 0 {
		n := 1
		for n < len(positions) && (positions[n]-positions[n-1])*p.width <= permutationGap && (positions[n]-positions[0])*p.width <= permutationRead {
			n++
		}
		first := positions[0]
		places, err := p.read(ctx, source, first, positions[n-1]-first+1)
		if err != nil {
			return nil, err
		}
		for _, pos := range positions[:n] {
			out = append(out, places[pos-first])
		}
		positions = positions[n:]
	}
	return out, nil
}

// Removed yields the positions of a source that deletes of T0 removed, ascending. It reads all entries of the source.
func (p *Permutation) Removed(ctx context.Context, source int, yield func(position int64)) error {
	rows, step := p.Sources[source].Rows, permutationRead/p.width
	for first := int64(0); first < rows; first += step {
		places, err := p.read(ctx, source, first, min(step, rows-first))
		if err != nil {
			return err
		}
		for i, place := range places {
			if place.Deleted {
				yield(first + int64(i))
			}
		}
	}
	return nil
}

// read decodes a run of entries of a source.
func (p *Permutation) read(ctx context.Context, source int, first, count int64) ([]Place, error) {
	if first < 0 || count < 0 || first+count > p.Sources[source].Rows {
		return nil, fmt.Errorf("look up rows %d to %d of %s, which has %d: %w", first, first+count, p.Sources[source].Path, p.Sources[source].Rows,
			ErrPermutation)
	}
	at := first
	for _, s := range p.Sources[:source] {
		at += s.Rows
	}
	data, err := p.store.GetRange(ctx, p.location, at*p.width, count*p.width)
	if err != nil {
		return nil, fmt.Errorf("read permutation %s: %w", p.location, err)
	}
	if int64(len(data)) != count*p.width {
		return nil, fmt.Errorf("read permutation %s: it ends early: %w", p.location, ErrPermutation)
	}
	out := make([]Place, count)
	for i := range out {
		n, deleted := int64(0), false
		if p.width == 4 {
			v := binary.LittleEndian.Uint32(data[4*i:])
			n, deleted = int64(v), v == math.MaxUint32
		} else {
			n = int64(binary.LittleEndian.Uint64(data[8*i:]))
			deleted = n == RowDeleted
		}
		if deleted {
			out[i].Deleted = true
			continue
		}
		output, exact := slices.BinarySearch(p.ends, n)
		if exact { // n rows end right before it.
			output++
		}
		for output < len(p.ends) && p.ends[output] == n { // Outputs without rows.
			output++
		}
		if output >= len(p.ends) || n < 0 {
			return nil, fmt.Errorf("read permutation %s: row %d of %s is in no output: %w", p.location, first+int64(i), p.Sources[source].Path,
				ErrPermutation)
		}
		out[i] = Place{Output: output, Offset: n - (p.ends[output] - p.Outputs[output].Rows)}
	}
	return out, nil
}
