package catalogs_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"firn/internal/lake/catalogs"
	"firn/internal/lake/catalogs/catalogtest"
	"firn/internal/maintenance"
)

// restWorld is a fake service with one registered table and a client.
func restWorld(t *testing.T, props map[string]string, prepare func(*catalogtest.RESTServer)) (*catalogs.REST, *catalogtest.RESTServer, string) {
	t.Helper()
	st := memoryStore()
	server := catalogtest.NewRESTServer(t, st)
	location, err := catalogtest.WriteTable(t.Context(), st, "mem://lake/db", "t")
	if err != nil {
		t.Fatal(err)
	}
	plain, err := catalogs.OpenREST("plain", map[string]string{"uri": server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := plain.Register(t.Context(), table("db", "t"), location); err != nil {
		t.Fatal(err)
	}
	if prepare != nil {
		prepare(server)
	}
	server.Log = nil
	all := map[string]string{"uri": server.URL + "/"}
	maps.Copy(all, props)
	cat, err := catalogs.OpenREST("c", all)
	if err != nil {
		t.Fatal(err)
	}
	return cat, server, location
}

func TestRESTConfiguration(t *testing.T) {
	cat, server, location := restWorld(t, map[string]string{"warehouse": "s3://wh/a b", "header.X-Mine": "1"}, func(s *catalogtest.RESTServer) {
		s.Overrides = map[string]string{"prefix": "arn%3Aaws%3Abucket%2Fx"}
		s.Defaults = map[string]string{"header.X-Theirs": "2", "header.X-Mine": "theirs"}
		s.TableConfig = map[string]string{"s3.access-key-id": "vended"}
	})
	for range 2 {
		pointer, err := cat.Load(t.Context(), table("db", "t"))
		if err != nil {
			t.Fatal(err)
		}
		if pointer.MetadataLocation != location || pointer.Config["s3.access-key-id"] != "vended" || len(pointer.Metadata) == 0 || pointer.Version != "" {
			t.Errorf("pointer: %+v", pointer)
		}
	}
	load := "GET /v1/arn%3Aaws%3Abucket%2Fx/namespaces/db/tables/t?snapshots=all"
	if diff := cmp.Diff([]string{"GET /v1/config?warehouse=s3%3A%2F%2Fwh%2Fa%20b", load, load}, server.Requests()); diff != "" {
		t.Errorf("requests: -want +got\n%s", diff)
	}
	for key, want := range map[string]string{"X-Mine": "1", "X-Theirs": "2", "X-Iceberg-Access-Delegation": "vended-credentials"} {
		if got := server.Headers.Get(key); got != want {
			t.Errorf("header %s: got %q, want %q", key, got, want)
		}
	}
}

func TestRESTNamesAreEscapedOnce(t *testing.T) {
	cat, server, location := restWorld(t, nil, nil)
	id := maintenance.TableID{Namespace: maintenance.NewNamespace("my db", "x.y"), Name: "a+b%ü"}
	if err := cat.Register(t.Context(), id, location); err != nil {
		t.Fatal(err)
	}
	if _, err := cat.Load(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if want := "GET /v1/namespaces/my%20db%1Fx.y/tables/a%2Bb%25%C3%BC?snapshots=all"; !slices.Contains(server.Requests(), want) {
		t.Errorf("no request %s in %v", want, server.Requests())
	}
	var listed []maintenance.TableID
	for id, err := range cat.Tables(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		id.Catalog = ""
		listed = append(listed, id)
	}
	if !slices.Contains(listed, id) {
		t.Errorf("listed %v", listed)
	}
}

func TestRESTTokens(t *testing.T) {
	t.Run("bearer token", func(t *testing.T) {
		cat, _, _ := restWorld(t, map[string]string{"token": "abc"}, func(s *catalogtest.RESTServer) { s.Token = "abc" })
		if _, err := cat.Load(t.Context(), table("db", "t")); err != nil {
			t.Error(err)
		}
	})
	t.Run("wrong token", func(t *testing.T) {
		cat, _, _ := restWorld(t, map[string]string{"token": "abc"}, func(s *catalogtest.RESTServer) { s.Token = "other" })
		if _, err := cat.Load(t.Context(), table("db", "t")); err == nil || errors.Is(err, catalogs.ErrNoSuchTable) || !strings.Contains(err.Error(), "401") {
			t.Errorf("got %v", err)
		}
		if _, err := cat.Update(t.Context(), table("db", "t"), []byte("[]"), []byte("[]")); !errors.Is(err, catalogs.ErrRefused) {
			t.Errorf("commit: got %v, want ErrRefused", err)
		}
	})
	t.Run("client credentials, renewed", func(t *testing.T) {
		cat, server, _ := restWorld(t, map[string]string{"credential": "id:secret:x", "scope": "all"}, func(s *catalogtest.RESTServer) { s.Secret, s.Token = "id:secret:x", "none yet" })
		for range 2 {
			if _, err := cat.Load(t.Context(), table("db", "t")); err != nil {
				t.Fatal(err)
			}
		}
		count := func() (n int) {
			for _, r := range server.Requests() {
				if strings.Contains(r, "oauth") {
					n++
				}
			}
			return n
		}
		if count() != 1 {
			t.Errorf("fetched %d tokens", count())
		}
		server.Token = "revoked"
		if _, err := cat.Load(t.Context(), table("db", "t")); err != nil {
			t.Errorf("load after the token was revoked: %v", err)
		}
		if count() != 2 {
			t.Errorf("fetched %d tokens", count())
		}
	})
	t.Run("wrong credentials", func(t *testing.T) {
		cat, _, _ := restWorld(t, map[string]string{"credential": "id:wrong"}, func(s *catalogtest.RESTServer) { s.Secret, s.Token = "id:secret", "none" })
		_, err := cat.Update(t.Context(), table("db", "t"), []byte("[]"), []byte("[]"))
		if !errors.Is(err, catalogs.ErrRefused) || !strings.Contains(err.Error(), "unknown client") || strings.Contains(err.Error(), "wrong") {
			t.Errorf("got %v, want ErrRefused that says why and not the secret", err)
		}
	})
	t.Run("unsupported", func(t *testing.T) {
		cat, _, _ := restWorld(t, map[string]string{"rest.auth.type": "google"}, nil)
		if _, err := cat.Load(t.Context(), table("db", "t")); err == nil || !strings.Contains(err.Error(), "google") {
			t.Errorf("got %v", err)
		}
	})
}

func TestRESTSigV4(t *testing.T) {
	cat, server, _ := restWorld(t, map[string]string{
		"rest.sigv4-enabled": "true", "rest.signing-region": "eu-west-1", "rest.signing-name": "s3tables", "rest.access-key-id": "AKID", "rest.secret-access-key": "s",
		"client.session-token": "session",
	}, nil)
	if _, err := cat.Load(t.Context(), table("db", "t")); err != nil {
		t.Fatal(err)
	}
	auth := server.Headers.Get("Authorization")
	if !strings.HasPrefix(auth, "AWS4-HMAC-SHA256 Credential=AKID/") || !strings.Contains(auth, "/eu-west-1/s3tables/aws4_request") {
		t.Errorf("Authorization: %s", auth)
	}
	if server.Headers.Get("X-Amz-Security-Token") != "session" || server.Headers.Get("X-Amz-Date") == "" {
		t.Errorf("headers: %v", server.Headers)
	}
	if empty := "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"; server.Headers.Get("X-Amz-Content-Sha256") != empty {
		t.Errorf("hash of no body: %s", server.Headers.Get("X-Amz-Content-Sha256"))
	}
	_, _ = cat.Update(t.Context(), table("db", "t"), []byte("[]"), []byte(`[{"action":"set-properties","updates":{"a":"b"}}]`))
	if hash := server.Headers.Get("X-Amz-Content-Sha256"); len(hash) != 64 || strings.HasPrefix(hash, "e3b0c4") {
		t.Errorf("hash of a body: %s", hash)
	}
	pointer, err := cat.Load(t.Context(), table("db", "t"))
	if err != nil || !strings.Contains(string(pointer.Metadata), `"a":"b"`) {
		t.Errorf("the signed commit did not arrive: %v", err)
	}
}

// TestRESTStatusOfCommits maps each status to one end, and counts the requests.
func TestRESTStatusOfCommits(t *testing.T) {
	for status, want := range map[int]catalogtest.End{
		409: catalogtest.Conflict, 400: catalogtest.Refused, 403: catalogtest.Refused, 404: catalogtest.Refused, 406: catalogtest.Refused, 422: catalogtest.Refused,
		408: catalogtest.Unknown, 429: catalogtest.Unknown, 500: catalogtest.Unknown, 501: catalogtest.Unknown, 502: catalogtest.Unknown, 503: catalogtest.Unknown,
		504: catalogtest.Unknown, 307: catalogtest.Unknown,
	} {
		cat, server, _ := restWorld(t, nil, nil)
		if _, err := cat.Load(t.Context(), table("db", "t")); err != nil {
			t.Fatal(err)
		}
		server.Log = nil
		server.AnswerWith(status)
		_, err := cat.Update(t.Context(), table("db", "t"), []byte("[]"), []byte("[]"))
		if got := catalogtest.EndOf(err); got != want {
			t.Errorf("%d: got %s (%v), want %s", status, got, err, want)
		}
		if n := len(server.Requests()); n != 1 {
			t.Errorf("%d: %d requests", status, n)
		}
	}
}

func TestRESTReadsAreRepeated(t *testing.T) {
	cat, server, _ := restWorld(t, nil, nil)
	if _, err := cat.Load(t.Context(), table("db", "t")); err != nil {
		t.Fatal(err)
	}
	server.AnswerWith(503, 429)
	if _, err := cat.Load(t.Context(), table("db", "t")); err != nil {
		t.Errorf("load after two passing errors: %v", err)
	}
	server.AnswerWith(500, 500, 500)
	if _, err := cat.Load(t.Context(), table("db", "t")); !errors.Is(err, catalogs.ErrTransient) {
		t.Errorf("load after three: got %v, want ErrTransient", err)
	}
	server.AnswerWith(403)
	if _, err := cat.Load(t.Context(), table("db", "t")); err == nil || errors.Is(err, catalogs.ErrTransient) || errors.Is(err, catalogs.ErrNoSuchTable) {
		t.Errorf("load without permission: got %v", err)
	}
}

// TestRESTServiceDown proves that a connection that was never made committed nothing.
func TestRESTServiceDown(t *testing.T) {
	cat, _, _ := restWorld(t, map[string]string{"uri": "http://127.0.0.1:1"}, nil)
	if _, err := cat.Load(t.Context(), table("db", "t")); !errors.Is(err, catalogs.ErrTransient) {
		t.Errorf("load: got %v, want ErrTransient", err)
	}
	if _, err := cat.Update(t.Context(), table("db", "t"), []byte("[]"), []byte("[]")); catalogtest.EndOf(err) != catalogtest.Refused {
		t.Errorf("commit: got %v, want ErrRefused", err)
	}
}

// TestRESTNonsenseAnswers must be unknown after a commit and errors after a read.
func TestRESTNonsenseAnswers(t *testing.T) {
	for _, body := range []string{"", "<html>hello</html>", "{}", `{"metadata":null}`, `{"metadata":{"format-version":2}}`, `[1]`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/config") {
				_, _ = fmt.Fprint(w, `{"defaults":{},"overrides":{}}`)
				return
			}
			_, _ = fmt.Fprint(w, body)
		}))
		t.Cleanup(server.Close)
		cat, err := catalogs.OpenREST("c", map[string]string{"uri": server.URL})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cat.Load(t.Context(), table("db", "t")); err == nil {
			t.Errorf("load %q: no error", body)
		}
		if _, err := cat.Update(t.Context(), table("db", "t"), []byte("[]"), []byte("[]")); catalogtest.EndOf(err) != catalogtest.Unknown {
			t.Errorf("commit %q: got %v, want unknown", body, err)
		}
	}
}

func TestRESTTimeoutProperty(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/config") {
			_, _ = fmt.Fprint(w, `{}`)
			return
		}
		<-release
	}))
	defer server.Close()
	defer close(release)
	cat, err := catalogs.OpenREST("c", map[string]string{"uri": server.URL, "rest.client.socket-timeout-ms": "150"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := cat.Update(ctx, table("db", "t"), []byte("[]"), []byte("[]")); catalogtest.EndOf(err) != catalogtest.Unknown || ctx.Err() != nil {
		t.Errorf("got %v, want unknown after the property's time", err)
	}
	for _, text := range []string{"x", "0", "-5"} {
		if _, err := catalogs.OpenREST("c", map[string]string{"uri": server.URL, "rest.client.socket-timeout-ms": text}); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
