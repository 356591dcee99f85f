package inventory

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/md5" //nolint:gosec // the sum that S3 Inventory's manifest has
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"firn/internal/store"
)

// Columns of a list as Spark's view has them, and of an inventory.
const (
	columnPath     = "file_path"
	columnModified = "last_modified"
	columnBucket   = "bucket"
	columnKey      = "key"
	columnSize     = "size"
	columnDate     = "last_modified_date"
	columnLatest   = "is_latest"
	columnMarker   = "is_delete_marker"
)

// maxLine bounds a line: a key has at most 1,024 bytes, three times as many when they are encoded.
const maxLine = 1 << 20

// fields says which of a file's columns are what; -1 is none.
type fields struct {
	path, bucket, key, modified, size, latest, marker int
}

// fields finds the columns that matter. An inventory's date may be missing only together with every use of it, so it is asked for.
func (p *Part) fields(columns []string) (fields, error) {
	at := func(names ...string) int {
		return slices.IndexFunc(columns, func(c string) bool { return slices.Contains(names, c) })
	}
	f := fields{path: at(columnPath), bucket: -1, key: -1, modified: at(columnModified), size: at(columnSize), latest: -1, marker: -1}
	if p.bucket == "" {
		if f.path < 0 || f.modified < 0 {
			return f, faultf("the columns %q have no %s or no %s", columns, columnPath, columnModified)
		}
		return f, nil
	}
	f = fields{
		path: -1, bucket: at(columnBucket), key: at(columnKey), modified: at(columnDate), size: f.size, latest: at(columnLatest), marker: at(columnMarker),
	}
	if f.bucket < 0 || f.key < 0 || f.modified < 0 {
		return f, faultf("the inventory's columns %q have no %s, %s or %s: add the last modified date to its fields", columns, columnBucket, columnKey, columnDate)
	}
	return f, nil
}

// object reads a row of texts; wanted is false for old versions and delete markers.
func (p *Part) object(f fields, row []string) (o Object, wanted bool, err error) {
	o = Object{SizeBytes: -1}
	text := func(at int) string {
		if at < 0 || at >= len(row) {
			return ""
		}
		return row[at]
	}
	if strings.EqualFold(text(f.latest), "false") || strings.EqualFold(text(f.marker), "true") {
		return o, false, nil
	}
	if o.Location = text(f.path); p.bucket != "" {
		k := text(f.key)
		if p.format == formatCSV {
			if k, err = key(k); err != nil {
				return o, false, err
			}
		}
		o.Location = "s3://" + text(f.bucket) + "/" + k
	}
	if o.Location == "" {
		return o, false, faultf("the row %q names no file", row)
	}
	if n, err := strconv.ParseInt(text(f.size), 10, 64); err == nil {
		o.SizeBytes = n
	}
	if when := text(f.modified); when != "" {
		if o.ModifiedAtMS, err = millis(when); err != nil {
			return o, false, err
		}
	}
	return o, true, nil
}

// millis reads a time: as Spark and S3 Inventory write it, or milliseconds since the epoch. Without a zone it is UTC.
func millis(text string) (int64, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 1e11 { // below are seconds, or a mistake
		return n, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05Z07:00"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UnixMilli(), nil
		}
	}
	return 0, faultf("%q is no time: want 2026-11-30T12:00:00Z, 2026-11-30 12:00:00 or milliseconds since the epoch", text)
}

// rowReader turns a stream into rows of texts; columns are known before the first row is handed on.
type rowReader func(p *Part, in io.Reader, each func(columns, row []string) error) error

// text reads a part of lines.
func (p *Part) text(ctx context.Context, src store.Reader, rows rowReader, yield func(Object, error) bool) error {
	file, err := p.open(ctx, src)
	if err != nil {
		return err
	}
	var in io.Reader = bufio.NewReaderSize(file, 1<<20)
	if p.packed {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return faultf("unpack: %v", err)
		}
		in = unpacked
	}
	var known []string
	var f fields
	err = rows(p, in, func(columns, row []string) error {
		if known == nil || !slices.Equal(known, columns) {
			var err error
			if f, err = p.fields(columns); err != nil {
				return err
			}
			known = slices.Clone(columns)
		}
		o, wanted, err := p.object(f, row)
		if err != nil {
			return err
		}
		if wanted && !yield(o, nil) {
			return errStopped
		}
		return nil
	})
	if err != nil {
		return err
	}
	return file.check()
}

