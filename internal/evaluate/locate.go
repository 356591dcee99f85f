package evaluate

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"firn/internal/contract"
	"firn/internal/maintenance"
	"firn/internal/store"
)

const (
	// indexAge is how long the catalogs' locations are taken as known: a walk through them costs a call a table.
	indexAge = 10 * time.Minute
	// missAge is how old they must be to be read again for a location that is not among them.
	missAge = time.Minute
)

// index holds the metadata folders of all tables, as the catalogs last told them.
type index struct {
	mu     sync.Mutex
	readAt time.Time
	tables map[string]maintenance.TableID
}

// locate finds the table in whose metadata folder an object lies, the longest such folder. It asks the catalogs and never guesses from the key. An index
// that is out of date costs a look in vain, or one that comes late by the clock.
func (f *Function) locate(ctx context.Context, location string) (maintenance.TableID, bool, error) {
	object, err := store.Canonical(location)
	if err != nil {
		return maintenance.TableID{}, false, nil //nolint:nilerr // a location that nobody can have written names no table
	}
	f.index.mu.Lock()
	defer f.index.mu.Unlock()
	age := f.deps.Now().Sub(f.index.readAt)
	id, found := f.index.longest(object)
	if f.index.tables == nil || age >= indexAge || !found && age >= missAge {
		tables, err := f.folders(ctx)
		if err != nil {
			return maintenance.TableID{}, false, fmt.Errorf("find table of %s: %w", location, err)
		}
		f.index.tables, f.index.readAt = tables, f.deps.Now()
		id, found = f.index.longest(object)
	}
	return id, found, nil
}

// longest walks from the object's folder outwards.
func (i *index) longest(object string) (maintenance.TableID, bool) {
	for end := strings.LastIndexByte(object, '/'); end > 0; end = strings.LastIndexByte(object[:end], '/') {
		if id, found := i.tables[object[:end+1]]; found {
			return id, true
		}
	}
	return maintenance.TableID{}, false
}

// folders reads the metadata folder of every table of every configured catalog.
func (f *Function) folders(ctx context.Context) (map[string]maintenance.TableID, error) {
	tables := map[string]maintenance.TableID{}
	for _, name := range f.catalogs() {
		err := f.foldersOf(ctx, name, tables)
		if denied(err) {
			// Nobody can repeat that into success, and the tables that were listed are found.
			whole := maintenance.TableID{Catalog: name}
			f.deps.Log.ErrorContext(ctx, "list tables of catalog", "catalog", name, "error", f.denial(whole, err))
			err = f.count(contract.MetricDenied, whole)
		}
		if err != nil {
			return nil, err
		}
	}
	return tables, nil
}

// foldersOf reads those of one catalog.
func (f *Function) foldersOf(ctx context.Context, name string, tables map[string]maintenance.TableID) error {
	cat, _, err := f.deps.Catalog(ctx, name)
	if err != nil {
		return err
	}
	for id, err := range cat.Tables(ctx, "") {
		if err != nil {
			return err
		}
		ptr, err := cat.Load(ctx, id)
		if err != nil {
			continue // dropped meanwhile, or not readable: the others are found
		}
		at, err := store.Canonical(ptr.MetadataLocation)
		if err != nil {
			continue
		}
		id.Catalog = name
		tables[at[:strings.LastIndexByte(at, '/')+1]] = id
	}
	return nil
}
