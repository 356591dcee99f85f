package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"firn/internal/workflow/asl"
	"firn/internal/workflow/jsonata"
)

// data is a JSON value on its way between states: its text, and its decoded form once somebody needs it. The text is what passes on
// where no expression touches the value, so numbers of any size survive.
type data struct {
	raw   json.RawMessage
	once  sync.Once
	value any
	err   error
}

// textData takes a JSON text and removes the space in it.
func textData(raw []byte) (*data, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	return &data{raw: b.Bytes()}, nil
}

// valueData encodes a value.
func valueData(v any) (*data, error) {
	raw, err := jsonata.Encode(v)
	if err != nil {
		return nil, err
	}
	d := &data{raw: raw, value: v}
	d.once.Do(func() {})
	return d, nil
}

func (d *data) decoded() (any, error) {
	d.once.Do(func() { d.value, d.err = jsonata.Decode(d.raw) })
	return d.value, d.err
}

// frame holds the variables of a scope. Only the goroutine of the scope changes it; iterations of an INLINE Map read their parent's
// while it waits for them.
type frame struct {
	parent *frame
	vars   map[string]any
	sizes  map[string]int
	item   *mapItem
}

// mapItem is $states.context.Map.Item.
type mapItem struct {
	index int
	value *data
}

func newFrame(parent *frame) *frame {
	return &frame{parent: parent, vars: map[string]any{}, sizes: map[string]int{}}
}

func (f *frame) lookup(name string) (any, bool) {
	for ; f != nil; f = f.parent {
		if v, ok := f.vars[name]; ok {
			return v, true
		}
	}
	return nil, false
}

func (f *frame) currentItem() *mapItem {
	for ; f != nil; f = f.parent {
		if f.item != nil {
			return f.item
		}
	}
	return nil
}

// assign sets variables after their values were evaluated.
func (f *frame) assign(values *jsonata.Object) error {
	for _, name := range values.Keys() {
		v, _ := values.Lookup(name)
		text, err := jsonata.Encode(v)
		if err != nil {
			return err
		}
		if len(text) > MaxVariableBytes {
			return taskErrorf(asl.ErrorDataLimit, "variable $%s has %d bytes, at most %d are allowed", name, len(text), MaxVariableBytes)
		}
		f.vars[name], f.sizes[name] = v, len(text)
	}
	var total int
	for _, n := range f.sizes {
		total += n
	}
	if total > MaxVariablesBytes {
		return taskErrorf(asl.ErrorDataLimit, "variables have %d bytes, at most %d are allowed", total, MaxVariablesBytes)
	}
	return nil
}