func csvRows(p *Part, in io.Reader, each func(columns, row []string) error) error {
	r := csv.NewReader(in)
	r.FieldsPerRecord = len(p.columns)
	r.ReuseRecord = true
	columns := p.columns
	for {
		row, err := r.Read()
		switch {
		case errors.Is(err, io.EOF) && columns == nil:
			return nil // an empty file of a folder
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fault(err)
		case columns == nil:
			columns = slices.Clone(row)
			for i := range columns {
				columns[i] = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(columns[i], "\ufeff")))
			}
			if _, err := p.fields(columns); err != nil {
				return err
			}
			continue
		}
		if err := each(columns, row); err != nil {
			line, _ := r.FieldPos(0)
			return at(line, err)
		}
	}
}

// jsonRows reads objects with the members of a list; any other member is skipped.
func jsonRows(_ *Part, in io.Reader, each func(columns, row []string) error) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	columns := []string{columnPath, columnModified, columnSize}
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var o struct {
			Path     *string         `json:"file_path"`
			Modified json.RawMessage `json:"last_modified"`
			Size     json.Number     `json:"size"`
		}
		if err := json.Unmarshal(line, &o); err != nil {
			return faultf("line %d: %v", n, err)
		}
		if o.Path == nil {
			return faultf("line %d has no %s", n, columnPath)
		}
		modified := strings.Trim(string(o.Modified), `"`)
		if modified == "null" {
			modified = ""
		}
		if err := each(columns, []string{*o.Path, modified, o.Size.String()}); err != nil {
			return at(n, err)
		}
	}
	return fault(lines.Err())
}

// at adds the line to a fault.
func at(line int, err error) error {
	if errors.Is(err, ErrList) {
		return faultf("line %d: %v", line, err)
	}
	return err
}

// fault tells what the store could not read from what does not read as a list.
func fault(err error) error {
	var unread *readError
	if err == nil || errors.As(err, &unread) {
		return err
	}
	return faultf("%v", err)
}

// file reads an object in pieces, and sums what it read.
type file struct {
	ctx  context.Context //nolint:containedctx // an io.Reader has none
	src  store.Reader
	part *Part
	size int64
	off  int64
	buf  []byte
	sum  hash.Hash
}

// pieceBytes is how much of a list is in memory at once.
const pieceBytes = 8 << 20

// readError is a failure of the store below a decoder.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }

func (e *readError) Unwrap() error { return e.err }

// open looks at the object: an inventory's manifest says how long it is.
func (p *Part) open(ctx context.Context, src store.Reader) (*file, error) {
	info, err := src.Head(ctx, p.Location)
	if err != nil {
		return nil, err
	}
	if p.sizeBytes >= 0 && p.sizeBytes != info.SizeBytes {
		return nil, faultf("it has %d bytes, its manifest says %d", info.SizeBytes, p.sizeBytes)
	}
	return &file{ctx: ctx, src: src, part: p, size: info.SizeBytes, sum: md5.New()}, nil //nolint:gosec // as above
}

// Read implements io.Reader.
func (f *file) Read(out []byte) (int, error) {
	if len(f.buf) == 0 {
		if f.off >= f.size {
			return 0, io.EOF
		}
		piece, err := f.src.GetRange(f.ctx, f.part.Location, f.off, min(pieceBytes, f.size-f.off))
		if err == nil && len(piece) == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, &readError{fmt.Errorf("read from byte %d: %w", f.off, err)}
		}
		f.off += int64(len(piece))
		f.buf = piece
		f.sum.Write(piece)
	}
	n := copy(out, f.buf)
	f.buf = f.buf[n:]
	return n, nil
}

// check compares the sum with the manifest's.
func (f *file) check() error {
	if f.part.sum == "" {
		return nil
	}
	if _, err := io.Copy(io.Discard, f); err != nil {
		return err
	}
	if have := hex.EncodeToString(f.sum.Sum(nil)); have != f.part.sum {
		return faultf("its MD5 is %s, its manifest says %s", have, f.part.sum)
	}
	return nil
}
