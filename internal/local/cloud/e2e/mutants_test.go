//go:build e2e

package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	mutate   = flag.String("mutants", "", "drop parts of the template whose names match, one by one, and let the scenarios notice each (all is .)")
	survived = flag.String("survivors", "", "file that gets the survivors")
	doneFile = flag.String("done", "", "file that keeps the verdicts: a later call goes on where this one ended, until the template changes")
)

// mutant is a template with one part dropped.
type mutant struct {
	name string
	doc  map[string]any
}

// mutants drops every statement, variable, filter, name of a retry, and setting of mappings, queues, targets and subscriptions, one at a time.
func mutants(t testing.TB) []mutant {
	var out []mutant
	original := document(t)
	add := func(name string, change func(doc map[string]any)) {
		doc := clone(t, original)
		change(doc)
		out = append(out, mutant{name, doc})
	}
	properties := func(doc map[string]any, id string) map[string]any {
		p, _ := doc["Resources"].(map[string]any)[id].(map[string]any)["Properties"].(map[string]any)
		return p
	}
	drop := func(id string, path ...any) {
		name := id
		for _, step := range path {
			name += fmt.Sprint("/", step)
		}
		add(name, func(doc map[string]any) { remove(properties(doc, id), path) })
	}
	resources := original["Resources"].(map[string]any)
	for _, id := range slices.Sorted(maps.Keys(resources)) {
		p := properties(original, id)
		switch resources[id].(map[string]any)["Type"] {
		case "AWS::IAM::Role":
			for i, policy := range p["Policies"].([]any) {
				for j := range policy.(map[string]any)["PolicyDocument"].(map[string]any)["Statement"].([]any) {
					drop(id, "Policies", i, "PolicyDocument", "Statement", j)
				}
			}
		case "AWS::IAM::Policy", "AWS::SQS::QueuePolicy", "AWS::S3::BucketPolicy", "AWS::SNS::TopicPolicy":
			for j := range p["PolicyDocument"].(map[string]any)["Statement"].([]any) {
				drop(id, "PolicyDocument", "Statement", j)
			}
		case "AWS::Lambda::Function":
			for _, name := range slices.Sorted(maps.Keys(p["Environment"].(map[string]any)["Variables"].(map[string]any))) {
				drop(id, "Environment", "Variables", name)
			}
		case "AWS::Events::Rule":
			for _, path := range leaves(p["EventPattern"], []any{"EventPattern"}) {
				drop(id, path...)
			}
			drop(id, "Targets", 0)
			drop(id, "Targets", 0, "DeadLetterConfig")
		case "AWS::Lambda::EventSourceMapping", "AWS::SNS::Subscription":
			for _, name := range slices.Sorted(maps.Keys(p)) {
				if name != "Region" { // it is the stack's own: nothing would change
					drop(id, name)
				}
			}
		case "AWS::SQS::Queue":
			for _, name := range []string{"RedrivePolicy", "VisibilityTimeout"} {
				if p["RedrivePolicy"] != nil {
					drop(id, name)
				}
			}
		case "AWS::Scheduler::Schedule":
			drop(id, "Target", "DeadLetterConfig")
			drop(id, "Target", "RetryPolicy")
		case "AWS::StepFunctions::StateMachine":
			out = append(out, retries(t, original, id)...)
		}
	}
	return out
}

// leaves are the paths of all fields of an event pattern, and of single values where a field has several.
func leaves(v any, path []any) [][]any {
	var out [][]any
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			at := append(slices.Clone(path), name)
			if inner, is := v[name].(map[string]any); is && inner["Fn::GetAtt"] == nil {
				out = append(out, leaves(inner, at)...)
				continue
			}
			out = append(out, at)
			if list, is := v[name].([]any); is && len(list) > 1 {
				for i := range list {
					out = append(out, append(slices.Clone(at), i))
				}
			}
		}
	}
	return out
}

