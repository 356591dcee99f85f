package manifest

import (
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"

	"github.com/apache/iceberg-go"

	"firn/internal/lake/avro"
)

// column is a field of a manifest list.
type column uint8

const (
	noColumn column = iota
	manifestPath
	manifestLength
	specID
	listContent
	listSequence
	minSequence
	addedSnapshot
	addedFiles
	existingFiles
	deletedFiles
	addedRows
	existingRows
	deletedRows
	partitions
	listKey
	listFirstRow
	columns
)

// columnOf finds a field by its ID or, when its writer gave none, by its names (specification, "Manifest Lists"; Java before 1.4 called files
// data_files).
func columnOf(id int, name string) column {
	ids := [columns]int{
		noColumn: avro.NoID, manifestPath: 500, manifestLength: 501, specID: 502, listContent: 517, listSequence: 515, minSequence: 516,
		addedSnapshot: 503, addedFiles: 504, existingFiles: 505, deletedFiles: 506, addedRows: 512, existingRows: 513, deletedRows: 514,
		partitions: 507, listKey: 519, listFirstRow: 520,
	}
	names := [columns][2]string{
		manifestPath: {"manifest_path"}, manifestLength: {"manifest_length"}, specID: {"partition_spec_id"}, listContent: {"content"},
		listSequence: {"sequence_number"}, minSequence: {"min_sequence_number"}, addedSnapshot: {"added_snapshot_id"},
		addedFiles:    {"added_files_count", "added_data_files_count"},
		existingFiles: {"existing_files_count", "existing_data_files_count"},
		deletedFiles:  {"deleted_files_count", "deleted_data_files_count"},
		addedRows:     {"added_rows_count"}, existingRows: {"existing_rows_count"}, deletedRows: {"deleted_rows_count"},
		partitions: {"partitions"}, listKey: {"key_metadata"}, listFirstRow: {"first_row_id"},
	}
	for c := manifestPath; c < columns; c++ {
		if id == ids[c] || id == avro.NoID && (name == names[c][0] || name == names[c][1]) {
			return c
		}
	}
	return noColumn
}

// ReadList reads a manifest list. What version it has, its header says or, since it need not, its fields do.
func ReadList(data []byte, memo *Memo) ([]iceberg.ManifestFile, error) {
	manifests, _, err := ReadListBut(data, memo, nil)
	return manifests, err
}

// ReadListBut is ReadList without the manifests whose paths are known, and counts all of them: the lists of thousands of snapshots name the same manifests,
// which are read past. known may be nil, and must not keep the path.
func ReadListBut(data []byte, memo *Memo, known func(path []byte) bool) (manifests []iceberg.ManifestFile, count int, err error) {
	r, err := memo.Buffers().Open(data)
	if err != nil {
		return nil, 0, asFault(err)
	}
	defer r.Close()
	l, err := openList(r, memo)
	if err != nil {
		return nil, 0, asFault(err)
	}
	l.known = known
	manifests = []iceberg.ManifestFile{}
	for {
		lines, block, err := r.Block()
		if errors.Is(err, io.EOF) {
			return manifests, count, nil
		}
		if err != nil {
			return nil, 0, asFault(err)
		}
		c := avro.Cursor{Data: block}
		for range lines {
			m, err := l.manifest(&c)
			if err != nil {
				return nil, 0, fmt.Errorf("manifest %d: %w", count, err)
			}
			if m != nil {
				manifests = append(manifests, m)
			}
			count++
		}
		if left := len(block) - c.At; left > 0 {
			return nil, 0, fmt.Errorf("%d bytes are left behind manifest %d: %w", left, count, avro.ErrCorrupt)
		}
	}
}

// list reads the lines of a list.
type list struct {
	version int
	fields  []listField
	known   func(path []byte) bool
}

type listField struct {
	column column
	t      *avro.Type
}

