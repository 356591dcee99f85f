package inspect

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"firn/internal/decide"
	"firn/internal/maintenance"
	"firn/internal/policy"
)

// topPartitions bounds the list of partitions with most small files.
const topPartitions = 10

// Health is a table's state in figures. Times are RFC 3339 in UTC.
type Health struct {
	Table            string      `json:"table"`
	UUID             string      `json:"table_uuid"`
	Location         string      `json:"location"`
	FormatVersion    int         `json:"format_version"`
	LookedAt         string      `json:"looked_at"`
	MetadataLocation string      `json:"metadata_location"`
	MetadataFiles    int         `json:"metadata_files"`
	Snapshots        Snapshots   `json:"snapshots"`
	Refs             []string    `json:"refs"`
	TargetBytes      int64       `json:"target_file_size_bytes"`
	DataFiles        Files       `json:"data_files"`
	DeleteFiles      Deletes     `json:"delete_files"`
	Manifests        Manifests   `json:"manifests"`
	Partitions       int         `json:"partitions"`
	TopPartitions    []Partition `json:"top_partitions"`
	// Clustering is nil for a table without a sort order.
	Clustering *Clustering `json:"clustering,omitempty"`
	// Storage is nil where nobody looked.
	Storage *Storage `json:"storage,omitempty"`
	// Faults are contradictions in the metadata.
	Faults []string `json:"faults,omitempty"`
	// Mode is what automatic runs may do, AsksFor the jobs that the symptoms ask for, Due the decision about each job.
	Mode    policy.Mode `json:"mode"`
	AsksFor []string    `json:"asks_for"`
	Due     []Due       `json:"due"`

	// name is the table's without the catalog.
	name string
}

// Snapshots describes the snapshots.
type Snapshots struct {
	Count     int    `json:"count"`
	CurrentID *int64 `json:"current_snapshot_id"`
	OldestAt  string `json:"oldest_at,omitempty"`
	NewestAt  string `json:"newest_at,omitempty"`
	// OldestAge is in words, by the time of the look.
	OldestAge string `json:"oldest_age,omitempty"`
	NewestAge string `json:"newest_age,omitempty"`
}

// Manifests describes the manifests of the current snapshot.
type Manifests struct {
	Count  int64 `json:"count"`
	Data   int64 `json:"data"`
	Delete int64 `json:"delete"`
	Bytes  int64 `json:"bytes"`
	// Small are under half of the target size.
	Small       int64 `json:"small"`
	TargetBytes int64 `json:"target_size_bytes"`
}

// Due is the decision about one job.
type Due struct {
	Job    string `json:"job"`
	Due    bool   `json:"due"`
	Reason string `json:"reason"`
	// Call is the statement that does it, where no run does by itself.
	Call string `json:"call,omitempty"`

	// minInputFiles and aged are the decision's terms for the run (decide.JobDue).
	minInputFiles int64
	aged          bool
}

// History is what is known of earlier runs on the table; the zero value is "nothing".
type History struct {
	Jobs map[maintenance.Job]decide.JobFacts
	// RunsToday, LastRunMS and SpentMicros (of this calendar month, by the cost model) are of automatic runs.
	RunsToday, LastRunMS, SpentMicros int64
}

// Health surveys the table and decides what it asks for.
func (v *View) Health(ctx context.Context, p policy.Policy, past History) (Health, error) {
	s, err := v.survey(ctx)
	if err != nil {
		return Health{}, err
	}
	meta := v.Table.Metadata
	h := Health{
		Table: v.Table.ID.String(), UUID: meta.TableUUID().String(), Location: meta.Location(), FormatVersion: meta.Version(),
		LookedAt: stamp(v.now.UnixMilli()), MetadataLocation: v.Table.Pointer.MetadataLocation, MetadataFiles: 1, TargetBytes: v.Target(),
		DataFiles: s.files, DeleteFiles: s.deletes, Manifests: v.manifestCounts(), Partitions: len(s.partitions),
		TopPartitions: s.partitions[:min(topPartitions, len(s.partitions))], Faults: s.faults, Mode: p.Mode(), Snapshots: v.snapshotCounts(),
		AsksFor: []string{}, Refs: []string{}, Clustering: s.clusters.worst(),
		name: v.Table.ID.Namespace.String() + "." + v.Table.ID.Name,
	}
	for range meta.PreviousFiles() {
		h.MetadataFiles++
	}
	for name, ref := range meta.Refs() {
		h.Refs = append(h.Refs, strings.ToLower(string(ref.SnapshotRefType))+" "+name)
	}
	slices.Sort(h.Refs)
	for _, d := range decide.Due(v.dueInput(s, h.Manifests, past), p) {
		h.Due = append(h.Due, Due{Job: string(d.Job), Due: d.Due, Reason: d.Reason, minInputFiles: d.MinInputFiles, aged: d.Aged})
		if d.Due {
			h.AsksFor = append(h.AsksFor, string(d.Job))
		}
	}
	h.askForSort()
	return h, nil
}

