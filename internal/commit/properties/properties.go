// Package properties commits changes of table properties, and upgrades of the format version. Such a commit makes no snapshot.
package properties

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
	"firn/internal/lake/catalogs"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
)

// propertyAttempts bounds the attempts to change properties beside other writers.
const propertyAttempts = 10

// Change is what ALTER TABLE ... SET or UNSET TBLPROPERTIES asks for.
type Change struct {
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

// Commit sets and removes table properties in one commit of their own. It makes no snapshot. A conflict is tried again on fresh
// metadata; catalogs.ErrRefused and unknown states end the call.
func Commit(ctx context.Context, port commit.Port, id maintenance.TableID, change Change) error {
	for key := range change.Set {
		if slices.Contains(reserved(), key) {
			return maintenance.Named(contract.ErrorRefused, fmt.Errorf("set property %s of table %s: the key is reserved", key, id))
		}
	}
	var err error
	for range propertyAttempts {
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
	have := head.Metadata.Properties()
	var unset, missing []string
	for _, key := range change.Unset {
		if _, found := have[key]; found {
			unset = append(unset, key)
		} else {
			missing = append(missing, key)
		}
	}
	if len(missing) > 0 && !change.IfExists {
		return maintenance.Named(contract.ErrorRefused,
			fmt.Errorf("unset properties of table %s: it has no %s (say IF EXISTS to tolerate that)", id, strings.Join(missing, ", ")))
	}
	var updates []table.Update
	set := iceberg.Properties{}
	for key, value := range change.Set {
		switch {
		case key == formatVersion:
			upgrade, err := upgradeOf(head.Metadata.Version(), value)
			if err != nil {
				return maintenance.Named(contract.ErrorRefused, fmt.Errorf("set property %s of table %s: %w", key, id, err))
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
	if len(updates) == 0 {
		return nil
	}
	c := committer.Change{Requirements: []table.Requirement{table.AssertTableUUID(head.Metadata.TableUUID())}, Updates: updates}
	if _, err := port.Committer.Commit(ctx, head, c); err != nil {
		return fmt.Errorf("change properties of table %s: %w", id, err)
	}
	return nil
}
