package workflow

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"firn/internal/workflow/asl"
	"firn/internal/workflow/jsonata"
)

// maxArrayBytes bounds an object of InputType JSON, which is read as a whole.
const maxArrayBytes = 256 << 20

// location evaluates Arguments of an ItemReader or ResultWriter; a missing member is empty.
func (v *visit) location(t *asl.Template, member string) (bucket, name string, err error) {
	value, err := t.Eval(v.lookup(nil))
	if err != nil {
		return "", "", queryError(err)
	}
	object, ok := value.(*jsonata.Object)
	if !ok {
		return "", "", queryError(errors.New("field Arguments gave no object"))
	}
	for field, into := range map[string]*string{"Bucket": &bucket, member: &name} {
		given, ok := object.Lookup(field)
		if !ok {
			continue
		}
		if *into, ok = given.(string); !ok {
			return "", "", queryError(fmt.Errorf("field Arguments.%s is no string", field))
		}
	}
	return bucket, name, nil
}

// readItems reads the items of an ItemReader.
func (v *visit) readItems(ctx context.Context) ([]*data, error) {
	r := v.state.Map.Reader
	bucket, key, err := v.location(r.Arguments, "Key")
	if err != nil {
		return nil, err
	}
	most := -1
	if r.MaxItems != nil {
		n, err := r.MaxItems.Eval(v.lookup(nil))
		if err != nil {
			return nil, queryError(err)
		}
		most = int(n)
	}
	object, err := v.rt.Host.ReadObject(ctx, bucket, key)
	if err != nil {
		return nil, taskErrorf(asl.ErrorItemReader, "open %s/%s: %v", bucket, key, err)
	}
	read := readArray
	if r.Lines {
		read = readLines
	}
	items, err := read(object, most)
	if err = errors.Join(err, object.Close()); err != nil {
		return nil, taskErrorf(asl.ErrorItemReader, "read %s/%s: %v", bucket, key, err)
	}
	return items, nil
}

// readLines reads JSON Lines; empty lines are skipped. most < 0 means all.
func readLines(r io.Reader, most int) ([]*data, error) {
	var items []*data
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, MaxStateBytes+1)
	for number := 1; lines.Scan() && len(items) != most; number++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		item, err := textData(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		items = append(items, item)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", len(items)+1, err)
	}
	return items, nil
}

// readArray reads one JSON array.
func readArray(r io.Reader, most int) ([]*data, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxArrayBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxArrayBytes {
		return nil, fmt.Errorf("array is larger than %d bytes", maxArrayBytes)
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil || raw == nil {
		return nil, fmt.Errorf("want a JSON array: %w", err)
	}
	if most >= 0 {
		raw = raw[:min(most, len(raw))]
	}
	items := make([]*data, len(raw))
	for i, item := range raw {
		if items[i], err = textData(item); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
	}
	return items, nil
}

// resultManifest is manifest.json of a ResultWriter.
type resultManifest struct {
	DestinationBucket string
	MapRunArn         string
	ResultFiles       struct {
		FAILED, PENDING, SUCCEEDED []resultFile
	}
}

type resultFile struct {
	Key  string
	Size int
}

// childRecord describes a child in a result file.
type childRecord struct {
	ExecutionArn  string
	Input         string
	InputDetails  included
	Name          string
	Output        string    `json:",omitempty"`
	OutputDetails *included `json:",omitempty"`
	Error         string    `json:",omitempty"`
	Cause         string    `json:",omitempty"`
	StartDate     string    `json:",omitempty"`
	StateMachine  string    `json:"StateMachineArn"`
	Status        Status
	StopDate      string `json:",omitempty"`
}

type included struct{ Included bool }

// writeResults writes the children's results under Prefix/<map run>/ and returns where the manifest is.
func (v *visit) writeResults(ctx context.Context, r *mapRun) (*data, error) {
	bucket, prefix, err := v.location(v.state.Map.Writer.Arguments, "Prefix")
	if err != nil {
		return nil, err
	}
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	prefix += r.uuid + "/"
	manifest := resultManifest{DestinationBucket: bucket, MapRunArn: r.arn}
	manifest.ResultFiles.FAILED = []resultFile{}
	manifest.ResultFiles.PENDING = []resultFile{}
	manifest.ResultFiles.SUCCEEDED = []resultFile{}
	put := func(key string, content any) (int, error) {
		body, err := encodePlain(content)
		if err == nil {
			err = v.rt.Host.WriteObject(ctx, bucket, key, body)
		}
		if err != nil {
			return 0, taskErrorf(asl.ErrorResultWriter, "write %s/%s: %v", bucket, key, err)
		}
		return len(body), nil
	}
	for _, file := range []struct {
		name string
		list *[]resultFile
		have func(Result) bool
	}{
		{"SUCCEEDED", &manifest.ResultFiles.SUCCEEDED, func(r Result) bool { return r.Status == Succeeded }},
		{"FAILED", &manifest.ResultFiles.FAILED, func(r Result) bool { return r.Status != Succeeded && r.Status != "" }},
		{"PENDING", &manifest.ResultFiles.PENDING, func(r Result) bool { return r.Status == "" }},
	} {
		records := r.records(file.have, v.state.Map.Writer.Compact && file.name == "SUCCEEDED")
		if len(records) == 0 {
			continue
		}
		key := prefix + file.name + "_0.json"
		size, err := put(key, records)
		if err != nil {
			return nil, err
		}
		*file.list = append(*file.list, resultFile{key, size})
	}
	if _, err := put(prefix+"manifest.json", manifest); err != nil {
		return nil, err
	}
	details := jsonata.NewObject(2).Set("Bucket", bucket).Set("Key", prefix+"manifest.json")
	return valueData(jsonata.NewObject(2).Set("MapRunArn", r.arn).Set("ResultWriterDetails", details))
}

// records describes the children that a result file holds.
func (r *mapRun) records(have func(Result) bool, compact bool) []any {
	var out []any
	for i, result := range r.results {
		if !have(result) {
			continue
		}
		if compact {
			out = append(out, result.Output)
			continue
		}
		name := identity(r.uuid, fmt.Sprint(i))
		c := childRecord{
			ExecutionArn: ExecutionARN(r.machineARN, name), Name: name, StateMachine: r.machineARN, Status: result.Status,
			Input: string(r.batches[i].input.raw), InputDetails: included{true}, Error: result.Error, Cause: result.Cause,
		}
		switch result.Status {
		case "":
			c.Status = "PENDING"
		case Succeeded:
			c.Output, c.OutputDetails = string(result.Output), &included{true}
			fallthrough
		default:
			c.StartDate, c.StopDate = result.StartedAt.UTC().Format(time.RFC3339Nano), result.StoppedAt.UTC().Format(time.RFC3339Nano)
		}
		out = append(out, c)
	}
	return out
}

// encodePlain encodes without escaping <, > and &.
func encodePlain(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
