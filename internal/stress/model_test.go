//go:build stress

package stress

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// partitions is the number of values of the partition column g.
const partitions = 4

// model is what a table must hold: the version of each row by its ID. Everything else of a row follows from the two.
type model struct {
	mu   sync.Mutex
	rows map[int64]int64
	// recent are the IDs that were written last, where deletes meet files that are about to be rewritten.
	recent []int64
	random *rand.Rand
	next   int64
}

const recentIDs = 160

func newModel(seed uint64) *model {
	return &model{rows: map[int64]int64{}, random: rand.New(rand.NewPCG(seed, 0))}
}

// row is a row as the engines spell it: id, g, v, pad.
type row [4]any

func rowOf(id, version int64) row {
	return row{id, id % partitions, version, padOf(id, version)}
}

func padOf(id, version int64) string {
	return fmt.Sprintf("%d/%d/%s", id, version, strings.Repeat(string(rune('a'+(id+version)%26)), 24))
}

// fresh takes n IDs that were never used.
func (m *model) fresh(n int) []int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = m.next
		m.next++
	}
	return ids
}

// alive picks n different living IDs of a writer's half, even or odd: one in four of them from the whole table, the others from those written last.
// The writers are at work at the same time, and each knows what becomes of its own half only.
func (m *model) alive(n int, half int64) []int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids []int64
	for tries := 0; len(ids) < n && tries < 1000; tries++ {
		id := m.random.Int64N(max(m.next, 1))
		if len(m.recent) > 0 && tries%4 != 0 {
			id = m.recent[m.random.IntN(len(m.recent))]
		}
		if _, lives := m.rows[id]; lives && id/partitions%2 == half && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// version is the version of a row, 0 when it does not live.
func (m *model) version(id int64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rows[id]
}

// put notes that rows were written.
func (m *model) put(rows []row) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range rows {
		id, version := r[0].(int64), r[2].(int64)
		m.rows[id] = version
		m.recent = append(m.recent, id)
	}
	m.recent = slices.Clone(m.recent[max(0, len(m.recent)-recentIDs):])
}

// remove notes that rows were deleted.
func (m *model) remove(ids []int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		delete(m.rows, id)
	}
}

// copy returns the rows as they are now.
func (m *model) copy() map[int64]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.rows)
}

// differences tells what a read got wrong of the rows that it should have found.
type differences struct {
	Lost, Doubled, Resurrected, Wrong int
	examples                          []string
}

func (d *differences) none() bool { return d.Lost+d.Doubled+d.Resurrected+d.Wrong == 0 }

func (d *differences) note(count *int, format string, args ...any) {
	*count++
	if len(d.examples) < 20 {
		d.examples = append(d.examples, fmt.Sprintf(format, args...))
	}
}

// compare holds what an engine read against the model. A row of an older version than the model's is one that was replaced and came back.
func compare(want map[int64]int64, got []readRow) differences {
	var d differences
	seen := make(map[int64]int64, len(got))
	for _, r := range got {
		version, lives := want[r.ID]
		_, twice := seen[r.ID]
		switch {
		case !lives:
			d.note(&d.Resurrected, "row %d of version %d was deleted", r.ID, r.Version)
		case r.Version < version:
			d.note(&d.Resurrected, "row %d has version %d as well, which was replaced by %d", r.ID, r.Version, version)
		case twice:
			d.note(&d.Doubled, "row %d is there twice", r.ID)
		case r.Version != version || r.Group != r.ID%partitions || r.Pad != padOf(r.ID, version):
			d.note(&d.Wrong, "row %d is %+v: want version %d", r.ID, r, version)
		}
		if lives && r.Version == version {
			seen[r.ID] = version
		}
	}
	for id, version := range want {
		if _, found := seen[id]; !found {
			d.note(&d.Lost, "row %d of version %d is missing", id, version)
		}
	}
	return d
}
