// Package policy works out what one table is to be maintained by: the thresholds, options and triggers of the five jobs, layered from built-in
// defaults (Spark's) over the deployment, catalog, namespace and table parts of firn.yaml, the table's properties and the command line. It says of
// every value where it came from and what it overrode. It decides nothing: package decide reads the result. Unknown keys and bad values are errors
// that name the key, the value and the bound, all at once.
package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"firn/internal/maintenance"
)

// ErrPolicy marks every error about a policy that cannot be used.
var ErrPolicy = errors.New("policy cannot be used")

type policyError struct{ text string }

func (e *policyError) Error() string { return e.text }

func (e *policyError) Is(target error) bool { return target == ErrPolicy }

func faultf(format string, args ...any) error { return &policyError{fmt.Sprintf(format, args...)} }

// Mode says what automatic runs may do to a table. Calls by a person do not look at it.
type Mode string

// The modes.
const (
	// Observe decides, plans and reports, and changes nothing.
	Observe Mode = "observe"
	// Maintain executes what is due.
	Maintain Mode = "maintain"
	// Off does not even look.
	Off Mode = "off"
)

// Setting is one effective value.
type Setting struct {
	Key Key
	// Value is the value in its normal form: bytes as numbers, ages in their largest unit.
	Value string
	// Source says where the value came from: "built-in", "preset glue", "deployment", "catalog prod", "namespace db", "tables db.events_*",
	// "table property firn.mode", "command line".
	Source string
	// Overrode are the values beneath, the last overridden first.
	Overrode []Overridden
}

// Overridden is a value that another layer overrode.
type Overridden struct {
	Value, Source string
}

// Policy is the effective policy of one table. It is immutable.
type Policy struct {
	settings map[string]Setting
}

// Settings are all values in the order of Keys.
func (p Policy) Settings() []Setting {
	out := make([]Setting, 0, len(p.settings))
	for _, k := range Keys() {
		out = append(out, p.settings[k.Name])
	}
	return out
}

// Setting returns one value by its key.
func (p Policy) Setting(name string) (Setting, bool) {
	s, ok := p.settings[name]
	return s, ok
}

func (p Policy) text(name string) string { return p.settings[name].Value }

