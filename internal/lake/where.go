package lake

import "firn/internal/decide/where"

// WhereFile describes a data file to a condition (package where): its partition, counts and bounds.
func WhereFile(e Entry) where.File {
	partition := e.File.Partition()
	return where.File{
		SpecID: e.SpecID, RecordCount: e.File.Count(),
		ValueCounts: e.File.ValueCounts(), NullCounts: e.File.NullValueCounts(), NaNCounts: e.File.NaNValueCounts(),
		LowerBounds: e.File.LowerBoundValues(), UpperBounds: e.File.UpperBoundValues(),
		Partition: func(fieldID int) (where.Value, bool) {
			v, ok := partition[fieldID]
			if !ok {
				return where.Value{}, false
			}
			return where.ValueOf(v)
		},
	}
}
