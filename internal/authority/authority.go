// Package authority keeps Firn within what an operator entrusted to it: a list of tables, and a list of warehouse locations. Events and metadata are
// written by others, so no name and no location in them is believed: a table outside of the list cannot be loaded, listed or committed to, and no
// object outside of the warehouses can be read, written, listed or deleted, whatever a manifest, a snapshot or a table property says.
//
// The rules are enforced where clients are opened, on the catalog and the store that every function is handed, so that no room can forget to ask. An
// empty list allows everything; a refusal wraps the port's own class (catalogs.ErrRefused, store.ErrPermission) and is never repeated.
package authority

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/store"
)

// ErrOutside marks every refusal: the table or location is outside of what was entrusted.
var ErrOutside = errors.New("outside of what firn.yaml entrusts to Firn")

// Rules is what an operator entrusted.
type Rules struct {
	tables     []string
	warehouses []store.Location
	// work may be read and written beside the warehouses, and not deleted in: items and results of runs.
	work []store.Location
}

// New checks and returns rules. tables are patterns of [catalog.]namespace.table (* is text without a dot, ** any text). warehouses are locations;
// what lies under one of them is inside. Empty lists allow everything. work is the work location.
func New(tables, warehouses []string, work string) (Rules, error) {
	r := Rules{tables: tables}
	var faults []error
	for _, pattern := range tables {
		if pattern == "" {
			faults = append(faults, errors.New("read tables: an empty pattern matches no table"))
		}
	}
	for _, text := range warehouses {
		at, err := folder(text)
		if err != nil {
			faults = append(faults, fmt.Errorf("read warehouses: %w", err))
			continue
		}
		r.warehouses = append(r.warehouses, at)
	}
	if len(r.warehouses) > 0 && work != "" {
		at, err := folder(work)
		if err != nil {
			faults = append(faults, fmt.Errorf("read work-location: %w", err))
		}
		r.work = []store.Location{at}
	}
	return r, errors.Join(faults...)
}

// folder is a location in canonical form with a slash behind it: s3://lake/raw does not hold s3://lake/raw_2.
func folder(text string) (store.Location, error) {
	at, err := store.ParseLocation(text)
	if err != nil {
		return at, err
	}
	at = at.Canonical()
	if climbs(at.Key) {
		return at, fmt.Errorf("location %q climbs by a step . or .. in its key", text)
	}
	if at.Key != "" && !strings.HasSuffix(at.Key, "/") {
		at.Key += "/"
	}
	return at, nil
}

// Open reports whether everything is allowed.
func (r Rules) Open() bool { return len(r.tables) == 0 && len(r.warehouses) == 0 }

// Table refuses a table that no pattern names.
func (r Rules) Table(id maintenance.TableID) error {
	if len(r.tables) == 0 {
		return nil
	}
	short := maintenance.TableID{Namespace: id.Namespace, Name: id.Name}.String()
	if slices.ContainsFunc(r.tables, func(p string) bool { return policy.Match(p, short) || id.Catalog != "" && policy.Match(p, id.String()) }) {
		return nil
	}
	return fmt.Errorf("table %s matches no pattern of tables: %w: %w", id, ErrOutside, catalogs.ErrRefused)
}

// Location refuses a location outside of the warehouses.
func (r Rules) Location(text string) error { return r.within(text, r.warehouses) }

// Metadata refuses a table that lives, or writes its files, outside of the warehouses: its location, and the properties that move its files elsewhere
// (Iceberg's write.data.path, write.metadata.path and their older names).
func (r Rules) Metadata(location string, properties map[string]string) error {
	if err := r.Location(location); err != nil {
		return fmt.Errorf("the table's location: %w", err)
	}
	for _, name := range []string{"write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path"} {
		if at := properties[name]; at != "" {
			if err := r.Location(at); err != nil {
				return fmt.Errorf("table property %s: %w", name, err)
			}
		}
	}
	return nil
}

func (r Rules) within(text string, folders []store.Location) error {
	if len(r.warehouses) == 0 {
		return nil
	}
	at, err := store.ParseLocation(text)
	if err != nil {
		return fmt.Errorf("%w: %w: %w", err, ErrOutside, store.ErrPermission)
	}
	at = at.Canonical()
	inside := slices.ContainsFunc(folders, func(f store.Location) bool {
		return at.Scheme == f.Scheme && at.Authority == f.Authority && (strings.HasPrefix(at.Key, f.Key) || at.Key+"/" == f.Key)
	})
	if !inside || climbs(at.Key) {
		return fmt.Errorf("location %s lies in no warehouse: %w: %w", text, ErrOutside, store.ErrPermission)
	}
	return nil
}

// climbs reports a step . or .. in a key. An object store takes it literally; a gateway before a file system may climb out of the warehouse by it.
func climbs(key string) bool {
	return slices.ContainsFunc(strings.Split(key, "/"), func(step string) bool { return step != "" && path.Clean(step) == "." || step == ".." })
}
