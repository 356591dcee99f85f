package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/apache/iceberg-go/table"

	"firn/internal/decide"
	"firn/internal/edge"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/sparksql"
	"firn/internal/store"
)

// argumentsOf are the arguments that a procedure takes beside its table, as flags give them.
func argumentsOf(job maintenance.Job) []string {
	switch job {
	case maintenance.RewriteDataFiles:
		return []string{"strategy", "sort_order", "where", "branch"}
	case maintenance.RewritePositionDeleteFiles:
		return []string{"where"}
	case maintenance.RewriteManifests:
		return []string{"use_caching", "spec_id", "sort_by"}
	case maintenance.ExpireSnapshots:
		return []string{"older_than", "retain_last", "clean_expired_metadata", "max_concurrent_deletes", "stream_results", handoff.ArgDeleteOutside}
	case maintenance.RemoveOrphanFiles:
		return []string{
			"older_than", "location", "prefix_mismatch_mode", "equal_schemes", "equal_authorities", "prefix_listing", "max_concurrent_deletes", "file_list_view",
			"stream_results", decide.UnsafeOlderThan, handoff.ArgEmptyTable,
		}
	}
	return nil
}

// checkFlags refuses arguments and options that the procedure does not take: none is silently ignored.
func checkFlags(r maintenance.JobRequest) error {
	var faults []error
	known := argumentsOf(r.Job)
	for name := range r.Args {
		if !slices.Contains(known, name) {
			faults = append(faults, fmt.Errorf("%s takes no %s%s", r.Job, strings.ReplaceAll(name, "_", "-"), maintenance.Suggestion(name, known)))
		}
	}
	if len(r.Options) > 0 && (!r.Job.Rewrites() || r.Job == maintenance.RewriteManifests) {
		faults = append(faults, fmt.Errorf("%s takes no options", r.Job))
	}
	if len(r.SnapshotIDs) > 0 && r.Job != maintenance.ExpireSnapshots {
		faults = append(faults, fmt.Errorf("%s takes no snapshot-id", r.Job))
	}
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}

// checkValues checks options and arguments against the table before a run is started, so that a mistyped command ends as one. What the table itself
// refuses is left to the run.
func (a *app) checkValues(id maintenance.TableID, r maintenance.JobRequest) error {
	l, err := a.clients.Lake(a.ctx, id.Catalog)
	if err != nil {
		return err
	}
	t, err := lake.Load(a.ctx, l.Catalog, l.Store, id)
	if err != nil {
		return err
	}
	props := t.Metadata.Properties()
	switch r.Job {
	case maintenance.RewriteDataFiles:
		var strategy decide.Strategy
		if strategy, err = decide.ParseStrategy(r.Args["strategy"], r.Args["sort_order"], !t.Metadata.SortOrder().IsUnsorted()); err == nil {
			var opts decide.DataFilesOptions
			if opts, err = decide.ParseDataFilesOptions(strategy, r.Options, tableFacts(t.Metadata)); err == nil {
				_, err = t.Ordering(opts, r.Args["sort_order"])
			}
		}
		err = errors.Join(err, checkWhere(r))
	case maintenance.RewritePositionDeleteFiles:
		_, err = decide.ParsePositionDeletesOptions(r.Options, tableFacts(t.Metadata), t.Metadata.Version())
		err = errors.Join(err, checkWhere(r))
	case maintenance.RewriteEqualityDeleteFiles:
		_, err = decide.ParseEqualityDeletesOptions(r.Options, tableFacts(t.Metadata))
	case maintenance.RewriteManifests:
		_, err = decide.ParseManifestsOptions(r.Args, t.ManifestsTable())
	case maintenance.ExpireSnapshots:
		args := withoutKeys(r.Args, handoff.ArgDeleteOutside)
		_, err = decide.ParseSnapshotsOptions(args, r.SnapshotIDs, props, a.now())
	case maintenance.RemoveOrphanFiles:
		_, err = decide.ParseOrphansOptions(r.Args, decide.OrphansTable{Properties: props, Location: t.Metadata.Location()}, a.now(), handoff.ArgEmptyTable)
	}
	if errors.Is(err, decide.ErrOption) {
		return &usageError{err}
	}
	if errors.Is(err, decide.ErrRefused) {
		return nil
	}
	return err
}

