package chunk

import (
	"fmt"
	"hash/crc32"
	"slices"

	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
)

// dictionary is the dictionary of the chunk that is written.
type dictionary struct {
	*encoding.Dictionary
	// given says that it was finished before the first page, done that nothing is added any more, kept that pages refer to it.
	given, done, kept bool
	hashes            []uint64
	// source is the last dictionary that a vector referred to, table where its entries are in this one; found is memory for tables.
	source *encoding.Entries
	table  []uint32
	found  []uint32
}

// waiting says that pages wait for the dictionary page, which lies in front of them.
func (w *Writer) waiting() bool { return w.options.Build && !w.dictionary.given && !w.dictionary.done }

func (w *Writer) openDictionary() error {
	d := &w.dictionary
	*d = dictionary{hashes: d.hashes[:0], found: d.found[:0]}
	switch {
	case w.options.Dictionary != nil:
		d.Dictionary, d.given, d.done, d.kept = w.options.Dictionary, true, true, true
		d.hashes = HashEntries(d.hashes, &d.Entries)
		return w.dictionaryPage()
	case w.options.Build && w.column.Type != footer.Boolean:
		d.Dictionary = encoding.NewDictionary(w.width, w.options.DictBytes)
	default:
		w.options.Build = false
		d.done = true
	}
	return nil
}

// dictionaryPage writes the dictionary.
func (w *Writer) dictionaryPage() error {
	d := w.dictionary.Dictionary
	packed, err := w.options.Compressor.AppendFixed(w.packed[:0], d.Bytes(), 0, w.width, new(encoding.Trial))
	if err != nil {
		return err
	}
	w.packed = packed
	if w.options.Hash != nil {
		for i := range d.Len() {
			w.options.Hash(bloomHash(d.Value(i)))
		}
	}
	h := footer.NewDictionaryPage(d.Len(), d.SizeBytes(), len(packed), crc32.ChecksumIEEE(packed))
	w.header = footer.Append(w.header[:0], h.Struct)
	return w.page(h, w.header, packed)
}

// endDictionary writes the dictionary that was built, if a page refers to it, and the pages that wait for it.
func (w *Writer) endDictionary() error {
	d := &w.dictionary
	d.done = true
	if d.kept {
		if err := w.dictionaryPage(); err != nil {
			return err
		}
	}
	_, err := w.out.Write(w.pending)
	w.pending = w.pending[:0]
	return err
}

// Table returns where each entry of a source's dictionary is in the chunk's own, for pages whose indices the caller changes. All of them have to
// be there. It is valid until the next call or Append.
func (w *Writer) Table(source *encoding.Entries) ([]uint32, error) {
	d := &w.dictionary
	if d.source == source {
		return d.table, nil
	}
	n := d.Len()
	table, err := d.AddTo(d.found[:0], source.Bytes(), source.Len())
	if err != nil {
		return nil, err
	}
	d.found, d.table, d.source = table, table, source
	if d.given && d.Len() != n {
		return nil, fmt.Errorf("the dictionary changed between two readings: %d entries became %d: %w", n, d.Len(), footer.ErrMalformed)
	}
	return table, nil
}

// SetTable tells what Table would find, for callers who found it before. They compare the hashes of the entries with Hashes: the source may have changed.
func (w *Writer) SetTable(source *encoding.Entries, table []uint32) {
	w.dictionary.source, w.dictionary.table = source, table
}

// Hashes are those of the entries of a given dictionary.
func (w *Writer) Hashes() []uint64 { return w.dictionary.hashes }

// takes says whether the values of a vector are to be written as indices.
func (d *dictionary) takes(v *Vector) bool { return (d.given && v.Dictionary != nil) || !d.done }

// code finds the indices of a vector's values in the chunk's dictionary. They are valid until the next call.
func (w *Writer) code(v *Vector) (indices []uint32, err error) {
	if v.Dictionary == nil {
		w.scratch, err = w.dictionary.AddTo(w.scratch[:0], v.Plain, v.Values)
		return w.scratch, err
	}
	if v.Dictionary == &w.dictionary.Entries {
		return v.Indices, nil
	}
	table, err := w.Table(v.Dictionary)
	if err != nil {
		return nil, err
	}
	w.scratch = slices.Grow(w.scratch[:0], len(v.Indices))[:len(v.Indices)]
	for at, i := range v.Indices {
		if int(i) >= len(table) {
			return nil, corrupt("index %d in a dictionary of %d", i, len(table))
		}
		w.scratch[at] = table[i]
	}
	return w.scratch, nil
}

// saves says whether the dictionary makes the first page smaller, itself included: parquet-mr's rule.
func (w *Writer) saves(indexBytes int) bool {
	_, plain, err := w.dictionary.Fit(w.indices, encoding.MaxPageBytes)
	return err != nil || w.dictionary.SizeBytes()+indexBytes < plain
}
