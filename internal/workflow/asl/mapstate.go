package asl

import (
	"regexp"
	"unicode/utf8"

	"firn/internal/workflow/jsonata"
)

func items(v any) []any {
	if a, ok := v.(*jsonata.Array); ok {
		return a.Items
	}
	return nil
}

func (l *loader) mapState(r *reader, s *State) {
	transition(r, s)
	outputs(r, s)
	s.Retry, s.Catch = retriers(r), catchers(r)
	m := &MapSpec{}
	s.Map = m
	l.processor(r, s)
	m.Items, m.Selector = r.anyTemplate("Items"), r.anyTemplate("ItemSelector")
	if m.Items != nil && (m.Items.kind == object || (m.Items.kind == literal && m.Items.value != nil)) {
		r.fault("Items", "must be a list or an expression")
	}
	limit := bounds{0, MaxInlineConcurrency, true}
	if m.Distributed {
		limit.max = MaxDistributedConcurrency
		l.distributed(r, m)
	}
	m.MaxConcurrency = r.number("MaxConcurrency", limit)
	if m.Distributed {
		return
	}
	for _, name := range []string{
		"ItemReader", "ItemBatcher", "ResultWriter", "Label", "ToleratedFailureCount", "ToleratedFailurePercentage",
	} {
		if _, ok := r.take(name); ok {
			r.fault(name, "needs a processor in mode DISTRIBUTED, it is INLINE")
		}
	}
}

// processor reads ItemProcessor: its mode and its states.
func (l *loader) processor(r *reader, s *State) {
	v, ok := r.take("ItemProcessor")
	if !ok {
		r.fault("ItemProcessor", "is missing")
		return
	}
	p, ok := r.child(v, "ItemProcessor")
	if !ok {
		return
	}
	p.text("Comment", false)
	if v, ok := p.take("ProcessorConfig"); ok {
		if c, ok := p.child(v, p.at("ProcessorConfig")); ok {
			s.Map.Distributed = c.oneOf("Mode", "INLINE", "DISTRIBUTED") == "DISTRIBUTED"
			kind := c.text("ExecutionType", s.Map.Distributed)
			switch {
			case !s.Map.Distributed && kind != "":
				c.fault(c.at("ExecutionType"), "has no meaning in mode INLINE")
			case kind == "EXPRESS":
				c.fault(c.at("ExecutionType"), "EXPRESS is not supported: children may need more than 5 minutes")
			case kind != "" && kind != "STANDARD":
				c.fault(c.at("ExecutionType"), "%q is no execution type", kind)
			}
			c.finish("ProcessorConfig")
		}
	}
	s.Map.Processor = l.scope(p, r.state+"/")
	p.finish("ItemProcessor")
}

// distributed reads the fields that only a DISTRIBUTED Map has.
func (l *loader) distributed(r *reader, m *MapSpec) {
	m.Reader, m.Batcher, m.Writer = itemReader(r), itemBatcher(r), resultWriter(r)
	if m.Reader != nil && m.Items != nil {
		r.fault("ItemReader", "must not stand beside Items")
	}
	m.ToleratedCount = r.number("ToleratedFailureCount", bounds{0, 1e9, true})
	m.ToleratedPercentage = r.number("ToleratedFailurePercentage", bounds{0, 100, false})
	m.Label = r.text("Label", false)
	if m.Label == "" {
		return
	}
	if utf8.RuneCountInString(m.Label) > MaxLabelLength {
		r.fault("Label", "has %d characters, at most %d are allowed", utf8.RuneCountInString(m.Label), MaxLabelLength)
	}
	if !regexp.MustCompile(`^[0-9A-Za-z_-]+$`).MatchString(m.Label) {
		r.fault("Label", "may hold letters, digits, - and _ only")
	}
	if l.labels[m.Label] {
		r.fault("Label", "%q is used twice", m.Label)
	}
	l.labels[m.Label] = true
}

func itemReader(r *reader) *ItemReader {
	v, ok := r.take("ItemReader")
	if !ok {
		return nil
	}
	c, ok := r.child(v, "ItemReader")
	if !ok {
		return nil
	}
	out := &ItemReader{}
	resource(c, getObject)
	out.Arguments = c.arguments([]string{"Bucket", "Key"}, nil)
	if v, ok := c.take("ReaderConfig"); !ok {
		c.fault(c.at("ReaderConfig"), "is missing")
	} else if config, ok := c.child(v, c.at("ReaderConfig")); ok {
		kind := config.text("InputType", true)
		switch kind {
		case "JSON", "JSONL", "":
			out.Lines = kind == "JSONL"
		case "CSV", "MANIFEST", "PARQUET":
			config.fault(config.at("InputType"), "%s is not supported, JSON and JSONL are", kind)
		default:
			config.fault(config.at("InputType"), "%q is no input type, JSON and JSONL are supported", kind)
		}
		out.MaxItems = config.number("MaxItems", bounds{1, 100_000_000, true})
		config.finish("ReaderConfig")
	}
	c.finish("ItemReader")
	return out
}

func itemBatcher(r *reader) *ItemBatcher {
	v, ok := r.take("ItemBatcher")
	if !ok {
		return nil
	}
	c, ok := r.child(v, "ItemBatcher")
	if !ok {
		return nil
	}
	out := &ItemBatcher{
		MaxItems:   c.number("MaxItemsPerBatch", bounds{1, 1e8, true}),
		MaxBytes:   c.number("MaxInputBytesPerBatch", bounds{1, MaxBatchBytes, true}),
		BatchInput: c.anyTemplate("BatchInput"),
	}
	if out.MaxItems == nil && out.MaxBytes == nil {
		c.fault(c.path, "must have MaxItemsPerBatch or MaxInputBytesPerBatch")
	}
	c.finish("ItemBatcher")
	return out
}

func resultWriter(r *reader) *ResultWriter {
	v, ok := r.take("ResultWriter")
	if !ok {
		return nil
	}
	c, ok := r.child(v, "ResultWriter")
	if !ok {
		return nil
	}
	out := &ResultWriter{}
	resource(c, putObject)
	out.Arguments = c.arguments([]string{"Bucket"}, []string{"Prefix"})
	if v, ok := c.take("WriterConfig"); ok {
		if config, ok := c.child(v, c.at("WriterConfig")); ok {
			out.Compact = config.oneOf("Transformation", "NONE", "COMPACT") == "COMPACT"
			config.oneOf("OutputType", "JSON")
			config.finish("WriterConfig")
		}
	}
	c.finish("ResultWriter")
	return out
}
