//go:build stress

package stress

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// counts are what Firn's own records of its runs say, over all runs of a home.
type counts struct {
	// Batches are commit batches that were decided; Landed committed something, Conflicts lost to another writer, Idle had nothing left to do. Undecided
	// are batches of runs that were killed.
	Batches, Landed, Conflicts, Idle, Other, Undecided int
	// Rewrites are the batches among them that replace data or delete files, Met those of them that met a new delete on a replaced file.
	Rewrites, Met int
	// Attempts are calls of the catalog; Dropped are groups that were given up; RebasedRows were carried over.
	Attempts, Dropped int
	RebasedRows       int64
	// Written are bytes of outputs that were finished, Wasted those that did not land.
	Written, Wasted int64
	reasons         map[string]int
}

// batchResult is what is read of a commit's result, groupResult of a group's.
type (
	batchResult struct {
		Outcome, Reason string
		Groups          []int
		Dropped         []struct{ Outcome, Reason string }
		Attempts        int
		Rebased         *struct{ Positions int64 }
	}
	groupResult struct {
		Outcome  string
		BytesOut int64 `json:"bytes_out"`
	}
)

// countRuns reads the work folder.
func countRuns(home, table string) (counts, error) {
	c := counts{reasons: map[string]int{}}
	jobs, err := filepath.Glob(filepath.Join(home, "firn", "work", "runs", "*", "*", "index.json"))
	if err != nil {
		return c, err
	}
	for _, dir := range jobs {
		if err := c.job(filepath.Dir(dir), table); err != nil {
			return c, err
		}
	}
	return c, nil
}

// job adds one job of one run on the table.
func (c *counts) job(dir, table string) error {
	var index struct {
		Run     struct{ Table struct{ Name string } }
		Outcome string
		Batches []struct{}
	}
	if err := decodeFile(filepath.Join(dir, "index.json"), &index); errors.Is(err, fs.ErrNotExist) {
		return nil // no job, or killed before its plan was valid
	} else if err != nil {
		return err
	}
	if index.Run.Table.Name != table || index.Outcome != "" {
		return nil
	}
	if filepath.Base(dir) == "remove_orphan_files" {
		return nil // commits nothing
	}
	rewrites := strings.HasPrefix(filepath.Base(dir), "rewrite_") && filepath.Base(dir) != "rewrite_manifests"
	landed := map[string]bool{}
	for b := range max(len(index.Batches), 1) {
		var result batchResult
		err := decodeFile(filepath.Join(dir, fmt.Sprintf("commit-%04d.json", b)), &result)
		if errors.Is(err, fs.ErrNotExist) {
			c.Undecided++
			continue
		}
		if err != nil {
			return err
		}
		c.batch(result, rewrites)
		if result.Outcome == "committed" {
			for _, g := range result.Groups {
				landed[fmt.Sprintf("result-%06d.json", g)] = true
			}
		}
	}
	results, err := filepath.Glob(filepath.Join(dir, "result-*.json"))
	if err != nil {
		return err
	}
	for _, path := range results {
		var result groupResult
		if err := decodeFile(path, &result); err != nil {
			return err
		}
		c.Written += result.BytesOut
		if !landed[filepath.Base(path)] {
			c.Wasted += result.BytesOut
		}
	}
	return nil
}

func (c *counts) batch(r batchResult, rewrites bool) {
	c.Batches++
	c.Attempts += r.Attempts
	switch r.Outcome {
	case "committed":
		c.Landed++
	case "conflict":
		c.Conflicts++
	case "nothing_to_do":
		c.Idle++
	default:
		c.Other++
	}
	if r.Outcome != "committed" {
		c.reasons[r.Outcome+": "+r.Reason]++
	}
	met := r.Rebased != nil
	for _, d := range r.Dropped {
		c.Dropped++
		c.reasons["group "+d.Outcome+": "+d.Reason]++
		met = met || d.Outcome == "conflict"
	}
	if r.Rebased != nil {
		c.RebasedRows += r.Rebased.Positions
	}
	if rewrites {
		c.Rewrites++
		if met {
			c.Met++
		}
	}
}

// decided is the number of batches that could have landed.
func (c *counts) decided() int { return c.Batches - c.Idle }

func decodeFile(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("decode %s: %w", path, err)
	}
	return nil
}

// share is a share in percent; of nothing it is all.
func share(part, whole int) float64 {
	if whole == 0 {
		return 100
	}
	return 100 * float64(part) / float64(whole)
}

// leftovers lists what lies in a table's folder and is not reachable, and what is reachable and does not lie there.
func (s *scene) leftovers() (left, missing []string, err error) {
	var reachable struct{ Files []string }
	if err := s.lake.do(map[string]any{"do": "reachable", "table": s.table}, &reachable); err != nil {
		return nil, nil, err
	}
	wanted := map[string]bool{}
	for _, location := range reachable.Files {
		wanted["/"+strings.TrimLeft(strings.TrimPrefix(location, "file:"), "/")] = true
	}
	folder := filepath.Join(s.lake.home, "warehouse", filepath.Join(strings.Split(s.table, ".")...))
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !wanted[path] && !strings.HasSuffix(path, ".crc") {
			left = append(left, path)
		}
		delete(wanted, path)
		return nil
	})
	for path := range wanted {
		missing = append(missing, path)
	}
	slices.Sort(missing)
	return left, missing, err
}