// remove drops what a path leads to, and objects that become empty on the way.
func remove(v any, path []any) any {
	switch v := v.(type) {
	case map[string]any:
		name := path[0].(string)
		if len(path) == 1 {
			delete(v, name)
			return v
		}
		if inner := remove(v[name], path[1:]); empty(inner) {
			delete(v, name)
		} else {
			v[name] = inner
		}
		return v
	case []any:
		i := path[0].(int)
		if len(path) == 1 {
			return slices.Delete(v, i, i+1)
		}
		v[i] = remove(v[i], path[1:])
		return v
	}
	return v
}

func empty(v any) bool {
	m, is := v.(map[string]any)
	return is && len(m) == 0
}

// retries drops each name of an error from each retrier of the definition.
func retries(t testing.TB, original map[string]any, id string) []mutant {
	text := ofType(original, "AWS::StepFunctions::StateMachine")[id]["DefinitionString"].(string)
	var out []mutant
	var walk func(v any, path []any)
	var paths [][]any
	walk = func(v any, path []any) {
		switch v := v.(type) {
		case map[string]any:
			for name, inner := range v {
				if name == "Retry" {
					for i, retrier := range inner.([]any) {
						for j := range retrier.(map[string]any)["ErrorEquals"].([]any) {
							paths = append(paths, append(slices.Clone(path), "Retry", i, "ErrorEquals", j))
						}
					}
					continue
				}
				walk(inner, append(slices.Clone(path), name))
			}
		}
	}
	walk(decode(t, text), nil)
	slices.SortFunc(paths, func(a, b []any) int { return strings.Compare(fmt.Sprint(a...), fmt.Sprint(b...)) })
	for _, path := range paths {
		definition := decode(t, text)
		remove(definition, path)
		data, err := json.Marshal(definition)
		if err != nil {
			t.Fatal(err)
		}
		doc := clone(t, original)
		ofType(doc, "AWS::StepFunctions::StateMachine")[id]["DefinitionString"] = string(data)
		out = append(out, mutant{strings.Join(strings.Fields(fmt.Sprintln(append([]any{id}, path...)...)), "/"), doc})
	}
	return out
}

// scenario is one of the tests above, on a template of the caller's.
type scenario struct {
	name string
	play func(testing.TB, map[string]any)
}

// scenarios are in the order of what they cost.
func scenarios() []scenario {
	return []scenario{
		{"rules", rules},
		{"no plain text", noPlainText},
		{"undeliverable", undeliverable},
		{"clock fails", clockFails},
		{"powers", powers},
		{"commit event", commitEvent},
		{"secret", secretCatalog},
		{"other account", otherAccount},
		{"every retry", everyRetry},
		{"failed messages", failedMessages},
		{"duplicates", duplicatesAndDisorder},
		{"pending", pending},
		{"stop", stopInMidRun},
		{"every source", everySource},
		{"vanished", vanished},
		{"partial progress", partialProgress},
	}
}

// inOrder puts first what most likely notices a mutant.
func inOrder(mutant string) []scenario {
	all, first := scenarios(), ""
	switch {
	case strings.Contains(mutant, "/Retry/"):
		first = "every retry"
	case strings.Contains(mutant, "Role") || strings.Contains(mutant, "Variables") || strings.Contains(mutant, "Children"):
		first = "commit event"
	}
	slices.SortStableFunc(all, func(a, b scenario) int {
		switch {
		case a.name == first:
			return -1
		case b.name == first:
			return 1
		}
		return 0
	})
	return all
}

// judge is a test that notes its failure and spoils nobody else's.
type judge struct {
	testing.TB

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func (j *judge) note(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.failures = append(j.failures, text)
}

func (j *judge) Error(args ...any)            { j.note(fmt.Sprintln(args...)) }
func (j *judge) Errorf(f string, args ...any) { j.note(fmt.Sprintf(f, args...)) }
func (j *judge) Fatal(args ...any)            { j.note(fmt.Sprintln(args...)); runtime.Goexit() }
func (j *judge) Fatalf(f string, args ...any) { j.note(fmt.Sprintf(f, args...)); runtime.Goexit() }
func (j *judge) FailNow()                     { j.note("failed"); runtime.Goexit() }
func (j *judge) Fail()                        { j.note("failed") }
func (j *judge) Log(...any)                   {}
func (j *judge) Logf(string, ...any)          {}
func (j *judge) Failed() bool                 { return false }

func (j *judge) Cleanup(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.cleanups = append(j.cleanups, f)
}

// endless is the failure of a scenario that took too long.
const endless = "it does not end"

// play plays a scenario and returns the first failure, "" for none.
func play(t testing.TB, s scenario, doc map[string]any) string {
	j := &judge{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, f := range slices.Backward(j.cleanups) {
				f()
			}
		}()
		defer func() {
			if fault := recover(); fault != nil {
				j.note(fmt.Sprint("panic: ", fault))
			}
		}()
		s.play(j, doc)
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Minute):
		return endless
	}
	if len(j.failures) == 0 {
		return ""
	}
	return j.failures[0]
}

