package catalogs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"os"
	"strconv"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // database/sql driver "pgx"

	"firn/internal/lake/catalogs/sqlite"
	"firn/internal/maintenance"
)

// database/sql names of the two drivers.
const (
	driverSQLite   = "sqlite"
	driverPostgres = "pgx"
)

// The tables of Java's JDBC catalog, schema V1, and of PyIceberg's SQL catalog. Databases with the older schema V0 lack iceberg_type; they
// are read and written as they are.
const (
	createTablesTable = `CREATE TABLE IF NOT EXISTS iceberg_tables (
		catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,
		metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5),
		PRIMARY KEY (catalog_name, table_namespace, table_name))`
	createNamespacesTable = `CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
		catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL, property_key VARCHAR(255) NOT NULL,
		property_value VARCHAR(1000) NOT NULL, PRIMARY KEY (catalog_name, namespace, property_key))`
)

// listPage is how many rows of iceberg_tables one query of Tables reads. Between pages no statement is open, so that a slow consumer holds no
// lock.
const listPage = 1000

// SQL is the catalog in a relational database: SQLite or PostgreSQL. Namespaces are stored with dots between their levels, as Java and
// PyIceberg do; a level that itself holds a dot is therefore listed as two.
type SQL struct {
	name   string
	target sqlTarget
	db     *sql.DB
}

var (
	_ Catalog   = (*SQL)(nil)
	_ Registrar = (*SQL)(nil)
	_ Swapper   = (*SQL)(nil)
)

// OpenSQL opens the database that property "uri" names. Nothing is connected or created yet: Register creates what is missing, so that a
// mistyped path is an error of the first Load and no new file.
func OpenSQL(name string, props map[string]string) (*SQL, error) {
	target, err := parseSQLURI(props[PropURI], props)
	if err != nil {
		return nil, err
	}
	if target.driver == driverSQLite {
		if err := sqlite.Available(); err != nil {
			return nil, fmt.Errorf("open SQL catalog %q: %w", name, err)
		}
	}
	db, err := sql.Open(target.driver, target.dsn)
	if err != nil {
		return nil, fmt.Errorf("open SQL catalog %q: %w", name, err)
	}
	if target.driver == driverSQLite && target.file == "" {
		db.SetMaxOpenConns(1) // each connection would be a database of its own
	} else {
		db.SetMaxOpenConns(8)
	}
	return &SQL{name: name, target: target, db: db}, nil
}

// Close gives the connections back.
func (c *SQL) Close() error { return c.db.Close() }

// Name is the configured name of the catalog: the column catalog_name.
func (c *SQL) Name() string { return c.name }

// Tables yields the tables by namespace and name.
func (c *SQL) Tables(ctx context.Context, namespace maintenance.Namespace) iter.Seq2[maintenance.TableID, error] {
	return func(yield func(maintenance.TableID, error) bool) {
		var last tableRow
		for {
			page, err := c.page(ctx, namespace, last)
			if err != nil {
				yield(maintenance.TableID{}, fmt.Errorf("list tables of catalog %q: %w", c.name, err))
				return
			}
			for _, row := range page {
				if row.isView() {
					continue
				}
				id := maintenance.TableID{Catalog: c.name, Namespace: maintenance.NewNamespace(strings.Split(row.namespace, ".")...), Name: row.table}
				if !yield(id, nil) {
					return
				}
			}
			if len(page) < listPage {
				return
			}
			last = page[len(page)-1]
		}
	}
}

// page reads the rows after last.
func (c *SQL) page(ctx context.Context, namespace maintenance.Namespace, last tableRow) ([]tableRow, error) {
	query := `SELECT * FROM iceberg_tables WHERE catalog_name = ? AND (table_namespace > ? OR (table_namespace = ? AND table_name > ?))`
	args := []any{c.name, last.namespace, last.namespace, last.table}
	if namespace != "" {
		query += ` AND table_namespace = ?`
		args = append(args, namespace.String())
	}
	query += ` ORDER BY table_namespace, table_name LIMIT ` + strconv.Itoa(listPage)
	rows, err := c.query(ctx, query, args...)
	if errors.Is(err, errNoTables) {
		return nil, nil
	}
	return rows, err
}

