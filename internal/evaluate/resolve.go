package evaluate

import (
	"context"
	"fmt"
	"slices"

	"firn/internal/event"
	"firn/internal/lake/peek"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/store"
)

// view is one table as a look finds it.
type view struct {
	id     maintenance.TableID
	reader store.Reader
	meta   *peek.Metadata
	policy policy.Policy
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
	var meta *peek.Metadata
	if ptr.Metadata != nil {
		meta, err = peek.ParseMetadata(ptr.Metadata)
	} else {
		meta, err = peek.ReadMetadata(ctx, reader, ptr.MetadataLocation)
	}
	if err != nil {
		return nil, fmt.Errorf("read table %s: %w", id, err)
	}
	effective, err := f.deps.Policy.Effective(id, meta.Properties, nil)
	if err != nil {
		return nil, fmt.Errorf("policy of table %s: %w", id, err)
	}
	return &view{id: id, reader: reader, meta: meta, policy: effective}, nil
}

// resolve finds the table of a notice, in a configured catalog only; found is false when there is none.
func (f *Function) resolve(ctx context.Context, n event.Notice) (maintenance.TableID, bool, error) {
	if n.Location != "" {
		return f.locate(ctx, n.Location)
	}
	id := n.Table
	if id.Catalog == "" {
		id.Catalog = f.deps.DefaultCatalog
	}
	if f.deps.Catalogs != nil && !slices.Contains(f.catalogs(), id.Catalog) {
		f.deps.Log.WarnContext(ctx, "let go of a notice of a catalog that is not configured", "source", n.Source, "event_id", n.EventID, "table", id.String())
		return id, false, nil
	}
	return id, true, nil
}

// catalogs are the names of all configured catalogs, the default one first.
func (f *Function) catalogs() []string {
	others := slices.DeleteFunc(slices.Clone(f.deps.Catalogs), func(name string) bool { return name == f.deps.DefaultCatalog })
	return append([]string{f.deps.DefaultCatalog}, others...)
}
