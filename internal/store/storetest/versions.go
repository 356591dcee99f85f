package storetest

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"firn/internal/store"
)

// versions are what versioned buckets keep, by bucket and key, oldest first. gofakes3 has versions of its own, but what lies under a removed delete
// marker does not come back there.
type versions struct {
	buckets map[string]map[string][]version
	next    int
}

type version struct {
	store.Version
	data []byte
}

// KeepVersions makes buckets keep what writes replace and deletions remove, as AWS does: times in whole seconds, one list a page. Call it before the
// first request.
func (s *S3Server) KeepVersions(buckets ...string) {
	s.write.Lock()
	defer s.write.Unlock()
	s.versions.buckets = map[string]map[string][]version{}
	for _, b := range buckets {
		s.versions.buckets[b] = map[string][]version{}
	}
}

// DeleteAt deletes an object of a versioned bucket as if it were another time. Nothing else may write meanwhile.
func (s *S3Server) DeleteAt(t testing.TB, bucket, key string, at time.Time) {
	t.Helper()
	s.clock.at.Store(&at)
	defer s.clock.at.Store(nil)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/"+bucket+"/"+url.PathEscape(key), http.NoBody)
	s.Pass(httptest.NewRecorder(), r)
}

// LoseVersions drops the data that delete markers hide, as a lifecycle rule does.
func (s *S3Server) LoseVersions(bucket, key string) {
	s.write.Lock()
	defer s.write.Unlock()
	all := s.versions.buckets[bucket]
	all[key] = slices.DeleteFunc(all[key], func(v version) bool { return !v.Marker })
}

// versioned serves a request to a versioned bucket; false when it is about none, or about nothing that has to do with versions.
func (s *S3Server) versioned(w http.ResponseWriter, r *http.Request) bool {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	keys := s.versions.buckets[bucket]
	if keys == nil {
		return false
	}
	query := r.URL.Query()
	switch name := RequestName(r); {
	case name == "ListObjectVersions":
		s.write.Lock()
		defer s.write.Unlock()
		listVersions(w, keys, query)
	case name == "DeleteObject" && query.Has("versionId"):
		s.write.Lock()
		defer s.write.Unlock()
		s.removeVersion(bucket, key, query.Get("versionId"))
		w.WriteHeader(http.StatusNoContent)
	case name == "DeleteObject":
		s.write.Lock()
		defer s.write.Unlock()
		s.inner.ServeHTTP(w, r)
		s.keep(bucket, key, true)
	default:
		return false
	}
	return true
}

// keep notes that an object was written or deleted; the lock is held.
func (s *S3Server) keep(bucket, key string, deleted bool) {
	keys := s.versions.buckets[bucket]
	if keys == nil {
		return
	}
	s.versions.next++
	v := version{Version: store.Version{ID: "v" + strconv.Itoa(s.versions.next), Marker: deleted, ModifiedAt: s.clock.Now().Truncate(time.Second)}}
	if !deleted {
		o, err := s.backend.GetObject(bucket, key, nil)
		if err != nil {
			return // the write was refused
		}
		v.data, _ = io.ReadAll(o.Contents) // memory does not fail
		_ = o.Contents.Close()
		v.SizeBytes = int64(len(v.data))
	}
	keys[key] = append(keys[key], v)
}

// removeVersion removes one version for good; what is the newest then is the object.
func (s *S3Server) removeVersion(bucket, key, id string) {
	keys := s.versions.buckets[bucket]
	keys[key] = slices.DeleteFunc(keys[key], func(v version) bool { return v.ID == id })
	var newest version
	if n := len(keys[key]); n > 0 {
		newest = keys[key][n-1]
	}
	if newest.ID == "" || newest.Marker {
		_, _ = s.backend.DeleteObject(bucket, key)
		return
	}
	s.clock.at.Store(&newest.ModifiedAt)
	defer s.clock.at.Store(nil)
	meta := map[string]string{"Last-Modified": newest.ModifiedAt.UTC().Format(http.TimeFormat)}
	_, _ = s.backend.PutObject(bucket, key, meta, bytes.NewReader(newest.data), newest.SizeBytes, nil)
}

