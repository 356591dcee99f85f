package committer

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/apache/iceberg-go/table"

	"firn/internal/lake"
	"firn/internal/lake/catalogs"
)

// send commits through a service: it checks the requirements again on its own current state, writes the metadata file and trims the log.
func (c *committer) send(ctx context.Context, base *lake.Table, change Change) (Result, error) {
	requirements, err := json.Marshal(append([]table.Requirement{}, change.Requirements...))
	if err != nil {
		return Result{}, fmt.Errorf("commit to %s: %w: encode requirements: %w", base.ID, catalogs.ErrRefused, err)
	}
	updates, err := json.Marshal(change.Updates)
	if err != nil {
		return Result{}, fmt.Errorf("commit to %s: %w: encode updates: %w", base.ID, catalogs.ErrRefused, err)
	}
	pointer, err := c.server.Update(ctx, base.ID, requirements, updates)
	if err != nil {
		return Result{}, fmt.Errorf("commit to %s: %w", base.ID, err)
	}
	// An answer that cannot be read leaves the state unknown: a service that answers nonsense has not proved anything.
	if pointer.Config == nil {
		pointer.Config = base.Pointer.Config
	}
	result := Result{MetadataLocation: pointer.MetadataLocation}
	if result.Table, err = lake.Read(ctx, c.store, base.ID, pointer); err != nil {
		return result, fmt.Errorf("read the service's answer to the commit to %s: %w", base.ID, err)
	}
	return result, nil
}
