package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"
	"sync"
	"time"
)

// Operation names a method of the port, for faults and counters.
type Operation string

// The operations. A streamed write is Create, then OpWrite for each Write, then Commit or Abort.
const (
	OpGet         Operation = "Get"
	OpGetRange    Operation = "GetRange"
	OpHead        Operation = "Head"
	OpPut         Operation = "Put"
	OpCreate      Operation = "Create"
	OpWrite       Operation = "Write"
	OpCommit      Operation = "Commit"
	OpAbort       Operation = "Abort"
	OpList        Operation = "List"
	OpUploads     Operation = "Uploads"
	OpDelete      Operation = "Delete"
	OpAbortUpload Operation = "AbortUpload"
	// OpAny matches every operation; OpChange matches those that change what others see: Put, Commit, Delete and AbortUpload.
	OpAny    Operation = ""
	OpChange Operation = "change"
)

// ErrCrashed is what every call answers after a rule with Crash struck.
var ErrCrashed = errors.New("crashed on purpose")

// Rule says which calls are disturbed and how. The zero Rule matches every call and changes nothing.
type Rule struct {
	// Operation and Contains select calls: by method, and by a part of the location (for Delete: of any location; only those fail, each as a
	// DeleteFailure, and the others are deleted. With Contains empty the whole Delete fails).
	Operation Operation
	Contains  string
	// Skip is how many matching calls pass first: Skip 2 means from the third on. Times is how many are struck then; 0 means all.
	Skip, Times int

	// Do, when set, runs before the call, without a lock: to change the world behind the caller's back, or to cancel its context.
	Do func()
	// Delay lets the call wait, Hold lets it wait until the channel is closed; both end with the context.
	Delay time.Duration
	Hold  <-chan struct{}
	// Err is the answer instead of the inner store's. With Applied the call is carried out all the same: a lost answer.
	Err     error
	Applied bool
	// Crash lets this and every later call fail with ErrCrashed, as if the process had died: before the call, or after it with Applied.
	Crash bool
}

// Call is one call that the wrapper saw.
type Call struct {
	Operation Operation
	// Location is the call's location or prefix; for Delete the first one.
	Location string
	// Objects is 1, for Delete the number of locations.
	Objects int
}

// Faults is a store that disturbs calls to another by rules, and counts all of them. It is for tests; it is safe for concurrent use.
type Faults struct {
	inner Full

	mu      sync.Mutex
	rules   []*activeRule
	counts  map[Operation]int
	calls   []Call
	fired   int
	crashed bool
}

type activeRule struct {
	Rule
	matched int
}

// NewFaults wraps inner. The first rule that matches a call and is due strikes it.
func NewFaults(inner Full, rules ...Rule) *Faults {
	f := &Faults{inner: inner, counts: map[Operation]int{}}
	f.Add(rules...)
	return f
}

// FailNth is the rule "the n-th call (from 1) of the operation fails with err".
func FailNth(op Operation, n int, err error) Rule {
	return Rule{Operation: op, Skip: n - 1, Times: 1, Err: err}
}

// CrashAfter is the rule "the process dies after n changes": the change after them is not carried out, nor is any later call.
func CrashAfter(n int) Rule { return Rule{Operation: OpChange, Skip: n, Crash: true} }

// Add appends rules.
func (f *Faults) Add(rules ...Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range rules {
		f.rules = append(f.rules, &activeRule{Rule: r})
	}
}

// Reset removes the rules, forgets the calls and ends a crash.
func (f *Faults) Reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules, f.calls, f.fired, f.crashed = nil, nil, 0, false
	clear(f.counts)
}

// Inner is the wrapped store: what a restarted process finds.
func (f *Faults) Inner() Full { return f.inner }

// Count is how often an operation was called, struck calls included.
func (f *Faults) Count(op Operation) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for o, c := range f.counts {
		if op.matches(o) {
			n += c
		}
	}
	return n
}

