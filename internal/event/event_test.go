package event_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"firn/internal/event"
	"firn/internal/maintenance"
)

const samples = "../../events/samples/"

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(samples + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// sampleNames lists all samples as source/name.json.
func sampleNames(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(samples + "*/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d samples, %v", len(files), err)
	}
	for i := range files {
		files[i] = strings.TrimPrefix(filepath.ToSlash(files[i]), samples)
	}
	return files
}

// answer prints what a decoding gave: a line a notice, or the error.
func answer(notices []event.Notice, err error) string {
	if err != nil {
		return "refused: " + err.Error() + "\n"
	}
	if len(notices) == 0 {
		return "nothing\n"
	}
	var out strings.Builder
	for _, n := range notices {
		line, err := json.Marshal(n)
		if err != nil {
			return err.Error()
		}
		fmt.Fprintf(&out, "%s\n", strings.ReplaceAll(string(line), `\u001f`, "|"))
	}
	return out.String()
}

// TestSamples decodes every sample, plain and gzipped.
func TestSamples(t *testing.T) {
	t.Parallel()
	left := sampleNames(t)
	datadriven.RunTest(t, "testdata/samples.txt", func(t *testing.T, d *datadriven.TestData) string {
		name := d.CmdArgs[0].String()
		left = slices.DeleteFunc(left, func(s string) bool { return s == name })
		plain := read(t, name)
		want := answer(event.Decode(plain))
		for form, body := range map[string][]byte{"gzip": pack(t, plain), "base64": []byte(base64.StdEncoding.EncodeToString(pack(t, plain)))} {
			if got := answer(event.Decode(body)); got != want {
				t.Errorf("%s: %s gives %s, plain %s", name, form, got, want)
			}
		}
		return want
	})
	if len(left) > 0 {
		t.Errorf("samples that no line of testdata/samples.txt decodes: %v", left)
	}
}

// TestRefusals decodes hostile and broken messages.
func TestRefusals(t *testing.T) {
	t.Parallel()
	datadriven.RunTest(t, "testdata/refusals.txt", func(t *testing.T, d *datadriven.TestData) string {
		notices, err := event.Decode([]byte(d.Input))
		if err == nil || !errors.Is(err, event.ErrRefused) {
			t.Errorf("%s: %d notices, error %v, want a refusal", d.Pos, len(notices), err)
		}
		return answer(notices, err)
	})
}

func pack(t testing.TB, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(data); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func quote(t testing.TB, text string) string {
	t.Helper()
	data, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// wrappers puts a message into each envelope.
func wrappers(t testing.TB) map[string]func([]byte) []byte {
	t.Helper()
	text := func(b []byte) string { return quote(t, string(b)) }
	return map[string]func([]byte) []byte{
		"sns": func(b []byte) []byte {
			return []byte(`{"Type":"Notification","TopicArn":"arn:aws:sns:r:123456789012:t","Message":` + text(b) + `}`)
		},
		"sns to function": func(b []byte) []byte {
			return []byte(`{"Records":[{"EventSource":"aws:sns","Sns":{"Type":"Notification","Message":` + text(b) + `}}]}`)
		},
		"sqs": func(b []byte) []byte { return []byte(`{"Records":[{"eventSource":"aws:sqs","body":` + text(b) + `}]}`) },
		"eventbridge": func(b []byte) []byte {
			return []byte(`{"detail-type":"Any","source":"Pipe p","account":"123456789012","detail":` + text(b) + `}`)
		},
		"kafka": func(b []byte) []byte {
			return []byte(`{"topic":"t","headers":[],"value":"` + base64.StdEncoding.EncodeToString(b) + `"}`)
		},
		"gzip": func(b []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(pack(t, b))) },
	}
}

// TestEnvelopesNestInAnyOrder wraps every sample in each pair of envelopes: what it says stays the same.
func TestEnvelopesNestInAnyOrder(t *testing.T) {
	t.Parallel()
	for _, name := range sampleNames(t) {
		plain := read(t, name)
		want := answer(event.Decode(plain))
		for outer, wrap := range wrappers(t) {
			for inner, wrapInner := range wrappers(t) {
				if inner == "gzip" && (outer == "eventbridge" || outer == "gzip") {
					continue // a detail is JSON, and nobody packs twice
				}
				if got := answer(event.Decode(wrap(wrapInner(plain)))); got != want {
					t.Errorf("%s in %s in %s: %s, want %s", name, inner, outer, got, want)
				}
			}
		}
	}
}

func TestBoundsOfSizeDepthAndNumber(t *testing.T) {
	t.Parallel()
	own := func(hints string) []byte {
		return []byte(`{"v":1,"namespace":["db"],"table":"t","hints":` + hints + `}`)
	}
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	many := func(n int) []byte {
		return []byte(`{"detail-type":"Glue Data Catalog Database State Change","source":"aws.glue","detail":{"databaseName":"d","changedTables":[` +
			strings.TrimSuffix(strings.Repeat(`"t",`, n), ",") + `]}}`)
	}
	nested := func(n int) []byte {
		body := own("{}")
		for range n {
			body = wrappers(t)["sqs"](body)
		}
		return body
	}
	bomb := base64.StdEncoding.EncodeToString(pack(t, own(quote(t, strings.Repeat("x", 500<<10)))))
	bombs := func(n int) []byte {
		return []byte(`{"Records":[` + strings.TrimSuffix(strings.Repeat(`{"eventSource":"aws:sqs","body":"`+bomb+`"},`, n), ",") + `]}`)
	}
	for name, c := range map[string]struct {
		body []byte
		want error
	}{
		"half a megabyte":        {own(quote(t, strings.Repeat("x", 512<<10-100))), nil},
		"a megabyte":             {own(quote(t, strings.Repeat("x", 1<<20))), event.ErrTooLarge},
		"a megabyte, packed":     {pack(t, own(quote(t, strings.Repeat("x", 1<<20)))), event.ErrTooLarge},
		"a megabyte of blanks":   {append(bytes.Repeat([]byte(" "), 1<<20), own("{}")...), event.ErrTooLarge},
		"blanks around it":       {append([]byte(" \r\n\t"), append(own("{}"), " \n"...)...), nil},
		"a megabyte of brackets": {bytes.Repeat([]byte("["), 1<<20), event.ErrTooLarge},
		"63 deep":                {own(deep(63)), nil},
		"64 deep":                {own(deep(64)), event.ErrTooLarge},
		"10,000 deep":            {own(deep(10_000)), event.ErrTooLarge},
		"10,000 deep objects":    {own(strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000)), event.ErrTooLarge},
		"1,000 tables":           {many(1000), nil},
		"1,001 tables":           {many(1001), event.ErrTooLarge},
		"six envelopes":          {nested(6), nil},
		"seven envelopes":        {nested(7), event.ErrTooLarge},
		"three packed bodies":    {bombs(3), nil},
		"a hundred of them":      {bombs(100), event.ErrTooLarge},
		"a text's end missing":   {own("{}")[:30], event.ErrMalformed},
		"a packed end missing":   {pack(t, own("{}"))[:30], event.ErrMalformed},
		"no UTF-8":               {own("\"\xff\""), event.ErrMalformed},
	} {
		notices, err := event.Decode(c.body)
		if c.want == nil && (err != nil || len(notices) == 0) || !errors.Is(err, c.want) || err != nil && !errors.Is(err, event.ErrRefused) {
			t.Errorf("%s: %d notices, error %v, want %v", name, len(notices), err, c.want)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("%s: error of %d bytes", name, len(err.Error()))
		}
	}
}

