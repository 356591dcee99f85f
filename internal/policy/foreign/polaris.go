package foreign

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"firn/internal/maintenance"
	"firn/internal/policy"
)

// polarisAnswer is the answer to a question for applicable policies, or for one policy. Documentation and specification spell the list in two ways.
type polarisAnswer struct {
	Applicable []polarisPolicy `json:"applicable-policies"`
	Policies   []polarisPolicy `json:"policies"`
	Policy     *polarisPolicy  `json:"policy"`
}

type polarisPolicy struct {
	Name       string          `json:"name"`
	PolicyType string          `json:"policy-type"`
	Type       string          `json:"type"`
	Inherited  bool            `json:"inherited"`
	AppliedAt  string          `json:"appliedAt"`
	Namespace  []string        `json:"namespace"`
	Content    json.RawMessage `json:"content"`
}

// polarisContent is a policy's content, version 2025-02-03 of the four types.
type polarisContent struct {
	Version   string
	Enable    *bool
	Config    map[string]any
	MaxAge    *int64   `json:"max_orphan_file_age_in_days"`
	Locations []string `json:"locations"`
}

// polarisVersion is the version of the contents that we know; it may be left out.
const polarisVersion = "2025-02-03"

// polaris reads policies. An inherited one is weaker than one of the table itself, so it comes first.
func polaris(document []byte, match string) ([]Layer, error) {
	var a polarisAnswer
	if err := json.Unmarshal(document, &a); err != nil {
		return nil, fmt.Errorf("read Polaris' answer: %w: %w", ErrForeign, err)
	}
	all := slices.Concat(a.Applicable, a.Policies)
	if a.Policy != nil {
		all = append(all, *a.Policy)
	}
	weaker := func(p polarisPolicy) bool {
		return p.Inherited || p.AppliedAt != "" && p.AppliedAt != "table" && p.AppliedAt != "table-like"
	}
	slices.SortStableFunc(all, func(x, y polarisPolicy) int {
		switch {
		case weaker(x) == weaker(y):
			return 0
		case weaker(x):
			return -1
		}
		return 1
	})
	nearest := map[string]int{}
	for i := range all {
		if all[i].PolicyType == "" {
			all[i].PolicyType = all[i].Type
		}
		nearest[all[i].PolicyType] = i
	}
	var layers []Layer
	for i, p := range all {
		if i != nearest[p.PolicyType] && weaker(p) {
			continue // one that is attached nearer takes its place as a whole
		}
		if !strings.HasPrefix(p.PolicyType, "system.") {
			continue // not about maintenance
		}
		l, err := p.layer(match)
		if err != nil {
			return nil, err
		}
		layers = append(layers, l)
	}
	if len(layers) == 0 {
		return nil, fmt.Errorf("read Polaris' answer with %d policies, none of them of a type system.*: %w", len(all), ErrForeign)
	}
	return layers, nil
}

func (p polarisPolicy) layer(match string) (Layer, error) {
	l := Layer{Match: match, Values: map[string]string{}, From: fmt.Sprintf("Polaris policy %s (%s)", p.Name, p.PolicyType)}
	c, err := p.content()
	if err != nil {
		return l, err
	}
	if c.Enable == nil {
		return l, fmt.Errorf("read Polaris policy %s: its content does not say enable: %w", p.Name, ErrForeign)
	}
	jobs := map[string]maintenance.Job{
		"system.data-compaction": maintenance.RewriteDataFiles, "system.metadata-compaction": maintenance.RewriteManifests,
		"system.snapshot-expiry": maintenance.ExpireSnapshots, "system.snapshot-retention": maintenance.ExpireSnapshots,
		"system.orphan-file-removal": maintenance.RemoveOrphanFiles,
	}
	job, known := jobs[p.PolicyType]
	if !known {
		return l, fmt.Errorf("read Polaris policy %s: unknown type %s%s: %w", p.Name, p.PolicyType,
			maintenance.Suggestion(p.PolicyType, slices.Sorted(maps.Keys(jobs))), ErrForeign)
	}
	l.job(job, *c.Enable)
	if c.MaxAge != nil {
		l.set(string(job)+".older-than", days(*c.MaxAge))
	}
	if len(c.Locations) > 0 {
		l.note("locations %s were not imported: an automatic search looks under the table's own location", strings.Join(c.Locations, ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Config)) {
		l.config(job, name, c.Config[name])
	}
	return l, nil
}

// content is an object, or as text, as the API stores it.
func (p polarisPolicy) content() (polarisContent, error) {
	raw := []byte(p.Content)
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = []byte(text)
	}
	var c polarisContent
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&c); err != nil {
		return c, fmt.Errorf("read the content of Polaris policy %s: %w: %w", p.Name, ErrForeign, err)
	}
	if c.Version != "" && c.Version != polarisVersion {
		return c, fmt.Errorf("read the content of Polaris policy %s of version %q: want %s: %w", p.Name, c.Version, polarisVersion, ErrForeign)
	}
	return c, nil
}

// config imports one entry of the free configuration: names that Polaris' documentation uses, and those of Spark's options and our keys, with either kind of
// dash.
func (l *Layer) config(job maintenance.Job, name string, value any) {
	text := fmt.Sprint(value)
	dashed := strings.ReplaceAll(name, "_", "-")
	age := func(key string) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			l.note("%s = %s was not imported: it is no number of days", name, text)
			return
		}
		l.set(string(job)+"."+key, days(n))
	}
	switch {
	case job == maintenance.RewriteDataFiles && (dashed == "compaction-strategy" || dashed == "strategy"):
		l.strategy(text)
		return
	case job == maintenance.ExpireSnapshots && (dashed == "min-snapshot-to-keep" || dashed == "min-snapshots-to-keep"):
		l.set(string(job)+".retain-last", text)
		return
	case job == maintenance.ExpireSnapshots && dashed == "max-snapshot-age-days":
		age("older-than")
		return
	case job == maintenance.ExpireSnapshots && dashed == "max-ref-age-days":
		l.note("max_ref_age_days = %s was not imported: references have their own age, which expiry obeys (ALTER TABLE ... CREATE BRANCH ... RETAIN)", text)
		return
	case dashed == "prefix-mismatch-mode":
		text = strings.ToUpper(text)
	}
	key := string(job) + "." + dashed
	if object, is := value.(map[string]any); is {
		data, err := json.Marshal(object)
		if err != nil {
			l.note("%s was not imported: %v", name, err)
			return
		}
		text = string(data)
	}
	known := policy.KeyNames()
	if !slices.Contains(known, key) {
		l.note("%s = %s was not imported: no such key%s", name, text, maintenance.Suggestion(key, known))
		return
	}
	before := maps.Clone(l.Values)
	l.set(key, text)
	if err := l.check(); err != nil && l.Match != "" {
		l.Values = before
		l.note("%s = %s was not imported: %v", name, text, err)
	}
}
