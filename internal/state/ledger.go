package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"firn/internal/maintenance"
)

const (
	headKey     = "head"
	shardPrefix = "shard#"
	// tablesKey is the partition key of the list of tables that have a head.
	tablesKey = "tables"
)

// LoadHead implements Ledgers.
func (s *itemStore) LoadHead(ctx context.Context, table maintenance.TableID) (Head, error) {
	var head Head
	version, err := s.load(ctx, tableKey(table), headKey, &head)
	if err != nil {
		return Head{}, err
	}
	head.Table, head.Version = table, version
	return head, nil
}

// SaveHead implements Ledgers. The table enters the list of tables before its head exists, so that a crash between leaves a name that
// schedule finds without counters, never counters that schedule does not find.
func (s *itemStore) SaveHead(ctx context.Context, head Head) (Head, error) {
	if head.Version == 0 {
		err := s.save(ctx, tablesKey, tableKey(head.Table), 0, head.Table)
		if err != nil && !errors.Is(err, ErrConditionFailed) {
			return Head{}, err
		}
	}
	if err := s.save(ctx, tableKey(head.Table), headKey, head.Version, head); err != nil {
		return Head{}, err
	}
	head.Version++
	return head, nil
}

// LoadShards implements Ledgers.
func (s *itemStore) LoadShards(ctx context.Context, table maintenance.TableID) ([]Shard, error) {
	head, err := s.LoadHead(ctx, table)
	if err != nil {
		return nil, err
	}
	if head.ShardCount == 0 {
		if head.Version == 0 {
			return nil, nil
		}
		return []Shard{{Generation: head.Generation, FoldedTo: head.SnapshotID, Partitions: head.Partitions}}, nil
	}
	var shards []Shard
	err = s.query(ctx, Query{PK: tableKey(table), Prefix: generationPrefix(head.Generation)}, func(item Item) error {
		shard := Shard{}
		if err := json.Unmarshal(item.Data, &shard); err != nil {
			return err
		}
		shard.Version = item.Version
		shards = append(shards, shard)
		return nil
	})
	return shards, err
}

func generationPrefix(generation int) string { return fmt.Sprintf("%s%06d#", shardPrefix, generation) }

func shardKey(generation, number int) string {
	return fmt.Sprintf("%s%06d", generationPrefix(generation), number)
}

// LoadShard implements Ledgers.
func (s *itemStore) LoadShard(ctx context.Context, table maintenance.TableID, generation, number int) (Shard, error) {
	var shard Shard
	version, err := s.load(ctx, tableKey(table), shardKey(generation, number), &shard)
	shard.Generation, shard.Number, shard.Version = generation, number, version
	return shard, err
}

// SaveShard implements Ledgers.
func (s *itemStore) SaveShard(ctx context.Context, table maintenance.TableID, shard Shard) (Shard, error) {
	if err := s.save(ctx, tableKey(table), shardKey(shard.Generation, shard.Number), shard.Version, shard); err != nil {
		return Shard{}, err
	}
	shard.Version++
	return shard, nil
}

// DropShards implements Ledgers. A shard that somebody changes meanwhile stays for the next call.
func (s *itemStore) DropShards(ctx context.Context, table maintenance.TableID, keep int) error {
	items, err := s.items.Query(ctx, Query{PK: tableKey(table), Prefix: shardPrefix})
	if err != nil {
		return fmt.Errorf("list shards of %s: %w", table, err)
	}
	for _, item := range items {
		if strings.HasPrefix(item.SK, generationPrefix(keep)) {
			continue
		}
		if err := s.items.Delete(ctx, item); err != nil && !errors.Is(err, ErrConditionFailed) {
			return fmt.Errorf("drop shard %s of %s: %w", item.SK, table, err)
		}
	}
	return nil
}

