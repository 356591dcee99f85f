package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"firn/internal/maintenance"
)

// PartitionCounters is what the ledger knows of one partition.
type PartitionCounters struct {
	SpecID    int    `json:"spec_id"`
	Partition string `json:"partition"`
	// DataFiles and DataBytes count live data files; SmallFiles and SmallBytes those under 75 % of the target size.
	DataFiles int64 `json:"data_files"`
	DataBytes int64 `json:"data_bytes"`
	// DataRows sums their records, before deletes.
	DataRows   int64 `json:"data_rows"`
	SmallFiles int64 `json:"small_files"`
	SmallBytes int64 `json:"small_bytes"`
	// PositionDeleteFiles, EqualityDeleteFiles and DeletionVectors count live delete files; DeletedRows sums the position deletes' records.
	PositionDeleteFiles int64 `json:"position_delete_files"`
	EqualityDeleteFiles int64 `json:"equality_delete_files"`
	DeletionVectors     int64 `json:"deletion_vectors"`
	DeletedRows         int64 `json:"deleted_rows"`
	// UnclusteredBytes sums live data files that do not say that they are in the table's sort order; 0 in tables without one.
	UnclusteredBytes int64 `json:"unclustered_bytes"`
	// LastWriteMS is the time of the last snapshot that touched the partition, in milliseconds since the epoch.
	LastWriteMS int64 `json:"last_write_ms"`
}

// Counters are counters of partitions. They are stored as rows without names, since a hot table has 100,000 partitions.
type Counters []PartitionCounters

// Digests are those of all shards, by number; stored as rows like Counters.
type Digests []Digest

// row is the stored order of a partition's counters: spec, then figures. New figures go to the end.
func (p *PartitionCounters) row() []*int64 {
	return []*int64{
		&p.DataFiles, &p.DataBytes, &p.DataRows, &p.SmallFiles, &p.SmallBytes, &p.PositionDeleteFiles, &p.EqualityDeleteFiles, &p.DeletionVectors,
		&p.DeletedRows, &p.LastWriteMS, &p.UnclusteredBytes,
	}
}

// figures are the values of a row, without the zeros at its end.
func (p PartitionCounters) figures() []int64 {
	var out []int64
	last := 0
	for i, v := range p.row() {
		out = append(out, *v)
		if *v != 0 {
			last = i + 1
		}
	}
	return out[:last]
}

func (p *PartitionCounters) setFigures(values []int64) error {
	row := p.row()
	if len(values) > len(row) {
		return fmt.Errorf("counters of partition %q have %d figures, this code knows %d", p.Partition, len(values), len(row))
	}
	for i, v := range values {
		*row[i] = v
	}
	return nil
}

// MarshalJSON writes three columns: partition, spec ID, figures.
func (c Counters) MarshalJSON() ([]byte, error) {
	packed := packedCounters{}
	for _, p := range c {
		packed.Partitions = append(packed.Partitions, p.Partition)
		packed.SpecIDs = append(packed.SpecIDs, p.SpecID)
		packed.Figures = append(packed.Figures, p.figures())
	}
	return json.Marshal(packed)
}