// Counts are the counts of all operations that were called.
func (f *Faults) Counts() map[Operation]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.counts)
}

// Calls are all calls in the order in which they came.
func (f *Faults) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Call(nil), f.calls...)
}

// Fired is how many calls were struck: 0 tells a loop over the n-th call that n is beyond the last.
func (f *Faults) Fired() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired
}

func (op Operation) matches(o Operation) bool {
	switch op {
	case OpAny:
		return true
	case OpChange:
		return o == OpPut || o == OpCommit || o == OpDelete || o == OpAbortUpload
	default:
		return op == o
	}
}

// strike counts the call, finds its rule and waits as the rule says. The rule is nil when the call is to pass.
func (f *Faults) strike(ctx context.Context, op Operation, locations ...string) (*Rule, error) {
	rule, err := f.due(op, locations)
	if rule == nil || err != nil {
		return nil, err
	}
	if rule.Do != nil {
		rule.Do()
	}
	if rule.Delay > 0 {
		if err := sleep(ctx, rule.Delay); err != nil {
			return nil, fmt.Errorf("%s %s: %w", op, locations, err)
		}
	}
	if rule.Hold != nil {
		select {
		case <-rule.Hold:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s %s: %w", op, locations, ctx.Err())
		}
	}
	if rule.Crash && !rule.Applied {
		f.crash()
		return nil, ErrCrashed
	}
	if rule.Err != nil && !rule.Applied && (op != OpDelete || rule.Contains == "") {
		return nil, rule.Err
	}
	return rule, nil
}

func (f *Faults) due(op Operation, locations []string) (*Rule, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	call := Call{Operation: op, Objects: len(locations)}
	if len(locations) > 0 {
		call.Location = locations[0]
	}
	f.counts[op]++
	f.calls = append(f.calls, call)
	if f.crashed {
		return nil, ErrCrashed
	}
	var struck *Rule
	for _, r := range f.rules {
		if !r.Operation.matches(op) || !containsPart(locations, r.Contains) {
			continue
		}
		r.matched++ // every rule counts every call, whichever rule strikes it
		if struck == nil && r.matched > r.Skip && (r.Times == 0 || r.matched <= r.Skip+r.Times) {
			f.fired++
			rule := r.Rule
			struck = &rule
		}
	}
	return struck, nil
}

func containsPart(locations []string, part string) bool {
	for _, l := range locations {
		if strings.Contains(l, part) {
			return true
		}
	}
	return part == ""
}

func (f *Faults) crash() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crashed = true
}

// answer replaces the answer of a call that was carried out, where the rule says so.
func (f *Faults) answer(rule *Rule, err error) error {
	switch {
	case rule == nil:
		return err
	case rule.Crash:
		f.crash()
		return ErrCrashed
	case rule.Err != nil:
		return rule.Err
	default:
		return err
	}
}

// Get implements Reader.
func (f *Faults) Get(ctx context.Context, location string) ([]byte, error) {
	rule, err := f.strike(ctx, OpGet, location)
	if err != nil {
		return nil, err
	}
	data, err := f.inner.Get(ctx, location)
	return data, f.answer(rule, err)
}

// GetRange implements Reader.
func (f *Faults) GetRange(ctx context.Context, location string, offset, length int64) ([]byte, error) {
	rule, err := f.strike(ctx, OpGetRange, location)
	if err != nil {
		return nil, err
	}
	data, err := f.inner.GetRange(ctx, location, offset, length)
	return data, f.answer(rule, err)
}

// Head implements Reader.
func (f *Faults) Head(ctx context.Context, location string) (Info, error) {
	rule, err := f.strike(ctx, OpHead, location)
	if err != nil {
		return Info{}, err
	}
	info, err := f.inner.Head(ctx, location)
	return info, f.answer(rule, err)
}

// Put implements Writer.
func (f *Faults) Put(ctx context.Context, location string, data []byte, opts WriteOptions) error {
	rule, err := f.strike(ctx, OpPut, location)
	if err != nil {
		return err
	}
	return f.answer(rule, f.inner.Put(ctx, location, data, opts))
}

