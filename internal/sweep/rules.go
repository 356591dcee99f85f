package sweep

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"firn/internal/contract"
	"firn/internal/lake/reach"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// ArgUnsafe is the argument of remove_orphan_files that allows an older_than younger than 24 hours (Spark's procedure has no such way out).
const ArgUnsafe = "unsafe_older_than"

// Ages: Spark's default of three days, and the floor under which a file may belong to a writer that is still at work.
const (
	defaultHorizon = 3 * 24 * time.Hour
	minHorizon     = 24 * time.Hour
)

// verdict is what the metadata says about a listed object.
type verdict int

const (
	// orphan: nothing with its path is reachable.
	orphan verdict = iota
	// live: it is reachable.
	live
	// ignored: something with its path, but another scheme or bucket, is reachable, and such files are to be left.
	ignored
	// mismatched: the same, and such files end the job.
	mismatched
)

// orphanRules say which listed objects are orphans, under the names of Spark's remove_orphan_files.
type orphanRules struct {
	// olderThanMS: younger objects are never candidates.
	olderThanMS int64
	// hiddenFields start the names of folders that may begin with an underscore or a point.
	hiddenFields []string
	mode         string
	schemes      map[string]string
	authorities  map[string]string
}

func newOrphanRules(args map[string]string, partitionFields []string, now time.Time) (orphanRules, error) {
	r := orphanRules{mode: strings.ToUpper(args["prefix_mismatch_mode"])}
	switch r.mode {
	case "":
		r.mode = "ERROR"
	case "ERROR", "IGNORE", "DELETE":
	default:
		return r, refusef("prefix_mismatch_mode %q: want ERROR, IGNORE or DELETE", args["prefix_mismatch_mode"])
	}
	for _, f := range partitionFields {
		if strings.HasPrefix(f, "_") || strings.HasPrefix(f, ".") {
			r.hiddenFields = append(r.hiddenFields, f+"=")
		}
	}
	var err error
	if r.schemes, err = equalities("equal_schemes", args["equal_schemes"]); err != nil {
		return r, err
	}
	for _, alias := range []string{"s3a", "s3n"} {
		if _, said := r.schemes[alias]; !said {
			r.schemes[alias] = "s3"
		}
	}
	if r.authorities, err = equalities("equal_authorities", args["equal_authorities"]); err != nil {
		return r, err
	}
	r.olderThanMS, err = horizon(args, now)
	return r, err
}

// horizon is the instant before which a candidate must have been written.
func horizon(args map[string]string, now time.Time) (int64, error) {
	text := args["older_than"]
	if text == "" {
		return now.Add(-defaultHorizon).UnixMilli(), nil
	}
	at, err := parseInstant(text)
	if err != nil {
		return 0, refusef("older_than %q: %v", text, err)
	}
	switch {
	case at.After(now):
		return 0, refusef("older_than %q lies in the future", text)
	case at.After(now.Add(-minHorizon)) && args[ArgUnsafe] != "true":
		return 0, refusef("older_than %q is less than 24 hours ago: files of writers that are at work would go (%s allows it)", text, ArgUnsafe)
	}
	return at.UnixMilli(), nil
}

// parseInstant reads a timestamp: RFC 3339, Spark's form (UTC), or milliseconds since the epoch.
func parseInstant(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("want a timestamp such as 2026-01-31 12:00:00, or milliseconds since the epoch")
	}
	// 1973 in milliseconds; a smaller number is a duration, or seconds.
	if ms < 100_000_000_000 {
		return time.Time{}, fmt.Errorf("want milliseconds since the epoch, this is %s", time.UnixMilli(ms).UTC().Format(time.RFC3339))
	}
	return time.UnixMilli(ms), nil
}

