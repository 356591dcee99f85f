package main

import (
	"fmt"

	"firn/internal/contract"
	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
)

// register points a new table of the catalog at a metadata file that can be read.
func (a *app) register(id maintenance.TableID, location string) error {
	clients, err := a.open()
	if err != nil {
		return err
	}
	l, err := clients.Lake(a.ctx, id.Catalog)
	if err != nil {
		return err
	}
	if _, err := lake.Read(a.ctx, l.Store, id, catalogs.Pointer{MetadataLocation: location}); err != nil {
		return fmt.Errorf("read the metadata to register: %w", err)
	}
	registrar, can := l.Catalog.(catalogs.Registrar)
	if !can {
		return maintenance.Named(contract.ErrorRefused, fmt.Errorf("catalog %s does not register tables through firn: use its own client", id.Catalog))
	}
	return registrar.Register(a.ctx, id, location)
}
