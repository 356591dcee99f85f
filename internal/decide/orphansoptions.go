package decide

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Ages of remove_orphan_files: Spark's default, and the floor under which a file may belong to a writer that is still at work.
const (
	DefaultOrphanAge = 3 * 24 * time.Hour
	MinOrphanAge     = 24 * time.Hour
)

// PrefixMismatchMode says what happens to a listed file whose path the metadata names with another scheme or authority.
type PrefixMismatchMode string

// The modes. Error ends the job before anything is deleted, Ignore leaves such files, Delete takes them for orphans.
const (
	MismatchError  PrefixMismatchMode = "ERROR"
	MismatchIgnore PrefixMismatchMode = "IGNORE"
	MismatchDelete PrefixMismatchMode = "DELETE"
)

// UnsafeOlderThan is the argument that allows an older_than less than 24 hours ago. Spark's procedure has no such way out.
const UnsafeOlderThan = "unsafe_older_than"

// OrphansTable is what orphan rules may look at of the table.
type OrphansTable struct {
	Properties map[string]string
	// Location is the table's location.
	Location string
	// PartitionFields are the names of the partition fields of all specs.
	PartitionFields []string
}

// OrphansOptions are the arguments of remove_orphan_files with defaults filled in.
type OrphansOptions struct {
	// OlderThanMS is the horizon in milliseconds since the epoch: files that are not older are never candidates.
	OlderThanMS int64
	// Location is the folder to sweep, without a closing slash; the table's location when none was given.
	Location string
	Mode     PrefixMismatchMode
	// EqualSchemes and EqualAuthorities map spellings to the one they are equal to, in lower case; s3a and s3n are s3 always.
	EqualSchemes     map[string]string
	EqualAuthorities map[string]string
	DryRun           bool
	// MaxConcurrentDeletes is 0 when it was not given. FileListView is where the list of files lies that stands for a listing; "" for none.
	MaxConcurrentDeletes        int
	FileListView                string
	PrefixListing, StreamResult bool

	table OrphansTable
}

// ParseOrphansOptions reads the arguments of remove_orphan_files; equal_schemes and equal_authorities are JSON objects. Names in known belong to
// other rooms and are let through. Faults are ErrOption, all at once; a table with gc.enabled=false is ErrRefused.
func ParseOrphansOptions(args map[string]string, table OrphansTable, now time.Time, known ...string) (OrphansOptions, error) {
	if err := checkGC(table.Properties, "remove orphan files"); err != nil {
		return OrphansOptions{}, err
	}
	r := &optionReader{options: args, noun: "argument", known: slices.Clone(known)}
	o := OrphansOptions{table: table}
	o.OlderThanMS = r.horizon(now)
	o.Location = table.Location
	if text, ok := r.text("location"); ok {
		o.Location = text
	}
	o.Location = strings.TrimRight(o.Location, "/")
	if o.Location == "" {
		r.faultOf("location", "it is empty")
	}
	o.Mode = r.mismatchMode()
	o.EqualSchemes = r.equalities("equal_schemes")
	for _, alias := range []string{"s3a", "s3n"} {
		if _, said := o.EqualSchemes[alias]; !said {
			o.EqualSchemes[alias] = "s3"
		}
	}
	o.EqualAuthorities = r.equalities("equal_authorities")
	o.DryRun = r.flag("dry_run", false)
	o.MaxConcurrentDeletes = r.count("max_concurrent_deletes", 0, 1)
	o.FileListView = r.fileList()
	o.PrefixListing = r.flag("prefix_listing", false)
	o.StreamResult = r.flag("stream_results", false)
	o.Location, _ = o.Respell(o.Location, table.Location)
	if o.Mode == MismatchDelete && !o.samePrefix(splitLocation(o.Location), splitLocation(table.Location)) {
		r.faultOf("prefix_mismatch_mode", "DELETE on %s would take the live files of the table at %s for orphans", o.Location, table.Location)
	}
	r.unknown("remove_orphan_files")
	return o, r.err()
}

// horizon reads older_than. A time in the future is a mistake, and one less than a day ago takes files of writers at work.
func (r *optionReader) horizon(now time.Time) int64 {
	at := r.instant("older_than", now, now.Add(-DefaultOrphanAge).UnixMilli())
	unsafe := r.flag(UnsafeOlderThan, false)
	switch {
	case at > now.UnixMilli():
		r.faultOf("older_than", "%s lies in the future", time.UnixMilli(at).UTC().Format(time.RFC3339))
	case at > now.Add(-MinOrphanAge).UnixMilli() && !unsafe:
		r.faultOf("older_than", "%s is less than 24 hours ago: files of writers that are at work would go (%s=true allows it)",
			time.UnixMilli(at).UTC().Format(time.RFC3339), UnsafeOlderThan)
	}
	return at
}

// fileList reads file_list_view. A bare name is a view of a Spark session, which nobody else sees.
func (r *optionReader) fileList() string {
	const name = "file_list_view"
	text, given := r.text(name)
	if given && !strings.Contains(text, "/") {
		r.faultOf(name, "%q names a view of a Spark session: write the view to a file (columns file_path and last_modified; CSV, JSON Lines or Parquet) "+
			"and give its location, or that of an S3 Inventory's manifest.json", text)
	}
	return text
}

func (r *optionReader) mismatchMode() PrefixMismatchMode {
	const name = "prefix_mismatch_mode"
	text, ok := r.text(name)
	if !ok || text == "" {
		return MismatchError
	}
	known := []PrefixMismatchMode{MismatchError, MismatchIgnore, MismatchDelete}
	mode := PrefixMismatchMode(strings.ToUpper(text))
	if !slices.Contains(known, mode) {
		r.faultOf(name, "%q is none of %v", text, known)
		return MismatchError
	}
	return mode
}

// equalities reads a JSON object whose keys may be comma lists, as in Spark.
func (r *optionReader) equalities(name string) map[string]string {
	equal := map[string]string{}
	text, ok := r.text(name)
	if !ok || text == "" {
		return equal
	}
	var given map[string]string
	if err := json.Unmarshal([]byte(text), &given); err != nil {
		r.faultOf(name, "%q is no JSON object of texts", text)
		return equal
	}
	for keys, value := range given {
		for key := range strings.SplitSeq(keys, ",") {
			equal[strings.ToLower(strings.TrimSpace(key))] = strings.ToLower(strings.TrimSpace(value))
		}
	}
	return equal
}