// Load reads a table's pointer with one query.
func (c *SQL) Load(ctx context.Context, id maintenance.TableID) (Pointer, error) {
	row, err := c.row(ctx, id)
	if err != nil {
		return Pointer{}, fmt.Errorf("load %s: %w", id, err)
	}
	if row.isView() {
		return Pointer{}, fmt.Errorf("load %s: iceberg_type is %q: %w", id, row.kind, ErrNotIceberg)
	}
	if row.location == "" {
		return Pointer{}, fmt.Errorf("load %s: no metadata_location in iceberg_tables: %w", id, ErrNotIceberg)
	}
	return Pointer{MetadataLocation: row.location, Version: row.location}, nil
}

// row reads the row of one table: ErrNoSuchTable when there is none.
func (c *SQL) row(ctx context.Context, id maintenance.TableID) (tableRow, error) {
	const where = `SELECT * FROM iceberg_tables WHERE table_namespace = ? AND table_name = ? AND catalog_name = ?`
	rows, err := c.query(ctx, where, id.Namespace.String(), id.Name, c.name)
	switch {
	case errors.Is(err, errNoTables):
		return tableRow{}, fmt.Errorf("%w: the database has no iceberg_tables yet", ErrNoSuchTable)
	case err != nil:
		return tableRow{}, err
	case len(rows) == 1:
		return rows[0], nil
	}
	return tableRow{}, c.missing(ctx, id)
}

// missing explains an absent row: the commonest reason is that the database knows the table under another catalog's name.
func (c *SQL) missing(ctx context.Context, id maintenance.TableID) error {
	rows, err := c.query(ctx, `SELECT * FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?`, id.Namespace.String(), id.Name)
	if err != nil || len(rows) == 0 {
		return ErrNoSuchTable
	}
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = strconv.Quote(r.catalog)
	}
	return fmt.Errorf("%w in catalog %q; the database has it in catalog %s", ErrNoSuchTable, c.name, strings.Join(names, ", "))
}

