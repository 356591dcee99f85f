// Package sqlite registers SQLite's driver with database/sql and tells its errors apart. Functions for AWS are built without it (tag nosqlite): a SQLite
// database is a file of one machine, and the library would be up to a quarter of such a function's package (2.4 of 8.3 MB of `report`).
package sqlite

// The primary result codes of SQLite that a catalog tells apart (sqlite.org/rescode.html; they never change).
const (
	Error      = 1
	Perm       = 3
	Busy       = 5
	Locked     = 6
	ReadOnly   = 8
	IOErr      = 10
	Full       = 13
	CantOpen   = 14
	TooBig     = 18
	Constraint = 19
	Auth       = 23
)
