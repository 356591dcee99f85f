package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/lake/peek"
	"firn/internal/lake/reach"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// neighbourReads is how many other tables' metadata files are read at once.
const neighbourReads = 8

// neighbours are the other tables of the catalog whose folders touch the folder that is swept.
type neighbours struct {
	// tables are loaded: what they reach is subtracted too.
	tables []*lake.Table
	// nested are the folders of tables that lie inside the swept folder: cleaning them is their own job's.
	nested   []string
	warnings []string
}

// tablePlaces is the part of a metadata file that says where a table's files lie.
type tablePlaces struct {
	Location   string            `json:"location"`
	Properties map[string]string `json:"properties"`
}

// neighbours looks up every table of the catalog. A table that has the swept folder, or ours, for its own makes the job refuse: its writers do
// not know of us, and neither table may clean up for both. A table above or inside the swept folder is loaded, and its files stay.
func (s *step) neighbours(ctx context.Context, own *lake.Table, swept string) (neighbours, error) {
	home, err := reach.Folder(own.Metadata.Location())
	if err != nil {
		return neighbours{}, err
	}
	var ids []maintenance.TableID
	for id, err := range s.cat.Tables(ctx, "") {
		if err != nil {
			return neighbours{}, fmt.Errorf("look for tables that share the location: %w", err)
		}
		if id.Namespace != own.ID.Namespace || id.Name != own.ID.Name {
			ids = append(ids, id)
		}
	}
	var mu sync.Mutex
	var found neighbours
	var sharing []string
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(neighbourReads)
	for _, id := range ids {
		group.Go(func() error {
			ptr, places, warning, err := s.places(gctx, id, []string{swept, home})
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			switch relation := relate(places, swept, home); {
			case warning != "":
				found.warnings = append(found.warnings, warning)
			case relation == same:
				sharing = append(sharing, id.String())
			case relation != apart:
				t, err := lake.Read(gctx, s.st, id, ptr)
				if err != nil {
					return fmt.Errorf("load %s, which shares the location: %w", id, err)
				}
				found.tables = append(found.tables, t)
				found.nested = append(found.nested, inside(places, swept)...)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return neighbours{}, err
	}
	if len(sharing) > 0 {
		slices.Sort(sharing)
		return neighbours{}, refusef("the location %s is shared with %s", swept, strings.Join(sharing, ", "))
	}
	return found, nil
}

// places reads where another table's files lie. A table whose metadata cannot be read may be anywhere: it stops the job, unless its metadata
// file lies outside of the folders in question, which makes a warning.
func (s *step) places(ctx context.Context, id maintenance.TableID, folders []string) (catalogs.Pointer, []string, string, error) {
	ptr, err := s.cat.Load(ctx, id)
	switch {
	case errors.Is(err, catalogs.ErrNoSuchTable), errors.Is(err, catalogs.ErrNotIceberg):
		return ptr, nil, "", nil // dropped since it was listed
	case errors.Is(err, catalogs.ErrRefused):
		return ptr, nil, "", refusef("%s may share the location, and the catalog does not show it: %v", id, err)
	case err != nil:
		return ptr, nil, "", fmt.Errorf("load table %s: %w", id, err)
	}
	data := ptr.Metadata
	if data == nil {
		data, err = peek.ReadMetadataFile(ctx, s.st, ptr.MetadataLocation)
	} else {
		data, err = peek.Unpack(data)
	}
	var t tablePlaces
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	var places []string
	if err == nil {
		places, err = reach.Places(t.Location, t.Properties)
	}
	if err == nil {
		return ptr, places, "", nil
	}
	if ctx.Err() != nil || errors.Is(err, store.ErrTransient) {
		return ptr, nil, "", fmt.Errorf("read the metadata of %s: %w", id, err)
	}
	guess, gerr := homeOf(ptr.MetadataLocation)
	if gerr != nil || relate([]string{guess}, folders[0], folders[1]) != apart {
		return ptr, nil, "", refusef("%s may share the location, and its metadata cannot be read: %v", id, err)
	}
	return ptr, nil, fmt.Sprintf("the metadata of %s cannot be read; it is taken to lie elsewhere, as its metadata file does: %v", id, err), nil
}

// homeOf is where a table lies whose metadata file is in the default place: location/metadata/name.
func homeOf(metadataLocation string) (string, error) {
	folder := metadataLocation
	for range 2 {
		i := strings.LastIndexByte(folder, '/')
		if i < 0 {
			return "", fmt.Errorf("location %q has no folder", metadataLocation)
		}
		folder = folder[:i]
	}
	return reach.Folder(folder)
}

// relation is how a table's folders lie to the swept one.
type relation int

const (
	apart relation = iota
	touching
	same
)

func relate(places []string, swept, home string) relation {
	worst := apart
	for _, p := range places {
		switch {
		case p == swept || p == home:
			return same
		case strings.HasPrefix(p, swept) || strings.HasPrefix(swept, p):
			worst = touching
		}
	}
	return worst
}

// inside are the places that lie in a folder.
func inside(places []string, folder string) []string {
	var out []string
	for _, p := range places {
		if strings.HasPrefix(p, folder) {
			out = append(out, p)
		}
	}
	return out
}
