package compact_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/apache/iceberg-go"

	"firn/internal/compact/arrow"
	"firn/internal/handoff"
	"firn/internal/icebergtest"
	"firn/internal/maintenance"
)

// ordered orders the rows of all groups by all primitive columns of the schema's first level, in turn ascending and descending, or along a curve.
func ordered(curve maintenance.Curve) benchOption {
	return func(b *bench) {
		o := &maintenance.Ordering{Curve: curve, VarLengthContributionBytes: 8}
		for _, f := range b.state.Metadata.CurrentSchema().Fields() {
			_, primitive := f.Type.(iceberg.PrimitiveType)
			switch f.Type.(type) {
			case iceberg.GeometryType, iceberg.VariantType, iceberg.UnknownType:
				continue
			case iceberg.DecimalType:
				primitive = primitive && curve == maintenance.NoCurve
			}
			if primitive {
				down := len(o.Fields)%2 == 1
				o.Fields = append(o.Fields, maintenance.OrderingField{SourceID: f.ID, Transform: "identity", Descending: down, NullsLast: down})
			}
		}
		for i := range b.groups {
			b.groups[i].Ordering, b.groups[i].ExpectedOutputFiles = o, 2
		}
	}
}

// TestReferenceTablesInOrder sorts tables with every type, with deletes, evolved schemas, imported files and row lineage: what iceberg-go reads of
// the outputs is what Spark and the Iceberg Java library say of the table.
func TestReferenceTablesInOrder(t *testing.T) {
	t.Parallel()
	for name, curve := range map[string]maintenance.Curve{
		"types_v2": maintenance.NoCurve, "types_v3": maintenance.ZOrder, "types_ns_v3": maintenance.NoCurve, "types_time": maintenance.Hilbert,
		"types_uuid_fixed": maintenance.NoCurve, "nested": maintenance.NoCurve, "evolve": maintenance.NoCurve, "defaults_v3": maintenance.NoCurve,
		"dv_upgraded": maintenance.NoCurve, "eq_mixed": maintenance.NoCurve, "imported": maintenance.NoCurve, "part_void": maintenance.ZOrder,
		"pos_partition": maintenance.NoCurve, "encrypted_file": maintenance.NoCurve, "strings_bounds": maintenance.NoCurve, "dv": maintenance.Hilbert,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rewriteReferenceTable(t, name, func(_ string, r handoff.GroupResult) {
				if r.Engine != "sorted" || r.Permutation == "" || r.RowMap != "" {
					t.Errorf("engine %s, permutation %q, row map %q: want the sorting engine's", r.Engine, r.Permutation, r.RowMap)
				}
			}, ordered(curve))
		})
	}
}

// TestRepartitionInOrder sends the rows of older specs to the current one and orders them, along a curve too (case A49): each partition gets the
// rows that the other engine gives it.
func TestRepartitionInOrder(t *testing.T) {
	t.Parallel()
	for name, curve := range map[string]maintenance.Curve{
		"part_evolved": maintenance.ZOrder, "part_void": maintenance.NoCurve, "eq_mixed": maintenance.NoCurve,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ref := icebergtest.Reference(t, name)
			state := ref.Table(t)
			current := outputSpec(state.Metadata.DefaultPartitionSpec())
			rows := func(opts ...benchOption) (map[string]int64, *bench, []handoff.GroupResult) {
				b := newBench(t, ref.Store, state, append(opts, current)...)
				results := b.rewriteAll()
				out := map[string]int64{}
				for i, r := range results {
					checkProof(t, b, i, r)
				}
				for _, f := range b.outputs(results) {
					out[fmt.Sprintf("%#v", f.Partition())] += f.Count()
				}
				return out, b, results
			}
			want, _, _ := rows(run(0), limits(arrow.Limits{}))
			got, b, results := rows(run(1), ordered(curve))
			if !maps.Equal(got, want) {
				t.Errorf("rows by partition %v: want %v", got, want)
			}
			tbl := ref.World(t).Open(ref.ID)
			b.commit(tbl, results)
			for _, fault := range tbl.Rows().Check(ref.Expected.Rows.RowCount, ref.Expected.Columns) {
				t.Error(fault)
			}
		})
	}
}

// TestOrderWithBrotli: the codec that pages are not written with, and bloom filters, go with an order too.
func TestOrderWithBrotli(t *testing.T) {
	t.Parallel()
	for _, codec := range []string{"brotli", "gzip"} {
		rewriteReferenceTable(t, "types_v2", nil, ordered(maintenance.NoCurve), property("write.parquet.compression-codec", codec),
			property("write.parquet.bloom-filter-enabled.column.id", "true"))
	}
}
