//go:build !nosqlite

package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"

	_ "modernc.org/sqlite" // the driver registers itself
)

// sqlite keeps items in one table of a SQLite database. Several processes may share the file.
type sqlite struct{ db *sql.DB }

// OpenSQLite opens or makes the database file at an absolute path.
func OpenSQLite(ctx context.Context, path string) (Items, error) {
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		"_pragma": {"busy_timeout(30000)", "journal_mode(WAL)", "synchronous(FULL)"},
		"_txlock": {"immediate"},
	}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("open state database %s: %w", path, err)
	}
	_, err = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS firn_state (
		pk TEXT NOT NULL, sk TEXT NOT NULL, version INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (pk, sk)) WITHOUT ROWID`)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make state table in %s: %w", path, err), db.Close())
	}
	return &sqlite{db: db}, nil
}

// Get implements Items.
func (s *sqlite) Get(ctx context.Context, pk, sk string) (Item, error) {
	item := Item{PK: pk, SK: sk}
	err := s.db.QueryRowContext(ctx, `SELECT version, data FROM firn_state WHERE pk = ? AND sk = ?`, pk, sk).Scan(&item.Version, &item.Data)
	if errors.Is(err, sql.ErrNoRows) {
		return item, nil
	}
	return item, err
}

// Put implements Items.
func (s *sqlite) Put(ctx context.Context, item Item) error {
	if item.Version == 0 {
		res, err := s.db.ExecContext(ctx, `INSERT INTO firn_state (pk, sk, version, data) VALUES (?, ?, 1, ?) ON CONFLICT DO NOTHING`,
			item.PK, item.SK, item.Data)
		return s.one(res, err)
	}
	res, err := s.db.ExecContext(ctx, `UPDATE firn_state SET version = version + 1, data = ? WHERE pk = ? AND sk = ? AND version = ?`,
		item.Data, item.PK, item.SK, item.Version)
	return s.one(res, err)
}

// Delete implements Items.
func (s *sqlite) Delete(ctx context.Context, item Item) error {
	res, err := s.db.ExecContext(ctx, `DELETE FROM firn_state WHERE pk = ? AND sk = ? AND version = ?`, item.PK, item.SK, item.Version)
	if err == nil && item.Version == 0 {
		return nil
	}
	return s.one(res, err)
}

// one turns "no row changed" into ErrConditionFailed.
func (s *sqlite) one(res sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err != nil {
		return err
	}
	if n != 1 {
		return ErrConditionFailed
	}
	return nil
}

// Query implements Items.
func (s *sqlite) Query(ctx context.Context, q Query) ([]Item, error) {
	order, behind := "ASC", ">"
	if q.Descending {
		order, behind = "DESC", "<"
	}
	text := `SELECT sk, version, data FROM firn_state WHERE pk = ? AND sk >= ?`
	args := []any{q.PK, q.Prefix}
	if q.After != "" {
		text += ` AND sk ` + behind + ` ?`
		args = append(args, q.After)
	}
	rows, err := s.db.QueryContext(ctx, text+` ORDER BY sk `+order, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var items []Item
	for rows.Next() && (q.Limit == 0 || len(items) < q.Limit) {
		item := Item{PK: q.PK}
		if err := rows.Scan(&item.SK, &item.Version, &item.Data); err != nil {
			return nil, err
		}
		if strings.HasPrefix(item.SK, q.Prefix) {
			items = append(items, item)
		}
	}
	return items, rows.Err()
}

// Close implements Items.
func (s *sqlite) Close() error { return s.db.Close() }