func openList(r *avro.Reader, memo *Memo) (*list, error) {
	p, err := memo.program(r.Schema(), nil, func() (*program, error) {
		root, err := avro.ParseSchema(r.Schema())
		if err != nil {
			return nil, err
		}
		l, err := newList(root)
		return &program{list: l}, err
	})
	if err != nil {
		return nil, err
	}
	if p.list == nil {
		return nil, fmt.Errorf("it is a manifest: %w", ErrTableFault)
	}
	l := *p.list
	if text := string(r.Metadata("format-version")); text != "" {
		stated, err := strconv.Atoi(text)
		switch {
		case err != nil || stated < 1:
			return nil, fmt.Errorf("its format version is %q: %w", text, ErrTableFault)
		case stated > 3:
			return nil, fmt.Errorf("its format version is %d: %w", stated, ErrUnsupported)
		case stated < l.version:
			return nil, fmt.Errorf("its format version is %d, it has fields of version %d: %w", stated, l.version, ErrTableFault)
		}
		l.version = stated
	}
	return &l, nil
}

func newList(root *avro.Type) (*list, error) {
	l := &list{version: 1}
	if root.Kind != avro.Record {
		return nil, fmt.Errorf("the schema is a %s: %w", root.Kind, ErrTableFault)
	}
	for _, f := range root.Fields {
		c := columnOf(f.ID, f.Name)
		switch c { //nolint:exhaustive // the others are in every version
		case listContent, listSequence:
			l.version = max(l.version, 2)
		case listFirstRow:
			l.version = 3
		case partitions:
			if !readableSummaries(f.Type) {
				return nil, fmt.Errorf("field %s is of a type that it cannot have: %w", f.Name, ErrTableFault)
			}
		}
		l.fields = append(l.fields, listField{c, f.Type})
	}
	return l, nil
}

// line is what one record of a list says.
type line struct {
	path    string
	numbers [columns]int64
	has     [columns]bool
	summary []iceberg.FieldSummary
	key     []byte
}

// manifest reads a line, nil when its path is known.
func (l *list) manifest(c *avro.Cursor) (iceberg.ManifestFile, error) {
	var in line
	for i := range l.fields {
		f := &l.fields[i]
		switch f.column { //nolint:exhaustive // all others are numbers
		case noColumn:
			c.Skip(f.t)
		case manifestPath:
			path, ok := text(c, f.t)
			if ok && l.known != nil && l.known(path) {
				for _, f := range l.fields[i+1:] {
					c.Skip(f.t)
				}
				return nil, c.Err
			}
			in.path, in.has[manifestPath] = string(path), ok
		case listKey:
			if key, ok := text(c, f.t); ok {
				in.key = append([]byte{}, key...)
			}
		case partitions:
			in.summary = summaries(c, f.t)
		default:
			in.numbers[f.column], in.has[f.column] = whole(c, f.t)
		}
	}
	if c.Err != nil {
		return nil, c.Err
	}
	return l.build(&in)
}

