package manifest

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/apache/iceberg-go"

	"firn/internal/lake/avro"
)

// Options steer how entries are read.
type Options struct {
	// IncludeDeleted yields entries with status deleted too.
	IncludeDeleted bool
	// WithoutStats leaves the column statistics out, which saves most of the memory. Such files cannot be encoded or written again.
	WithoutStats bool
	// PruningStats, with WithoutStats, keeps counts and bounds but not column sizes.
	PruningStats bool

	namesOnly bool
}

// keeps reports whether a field that is kept as bytes is wanted.
func (o Options) keeps(s slot) bool {
	if o.namesOnly {
		return false
	}
	switch s { //nolint:exhaustive // the others are small, and always kept
	case columnSizes, distinctCounts:
		return !o.WithoutStats
	case valueCounts, nullCounts, nanCounts, lowerBounds, upperBounds:
		return !o.WithoutStats || o.PruningStats
	}
	return true
}

// Read calls visit for each entry of a manifest that is in memory, in their order, until it answers false. m is the manifest's line in the list.
func Read(data []byte, m iceberg.ManifestFile, opts Options, memo *Memo, visit func(Entry) bool) error {
	r, err := memo.Buffers().Open(data)
	if err != nil {
		return asFault(err)
	}
	return read(r, m, opts, memo, visit)
}

// Named is what LiveFiles tells of a file.
type Named struct {
	Path      string
	Content   iceberg.ManifestEntryContent
	SizeBytes int64
}

// LiveFiles calls visit for each file that is live in a manifest until it answers false. all tells that it never did.
func LiveFiles(data []byte, m iceberg.ManifestFile, memo *Memo, visit func(Named) bool) (all bool, err error) {
	all = true
	err = Read(data, m, Options{namesOnly: true}, memo, func(e Entry) bool {
		f, _ := e.File.(*file)
		all = visit(Named{Path: f.path, Content: f.content, SizeBytes: f.size})
		return all
	})
	return all, err
}

// ReadStream is Read for a manifest that is read front to back.
func ReadStream(in io.Reader, m iceberg.ManifestFile, opts Options, memo *Memo, visit func(Entry) bool) error {
	r, err := memo.Buffers().OpenStream(in)
	if err != nil {
		return asFault(err)
	}
	return read(r, m, opts, memo, visit)
}

func read(r *avro.Reader, m iceberg.ManifestFile, opts Options, memo *Memo, visit func(Entry) bool) error {
	defer r.Close()
	e, err := open(r, m, opts, memo)
	if err != nil {
		return asFault(err)
	}
	for {
		count, data, err := r.Block()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return asFault(err)
		}
		more, err := e.block(count, data, visit)
		if err != nil {
			return fmt.Errorf("entry %d: %w", e.number, err)
		}
		if !more {
			return nil
		}
	}
}

// reader reads the entries of one manifest.
type reader struct {
	m       iceberg.ManifestFile
	opts    Options
	p       *program
	content iceberg.ManifestContent
	cursor  avro.Cursor
	// number counts entries, for messages; next is the first row ID that a file without one gets, -1 when none does.
	number int64
	next   int64
	// sequence and snapshot are what the list says of the manifest, location where it lies.
	sequence, snapshot int64
	location           string
	spec               int32
	// again is the file of every entry when names only are read: nobody keeps it.
	again file
}

// open checks the manifest's header against its line in the list.
func open(r *avro.Reader, m iceberg.ManifestFile, opts Options, memo *Memo) (*reader, error) {
	version := 1
	if text := string(r.Metadata("format-version")); text != "" {
		var err error
		if version, err = strconv.Atoi(text); err != nil || version < 1 {
			return nil, fmt.Errorf("its format version is %q: %w", text, ErrTableFault)
		}
	}
	if version > 3 {
		return nil, fmt.Errorf("its format version is %d: %w", version, ErrUnsupported)
	}
	if version > m.Version() {
		return nil, fmt.Errorf("its format version %d is newer than %d, its list's: %w", version, m.Version(), ErrTableFault)
	}
	e := &reader{
		m: m, opts: opts, content: iceberg.ManifestContentData, next: -1, sequence: m.SequenceNum(), snapshot: m.SnapshotID(), location: m.FilePath(),
		spec: m.PartitionSpecID(),
	}
	switch text := string(r.Metadata("content")); {
	case text == "deletes":
		e.content = iceberg.ManifestContentDeletes
	case text == "data", text == "" && version == 1:
	default:
		return nil, fmt.Errorf("its content is %q: %w", text, ErrTableFault)
	}
	if e.content != m.ManifestContent() {
		return nil, fmt.Errorf("its content is %s, its list says %s: %w", e.content, m.ManifestContent(), ErrTableFault)
	}
	if first := m.FirstRowID(); first != nil && e.content == iceberg.ManifestContentData {
		if *first < 0 {
			return nil, fmt.Errorf("its first row ID is %d: %w", *first, ErrTableFault)
		}
		e.next = *first
	}
	spec := r.Metadata("partition-spec")
	var err error
	e.p, err = memo.program(r.Schema(), spec, func() (*program, error) { return compile(r.Schema(), spec) })
	return e, err
}

