package event

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

const (
	// maxNesting bounds envelopes within envelopes.
	maxNesting = 6
	// maxBytes bounds one body, packed or not: half of what a queue takes, and more than any source but a commit's request with hundreds of columns.
	maxBytes = 512 << 10
	// maxTotalBytes bounds all bodies of one message together.
	maxTotalBytes = 4 * maxBytes
)

// decode unpacks one body and tells its shape.
func (d *decoder) decode(m Message, depth int) ([]Notice, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("unwrap more than %d envelopes: %w", maxNesting, ErrTooLarge)
	}
	body, err := d.unpack(m.Body)
	if err != nil {
		return nil, err
	}
	attributes := cloudAttributes(m.Attributes)
	if attributes["type"] != "" && len(body) == 0 {
		return d.cloudEvent(attributes, nil, depth)
	}
	v, err := parse(body)
	if err != nil {
		return nil, err
	}
	o, ok := v.(object)
	switch {
	case !ok:
		return nil, fmt.Errorf("decode event that is no object: %w", ErrUnknown)
	case attributes["type"] != "":
		return d.cloudEvent(attributes, o, depth)
	}
	return d.shape(o, depth)
}

// shape tells envelopes and sources apart by the members that only they have.
func (d *decoder) shape(o object, depth int) ([]Notice, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("unwrap more than %d envelopes: %w", maxNesting, ErrTooLarge)
	}
	switch {
	case o.text("Type") == "Notification" && o.has("Message"):
		return d.sns(o, depth)
	case o.text("Event") == "s3:TestEvent":
		return nil, nil
	case o.has("Records"):
		return d.records(o, depth)
	case o.has("records"):
		return d.kafka(o, depth)
	case o.has("topic") && o.has("value"):
		return d.kafkaRecord(o, depth)
	case o.has("detail-type"):
		return d.eventBridge(o, depth)
	case o.has("specversion"):
		return d.structured(o, depth)
	case o.has("v"):
		return own(o, "")
	case o.has("report-type"):
		return commitReport(o)
	case o.has("repositoryId"):
		return nessie(o)
	case o.has("event_type") || o.has("eventType") && o.has("resourceType"):
		return polaris(o)
	}
	return nil, fmt.Errorf("decode event with members %s: %w", o.names(), ErrUnknown)
}

// unpack reads gzip, bare or in base64; anything else is returned as it is, without the blanks around it.
func (d *decoder) unpack(body []byte) ([]byte, error) {
	if len(body) > maxBytes {
		return nil, fmt.Errorf("read event of %d bytes, more than %d: %w", len(body), maxBytes, ErrTooLarge)
	}
	body = bytes.TrimSpace(body) // blanks count as bytes, too
	if raw, err := base64.StdEncoding.DecodeString(string(body)); err == nil && bytes.HasPrefix(raw, gzipMagic()) {
		body = raw
	}
	if bytes.HasPrefix(body, gzipMagic()) {
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, fmt.Errorf("unpack event: %w: %w", ErrMalformed, err)
		}
		if body, err = io.ReadAll(io.LimitReader(r, maxBytes+1)); err != nil {
			return nil, fmt.Errorf("unpack event: %w: %w", ErrMalformed, err)
		}
		if len(body) > maxBytes {
			return nil, fmt.Errorf("unpack event of more than %d bytes: %w", maxBytes, ErrTooLarge)
		}
	}
	if d.left -= len(body); d.left < 0 {
		return nil, fmt.Errorf("read envelopes of more than %d bytes together: %w", maxTotalBytes, ErrTooLarge)
	}
	return body, nil
}

func gzipMagic() []byte { return []byte{0x1f, 0x8b} }

// sns unwraps a notification, of SNS to SQS, to HTTP or to a function.
func (d *decoder) sns(o object, depth int) ([]Notice, error) {
	if arn := strings.Split(o.text("TopicArn"), ":"); len(arn) > 4 {
		if err := d.admit(arn[4]); err != nil {
			return nil, err
		}
	}
	message, ok := o["Message"].(string)
	if !ok {
		return nil, fmt.Errorf("unwrap a notification without text: %w", ErrMalformed)
	}
	return d.decode(Message{Body: []byte(message), Attributes: attributesOf(o.at("MessageAttributes"), "Value")}, depth+1)
}

// attributesOf reads the texts of message attributes, which SNS and SQS wrap in objects of their own.
func attributesOf(o object, member string) map[string]string {
	out := map[string]string{}
	for name := range o {
		out[name] = o.at(name).text(member)
	}
	return out
}

// records unwraps deliveries to a function: of SNS, of SQS, and S3's classic notifications.
func (d *decoder) records(o object, depth int) ([]Notice, error) {
	list, ok := o["Records"].([]any)
	if !ok || len(list) == 0 {
		return nil, fmt.Errorf("unwrap records that are no list: %w", ErrMalformed)
	}
	return collect(list, func(r object) ([]Notice, error) {
		switch {
		case r.has("Sns"):
			return d.sns(r.at("Sns"), depth)
		case r.text("eventSource") == "aws:s3":
			return s3Record(r)
		case r.text("eventSource") == "aws:sqs" && r.has("body"):
			return d.decode(Message{Body: []byte(r.text("body")), Attributes: attributesOf(r.at("messageAttributes"), "stringValue")}, depth+1)
		}
		return nil, fmt.Errorf("unwrap record with members %s: %w", r.names(), ErrUnknown)
	})
}

// kafka unwraps the batch of a Kafka event source mapping: records by topic and partition.
func (d *decoder) kafka(o object, depth int) ([]Notice, error) {
	partitions := o.at("records")
	if len(partitions) == 0 {
		return nil, fmt.Errorf("unwrap a Kafka batch without records: %w", ErrMalformed)
	}
	var notices []Notice
	for _, name := range slices.Sorted(maps.Keys(partitions)) {
		list, _ := partitions[name].([]any)
		some, err := collect(list, func(r object) ([]Notice, error) { return d.kafkaRecord(r, depth) })
		if err != nil {
			return nil, err
		}
		notices = append(notices, some...)
	}
	return notices, nil
}

// kafkaRecord unwraps one record, as a batch and EventBridge Pipes have it: value in base64, headers as arrays of bytes.
func (d *decoder) kafkaRecord(o object, depth int) ([]Notice, error) {
	value, err := base64.StdEncoding.DecodeString(o.text("value"))
	if err != nil {
		return nil, fmt.Errorf("unwrap the value of a Kafka record: %w: %w", ErrMalformed, err)
	}
	headers := map[string]string{}
	list, _ := o["headers"].([]any)
	for _, item := range list {
		header, _ := item.(object)
		for name, v := range header {
			numbers, _ := v.([]any)
			text := make([]byte, 0, len(numbers))
			for _, number := range numbers {
				digits, _ := number.(json.Number)
				n, err := digits.Int64()
				if err != nil || n < -128 || n > 255 {
					return nil, fmt.Errorf("unwrap a header that is no list of bytes: %w", ErrMalformed)
				}
				text = append(text, byte(n)) // Java's bytes are signed
			}
			headers[name] = string(text)
		}
	}
	return d.decode(Message{Body: value, Attributes: headers}, depth+1)
}

// collect joins what each object of a list says.
func collect(list []any, each func(object) ([]Notice, error)) ([]Notice, error) {
	var notices []Notice
	for _, item := range list {
		o, ok := item.(object)
		if !ok {
			return nil, fmt.Errorf("unwrap a record that is no object: %w", ErrMalformed)
		}
		some, err := each(o)
		if err != nil {
			return nil, err
		}
		notices = append(notices, some...)
	}
	return notices, nil
}
