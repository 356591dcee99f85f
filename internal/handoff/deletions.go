package handoff

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"firn/internal/maintenance"
	"firn/internal/store"
)

// A deletion manifest is written before a batch of objects is deleted: JSON Lines, one Deletion a line. Each attempt at a batch has its own, so that what
// an earlier one deleted stays on record.

// deletionSuffix ends the names of deletion manifests.
const deletionSuffix = ".manifest.jsonl"

// Deletion is one object that a run was about to delete.
type Deletion struct {
	// Location is the object.
	Location string
	// Kind names what the object was to the table: "data file", "manifest", ...
	Kind string
	// SizeBytes is negative, ModifiedAtMS 0, where nobody knew.
	SizeBytes    int64
	ModifiedAtMS int64
	RunID        maintenance.RunID
	Reason       string
}

// deletionLine is a Deletion as JSON: LocationBase64 holds a location that is no valid UTF-8.
type deletionLine struct {
	Location       string            `json:"location"`
	LocationBase64 string            `json:"location_base64,omitempty"`
	Kind           string            `json:"kind"`
	SizeBytes      int64             `json:"size_bytes"`
	ModifiedAtMS   int64             `json:"modified_at_ms,omitempty"`
	RunID          maintenance.RunID `json:"run_id"`
	Reason         string            `json:"reason"`
}

// DeletionManifest is a deletion manifest of a run.
type DeletionManifest struct {
	Location string
	Job      maintenance.Job
	// WrittenAt is the time by the work location's clock; the objects were deleted after it.
	WrittenAt time.Time
}

// DeletionManifest is the location of the manifest that one attempt at a batch of deletions writes.
func (w *Work) DeletionManifest(job maintenance.Job, batch, attempt string) string {
	return w.Sweep(job, batch+"-"+attempt+deletionSuffix)
}

// WriteDeletions writes a deletion manifest.
func (w *Work) WriteDeletions(ctx context.Context, location string, deletions []Deletion) error {
	lines := make([]any, len(deletions))
	for i, d := range deletions {
		line := deletionLine{Location: d.Location, Kind: d.Kind, SizeBytes: d.SizeBytes, ModifiedAtMS: d.ModifiedAtMS, RunID: d.RunID, Reason: d.Reason}
		if !utf8.ValidString(d.Location) {
			line.LocationBase64 = base64.StdEncoding.EncodeToString([]byte(d.Location))
		}
		lines[i] = line
	}
	return w.WriteLines(ctx, location, lines)
}

// Deletions reads a deletion manifest. One line that cannot be read makes the whole an error.
func (w *Work) Deletions(ctx context.Context, m DeletionManifest) ([]Deletion, error) {
	data, err := w.store.Get(ctx, m.Location)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", m.Location, err)
	}
	var out []Deletion
	for dec := json.NewDecoder(bytes.NewReader(data)); ; {
		var l deletionLine
		err := dec.Decode(&l)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err == nil && l.LocationBase64 != "" {
			var plain []byte
			plain, err = base64.StdEncoding.DecodeString(l.LocationBase64)
			l.Location = string(plain)
		}
		if err == nil && l.Location == "" {
			err = errors.New("no location")
		}
		if err != nil {
			return nil, fmt.Errorf("decode line %d of %s: %w", len(out)+1, m.Location, err)
		}
		out = append(out, Deletion{l.Location, l.Kind, l.SizeBytes, l.ModifiedAtMS, l.RunID, l.Reason})
	}
}

// DeletionManifests lists the deletion manifests of a job, in the order of their names.
func (w *Work) DeletionManifests(ctx context.Context, lister store.Lister, job maintenance.Job) ([]DeletionManifest, error) {
	var out []DeletionManifest
	for info, err := range lister.List(ctx, w.Sweep(job, ""), store.ListOptions{}) {
		if err != nil {
			return nil, fmt.Errorf("list the deletion manifests of %s: %w", job, err)
		}
		if strings.HasSuffix(info.Location, deletionSuffix) {
			out = append(out, DeletionManifest{Location: info.Location, Job: job, WrittenAt: info.ModifiedAt})
		}
	}
	return out, nil
}
