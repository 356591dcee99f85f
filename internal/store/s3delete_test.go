package store_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"firn/internal/store"
	"firn/internal/store/storetest"
)

// deleteFake answers DeleteObjects as its answer function says: per key a code, "" for deleted, "-" for no word; or a status for the whole.
type deleteFake struct {
	*httptest.Server
	batches [][]string
	answer  func(request int, keys []string) (status int, codes map[string]string)
}

func newDeleteFake(t *testing.T, answer func(int, []string) (int, map[string]string)) *deleteFake {
	t.Helper()
	f := &deleteFake{answer: answer}
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.Close)
	return f
}

func (f *deleteFake) properties() map[string]string {
	return map[string]string{"s3.endpoint": f.URL, "s3.access-key-id": "a", "s3.secret-access-key": "b"}
}

func (f *deleteFake) serve(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Object []struct{ Key string }
		Quiet  bool
	}
	if storetest.RequestName(r) != "DeleteObjects" || xml.NewDecoder(r.Body).Decode(&request) != nil || len(request.Object) > 1000 || request.Quiet {
		storetest.Refuse(w, http.StatusBadRequest, "MalformedXML")
		return
	}
	var keys []string
	for _, o := range request.Object {
		keys = append(keys, o.Key)
	}
	f.batches = append(f.batches, keys)
	status, codes := f.answer(len(f.batches), keys)
	if status != http.StatusOK {
		storetest.Refuse(w, status, codes[""])
		return
	}
	var body strings.Builder
	body.WriteString(`<DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`)
	for _, k := range keys {
		switch codes[k] {
		case "":
			fmt.Fprintf(&body, "<Deleted><Key>%s</Key></Deleted>", k)
		case "-":
		default:
			fmt.Fprintf(&body, "<Error><Key>%s</Key><Code>%s</Code><Message>m</Message></Error>", k, codes[k])
		}
	}
	body.WriteString("</DeleteResult>")
	_, _ = w.Write([]byte(body.String()))
}

func (f *deleteFake) sizes() []int {
	var out []int
	for _, b := range f.batches {
		out = append(out, len(b))
	}
	return out
}

func orphans(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("s3://b/t/data/%05d.parquet", i)
	}
	return out
}

func keyOf(location string) string { return strings.TrimPrefix(location, "s3://b/") }

func TestS3DeleteHalfFails(t *testing.T) {
	locations := orphans(2345)
	denied := []string{locations[1001], locations[1500], locations[1999]}
	broken := []string{locations[1002], locations[1700]}
	f := newDeleteFake(t, func(request int, _ []string) (int, map[string]string) {
		codes := map[string]string{}
		switch request {
		case 2: // the second page
			for _, l := range denied {
				codes[keyOf(l)] = "AccessDenied"
			}
			for _, l := range broken {
				codes[keyOf(l)] = "InternalError"
			}
		case 4, 5: // the third page, twice
			return http.StatusServiceUnavailable, map[string]string{"": "SlowDown"}
		}
		return http.StatusOK, codes
	})
	var n naps
	deleted, failures, err := open(t, f.properties(), &n).Delete(t.Context(), slices.Concat(locations, locations[:10], locations[990:1010]))
	if err != nil {
		t.Fatal(err)
	}
	if deleted != 2342 || len(failures) != 3 {
		t.Errorf("deleted %d, %d failures", deleted, len(failures))
	}
	for i, failure := range failures {
		if failure.Location != denied[i] || !errors.Is(failure.Err, store.ErrPermission) || !strings.Contains(failure.Err.Error(), "AccessDenied") {
			t.Errorf("failure %d: %+v", i, failure)
		}
	}
	if got := f.sizes(); !slices.Equal(got, []int{1000, 1000, 2, 345, 345, 345}) {
		t.Errorf("batches %v", got)
	}
	if want := []string{keyOf(broken[0]), keyOf(broken[1])}; !slices.Equal(f.batches[2], want) {
		t.Errorf("asked again for %v: want %v", f.batches[2], want)
	}
	var again []int
	for _, r := range n.retries {
		again = append(again, r.Objects)
	}
	if !slices.Equal(again, []int{2, 345, 345}) || len(n.waits) != 3 {
		t.Errorf("retried %v, waits %v", again, n.waits)
	}
	for _, d := range n.waits {
		if d <= 0 {
			t.Errorf("no wait before a repetition: %v", n.waits)
		}
	}
}

func TestS3DeleteOutcomes(t *testing.T) {
	locations := orphans(2500)
	key := keyOf(locations[3])
	for _, c := range []struct {
		name     string
		answer   func(int, []string) (int, map[string]string)
		deleted  int
		failures int
		class    error // of the failures
		err      error // of the call
		batches  []int
	}{
		{
			"a key that is gone", func(int, []string) (int, map[string]string) { return 200, map[string]string{key: "NoSuchKey"} },
			2500, 0, nil, nil,
			[]int{1000, 1000, 500},
		},
		{
			"a key without an answer, once", func(n int, _ []string) (int, map[string]string) {
				if n == 1 {
					return 200, map[string]string{key: "-"}
				}
				return 200, nil
			}, 2500, 0, nil, nil, []int{1000, 1, 1000, 500},
		},
		{
			"a key that never gets on", func(int, []string) (int, map[string]string) { return 200, map[string]string{key: "SlowDown"} },
			2499, 1, store.ErrTransient, nil,
			[]int{1000, 1, 1, 1, 1, 1, 1, 1000, 500},
		},
		{
			"no permission for the call", func(int, []string) (int, map[string]string) { return 403, map[string]string{"": "AccessDenied"} },
			0, 1000, store.ErrPermission, store.ErrPermission,
			[]int{1000},
		},
		{
			"the service is down", func(n int, _ []string) (int, map[string]string) {
				if n == 1 {
					return 200, nil
				}
				return 503, map[string]string{"": "SlowDown"}
			}, 1000, 1000, store.ErrTransient, store.ErrTransient, []int{1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newDeleteFake(t, c.answer)
			var n naps
			deleted, failures, err := open(t, f.properties(), &n).Delete(t.Context(), locations)
			if deleted != c.deleted || len(failures) != c.failures || !errors.Is(err, c.err) {
				t.Errorf("deleted %d, %d failures, %v", deleted, len(failures), err)
			}
			for _, failure := range failures {
				if !errors.Is(failure.Err, c.class) {
					t.Fatalf("failure %+v", failure)
				}
			}
			if got := f.sizes(); !slices.Equal(got, c.batches) {
				t.Errorf("batches %v: want %v; retries %v", got, c.batches, n.retries)
			}
		})
	}
}

func TestS3DeletesKeysThatXMLCannotCarryOneByOne(t *testing.T) {
	server := storetest.NewS3Server(t, "b")
	s := open(t, server.Properties, nil)
	locations := []string{"s3://b/plain", "s3://b/new\nline", "s3://b/bell\x07", "s3://b/amp&<>\"'"}
	for _, l := range locations {
		if err := s.Put(t.Context(), l, []byte("x"), store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	n, failures, err := s.Delete(t.Context(), locations)
	if n != 4 || len(failures) != 0 || err != nil {
		t.Errorf("deleted %d, %v, %v", n, failures, err)
	}
	if server.Requests("DeleteObjects") != 1 || server.Requests("DeleteObject") != 2 {
		t.Errorf("%d batches, %d single", server.Requests("DeleteObjects"), server.Requests("DeleteObject"))
	}
	for _, l := range locations {
		if _, err := s.Head(t.Context(), l); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%q is there: %v", l, err)
		}
	}
}
