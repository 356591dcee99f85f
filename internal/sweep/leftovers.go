package sweep

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/lake"
	"firn/internal/lake/reach"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// leftovers are what a job may have left over, by canonical location.
type leftovers struct {
	// free may go if nothing reaches it.
	free map[string]reach.File
	// held stays, with the reason; it is reported if nothing reaches it.
	held map[string]heldFile
	// perhaps are those of the free that an attempt without answer may have landed: no surprise if the head reaches them.
	perhaps map[string]bool
	// content says that some of it may be named by manifest entries, so that the proof has to read manifests.
	content bool
}

type heldFile struct {
	reach.File
	why string
}

func (l *leftovers) hold(f reach.File, why string) { l.held[f.Canonical()] = heldFile{f, why} }

// endJob deletes the leftovers of one job that provably are in no snapshot of head, which was loaded after the job's fate logs were closed.
func (s *step) endJob(ctx context.Context, head *lake.Table, e *jobEnd, sum *handoff.SweepSummary) error {
	l := &leftovers{free: map[string]reach.File{}, held: map[string]heldFile{}, perhaps: map[string]bool{}}
	if err := s.sortOutputs(ctx, head, e, l); err != nil {
		return err
	}
	if err := e.sortUnneeded(l); err != nil {
		return err
	}
	if len(l.free)+len(l.held) == 0 {
		return nil
	}
	gone, err := s.unreachable(ctx, head, l, sum)
	if err != nil {
		return err
	}
	return s.removeLeftovers(ctx, e.job, gone, sum)
}

// sortUnneeded adds the files that commit handed over: metadata files that left the log, manifests and lists of attempts that were lost.
func (e *jobEnd) sortUnneeded(l *leftovers) error {
	for _, location := range e.unneeded {
		kind := reach.Data
		switch {
		case isMetadataFile(location):
			kind = reach.MetadataFile
		case strings.HasSuffix(location, ".avro"):
			kind = reach.Manifest
		default:
			l.content = true
		}
		f, err := reach.NewFile(location, kind, -1, 0)
		if err != nil {
			return err
		}
		if why := e.holding(location); why != "" {
			l.hold(f, why)
		} else {
			l.free[f.Canonical()] = f
		}
	}
	return nil
}

// holding says why an output must stay, "" when no attempt of any batch holds it.
func (e *jobEnd) holding(location string) string {
	for _, l := range e.logs {
		if why := l.holding(location); why != "" {
			return why
		}
	}
	return ""
}

// sortOutputs parts what the groups wrote. Free are the outputs that are in no attempt, or only in attempts that were definitely refused or are
// over: the logs are closed, so that no attempt comes after those in them.
func (s *step) sortOutputs(ctx context.Context, head *lake.Table, e *jobEnd, l *leftovers) error {
	anyUnknown := ""
	for _, log := range e.logs {
		if log.unknown() {
			anyUnknown = fmt.Sprintf("the state of batch %d of %s is unknown", log.batch, log.job)
		}
	}
	for key, f := range e.outputs {
		l.content = true
		if why := e.holding(f.Location); why != "" {
			l.hold(f, why)
			continue
		}
		l.free[key] = f
		l.perhaps[key] = slices.ContainsFunc(e.logs, func(log *fates) bool { return log.perhaps(f.Location) })
	}
	strays, err := s.strays(ctx, head, e)
	for _, f := range strays {
		l.content = true
		if anyUnknown != "" {
			l.hold(f, anyUnknown) // whose output it is cannot be told from its name
			continue
		}
		l.free[f.Canonical()] = f
	}
	return err
}

// strays are objects with the run's ID in their names that no result and no attempt mentions: what lost workers left, and manifests of a commit
// that died before it announced itself. They are looked for only when a batch did not take all its groups.
func (s *step) strays(ctx context.Context, head *lake.Table, e *jobEnd) ([]reach.File, error) {
	folders := slices.Clone(e.listed)
	if slices.ContainsFunc(e.logs, func(l *fates) bool { return l.closed && l.result == nil }) {
		folders = append(folders, reach.MetadataFolders(head.Metadata)...)
	}
	mentioned, err := s.mentioned(ctx)
	if err != nil || len(folders) == 0 {
		return nil, err
	}
	var out []reach.File
	seen := map[string]bool{}
	for _, folder := range folders {
		for info, err := range s.st.List(ctx, store.Join(folder, ""), store.ListOptions{}) {
			if err != nil {
				return nil, err
			}
			if !s.ofRun(info.Location) {
				continue
			}
			f, err := reach.NewFile(info.Location, reach.Listed, info.SizeBytes, info.ModifiedAt.UnixMilli())
			if err != nil {
				return nil, err
			}
			if !seen[f.Canonical()] && !mentioned[f.Canonical()] {
				seen[f.Canonical()] = true
				out = append(out, f)
			}
		}
	}
	return out, nil
}

