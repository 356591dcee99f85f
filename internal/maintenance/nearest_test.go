package maintenance_test

import (
	"testing"

	"firn/internal/maintenance"
)

func TestNearestName(t *testing.T) {
	t.Parallel()
	known := []string{"min-input-files", "min-file-size-bytes", "max-file-size-bytes", "rewrite-all"}
	for name, want := range map[string]string{
		"min-input-file":      "min-input-files",
		"min-inptu-files":     "min-input-files",
		"REWRITE_ALL":         "rewrite-all",
		"min-file-size-byte":  "min-file-size-bytes",
		"completely-unlike-x": "",
		"":                    "",
	} {
		if got := maintenance.NearestName(name, known); got != want {
			t.Errorf("nearest to %q is %q: want %q", name, got, want)
		}
	}
	if got := maintenance.Suggestion("rewrite-al", known); got != "; did you mean rewrite-all?" {
		t.Errorf("suggestion is %q", got)
	}
}
