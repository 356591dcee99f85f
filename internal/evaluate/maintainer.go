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
	"firn/internal/store"
)

// s3TablesSuffix ends the names of the buckets in which Amazon S3 Tables keeps the files of a table.
const s3TablesSuffix = "--table-s3"

// maintainer says who else maintains the table, "" when nobody seems to, or when the policy takes the table over.
func (f *Function) maintainer(ctx context.Context, v *view) (string, error) {
	if v.policy.Takeover() {
		return "", nil
	}
	if at, err := store.ParseLocation(v.meta.Location); err == nil && strings.HasSuffix(at.Authority, s3TablesSuffix) {
		return "Amazon S3 Tables maintains the table; set takeover to maintain it here", nil
	}
	if window := v.policy.ForeignRewriteWindow(); window > 0 {
		if at := v.foreignRewrite(); at > 0 && f.deps.Now().Sub(time.UnixMilli(at)) < window {
			return fmt.Sprintf("another engine rewrote the table at %s, foreign-rewrite-window is %s; set takeover to maintain it here",
				time.UnixMilli(at).UTC().Format(time.RFC3339), window), nil
		}
	}
	optimized, ok := v.catalog.(catalogs.Optimized)
	if !ok {
		return "", nil
	}
	on, err := optimized.Optimizers(ctx, v.id)
	switch {
	case errors.Is(err, catalogs.ErrTransient):
		return "", fmt.Errorf("ask for optimizers of %s: %w", v.id, err)
	case err != nil:
		f.deps.Log.WarnContext(ctx, "cannot tell whether the catalog maintains the table", "table", v.id.String(), "error", err)
		return "", nil
	case len(on) > 0:
		return fmt.Sprintf("the catalog's own optimizers are on (%s); set takeover to maintain the table here", strings.Join(on, ", ")), nil
	}
	return "", nil
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
