package store_test

import (
	"testing"

	"firn/internal/store"
	"firn/internal/store/storetest"
)

func TestS3Conformance(t *testing.T) {
	server := storetest.NewS3Server(t, "bucket")
	storetest.Run(t, func(t *testing.T) store.Full {
		t.Helper()
		s, err := store.New(store.Config{Properties: server.Properties})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}, "s3://bucket/root")
}
