//go:build nosqlite

package state

import (
	"context"
	"fmt"
)

// OpenSQLite refuses: functions for AWS are built without SQLite, whose databases are files of one machine.
func OpenSQLite(_ context.Context, path string) (Items, error) {
	return nil, fmt.Errorf("open state database %s: this build for AWS has no SQLite: use dynamodb:TABLE", path)
}
