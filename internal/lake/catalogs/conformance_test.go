package catalogs_test

import (
	"testing"
	"time"

	"firn/internal/lake/catalogs"
	"firn/internal/lake/catalogs/catalogtest"
	"firn/internal/maintenance"
	"firn/internal/store"
)

func memoryStore() *store.Memory { return store.NewMemory(time.Now) }

func TestMemoryConforms(t *testing.T) {
	t.Parallel()
	catalogtest.Run(t, func(*testing.T) catalogtest.World {
		memory := catalogs.NewMemory("c")
		cat, arm := catalogtest.Disturb(memory)
		return catalogtest.World{
			Catalog: cat, Store: memoryStore(), Root: "mem://lake/db", Arm: arm,
			Drop: func(_ *testing.T, id maintenance.TableID) { memory.Drop(id) },
		}
	})
}

func TestSQLiteConforms(t *testing.T) {
	t.Parallel()
	catalogtest.Run(t, func(t *testing.T) catalogtest.World {
		file := t.TempDir() + "/catalog.db"
		inner := openSQLite(t, file)
		cat, arm := catalogtest.Disturb(inner)
		return catalogtest.World{Catalog: cat, Store: memoryStore(), Root: "mem://lake/db", Arm: arm, Drop: dropRow("sqlite", file)}
	})
}

func TestRESTConforms(t *testing.T) {
	t.Parallel()
	catalogtest.Run(t, func(t *testing.T) catalogtest.World {
		st := memoryStore()
		server := catalogtest.NewRESTServer(t, st)
		server.PageSize = 2
		cat, err := catalogs.Open(t.Context(), "c", map[string]string{"type": "rest", "uri": server.URL})
		if err != nil {
			t.Fatal(err)
		}
		return catalogtest.World{
			Catalog: cat, Store: st, Root: "mem://lake/db", Arm: server.Arm,
			Drop: func(_ *testing.T, id maintenance.TableID) { server.Drop(id) },
		}
	})
}

// glueProps are properties of a Glue catalog at the fake.
func glueProps(server *catalogtest.GlueServer) map[string]string {
	return map[string]string{
		"type": "glue", "glue.endpoint": server.URL, "glue.region": "eu-west-1", "glue.access-key-id": "AKID", "glue.secret-access-key": "secret",
	}
}

func TestGlueConforms(t *testing.T) {
	t.Parallel()
	catalogtest.Run(t, func(t *testing.T) catalogtest.World {
		server := catalogtest.NewGlueServer(t)
		cat, err := catalogs.Open(t.Context(), "c", glueProps(server))
		if err != nil {
			t.Fatal(err)
		}
		return catalogtest.World{
			Catalog: cat, Store: memoryStore(), Root: "mem://lake/db", Arm: server.Arm,
			Drop: func(_ *testing.T, id maintenance.TableID) { server.Drop(id) },
		}
	})
}