// TestTruncatedSamplesAreRefused cuts every sample at every byte: no half of a message is a notice.
func TestTruncatedSamplesAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range sampleNames(t) {
		whole := bytes.TrimSpace(read(t, name))
		for n := range whole {
			if notices, err := event.Decode(whole[:n]); !errors.Is(err, event.ErrMalformed) {
				t.Fatalf("%s cut at %d: %v, %v", name, n, notices, err)
			}
		}
	}
}

func TestForeignAccountsAreRefused(t *testing.T) {
	t.Parallel()
	ours := event.Rules{Accounts: []string{"123456789012", "111122223333"}}
	others := event.Rules{Accounts: []string{"999999999999"}}
	for _, name := range []string{
		"glue/table-state-change.json", "s3/object-created.json", "cloudtrail/glue-update-table.json", "firn/committed-bus-pipe.json",
		"sns/committed-through-sqs.json", "sns/s3-direct.json", "sqs/s3-wrapped.json", "states/timed-out.json",
	} {
		m := event.Message{Body: read(t, name)}
		if _, err := ours.Decode(m); err != nil {
			t.Errorf("%s of our account: %v", name, err)
		}
		if _, err := others.Decode(m); !errors.Is(err, event.ErrForeignAccount) {
			t.Errorf("%s of another account: error %v", name, err)
		}
	}
	if _, err := others.Decode(event.Message{Body: read(t, "firn/committed.json")}); err != nil {
		t.Errorf("a message that names no account: %v", err)
	}
}

func TestBinaryModeOfMessageAttributes(t *testing.T) {
	t.Parallel()
	body := read(t, "firn/committed.json")
	for _, m := range []event.Message{
		{Body: body, Attributes: map[string]string{"ce_type": event.DetailType, "ce_id": "outer"}},
		{Body: body, Attributes: map[string]string{"Ce-Type": event.DetailType}},
		{Body: body, Attributes: map[string]string{"content-type": "application/json"}},
	} {
		if got := answer(event.Rules{}.Decode(m)); got != answer(event.Decode(body)) {
			t.Errorf("%v: %s", m.Attributes, got)
		}
	}
	attributes := map[string]string{
		"ce_type": "updateTable", "ce_tabular-id": "u", "ce_tabular-type": "table", "ce_namespace": "a\x1fb.c", "ce_name": "t", "ce_id": "i",
	}
	want := event.Notice{Source: event.SourceLakekeeper, EventID: "i", TableUUID: "u"}
	want.Table.Namespace, want.Table.Name = maintenance.NewNamespace("a", "b.c"), "t"
	if got, err := (event.Rules{}).Decode(event.Message{Attributes: attributes}); err != nil || !cmp.Equal(got, []event.Notice{want}) {
		t.Errorf("without a body: %+v, %v", got, err)
	}
	attributes["ce_name"] = "t'; DROP TABLE x"
	if _, err := (event.Rules{}).Decode(event.Message{Attributes: attributes}); !errors.Is(err, event.ErrBadName) {
		t.Errorf("hostile name in a header: %v", err)
	}
	if _, err := (event.Rules{}).Decode(event.Message{Attributes: map[string]string{"ce_type": "x"}}); !errors.Is(err, event.ErrUnknown) {
		t.Errorf("unknown type without a body: %v", err)
	}
}