// verdict says which scenario noticed a mutant, and by what; By is "" for a mutant that lives.
type verdict struct {
	Of, Mutant, By, Why string
}

// examine plays scenarios on a mutant until one notices it.
func examine(t testing.TB, m mutant) verdict {
	for _, s := range inOrder(m.name) {
		if why := play(t, s, m.doc); why != "" {
			if why == endless && play(t, s, document(t)) == endless {
				t.Logf("%s does not end without %s either: this machine is too slow for it now", s.name, m.name)
				continue // it says nothing about the mutant
			}
			first, _, _ := strings.Cut(why, "\n")
			return verdict{edition(t), m.name, s.name, fmt.Sprintf("%.160s", first)}
		}
	}
	return verdict{edition(t), m.name, "", ""}
}

// edition is a digest of what the verdicts are about: the template and the configuration.
func edition(t testing.TB) string {
	h := sha256.New()
	for _, name := range []string{"template.json", "firn.yaml"} {
		data, err := os.ReadFile(filepath.Join(root, "infra", "testdata", "e2e", name))
		if err != nil {
			t.Fatal(err)
		}
		h.Write(data)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// judged are the verdicts of earlier calls on this very template, by mutant. A later line of the file replaces an earlier one.
func judged(t testing.TB) map[string]verdict {
	known := map[string]verdict{}
	if *doneFile == "" {
		return known
	}
	data, err := os.ReadFile(*doneFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	of := edition(t)
	for line := range strings.Lines(string(data)) {
		var v verdict
		if err := json.Unmarshal([]byte(line), &v); err == nil && v.Of == of { // a line cut short by a kill is judged anew
			known[v.Mutant] = v
		}
	}
	return known
}

// keep adds a verdict to the file of verdicts.
func keep(t testing.TB, v verdict) {
	if *doneFile == "" {
		return
	}
	line, err := json.Marshal(v)
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(*doneFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err == nil {
			_, err = f.Write(append(line, '\n'))
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// TestMutants drops parts of the template one by one; at least 95 of 100 are noticed by some scenario. The others are listed.
func TestMutants(t *testing.T) {
	if *mutate == "" {
		t.Skip("-mutants names none: make e2e-mutants")
	}
	chosen := regexp.MustCompile(*mutate)
	known := judged(t)
	var all, alive []string
	var mu sync.Mutex
	slots := make(chan struct{}, 2)
	var running sync.WaitGroup
	for _, m := range mutants(t) {
		if !chosen.MatchString(m.name) {
			continue
		}
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			v, is := known[m.name]
			if !is {
				v = examine(t, m)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, m.name)
			if !is {
				keep(t, v)
			}
			if v.By == "" {
				alive = append(alive, m.name)
				t.Logf("ALIVE  %s", m.name)
				return
			}
			t.Logf("caught %s by %s: %s", m.name, v.By, v.Why)
		})
	}
	running.Wait()
	slices.Sort(alive)
	if *survived != "" {
		if err := os.WriteFile(*survived, []byte(strings.Join(alive, "\n")+"\n"), 0o600); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d of %d caught; alive:\n%s", len(all)-len(alive), len(all), strings.Join(alive, "\n"))
	if len(all) == 0 || len(alive)*20 > len(all) {
		t.Errorf("%d of %d mutants live, at most 5 %% may", len(alive), len(all))
	}
}
