package evaluate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"firn/internal/contract"
	"firn/internal/event"
	"firn/internal/lake/catalogs"
	"firn/internal/lake/peek"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/store"
)

// view is one table as a look finds it.
type view struct {
	id      maintenance.TableID
	catalog catalogs.Catalog
	reader  store.Reader
	meta    *peek.Metadata
	policy  policy.Policy
	// madeAt is when each snapshot was made, in milliseconds since the epoch.
	madeAt map[int64]int64
	// lookedAt is when the look began.
	lookedAt time.Time
}

// read loads pointer, metadata and policy.
func (f *Function) read(ctx context.Context, id maintenance.TableID) (*view, error) {
	cat, reader, err := f.deps.Catalog(ctx, id.Catalog)
	if err != nil {
		return nil, err
	}
	ptr, err := cat.Load(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("load table %s: %w", id, err)
	}
	if err := f.deps.Authority.Location(ptr.MetadataLocation); err != nil {
		return nil, fmt.Errorf("metadata of table %s: %w", id, err)
	}
	var meta *peek.Metadata
	if ptr.Metadata != nil {
		meta, err = peek.ParseMetadata(ptr.Metadata)
	} else {
		meta, err = peek.ReadMetadata(ctx, reader, ptr.MetadataLocation)
	}
	if err != nil {
		return nil, fmt.Errorf("read table %s: %w", id, err)
	}
	if err := f.deps.Authority.Metadata(meta.Location, meta.Properties); err != nil {
		return nil, fmt.Errorf("look at table %s: %w", id, err)
	}
	effective, err := f.deps.Policy.Effective(id, meta.Properties, nil)
	if err != nil {
		return nil, fmt.Errorf("policy of table %s: %w", id, err)
	}
	v := &view{id: id, catalog: cat, reader: reader, meta: meta, policy: effective, madeAt: make(map[int64]int64, len(meta.Snapshots))}
	for _, s := range meta.Snapshots {
		v.madeAt[s.ID] = s.TimestampMS
	}
	return v, nil
}

// resolve finds the table of a notice, in a configured catalog only; found is false when there is none.
func (f *Function) resolve(ctx context.Context, n event.Notice) (maintenance.TableID, bool, error) {
	id := n.Table
	if n.Location != "" {
		at, found, err := f.locate(ctx, n.Location)
		if err != nil || !found {
			return at, found, err
		}
		id = at
	}
	if id.Catalog == "" {
		id.Catalog = f.deps.DefaultCatalog
	}
	if f.deps.Catalogs != nil && !slices.Contains(f.catalogs(), id.Catalog) {
		f.deps.Log.WarnContext(ctx, "let go of a notice of a catalog that is not configured", "source", n.Source, "event_id", n.EventID, "table", id.String())
		return id, false, f.count(contract.MetricIgnored, id)
	}
	if err := f.deps.Authority.Table(id); err != nil {
		f.deps.Log.WarnContext(ctx, "let go of a notice of a table that is not entrusted", "source", n.Source, "event_id", n.EventID, "error", err)
		return id, false, f.count(contract.MetricIgnored, id)
	}
	return id, true, nil
}

// catalogs are the names of all configured catalogs, the default one first.
func (f *Function) catalogs() []string {
	others := slices.DeleteFunc(slices.Clone(f.deps.Catalogs), func(name string) bool { return name == f.deps.DefaultCatalog })
	return append([]string{f.deps.DefaultCatalog}, others...)
}
