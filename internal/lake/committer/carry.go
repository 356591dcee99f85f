package committer

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// field is one member of a JSON object, its value as it was written.
type field struct {
	key   string
	value json.RawMessage
}

// object reads a JSON object with its members in order.
func object(data []byte) ([]field, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return nil, fmt.Errorf("read JSON object: got %v: %w", start, err)
	}
	var fields []field
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("read JSON object: %w", err)
		}
		f := field{key: fmt.Sprint(key)}
		if err := dec.Decode(&f.value); err != nil {
			return nil, fmt.Errorf("read JSON object: member %q: %w", f.key, err)
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// values makes fields addressable; of a key that occurs twice the last counts, as it does for the library.
func values(fields []field) map[string]json.RawMessage {
	m := make(map[string]json.RawMessage, len(fields))
	for _, f := range fields {
		m[f.key] = f.value
	}
	return m
}

// elementKey names the member that identifies an element of a top-level list of metadata.
func elementKey(list string) string {
	return map[string]string{
		"schemas": "schema-id", "partition-specs": "spec-id", "sort-orders": "order-id", "snapshots": "snapshot-id", "statistics": "snapshot-id",
		"partition-statistics": "snapshot-id", "encryption-keys": "key-id",
	}[list]
}

// carry writes the next metadata from three texts: raw (the base's file), before (the library's rendition of the base) and after (its rendition
// of the base with the change applied). Where before and after agree, the change touched nothing, and raw's text is taken: whole members,
// members that the library does not know, and single elements of lists.
func carry(raw, before, after []byte) ([]byte, error) {
	rawFields, err := object(raw)
	if err != nil {
		return nil, err
	}
	beforeFields, err := object(before)
	if err != nil {
		return nil, err
	}
	afterFields, err := object(after)
	if err != nil {
		return nil, err
	}
	was, rendered, now := values(rawFields), values(beforeFields), values(afterFields)
	var out []field
	for _, f := range afterFields {
		old, inRaw := was[f.key]
		switch {
		case inRaw && bytes.Equal(rendered[f.key], f.value):
			f.value = old
		case inRaw && elementKey(f.key) != "":
			f.value = carryElements(elementKey(f.key), old, rendered[f.key], f.value)
		case inRaw && f.key == "refs":
			f.value = carryMembers(old, rendered[f.key], f.value)
		}
		out = append(out, f)
	}
	for _, f := range rawFields {
		if _, written := now[f.key]; written {
			continue
		}
		_, known := rendered[f.key]
		switch {
		case !known:
			out = append(out, field{f.key, was[f.key]})
		case empty(f.key) != nil:
			out = append(out, field{f.key, empty(f.key)})
		}
		now[f.key] = f.value
	}
	return encode(out)
}

// empty is how a member is written that the change emptied. The library leaves it out; other readers may insist on one that was there.
func empty(key string) json.RawMessage {
	switch key {
	case "properties", "refs":
		return json.RawMessage("{}")
	case "snapshots", "snapshot-log", "metadata-log", "statistics", "partition-statistics", "encryption-keys":
		return json.RawMessage("[]")
	}
	return nil
}

// carryMembers does for an object what carryElements does for a list.
func carryMembers(raw, before, after json.RawMessage) json.RawMessage {
	rawFields, errRaw := object(raw)
	beforeFields, errBefore := object(before)
	afterFields, errAfter := object(after)
	if errRaw != nil || errBefore != nil || errAfter != nil {
		return after
	}
	was, rendered := values(rawFields), values(beforeFields)
	for i, f := range afterFields {
		if old, ok := was[f.key]; ok && bytes.Equal(rendered[f.key], f.value) {
			afterFields[i].value = old
		}
	}
	merged, err := encode(afterFields)
	if err != nil {
		return after
	}
	return merged
}

// carryElements writes a changed list: each element that the change did not touch in raw's text. A list that cannot be matched by identity is
// taken as the library wrote it.
func carryElements(key string, raw, before, after json.RawMessage) json.RawMessage {
	was, ok := byIdentity(key, raw)
	if !ok {
		return after
	}
	rendered, ok := byIdentity(key, before)
	if !ok {
		return after
	}
	var elements []json.RawMessage
	if err := json.Unmarshal(after, &elements); err != nil {
		return after
	}
	for i, e := range elements {
		id, ok := identity(key, e)
		if old, found := was[id]; ok && found && bytes.Equal(rendered[id], e) {
			elements[i] = old
		}
	}
	return list(elements)
}

// list writes a JSON array.
func list(elements []json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, e := range elements {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(e)
	}
	b.WriteByte(']')
	return b.Bytes()
}

// byIdentity indexes a list's elements; false when one has no identity or two have the same.
func byIdentity(key string, list json.RawMessage) (map[string]json.RawMessage, bool) {
	var elements []json.RawMessage
	if len(list) > 0 {
		if err := json.Unmarshal(list, &elements); err != nil {
			return nil, false
		}
	}
	index := make(map[string]json.RawMessage, len(elements))
	for _, e := range elements {
		id, ok := identity(key, e)
		if _, twice := index[id]; !ok || twice {
			return nil, false
		}
		index[id] = e
	}
	return index, true
}

// identity is the text of an element's identifying member.
func identity(key string, element json.RawMessage) (string, bool) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(element, &members); err != nil {
		return "", false
	}
	id, ok := members[key]
	return string(id), ok
}

// encode writes an object without white space, its members in order.
func encode(fields []field) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(f.key)
		if err != nil {
			return nil, fmt.Errorf("write JSON object: %w", err)
		}
		b.Write(key)
		b.WriteByte(':')
		if err := json.Compact(&b, f.value); err != nil {
			return nil, fmt.Errorf("write JSON object: member %q: %w", f.key, err)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
