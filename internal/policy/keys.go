package policy

import (
	"firn/internal/maintenance"
)

// Kind is the type of a key's values.
type Kind string

// The kinds. Bytes take a unit (64MiB), ages need one (7d).
const (
	KindWhole Kind = "whole number"
	KindBytes Kind = "bytes"
	KindRatio Kind = "ratio"
	KindFlag  Kind = "true or false"
	KindAge   Kind = "age"
	KindText  Kind = "text"
	// KindAmount is a number that may have a fraction.
	KindAmount Kind = "amount"
	// KindCondition and KindWindows are read by package when.
	KindCondition Kind = "condition"
	KindWindows   Kind = "windows"
	// KindList is a list of texts, written with commas.
	KindList Kind = "list"
	// KindPairs is a map of texts, written as a JSON object.
	KindPairs Kind = "map"
)

// Key is one thing that a policy can set.
type Key struct {
	// Name is the key in firn.yaml (levels joined by dots), and behind "firn." the table property.
	Name string
	Kind Kind
	// Job is the job it belongs to, "" for keys of the table.
	Job maintenance.Job
	// Default is the built-in value; "" means that the procedure works it out, as Note says.
	Default string
	// Glue is the value under preset glue where it differs.
	Glue string
	// Low and High bound numbers; High 0 is no bound. Values are the allowed texts, if they are limited.
	Low, High float64
	Values    []string
	// Option or Argument is the name that Spark's procedure has for it.
	Option   string
	Argument string
	// Property is the Iceberg table property that sets the same; PropertyUnit "ms" marks ages counted in milliseconds.
	Property     string
	PropertyUnit string
	// Note says what it does.
	Note string
}

// Keys returns all keys in the order in which they are explained.
func Keys() []Key {
	keys := []Key{
		{
			Name: "mode", Kind: KindText, Default: string(Observe), Values: []string{string(Observe), string(Maintain), string(Off)},
			Note: "what automatic runs may do: observe plans and reports, maintain executes, off does not look",
		},
		{Name: "enabled", Kind: KindFlag, Default: "true", Note: "false is the same as mode off"},
		{Name: "max-runs-per-day", Kind: KindWhole, Default: "96", Note: "bound on automatic runs on one table in 24 hours; 0 is none"},
	}
	keys = append(keys, gateKeys()...)
	keys = append(keys, dataFilesKeys()...)
	keys = append(keys, positionDeletesKeys()...)
	keys = append(keys, manifestsKeys()...)
	keys = append(keys, expiryKeys()...)
	return append(keys, orphansKeys()...)
}

// gateKeys hold automatic runs back, whatever is due.
func gateKeys() []Key {
	return []Key{
		{Name: "min-interval", Kind: KindAge, Default: "0s", Note: "least time between automatic runs on one table"},
		{Name: "quiet-period", Kind: KindAge, Default: "0s", Note: "runs wait until nobody else has committed for this long, at most for max-quiet-wait"},
		{Name: "max-quiet-wait", Kind: KindAge, Default: "6h", Note: "a table that is never quiet is run after this time without a run; 0s is never"},
		{Name: "windows", Kind: KindWindows, Note: "times (UTC) in which runs may start, e.g. 22:00-06:00, Sat-Sun 00:00-24:00; always when empty"},
		{Name: "max-dollars-per-month", Kind: KindAmount, Default: "0", Note: "runs stop when those of the calendar month have cost this much by the cost model; 0 is no bound"},
		{
			Name: "hysteresis", Kind: KindRatio, Default: "0.1", High: 1,
			Note: "a threshold that a run left reached counts again when this share of it has been added",
		},
		{Name: "reconcile-interval", Kind: KindAge, Default: "7d", Note: "time between full scans that prove the ledger; 0s is never"},
		{Name: "takeover", Kind: KindFlag, Default: "false", Note: "maintain the table even where another maintainer does (Glue optimizers, S3 Tables, other engines' rewrites)"},
		{Name: "foreign-rewrite-window", Kind: KindAge, Default: "1d", Note: "a table that another engine rewrote within this time is left to it; 0s looks at none"},
	}
}

// conditionKeys are triggers that every job has.
func conditionKeys() []Key {
	return []Key{
		{Name: "trigger.when", Kind: KindCondition, Note: "due when this holds too, e.g. commits >= 20 and since-last-run >= 6h or cron('0 3 * * *')"},
		{Name: "trigger.min-interval", Kind: KindAge, Default: "0s", Note: "least time between automatic runs of the job"},
	}
}

