package catalogs

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"
)

// busyTimeout is how long a statement waits for another process's lock on an SQLite file. It is longer than any of our own statements by
// orders of magnitude, and shorter than a function's shortest timeout.
const busyTimeout = 15 * time.Second

// sqlTarget is a database that a catalog URI names.
type sqlTarget struct {
	// driver is the database/sql driver: "sqlite" or "pgx".
	driver string
	// dsn is the driver's data source name.
	dsn string
	// file is SQLite's absolute path, "" for a database in memory and for PostgreSQL.
	file string
}

// parseSQLURI reads the URI of an SQL catalog: SQLAlchemy's forms, which PyIceberg takes (sqlite:////absolute, sqlite:///relative,
// postgresql://, postgresql+psycopg2://), and JDBC's forms, which Java takes (jdbc:sqlite:/absolute, jdbc:postgresql://). props supplies
// jdbc.user, jdbc.password and jdbc.currentSchema.
func parseSQLURI(uri string, props map[string]string) (sqlTarget, error) {
	rest, jdbc := strings.CutPrefix(uri, "jdbc:")
	scheme, _, _ := strings.Cut(rest, ":")
	dialect, _, _ := strings.Cut(scheme, "+")
	switch strings.ToLower(dialect) {
	case "sqlite":
		return parseSQLite(rest[len(scheme)+1:], jdbc)
	case "postgresql", "postgres":
		return parsePostgres("postgresql"+rest[len(scheme):], props)
	case "":
		return sqlTarget{}, fmt.Errorf("read catalog property %s: an SQL catalog needs sqlite:////path or postgresql://host/database", PropURI)
	default:
		return sqlTarget{}, fmt.Errorf("read catalog property %s: unknown database %q; known are sqlite and postgresql", PropURI, dialect)
	}
}

// parseSQLite reads what stands after "sqlite:". SQLAlchemy counts slashes (three before a relative path, four before an absolute one); JDBC
// has the bare path. A query (driver settings of other languages) is left out.
func parseSQLite(rest string, jdbc bool) (sqlTarget, error) {
	path := rest
	if !jdbc {
		var ok bool
		if path, ok = strings.CutPrefix(rest, "//"); !ok {
			return sqlTarget{}, fmt.Errorf("read catalog property %s: want sqlite:////absolute/path or sqlite:///relative/path", PropURI)
		}
		if authority, p, _ := strings.Cut(path, "/"); authority != "" {
			return sqlTarget{}, fmt.Errorf("read catalog property %s: sqlite has no host (%q): want three slashes before a relative path", PropURI, authority)
		} else {
			path = p
		}
	}
	path = strings.TrimPrefix(path, "file:")
	path, _, _ = strings.Cut(path, "?")
	pragmas := url.Values{"_pragma": {fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds())}}
	if path == "" || path == ":memory:" {
		return sqlTarget{driver: driverSQLite, dsn: "file::memory:?" + pragmas.Encode()}, nil
	}
	file, err := filepath.Abs(path)
	if err != nil {
		return sqlTarget{}, fmt.Errorf("read catalog property %s: resolve %q: %w", PropURI, path, err)
	}
	pragmas.Set("mode", "rw")
	return sqlTarget{driver: driverSQLite, dsn: sqliteDSN(file, pragmas), file: file}, nil
}

// sqliteDSN writes SQLite's own URI, in which '%', '?' and '#' of a path are escaped.
func sqliteDSN(file string, query url.Values) string {
	path := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(file)
	return "file:" + path + "?" + query.Encode()
}

// postgresSettings maps JDBC's names to libpq's; names that are the same in both, and pgx's own, stand for themselves. Settings of other
// drivers, which say nothing about the server, are left out.
func postgresSettings() map[string]string {
	return map[string]string{
		"user": "user", "password": "password", "currentSchema": "search_path", "ApplicationName": "application_name", "sslmode": "sslmode",
		"sslrootcert": "sslrootcert", "sslcert": "sslcert", "sslkey": "sslkey", "connectTimeout": "connect_timeout",
		"connect_timeout": "connect_timeout", "application_name": "application_name", "search_path": "search_path", "options": "options",
		"target_session_attrs": "target_session_attrs", "host": "host", "port": "port", "dbname": "dbname",
	}
}

// parsePostgres turns a URI into pgx's form. Queries go as unnamed statements, so that poolers between us and the server do no harm.
func parsePostgres(uri string, props map[string]string) (sqlTarget, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return sqlTarget{}, fmt.Errorf("read catalog property %s: malformed PostgreSQL URI", PropURI) // the parser's error repeats the password
	}
	query, settings := url.Values{}, postgresSettings()
	for key, values := range u.Query() {
		if name, ok := settings[key]; ok && len(values) > 0 {
			query.Set(name, values[len(values)-1])
		}
	}
	for key, value := range props {
		if name, ok := settings[strings.TrimPrefix(key, "jdbc.")]; ok && strings.HasPrefix(key, "jdbc.") {
			query.Set(name, value)
		}
	}
	if !query.Has("connect_timeout") {
		query.Set("connect_timeout", "15")
	}
	query.Set("default_query_exec_mode", "exec")
	u.RawQuery = query.Encode()
	return sqlTarget{driver: driverPostgres, dsn: u.String()}, nil
}
