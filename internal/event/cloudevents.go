package event

import (
	"encoding/base64"
	"fmt"
	"strings"

	"firn/internal/maintenance"
)

// cloudAttributes returns the CloudEvents attributes among message attributes or headers (ce_type of Kafka, ce-type of HTTP), without prefix and in
// lower case; "type" is "" when the message is none in binary mode.
func cloudAttributes(attributes map[string]string) map[string]string {
	out := map[string]string{}
	for name, v := range attributes {
		name = strings.ToLower(name)
		if rest, ok := strings.CutPrefix(name, "ce_"); ok {
			out[rest] = v
		} else if rest, ok := strings.CutPrefix(name, "ce-"); ok {
			out[rest] = v
		}
	}
	return out
}

// structured reads an event that holds attributes and data in one object.
func (d *decoder) structured(o object, depth int) ([]Notice, error) {
	attributes := map[string]string{}
	for name := range o {
		attributes[name] = o.text(name)
	}
	switch {
	case o.has("data_base64"):
		data, err := base64.StdEncoding.DecodeString(o.text("data_base64"))
		if err != nil {
			return nil, fmt.Errorf("read data of a CloudEvent: %w: %w", ErrMalformed, err)
		}
		if data, err = d.unpack(data); err != nil {
			return nil, err
		}
		v, err := parse(data)
		if err != nil {
			return nil, err
		}
		inner, _ := v.(object)
		return d.cloudEvent(attributes, inner, depth)
	case o["data"] == nil:
		return d.cloudEvent(attributes, nil, depth)
	}
	data, err := o.inner("data")
	if err != nil {
		return nil, err
	}
	return d.cloudEvent(attributes, data, depth)
}

// cloudEvent decodes by type: our own, Lakekeeper's, or another source's event in a CloudEvents envelope.
func (d *decoder) cloudEvent(attributes map[string]string, data object, depth int) ([]Notice, error) {
	switch {
	case attributes["type"] == DetailType:
		return own(data, attributes["id"])
	case attributes["tabular-id"] != "":
		return lakekeeper(attributes, data)
	case data == nil:
		return nil, fmt.Errorf("decode CloudEvent of type %.60q without data: %w", attributes["type"], ErrUnknown)
	}
	return d.shape(data, depth+1)
}

// lakekeeper decodes the catalog's own events: attributes name the table, data is the request. Its extensions have hyphens, against the rule of
// CloudEvents.
func lakekeeper(attributes map[string]string, data object) ([]Notice, error) {
	if kind := attributes["tabular-type"]; kind != "" && !strings.EqualFold(kind, "table") {
		return nil, nil
	}
	n := Notice{Source: SourceLakekeeper, EventID: attributes["id"], Origin: attributes["warehouse-id"], TableUUID: attributes["tabular-id"]}
	var levels []string
	name := attributes["name"]
	switch attributes["type"] {
	case "updateTable":
		levels = maintenance.Namespace(attributes["namespace"]).Levels() // joined by the unit separator
		if identifier := data.at("identifier"); identifier != nil {      // the request has them apart
			var ok bool
			if levels, ok = texts(identifier["namespace"]); !ok {
				return nil, fmt.Errorf("decode Lakekeeper's request without namespace: %w", ErrMalformed)
			}
			name = identifier.text("name")
		}
	case "createTable", "registerTable", "dropTable", "renameTable":
		levels = strings.Split(attributes["namespace"], ".")
	default:
		return nil, nil // views, namespaces, warehouses
	}
	var err error
	if n.Table, err = identify("", levels, name); err != nil {
		return nil, fmt.Errorf("decode Lakekeeper's %s: %w", attributes["type"], err)
	}
	return []Notice{n}, nil
}
