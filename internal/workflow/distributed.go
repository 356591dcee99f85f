package workflow

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"

	"firn/internal/workflow/asl"
	"firn/internal/workflow/jsonata"
)

// errToleranceExceeded ends the children that are left.
var errToleranceExceeded = errors.New("tolerated failure threshold exceeded")

// batch is the input of one child and the number of items in it.
type batch struct {
	input *data
	items int
}

// mapRun is one run of a DISTRIBUTED Map: every child is an execution of its own, with its own history.
type mapRun struct {
	visit *visit
	// arn is the Map run's ARN; machineARN and uuid are its parts.
	arn, machineARN, uuid string
	batches               []batch
	tolerance             tolerance

	mu       sync.Mutex
	children []*execution // by batch; nil until the child started
	results  []Result     // by batch; zero until the child ended
	progress Progress
	first    *Result // the first failure
}

// tolerance says how many items may fail.
type tolerance struct {
	count, percentage float64
	hasCount, hasPct  bool
}

func (t tolerance) exceeded(failed, total int) bool {
	if !t.hasCount && !t.hasPct {
		return failed > 0
	}
	return (t.hasCount && float64(failed) > t.count) || (t.hasPct && float64(failed)*100 > t.percentage*float64(total))
}

// distributed runs a DISTRIBUTED Map.
func (v *visit) distributed(ctx context.Context) (*data, error) {
	r, started, err := v.openMapRun(ctx)
	if err != nil {
		return nil, err
	}
	workers, err := v.concurrency(asl.MaxDistributedConcurrency)
	if err != nil {
		return nil, err
	}
	if err := v.event(started, nil); err != nil {
		return nil, err
	}
	err = inParallel(ctx, workers, len(r.batches), r.child)
	if err != nil && !errors.Is(err, errToleranceExceeded) {
		return nil, err
	}
	var out *data
	if v.state.Map.Writer != nil {
		var failed error
		if out, failed = v.writeResults(ctx, r); failed != nil {
			return nil, failed
		}
	}
	ended := Event{Type: "MapRunSucceeded", State: v.state.Name, Progress: &r.progress}
	if err != nil {
		failure := r.failure()
		ended.Type, ended.Error, ended.Cause = "MapRunFailed", failure.Name, failure.Cause
		if err := v.history.add(ended); err != nil {
			return nil, err
		}
		return nil, failure
	}
	if err := v.history.add(ended); err != nil {
		return nil, err
	}
	if out == nil {
		out = r.outputs()
	}
	return out, nil
}

// openMapRun starts a Map run, or takes up the one that a redrive goes on with. It says what the history calls that.
func (v *visit) openMapRun(ctx context.Context) (*mapRun, string, error) {
	if r := v.mapRun; v.again && r != nil {
		v.mapRun, v.again = nil, false // a retry is a new Map run
		r.reopen(v)
		v.mapRun = r
		return r, "MapRunRedriven", nil
	}
	v.mapRun = nil
	r, err := v.newMapRun(ctx)
	v.mapRun = r
	return r, "MapRunStarted", err
}

// reopen forgets what did not succeed.
func (r *mapRun) reopen(v *visit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.visit, r.first = v, nil
	r.progress = Progress{Total: r.progress.Total, Succeeded: r.progress.Succeeded}
}

func (v *visit) newMapRun(ctx context.Context) (*mapRun, error) {
	m := v.state.Map
	items, err := v.source(ctx)
	if err != nil {
		return nil, err
	}
	if items, err = v.selectItems(items); err != nil {
		return nil, err
	}
	label := m.Label
	if label == "" {
		label = strings.Map(labelRune, v.state.Name)
		label = label[:min(len(label), asl.MaxLabelLength)]
	}
	r := &mapRun{visit: v, machineARN: v.machineARN + "/" + label}
	r.uuid = identity(v.arn, v.state.Name, fmt.Sprint(v.sequence()))
	r.arn = strings.Replace(r.machineARN, ":stateMachine:", ":mapRun:", 1) + ":" + r.uuid
	if r.batches, err = v.batches(items); err != nil {
		return nil, err
	}
	for i, b := range r.batches {
		if len(b.input.raw) > MaxStateBytes {
			return nil, checkSize(fmt.Sprintf("input of child %d", i), v.state.Name, len(b.input.raw))
		}
	}
	r.results, r.children = make([]Result, len(r.batches)), make([]*execution, len(r.batches))
	r.progress.Total = len(items)
	for _, bound := range []struct {
		number *asl.Number
		value  *float64
		given  *bool
	}{
		{m.ToleratedCount, &r.tolerance.count, &r.tolerance.hasCount},
		{m.ToleratedPercentage, &r.tolerance.percentage, &r.tolerance.hasPct},
	} {
		if bound.number == nil {
			continue
		}
		*bound.given = true
		if *bound.value, err = bound.number.Eval(v.lookup(nil)); err != nil {
			return nil, queryError(err)
		}
	}
	return r, nil
}

