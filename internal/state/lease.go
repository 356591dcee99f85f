package state

import (
	"context"
	"errors"
	"fmt"
	"time"

	"firn/internal/maintenance"
)

// leaseKey is the sort key of a table's lease item. The item stays when the lease is free, since its token must never repeat.
const leaseKey = "lease"

// leaseItem is the stored form of a lease; Held is false between runs.
type leaseItem struct {
	Held      bool              `json:"held"`
	Token     int64             `json:"token"`
	RunID     maintenance.RunID `json:"run_id"`
	Input     []byte            `json:"input"`
	Phase     LeasePhase        `json:"phase"`
	ExpiresMS int64             `json:"expires_ms"`
	Pending   bool              `json:"pending"`
	// LookedMS is when the last look began, held or not.
	LookedMS int64 `json:"looked_ms,omitempty"`
}

func (i leaseItem) lease(table maintenance.TableID) Lease {
	return Lease{
		Table: table, Token: i.Token, RunID: i.RunID, Input: i.Input, Phase: i.Phase, ExpiresAt: time.UnixMilli(i.ExpiresMS), Pending: i.Pending,
	}
}

// tableKey is the partition key of everything that belongs to one table.
func tableKey(t maintenance.TableID) string {
	return "table#" + t.Catalog + "\x1e" + string(t.Namespace) + "\x1e" + t.Name
}

// Acquire implements Leases.
func (s *itemStore) Acquire(ctx context.Context, table maintenance.TableID, now time.Time, ttl time.Duration,
	fill func(token int64) (maintenance.RunID, []byte),
) (Lease, error) {
	var item leaseItem
	version, err := s.load(ctx, tableKey(table), leaseKey, &item)
	if err != nil {
		return Lease{}, err
	}
	if item.Held && now.UnixMilli() < item.ExpiresMS {
		return item.lease(table), fmt.Errorf("acquire lease of %s held by run %s: %w", table, item.RunID, ErrLeaseHeld)
	}
	token := item.Token + 1
	next := leaseItem{Held: true, Token: token, Phase: LeaseStarting, ExpiresMS: now.Add(ttl).UnixMilli(), LookedMS: item.LookedMS}
	next.RunID, next.Input = fill(token)
	if err := s.save(ctx, tableKey(table), leaseKey, version, next); err != nil {
		if errors.Is(err, ErrConditionFailed) {
			return Lease{}, fmt.Errorf("acquire lease of %s in a race: %w", table, ErrLeaseHeld)
		}
		return Lease{}, err
	}
	return next.lease(table), nil
}

// Renew implements Leases.
func (s *itemStore) Renew(ctx context.Context, table maintenance.TableID, token int64, now time.Time, ttl time.Duration) error {
	return s.changeLease(ctx, table, token, func(i *leaseItem) {
		i.Phase = LeaseRunning
		i.ExpiresMS = now.Add(ttl).UnixMilli()
	})
}

// Release implements Leases.
func (s *itemStore) Release(ctx context.Context, table maintenance.TableID, token int64) (bool, error) {
	pending := false
	err := s.changeLease(ctx, table, token, func(i *leaseItem) {
		pending = i.Pending
		*i = leaseItem{Token: i.Token, LookedMS: i.LookedMS}
	})
	return pending, err
}

// MarkPending implements Leases. Several looks may meet the lease at once, and its run renews it meanwhile: it tries again then.
func (s *itemStore) MarkPending(ctx context.Context, table maintenance.TableID) (bool, error) {
	for {
		var item leaseItem
		version, err := s.load(ctx, tableKey(table), leaseKey, &item)
		if err != nil || !item.Held || item.Pending {
			return item.Held, err
		}
		err = s.changeItem(ctx, table, version, item, func(i *leaseItem) { i.Pending = true })
		if !errors.Is(err, ErrConditionFailed) {
			return err == nil, err
		}
	}
}

// Current implements Leases.
func (s *itemStore) Current(ctx context.Context, table maintenance.TableID) (Lease, bool, error) {
	var item leaseItem
	if _, err := s.load(ctx, tableKey(table), leaseKey, &item); err != nil || !item.Held {
		return Lease{}, false, err
	}
	return item.lease(table), true, nil
}

// LastLook implements Leases.
func (s *itemStore) LastLook(ctx context.Context, table maintenance.TableID) (Look, error) {
	var item leaseItem
	version, err := s.load(ctx, tableKey(table), leaseKey, &item)
	if err != nil {
		return Look{}, err
	}
	look := Look{Table: table, Held: item.Held, version: version, item: item}
	if item.Held {
		look.Lease = item.lease(table)
	}
	if item.LookedMS > 0 {
		look.At = time.UnixMilli(item.LookedMS)
	}
	return look, nil
}

// ClaimLook implements Leases.
func (s *itemStore) ClaimLook(ctx context.Context, last Look, at time.Time) error {
	return s.changeItem(ctx, last.Table, last.version, last.item, func(i *leaseItem) { i.LookedMS = at.UnixMilli() })
}

// changeLease applies change to the lease that has the token, and tries again when somebody changed the item meanwhile.
func (s *itemStore) changeLease(ctx context.Context, table maintenance.TableID, token int64, change func(*leaseItem)) error {
	for {
		var item leaseItem
		version, err := s.load(ctx, tableKey(table), leaseKey, &item)
		if err != nil {
			return err
		}
		if !item.Held || item.Token != token {
			return fmt.Errorf("use lease of %s with token %d: %w", table, token, ErrLeaseLost)
		}
		if err := s.changeItem(ctx, table, version, item, change); !errors.Is(err, ErrConditionFailed) {
			return err
		}
	}
}

func (s *itemStore) changeItem(ctx context.Context, table maintenance.TableID, version int64, item leaseItem, change func(*leaseItem)) error {
	change(&item)
	return s.save(ctx, tableKey(table), leaseKey, version, item)
}
