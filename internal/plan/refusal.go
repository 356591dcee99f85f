package plan

import (
	"errors"
	"fmt"
	"strings"

	"firn/internal/decide"
	"firn/internal/lake"
	"firn/internal/lake/catalogs"
	"firn/internal/store"
)

// errRefused marks a definite no that this room found itself.
var errRefused = errors.New("refused")

// refusef makes a refusal with a reason.
func refusef(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errRefused, fmt.Sprintf(format, args...))
}

// refusal tells a definite no from an error that may pass: the first ends the job, the second the attempt.
func refusal(err error) (reason string, refused bool) {
	if err == nil {
		return "", false
	}
	for _, class := range []error{
		errRefused, decide.ErrOption, decide.ErrRefused, lake.ErrUnsupported, lake.ErrTableFault, catalogs.ErrNoSuchTable, catalogs.ErrNotIceberg,
		store.ErrNotFound, store.ErrPermission, store.ErrArchived,
	} {
		if errors.Is(err, class) {
			return strings.TrimPrefix(err.Error(), errRefused.Error()+": "), true
		}
	}
	return "", false
}