// build makes the library's form of a line. Numbers of files and rows may be unknown in version 1: they are -1 then.
func (l *list) build(in *line) (iceberg.ManifestFile, error) {
	wanted := []column{manifestPath, manifestLength, specID}
	if l.version > 1 {
		wanted = append(wanted, listSequence, minSequence, addedSnapshot, addedFiles, existingFiles, deletedFiles, addedRows, existingRows, deletedRows)
	}
	for _, w := range wanted {
		if !in.has[w] {
			return nil, fmt.Errorf("%q lacks a field that version %d requires (number %d): %w", in.path, l.version, w, ErrTableFault)
		}
	}
	for _, w := range []column{addedFiles, existingFiles, deletedFiles, addedRows, existingRows, deletedRows, addedSnapshot} {
		if !in.has[w] {
			in.numbers[w] = -1
		}
	}
	for _, w := range []column{addedFiles, existingFiles, deletedFiles, specID} {
		if in.numbers[w] > math.MaxInt32 || in.numbers[w] < math.MinInt32 {
			return nil, fmt.Errorf("%s has the number %d: %w", in.path, in.numbers[w], ErrTableFault)
		}
	}
	n := &in.numbers
	b := iceberg.NewManifestFile(l.version, in.path, n[manifestLength], int32(n[specID]), n[addedSnapshot]).
		AddedFiles(int32(n[addedFiles])).ExistingFiles(int32(n[existingFiles])).DeletedFiles(int32(n[deletedFiles])).
		AddedRows(n[addedRows]).ExistingRows(n[existingRows]).DeletedRows(n[deletedRows]).KeyMetadata(in.key).Partitions(in.summary)
	if l.version > 1 {
		content := iceberg.ManifestContent(n[listContent])
		if n[listContent] != int64(iceberg.ManifestContentData) && n[listContent] != int64(iceberg.ManifestContentDeletes) {
			return nil, fmt.Errorf("%s has unknown content %d: %w", in.path, n[listContent], ErrTableFault)
		}
		b = b.Content(content).SequenceNum(n[listSequence], n[minSequence])
	}
	m := b.Build()
	if in.has[listFirstRow] && l.version > 2 {
		return m, setFirstRowID(m, n[listFirstRow])
	}
	return m, nil
}

// setFirstRowID sets the one field that the library's builder has no method for.
func setFirstRowID(m iceberg.ManifestFile, first int64) error {
	field := reflect.Indirect(reflect.ValueOf(m)).FieldByName("FirstRowIDValue")
	if !field.IsValid() || field.Type() != reflect.TypeFor[*int64]() {
		return fmt.Errorf("set the first row ID of manifest %s: type %T has no FirstRowIDValue", m.FilePath(), m)
	}
	field.Set(reflect.ValueOf(&first))
	return nil
}

// readableSummaries reports whether t is the type of partition summaries.
func readableSummaries(t *avro.Type) bool {
	if value, _ := t.Optional(); value != nil {
		t = value
	}
	return t.Kind == avro.Array && t.Items.Kind == avro.Record
}

// summaries reads the summaries of a manifest's partition fields.
func summaries(c *avro.Cursor, t *avro.Type) []iceberg.FieldSummary {
	t = c.Branch(t)
	if t.Kind == avro.Null {
		return nil
	}
	out := []iceberg.FieldSummary{}
	for n := c.Items(); n > 0 && c.Err == nil; n = c.Items() {
		for ; n > 0 && c.Err == nil; n-- {
			before := c.At
			out = append(out, summary(c, t.Items))
			if c.At == before && c.Err == nil {
				c.Err = fmt.Errorf("a partition summary without fields: %w", ErrTableFault)
			}
		}
	}
	return out
}

func summary(c *avro.Cursor, t *avro.Type) iceberg.FieldSummary {
	var s iceberg.FieldSummary
	for i := range t.Fields {
		f := &t.Fields[i]
		switch {
		case f.ID == 509 || f.ID == avro.NoID && f.Name == "contains_null":
			if v := flag(c, f.Type); v != nil {
				s.ContainsNull = *v
			}
		case f.ID == 518 || f.ID == avro.NoID && f.Name == "contains_nan":
			s.ContainsNaN = flag(c, f.Type)
		case f.ID == 510 || f.ID == avro.NoID && f.Name == "lower_bound":
			s.LowerBound = bound(c, f.Type)
		case f.ID == 511 || f.ID == avro.NoID && f.Name == "upper_bound":
			s.UpperBound = bound(c, f.Type)
		default:
			c.Skip(f.Type)
		}
	}
	return s
}

func flag(c *avro.Cursor, t *avro.Type) *bool {
	t = c.Branch(t)
	if t.Kind != avro.Boolean {
		c.Skip(t)
		return nil
	}
	return new(c.Boolean())
}

func bound(c *avro.Cursor, t *avro.Type) *[]byte {
	b, ok := text(c, t)
	if !ok {
		return nil
	}
	return new(append([]byte{}, b...))
}