func labelRune(c rune) rune {
	if c == '-' || c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') {
		return c
	}
	return -1
}

// identity makes a name in the form of a UUID out of what it names, so that two runs of one test name alike.
func identity(parts ...string) string {
	h := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80 // version 8: custom
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// child runs the child of one batch; in a redrive one that failed goes on where it failed, and one that succeeded is left alone.
func (r *mapRun) child(ctx context.Context, i int) error {
	v, x := r.visit, r.children[i]
	switch {
	case r.results[i].Status == Succeeded: // before a redrive
		return nil
	case x != nil:
		return r.record(ctx, i, x.redrive(ctx))
	}
	x = newExecution(v.rt, &v.state.Map.Processor, r.machineARN, identity(r.uuid, fmt.Sprint(i)), r.batches[i].input)
	x.invoke, r.children[i] = v.invoke, x
	return r.record(ctx, i, x.run(ctx))
}

// record takes a child's end into account and says whether too many have failed.
func (r *mapRun) record(ctx context.Context, i int, result Result) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if result.Status == Aborted && ctx.Err() != nil {
		return nil // the Map run ended already: nobody blames the child
	}
	r.results[i] = result
	if result.Status == Succeeded {
		r.progress.Succeeded += r.batches[i].items
	} else {
		r.progress.Failed += r.batches[i].items
		if r.first == nil {
			r.first = &result
		}
	}
	progress := r.progress
	r.visit.history.tell(Event{Type: "MapRunProgress", State: r.visit.state.Name, Progress: &progress})
	if r.tolerance.exceeded(r.progress.Failed, r.progress.Total) {
		return errToleranceExceeded
	}
	return nil
}

// failure describes why the Map run failed.
func (r *mapRun) failure() *TaskError {
	r.progress.Aborted = r.progress.Total - r.progress.Succeeded - r.progress.Failed
	e := taskErrorf(asl.ErrorToleratedFail, "The specified tolerated failure threshold was exceeded: %d of %d items failed",
		r.progress.Failed, r.progress.Total)
	if r.first != nil {
		e.Cause += fmt.Sprintf("; first %s: %s", r.first.Error, shorten(r.first.Cause))
	}
	return e
}

// shorten keeps a cause readable inside another one.
func shorten(s string) string {
	const most = 1000
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + " ..."
}

// outputs joins the outputs of the children that succeeded, in item order.
func (r *mapRun) outputs() *data {
	list := make([]*data, len(r.results))
	for i, result := range r.results {
		if result.Status == Succeeded {
			list[i] = &data{raw: result.Output}
		}
	}
	return arrayOf(list)
}

// batches makes the children's inputs out of the selected items.
func (v *visit) batches(items []*data) ([]batch, error) {
	b := v.state.Map.Batcher
	if b == nil {
		out := make([]batch, len(items))
		for i, item := range items {
			out[i] = batch{item, 1}
		}
		return out, nil
	}
	maxItems, maxBytes := float64(len(items)), float64(asl.MaxBatchBytes)
	for _, limit := range []struct {
		number *asl.Number
		value  *float64
	}{{b.MaxItems, &maxItems}, {b.MaxBytes, &maxBytes}} {
		if limit.number == nil {
			continue
		}
		var err error
		if *limit.value, err = limit.number.Eval(v.lookup(nil)); err != nil {
			return nil, queryError(err)
		}
	}
	head := []byte(`{"Items":[`)
	if b.BatchInput != nil {
		value, err := b.BatchInput.Eval(v.lookup(nil))
		if err != nil {
			return nil, queryError(err)
		}
		raw, err := jsonata.Encode(value)
		if err != nil {
			return nil, queryError(err)
		}
		head = append(append([]byte(`{"BatchInput":`), raw...), `,"Items":[`...)
	}
	return packBatches(head, items, int(maxItems), int(maxBytes))
}

// packBatches fills batches in item order. maxBytes bounds a child's whole input, BatchInput included.
func packBatches(head []byte, items []*data, maxItems, maxBytes int) ([]batch, error) {
	const tail = "]}"
	var out []batch
	var text []byte
	n := 0
	flush := func() {
		if n > 0 {
			out = append(out, batch{&data{raw: append(text, tail...)}, n})
		}
		text, n = append([]byte{}, head...), 0
	}
	flush()
	for i, item := range items {
		if len(head)+len(item.raw)+len(tail) > maxBytes {
			return nil, taskErrorf(asl.ErrorDataLimit, "item %d alone makes a batch of %d bytes, at most %d are allowed",
				i, len(head)+len(item.raw)+len(tail), maxBytes)
		}
		if n == maxItems || (n > 0 && len(text)+1+len(item.raw)+len(tail) > maxBytes) {
			flush()
		}
		if n > 0 {
			text = append(text, ',')
		}
		text = append(text, item.raw...)
		n++
	}
	flush()
	return out, nil
}