// listVersions answers ListObjectVersions: keys in byte order, versions newest first, delete markers among them.
func listVersions(w http.ResponseWriter, all map[string][]version, query url.Values) {
	encode := func(key string) string { return key }
	if query.Get("encoding-type") == "url" {
		encode = url.QueryEscape
	}
	limit, err := strconv.Atoi(query.Get("max-keys"))
	if err != nil {
		limit = 1000
	}
	var body bytes.Buffer
	body.WriteString(`<ListVersionsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`)
	if query.Get("encoding-type") == "url" {
		body.WriteString("<EncodingType>url</EncodingType>")
	}
	after, afterID := query.Get("key-marker"), query.Get("version-id-marker")
	lastKey, lastID, n := "", "", 0
	for _, key := range sortedKeys(all) {
		if !strings.HasPrefix(key, query.Get("prefix")) || key < after || key == after && afterID == "" {
			continue
		}
		skip := key == after
		for i, v := range slices.Backward(all[key]) {
			if skip {
				skip = v.ID != afterID
				continue
			}
			if n++; n > limit {
				fmt.Fprintf(&body, "<IsTruncated>true</IsTruncated><NextKeyMarker>%s</NextKeyMarker><NextVersionIdMarker>%s</NextVersionIdMarker>",
					escaped(encode(lastKey)), lastID)
				break
			}
			element := "Version"
			if v.Marker {
				element = "DeleteMarker"
			}
			fmt.Fprintf(&body, "<%s><Key>%s</Key><VersionId>%s</VersionId><IsLatest>%t</IsLatest><LastModified>%s</LastModified><Size>%d</Size></%s>", element,
				escaped(encode(key)), v.ID, i == len(all[key])-1, v.ModifiedAt.UTC().Format("2006-01-02T15:04:05.000Z"), v.SizeBytes, element)
			lastKey, lastID = key, v.ID
		}
		if n > limit {
			break
		}
	}
	body.WriteString("</ListVersionsResult>")
	w.Header().Set("Content-Type", "application/xml")
	_, _ = w.Write(body.Bytes())
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a builder never fails
	return b.String()
}

func sortedKeys(all map[string][]version) []string {
	keys := make([]string, 0, len(all))
	for key := range all {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// Versions checks that a store that keeps versions keeps the contract of store.Versioned; see Run for the arguments.
func Versions(t *testing.T, open func(t *testing.T) store.Full, prefix string) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, world)
	}{
		{"what was deleted comes back", deletedComesBack},
		{"a key that is the start of others", startOfOthers},
		{"deleted twice", deletedTwice},
		{"written again", writtenAgain},
		{"only markers are removed", onlyMarkers},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.test(t, world{Full: open(t), root: store.Join(prefix, strings.ReplaceAll(c.name, " ", "-"))})
		})
	}
}

// WithoutVersions checks that a store that keeps no versions says so.
func WithoutVersions(t *testing.T, st store.Full, prefix string) {
	t.Helper()
	w := world{Full: st, root: prefix}
	w.put(t, "kept", "four")
	if got := w.kept(t, "kept"); len(got) != 1 || got[0].Marker || got[0].SizeBytes != 4 {
		t.Errorf("versions of an object that stands: %+v", got)
	}
	w.remove(t, "kept")
	for _, name := range []string{"kept", "never"} {
		if got := w.kept(t, name); len(got) != 0 {
			t.Errorf("versions of %s, which is gone: %+v", name, got)
		}
	}
}

