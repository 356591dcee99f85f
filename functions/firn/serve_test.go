package main

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestServeShowsTheTable starts the twin beside a reference table, waits until its page tells of the table, and interrupts it.
func TestServeShowsTheTable(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ref := b.reference("snaps40")
	before := b.objects(ref)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, in := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		proc := b.proc
		proc.stdout, proc.stderr = in, t.Output()
		ended <- run(ctx, []string{"serve", "--http", "127.0.0.1:0", "--every", "50ms", "--window", "20ms"}, proc)
		_ = in.Close()
	}()
	line := make([]byte, 4096)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	at := regexp.MustCompile(`http://[0-9.:]+`).FindString(string(line[:n]))
	if at == "" || !strings.Contains(string(line[:n]), "observing only") {
		t.Fatalf("it says %q", line[:n])
	}
	var page string
	for deadline := time.Now().Add(2 * time.Minute); !strings.Contains(page, "snaps40") && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		page = fetch(t, at+"/")
	}
	if !strings.Contains(page, "snaps40") {
		t.Fatalf("the page does not tell of the table:\n%s", page)
	}
	href := regexp.MustCompile(`/tables/[^"]+`).FindString(page)
	if health := fetch(t, at+href+"/health"); !strings.Contains(health, "What it asks for") {
		t.Errorf("%s/health:\n%s", href, health)
	}
	stop()
	if code := <-ended; code != exitDone {
		t.Errorf("exit %d", code)
	}
	if after := b.objects(ref); len(after) != len(before) {
		t.Errorf("%d objects before, %d after", len(before), len(after))
	}
}

func fetch(t *testing.T, at string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s %v %s", at, answer.Status, err, body)
	}
	return string(body)
}

// TestServeRefusesBadFlags names the flag and what it must be.
func TestServeRefusesBadFlags(t *testing.T) {
	t.Parallel()
	for word, args := range map[string][]string{
		"poll":   {"--every", "0s"},
		"runs":   {"--runs", "0"},
		"listen": {"--http", "no-such-host.invalid:1"},
		"every":  {"--every", "soon"},
		"token":  {"--http", "0.0.0.0:0"},
	} {
		b := newBench(t)
		b.reference("snaps40")
		if got := b.firn(append([]string{"serve"}, args...)...); got.code != exitUsage || !strings.Contains(got.stderr, word) {
			t.Errorf("%v: exit %d, %s", args, got.code, got.stderr)
		}
	}
}
