// Package alter commits what ALTER TABLE asks for: table properties, upgrades of the format version, the write order, identifier fields, branches
// and tags. Such a commit makes no snapshot and changes no row of any branch.
package alter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"firn/internal/commit"
	"firn/internal/contract"
	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
)

// attempts bounds the attempts to change a table beside other writers.
const attempts = 10

// Change is one alteration. It is decided anew on the head of each attempt.
type Change interface {
	// change returns what the commit requires beside the table's UUID, and does; no updates mean that there is nothing to do.
	change(head *lake.Table) ([]table.Requirement, []table.Update, error)
}

// Commit alters the table in one commit. A conflict is tried again on fresh metadata; catalogs.ErrRefused and unknown states end the call.
func Commit(ctx context.Context, port commit.Port, id maintenance.TableID, change Change) error {
	var err error
	for range attempts {
		if err = changeOnce(ctx, port, id, change); !errors.Is(err, catalogs.ErrConflict) {
			return err
		}
	}
	return err
}

func changeOnce(ctx context.Context, port commit.Port, id maintenance.TableID, change Change) error {
	head, err := port.Committer.Head(ctx, id)
	if err != nil {
		return err
	}
	requirements, updates, err := change.change(head)
	if err != nil {
		return maintenance.Named(contract.ErrorRefused, fmt.Errorf("alter table %s: %w", id, err))
	}
	if len(updates) == 0 {
		return nil
	}
	requirements = append([]table.Requirement{table.AssertTableUUID(head.Metadata.TableUUID())}, requirements...)
	if _, err := port.Committer.Commit(ctx, head, committer.Change{Requirements: requirements, Updates: updates}); err != nil {
		return fmt.Errorf("alter table %s: %w", id, err)
	}
	return nil
}

// Properties is SET or UNSET TBLPROPERTIES.
type Properties struct {
	Set   map[string]string
	Unset []string
	// IfExists tolerates keys of Unset that the table does not have.
	IfExists bool
}

// reserved are keys that Iceberg keeps out of the properties: they would be stored and mean nothing, or change the table as a side effect.
func reserved() []string {
	return []string{
		"uuid", "snapshot-count", "current-snapshot-summary", "current-snapshot-id", "current-snapshot-timestamp-ms",
		"current-schema", "default-partition-spec", "default-sort-order",
	}
}

// formatVersion is the one reserved key that may be set: it upgrades the table, as in Spark.
const formatVersion = "format-version"

// upgradeOf is the update that brings a table to the version that text names; none when it has it.
func upgradeOf(have int, text string) ([]table.Update, error) {
	want, err := strconv.Atoi(text)
	switch {
	case err != nil || want < 1 || want > 3:
		return nil, fmt.Errorf("version %q: want 1, 2 or 3", text)
	case want < have:
		return nil, fmt.Errorf("version %d: the table has %d, which cannot be lowered", want, have)
	case want == have:
		return nil, nil
	}
	return []table.Update{table.NewUpgradeFormatVersionUpdate(want)}, nil
}

func (p Properties) change(head *lake.Table) ([]table.Requirement, []table.Update, error) { //nolint:unparam // the other changes require something
	have := head.Metadata.Properties()
	var unset, missing []string
	for _, key := range p.Unset {
		if _, found := have[key]; found {
			unset = append(unset, key)
		} else {
			missing = append(missing, key)
		}
	}
	if len(missing) > 0 && !p.IfExists {
		return nil, nil, fmt.Errorf("unset properties: it has no %s (say IF EXISTS to tolerate that)", strings.Join(missing, ", "))
	}
	var updates []table.Update
	set := iceberg.Properties{}
	for key, value := range p.Set {
		switch {
		case slices.Contains(reserved(), key):
			return nil, nil, fmt.Errorf("set property %s: the key is reserved", key)
		case key == formatVersion:
			upgrade, err := upgradeOf(head.Metadata.Version(), value)
			if err != nil {
				return nil, nil, fmt.Errorf("set property %s: %w", key, err)
			}
			updates = append(updates, upgrade...)
		case have[key] != value:
			set[key] = value
		}
	}
	if len(set) > 0 {
		updates = append(updates, table.NewSetPropertiesUpdate(set))
	}
	if len(unset) > 0 {
		updates = append(updates, table.NewRemovePropertiesUpdate(unset))
	}
	return nil, updates, nil
}
