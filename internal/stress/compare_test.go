//go:build stress

package stress

import "testing"

// TestCompareFindsEachKind: the judge of a run must itself be able to say no.
func TestCompareFindsEachKind(t *testing.T) {
	read := func(id, version int64) readRow {
		return readRow{ID: id, Group: id % partitions, Version: version, Pad: padOf(id, version)}
	}
	want := map[int64]int64{1: 1, 2: 3}
	wrong := read(2, 3)
	wrong.Pad = "x"
	for _, c := range []struct {
		name string
		got  []readRow
		want differences
	}{
		{name: "equal", got: []readRow{read(2, 3), read(1, 1)}},
		{name: "lost", got: []readRow{read(2, 3)}, want: differences{Lost: 1}},
		{name: "doubled", got: []readRow{read(1, 1), read(2, 3), read(1, 1)}, want: differences{Doubled: 1}},
		{name: "deleted and back", got: []readRow{read(1, 1), read(2, 3), read(7, 1)}, want: differences{Resurrected: 1}},
		{name: "an old version beside the new one", got: []readRow{read(1, 1), read(2, 2), read(2, 3)}, want: differences{Resurrected: 1}},
		{name: "an old version instead of the new one", got: []readRow{read(1, 1), read(2, 2)}, want: differences{Resurrected: 1, Lost: 1}},
		{name: "another value", got: []readRow{read(1, 1), wrong}, want: differences{Wrong: 1}},
	} {
		got := compare(want, c.got)
		if got.Lost != c.want.Lost || got.Doubled != c.want.Doubled || got.Resurrected != c.want.Resurrected || got.Wrong != c.want.Wrong {
			t.Errorf("%s: %+v: want %+v", c.name, got, c.want)
		}
	}
}
