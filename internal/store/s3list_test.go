package store

import (
	"context"
	"encoding/xml"
	"fmt"
	"iter"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// listFake answers ListObjectsV2 from sorted keys, in pages of its own size.
type listFake struct {
	keys     []string
	pageSize int
	delay    time.Duration

	mu       sync.Mutex
	requests int
	running  int
	most     int
	fail     func(after string) bool
}

type listAnswer struct {
	XMLName     xml.Name `xml:"ListBucketResult"`
	IsTruncated bool
	Contents    []listAnswerObject
}

type listAnswerObject struct {
	Key          string
	LastModified string
	Size         int
}

func (f *listFake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests++
	f.running++
	f.most = max(f.most, f.running)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.running--
		f.mu.Unlock()
	}()
	time.Sleep(f.delay)
	prefix, after := r.URL.Query().Get("prefix"), r.URL.Query().Get("start-after")
	f.mu.Lock()
	fail := f.fail
	f.mu.Unlock()
	if fail != nil && fail(after) {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	i, _ := slices.BinarySearch(f.keys, max(prefix, after))
	if i < len(f.keys) && f.keys[i] == after {
		i++
	}
	var answer listAnswer
	for ; i < len(f.keys) && strings.HasPrefix(f.keys[i], prefix); i++ {
		if len(answer.Contents) == f.pageSize {
			answer.IsTruncated = true
			break
		}
		answer.Contents = append(answer.Contents, listAnswerObject{f.keys[i], "2026-01-01T00:00:00.000Z", len(f.keys[i])})
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(answer)
}

func (f *listFake) start(t testing.TB) *S3 {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	s, err := NewS3(Config{Properties: map[string]string{"s3.endpoint": server.URL, "s3.access-key-id": "a", "s3.secret-access-key": "b"}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func collect(ctx context.Context, s Lister, prefix string, opts ListOptions) (keys []string, err error) {
	for info, err := range s.List(ctx, prefix, opts) {
		if err != nil {
			return keys, err
		}
		keys = append(keys, strings.TrimPrefix(info.Location, "s3://b/"))
	}
	return keys, nil
}

// layouts are key spaces as writers make them.
func layouts(n int) map[string][]string {
	r := rand.New(rand.NewSource(1))
	out := map[string][]string{}
	for i := range n {
		hash := fmt.Sprintf("%08x", r.Uint32())
		for layout, key := range map[string]string{
			"one folder":         fmt.Sprintf("t/data/%05d-%d-%s-00001.parquet", i%5000, i, hash),
			"python":             fmt.Sprintf("t/data/00000-0-%s-%08x.parquet", hash, i),
			"days":               fmt.Sprintf("t/data/day=2024-%02d-%02d/%s-%d.parquet", i%12+1, i/12%28+1, hash, i),
			"hashed":             fmt.Sprintf("t/data/%04b/%04b/%s/%d.parquet", r.Intn(16), r.Intn(16), hash, i),
			"unicode":            fmt.Sprintf("t/data/città=%c%c/%s", 'à'+rune(r.Intn(200)), '日'+rune(r.Intn(500)), hash),
			"one day holds most": fmt.Sprintf("t/data/day=2024-01-%02d/%s-%d.parquet", min(30, max(1, 1+r.Intn(300)/10)), hash, i),
		} {
			out[layout] = append(out[layout], key)
		}
	}
	for layout, keys := range out {
		keys = append(keys, "t/metadata/00001.metadata.json", "t2/other", "s/other")
		slices.Sort(keys)
		out[layout] = slices.Compact(keys)
	}
	return out
}

func TestS3ListLayouts(t *testing.T) {
	const pageSize = 100
	for name, keys := range layouts(10_000) {
		t.Run(name, func(t *testing.T) {
			f := &listFake{keys: keys, pageSize: pageSize, delay: 2 * time.Millisecond}
			var want []string
			for _, k := range keys {
				if strings.HasPrefix(k, "t/") {
					want = append(want, k)
				}
			}
			start := time.Now()
			got, err := collect(t.Context(), f.start(t), "s3://b/t/", ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("got %d keys: want %d, or in another order", len(got), len(want))
			}
			pages := (len(want) + pageSize - 1) / pageSize
			f.mu.Lock()
			defer f.mu.Unlock()
			t.Logf("%d pages, %d requests, %d at once, %v", pages, f.requests, f.most, time.Since(start))
			if f.requests > 2*pages {
				t.Errorf("%d requests for %d pages", f.requests, pages)
			}
			if f.most < 2 {
				t.Errorf("only %d requests at once", f.most)
			}
		})
	}
}

func TestS3ListMatchesItsModel(t *testing.T) {
	f := &listFake{pageSize: 3}
	s := f.start(t)
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching(`(a|b|t/|/|~|é|日|0|1|=|-){1,6}`)
		f.mu.Lock()
		f.keys = rapid.SliceOfNDistinct(key, 0, 60, rapid.ID).Draw(t, "keys")
		slices.Sort(f.keys)
		f.pageSize = rapid.IntRange(1, 9).Draw(t, "page")
		f.mu.Unlock()
		prefix := rapid.SampledFrom([]string{"", "t/", "a", "é", "t/t/"}).Draw(t, "prefix")
		bound := rapid.OneOf(rapid.Just(""), key)
		after, until := bound.Draw(t, "after"), bound.Draw(t, "until")
		var opts ListOptions
		var want []string
		if after != "" {
			opts.StartAfter = "s3://b/" + after
		}
		if until != "" {
			opts.EndAt = "s3://b/" + until
		}
		for _, k := range f.keys {
			if strings.HasPrefix(k, prefix) && k > after && (until == "" || k <= until) {
				want = append(want, k)
			}
		}
		got, err := collect(context.Background(), s, "s3://b/"+prefix, opts)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("list %q (%q, %q]: got %q %v: want %q", prefix, after, until, got, err, want)
		}
	})
}

func TestGuessLiesBetween(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ -~é日]{0,8}`)
		prefix := rapid.StringMatching(`[a-c/]{0,2}`).Draw(t, "prefix")
		after := prefix + text.Draw(t, "after")
		until := rapid.OneOf(rapid.Just(""), rapid.Map(text, func(s string) string { return prefix + s })).Draw(t, "until")
		common := rapid.IntRange(0, len(after)).Draw(t, "common")
		if until != "" && until <= after {
			return
		}
		g := guesser{leap: rapid.IntRange(0, 4).Draw(t, "leap")}
		g.learn([]entry{{key: after}, {key: until}})
		g.learn([]entry{{key: prefix + text.Draw(t, "seen")}})
		middle, ok := g.guess(after, until, len(prefix), common)
		if ok && (middle <= after || until != "" && middle >= until || !strings.HasPrefix(middle, prefix)) {
			t.Fatalf("guess %q is not between %q and %q under %q", middle, after, until, prefix)
		}
	})
}

func TestS3ListIsBounded(t *testing.T) {
	f := &listFake{keys: layouts(30_000)["one folder"], pageSize: 100}
	served := 0
	for _, err := range f.start(t).List(t.Context(), "s3://b/t/", ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if served++; served == 101 { // the second page, when the workers have begun
			time.Sleep(300 * time.Millisecond)
			break
		}
	}
	count := func() (requests, running int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.requests, f.running
	}
	ended, running := count()
	// A request that was given up ends here at once; its handler beyond the connection may need as long as the machine is busy.
	for ; running != 0; _, running = count() {
		time.Sleep(time.Millisecond)
	}
	requests, _ := count()
	if requests > 2*(listBuffer+listWorkers) {
		t.Errorf("%d pages were asked for while the consumer slept", requests)
	}
	if requests > ended+listWorkers {
		t.Errorf("after the iteration ended %d requests came beside %d", requests-ended, ended)
	}
}

func TestS3ListEndsAtTheFirstError(t *testing.T) {
	keys := layouts(5_000)["days"]
	border := "t/data/day=2024-06-01"
	f := &listFake{keys: keys, pageSize: 50, fail: func(after string) bool { return after > border }}
	got, err := collect(t.Context(), f.start(t), "s3://b/t/", ListOptions{})
	if err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("got %v", err)
	}
	i, _ := slices.BinarySearch(keys, "t/")
	if !slices.Equal(got, keys[i:i+len(got)]) {
		t.Error("what came before the error is not the beginning of the listing")
	}
	var cancelled atomic.Bool
	ctx, cancel := context.WithCancel(t.Context())
	f.mu.Lock()
	f.fail = nil
	f.mu.Unlock()
	_, err = collect(ctx, cancelling{f.start(t), 500, func() { cancelled.Store(true); cancel() }}, "s3://b/t/", ListOptions{})
	if !cancelled.Load() || err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("a cancelled listing ended in %v", err)
	}
}

// cancelling calls cancel after n objects.
type cancelling struct {
	Lister
	n      int
	cancel func()
}

func (c cancelling) List(ctx context.Context, prefix string, opts ListOptions) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		n := 0
		for info, err := range c.Lister.List(ctx, prefix, opts) {
			if n++; n == c.n {
				c.cancel()
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

func TestS3ListRefusesAnswersOutOfOrder(t *testing.T) {
	for name, keys := range map[string][]string{
		"out of order":   {"t/b", "t/a"},
		"twice":          {"t/a", "t/a"},
		"another prefix": {"t/a", "u/a"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			var answer listAnswer
			for _, k := range keys {
				answer.Contents = append(answer.Contents, listAnswerObject{k, "2026-01-01T00:00:00.000Z", 1})
			}
			_ = xml.NewEncoder(w).Encode(answer)
		}))
		s, err := NewS3(Config{Properties: map[string]string{"s3.endpoint": server.URL, "s3.access-key-id": "a", "s3.secret-access-key": "b"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := collect(t.Context(), s, "s3://b/t/", ListOptions{}); err == nil {
			t.Errorf("%s: no error", name)
		}
		server.Close()
	}
}

func TestPartsHoldTheLargestObject(t *testing.T) {
	total := int64(0)
	for n := range maxParts {
		size := partBytes(n)
		if size < 16<<20 || size > 5<<30 {
			t.Fatalf("part %d has %d bytes", n, size)
		}
		total += int64(size)
	}
	if total < 5<<40 {
		t.Errorf("%d parts hold %d bytes", maxParts, total)
	}
}

func BenchmarkS3List(b *testing.B) {
	f := &listFake{keys: layouts(100_000)["days"], pageSize: 1000, delay: 30 * time.Millisecond}
	s := f.start(b)
	for b.Loop() {
		if _, err := collect(b.Context(), s, "s3://b/t/", ListOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