// mentioned collects every location that any job of the run wrote down: in a group's result or in a fate log.
func (s *step) mentioned(ctx context.Context) (map[string]bool, error) {
	all := map[string]bool{}
	add := func(locations ...string) error {
		for _, l := range locations {
			canonical, err := store.Canonical(l)
			if err != nil {
				return err
			}
			all[canonical] = true
		}
		return nil
	}
	for info, err := range s.deps.Work.List(ctx, store.Join(s.work.Location(), ""), store.ListOptions{}) {
		if err != nil {
			return nil, err
		}
		name := info.Location[strings.LastIndexByte(info.Location, '/')+1:]
		switch {
		case strings.HasPrefix(name, "result-"):
			var r handoff.GroupResult
			if err := s.work.Read(ctx, info.Location, &r); err != nil {
				return nil, err
			}
			for _, o := range r.Outputs {
				if err := add(o.Path); err != nil {
					return nil, err
				}
			}
		case strings.HasPrefix(name, "fate-") && !strings.HasSuffix(name, ".end.json"):
			var f handoff.Fate
			if err := s.work.Read(ctx, info.Location, &f); err != nil {
				return nil, err
			}
			if err := add(append(f.Paths, f.Metadata...)...); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// unreachable returns the free files that no snapshot of head, its log or its statistics reach. Held files that nothing reaches are reported.
func (s *step) unreachable(ctx context.Context, head *lake.Table, l *leftovers, sum *handoff.SweepSummary) ([]reach.File, error) {
	var all []reach.File
	for _, f := range l.free {
		all = append(all, f)
	}
	for _, f := range l.held {
		all = append(all, f.File)
	}
	slices.SortFunc(all, func(a, b reach.File) int { return strings.Compare(a.Canonical(), b.Canonical()) })
	g := s.newGuard(nil, all)
	if err := g.walkAll(ctx, head, l.content, sum); err != nil {
		return nil, err
	}
	var gone []reach.File
	for _, f := range all {
		held, isHeld := l.held[f.Canonical()]
		switch {
		case g.reason(f) != "" && !isHeld && f.Kind != reach.MetadataFile && !l.perhaps[f.Canonical()]:
			s.log.WarnContext(ctx, "a file that was taken for a leftover is reachable", "location", f.Location)
			sum.Keep(f.Location, g.reason(f))
		case g.reason(f) != "":
		case isHeld:
			sum.Keep(f.Location, held.why)
		default:
			gone = append(gone, f)
		}
	}
	return gone, nil
}

// walkAll marks the candidates that head reaches.
func (g *guard) walkAll(ctx context.Context, head *lake.Table, content bool, sum *handoff.SweepSummary) error {
	hit := g.hit("the table reaches it")
	roots, err := reach.Roots(head.Metadata, head.Pointer.MetadataLocation)
	if err != nil {
		return err
	}
	for _, f := range roots {
		_ = hit(ctx, f) // never fails
	}
	depth := reach.ListsOnly
	if content {
		depth = reach.WithEntries
	}
	walk := &reach.Walk{Store: g.st}
	if err := walk.Snapshots(ctx, head.Metadata.Snapshots(), depth, hit); err != nil {
		return err
	}
	if err := g.lately(ctx, head, walk, depth, g.hit("a snapshot that left the table within the grace period reaches it")); err != nil {
		return err
	}
	if err := g.waiting(ctx, head, g.hit("an expiry has let go of it within the grace period")); err != nil {
		return err
	}
	c := walk.Counts()
	sum.Lists, sum.Manifests, sum.Entries = c.Lists, c.Manifests, c.Entries
	return nil
}

// removeLeftovers deletes behind deletion manifests and counts.
func (s *step) removeLeftovers(ctx context.Context, job maintenance.Job, files []reach.File, sum *handoff.SweepSummary) error {
	total := handoff.SweepDeleted{V: contract.PayloadVersion}
	n := 0
	for batch := range slices.Chunk(files, deleteBatch) {
		if err := s.writeDeletionManifest(ctx, job, fmt.Sprintf("abandoned-%06d", n), batch, "a run wrote it and provably did not commit it"); err != nil {
			return err
		}
		if _, err := s.removeAll(ctx, batch, &total); err != nil {
			return err
		}
		n++
	}
	sum.Candidates, sum.Deleted, sum.Failed, sum.Bytes = int64(len(files)), total.Deleted, total.Failed, total.Bytes
	sum.FailedByKind, sum.Failures = total.FailedByKind, total.Failures
	if len(files) > 0 {
		sum.Outcome = maintenance.Committed
	}
	for _, f := range files[:min(len(files), 20)] {
		sum.Files = append(sum.Files, f.Location)
	}
	return nil
}
