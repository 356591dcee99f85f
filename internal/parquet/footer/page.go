package footer

import "fmt"

// Page views a PageHeader.
type Page struct {
	*Struct
	// Length is the header's length in bytes, as read.
	Length int
}

// Fields of PageHeader, and of the headers in it.
const (
	PageKind            = 1
	PageBytes           = 2
	PageCompressedBytes = 3
	PageCRC             = 4
	pageData            = 5
	pageDictionary      = 7
	pageDataV2          = 8

	dataValues       = 1
	dataEncoding     = 2
	dataStatistics   = 5
	dataV2Encoding   = 4
	dataV2Statistics = 8
)

// DecodePage reads a page header from the start of data and checks that what its type needs is there and not negative.
func DecodePage(data []byte) (Page, error) {
	s, n, err := Decode(data)
	if err != nil {
		return Page{}, fmt.Errorf("read a page header: %w", err)
	}
	p := Page{Struct: s, Length: n}
	if p.IntOr(PageBytes, -1) < 0 || p.IntOr(PageCompressedBytes, -1) < 0 {
		return Page{}, fmt.Errorf("read a page header: no sizes: %w", ErrMalformed)
	}
	switch t, ok := p.Int(PageKind); {
	case !ok:
		return Page{}, fmt.Errorf("read a page header: no type: %w", ErrMalformed)
	case PageType(t) == IndexPage:
		return p, nil
	case p.detail() == nil || p.Values() < 0 || p.detail().Find(p.encodingField()) == nil:
		return Page{}, fmt.Errorf("read a page header of type %d: incomplete: %w", t, ErrMalformed)
	}
	return p, nil
}

// Type is the page's type.
func (p Page) Type() PageType { return PageType(p.IntOr(PageKind, -1)) }

func (p Page) detail() *Struct {
	switch p.Type() {
	case DataPage:
		return p.Record(pageData)
	case DataPageV2:
		return p.Record(pageDataV2)
	case DictionaryPage:
		return p.Record(pageDictionary)
	}
	return nil
}

func (p Page) encodingField() int16 {
	if p.Type() == DataPageV2 {
		return dataV2Encoding
	}
	return dataEncoding
}

// Body and CompressedBody are the lengths of the page without its header, in bytes.
func (p Page) Body() int64 { return p.IntOr(PageBytes, -1) }

// CompressedBody is the length in the file.
func (p Page) CompressedBody() int64 { return p.IntOr(PageCompressedBytes, -1) }

// CRC is the checksum of the page's body as it lies in the file.
func (p Page) CRC() (crc uint32, ok bool) {
	n, ok := p.Int(PageCRC)
	return uint32(int32(n)), ok
}

// Values is the number of values, nulls included; of a dictionary page its entries.
func (p Page) Values() int64 { return p.detail().IntOr(dataValues, -1) }

// Encoding is the encoding of the values.
func (p Page) Encoding() Encoding { return Encoding(p.detail().IntOr(p.encodingField(), -1)) }

// LevelEncodings are the encodings of definition and repetition levels of a version 1 data page.
func (p Page) LevelEncodings() (def, rep Encoding) {
	d := p.Record(pageData)
	return Encoding(d.IntOr(3, -1)), Encoding(d.IntOr(4, -1))
}

// V2 is what a version 2 header says besides.
type V2 struct {
	Nulls, Rows        int64
	DefBytes, RepBytes int64
	Compressed         bool
}

// V2 reads a version 2 data page's own fields; a number that is absent is -1.
func (p Page) V2() V2 {
	d := p.Record(pageDataV2)
	compressed, ok := d.Bool(7)
	return V2{
		Nulls: d.IntOr(2, -1), Rows: d.IntOr(3, -1), DefBytes: d.IntOr(5, -1), RepBytes: d.IntOr(6, -1),
		Compressed: compressed || !ok,
	}
}

// Statistics returns a data page's statistics; its Struct is nil when absent.
func (p Page) Statistics() Statistics {
	if p.Type() == DataPageV2 {
		return Statistics{p.Record(pageDataV2).Record(dataV2Statistics)}
	}
	return Statistics{p.Record(pageData).Record(dataStatistics)}
}

// Recode changes the header to that of a page with another body: its sizes, checksum and encoding, and for version 2 whether the values are
// compressed. All else stays.
func (p Page) Recode(e Encoding, body, compressedBody int, crc uint32, compressed bool) {
	p.Put(PageBytes, Int32Value(int64(body)))
	p.Put(PageCompressedBytes, Int32Value(int64(compressedBody)))
	p.Put(PageCRC, Int32Value(int64(int32(crc))))
	p.detail().Put(p.encodingField(), Int32Value(int64(e)))
	if p.Type() == DataPageV2 {
		p.Record(pageDataV2).Put(7, BoolValue(compressed))
	}
}

// NewDictionaryPage makes the header of a PLAIN dictionary page.
func NewDictionaryPage(entries, body, compressedBody int, crc uint32) Page {
	dict := &Struct{Fields: []Field{
		{ID: dataValues, Value: Int32Value(int64(entries))},
		{ID: dataEncoding, Value: Int32Value(int64(Plain))},
	}}
	return Page{Struct: &Struct{Fields: []Field{
		{ID: PageKind, Value: Int32Value(int64(DictionaryPage))},
		{ID: PageBytes, Value: Int32Value(int64(body))},
		{ID: PageCompressedBytes, Value: Int32Value(int64(compressedBody))},
		{ID: PageCRC, Value: Int32Value(int64(int32(crc)))},
		{ID: pageDictionary, Value: RecordValue(dict)},
	}}}
}

// PageForm is what the header of a version 1 data page says.
type PageForm struct {
	// Values is the number of entries, nulls included.
	Values   int
	Encoding Encoding
	// Body and CompressedBody are the body's lengths in bytes.
	Body, CompressedBody int
	CRC                  uint32
}

// NewDataPage makes the header of a version 1 data page, whose levels are RLE.
func NewDataPage(f PageForm) Page {
	data := &Struct{Fields: []Field{
		{ID: dataValues, Value: Int32Value(int64(f.Values))},
		{ID: dataEncoding, Value: Int32Value(int64(f.Encoding))},
		{ID: 3, Value: Int32Value(int64(RLE))},
		{ID: 4, Value: Int32Value(int64(RLE))},
	}}
	return Page{Struct: &Struct{Fields: []Field{
		{ID: PageKind, Value: Int32Value(int64(DataPage))},
		{ID: PageBytes, Value: Int32Value(int64(f.Body))},
		{ID: PageCompressedBytes, Value: Int32Value(int64(f.CompressedBody))},
		{ID: PageCRC, Value: Int32Value(int64(int32(f.CRC)))},
		{ID: pageData, Value: RecordValue(data)},
	}}}
}