// DropTable implements Ledgers: shards first, the head after them, the name last.
func (s *itemStore) DropTable(ctx context.Context, table maintenance.TableID) error {
	items, err := s.items.Query(ctx, Query{PK: tableKey(table), Prefix: shardPrefix})
	if err != nil {
		return fmt.Errorf("list shards of %s: %w", table, err)
	}
	for _, key := range [][2]string{{tableKey(table), headKey}, {tablesKey, tableKey(table)}} {
		item, err := s.items.Get(ctx, key[0], key[1])
		if err != nil {
			return fmt.Errorf("read ledger of %s: %w", table, err)
		}
		items = append(items, item)
	}
	for _, item := range items {
		if item.Version == 0 {
			continue
		}
		if err := s.items.Delete(ctx, item); err != nil {
			return fmt.Errorf("drop ledger of %s: %w", table, err)
		}
	}
	return nil
}

// Tables implements Ledgers.
func (s *itemStore) Tables(ctx context.Context, cursor string, limit int) ([]maintenance.TableID, string, error) {
	var tables []maintenance.TableID
	last := ""
	err := s.query(ctx, Query{PK: tablesKey, After: cursor, Limit: limit}, func(item Item) error {
		var id maintenance.TableID
		if err := json.Unmarshal(item.Data, &id); err != nil {
			return err
		}
		tables, last = append(tables, id), item.SK
		return nil
	})
	if err != nil || limit == 0 || len(tables) < limit {
		last = ""
	}
	return tables, last, err
}

// historyKey sorts by time; the suffix keeps two records of one millisecond apart.
func historyKey(prefix string, atMS int64, suffix string) string {
	return fmt.Sprintf("%s%015d#%s", prefix, atMS, suffix)
}

const (
	runPrefix      = "run#"
	decisionPrefix = "decision#"
)

// SaveRun implements History. The run is stored under its table by time and, for lookups, under its ID.
func (s *itemStore) SaveRun(ctx context.Context, r RunRecord) error {
	keys := [][2]string{
		{tableKey(r.Run.Table), historyKey(runPrefix, r.StartedMS, string(r.Run.RunID))},
		{runPrefix + string(r.Run.RunID), headKey},
	}
	for _, key := range keys {
		if err := s.overwrite(ctx, key[0], key[1], r); err != nil {
			return fmt.Errorf("save run %s: %w", r.Run.RunID, err)
		}
	}
	return nil
}

// overwrite writes an item whatever its version.
func (s *itemStore) overwrite(ctx context.Context, pk, sk string, v any) error {
	for {
		item, err := s.items.Get(ctx, pk, sk)
		if err != nil {
			return err
		}
		if err := s.save(ctx, pk, sk, item.Version, v); !errors.Is(err, ErrConditionFailed) {
			return err
		}
	}
}

// Runs implements History.
func (s *itemStore) Runs(ctx context.Context, table maintenance.TableID, limit int) ([]RunRecord, error) {
	var runs []RunRecord
	err := s.query(ctx, Query{PK: tableKey(table), Prefix: runPrefix, Descending: true, Limit: limit}, func(item Item) error {
		var r RunRecord
		err := json.Unmarshal(item.Data, &r)
		runs = append(runs, r)
		return err
	})
	return runs, err
}

// FindRun implements History.
func (s *itemStore) FindRun(ctx context.Context, id maintenance.RunID) (RunRecord, bool, error) {
	var r RunRecord
	version, err := s.load(ctx, runPrefix+string(id), headKey, &r)
	return r, version > 0, err
}

// SaveDecision implements History. The key holds time, snapshot and action, so that a repeated save is the same item.
func (s *itemStore) SaveDecision(ctx context.Context, d Decision) error {
	suffix := strings.Join([]string{fmt.Sprint(d.SnapshotID), d.Action, string(d.RunID)}, "#")
	return s.overwrite(ctx, tableKey(d.Table), historyKey(decisionPrefix, d.AtMS, suffix), d)
}

// Decisions implements History.
func (s *itemStore) Decisions(ctx context.Context, table maintenance.TableID, limit int) ([]Decision, error) {
	var decisions []Decision
	err := s.query(ctx, Query{PK: tableKey(table), Prefix: decisionPrefix, Descending: true, Limit: limit}, func(item Item) error {
		var d Decision
		err := json.Unmarshal(item.Data, &d)
		decisions = append(decisions, d)
		return err
	})
	return decisions, err
}
