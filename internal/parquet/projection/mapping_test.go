package projection_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/parquet/schema"

	pagechunk "firn/internal/parquet/chunk"
	"firn/internal/parquet/column"
	"firn/internal/parquet/encoding"
	"firn/internal/parquet/footer"
	"firn/internal/parquet/layout"
	"firn/internal/parquet/projection"
	"firn/internal/parquet/source"
)

// sameByMapping reads every leaf with a Mapping, page by page, and demands what the Projection reads.
func sameByMapping(tb testing.TB, data []byte, f *source.File, p *projection.Projection, target *projection.Target, opts projection.Options) {
	tb.Helper()
	maps, err := projection.Map(target, f.Schema, opts)
	must(tb, err)
	for i := range maps {
		want, wantErr := tryRead(f, p, i)
		got, gotErr := mapped(tb, data, f.Schema, &maps[i], target.Layout.Leaves[i], opts)
		if (wantErr == nil) != (gotErr == nil) || (wantErr == nil && got != want) {
			tb.Errorf("%s: mapped %q (%v), want %q (%v)", target.Layout.Leaves[i].Path, got, gotErr, want, wantErr)
		}
		if raw := maps[i].Raw(); raw && (!maps[i].Own() || !maps[i].Same() || maps[i].Null()) {
			tb.Errorf("%s is raw: %+v", target.Layout.Leaves[i].Path, maps[i])
		}
	}
}

// mapped reads a leaf with its mapping, and spells it as tryRead does.
func mapped(tb testing.TB, data []byte, sc *schema.Schema, m *projection.Mapping, leaf *layout.Leaf, opts projection.Options) (string, error) {
	tb.Helper()
	n, err := footer.Length(data, int64(len(data)))
	must(tb, err)
	meta, err := footer.DecodeFile(data[int64(len(data))-footer.TrailerBytes-n:])
	must(tb, err)
	var def, rep []int16
	var values []string
	var a projection.Mapper
	add := func(v *pagechunk.Vector) {
		for _, d := range v.Def {
			def = append(def, int16(d))
		}
		for _, r := range v.Rep {
			rep = append(rep, int16(r))
		}
		plain := v.Plain
		if v.Dictionary != nil {
			plain, err = v.Dictionary.Expand(nil, v.Indices)
			must(tb, err)
		}
		values = append(values, spellPlain(tb, leaf, plain, v.Values)...)
	}
	first := int64(0)
	for _, g := range meta.RowGroups() {
		var in, out pagechunk.Vector
		if m.Column() < 0 {
			a.Generate(m, int(g.Rows()), &out)
			must(tb, a.FillLineage(m, projection.Lineage{FirstRowID: opts.FirstRowID, Sequence: opts.Sequence}, first, &out))
			add(&out)
			first += g.Rows()
			continue
		}
		c := g.Columns()[m.Column()].Metadata()
		from, length := c.Span()
		col := sc.Column(m.Column())
		physical := pagechunk.Column{
			Type: footer.Type(c.IntOr(footer.ColumnType, -1)), Width: col.TypeLength(), MaxDef: uint8(col.MaxDefinitionLevel()),
			MaxRep: uint8(col.MaxRepetitionLevel()),
		}
		var r pagechunk.Reader
		must(tb, r.Open(&physical, data[from:from+length], pagechunk.Meta{
			Codec: encoding.Codec(c.IntOr(footer.ColumnCodec, -1)), Values: c.IntOr(footer.ColumnValues, -1), Rows: g.Rows(),
		}))
		for {
			page, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			must(tb, err)
			must(tb, r.Decode(page, &in))
			if err := a.Apply(m, &physical, &in, &out); err != nil {
				return "", err
			}
			must(tb, a.FillLineage(m, projection.Lineage{FirstRowID: opts.FirstRowID, Sequence: opts.Sequence}, first+page.FirstRow, &out))
			add(&out)
		}
		first += g.Rows()
	}
	return strings.Trim(fmt.Sprint(def), "[]") + " | " + strings.Trim(fmt.Sprint(rep), "[]") + " | " + strings.Join(values, " "), nil
}

func spellPlain(tb testing.TB, leaf *layout.Leaf, plain []byte, n int) (out []string) {
	var v column.Values
	must(tb, v.SetPlain(leaf.Kind.Type(), leaf.Width, plain, n))
	for i := range n {
		one := v.Slice(i, i+1)
		text := strings.Trim(fmt.Sprint(one.Bool, one.Int32, one.Int64, one.Float, one.Double), "[] ")
		for _, b := range one.Bytes {
			text = string(b)
		}
		for _, b := range one.Fixed {
			text = fmt.Sprintf("%x", []byte(b))
		}
		out = append(out, text)
	}
	return out
}
