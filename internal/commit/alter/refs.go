package alter

import (
	"fmt"

	"github.com/apache/iceberg-go/table"

	"firn/internal/lake"
)

// Ref is CREATE or REPLACE BRANCH or TAG.
type Ref struct {
	Name string
	Tag  bool
	// Create without Replace makes a new ref, Replace without Create moves one; IfNotExists leaves one that is there.
	Create, Replace, IfNotExists bool
	// SnapshotID is where it goes, nil for the current snapshot.
	SnapshotID *int64
	// The retention; nil keeps what a replaced ref has.
	MaxRefAgeMS, MaxSnapshotAgeMS, MinSnapshotsToKeep *int64
}

func (r Ref) change(head *lake.Table) ([]table.Requirement, []table.Update, error) {
	old, exists := find(head, r.Name)
	kind := refType(r.Tag)
	switch {
	case exists && r.Create && !r.Replace && r.IfNotExists:
		return nil, nil, nil
	case exists && !r.Replace:
		return nil, nil, fmt.Errorf("create %s %s: it exists already", kind, r.Name)
	case !exists && !r.Create:
		return nil, nil, fmt.Errorf("replace %s %s: there is none", kind, r.Name)
	case r.Name == table.MainBranch:
		return nil, nil, fmt.Errorf("replace branch main: %w", errMain)
	case exists && old.SnapshotRefType != kind:
		return nil, nil, fmt.Errorf("replace %s %s: it is a %s", kind, r.Name, old.SnapshotRefType)
	}
	snapshot := r.SnapshotID
	if current := head.Metadata.CurrentSnapshot(); snapshot == nil && current != nil {
		snapshot = &current.SnapshotID
	}
	switch {
	case snapshot == nil:
		return nil, nil, fmt.Errorf("set %s %s: the table has no snapshot", kind, r.Name)
	case head.Metadata.SnapshotByID(*snapshot) == nil:
		return nil, nil, fmt.Errorf("set %s %s: the table has no snapshot %d", kind, r.Name, *snapshot)
	}
	minSnapshots := int64(0)
	if old.MinSnapshotsToKeep != nil {
		minSnapshots = int64(*old.MinSnapshotsToKeep)
	}
	update := table.NewSetSnapshotRefUpdate(r.Name, *snapshot, kind, given(r.MaxRefAgeMS, old.MaxRefAgeMs), given(r.MaxSnapshotAgeMS, old.MaxSnapshotAgeMs),
		int(given(r.MinSnapshotsToKeep, &minSnapshots)))
	return []table.Requirement{unmoved(r.Name, old, exists)}, []table.Update{update}, nil
}

// DropRef is DROP BRANCH or TAG.
type DropRef struct {
	Name     string
	Tag      bool
	IfExists bool
}

func (r DropRef) change(head *lake.Table) ([]table.Requirement, []table.Update, error) {
	old, exists := find(head, r.Name)
	kind := refType(r.Tag)
	switch {
	case !exists && r.IfExists:
		return nil, nil, nil
	case !exists:
		return nil, nil, fmt.Errorf("drop %s %s: there is none (say IF EXISTS to tolerate that)", kind, r.Name)
	case r.Name == table.MainBranch:
		return nil, nil, fmt.Errorf("drop branch main: %w", errMain)
	case old.SnapshotRefType != kind:
		return nil, nil, fmt.Errorf("drop %s %s: it is a %s", kind, r.Name, old.SnapshotRefType)
	}
	return []table.Requirement{unmoved(r.Name, old, true)}, []table.Update{table.NewRemoveSnapshotRefUpdate(r.Name)}, nil
}

func refType(tag bool) table.RefType {
	if tag {
		return table.TagRef
	}
	return table.BranchRef
}

func find(head *lake.Table, name string) (table.SnapshotRef, bool) {
	for n, ref := range head.Metadata.Refs() {
		if n == name {
			return ref, true
		}
	}
	return table.SnapshotRef{}, false
}

// unmoved requires that the ref is still where the change found it.
func unmoved(name string, old table.SnapshotRef, exists bool) table.Requirement {
	if !exists {
		return table.AssertRefSnapshotID(name, nil)
	}
	return table.AssertRefSnapshotID(name, &old.SnapshotID)
}

// given is the value of the statement, else the one that the ref has, else 0 for none.
func given(statement, old *int64) int64 {
	switch {
	case statement != nil:
		return *statement
	case old != nil:
		return *old
	}
	return 0
}
