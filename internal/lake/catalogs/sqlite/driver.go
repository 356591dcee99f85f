//go:build !nosqlite

package sqlite

import (
	"errors"

	"modernc.org/sqlite" // registers itself with database/sql as "sqlite"
)

// Available says why this build cannot open SQLite databases: nil, it can.
func Available() error { return nil }

// Code is the primary result code of an error that SQLite answered, with its text; is tells whether it did.
func Code(err error) (code int, text string, is bool) {
	lite, is := errors.AsType[*sqlite.Error](err)
	if !is {
		return 0, "", false
	}
	return lite.Code() & 0xff, lite.Error(), true
}
