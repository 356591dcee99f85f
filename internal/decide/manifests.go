package decide

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"firn/internal/maintenance"
)

// propertyManifestTarget is the table property with the size of manifests, in bytes, and defaultManifestTarget Iceberg's default: 8 MiB.
const (
	propertyManifestTarget = "commit.manifest.target-size-bytes"
	defaultManifestTarget  = 8 << 20
)

// ManifestsTable is what the arguments of rewrite_manifests are read against.
type ManifestsTable struct {
	Properties map[string]string
	// CurrentSpecID is the table's partition spec; Fields are the names of each spec's fields, in their order.
	CurrentSpecID int
	Fields        map[int][]string
}

// ManifestsOptions are the arguments of rewrite_manifests with defaults filled in.
type ManifestsOptions struct {
	// SpecID is the partition spec whose manifests are rewritten.
	SpecID int
	// SortBy are names of that spec's fields by which entries are clustered; none means by the whole partition tuple.
	SortBy []string
	// TargetSizeBytes is the size of manifests.
	TargetSizeBytes int64
	// UseCaching is accepted as in Spark and changes nothing here: nothing is computed twice.
	UseCaching bool
}

// ParseManifestsOptions reads the arguments of rewrite_manifests: Spark's spec_id, sort_by (a JSON array of names) and use_caching, and
// target_size_bytes, which a policy sets. Faults are ErrOption, all at once.
func ParseManifestsOptions(args map[string]string, t ManifestsTable) (ManifestsOptions, error) {
	p := &optionReader{options: t.Properties, noun: "property"}
	target := p.whole(propertyManifestTarget, defaultManifestTarget, 1, math.MaxInt64)

	r := &optionReader{options: args, noun: "argument", errs: p.errs}
	o := ManifestsOptions{
		SpecID: r.count("spec_id", t.CurrentSpecID, 0), UseCaching: r.flag("use_caching", false),
		TargetSizeBytes: r.whole("target_size_bytes", target, 1, math.MaxInt64),
	}
	fields, known := t.Fields[o.SpecID]
	if !known {
		r.faultOf("spec_id", "the table has no partition spec %d", o.SpecID)
	}
	if text, given := r.text("sort_by"); given && text != "" {
		if err := json.Unmarshal([]byte(text), &o.SortBy); err != nil {
			r.faultOf("sort_by", "%q is no array of names", text)
		}
	}
	for _, name := range o.SortBy {
		if known && !slices.Contains(fields, name) {
			r.faultOf("sort_by", "partition spec %d has no field %q%s; its fields: %s", o.SpecID, name, maintenance.Suggestion(name, fields),
				named(fields))
		}
	}
	r.unknown("rewrite_manifests")
	return o, r.err()
}

func named(fields []string) string {
	if len(fields) == 0 {
		return "none"
	}
	return strings.Join(fields, ", ")
}

// Args are the options as arguments, so that they are read the same whatever becomes the table's default.
func (o ManifestsOptions) Args(given map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, given)
	out["spec_id"] = strconv.Itoa(o.SpecID)
	return out
}

// Manifest is what the planner sees of a manifest.
type Manifest struct {
	Location    string
	LengthBytes int64
	SpecID      int
	// Deletes says that it lists delete files.
	Deletes bool
}

// ManifestsPlan is what rewrite_manifests replaces, data and delete manifests apart.
type ManifestsPlan struct {
	Data, Deletes ManifestsChoice
}

// ManifestsChoice is what is replaced of one content; the zero value is nothing.
type ManifestsChoice struct {
	// Locations are the manifests to replace, in the order of the list; TotalBytes is their length.
	Locations  []string
	TotalBytes int64
	// Target is the number of manifests wanted instead: the total divided by the target size, rounded up.
	Target int
}

// Count is the number of manifests that are replaced.
func (p ManifestsPlan) Count() int { return len(p.Data.Locations) + len(p.Deletes.Locations) }

// Manifests chooses the manifests to replace, as Spark's rewrite_manifests does: all of the spec, whatever their size. Of a content nothing is
// replaced only when one manifest is wanted and there is exactly one.
//
// For example 40 manifests of 7,000 bytes at a target of 8 MiB become ceil(280,000 / 8,388,608) = 1.
func Manifests(manifests []Manifest, o ManifestsOptions) ManifestsPlan {
	var plan ManifestsPlan
	for _, m := range manifests {
		if m.SpecID != o.SpecID {
			continue
		}
		choice := &plan.Data
		if m.Deletes {
			choice = &plan.Deletes
		}
		choice.Locations = append(choice.Locations, m.Location)
		choice.TotalBytes += m.LengthBytes
	}
	for _, choice := range []*ManifestsChoice{&plan.Data, &plan.Deletes} {
		wanted := choice.TotalBytes / o.TargetSizeBytes
		if choice.TotalBytes%o.TargetSizeBytes > 0 {
			wanted++
		}
		choice.Target = int(min(wanted, math.MaxInt32))
		if choice.Target == 1 && len(choice.Locations) == 1 {
			*choice = ManifestsChoice{}
		}
	}
	return plan
}
