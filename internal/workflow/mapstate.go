package workflow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"firn/internal/workflow/asl"
	"firn/internal/workflow/jsonata"
)

// mapState runs one attempt of a Map.
func (v *visit) mapState(ctx context.Context) (outcome, error) {
	if err := v.event("MapStateStarted", nil); err != nil {
		return outcome{}, err
	}
	run := v.inline
	if v.state.Map.Distributed {
		run = v.distributed
	}
	out, err := run(ctx)
	if err != nil {
		return outcome{}, err
	}
	if err := checkSize("result", v.state.Name, len(out.raw)); err != nil {
		return outcome{}, err
	}
	if err := v.event("MapStateSucceeded", nil); err != nil {
		return outcome{}, err
	}
	result, err := out.decoded()
	if err != nil {
		return outcome{}, queryError(err)
	}
	return v.finish(v.state.Next, jsonata.NewObject(1).Set("result", result), out)
}

// source gives the items before selection: of the reader, of Items, or of the state's input.
func (v *visit) source(ctx context.Context) ([]*data, error) {
	m := v.state.Map
	if m.Reader != nil {
		return v.readItems(ctx)
	}
	var value any
	var err error
	if m.Items != nil {
		value, err = m.Items.Eval(v.lookup(nil))
	} else {
		value, err = v.input.decoded()
	}
	if err != nil {
		return nil, queryError(err)
	}
	array, ok := value.(*jsonata.Array)
	if !ok {
		return nil, queryError(errors.New("the items of a Map must be an array"))
	}
	items := make([]*data, len(array.Items))
	for i, item := range array.Items {
		if items[i], err = valueData(item); err != nil {
			return nil, queryError(err)
		}
	}
	return items, nil
}

// selectItems applies ItemSelector to each item.
func (v *visit) selectItems(items []*data) ([]*data, error) {
	if v.state.Map.Selector == nil {
		return items, nil
	}
	out := make([]*data, len(items))
	for i, item := range items {
		inner := &visit{
			execution: v.execution, frame: &frame{parent: v.frame, item: &mapItem{i, item}}, state: v.state, input: v.input,
			enteredAt: v.enteredAt, retries: v.retries,
		}
		value, err := v.state.Map.Selector.Eval(inner.lookup(nil))
		if err != nil {
			return nil, queryError(fmt.Errorf("item %d: %w", i, err))
		}
		if out[i], err = valueData(value); err != nil {
			return nil, queryError(err)
		}
	}
	return out, nil
}

// concurrency evaluates MaxConcurrency; 0 stands for the mode's limit.
func (v *visit) concurrency(limit float64) (int, error) {
	n := 0.0
	if v.state.Map.MaxConcurrency != nil {
		var err error
		if n, err = v.state.Map.MaxConcurrency.Eval(v.lookup(nil)); err != nil {
			return 0, queryError(err)
		}
	}
	if n == 0 {
		n = limit
	}
	return v.rt.parallelism(n), nil
}

// inline runs the iterations of an INLINE Map. The first failure ends the others and is the Map's.
func (v *visit) inline(ctx context.Context) (*data, error) {
	source, err := v.source(ctx)
	if err != nil {
		return nil, err
	}
	inputs, err := v.selectItems(source)
	if err != nil {
		return nil, err
	}
	workers, err := v.concurrency(asl.MaxInlineConcurrency)
	if err != nil {
		return nil, err
	}
	outputs := make([]*data, len(inputs))
	err = inParallel(ctx, workers, len(inputs), func(ctx context.Context, i int) error {
		f := newFrame(v.frame)
		f.item = &mapItem{i, source[i]}
		if err := v.event("MapIterationStarted", inputs[i].raw); err != nil {
			return err
		}
		var err error
		if outputs[i], err = v.runScope(ctx, f, &v.state.Map.Processor, inputs[i]); err != nil {
			return err
		}
		return v.event("MapIterationSucceeded", nil)
	})
	if err != nil {
		return nil, err
	}
	return arrayOf(outputs), nil
}

// arrayOf joins outputs into one JSON array; nil ones are left out.
func arrayOf(outputs []*data) *data {
	var b bytes.Buffer
	b.WriteByte('[')
	for _, out := range outputs {
		if out == nil {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.Write(out.raw)
	}
	b.WriteByte(']')
	return &data{raw: b.Bytes()}
}

// inParallel calls do for 0 to n-1, in this order, at most workers at once. The first error cancels the rest and is returned when all
// calls have returned.
func inParallel(ctx context.Context, workers, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	indexes := make(chan int)
	var group sync.WaitGroup
	for range min(workers, n) {
		group.Go(func() {
			for i := range indexes {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
feed:
	for i := range n {
		select {
		case indexes <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(indexes)
	group.Wait()
	return context.Cause(ctx)
}

// counter numbers from 1 and may be called by many goroutines.
func counter() func() int {
	var mu sync.Mutex
	var n int
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		n++
		return n
	}
}