// equalities reads a map argument: a JSON object, whose keys may be comma lists as in Spark.
func equalities(name, text string) (map[string]string, error) {
	out := map[string]string{}
	if text == "" {
		return out, nil
	}
	var given map[string]string
	if err := json.Unmarshal([]byte(text), &given); err != nil {
		return nil, refusef("%s %q: want a JSON object of texts", name, text)
	}
	for keys, value := range given {
		for key := range strings.SplitSeq(keys, ",") {
			out[strings.ToLower(strings.TrimSpace(key))] = strings.ToLower(strings.TrimSpace(value))
		}
	}
	return out, nil
}

// young reports whether an object is too young to be a candidate. An unknown age is young.
func (r orphanRules) young(modifiedAtMS int64) bool {
	return modifiedAtMS <= 0 || modifiedAtMS >= r.olderThanMS
}

// hidden reports whether a path under the swept folder has a part that starts with an underscore or a point, and is no partition's folder.
func (r orphanRules) hidden(relative string) bool {
	for part := range strings.SplitSeq(relative, "/") {
		if (strings.HasPrefix(part, "_") || strings.HasPrefix(part, ".")) && !r.partitionFolder(part) {
			return true
		}
	}
	return false
}

func (r orphanRules) partitionFolder(part string) bool {
	for _, f := range r.hiddenFields {
		if strings.HasPrefix(part, f) {
			return true
		}
	}
	return false
}

// match compares scheme and authority with those of the reachable files that have the same path. other is the first that differs.
func (r orphanRules) match(m reach.Match) (v verdict, other string) {
	if len(m.Reached) == 0 {
		return orphan, ""
	}
	for _, f := range m.Reached {
		if r.equal(m.File, f) {
			return live, ""
		}
	}
	other = m.Reached[0].Location
	switch r.mode {
	case "IGNORE":
		return ignored, other
	case "DELETE":
		return orphan, other
	}
	return mismatched, other
}

// equal compares two locations of one path. What metadata leaves out (a path without scheme) matches everything.
func (r orphanRules) equal(listed, reached reach.File) bool {
	if strings.HasPrefix(reached.Location, "/") {
		return true
	}
	a, aerr := store.ParseLocation(listed.Location)
	b, berr := store.ParseLocation(reached.Location)
	if aerr != nil || berr != nil {
		return true // cannot be: both were parsed before; keep the object
	}
	return mapped(r.schemes, a.Scheme) == mapped(r.schemes, b.Scheme) && mapped(r.authorities, a.Authority) == mapped(r.authorities, b.Authority)
}

func mapped(equal map[string]string, text string) string {
	text = strings.ToLower(text)
	if to, ok := equal[text]; ok {
		return to
	}
	return text
}

// openRuns recognises outputs of our own runs by the run ID in their names.
type openRuns struct {
	*step
	// seen remembers which run IDs have a folder in the work location.
	seen map[string]bool
}

// protects says why a file must stay although nothing reaches it: a run of ours that the work location still knows wrote it, and it is younger
// than the default horizon. Such a run may not be settled; its commit may still land.
func (o *openRuns) protects(ctx context.Context, f reach.File, plannedAtMS int64) (string, error) {
	if f.ModifiedAtMS < plannedAtMS-defaultHorizon.Milliseconds() {
		return "", nil
	}
	for _, id := range runIDs(path.Base(f.Path())) {
		known, ok := o.seen[id]
		if !ok {
			for _, err := range o.deps.Work.List(ctx, store.Join(o.deps.WorkLocation, contract.WorkPrefix, id, ""), store.ListOptions{}) {
				if err != nil {
					return "", fmt.Errorf("look for run %s: %w", id, err)
				}
				known = true
				break
			}
			o.seen[id] = known
		}
		if known {
			return "run " + id + " wrote it, which may not be settled", nil
		}
	}
	return "", nil
}

// runIDs finds the run IDs in a file name: parts of it that could be one.
func runIDs(name string) []string {
	var ids []string
	for _, part := range strings.FieldsFunc(name, func(c rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz234567", c) }) {
		if maintenance.RunID(part).Validate() == nil {
			ids = append(ids, part)
		}
	}
	return ids
}