func (w world) kept(t *testing.T, name string) []store.Version {
	t.Helper()
	got, err := store.Versions(w.Full).Versions(t.Context(), w.at(name))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func (w world) remove(t *testing.T, names ...string) {
	t.Helper()
	locations := make([]string, len(names))
	for i, name := range names {
		locations[i] = w.at(name)
	}
	if _, failures, err := w.Delete(t.Context(), locations); err != nil || len(failures) != 0 {
		t.Fatal(failures, err)
	}
}

// undelete removes the delete markers over an object, twice: a marker that is gone counts as done.
func (w world) undelete(t *testing.T, name string) {
	t.Helper()
	for _, v := range w.kept(t, name) {
		for range 2 {
			if err := store.Versions(w.Full).Undelete(t.Context(), w.at(name), v); v.Marker && err != nil {
				t.Fatal(err)
			}
		}
	}
}

func deletedComesBack(t *testing.T, w world) {
	var names []string
	for _, name := range append(odd(), "new\nline", "bell\x07") {
		names = append(names, "data/"+name+"/"+name)
	}
	for _, name := range names {
		w.put(t, name, "content of "+name)
	}
	before := time.Now().Add(-2 * time.Second)
	w.remove(t, names...)
	for _, name := range names {
		got := w.kept(t, name)
		if len(got) != 2 || !got[0].Marker || got[1].Marker || got[1].SizeBytes != int64(len("content of "+name)) {
			t.Fatalf("versions of %q: %+v", name, got)
		}
		if got[0].ModifiedAt.Before(before) || got[0].ModifiedAt.After(time.Now().Add(time.Minute)) {
			t.Errorf("%q was deleted at %v", name, got[0].ModifiedAt)
		}
		w.undelete(t, name)
		w.want(t, name, "content of "+name)
	}
	if got := w.kept(t, "never"); len(got) != 0 {
		t.Errorf("versions of an object that never was: %+v", got)
	}
}

func startOfOthers(t *testing.T, w world) {
	names := []string{"a", "a.crc", "a/b", "a0"}
	for _, name := range names {
		w.put(t, name, name)
	}
	w.remove(t, names...)
	w.undelete(t, "a")
	w.want(t, "a", "a")
	if got := w.names(t, w.root, store.ListOptions{}); !slices.Equal(got, []string{"a"}) {
		t.Errorf("list: got %v", got)
	}
	w.remove(t, "b-start")
	w.put(t, "b-start-longer", "x")
	if got := w.kept(t, "b-start"); slices.ContainsFunc(got, func(v store.Version) bool { return !v.Marker }) {
		t.Errorf("data of another key: %+v", got)
	}
}

func deletedTwice(t *testing.T, w world) {
	w.put(t, "f", "data")
	for range 250 { // more markers than a page
		w.remove(t, "f")
	}
	if got := w.kept(t, "f"); len(got) != 251 || got[250].Marker {
		t.Fatalf("%d versions", len(got))
	}
	w.undelete(t, "f")
	w.want(t, "f", "data")
}

func writtenAgain(t *testing.T, w world) {
	w.put(t, "f", "first")
	w.remove(t, "f")
	marker := w.kept(t, "f")[0]
	w.put(t, "f", "second")
	if got := w.kept(t, "f"); len(got) != 1 || got[0].Marker || got[0].SizeBytes != 6 {
		t.Errorf("versions of an object that stands again: %+v", got)
	}
	if err := store.Versions(w.Full).Undelete(t.Context(), w.at("f"), marker); err != nil {
		t.Error(err)
	}
	w.want(t, "f", "second")
}

func onlyMarkers(t *testing.T, w world) {
	w.put(t, "f", "data")
	data := w.kept(t, "f")[0]
	for what, v := range map[string]store.Version{"data": data, "no ID": {Marker: true}, "null": {ID: store.NullVersion, Marker: true}} {
		if err := store.Versions(w.Full).Undelete(t.Context(), w.at("f"), v); err == nil {
			t.Errorf("undelete of %s was done", what)
		}
	}
	w.want(t, "f", "data")
}
