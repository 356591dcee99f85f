package evaluate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"firn/internal/contract"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/store"
)

// s3TablesSuffix ends the names of the buckets in which Amazon S3 Tables keeps the files of a table.
const s3TablesSuffix = "--table-s3"

// Maintained asks who else maintains a table: two maintainers undo each other's work, so automatic runs leave such a table alone.
type Maintained struct {
	Table   maintenance.TableID
	Catalog catalogs.Catalog
	// Location is the table's, Policy its effective policy.
	Location string
	Policy   policy.Policy
	// ForeignRewriteMS is when somebody else rewrote files last, in milliseconds since the epoch; 0 for never.
	ForeignRewriteMS int64
	Now              time.Time
}

// By says who else maintains the table and what to do about it, "" when nobody seems to, or when the policy takes the table over. The error says that the
// catalog did not tell; what wraps catalogs.ErrTransient may be asked again.
func (m Maintained) By(ctx context.Context) (string, error) {
	const cure = "set takeover (on the table: firn.takeover=true) to maintain it here"
	if m.Policy.Takeover() {
		return "", nil
	}
	if at, err := store.ParseLocation(m.Location); err == nil && strings.HasSuffix(at.Authority, s3TablesSuffix) {
		return "Amazon S3 Tables maintains the table; " + cure, nil
	}
	if window := m.Policy.ForeignRewriteWindow(); window > 0 {
		if at := time.UnixMilli(m.ForeignRewriteMS); m.ForeignRewriteMS > 0 && m.Now.Sub(at) < window {
			return fmt.Sprintf("another engine rewrote the table at %s, foreign-rewrite-window is %s; %s", at.UTC().Format(time.RFC3339), window, cure), nil
		}
	}
	optimized, ok := m.Catalog.(catalogs.Optimized)
	if !ok {
		return "", nil
	}
	on, err := optimized.Optimizers(ctx, m.Table)
	if err != nil {
		return "", fmt.Errorf("ask for optimizers of %s: %w", m.Table, err)
	}
	if len(on) > 0 {
		return fmt.Sprintf("the catalog's own optimizers are on (%s); switch them off (aws glue delete-table-optimizer), or %s", strings.Join(on, ", "), cure), nil
	}
	return "", nil
}

// maintainer says who else maintains the table; "" when nobody seems to.
func (f *Function) maintainer(ctx context.Context, v *view) (string, error) {
	by, err := Maintained{
		Table: v.id, Catalog: v.catalog, Location: v.meta.Location, Policy: v.policy, ForeignRewriteMS: v.foreignRewrite(), Now: f.deps.Now(),
	}.By(ctx)
	if err != nil && !errors.Is(err, catalogs.ErrTransient) {
		f.deps.Log.WarnContext(ctx, "cannot tell whether the catalog maintains the table", "table", v.id.String(), "error", err)
		return "", nil
	}
	return by, err
}

// foreignRewrite is the time of the newest snapshot on the main branch's history by which somebody else rewrote files, in milliseconds since the epoch; 0
// for none.
func (v *view) foreignRewrite() int64 {
	for _, s := range slices.Backward(v.meta.Snapshots) {
		if s.Summary["operation"] == replaceOperation && s.Summary[contract.SummaryRunID] == "" {
			return s.TimestampMS
		}
	}
	return 0
}
