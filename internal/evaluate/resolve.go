package evaluate

import (
	"context"
	"fmt"
	"slices"
	"strings"

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

// resolve finds the table of a notice, in a configured catalog only. A location belongs to the table in whose metadata folder it lies, the longest such folder; found is false
// when the catalog has none.
func (f *Function) resolve(ctx context.Context, n event.Notice) (maintenance.TableID, bool, error) {
	if n.Location == "" {
		id := n.Table
		if id.Catalog == "" {
			id.Catalog = f.deps.DefaultCatalog
		}
		if f.deps.Catalogs != nil && id.Catalog != f.deps.DefaultCatalog && !slices.Contains(f.deps.Catalogs, id.Catalog) {
			f.deps.Log.WarnContext(ctx, "let go of a notice of a catalog that is not configured", "source", n.Source, "event_id", n.EventID, "table", id.String())
			return id, false, nil
		}
		return id, true, nil
	}
	cat, _, err := f.deps.Catalog(ctx, f.deps.DefaultCatalog)
	if err != nil {
		return maintenance.TableID{}, false, err
	}
	object, err := store.Canonical(n.Location)
	if err != nil {
		return maintenance.TableID{}, false, nil //nolint:nilerr // a location that nobody can have written names no table
	}
	var best maintenance.TableID
	longest := 0
	for id, err := range cat.Tables(ctx, "") {
		if err != nil {
			return maintenance.TableID{}, false, err
		}
		ptr, err := cat.Load(ctx, id)
		if err != nil {
			continue // dropped meanwhile, or not readable: another table may match
		}
		at, err := store.Canonical(ptr.MetadataLocation)
		if err != nil {
			continue
		}
		if folder := at[:strings.LastIndexByte(at, '/')+1]; strings.HasPrefix(object, folder) && len(folder) > longest {
			best, longest = id, len(folder)
		}
	}
	return best, longest > 0, nil
}