// block reads the entries of a block.
func (r *reader) block(count int64, data []byte, visit func(Entry) bool) (more bool, err error) {
	r.cursor = avro.Cursor{Data: data}
	for range count {
		e, err := r.entry()
		if err != nil {
			return false, err
		}
		r.number++
		if e.Status == iceberg.EntryStatusDELETED && !r.opts.IncludeDeleted {
			continue
		}
		if !visit(e) {
			return false, nil
		}
	}
	if left := len(data) - r.cursor.At; left > 0 {
		return false, fmt.Errorf("%d bytes are left in its block: %w", left, avro.ErrCorrupt)
	}
	return true, nil
}

// numbers are the optional numbers of an entry.
type numbers struct {
	status, snapshot, sequence, fileSequence       int64
	hasSnapshot, hasSequence, hasFile, hasDataFile bool
}

func (r *reader) entry() (Entry, error) {
	c := &r.cursor
	n := numbers{status: -1}
	f := &r.again
	if !r.opts.namesOnly {
		f = &file{}
	}
	*f = file{p: r.p, partial: r.opts.WithoutStats, spec: r.spec}
	for i := range r.p.entry {
		op := &r.p.entry[i]
		switch op.slot { //nolint:exhaustive // an entry has these
		case status:
			n.status, _ = whole(c, op.t)
		case snapshotID:
			n.snapshot, n.hasSnapshot = whole(c, op.t)
		case sequence:
			n.sequence, n.hasSequence = whole(c, op.t)
		case fileSequence:
			n.fileSequence, n.hasFile = whole(c, op.t)
		case dataFile:
			f.read(c, r.opts)
			n.hasDataFile = true
		default:
			c.Skip(op.t)
		}
	}
	if c.Err != nil {
		return Entry{}, c.Err
	}
	if err := r.check(n, f); err != nil {
		return Entry{}, err
	}
	return r.inherit(n, f)
}

// check refuses what is not an entry of this manifest.
func (r *reader) check(n numbers, f *file) error {
	if n.status < int64(iceberg.EntryStatusEXISTING) || n.status > int64(iceberg.EntryStatusDELETED) {
		return fmt.Errorf("its status is %d: %w", n.status, ErrTableFault)
	}
	if f.path == "" {
		return fmt.Errorf("it names no file: %w", ErrTableFault)
	}
	switch f.content {
	case iceberg.EntryContentData:
		if r.content != iceberg.ManifestContentData {
			return fmt.Errorf("data file %s stands in a delete manifest: %w", f.path, ErrTableFault)
		}
	case iceberg.EntryContentPosDeletes, iceberg.EntryContentEqDeletes:
		if r.content != iceberg.ManifestContentDeletes {
			return fmt.Errorf("delete file %s stands in a data manifest: %w", f.path, ErrTableFault)
		}
	default:
		return fmt.Errorf("%s has unknown content %d: %w", f.path, f.content, ErrTableFault)
	}
	return nil
}

// inherit applies the list's numbers. An existing entry without data sequence number in a manifest with one has lost it. Deleted files use up no
// row IDs, since the list's writer reserves none for them.
func (r *reader) inherit(n numbers, f *file) (Entry, error) {
	e := Entry{
		File: f, Status: iceberg.ManifestEntryStatus(n.status), SpecID: int(f.spec), SnapshotID: r.snapshot, FileSequence: UnknownSequence,
		Manifest: r.location,
	}
	if n.hasSnapshot {
		e.SnapshotID = n.snapshot
	}
	inherits := r.sequence == 0 || r.sequence > 0 && e.Status == iceberg.EntryStatusADDED
	switch {
	case n.hasSequence && n.sequence >= 0:
		e.DataSequence = n.sequence
	case inherits:
		e.DataSequence = r.sequence
	case r.m.Version() != 1:
		return Entry{}, fmt.Errorf("entry of %s has no data sequence number to inherit: %w", f.path, ErrTableFault)
	}
	switch {
	case n.hasFile:
		e.FileSequence = n.fileSequence
	case inherits:
		e.FileSequence = r.sequence
	case r.m.Version() == 1:
		e.FileSequence = 0
	}
	if r.next >= 0 && f.firstRow == nil && e.Status != iceberg.EntryStatusDELETED {
		if f.count < 0 || f.count > math.MaxInt64-r.next {
			return Entry{}, fmt.Errorf("%s has %d records behind row ID %d: %w", f.path, f.count, r.next, ErrTableFault)
		}
		first := r.next
		f.firstRow = &first
		r.next += f.count
	}
	if f.firstRow != nil {
		first := *f.firstRow
		e.FirstRowID = &first
	}
	return e, nil
}

// whole reads an int or long; ok is false when it is null.
func whole(c *avro.Cursor, t *avro.Type) (v int64, ok bool) {
	t = c.Branch(t)
	if isWhole(t) {
		return c.Long(), c.Err == nil
	}
	c.Skip(t)
	if t.Kind != avro.Null && c.Err == nil {
		c.Err = fmt.Errorf("a %s where a number belongs: %w", t.Kind, ErrTableFault)
	}
	return 0, false
}

// text reads a string; ok is false when it is null.
func text(c *avro.Cursor, t *avro.Type) (v []byte, ok bool) {
	t = c.Branch(t)
	if t.Kind == avro.String || t.Kind == avro.Bytes {
		return c.Bytes(), c.Err == nil
	}
	c.Skip(t)
	if t.Kind != avro.Null && c.Err == nil {
		c.Err = fmt.Errorf("a %s where a text belongs: %w", t.Kind, ErrTableFault)
	}
	return nil, false
}
