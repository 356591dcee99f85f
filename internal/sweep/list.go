package sweep

import (
	"context"
	"errors"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/lake/reach"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// list writes the objects of one key range as sorted runs. It judges nothing: ages, hidden names and reachability are for reach, which runs when
// every range was listed.
func (s *step) list(ctx context.Context) (maintenance.SweepOutput, error) {
	location := s.work.Listed(s.in.Job, s.in.Item.Range)
	var result handoff.SweepListed
	err := s.work.Read(ctx, location, &result)
	if errors.Is(err, store.ErrNotFound) {
		if result, err = s.listRange(ctx, *s.in.Item); err == nil {
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