type packedCounters struct {
	Partitions []string  `json:"p"`
	SpecIDs    []int     `json:"s"`
	Figures    [][]int64 `json:"f"`
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (c *Counters) UnmarshalJSON(data []byte) error {
	var packed packedCounters
	if err := json.Unmarshal(data, &packed); err != nil {
		return err
	}
	if len(packed.Partitions) != len(packed.SpecIDs) || len(packed.Partitions) != len(packed.Figures) {
		return errors.New("counters have columns of different lengths")
	}
	out := make(Counters, len(packed.Partitions))
	for i := range out {
		out[i].Partition, out[i].SpecID = packed.Partitions[i], packed.SpecIDs[i]
		if err := out[i].setFigures(packed.Figures[i]); err != nil {
			return err
		}
	}
	*c = out
	return nil
}

// packedDigest is a digest's row: version, partitions, sums, worst.
type packedDigest struct {
	Digest
	Sum   []int64 `json:"s"`
	Worst []int64 `json:"w"`
}

// MarshalJSON writes a row a digest.
func (d Digests) MarshalJSON() ([]byte, error) {
	rows := make([]packedDigest, len(d))
	for i, one := range d {
		rows[i] = packedDigest{one, one.Sum.figures(), one.Worst.figures()}
	}
	return json.Marshal(rows)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (d *Digests) UnmarshalJSON(data []byte) error {
	var rows []packedDigest
	if err := json.Unmarshal(data, &rows); err != nil {
		return err
	}
	out := make(Digests, len(rows))
	for i, r := range rows {
		out[i] = r.Digest
		if err := errors.Join(out[i].Sum.setFigures(r.Sum), out[i].Worst.setFigures(r.Worst)); err != nil {
			return err
		}
	}
	*d = out
	return nil
}

// Add adds the figures of o, LastWriteMS excepted, which becomes the later one.
func (p *PartitionCounters) Add(o PartitionCounters) {
	mine, last := p.row(), max(p.LastWriteMS, o.LastWriteMS)
	for i, v := range o.row() {
		*mine[i] += *v
	}
	p.LastWriteMS = last
}

// Empty reports whether no file is left.
func (p PartitionCounters) Empty() bool {
	return p.DataFiles == 0 && p.PositionDeleteFiles == 0 && p.EqualityDeleteFiles == 0 && p.DeletionVectors == 0
}

// DigestOf sums up a shard.
func DigestOf(s Shard) Digest {
	d := Digest{Version: s.Version, Partitions: len(s.Partitions)}
	for _, p := range s.Partitions {
		d.Sum.Add(p)
		w := &d.Worst
		if p.DataFiles > 0 {
			w.PositionDeleteFiles = max(w.PositionDeleteFiles, p.PositionDeleteFiles+p.EqualityDeleteFiles)
		}
		w.DataFiles, w.DataBytes = max(w.DataFiles, p.DataFiles), max(w.DataBytes, p.DataBytes)
		w.SmallFiles, w.SmallBytes = max(w.SmallFiles, p.SmallFiles), max(w.SmallBytes, p.SmallBytes)
		w.EqualityDeleteFiles = max(w.EqualityDeleteFiles, p.EqualityDeleteFiles)
		w.UnclusteredBytes, w.LastWriteMS = max(w.UnclusteredBytes, p.UnclusteredBytes), max(w.LastWriteMS, p.LastWriteMS)
		if w.DataRows == 0 || p.DataRows > 0 && float64(p.DeletedRows)/float64(p.DataRows) > float64(w.DeletedRows)/float64(w.DataRows) {
			w.DeletedRows, w.DataRows = p.DeletedRows, p.DataRows
		}
	}
	return d
}

// JobState is what is known of a job's last run.
type JobState struct {
	// LastRunMS is when it ended, in milliseconds since the epoch.
	LastRunMS int64 `json:"last_run_ms"`
	// LastOutcome is how it ended.
	LastOutcome maintenance.Outcome `json:"last_outcome"`
	// LastAgedMS is when the last run of rewrite_data_files ended that took small files by their age, or that a person asked for.
	LastAgedMS int64 `json:"last_aged_ms,omitempty"`
	// WaitingUntilMS is the end of the grace period of an expiry whose files a later run deletes, 0 when none wait.
	WaitingUntilMS int64 `json:"waiting_until_ms,omitempty"`
	// Left is the least that a look has found of the job's main counter since then, nil before the first look: what maintenance could not lower.
	Left *int64 `json:"left,omitempty"`
	// LeftEquality is the same of the table's equality delete files.
	LeftEquality *int64 `json:"left_equality,omitempty"`
}

// Spending is what automatic runs cost and when they were, for the bounds on both.
type Spending struct {
	// Month is a calendar month in UTC ("2026-11"), Micros what runs cost in it, in millionths of a dollar by the cost model.
	Month  string `json:"month,omitempty"`
	Micros int64  `json:"micros,omitempty"`
	// Runs are the ends of automatic runs of the last 24 hours, in milliseconds since the epoch.
	Runs []int64 `json:"runs,omitempty"`
	// LastRunID is the last run that was counted: a repeated report counts once.
	LastRunID maintenance.RunID `json:"last_run_id,omitempty"`
}

// Digest is what the head item knows of one shard, so that a decision reads the shards that changed and no others.
type Digest struct {
	// Version is the shard item's version that the digest is of. A shard of another version was folded further by a look that did not end.
	Version int64 `json:"v"`
	// Partitions counts the shard's partitions. Sum adds them up.
	Partitions int               `json:"n"`
	Sum        PartitionCounters `json:"-"`
	// Worst holds the largest value of each counter over the shard's partitions. PositionDeleteFiles is the largest number of delete files of both kinds
	// beside data files; DeletedRows and DataRows are of the partition with the highest deleted share.
	Worst PartitionCounters `json:"-"`
}

// Head is the ledger's head item of a table: it moves last, after all shards.
type Head struct {
	Table maintenance.TableID `json:"table"`
	// TableUUID guards against a table that was dropped and made again.
	TableUUID string `json:"table_uuid"`
	// SnapshotID and SequenceNumber are the last snapshot folded in.
	SnapshotID     int64 `json:"snapshot_id"`
	SequenceNumber int64 `json:"sequence_number"`
	// Commits counts other writers' commits since the last run.
	Commits int64 `json:"commits"`
	// Snapshots, Manifests and MetadataFiles are head's counts.
	Snapshots      int64 `json:"snapshots"`
	Manifests      int64 `json:"manifests"`
	SmallManifests int64 `json:"small_manifests"`
	MetadataFiles  int64 `json:"metadata_files"`
	// OldestSnapshotMS is the time of the oldest snapshot, 0 when references have retention of their own.
	OldestSnapshotMS int64 `json:"oldest_snapshot_ms,omitempty"`
	// Jobs holds what is known of each job's last run.
	Jobs map[maintenance.Job]JobState `json:"jobs,omitempty"`
	// Generation numbers the set of shards that the head belongs to, ShardCount their number; 0 means that the counters are few enough to live in
	// Partitions. A full scan and a change of the number of shards write a new generation, which counts when the head has moved to it.
	Generation int      `json:"generation,omitempty"`
	ShardCount int      `json:"shard_count,omitempty"`
	Partitions Counters `json:"partitions,omitempty"`
	Digests    Digests  `json:"digests,omitempty"`
	// Basis is what the counters depend on beside the files: target size and sort order. When it changes the table is scanned.
	Basis string `json:"basis,omitempty"`
	// LastWriteMS is the time of the last commit of another writer, ReconciledMS that of the last full scan.
	LastWriteMS  int64 `json:"last_write_ms,omitempty"`
	ReconciledMS int64 `json:"reconciled_ms,omitempty"`
	// FirstSeenMS is when the table was first looked at.
	FirstSeenMS int64 `json:"first_seen_ms"`
	// NeedsScan says that the counters cannot be trusted: the next run scans the table.
	NeedsScan bool `json:"needs_scan,omitempty"`
	// TotalsWrong says that a scan disagreed with the totals of the table's own summary: they prove nothing until the next scan.
	TotalsWrong bool `json:"totals_wrong,omitempty"`
	// Spending bounds automatic runs. Decision is the last one, kept whole.
	Spending Spending  `json:"spending,omitzero"`
	Decision *Decision `json:"decision,omitempty"`
	// NextLookMS is when a trigger that goes by the clock may become due, 0 when none does.
	NextLookMS int64 `json:"next_look_ms,omitempty"`
	// LookedAtMS is when the last look that got to its end began.
	LookedAtMS int64 `json:"looked_at_ms"`
	// Version is the item's version for conditional writes; 0 means that it does not exist.
	Version int64 `json:"version"`
}

// Shard is a part of a table's partition counters.
type Shard struct {
	// Generation is the set of shards that it belongs to.
	Generation int `json:"generation"`
	// Number is the shard, a hash of the partition.
	Number int `json:"number"`
	// FoldedTo is the snapshot that this shard has folded to: folding is conditional on it and idempotent.
	FoldedTo int64 `json:"folded_to"`
	// Partitions are the counters by PartitionCounters.SpecID and Partition.
	Partitions Counters `json:"partitions"`
	// Version is the item's version for conditional writes; 0 means that it does not exist.
	Version int64 `json:"version"`
}

// Ledgers stores heads and shards.
type Ledgers interface {
	// LoadHead returns the head item, the zero Head (Version 0) when there is none.
	LoadHead(ctx context.Context, table maintenance.TableID) (Head, error)
	// SaveHead writes head if the stored version is head.Version, and returns it with the next version. ErrConditionFailed.
	SaveHead(ctx context.Context, head Head) (Head, error)
	// LoadShards returns all shards of the generation that the head is at. Counters that live in the head are one shard.
	LoadShards(ctx context.Context, table maintenance.TableID) ([]Shard, error)
	// LoadShard returns one shard, one with Version 0 when there is none.
	LoadShard(ctx context.Context, table maintenance.TableID, generation, number int) (Shard, error)
	// DropShards forgets all shards but those of a generation.
	DropShards(ctx context.Context, table maintenance.TableID, keep int) error
	// SaveShard writes a shard if the stored version is shard.Version. ErrConditionFailed.
	SaveShard(ctx context.Context, table maintenance.TableID, shard Shard) (Shard, error)
	// DropTable forgets heads and shards of a table.
	DropTable(ctx context.Context, table maintenance.TableID) error
	// Tables returns the tables that have a head, from a cursor on (schedule walks them); next is "" at the end.
	Tables(ctx context.Context, cursor string, limit int) (tables []maintenance.TableID, next string, err error)
}