// whole, flag, ratio and age read values that were checked when they were set.
func (p Policy) whole(name string) int64 {
	n, err := strconv.ParseInt(p.text(name), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (p Policy) flag(name string) bool { return p.text(name) == "true" }

func (p Policy) ratio(name string) float64 {
	f, err := strconv.ParseFloat(p.text(name), 64)
	if err != nil {
		return 0
	}
	return f
}

func (p Policy) age(name string) time.Duration {
	d, err := ParseAge(p.text(name))
	if err != nil {
		return 0
	}
	return d
}

// Mode is what automatic runs may do; enabled=false is Off.
func (p Policy) Mode() Mode {
	if !p.flag("enabled") {
		return Off
	}
	return Mode(p.text("mode"))
}

// Enabled reports whether a job takes part in automatic runs. For remove_orphan_files false means a dry run.
func (p Policy) Enabled(job maintenance.Job) bool { return p.flag(string(job) + ".enabled") }

// MaxRunsPerDay bounds automatic runs on one table; 0 is no bound.
func (p Policy) MaxRunsPerDay() int64 { return p.whole("max-runs-per-day") }

// Triggers are the conditions under which jobs are due. A zero switches its condition off.
type Triggers struct {
	// SmallFiles in one partition make rewrite_data_files due at once; SmallFilesAged do after Age without a run.
	SmallFiles     int64
	SmallFilesAged int64
	Age            time.Duration
	// DeletedRatio (0 to 1) and DeleteFiles are of one data file.
	DeletedRatio float64
	DeleteFiles  int64
	// PositionDeleteFiles and DanglingDeleteFiles are of the table.
	PositionDeleteFiles int64
	DanglingDeleteFiles int64
	// SmallManifests are under half of the target size.
	SmallManifests int64
	// ExpireInterval and OrphansInterval are times since the job's last run.
	ExpireInterval  time.Duration
	OrphansInterval time.Duration
}

// Triggers reads the triggers. Where a layer set a threshold of the planner that is higher, the trigger is raised to it: to start a run that the
// planner will find nothing for helps nobody.
func (p Policy) Triggers() Triggers {
	t := p.triggers()
	if least := p.whole("rewrite_data_files.min-input-files"); p.isSet("rewrite_data_files.min-input-files") {
		t.SmallFiles, t.SmallFilesAged = raise(t.SmallFiles, least), raise(t.SmallFilesAged, least)
	}
	t.DeleteFiles = raise(t.DeleteFiles, p.whole("rewrite_data_files.delete-file-threshold"))
	t.DeletedRatio = raise(t.DeletedRatio, p.ratio("rewrite_data_files.delete-ratio-threshold"))
	return t
}

// raise leaves a trigger that is off off.
func raise[T int64 | float64](trigger, least T) T {
	if trigger == 0 {
		return 0
	}
	return max(trigger, least)
}

// isSet reports whether a layer set the key.
func (p Policy) isSet(name string) bool { return p.settings[name].Source != sourceBuiltIn }

func (p Policy) triggers() Triggers {
	return Triggers{
		SmallFiles:          p.whole("rewrite_data_files.trigger.small-files"),
		SmallFilesAged:      p.whole("rewrite_data_files.trigger.small-files-aged"),
		Age:                 p.age("rewrite_data_files.trigger.age"),
		DeletedRatio:        p.ratio("rewrite_data_files.trigger.deleted-ratio"),
		DeleteFiles:         p.whole("rewrite_data_files.trigger.delete-files"),
		PositionDeleteFiles: p.whole("rewrite_position_delete_files.trigger.position-delete-files"),
		DanglingDeleteFiles: p.whole("rewrite_position_delete_files.trigger.dangling-delete-files"),
		SmallManifests:      p.whole("rewrite_manifests.trigger.small-manifests"),
		ExpireInterval:      p.age("expire_snapshots.trigger.interval"),
		OrphansInterval:     p.age("remove_orphan_files.trigger.interval"),
	}
}

// Expiry is what automatic expiry obeys beside its arguments.
type Expiry struct {
	// MinAge keeps younger snapshots, whatever the arguments say.
	MinAge        time.Duration
	KeepBookmarks bool
	BookmarkKeys  []string
	// MaxSnapshotsPerRun bounds one run; 0 is no bound.
	MaxSnapshotsPerRun int
}

// Expiry reads the guards of automatic expiry.
func (p Policy) Expiry() Expiry {
	return Expiry{
		MinAge:             p.age("expire_snapshots.min-age"),
		KeepBookmarks:      p.flag("expire_snapshots.keep-bookmarks"),
		BookmarkKeys:       splitList(p.text("expire_snapshots.bookmark-keys")),
		MaxSnapshotsPerRun: int(p.whole("expire_snapshots.max-snapshots-per-run")),
	}
}

// ExpiryAge is the age at which automatic expiry takes snapshots (older-than); MinAge bounds it from below.
func (p Policy) ExpiryAge() time.Duration { return p.age("expire_snapshots.older-than") }

// RetainLast is how many snapshots automatic expiry keeps of each branch.
func (p Policy) RetainLast() int { return int(p.whole("expire_snapshots.retain-last")) }

// OrphanAge is the age from which on an automatic search takes files (older-than).
func (p Policy) OrphanAge() time.Duration { return p.age("remove_orphan_files.older-than") }

// Request is the request of an automatic run for one job: what some layer set, under the names of Spark's arguments and options. Built-in
// defaults are left out; they are the procedure's own. Thresholds of rewrite_data_files that nobody set follow the triggers. An orphan search that
// is not enabled is a dry run.
func (p Policy) Request(job maintenance.Job) maintenance.JobRequest {
	r := maintenance.JobRequest{Job: job, Args: map[string]string{}, Options: map[string]string{}}
	for _, k := range Keys() {
		s := p.settings[k.Name]
		if k.Job != job || s.Source == sourceBuiltIn || k.Property != "" && s.Source == sourceProperty+k.Property {
			continue // an Iceberg property is the procedure's own default
		}
		switch {
		case k.Option != "":
			r.Options[k.Option] = s.Value
		case k.Argument != "" && k.Kind == KindAge:
			r.Args[k.Argument] = "now-" + s.Value
		case k.Argument != "":
			r.Args[k.Argument] = s.Value
		}
	}
	switch {
	case job == maintenance.RewriteDataFiles:
		p.align(r.Options)
	case job == maintenance.RemoveOrphanFiles && !p.Enabled(job):
		r.Args["dry_run"] = "true"
	case job == maintenance.ExpireSnapshots:
		e := p.Expiry()
		r.Guards = &maintenance.ExpiryGuards{
			MinAgeMS: e.MinAge.Milliseconds(), IgnoreBookmarks: !e.KeepBookmarks, BookmarkKeys: e.BookmarkKeys, Limit: e.MaxSnapshotsPerRun,
		}
	}
	return r
}

// DueRequest is Request for a job that is due; minInputFiles is how many small files make a partition due now, which the run keeps to where no layer set
// min-input-files; aged says that their age did (decide.JobDue).
func (p Policy) DueRequest(job maintenance.Job, minInputFiles int64, aged bool) maintenance.JobRequest {
	r := p.Request(job)
	r.Aged = aged
	if minInputFiles > 0 && job == maintenance.RewriteDataFiles && !p.isSet("rewrite_data_files.min-input-files") {
		r.Options["min-input-files"] = strconv.FormatInt(minInputFiles, 10)
	}
	return r
}

// align sets options that no layer set so that a run does something about what triggered it: a trigger at five delete files would start a run in
// vain again and again if the planner's own threshold were off.
func (p Policy) align(options map[string]string) {
	t := p.Triggers()
	if _, set := options["delete-file-threshold"]; !set && t.DeleteFiles > 0 {
		options["delete-file-threshold"] = strconv.FormatInt(t.DeleteFiles, 10)
	}
	if _, set := options["delete-ratio-threshold"]; !set && t.DeletedRatio > 0 {
		options["delete-ratio-threshold"] = strconv.FormatFloat(t.DeletedRatio, 'f', -1, 64)
	}
	least := p.whole("rewrite_data_files.min-input-files")
	for _, files := range []int64{t.SmallFiles, t.SmallFilesAged} {
		if files > 0 {
			least = min(least, files)
		}
	}
	if _, set := options["min-input-files"]; !set {
		options["min-input-files"] = strconv.FormatInt(max(least, 1), 10)
	}
}

// Explanation is a setting as it is printed.
type Explanation struct {
	Key      string       `json:"key"`
	Value    string       `json:"value"`
	Source   string       `json:"source"`
	Overrode []Overridden `json:"overrode,omitempty"`
}

// Explain lists every value with its source and what it overrode.
func (p Policy) Explain() []Explanation {
	var out []Explanation
	for _, s := range p.Settings() {
		out = append(out, Explanation{Key: s.Key.Name, Value: s.Value, Source: s.Source, Overrode: slices.Clone(s.Overrode)})
	}
	return out
}

// MarshalJSON writes an overridden value with lower-case names.
func (o Overridden) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"value": o.Value, "source": o.Source})
}
