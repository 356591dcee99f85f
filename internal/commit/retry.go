package commit

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math/bits"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
)

// patience is how often and how long something is repeated: the table's commit.retry.* or commit.status-check.* with Java's defaults.
type patience struct {
	retries             int64
	least, most, within time.Duration
}

func retryPatience(p iceberg.Properties) patience {
	return patienceOf(p, "commit.retry.", 4, 100*time.Millisecond)
}

func statusPatience(p iceberg.Properties) patience {
	return patienceOf(p, "commit.status-check.", 3, time.Second)
}

func patienceOf(p iceberg.Properties, prefix string, retries int64, least time.Duration) patience {
	duration := func(key string, fallback time.Duration) time.Duration {
		return time.Duration(max(p.GetInt64(prefix+key, fallback.Milliseconds()), 0)) * time.Millisecond
	}
	return patience{
		retries: max(p.GetInt64(prefix+"num-retries", retries), 0),
		least:   duration("min-wait-ms", least), most: duration("max-wait-ms", time.Minute), within: duration("total-timeout-ms", 30*time.Minute),
	}
}

// pause waits before the n-th repetition (from 1): twice as long each time, between the bounds, with jitter of half of it.
func (s *session) pause(ctx context.Context, p patience, n int64) error {
	wait := p.least << min(n-1, 20)
	wait = max(min(wait, p.most), 0)
	if wait > 1 {
		r, err := s.f.random()
		if err != nil {
			return err
		}
		hi, _ := bits.Mul64(r, uint64(wait/2)) // not negative
		wait = wait/2 + time.Duration(hi)      // below wait
	}
	return s.f.sleep(ctx, wait)
}

func (f *Function) sleep(ctx context.Context, d time.Duration) error {
	if f.Sleep != nil {
		return f.Sleep(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *Function) random() (uint64, error) {
	if f.Random != nil {
		return f.Random()
	}
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("read randomness: %w", err)
	}
	return binary.BigEndian.Uint64(b[:]), nil
}

func (f *Function) newUUID() (uuid.UUID, error) {
	if f.NewUUID != nil {
		return f.NewUUID()
	}
	return uuid.NewRandom()
}

// snapshotID makes an ID that the table does not have: 63 random bits, not 0.
func (f *Function) snapshotID(meta table.Metadata) (int64, error) {
	for {
		r, err := f.random()
		if err != nil {
			return 0, err
		}
		if id := int64(r >> 1); id > 0 && meta.SnapshotByID(id) == nil { // 63 bits
			return id, nil
		}
	}
}