// Register creates database, tables and namespace as needed and inserts the table.
func (c *SQL) Register(ctx context.Context, id maintenance.TableID, metadataLocation string) error {
	if err := validRegistration(id, metadataLocation); err != nil {
		return err
	}
	columns, err := c.columns(ctx)
	if errors.Is(err, errNoTables) { // creating needs rights that registering does not: only when it must be
		if err = c.create(ctx); err == nil {
			columns, err = c.columns(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("open tables of catalog %q: %w", c.name, err)
	}
	for attempt := 1; ; attempt++ {
		err := c.insert(ctx, id, metadataLocation, hasColumn(columns, columnType))
		if errors.Is(err, ErrConflict) && attempt < 10 { // a serialization failure: nothing was inserted
			continue
		}
		if err != nil {
			return fmt.Errorf("register %s: %w", id, err)
		}
		return nil
	}
}

// columns names the columns of iceberg_tables: errNoTables when one of the two tables is missing, or the database file.
func (c *SQL) columns(ctx context.Context) ([]string, error) {
	if c.target.file != "" {
		if _, err := os.Stat(c.target.file); errors.Is(err, os.ErrNotExist) {
			return nil, errNoTables
		}
	}
	if _, err := c.db.ExecContext(ctx, `SELECT 1 FROM iceberg_namespace_properties WHERE 1 = 0`); err != nil {
		return nil, c.readError(err)
	}
	rows, err := c.db.QueryContext(ctx, `SELECT * FROM iceberg_tables WHERE 1 = 0`)
	if err != nil {
		return nil, c.readError(err)
	}
	columns, err := rows.Columns()
	if err = errors.Join(err, rows.Close()); err != nil {
		return nil, c.readError(err)
	}
	return columns, nil
}

// insert adds namespace and table: ErrExists when the name is taken.
func (c *SQL) insert(ctx context.Context, id maintenance.TableID, metadataLocation string, typed bool) error {
	namespace := id.Namespace.String()
	if _, err := c.exec(ctx, `INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)
		SELECT ?, ?, 'exists', 'true' WHERE NOT EXISTS (SELECT 1 FROM iceberg_namespace_properties WHERE catalog_name = ? AND namespace = ?)
		ON CONFLICT DO NOTHING`, c.name, namespace, c.name, namespace); err != nil {
		return fmt.Errorf("create namespace: %w", err)
	}
	names, values, args := "catalog_name, table_namespace, table_name, metadata_location", "?, ?, ?, ?", []any{c.name, namespace, id.Name, metadataLocation}
	if typed {
		names, values, args = names+", "+columnType, values+", ?", append(args, typeTable)
	}
	inserted, err := c.exec(ctx, `INSERT INTO iceberg_tables (`+names+`) VALUES (`+values+`) ON CONFLICT DO NOTHING`, args...)
	if err == nil && inserted == 0 {
		return ErrExists
	}
	return err
}

// create makes the database file (SQLite: with a write-ahead log, so that readers and a writer work beside each other; existing files keep
// their journal mode, which their owner chose) and the two tables.
func (c *SQL) create(ctx context.Context) error {
	db := c.db
	if c.target.file != "" {
		if _, err := os.Stat(c.target.file); err != nil {
			busy := "busy_timeout(" + strconv.FormatInt(busyTimeout.Milliseconds(), 10) + ")"
			fresh, err := sql.Open(driverSQLite, sqliteDSN(c.target.file, url.Values{"mode": {"rwc"}, "_pragma": {busy, "journal_mode(WAL)"}}))
			if err != nil {
				return err
			}
			defer func() { _ = fresh.Close() }()
			db = fresh
		}
	}
	for _, statement := range []string{createTablesTable, createNamespacesTable} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			// Two processes that create at once can meet in PostgreSQL's catalog; the second find means that the table is there.
			if _, err = db.ExecContext(ctx, statement); err != nil {
				return classifySQL(err)
			}
		}
	}
	return nil
}

// Swap is one UPDATE whose WHERE clause names the base's metadata location. No row changed means that the pointer is another one, or gone.
func (c *SQL) Swap(ctx context.Context, id maintenance.TableID, base Pointer, metadataLocation string) error {
	changed, err := c.exec(ctx, `UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ?
		WHERE catalog_name = ? AND table_namespace = ? AND table_name = ? AND metadata_location = ?`,
		metadataLocation, base.MetadataLocation, c.name, id.Namespace.String(), id.Name, base.MetadataLocation)
	if err == nil && changed == 1 {
		return nil
	}
	if err != nil && !errors.Is(err, ErrConflict) {
		return fmt.Errorf("swap pointer of %s: %w", id, err)
	}
	row, loadErr := c.row(ctx, id)
	switch {
	case errors.Is(loadErr, ErrNoSuchTable):
		return fmt.Errorf("swap pointer of %s: %w: %w", id, ErrRefused, loadErr)
	case loadErr != nil && err == nil: // the UPDATE was answered: nothing changed, whatever the reason
		return fmt.Errorf("swap pointer of %s: no row with %s: %w", id, base.MetadataLocation, ErrConflict)
	case loadErr != nil:
		return fmt.Errorf("swap pointer of %s: %w", id, loadErr)
	case row.location == metadataLocation: // a repetition beneath us: the first one landed
		return nil
	}
	return fmt.Errorf("swap pointer of %s from %s, catalog has %s: %w", id, base.MetadataLocation, row.location, ErrConflict)
}
