package sweep

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"firn/internal/contract"
	"firn/internal/decide"
	"firn/internal/handoff"
	"firn/internal/lake/reach"
	"firn/internal/maintenance"
	"firn/internal/store"
	"firn/internal/store/inventory"
)

// list writes the objects of one key range as sorted runs. It judges nothing: ages, hidden names and reachability are for reach, which runs when
// every range was listed.
func (s *step) list(ctx context.Context) (maintenance.SweepOutput, error) {
	location := s.work.Listed(s.in.Job, s.in.Item.Range)
	var result handoff.SweepListed
	err := s.work.Read(ctx, location, &result)
	if errors.Is(err, store.ErrNotFound) {
		list := s.listRange
		if s.in.Item.Location != "" {
			list = s.readList
		}
		if result, err = list(ctx, *s.in.Item); err == nil {
			_, err = s.work.WriteOnce(ctx, location, &result)
		}
	}
	return maintenance.SweepOutput{Next: maintenance.NextReach}, err
}

func (s *step) listRange(ctx context.Context, item maintenance.SweepItem) (handoff.SweepListed, error) {
	result := handoff.SweepListed{V: contract.PayloadVersion, Range: item.Range, StartedAtMS: s.deps.Now().UnixMilli()}
	sorter := reach.NewSorter(s.space("listed"))
	for info, err := range s.st.List(ctx, item.Prefix, store.ListOptions{StartAfter: item.StartAfter, EndAt: item.EndAt}) {
		if err != nil {
			return result, err
		}
		f, err := reach.NewFile(info.Location, reach.Listed, info.SizeBytes, info.ModifiedAt.UnixMilli())
		if err != nil {
			return result, err
		}
		if err := sorter.Add(ctx, f); err != nil {
			return result, err
		}
		result.Objects++
		result.SizeBytes += info.SizeBytes
	}
	result.EndedAtMS = s.deps.Now().UnixMilli()
	var err error
	result.Runs, err = sorter.Runs(ctx)
	return result, err
}

// readList reads one file of a list that somebody else made in place of a listing: what lies in the folder becomes sorted runs, in the folder's own scheme and
// bucket where the call says that these are the same. A list that cannot be used, and files in other buckets, are told to reach, which refuses.
func (s *step) readList(ctx context.Context, item maintenance.SweepItem) (handoff.SweepListed, error) {
	result := handoff.SweepListed{V: contract.PayloadVersion, Range: item.Range, StartedAtMS: s.deps.Now().UnixMilli()}
	sorter := reach.NewSorter(s.space("listed"))
	err := s.readPart(ctx, item, func(rules decide.OrphansOptions, o inventory.Object) error {
		location, same := rules.Respell(o.Location, rules.Location)
		if !same {
			if result.Mismatched++; len(result.Pairs) < maxPairs {
				result.Pairs = append(result.Pairs, o.Location+" against "+rules.Location)
			}
			return nil
		}
		f, err := reach.NewFile(location, reach.Listed, o.SizeBytes, o.ModifiedAtMS)
		if err != nil {
			return refusef("%v", err)
		}
		if !rules.Inside(location) {
			result.Outside++
			return nil
		}
		result.Objects++
		result.SizeBytes += max(0, o.SizeBytes)
		return sorter.Add(ctx, f)
	})
	if reason, refused := refusal(err); refused {
		result.Fault = reason
		return result, nil
	}
	if err != nil {
		return result, err
	}
	result.EndedAtMS = s.deps.Now().UnixMilli()
	result.Runs, err = sorter.Runs(ctx)
	return result, err
}

// readPart reads the item's file of the list.
func (s *step) readPart(ctx context.Context, item maintenance.SweepItem, each func(decide.OrphansOptions, inventory.Object) error) error {
	head, err := s.head(ctx)
	if err != nil {
		return err
	}
	rules, err := s.orphanRules(head)
	if err != nil {
		return err
	}
	parts, err := inventory.Parts(ctx, s.st, rules.FileListView)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(parts, func(p inventory.Part) bool { return p.Location == item.Location })
	if i < 0 {
		return refusef("the list %s names %s no more", rules.FileListView, item.Location)
	}
	for o, err := range parts[i].Objects(ctx, s.st) {
		if err != nil {
			return err
		}
		if err := each(rules, o); err != nil {
			return err
		}
	}
	return nil
}

// abortUploads gives up the incomplete multipart uploads under the swept folder that are older than the horizon. They are invisible to every
// reader; only the age tells whether their writer is still at work.
func (o *orphanSearch) abortUploads(ctx context.Context) (int64, error) {
	return o.eachUpload(ctx, o.swept, func(u store.IncompleteUpload) (bool, error) {
		f, err := reach.NewFile(u.Location, reach.Listed, -1, 0)
		if err != nil {
			return false, err
		}
		if u.StartedAt.UnixMilli() >= o.rules.OlderThanMS || u.StartedAt.UnixMilli() <= 0 || reach.Inside(f, o.others.nested) || o.inWork(f) {
			return false, nil
		}
		f.ModifiedAtMS = u.StartedAt.UnixMilli()
		return o.mayLand(f) == "", nil
	})
}

// eachUpload aborts the incomplete uploads under a prefix that want asks for, and counts them. In a dry run it only counts.
func (s *step) eachUpload(ctx context.Context, prefix string, want func(store.IncompleteUpload) (bool, error)) (int64, error) {
	var found []store.IncompleteUpload
	for u, err := range s.st.Uploads(ctx, prefix) {
		if err != nil {
			return 0, err
		}
		yes, err := want(u)
		if err != nil {
			return 0, err
		}
		if yes {
			found = append(found, u)
		}
	}
	if s.index.DryRun {
		return int64(len(found)), nil
	}
	aborted := int64(0)
	for _, u := range found {
		if err := s.st.AbortUpload(ctx, u); err != nil {
			s.log.WarnContext(ctx, "an incomplete upload stays", "location", u.Location, "error", err.Error())
			continue
		}
		s.log.InfoContext(ctx, "an incomplete upload was given up", "location", u.Location, "started_at", u.StartedAt.UTC().String())
		aborted++
	}
	return aborted, nil
}

// ofRun reports whether an object's name holds the run's ID.
func (s *step) ofRun(location string) bool {
	return strings.Contains(path.Base(location), string(s.in.Run.RunID))
}
