package authority

import (
	"context"
	"iter"
	"slices"

	"firn/internal/store"
)

// Store returns the store under the rules: what lies outside of the warehouses cannot be read, written, listed or deleted. The work location may be
// read and written.
func (r Rules) Store(full store.Full) store.Full {
	if len(r.warehouses) == 0 {
		return full
	}
	return &fenced{Full: full, rules: r}
}

type fenced struct {
	store.Full
	rules Rules
}

func (f *fenced) use(location string) error {
	return f.rules.within(location, slices.Concat(f.rules.warehouses, f.rules.work))
}

// Get implements store.Reader.
func (f *fenced) Get(ctx context.Context, location string) ([]byte, error) {
	if err := f.use(location); err != nil {
		return nil, err
	}
	return f.Full.Get(ctx, location)
}

// GetRange implements store.Reader.
func (f *fenced) GetRange(ctx context.Context, location string, offset, length int64) ([]byte, error) {
	if err := f.use(location); err != nil {
		return nil, err
	}
	return f.Full.GetRange(ctx, location, offset, length)
}

// GetRangeInto implements store.BufferReader.
func (f *fenced) GetRangeInto(ctx context.Context, location string, offset, length int64, buf []byte) ([]byte, error) {
	if err := f.use(location); err != nil {
		return nil, err
	}
	return store.Buffered(f.Full).GetRangeInto(ctx, location, offset, length, buf)
}

// Head implements store.Reader.
func (f *fenced) Head(ctx context.Context, location string) (store.Info, error) {
	if err := f.use(location); err != nil {
		return store.Info{}, err
	}
	return f.Full.Head(ctx, location)
}

// Versions implements store.Versioned.
func (f *fenced) Versions(ctx context.Context, location string) ([]store.Version, error) {
	if err := f.rules.Location(location); err != nil {
		return nil, err
	}
	return store.Versions(f.Full).Versions(ctx, location)
}

// Undelete implements store.Versioned.
func (f *fenced) Undelete(ctx context.Context, location string, marker store.Version) error {
	if err := f.rules.Location(location); err != nil {
		return err
	}
	return store.Versions(f.Full).Undelete(ctx, location, marker)
}

// Put implements store.Writer.
func (f *fenced) Put(ctx context.Context, location string, data []byte, opts store.WriteOptions) error {
	if err := f.use(location); err != nil {
		return err
	}
	return f.Full.Put(ctx, location, data, opts)
}

// Create implements store.Writer.
func (f *fenced) Create(ctx context.Context, location string, opts store.WriteOptions) (store.Upload, error) {
	if err := f.use(location); err != nil {
		return nil, err
	}
	return f.Full.Create(ctx, location, opts)
}

// List implements store.Lister. A prefix inside of a warehouse lists nothing outside of it.
func (f *fenced) List(ctx context.Context, prefix string, opts store.ListOptions) iter.Seq2[store.Info, error] {
	if err := f.rules.Location(prefix); err != nil {
		return func(yield func(store.Info, error) bool) { yield(store.Info{}, err) }
	}
	return f.Full.List(ctx, inside(prefix, f.rules), opts)
}

// Uploads implements store.Lister.
func (f *fenced) Uploads(ctx context.Context, prefix string) iter.Seq2[store.IncompleteUpload, error] {
	if err := f.rules.Location(prefix); err != nil {
		return func(yield func(store.IncompleteUpload, error) bool) { yield(store.IncompleteUpload{}, err) }
	}
	return f.Full.Uploads(ctx, inside(prefix, f.rules))
}

// inside puts the slash behind a prefix that is a warehouse itself: s3://lake/raw would list s3://lake/raw_2 too.
func inside(prefix string, r Rules) string {
	if at, err := folder(prefix); err == nil && slices.Contains(r.warehouses, at) {
		return store.Join(prefix, "")
	}
	return prefix
}

// Delete implements store.Deleter: objects outside of the warehouses are failures, each by itself; the others go.
func (f *fenced) Delete(ctx context.Context, locations []string) (deleted int, failures []store.DeleteFailure, err error) {
	allowed := make([]string, 0, len(locations))
	for _, location := range locations {
		if err := f.rules.Location(location); err != nil {
			failures = append(failures, store.DeleteFailure{Location: location, Err: err})
			continue
		}
		allowed = append(allowed, location)
	}
	if len(allowed) == 0 {
		return 0, failures, nil
	}
	deleted, more, err := f.Full.Delete(ctx, allowed)
	return deleted, append(failures, more...), err
}

// AbortUpload implements store.Deleter.
func (f *fenced) AbortUpload(ctx context.Context, upload store.IncompleteUpload) error {
	if err := f.rules.Location(upload.Location); err != nil {
		return err
	}
	return f.Full.AbortUpload(ctx, upload)
}
