package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestDryRunSaysWhatBytesAndDollars: a dry run of the chain tells for each job how many files it would replace or delete, and in the end the bytes and the
// modelled cost.
func TestDryRunSaysWhatBytesAndDollars(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.reference("orphans")
	text := b.must("run", "--table", "db.orphans", "--dry-run", "--now", "2030-01-01T00:00:00Z").stdout
	for _, part := range []string{
		"would replace 5 manifests (36.1 KiB) by 1", "would delete 17 files (40.9 KiB)", "would delete 11 files (250 B)",
		"it would rewrite 36.1 KiB and delete 41.2 KiB, for about $0.0020 by the cost model", "nothing was changed",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the output does not say %q:\n%s", part, text)
		}
	}
	object := b.object(b.must("run", "--table", "db.orphans", "--dry-run", "--now", "2030-01-01T00:00:00Z", "--json"))
	total, _ := object["estimate"].(map[string]any)
	if total["rewritten_bytes"] != json.Number("36948") || total["deleted_bytes"] != json.Number("42145") || total["modelled_dollars"] != json.Number("0.002") {
		t.Errorf("estimate %v", total)
	}
	for _, done := range b.object(b.must("run", "--table", "db.orphans", "--job", "rewrite_manifests", "--json"))["jobs"].([]any) {
		if job := done.(map[string]any); job["estimate"] != nil {
			t.Errorf("a run that was no dry run estimates: %v", job)
		}
	}
	small := newBench(t)
	small.reference("small_v2")
	if text := small.must("run", "--table", "db.small_v2", "--dry-run", "--job", "rewrite_data_files").stdout; !strings.Contains(text, "would replace 128 files (221.7 KiB) by about 1") {
		t.Errorf("%s", text)
	}
}
