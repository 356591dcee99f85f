package handoff

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"firn/internal/contract"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// ErrVersion says that an object was written by another version of this code.
var ErrVersion = errors.New("unsupported handoff version")

// Work is one run's part of the work location. It builds names, and reads and writes objects; its methods may be called concurrently.
type Work struct {
	store store.ReadWriter
	base  string
}

// Open returns the part of the work location that belongs to a run.
func Open(st store.ReadWriter, workLocation string, run maintenance.RunID) *Work {
	return &Work{store: st, base: store.Join(workLocation, contract.WorkPrefix, string(run))}
}

// Location is the folder of the run, without closing slash.
func (w *Work) Location() string { return w.base }

// Index is the location of a job's plan index.
func (w *Work) Index(job maintenance.Job) string {
	return store.Join(w.base, string(job), "index.json")
}

// Part is the location of a part of a job's plan, under an attempt's own name: parts of an attempt that lost are never read.
func (w *Work) Part(job maintenance.Job, attempt, name string) string {
	return store.Join(w.base, string(job), "plan-"+attempt, name)
}

// Result is the location of a group's result.
func (w *Work) Result(job maintenance.Job, group int) string {
	return store.Join(w.base, string(job), fmt.Sprintf("result-%06d.json", group))
}

// RowMap is the location of the row map that one attempt at a group writes.
func (w *Work) RowMap(job maintenance.Job, group int, attempt string) string {
	return store.Join(w.base, string(job), fmt.Sprintf("rowmap-%06d-%s.json", group, attempt))
}

// Fate is the location of entry n of a batch's fate log.
func (w *Work) Fate(job maintenance.Job, batch, n int) string {
	return store.Join(w.base, string(job), fmt.Sprintf("fate-%04d-%04d.json", batch, n))
}

// FateEnd is the location of the settlement of entry n of a batch's fate log.
func (w *Work) FateEnd(job maintenance.Job, batch, n int) string {
	return store.Join(w.base, string(job), fmt.Sprintf("fate-%04d-%04d.end.json", batch, n))
}

// Commit is the location of a batch's commit result.
func (w *Work) Commit(job maintenance.Job, batch int) string {
	return store.Join(w.base, string(job), fmt.Sprintf("commit-%04d.json", batch))
}

// Sweep is the location of an object of sweep: listing runs, candidate ranges, deletion manifests, counts.
func (w *Work) Sweep(job maintenance.Job, name string) string {
	return store.Join(w.base, string(job), "sweep", name)
}

// UnsettledRun marks a run that left something to later ones: a commit of which nobody knew how it ended, or the files of an expiry that could not be
// deleted yet (not write-once: sweep removes it when nothing is left to do, and sets its time when an expiry is settled).
type UnsettledRun struct {
	V   int             `json:"v"`
	Run maintenance.Run `json:"run"`
	// NotBeforeMS is the time before which later runs need not look, 0 for none: the end of an expiry's grace period.
	NotBeforeMS int64 `json:"not_before_ms,omitempty"`
}

// EarlierDeletions are what a run deleted for earlier ones on its table (write-once, one a run).
type EarlierDeletions struct {
	V    int               `json:"v"`
	Runs []EarlierDeletion `json:"runs"`
}

// EarlierDeletion is what was deleted for one earlier run's expiry.
type EarlierDeletion struct {
	RunID   maintenance.RunID `json:"run_id"`
	Deleted SweepDeleted      `json:"deleted"`
}

// Earlier is the location of what the run deleted for earlier ones.
func (w *Work) Earlier() string { return store.Join(w.base, "earlier.json") }

// Unsettled is the folder of the marks of a table's unsettled runs, without closing slash; a mark has its run's ID for a name.
func Unsettled(workLocation, tableUUID string) string {
	return store.Join(workLocation, contract.UnsettledPrefix, tableUUID)
}

// Object turns a location into bucket and key for an ItemReader.
func Object(location string) (maintenance.Object, error) {
	loc, err := store.ParseLocation(location)
	if err != nil {
		return maintenance.Object{}, err
	}
	if loc.Scheme == "file" {
		return maintenance.Object{Bucket: "file", Key: loc.Key}, nil
	}
	return maintenance.Object{Bucket: loc.Authority, Key: loc.Key}, nil
}

// Location turns an item reader's bucket and key back into a location; scheme is the work location's.
func Location(scheme string, o maintenance.Object) string {
	return store.Location{Scheme: scheme, Authority: o.Bucket, Key: o.Key}.String()
}

// WriteOnce writes v as JSON. When the object exists already, the first writer's object is decoded into v and first is false.
func (w *Work) WriteOnce(ctx context.Context, location string, v any) (first bool, err error) {
	data, err := json.Marshal(v)
	if err != nil {
		return false, fmt.Errorf("encode %s: %w", location, err)
	}
	err = w.store.Put(ctx, location, data, store.WriteOptions{IfAbsent: true, ContentType: "application/json"})
	if errors.Is(err, store.ErrExists) {
		return false, w.Read(ctx, location, v)
	}
	if err != nil {
		return false, fmt.Errorf("write %s: %w", location, err)
	}
	return true, nil
}

// Replace writes v as JSON over what is there: only for objects that are not write-once.
func (w *Work) Replace(ctx context.Context, location string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", location, err)
	}
	if err := w.store.Put(ctx, location, data, store.WriteOptions{ContentType: "application/json"}); err != nil {
		return fmt.Errorf("write %s: %w", location, err)
	}
	return nil
}

// Read decodes the JSON object at location into v. An unknown version is ErrVersion; store.ErrNotFound when there is no object.
func (w *Work) Read(ctx context.Context, location string, v any) error {
	data, err := w.store.Get(ctx, location)
	if err != nil {
		return fmt.Errorf("read %s: %w", location, err)
	}
	head := struct {
		V int `json:"v"`
	}{contract.PayloadVersion}
	// What this release wrote begins with its version: only other objects need a look before they are decoded whole.
	if !bytes.HasPrefix(data, fmt.Appendf(nil, `{"v":%d,`, contract.PayloadVersion)) {
		head.V = 0
		if err := json.Unmarshal(data, &head); err != nil {
			return fmt.Errorf("decode %s: %w", location, err)
		}
	}
	if head.V != contract.PayloadVersion {
		return fmt.Errorf("decode %s: version %d: %w", location, head.V, ErrVersion)
	}
	// v may hold an attempt's own values: start from zero, so that nothing of them survives.
	if err := decodeFresh(data, v); err != nil {
		return fmt.Errorf("decode %s: %w", location, err)
	}
	return nil
}

// WriteLines writes values as JSON Lines.
func (w *Work) WriteLines(ctx context.Context, location string, lines []any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	for _, l := range lines {
		if err := enc.Encode(l); err != nil {
			return fmt.Errorf("encode %s: %w", location, err)
		}
	}
	if err := w.store.Put(ctx, location, buf.Bytes(), store.WriteOptions{ContentType: "application/x-ndjson"}); err != nil {
		return fmt.Errorf("write %s: %w", location, err)
	}
	return nil
}
