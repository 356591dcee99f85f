package pages

import (
	"firn/internal/parquet/footer"
)

// unknownBounds marks a page of which no bounds are known.
func unknownBounds() footer.Bounds { return footer.Bounds{Nulls: -1} }

// pageBounds reads the statistics in a page's header.
func (c *columnWriter) pageBounds(r *reader, p *page) footer.Bounds {
	b := unknownBounds()
	s := p.Statistics()
	if n, ok := s.Int(footer.StatNulls); ok && n >= 0 && n <= p.Values() {
		b.Nulls = n
	}
	if b.NullPage = b.Nulls == p.Values(); b.NullPage || !r.chunk.trusted {
		return b
	}
	b.Min, b.Max = bounds(s)
	return b
}

// index adds a finished source to the chunk's page indexes: with the bounds of its own column index, else those of its page headers.
func (c *columnWriter) index(r *reader) {
	c.rows += r.rows
	if c.noBounds {
		return
	}
	infos := r.infos
	if raw := r.source.in.indexOf(r.chunk.columnIndex); raw != nil && r.chunk.trusted {
		if own, err := footer.ColumnIndex(raw); err == nil && len(own) == len(infos) {
			for i := range own {
				if own[i].Nulls < 0 {
					own[i].Nulls = infos[i].Nulls
				}
			}
			infos = own
		}
	}
	for _, b := range infos {
		if !b.NullPage {
			if !sound(c.leaf, b.Min) || !sound(c.leaf, b.Max) {
				c.noBounds, c.bounds = true, nil
				return
			}
			o := order(c.leaf)
			b.Min, b.Max = widen(o, b.Min, true), widen(o, b.Max, false)
		}
		c.bounds = append(c.bounds, b)
	}
}

// columnIndex returns the chunk's ColumnIndex, nil when a page's bounds or place are unknown.
func (c *columnWriter) columnIndex() *footer.Struct {
	if c.noBounds || c.noPlaces || len(c.bounds) == 0 {
		return nil
	}
	return footer.NewColumnIndex(c.bounds, boundaryOrder(c))
}

// offsetIndex returns the chunk's OffsetIndex, nil when a page does not begin with a row.
func (c *columnWriter) offsetIndex() *footer.Struct {
	if c.noPlaces || len(c.locations) == 0 {
		return nil
	}
	return footer.NewOffsetIndex(c.locations)
}

// boundaryOrder tells whether both bounds only rise, or only fall, over the pages with values.
func boundaryOrder(c *columnWriter) int64 {
	o := order(c.leaf)
	up, down := true, true
	var last *footer.Bounds
	for i := range c.bounds {
		b := &c.bounds[i]
		if b.NullPage {
			continue
		}
		if last != nil {
			low, high := compare(o, last.Min, b.Min), compare(o, last.Max, b.Max)
			up = up && low <= 0 && high <= 0
			down = down && low >= 0 && high >= 0
		}
		last = b
	}
	switch {
	case up:
		return footer.Ascending
	case down:
		return footer.Descending
	}
	return footer.Unordered
}

// chunk builds the ColumnChunk. Where its page indexes are is added when they are written.
func (c *columnWriter) chunk(path []footer.Value) *footer.Struct {
	m := &footer.Struct{}
	m.Put(footer.ColumnType, footer.Int32Value(int64(physicalType(c))))
	var encodings, counts []footer.Value
	for _, e := range c.encodings {
		encodings = append(encodings, footer.Int32Value(int64(e)))
	}
	for _, p := range c.counts {
		counts = append(counts, footer.RecordValue(&footer.Struct{Fields: []footer.Field{
			{ID: 1, Value: footer.Int32Value(int64(p.kind))}, {ID: 2, Value: footer.Int32Value(int64(p.encoding))}, {ID: 3, Value: footer.Int32Value(p.pages)},
		}}))
	}
	m.Put(footer.ColumnEncodings, footer.ListValue(footer.I32, encodings))
	m.Put(footer.ColumnPath, footer.ListValue(footer.Binary, path))
	m.Put(footer.ColumnCodec, footer.Int32Value(int64(c.tools.codec)))
	m.Put(footer.ColumnValues, footer.Int64Value(c.values))
	m.Put(footer.ColumnBytes, footer.Int64Value(c.raw))
	m.Put(footer.ColumnCompressedBytes, footer.Int64Value(c.out.size-c.start))
	m.Put(footer.ColumnDataPage, footer.Int64Value(c.dataPage))
	if c.dataPage > c.start {
		m.Put(footer.ColumnDictionaryPage, footer.Int64Value(c.start))
	}
	if s := c.statistics(); len(s.Fields) > 0 {
		m.Put(footer.ColumnStatistics, footer.RecordValue(s))
	}
	m.Put(footer.ColumnEncodingStats, footer.ListValue(footer.Record, counts))
	return &footer.Struct{Fields: []footer.Field{
		{ID: footer.ChunkFileOffset, Value: footer.Int64Value(0)}, // Deprecated: readers want 0 where the metadata lies in the footer only.
		{ID: footer.ChunkMetadata, Value: footer.RecordValue(m)},
	}}
}

// statistics are the merged ones of the sources; what one of them lacks is left out.
func (c *columnWriter) statistics() *footer.Struct {
	s := &footer.Struct{}
	if !c.stats.noNulls {
		s.Put(footer.StatNulls, footer.Int64Value(c.stats.nulls))
	}
	if lower, upper := c.stats.bounds(c.leaf); lower != nil {
		s.Put(footer.StatMax, footer.BinaryValue(upper))
		s.Put(footer.StatMin, footer.BinaryValue(lower))
	}
	return s
}

// physicalType is the leaf's type in the format's numbers.
func physicalType(c *columnWriter) footer.Type {
	return [...]footer.Type{footer.Boolean, footer.Int32, footer.Int64, footer.Float, footer.Float64, footer.ByteArray, footer.Fixed}[c.leaf.Kind]
}
