package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/iceberg-go/table"

	"firn/internal/lake"
	"firn/internal/lake/committer"
	"firn/internal/lake/peek"
	"firn/internal/store"
)

// strayRef is a ref to an expired snapshot that the expiry did not know.
type strayRef struct {
	name     string
	ref      table.SnapshotRef
	snapshot table.Snapshot
}

// maxLogFiles bounds how far back the metadata log is read for the file that an expiry replaced.
const maxLogFiles = 50

// unknownRefs finds refs to expired snapshots that somebody made between our look and our commit. Where the catalog compares the pointer (SQL,
// Glue) there can be none: what was replaced is what we saw. A service checks only the refs that it is told, so the metadata that it replaced is
// read. The text says why nothing may be deleted, "" when all is well.
func (e *expirer) unknownRefs(ctx context.Context, after *lake.Table, f fate) ([]strayRef, string, error) {
	if f.AssertedPointer != "" || len(f.detail.Expired.SnapshotIDs) == 0 {
		return nil, "", nil
	}
	replaced, err := e.replaced(ctx, after, f.detail.Expired.SnapshotIDs)
	if err != nil {
		if errors.Is(err, store.ErrTransient) || ctx.Err() != nil {
			return nil, "", err
		}
		return nil, fmt.Sprintf("nothing is deleted: the metadata file that the expiry replaced cannot be read: %v", err), nil
	}
	var stray []strayRef
	for name, ref := range replaced.Refs() {
		known, ok := f.detail.Refs[name]
		if ok && known == ref.SnapshotID || !slices.Contains(f.detail.Expired.SnapshotIDs, ref.SnapshotID) {
			continue
		}
		if snap := replaced.SnapshotByID(ref.SnapshotID); snap != nil {
			stray = append(stray, strayRef{name, ref, *snap})
		}
	}
	if len(stray) == 0 {
		return nil, "", nil
	}
	names := make([]string, len(stray))
	for i, s := range stray {
		names[i] = s.name
	}
	slices.Sort(names)
	return stray, "nothing is deleted: refs were made to expired snapshots meanwhile: " + strings.Join(names, ", "), nil
}

// replaced finds the metadata that the expiry replaced: the newest file of the log that still has one of the expired snapshots.
func (e *expirer) replaced(ctx context.Context, after *lake.Table, ids []int64) (table.Metadata, error) {
	log := slices.Collect(after.Metadata.PreviousFiles())
	for i, entry := range slices.Backward(log) {
		if len(log)-i > maxLogFiles {
			break
		}
		data, err := peek.ReadMetadataFile(ctx, e.port.Store, entry.MetadataFile)
		if err != nil {
			return nil, err
		}
		meta, err := lake.ParseMetadata(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry.MetadataFile, err)
		}
		if slices.ContainsFunc(ids, func(id int64) bool { return meta.SnapshotByID(id) != nil }) {
			return meta, nil
		}
	}
	return nil, errors.New("it is not among the last files of the metadata log")
}

// restore tries to add snapshots and refs again and says how that went. Services refuse old sequence numbers, so that it may be impossible.
func (e *expirer) restore(ctx context.Context, after *lake.Table, stray []strayRef) string {
	change := committer.Change{Requirements: []table.Requirement{table.AssertTableUUID(after.Metadata.TableUUID())}}
	added := map[int64]bool{}
	for _, s := range stray {
		if !added[s.snapshot.SnapshotID] {
			added[s.snapshot.SnapshotID] = true
			change.Updates = append(change.Updates, table.NewAddSnapshotUpdate(&s.snapshot))
		}
		change.Requirements = append(change.Requirements, table.AssertRefSnapshotID(s.name, nil))
		change.Updates = append(change.Updates, table.NewSetSnapshotRefUpdate(s.name, s.ref.SnapshotID, s.ref.SnapshotRefType,
			value(s.ref.MaxRefAgeMs), value(s.ref.MaxSnapshotAgeMs), value(s.ref.MinSnapshotsToKeep)))
	}
	if _, err := e.port.Committer.Commit(ctx, after, change); err != nil {
		return fmt.Sprintf("they could not be added again: %v", err)
	}
	return "they were added again"
}

func value[T int | int64](p *T) T {
	if p == nil {
		return 0
	}
	return *p
}

// cleanMetadata removes partition specs that no manifest of a kept snapshot uses and schemas that no kept snapshot has, the current ones aside.
// A schema that holds a source column of a kept spec stays, although Java drops it: without it the spec's partition values lose their types.
func (e *expirer) cleanMetadata(ctx context.Context, head *lake.Table, expired []int64) ([]table.Update, error) {
	meta := head.Metadata
	specs, schemas := map[int]bool{meta.DefaultPartitionSpec(): true}, map[int]bool{meta.CurrentSchema().ID: true}
	for _, snap := range meta.Snapshots() {
		if slices.Contains(expired, snap.SnapshotID) {
			continue
		}
		if snap.SchemaID != nil {
			schemas[*snap.SchemaID] = true
		}
		manifests, err := lake.Manifests(ctx, e.port.Store, &snap)
		if err != nil {
			return nil, fmt.Errorf("find used partition specs: %w", err)
		}
		for _, m := range manifests {
			specs[int(m.PartitionSpecID())] = true
		}
	}
	var updates []table.Update
	var unused []int
	for _, spec := range meta.PartitionSpecs() {
		if !specs[spec.ID()] {
			unused = append(unused, spec.ID())
			continue
		}
		if schema, err := head.SpecSchema(spec); err == nil {
			schemas[schema.ID] = true
		}
	}
	if len(unused) > 0 {
		updates = append(updates, table.NewRemoveSpecUpdate(unused))
	}
	unused = nil
	for _, schema := range meta.Schemas() {
		if !schemas[schema.ID] {
			unused = append(unused, schema.ID)
		}
	}
	if len(unused) > 0 {
		updates = append(updates, table.NewRemoveSchemasUpdate(unused))
	}
	return updates, nil
}