// of fills in job, name and Spark's names: an option is called as in Spark.
func of(job maintenance.Job, keys []Key) []Key {
	keys = append(keys, conditionKeys()...)
	for i := range keys {
		keys[i].Job = job
		if keys[i].Option == "=" {
			keys[i].Option = keys[i].Name
		}
		keys[i].Name = string(job) + "." + keys[i].Name
	}
	return keys
}

func dataFilesKeys() []Key {
	keys := []Key{
		{Name: "enabled", Kind: KindFlag, Default: "true", Note: "takes part in automatic runs"},
		{Name: "trigger.small-files", Kind: KindWhole, Default: "100", Note: "due when a partition holds this many files under 75 % of the target; 0 is off"},
		{Name: "trigger.small-files-aged", Kind: KindWhole, Default: "5", Glue: "0", Note: "due when a partition holds this many and trigger.age has passed"},
		{Name: "trigger.age", Kind: KindAge, Default: "1d", Note: "time since the last run by age, for trigger.small-files-aged; such a run takes all small files"},
		{Name: "trigger.deleted-ratio", Kind: KindRatio, Default: "0.3", High: 1, Note: "due when this share of a file's rows is deleted; 0 is off"},
		{Name: "trigger.delete-files", Kind: KindWhole, Default: "5", Glue: "1", Note: "due when a file has this many delete files; 0 is off"},
		{Name: "strategy", Kind: KindText, Default: "binpack", Values: []string{"binpack", "sort"}, Argument: "strategy", Note: "how rows are ordered"},
		{Name: "sort-order", Kind: KindText, Argument: "sort_order", Note: "columns of a sort, or zorder(...); the table's order when empty"},
		{Name: "where", Kind: KindText, Argument: "where", Note: "condition that limits a run to files that may match"},
	}
	keys = append(keys, sizeKeys("write.target-file-size-bytes", "536870912")...)
	keys = append(keys,
		Key{Name: "delete-file-threshold", Kind: KindWhole, Option: "=", Note: "this many delete files make a file a candidate; trigger.delete-files when empty"},
		Key{Name: "delete-ratio-threshold", Kind: KindRatio, High: 1, Option: "=", Note: "this share of deleted rows makes a file a candidate; trigger.deleted-ratio when empty"},
		Key{Name: "max-files-to-rewrite", Kind: KindWhole, Low: 1, Option: "=", Note: "cap for one run; none when empty"},
		Key{
			Name: "proof", Kind: KindText, Default: "written", Option: "=", Values: []string{"written", "content"},
			Note: "content reads outputs and inputs again before they are committed and compares all columns",
		},
		Key{Name: "quiet-period", Kind: KindAge, Option: "=", Note: "younger files are left out, for tables whose writers replace files; none when empty"},
		Key{Name: "quiet-commits", Kind: KindWhole, Default: "0", Option: "=", Note: "partitions to which one of the last so many commits of others added files are left out"},
		Key{Name: "use-starting-sequence-number", Kind: KindFlag, Default: "true", Option: "=", Note: "outputs carry the pinned snapshot's sequence number"},
		Key{Name: "partial-progress.max-failed-commits", Kind: KindWhole, Option: "=", Note: "more failures fail the run; max-commits when empty"},
		Key{Name: "output-spec-id", Kind: KindWhole, Option: "=", Note: "partition spec of the outputs; the current one when empty"},
		Key{Name: "remove-dangling-deletes", Kind: KindFlag, Default: "false", Option: "=", Note: "drop delete files that apply to nothing, in a commit of its own"},
	)
	return of(maintenance.RewriteDataFiles, keys)
}

// sizeKeys are the options that both rewrites of files have.
func sizeKeys(property, target string) []Key {
	return []Key{
		{Name: "target-file-size-bytes", Kind: KindBytes, Default: target, Low: 1, Option: "=", Property: property, Note: "what outputs aim for"},
		{Name: "min-file-size-bytes", Kind: KindBytes, Option: "=", Note: "smaller files are candidates; 75 % of the target when empty"},
		{Name: "max-file-size-bytes", Kind: KindBytes, Low: 1, Option: "=", Note: "larger files are candidates; 180 % of the target when empty"},
		{Name: "min-input-files", Kind: KindWhole, Default: "5", Low: 1, Option: "=", Note: "files that make a group worth while"},
		{Name: "rewrite-all", Kind: KindFlag, Default: "false", Option: "=", Note: "every file is a candidate"},
		{Name: "max-file-group-size-bytes", Kind: KindBytes, Default: "107374182400", Low: 1, Option: "=", Note: "cuts groups by input bytes"},
		{Name: "max-file-group-input-files", Kind: KindWhole, Low: 1, Option: "=", Note: "cuts groups by number of files; no bound when empty"},
		{Name: "max-concurrent-file-group-rewrites", Kind: KindWhole, Default: "5", Low: 1, Option: "=", Note: "groups that are rewritten at once"},
		{Name: "partial-progress.enabled", Kind: KindFlag, Default: "false", Option: "=", Note: "commit in batches"},
		{Name: "partial-progress.max-commits", Kind: KindWhole, Default: "10", Low: 1, Option: "=", Note: "bound on the number of batches"},
		{
			Name: "rewrite-job-order", Kind: KindText, Default: "none", Option: "=", Note: "order of execution of groups",
			Values: []string{"none", "bytes-asc", "bytes-desc", "files-asc", "files-desc"},
		},
	}
}

