package keys

import (
	"fmt"

	"firn/internal/maintenance"
	"firn/internal/parquet/layout"
)

// Encoder makes the keys of an ordering from the keys of its fields.
type Encoder struct {
	// Fields are the fields whose columns must be read: first the leading ones, then those of the ordering.
	Fields []*Field
	lead   int
	curve  *Curve
	parts  [][]byte
}

// New makes the encoder of an ordering. leading fields come first: the partition's, where rows are sent to partitions too.
func New(o *maintenance.Ordering, leading []maintenance.OrderingField, l *layout.Layout) (*Encoder, error) {
	e := &Encoder{lead: len(leading)}
	for _, f := range leading {
		field, err := NewField(f, l)
		if err != nil {
			return nil, err
		}
		e.Fields = append(e.Fields, field)
	}
	var widths []int
	for _, f := range o.Fields {
		var field *Field
		var err error
		if o.Curve == maintenance.NoCurve {
			field, err = NewField(f, l)
		} else if field, err = NewContribution(f.SourceID, o.Curve, o.VarLengthContributionBytes, l); err == nil {
			widths = append(widths, field.Width())
		}
		if err != nil {
			return nil, err
		}
		e.Fields = append(e.Fields, field)
	}
	if o.Curve != maintenance.NoCurve {
		e.curve = NewCurve(o.Curve, widths, o.MaxOutputSizeBytes)
		e.parts = make([][]byte, len(widths))
	}
	if len(e.Fields) == 0 {
		return nil, fmt.Errorf("order rows by nothing: %w", ErrUnsupported)
	}
	return e, nil
}

// Width is the length of each key, 0 when it varies.
func (e *Encoder) Width() int {
	total := 0
	for i, f := range e.Fields {
		if e.curve != nil && i >= e.lead {
			break
		}
		if f.Width() == 0 {
			return 0
		}
		total += f.Width()
	}
	if e.curve != nil {
		total += e.curve.Size()
	}
	return total
}

// Combine joins the keys of the fields row by row. With one field and no curve the answer is that field's keys themselves.
func (e *Encoder) Combine(dst *Keys, fields []Keys) (*Keys, error) {
	if len(fields) == 1 && e.curve == nil {
		return &fields[0], nil
	}
	dst.Reset()
	dst.Width = e.Width()
	for i := range fields[0].Rows() {
		for f := range fields {
			switch {
			case e.curve == nil || f < e.lead:
				dst.Bytes = append(dst.Bytes, fields[f].At(i)...)
			default:
				e.parts[f-e.lead] = fields[f].At(i)
			}
		}
		if e.curve != nil {
			dst.Bytes = e.curve.Append(dst.Bytes, e.parts)
		}
		if dst.Width > 0 {
			continue
		}
		if len(dst.Bytes) > maxBytes {
			return nil, fmt.Errorf("order rows: keys of %d bytes", len(dst.Bytes))
		}
		dst.Ends = append(dst.Ends, uint32(len(dst.Bytes)))
	}
	return dst, nil
}

// Lead is the part of a key that the leading fields make up.
func (e *Encoder) Lead(key []byte) []byte {
	n := 0
	for _, f := range e.Fields[:e.lead] {
		n += f.Skip(key[n:])
	}
	return key[:n]
}

// Leading is the number of leading fields.
func (e *Encoder) Leading() int { return e.lead }
