package commit

import (
	"context"
	"errors"

	"firn/internal/contract"
	"firn/internal/handoff"
	"firn/internal/maintenance"
)

func (s *session) expire(context.Context) (handoff.CommitResult, error) {
	return handoff.CommitResult{}, maintenance.Named(contract.ErrorRefused, errors.New("expiry is not built yet"))
}