// checkWhere reads the condition; whether the table has its columns is left to the run.
func checkWhere(r maintenance.JobRequest) error {
	where := r.Args["where"]
	if where == "" {
		return nil
	}
	if _, fault := sparksql.ParsePredicate(where); fault != nil {
		return &usageError{fmt.Errorf("read where: %w", fault)}
	}
	return nil
}

func tableFacts(meta table.Metadata) decide.TableFacts {
	facts := decide.TableFacts{Properties: meta.Properties(), CurrentSpecID: meta.DefaultPartitionSpec()}
	for _, spec := range meta.PartitionSpecs() {
		facts.SpecIDs = append(facts.SpecIDs, spec.ID())
	}
	return facts
}

func withoutKeys(m map[string]string, keys ...string) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		if !slices.Contains(keys, k) {
			out[k] = v
		}
	}
	return out
}

// hint is a sentence about what to do, for errors whose cause lies outside of Firn; "" when there is none.
func (a *app) hint(err error) string {
	var network *net.OpError
	cure := edge.Cure(err.Error(), a.asked)
	switch {
	case cure != "":
		return cure
	case errors.Is(err, catalogs.ErrNoSuchTable):
		return a.nearestTable()
	case strings.Contains(err.Error(), syscall.ENOSPC.Error()):
		return "make room there, then run again"
	case strings.Contains(err.Error(), syscall.EROFS.Error()):
		return "make the file system writable, then run again"
	case refusedForLoss(err):
		return "a file that the table names is gone: restore it, or roll the table back to a snapshot without it"
	case errors.Is(err, store.ErrPermission), errors.Is(err, fs.ErrPermission):
		return "check the permissions of the credentials in use; nothing was changed"
	case errors.Is(err, store.ErrNotFound):
		return "the catalog or the table names an object that is gone: restore it, or register an earlier metadata file; nothing was changed"
	case errors.As(err, &network), errors.Is(err, catalogs.ErrTransient), errors.Is(err, store.ErrTransient):
		return "check that the service runs and the catalog's uri is right, then try again"
	}
	return ""
}

// refusedForLoss tells a run that was refused because a file of the table is not there; its reason crossed the border of a function as text.
func refusedForLoss(err error) bool {
	outcome, is := errors.AsType[*outcomeError](err)
	return is && outcome.outcome == maintenance.Refused &&
		(strings.Contains(outcome.reason, store.ErrNotFound.Error()) || strings.Contains(outcome.reason, "the object is missing"))
}

// nearestTable names the table of the catalog that was probably meant.
func (a *app) nearestTable() string {
	if a.clients == nil || a.asked.Name == "" {
		return ""
	}
	ctx := context.WithoutCancel(a.ctx)
	l, err := a.clients.Lake(ctx, a.asked.Catalog)
	if err != nil {
		return ""
	}
	asked := maintenance.TableID{Namespace: a.asked.Namespace, Name: a.asked.Name}.String()
	var names []string
	for id, err := range l.Tables(ctx, "") {
		if err != nil && len(names) == 0 {
			return "the catalog's tables cannot be listed either: check the name, the catalog's uri or region, and the credentials"
		}
		if err != nil || len(names) == maxListedTables {
			break
		}
		names = append(names, maintenance.TableID{Namespace: id.Namespace, Name: id.Name}.String())
	}
	if nearest := maintenance.NearestName(asked, names); nearest != "" {
		return "did you mean " + nearest + "?"
	}
	if len(names) == 0 {
		return fmt.Sprintf("catalog %s has no Iceberg table: check its uri (for Glue: region and account), or register one", l.Name())
	}
	return fmt.Sprintf("catalog %s has %s%s", l.Name(), strings.Join(names[:min(len(names), maxNamedTables)], ", "), more(len(names)-maxNamedTables))
}

const (
	// maxListedTables bounds how many tables a suggestion looks at, maxNamedTables how many it names.
	maxListedTables = 1000
	maxNamedTables  = 5
)

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}