// Create implements Writer.
func (f *Faults) Create(ctx context.Context, location string, opts WriteOptions) (Upload, error) {
	rule, err := f.strike(ctx, OpCreate, location)
	if err != nil {
		return nil, err
	}
	up, err := f.inner.Create(ctx, location, opts)
	if err = f.answer(rule, err); err != nil {
		return nil, err
	}
	return &faultyUpload{faults: f, ctx: ctx, location: location, inner: up}, nil
}

// List implements Lister. It is one call however many objects it yields.
func (f *Faults) List(ctx context.Context, prefix string, opts ListOptions) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		disturbed(ctx, f, OpList, prefix, f.inner.List(ctx, prefix, opts))(yield)
	}
}

// Uploads implements Lister.
func (f *Faults) Uploads(ctx context.Context, prefix string) iter.Seq2[IncompleteUpload, error] {
	return func(yield func(IncompleteUpload, error) bool) {
		disturbed(ctx, f, OpUploads, prefix, f.inner.Uploads(ctx, prefix))(yield)
	}
}

// disturbed is an iteration under a rule; with Applied the error comes after the last element.
func disturbed[T any](ctx context.Context, f *Faults, op Operation, prefix string, inner iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		rule, err := f.strike(ctx, op, prefix)
		if err != nil {
			yield(none, err)
			return
		}
		for v, err := range inner {
			if !yield(v, err) || err != nil {
				return
			}
		}
		if err := f.answer(rule, nil); err != nil {
			yield(none, err)
		}
	}
}

// Delete implements Deleter.
func (f *Faults) Delete(ctx context.Context, locations []string) (int, []DeleteFailure, error) {
	rule, err := f.strike(ctx, OpDelete, locations...)
	if err != nil {
		return 0, nil, err
	}
	if rule == nil || rule.Err == nil || rule.Contains == "" || rule.Crash {
		n, failures, err := f.inner.Delete(ctx, locations)
		return n, failures, f.answer(rule, err)
	}
	var pass []string
	var struck []DeleteFailure
	for _, l := range locations {
		if strings.Contains(l, rule.Contains) {
			struck = append(struck, DeleteFailure{Location: l, Err: rule.Err})
		}
		if !strings.Contains(l, rule.Contains) || rule.Applied {
			pass = append(pass, l)
		}
	}
	n, failures, err := f.inner.Delete(ctx, pass)
	if rule.Applied {
		n -= len(struck)
	}
	return n, append(failures, struck...), err
}

// AbortUpload implements Deleter.
func (f *Faults) AbortUpload(ctx context.Context, upload IncompleteUpload) error {
	rule, err := f.strike(ctx, OpAbortUpload, upload.Location)
	if err != nil {
		return err
	}
	return f.answer(rule, f.inner.AbortUpload(ctx, upload))
}

// faultyUpload is an upload whose steps the rules disturb.
type faultyUpload struct {
	faults   *Faults
	ctx      context.Context //nolint:containedctx // Write has none of its own
	location string
	inner    Upload
}

// Write implements Upload.
func (u *faultyUpload) Write(p []byte) (int, error) {
	rule, err := u.faults.strike(u.ctx, OpWrite, u.location)
	if err != nil {
		return 0, err
	}
	n, err := u.inner.Write(p)
	return n, u.faults.answer(rule, err)
}

// Commit implements Upload.
func (u *faultyUpload) Commit(ctx context.Context) error {
	rule, err := u.faults.strike(ctx, OpCommit, u.location)
	if err != nil {
		return err
	}
	return u.faults.answer(rule, u.inner.Commit(ctx))
}

// Abort implements Upload.
func (u *faultyUpload) Abort(ctx context.Context) error {
	rule, err := u.faults.strike(ctx, OpAbort, u.location)
	if err != nil {
		return err
	}
	return u.faults.answer(rule, u.inner.Abort(ctx))
}
