package plan

import (
	"bytes"
	"fmt"
	"testing"

	"firn/internal/handoff"
)

// TestHoldingGivesGroupsBack holds files of groups that are met in turns, in more bytes than are packed at once, and in another order than the plan's.
func TestHoldingGivesGroupsBack(t *testing.T) {
	t.Parallel()
	const groups, files = 3, 150
	entry := func(group, file int) []byte {
		return bytes.Repeat(fmt.Appendf(nil, "file %d of group %d;", file, group), 1+5000*(file%7)/3)
	}
	h := &holding{groups: make([][]block, groups)}
	for file := range files {
		for group := range groups {
			f := located{group: group, file: files - 1 - file, entry: handoff.Entry{Path: fmt.Sprint(group, file)}}
			if err := h.add(f, func(dst []byte) ([]byte, error) { return append(dst, entry(group, file)...), nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.close()
	if n := len(h.groups[0]); n < 2 {
		t.Fatalf("a group has %d blocks: the test wants several", n)
	}
	for _, group := range []int{1, 0, 2} {
		got, err := h.take(group)
		if err != nil || len(got) != files {
			t.Fatalf("group %d has %d files: %v", group, len(got), err)
		}
		for i, f := range got {
			file := files - 1 - i
			if f.entry.Path != fmt.Sprint(group, file) || !bytes.Equal(f.entry.File, entry(group, file)) {
				t.Errorf("file %d of group %d is %s, with %d bytes", file, group, f.entry.Path, len(f.entry.File))
			}
		}
	}
	if again, err := h.take(0); err != nil || len(again) != 0 {
		t.Errorf("a group that was taken still has %d files: %v", len(again), err)
	}
}
