package demo_test

import (
	"context"
	"testing"
	"time"

	"firn/internal/local/demo"
)

func TestDemoHealsAndKeepsRows(t *testing.T) {
	t.Parallel()
	start := time.Now()
	r, err := demo.Run(context.Background(), demo.Options{Dir: t.TempDir(), Now: time.Now, Say: func(line string) { t.Log(time.Since(start), line) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r.Before)
	t.Logf("%+v", r.Healed)
	t.Logf("%+v", r.After)
	t.Log(r.Differences)
}
