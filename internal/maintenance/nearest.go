package maintenance

import "strings"

// NearestName returns the known name that is closest to name, for error messages, or "" when none is close enough to be meant: the edit distance
// (case does not count, a swap of neighbours counts one) must be at most a third of the longer name, and at least two.
func NearestName(name string, known []string) string {
	best, bestDistance := "", -1
	for _, k := range known {
		limit := max(2, max(len(name), len(k))/3)
		if max(len(name), len(k))-min(len(name), len(k)) > limit {
			continue // so many letters more are so many edits at least: texts of any length may come in as names
		}
		d := editDistance(strings.ToLower(name), strings.ToLower(k))
		if d <= limit && (bestDistance < 0 || d < bestDistance) {
			best, bestDistance = k, d
		}
	}
	return best
}

// Suggestion is the half-sentence that an error about an unknown name ends with: "; did you mean X?" or nothing.
func Suggestion(name string, known []string) string {
	if n := NearestName(name, known); n != "" {
		return "; did you mean " + n + "?"
	}
	return ""
}

// editDistance counts insertions, deletions, replacements and swaps of neighbours, over bytes.
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// Shortened cuts a text of more bytes than the limit, which is 3 at least, at a border of characters, and ends it with dots.
func Shortened(text string, limit int) string {
	const more = "..."
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len(more)], "") + more
}
