package decide_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"firn/internal/decide"
	"firn/internal/icebergtest"
	"firn/internal/lake"
	"firn/internal/maintenance"
)

// TestManifestsOracle gives every rewrite_manifests call of the reference that comes first, or behind a changed property, to the rules: the same
// manifests must be chosen as Spark replaced, and the same number.
func TestManifestsOracle(t *testing.T) {
	t.Parallel()
	compared := 0
	for _, name := range icebergtest.ReferenceNames(t) {
		ref := reference(t, name)
		tab := ref.Table(t)
		manifests, err := lake.Manifests(context.Background(), ref.Store, tab.Metadata.CurrentSnapshot())
		if err != nil {
			t.Fatal(err)
		}
		for _, caseName := range ref.OracleNames() {
			facts := tab.ManifestsTable()
			for _, step := range ref.Oracle(t, caseName).Steps {
				if strings.Contains(step.Statement, "commit.manifest.target-size-bytes") {
					facts.Properties = map[string]string{"commit.manifest.target-size-bytes": "20000"}
				}
				if step.Procedure != string(maintenance.RewriteManifests) {
					if step.Procedure != "" {
						break
					}
					continue
				}
				compared++
				opts, err := decide.ParseManifestsOptions(bind(t, step.Call).Args, facts)
				if (err != nil) != (step.Error != "") {
					t.Errorf("%s:%s: error %v, Spark says %q", name, caseName, err, step.Error)
				}
				if err == nil {
					checkManifests(t, name+":"+caseName, step, decide.Manifests(lake.PlannedManifests(manifests), opts))
				}
				break // a second call works on what the first one left
			}
		}
	}
	t.Logf("compared %d calls", compared)
	if compared < 40 {
		t.Errorf("compared %d calls: the reference has more", compared)
	}
}

func checkManifests(t *testing.T, name string, step icebergtest.OracleStep, plan decide.ManifestsPlan) {
	t.Helper()
	got := slices.Sorted(slices.Values(slices.Concat(plan.Data.Locations, plan.Deletes.Locations)))
	want := slices.Sorted(slices.Values(step.ManifestsRemoved))
	if !slices.Equal(got, want) {
		t.Errorf("%s: %s\nmissing %q\ntoo many %q", name, step.Call, difference(want, got), difference(got, want))
	}
	var count int
	if err := json.Unmarshal(step.Result[0]["rewritten_manifests_count"], &count); err != nil || count != plan.Count() {
		t.Errorf("%s: %s: %d manifests, Spark %d (%v)", name, step.Call, plan.Count(), count, err)
	}
}

func TestManifestsOptions(t *testing.T) {
	t.Parallel()
	facts := decide.ManifestsTable{CurrentSpecID: 1, Fields: map[int][]string{0: {}, 1: {"region", "dt_year"}}}
	for _, c := range []struct {
		name string
		args map[string]string
		want string
	}{
		{"spec that is not there", map[string]string{"spec_id": "7"}, "no partition spec 7"},
		{"field that is not there", map[string]string{"sort_by": `["dt_yeer"]`}, `no field "dt_yeer"; did you mean dt_year?; its fields: region, dt_year`},
		{"field of another spec", map[string]string{"sort_by": `["region"]`, "spec_id": "0"}, "its fields: none"},
		{"no array", map[string]string{"sort_by": "region"}, "no array of names"},
		{"no flag", map[string]string{"use_caching": "maybe"}, "neither true nor false"},
		{"unknown argument", map[string]string{"sort_bye": "x"}, "did you mean sort_by"},
		{"target of nothing", map[string]string{"target_size_bytes": "0"}, "at least 1"},
	} {
		_, err := decide.ParseManifestsOptions(c.args, facts)
		if !errors.Is(err, decide.ErrOption) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v: want %q", c.name, err, c.want)
		}
	}
	o, err := decide.ParseManifestsOptions(map[string]string{"sort_by": `["dt_year","region"]`, "use_caching": "TRUE"}, facts)
	if err != nil || o.SpecID != 1 || !o.UseCaching || !slices.Equal(o.SortBy, []string{"dt_year", "region"}) || o.TargetSizeBytes != 8<<20 {
		t.Errorf("%+v, %v", o, err)
	}
	// The planned spec stays when the table's changes.
	facts.CurrentSpecID = 0
	if again, err := decide.ParseManifestsOptions(o.Args(map[string]string{"use_caching": "true"}), facts); err != nil || again.SpecID != 1 {
		t.Errorf("%+v, %v: want spec 1", again, err)
	}
}

func TestManifestsRules(t *testing.T) {
	t.Parallel()
	m := func(location string, spec int, deletes bool, bytes int64) decide.Manifest {
		return decide.Manifest{Location: location, LengthBytes: bytes, SpecID: spec, Deletes: deletes}
	}
	for _, c := range []struct {
		name      string
		manifests []decide.Manifest
		want      decide.ManifestsPlan
	}{
		{"no manifest", nil, decide.ManifestsPlan{}},
		{"one of each content", []decide.Manifest{m("a", 1, false, 100), m("b", 1, true, 100)}, decide.ManifestsPlan{}},
		{
			"one that is too long",
			[]decide.Manifest{m("a", 1, false, 101)},
			decide.ManifestsPlan{Data: decide.ManifestsChoice{Locations: []string{"a"}, TotalBytes: 101, Target: 2}},
		},
		{
			"contents apart, another spec",
			[]decide.Manifest{m("a", 1, false, 10), m("b", 1, true, 10), m("c", 1, true, 10), m("d", 0, false, 10)},
			decide.ManifestsPlan{Deletes: decide.ManifestsChoice{Locations: []string{"b", "c"}, TotalBytes: 20, Target: 1}},
		},
	} {
		got := decide.Manifests(c.manifests, decide.ManifestsOptions{SpecID: 1, TargetSizeBytes: 100})
		if !slices.Equal(got.Data.Locations, c.want.Data.Locations) || !slices.Equal(got.Deletes.Locations, c.want.Deletes.Locations) ||
			got.Data.Target != c.want.Data.Target || got.Deletes.Target != c.want.Deletes.Target || got.Data.TotalBytes != c.want.Data.TotalBytes {
			t.Errorf("%s: %+v: want %+v", c.name, got, c.want)
		}
	}
}

// TestManifestsTarget: the wanted manifests hold the total, and one fewer would not.
func TestManifestsTarget(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var manifests []decide.Manifest
		total := int64(0)
		for range rapid.IntRange(2, 50).Draw(t, "manifests") {
			bytes := rapid.Int64Range(1, 1<<30).Draw(t, "bytes")
			manifests, total = append(manifests, decide.Manifest{Location: "m", LengthBytes: bytes}), total+bytes
		}
		o := decide.ManifestsOptions{TargetSizeBytes: rapid.Int64Range(1<<10, 1<<31).Draw(t, "target")}
		wanted := int64(decide.Manifests(manifests, o).Data.Target)
		if wanted*o.TargetSizeBytes < total || (wanted-1)*o.TargetSizeBytes >= total {
			t.Fatalf("%d manifests of %d bytes for %d bytes", wanted, o.TargetSizeBytes, total)
		}
	})
}