// Requests are what an automatic run would be asked for now, job by job in chain order.
func (h *Health) Requests(p policy.Policy) []maintenance.JobRequest {
	var requests []maintenance.JobRequest
	for _, d := range h.Due {
		if d.Due && d.Call == "" {
			requests = append(requests, p.DueRequest(maintenance.Job(d.Job), d.minInputFiles, d.aged))
		}
	}
	return requests
}

func (v *View) manifestCounts() Manifests {
	m := Manifests{TargetBytes: v.manifestTarget()}
	for _, f := range v.manifests {
		m.Count++
		m.Bytes += f.Length()
		if f.ManifestContent() == iceberg.ManifestContentDeletes {
			m.Delete++
		} else {
			m.Data++
		}
		if f.Length() < m.TargetBytes/2 {
			m.Small++
		}
	}
	return m
}

func (v *View) snapshotCounts() Snapshots {
	all := v.Table.Metadata.Snapshots()
	s := Snapshots{Count: len(all)}
	if current := v.Table.Metadata.CurrentSnapshot(); current != nil {
		s.CurrentID = &current.SnapshotID
	}
	if len(all) == 0 {
		return s
	}
	oldest, newest := all[0].TimestampMs, all[0].TimestampMs
	for _, snap := range all {
		oldest, newest = min(oldest, snap.TimestampMs), max(newest, snap.TimestampMs)
	}
	s.OldestAt, s.NewestAt = stamp(oldest), stamp(newest)
	s.OldestAge, s.NewestAge = v.age(oldest), v.age(newest)
	return s
}

func (v *View) age(ms int64) string {
	return policy.RoundAge(v.now.Sub(time.UnixMilli(ms)))
}

// dueInput describes the table to the triggers in the way the ledger does.
func (v *View) dueInput(s survey, m Manifests, past History) decide.DueInput {
	in := decide.DueInput{
		NowMS: v.now.UnixMilli(), Commits: v.foreignCommits(past), Snapshots: int64(len(v.Table.Metadata.Snapshots())), SmallManifests: m.Small,
		DanglingDeleteFiles: s.deletes.DanglingPositions, RunsToday: past.RunsToday, Jobs: past.Jobs, Manifests: m.Count, LastRunMS: past.LastRunMS,
		SpentMicros: past.SpentMicros, LastCommitMS: v.lastForeignCommit(), OldestSnapshotMS: v.oldest(), MetadataFiles: 1,
	}
	for range v.Table.Metadata.PreviousFiles() {
		in.MetadataFiles++
	}
	in.UnclusteredBytes = s.unclusteredBytes
	for _, p := range s.partitions {
		in.Partitions = append(in.Partitions, p.facts())
		in.Total.Add(p.facts())
	}
	return in
}

// facts are the counters of the partition as the ledger has them.
func (p Partition) facts() decide.PartitionFacts {
	return decide.PartitionFacts{
		Name: p.Name, DataFiles: p.DataFiles, SmallFiles: p.SmallFiles, PositionDeleteFiles: p.PositionDeleteFiles, EqualityDeleteFiles: p.EqualityDeleteFiles,
		DeletedRows: p.PositionRecords, Rows: p.Records, LastWriteMS: p.LastWriteMS, DataBytes: p.DataBytes, SmallBytes: p.smallBytes,
	}
}

// lastForeignCommit is the time of the last snapshot that is no rewrite, 0 when there is none.
func (v *View) lastForeignCommit() int64 {
	last := int64(0)
	for _, snap := range v.Table.Metadata.Snapshots() {
		if snap.Summary != nil && snap.Summary.Operation != table.OpReplace {
			last = max(last, snap.TimestampMs)
		}
	}
	return last
}

// oldest is the time of the oldest snapshot; 0 when there is none, or when a reference has an age of its own by which it or its snapshots expire.
func (v *View) oldest() int64 {
	for _, ref := range v.Table.Metadata.Refs() {
		if ref.MaxSnapshotAgeMs != nil || ref.MaxRefAgeMs != nil {
			return 0
		}
	}
	first := int64(0)
	for _, snap := range v.Table.Metadata.Snapshots() {
		if first == 0 || snap.TimestampMs < first {
			first = snap.TimestampMs
		}
	}
	return first
}

// foreignCommits counts snapshots since the last run that are no rewrite and not ours.
func (v *View) foreignCommits(past History) int64 {
	last := int64(0)
	for facts := range maps.Values(past.Jobs) {
		last = max(last, facts.LastRunMS)
	}
	n := int64(0)
	for _, snap := range v.Table.Metadata.Snapshots() {
		if snap.TimestampMs > last && snap.Summary != nil && snap.Summary.Operation != table.OpReplace {
			n++
		}
	}
	return n
}

// stamp spells a time.
func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00") }
