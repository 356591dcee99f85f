package edge_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"firn/internal/contract"
	"firn/internal/edge"
	"firn/internal/lake/catalogs"
)

// TestFunctionsRefuseTablesThatAreNotEntrusted: whoever starts an execution, plan, compact, commit and sweep work on listed tables only.
func TestFunctionsRefuseTablesThatAreNotEntrusted(t *testing.T) {
	t.Parallel()
	config, err := catalogs.LoadConfig(catalogs.Sources{Configured: map[string]map[string]string{"lake": {"type": "in-memory"}}, DefaultCatalog: "lake"})
	if err != nil {
		t.Fatal(err)
	}
	clients := edge.NewClients(config, edge.Settings{Tables: []string{"lake.db.*"}, WorkLocation: "mem://work/firn"}, nil)
	calls := 0
	fn := clients.Entrusted(func(context.Context, json.RawMessage) (json.RawMessage, error) {
		calls++
		return nil, nil
	})
	for payload, want := range map[string]bool{
		`{"v":1,"run":{"table":{"catalog":"","namespace":["db"],"name":"t"}}}`:      true,
		`{"v":1,"run":{"table":{"catalog":"lake","namespace":["db"],"name":"t"}}}`:  true,
		`{"v":1,"run":{"table":{"catalog":"lake","namespace":["dbx"],"name":"t"}}}`: false,
		`{"v":1,"run":{"table":{"catalog":"x","namespace":["db"],"name":"t"}}}`:     false,
		`{"v":1}`: false,
	} {
		before := calls
		_, err := fn(t.Context(), json.RawMessage(payload))
		if allowed := err == nil; allowed != want || calls-before != map[bool]int{true: 1}[want] {
			t.Errorf("%s: %v, want allowed %t", payload, err, want)
		}
		if err != nil && !strings.HasPrefix(err.Error(), contract.ErrorRefused) {
			t.Errorf("%s: %v, want %s", payload, err, contract.ErrorRefused)
		}
	}
	faulty := edge.NewClients(config, edge.Settings{Warehouses: []string{"no location"}}, nil)
	if _, err := faulty.Lake(t.Context(), "lake"); err == nil {
		t.Error("a faulty list opens everything")
	}
	if _, err := edge.ParseSettings([]byte("warehouses: [nowhere]\n")); err == nil {
		t.Error("a warehouse that is no location is taken")
	}
}
