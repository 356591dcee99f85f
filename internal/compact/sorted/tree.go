package sorted

import (
	"bytes"
	"encoding/binary"
)

// tree is a tournament of runs: it tells which run has the smallest key, the earlier one of equals. Each step costs one comparison a level.
type tree struct {
	leaves []leaf
	// losers[i] is the run that lost the match at node i, losers[0] the winner of all.
	losers []int
	size   int
}

// leaf is the front of one run.
type leaf struct {
	prefix uint64
	key    []byte
	done   bool
}

// prefixBytes is how much of a key is compared as a number.
const prefixBytes = 8

// prefixOf is the start of a key as a number, padded with zeros.
func prefixOf(key []byte) uint64 {
	if len(key) >= prefixBytes {
		return binary.BigEndian.Uint64(key)
	}
	var b [prefixBytes]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}

// newTree starts a tournament; the leaves must have been set.
func newTree(leaves []leaf) *tree {
	t := &tree{leaves: leaves, size: 1}
	for t.size < len(leaves) {
		t.size *= 2
	}
	t.losers = make([]int, t.size)
	t.losers[0] = t.play(1)
	return t
}

// play fills the nodes below one and returns its winner.
func (t *tree) play(node int) int {
	if node >= t.size {
		return node - t.size
	}
	a, b := t.play(2*node), t.play(2*node+1)
	if t.less(b, a) {
		a, b = b, a
	}
	t.losers[node] = b
	return a
}

// less says that run a comes before run b.
func (t *tree) less(a, b int) bool {
	switch {
	case a >= len(t.leaves) || t.leaves[a].done:
		return false
	case b >= len(t.leaves) || t.leaves[b].done:
		return true
	}
	x, y := &t.leaves[a], &t.leaves[b]
	if x.prefix != y.prefix {
		return x.prefix < y.prefix
	}
	if c := bytes.Compare(x.key, y.key); c != 0 {
		return c < 0
	}
	return a < b
}

// first is the run with the smallest key.
func (t *tree) first() int { return t.losers[0] }

// update plays again after the front of the winning run has changed.
func (t *tree) update() {
	w := t.losers[0]
	for node := (w + t.size) / 2; node > 0; node /= 2 {
		if t.less(t.losers[node], w) {
			t.losers[node], w = w, t.losers[node]
		}
	}
	t.losers[0] = w
}