func positionDeletesKeys() []Key {
	keys := []Key{
		{Name: "enabled", Kind: KindFlag, Default: "true", Note: "takes part in automatic runs"},
		{Name: "trigger.position-delete-files", Kind: KindWhole, Default: "100", Note: "due at this many position delete files; 0 is off"},
		{Name: "trigger.dangling-delete-files", Kind: KindWhole, Default: "1", Note: "due at this many delete files that apply to nothing; 0 is off"},
	}
	return of(maintenance.RewritePositionDeleteFiles, append(keys, sizeKeys("write.delete.target-file-size-bytes", "67108864")...))
}

func manifestsKeys() []Key {
	return of(maintenance.RewriteManifests, []Key{
		{Name: "enabled", Kind: KindFlag, Default: "true", Note: "takes part in automatic runs"},
		{Name: "trigger.small-manifests", Kind: KindWhole, Default: "100", Note: "due at this many manifests under half of the target; 0 is off"},
		{
			Name: "target-size-bytes", Kind: KindBytes, Default: "8388608", Low: 1, Property: "commit.manifest.target-size-bytes", Note: "size of manifests",
			Argument: "target_size_bytes",
		},
	})
}

func expiryKeys() []Key {
	return of(maintenance.ExpireSnapshots, []Key{
		{Name: "enabled", Kind: KindFlag, Default: "true", Note: "takes part in automatic runs"},
		{Name: "trigger.interval", Kind: KindAge, Default: "1d", Note: "time between runs; 0s is off"},
		{
			Name: "older-than", Kind: KindAge, Default: "5d", Argument: "older_than", Property: "history.expire.max-snapshot-age-ms", PropertyUnit: "ms",
			Note: "snapshots of this age expire",
		},
		{
			Name: "retain-last", Kind: KindWhole, Default: "1", Low: 1, Argument: "retain_last", Property: "history.expire.min-snapshots-to-keep",
			Note: "snapshots that each branch keeps",
		},
		{Name: "clean-expired-metadata", Kind: KindFlag, Default: "false", Argument: "clean_expired_metadata", Note: "drop schemas and specs that nothing uses"},
		{Name: "min-age", Kind: KindAge, Default: "1d", Note: "automatic runs keep younger snapshots; never under one day"},
		{Name: "keep-bookmarks", Kind: KindFlag, Default: "true", Note: "keep the newest snapshot of each streaming writer"},
		{Name: "bookmark-keys", Kind: KindList, Note: "summary keys of writers that resume from them, beside Flink's, Spark's and Kafka Connect's"},
		{Name: "max-snapshots-per-run", Kind: KindWhole, Default: "10000", Note: "bound on one run, oldest first; 0 is none"},
	})
}

func orphansKeys() []Key {
	return of(maintenance.RemoveOrphanFiles, []Key{
		{Name: "enabled", Kind: KindFlag, Default: "false", Note: "delete; false lists only (a dry run)"},
		{Name: "trigger.interval", Kind: KindAge, Default: "7d", Glue: "1d", Note: "time between runs; 0s is off; 30 days where nobody has committed since the last search"},
		{Name: "older-than", Kind: KindAge, Default: "3d", Argument: "older_than", Note: "files of this age are candidates; never under one day"},
		{
			Name: "prefix-mismatch-mode", Kind: KindText, Default: "ERROR", Values: []string{"ERROR", "IGNORE", "DELETE"}, Argument: "prefix_mismatch_mode",
			Note: "what happens to files that differ from the metadata in scheme or bucket only",
		},
		{Name: "equal-schemes", Kind: KindPairs, Argument: "equal_schemes", Note: "schemes that are the same; s3a and s3n are s3 always"},
		{Name: "equal-authorities", Kind: KindPairs, Argument: "equal_authorities", Note: "buckets that are the same"},
	})
}
