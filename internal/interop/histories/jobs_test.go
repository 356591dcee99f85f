//go:build interop

package histories

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// procedures are Firn's jobs, each with the arguments that a step draws for it.
func procedures() map[string]func(h *history) []string {
	return map[string]func(h *history) []string{
		"rewrite_data_files": (*history).rewriteDataFiles, "rewrite_position_delete_files": (*history).rewritePositionDeletes,
		"rewrite_equality_delete_files": func(*history) []string { return nil }, "rewrite_manifests": (*history).rewriteManifests,
		"expire_snapshots": (*history).expire, "remove_orphan_files": (*history).removeOrphans,
	}
}

// weights say which job a step draws: those on deletes where there are some.
func (h *history) weights() []choice {
	positions, equalities := 0, 0
	switch {
	case h.head["head_position_deletes"] > 0:
		positions = 8
	case h.head["head_vectors"] > 0:
		positions = 1
	}
	if h.head["head_equality_deletes"] > 0 {
		equalities = 6
	}
	return []choice{
		{"rewrite_data_files", 6},
		{"rewrite_position_delete_files", positions},
		{"rewrite_equality_delete_files", equalities},
		{"rewrite_manifests", 4},
		{"expire_snapshots", 4},
		{"remove_orphan_files", 4},
	}
}

type choice struct {
	name   string
	weight int
}

// one draws an element.
func one[T any](h *history, from ...T) T { return from[h.m.rng.IntN(len(from))] }

// maintain runs a job of Firn's and says what it did.
func (h *history) maintain() string {
	name := h.choose(h.weights())
	args := procedures()[name](h)
	if name == "rewrite_data_files" && len(h.m.refs) > 1 && h.m.rng.IntN(4) == 0 {
		args = append(args, "--branch", "b")
	}
	route := h.route()
	if name == "expire_snapshots" {
		route = "sql" // by REST, expired files outlive the commit by a quarter of an hour
	}
	code, object, text := h.lake.firn(h.t, route, append([]string{"call", name, "--table", h.table, "--json"}, args...)...)
	outcome := fmt.Sprint(object["outcome"])
	if code != 0 || outcome != "committed" && outcome != "nothing_to_do" {
		h.fail("firn call %s %s ended with %d: %s", name, strings.Join(args, " "), code, text)
	}
	changed := outcome == "committed"
	if name == "remove_orphan_files" {
		changed = fmt.Sprint(object["deleted_files_count"]) != "0"
	}
	h.tally.count(name, changed)
	var counts []string
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if n := fmt.Sprint(object[key]); strings.HasSuffix(key, "_count") && n != "0" {
			counts = append(counts, key+" "+n)
		}
	}
	return fmt.Sprintf("%s %s: %s %s", name, strings.Join(args, " "), outcome, strings.Join(counts, ", "))
}

func option(key string, value any) []string {
	return []string{"--option", fmt.Sprintf("%s=%v", key, value)}
}

func (h *history) rewriteDataFiles() []string {
	var args []string
	maybe := func(of int, more ...string) {
		if h.m.rng.IntN(of) == 0 {
			args = append(args, more...)
		}
	}
	cat, at := h.m.name(colCat), h.m.name(colAt)
	switch h.m.rng.IntN(7) {
	case 0:
		args = append(args, "--strategy", "sort", "--sort-order", one(h, "id DESC NULLS LAST", cat+" ASC NULLS FIRST, id", h.other().name+" DESC", "bucket(4, id), "+at))
	case 1:
		args = append(args, "--strategy", "sort", "--sort-order", "zorder("+cat+", "+at+")")
	case 2:
		args = append(args, "--strategy", "sort", "--sort-order", "hilbert(id, "+at+")")
	}
	switch h.m.rng.IntN(3) {
	case 0:
		args = append(args, option("rewrite-all", true)...)
	case 1:
		args = append(args, option("min-input-files", 2)...)
	}
	maybe(3, option("target-file-size-bytes", one(h, 4000, 20000, 1<<20))...)
	maybe(3, option("delete-file-threshold", 1)...)
	maybe(4, option("delete-ratio-threshold", "0.1")...)
	maybe(4, option("remove-dangling-deletes", true)...)
	maybe(6, option("use-starting-sequence-number", false)...)
	maybe(3, append(option("partial-progress.enabled", true), option("partial-progress.max-commits", one(h, 1, 2, 10))...)...)
	maybe(4, option("max-file-group-size-bytes", one(h, 10000, 100000))...)
	maybe(5, option("rewrite-job-order", one(h, "bytes-asc", "files-desc", "none"))...)
	if h.m.rng.IntN(6) == 0 && len(args) > 0 && args[0] == "--strategy" {
		args = append(args, option("shuffle-partitions-per-file", 2)...)
	}
	maybe(5, "--where", h.where())
	return args
}

// where selects files.
func (h *history) where() string {
	cat, at := h.m.name(colCat), h.m.name(colAt)
	return one(h, fmt.Sprintf("id < %d", h.m.nextID/2), cat+" = 'a'", cat+" IS NULL OR "+cat+" IN ('b', 'c')", at+" >= timestamp '2020-09-20 00:00:00'",
		fmt.Sprintf("id BETWEEN %d AND %d", h.m.nextID/4, h.m.nextID))
}

func (h *history) rewritePositionDeletes() []string {
	return one(h, option("rewrite-all", true), option("min-input-files", 2), append(option("rewrite-all", true), "--where", fmt.Sprintf("id < %d", h.m.nextID/2)))
}

func (h *history) rewriteManifests() []string {
	if len(h.m.fields) > 0 && h.m.rng.IntN(3) == 0 {
		return []string{"--arg", "use_caching=true"}
	}
	return nil
}

func (h *history) expire() []string {
	args := []string{"--older-than", time.Now().UTC().Format("2006-01-02 15:04:05.000"), "--retain-last", strconv.Itoa(1 + h.m.rng.IntN(4))}
	if h.m.rng.IntN(2) == 0 {
		args = append(args, "--clean-expired-metadata")
	}
	if h.m.rng.IntN(3) == 0 {
		args = append(args, "--arg", "stream_results=true")
	}
	return args
}

// removeOrphans first leaves some files beside the table, as writers that died do; half of the time they are too young to go.
func (h *history) removeOrphans() []string {
	for range h.m.rng.IntN(4) {
		h.orphans++
		h.place(one(h, "data/", "data/cat=a/", "metadata/", "data/with space+%23/") + fmt.Sprintf("orphan-%d#?.parquet", h.orphans))
	}
	args := []string{"--older-than", time.Now().Add(-48 * time.Hour).UTC().Format("2006-01-02 15:04:05")}
	if h.m.rng.IntN(2) == 0 {
		args = append(args, "--arg", "prefix_listing=true")
	}
	return args
}

// place leaves an old file in the table's location.
func (h *history) place(name string) {
	old := time.Now().Add(-100 * time.Hour)
	if key, ok := strings.CutPrefix(h.location, "s3://"+bucket+"/"); ok {
		h.lake.server.Seed(h.t, bucket, key+"/"+name, []byte("left behind"), old)
		return
	}
	path := filepath.Join(strings.TrimPrefix(h.location, "file://"), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("left behind"), 0o600); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Chtimes(path, old, old); err != nil {
		h.t.Fatal(err)
	}
}
