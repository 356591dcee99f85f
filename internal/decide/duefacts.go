package decide

import (
	"firn/internal/maintenance"
	"firn/internal/policy/when"
)

// PartitionFacts is what the ledger knows of one partition.
type PartitionFacts struct {
	// Name tells it from others; Title is for messages, Name where it is empty.
	Name, Title string
	DataFiles   int64
	SmallFiles  int64
	// PositionDeleteFiles and EqualityDeleteFiles are live; deletion vectors are not counted here, a data file has one at most.
	PositionDeleteFiles int64
	EqualityDeleteFiles int64
	// DeletedRows and Rows give the deleted share; Rows 0 means that it is not known.
	DeletedRows int64
	Rows        int64
	// LastWriteMS is the time of the last snapshot that touched the partition.
	LastWriteMS int64
	// DataBytes and SmallBytes are of all data files, and of small ones.
	DataBytes, SmallBytes int64
	// Digest says that the figures are the largest of several partitions: they may belong to different ones.
	Digest bool
}

// Add adds the figures of another partition: totals have no name and no time.
func (p *PartitionFacts) Add(o PartitionFacts) {
	p.DataFiles, p.SmallFiles = p.DataFiles+o.DataFiles, p.SmallFiles+o.SmallFiles
	p.DataBytes, p.SmallBytes = p.DataBytes+o.DataBytes, p.SmallBytes+o.SmallBytes
	p.PositionDeleteFiles, p.EqualityDeleteFiles = p.PositionDeleteFiles+o.PositionDeleteFiles, p.EqualityDeleteFiles+o.EqualityDeleteFiles
	p.DeletedRows, p.Rows = p.DeletedRows+o.DeletedRows, p.Rows+o.Rows
}

// JobFacts is what is known of a job's runs on the table.
type JobFacts struct {
	// LastRunMS is when the last run ended, 0 when there was none.
	LastRunMS int64
	// LastOutcome is how it ended.
	LastOutcome maintenance.Outcome
	// LastAgedMS is when the last run ended that took small files by their age (JobDue.Aged), 0 when there was none.
	LastAgedMS int64
	// WaitingUntilMS is from when on files that an expiry let go of may be deleted, 0 when none wait.
	WaitingUntilMS int64
	// Left is the least that was found of the job's main counter since then (rewrite_data_files: small files of the worst partition;
	// rewrite_position_delete_files: position delete files; rewrite_manifests: small manifests); nil when it is not known.
	Left *int64
	// LeftEquality is the least that was found of the table's equality delete files since then; nil when it is not known.
	LeftEquality *int64
}

// DueInput is everything that Due looks at. Times are milliseconds since the epoch.
type DueInput struct {
	NowMS      int64
	Partitions []PartitionFacts
	// Commits counts commits of other writers since the last run; commits of ours are never counted.
	Commits int64
	// Snapshots and SmallManifests are counts of the head. DanglingDeleteFiles are position delete files and vectors that apply to no data file, where a
	// full scan counted them.
	Snapshots           int64
	SmallManifests      int64
	DanglingDeleteFiles int64
	// FirstSeenMS is when the table was first looked at: ages are measured from it before the first run. 0 is unknown.
	FirstSeenMS int64
	Jobs        map[maintenance.Job]JobFacts
	// RunsToday counts automatic runs of the last 24 hours; LastRunMS is when the last one ended, 0 for none.
	RunsToday int64
	LastRunMS int64
	// LastCommitMS is the time of the last commit of another writer, 0 when it is not known.
	LastCommitMS int64
	// OldestSnapshotMS is the time of the oldest snapshot; 0 when it is not known, or when references have retention of their own, which the triggers do not
	// look into.
	OldestSnapshotMS int64
	// Manifests and MetadataFiles are counts of the head.
	Manifests, MetadataFiles int64
	// Total adds up all partitions; UnclusteredBytes are of files that are not in the table's sort order.
	Total            PartitionFacts
	UnclusteredBytes int64
	// SpentMicros is what automatic runs have cost in this calendar month, in millionths of a dollar.
	SpentMicros int64
}

// facts are the figures of a condition for one partition.
func (in *DueInput) facts(job maintenance.Job, p PartitionFacts) when.Facts {
	since := in.Jobs[job].LastRunMS
	if since == 0 {
		since = in.FirstSeenMS
	}
	ratio := 0.0
	if p.Rows > 0 {
		ratio = float64(p.DeletedRows) / float64(p.Rows)
	}
	values := map[string]int64{
		"commits": in.Commits, "small-files": p.SmallFiles, "table-small-files": in.Total.SmallFiles, "small-bytes": p.SmallBytes,
		"table-small-bytes": in.Total.SmallBytes, "data-files": p.DataFiles, "table-data-files": in.Total.DataFiles,
		"delete-files":       p.PositionDeleteFiles + p.EqualityDeleteFiles,
		"table-delete-files": in.Total.PositionDeleteFiles + in.Total.EqualityDeleteFiles, "deleted-rows": in.Total.DeletedRows,
		"equality-delete-files": in.Total.EqualityDeleteFiles, "position-delete-files": in.Total.PositionDeleteFiles, "manifests": in.Manifests,
		"small-manifests": in.SmallManifests, "snapshots": in.Snapshots, "metadata-files": in.MetadataFiles, "unclustered-bytes": in.UnclusteredBytes,
		"since-last-run": in.NowMS - since, "since-last-commit": in.NowMS - in.LastCommitMS,
	}
	f := when.Facts{Values: map[string]float64{"deleted-ratio": ratio}, SinceMS: since, NowMS: in.NowMS}
	for name, v := range values {
		f.Values[name] = float64(v)
	}
	return f
}

// worst is the largest number of small files of one partition.
func (in *DueInput) worst() int64 {
	most := int64(0)
	for _, p := range in.Partitions {
		most = max(most, p.SmallFiles)
	}
	return most
}

// Seen is a job's facts with the least that was found of its counters, this look included.
func (in *DueInput) Seen(job maintenance.Job, f JobFacts) JobFacts {
	lower := func(least *int64, now int64) *int64 {
		if least != nil && *least <= now {
			return least
		}
		return &now
	}
	f.Left, f.LeftEquality = lower(f.Left, in.Counter(job)), lower(f.LeftEquality, in.EqualityDeleteFiles())
	return f
}

// Counter is a job's main counter, of which JobFacts.Left is the least; 0 for jobs that go by the clock.
func (in *DueInput) Counter(job maintenance.Job) int64 {
	switch job {
	case maintenance.RewriteDataFiles:
		return in.worst()
	case maintenance.RewritePositionDeleteFiles:
		return in.positionDeleteFiles()
	case maintenance.RewriteManifests:
		return in.SmallManifests
	}
	return 0
}

// EqualityDeleteFiles counts those of the table.
func (in *DueInput) EqualityDeleteFiles() int64 {
	return in.ofTable(func(p PartitionFacts) int64 { return p.EqualityDeleteFiles })
}

// positionDeleteFiles counts those of the table.
func (in *DueInput) positionDeleteFiles() int64 {
	return in.ofTable(func(p PartitionFacts) int64 { return p.PositionDeleteFiles })
}

// ofTable is a figure of the total, or the sum over the partitions where nobody added them up.
func (in *DueInput) ofTable(figure func(PartitionFacts) int64) int64 {
	if total := figure(in.Total); total > 0 {
		return total
	}
	var sum int64
	for _, p := range in.Partitions {
		sum += figure(p)
	}
	return sum
}
