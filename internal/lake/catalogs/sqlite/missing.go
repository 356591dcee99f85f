//go:build nosqlite

package sqlite

import "errors"

// Available says why this build cannot open SQLite databases.
func Available() error {
	return errors.New("this build for AWS has no SQLite, whose databases are files of one machine: use a Glue, REST or PostgreSQL catalog")
}

// Code knows no error of SQLite here.
func Code(error) (code int, text string, is bool) { return 0, "", false }
