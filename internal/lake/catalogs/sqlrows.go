package catalogs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"firn/internal/lake/catalogs/sqlite"
)

// columnType is the column that schema V1 added; typeTable its value for tables (NULL means the same: rows from before the column).
const (
	columnType = "iceberg_type"
	typeTable  = "TABLE"
)

// errNoTables says that the database has no iceberg_tables: an empty catalog for those who read.
var errNoTables = errors.New("no iceberg_tables in the database")

// tableRow is a row of iceberg_tables; NULL is "".
type tableRow struct {
	catalog, namespace, table, location, kind string
}

// isView tells rows that are no tables. Java writes TABLE and VIEW.
func (r tableRow) isView() bool { return r.kind != "" && !strings.EqualFold(r.kind, typeTable) }

// hasColumn looks a column up, in any case of letters.
func hasColumn(columns []string, name string) bool {
	return slices.ContainsFunc(columns, func(c string) bool { return strings.EqualFold(c, name) })
}

// query reads rows of iceberg_tables by column name, so that schemas V0 and V1, and columns that others added, are all read alike.
func (c *SQL) query(ctx context.Context, query string, args ...any) (found []tableRow, err error) {
	rows, err := c.db.QueryContext(ctx, c.rebind(query), args...)
	if err != nil {
		return nil, c.readError(err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return nil, c.readError(err)
	}
	for rows.Next() {
		values := make([]sql.NullString, len(columns))
		targets := make([]any, len(columns))
		for i := range values {
			targets[i] = &values[i]
		}
		if err := rows.Scan(targets...); err != nil {
			return nil, c.readError(err)
		}
		var row tableRow
		for i, column := range columns {
			switch strings.ToLower(column) {
			case "catalog_name":
				row.catalog = values[i].String
			case "table_namespace":
				row.namespace = values[i].String
			case "table_name":
				row.table = values[i].String
			case "metadata_location":
				row.location = values[i].String
			case columnType:
				row.kind = values[i].String
			}
		}
		found = append(found, row)
	}
	if err := rows.Err(); err != nil {
		return nil, c.readError(err)
	}
	return found, nil
}

// exec runs one statement in its own transaction and returns how many rows it changed.
func (c *SQL) exec(ctx context.Context, query string, args ...any) (int64, error) {
	result, err := c.db.ExecContext(ctx, c.rebind(query), args...)
	if err != nil {
		return 0, classifySQL(err)
	}
	return result.RowsAffected()
}

// rebind writes PostgreSQL's numbered placeholders for question marks. None of our statements has a question mark elsewhere.
func (c *SQL) rebind(query string) string {
	if c.target.driver != driverPostgres {
		return query
	}
	var b strings.Builder
	n := 0
	for _, r := range query {
		if r != '?' {
			b.WriteRune(r)
			continue
		}
		n++
		b.WriteString("$" + strconv.Itoa(n))
	}
	return b.String()
}

// readError classifies an error of a read: anything about locks and connections may pass.
func (c *SQL) readError(err error) error {
	var pg *pgconn.PgError
	code, text, lite := sqlite.Code(err)
	switch {
	case errors.As(err, &pg):
		if pg.Code == "42P01" { // undefined_table
			return errNoTables
		}
		if transientState(pg.Code) {
			return fmt.Errorf("%w: %w", ErrTransient, err)
		}
		return err
	case lite:
		if code == sqlite.Error && strings.Contains(text, "no such table") {
			return errNoTables
		}
		switch code {
		case sqlite.Busy, sqlite.Locked, sqlite.IOErr:
			return fmt.Errorf("%w: %w", ErrTransient, err)
		case sqlite.CantOpen:
			return fmt.Errorf("open catalog database %s (registering a table creates it): %w", c.target.file, err)
		}
		return err
	case c.target.driver == driverPostgres && !errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %w", ErrTransient, err) // no answer of the server: connection, name look-up, timeout
	}
	return err
}

// transientState tells SQLSTATEs that may pass: connection, rollback, resources, operator intervention.
func transientState(code string) bool {
	return len(code) == 5 && slices.Contains([]string{"08", "40", "53", "57"}, code[:2])
}

// classifySQL names what a failed write proves. An answer of the server that it refused or rolled the statement back is a proof, since every
// statement is a transaction of its own; a broken connection, an interrupt and an I/O error are none.
func classifySQL(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && len(pg.Code) == 5 {
		switch {
		case pg.Code == "40001": // serialization_failure: another transaction changed the row first
			return fmt.Errorf("%w: %w", ErrConflict, err)
		case pg.Code == "25006", slices.Contains([]string{"22", "23", "28", "3D", "3F", "42"}, pg.Code[:2]):
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return err
	}
	switch code, _, _ := sqlite.Code(err); code {
	case sqlite.Error, sqlite.ReadOnly, sqlite.Perm, sqlite.Auth, sqlite.Constraint, sqlite.Full, sqlite.TooBig, sqlite.CantOpen:
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}
