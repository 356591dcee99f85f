package store_test

import (
	"strings"
	"testing"

	"firn/internal/store"
)

func TestParseLocation(t *testing.T) {
	for _, c := range []struct {
		text      string
		want      store.Location
		canonical string
	}{
		{"s3://b/k", store.Location{Scheme: "s3", Authority: "b", Key: "k"}, "s3://b/k"},
		{"s3a://b/k/x.parquet", store.Location{Scheme: "s3a", Authority: "b", Key: "k/x.parquet"}, "s3://b/k/x.parquet"},
		{"S3N://B/K", store.Location{Scheme: "s3n", Authority: "B", Key: "K"}, "s3://B/K"},
		{"s3://b", store.Location{Scheme: "s3", Authority: "b"}, "s3://b/"},
		{"s3://b//k//", store.Location{Scheme: "s3", Authority: "b", Key: "/k//"}, "s3://b//k//"},
		{"s3://b/a?b#c%2F+d e/../f", store.Location{Scheme: "s3", Authority: "b", Key: "a?b#c%2F+d e/../f"}, "s3://b/a?b#c%2F+d e/../f"},
		{"mem://b/k:x", store.Location{Scheme: "mem", Authority: "b", Key: "k:x"}, "mem://b/k:x"},
		{"/a/b", store.Location{Scheme: "file", Key: "/a/b"}, "file:///a/b"},
		{"/a:b/c", store.Location{Scheme: "file", Key: "/a:b/c"}, "file:///a:b/c"},
		{"file:/a/b", store.Location{Scheme: "file", Key: "/a/b"}, "file:///a/b"},
		{"file:///a/b/", store.Location{Scheme: "file", Key: "/a/b/"}, "file:///a/b/"},
		{"FILE://host/a", store.Location{Scheme: "file", Key: "/a"}, "file:///a"},
		{"file:///a//b/./c", store.Location{Scheme: "file", Key: "/a//b/./c"}, "file:///a/b/c"},
		{"file:///a/.b/../c", store.Location{Scheme: "file", Key: "/a/.b/../c"}, "file:///a/c"},
		{"file:///a/.hidden/c", store.Location{Scheme: "file", Key: "/a/.hidden/c"}, "file:///a/.hidden/c"},
		{"file:///a/..", store.Location{Scheme: "file", Key: "/a/.."}, "file:///"},
		{"file:///a%20b#c?d", store.Location{Scheme: "file", Key: "/a%20b#c?d"}, "file:///a%20b#c?d"},
	} {
		got, err := store.ParseLocation(c.text)
		if err != nil || got != c.want {
			t.Errorf("parse %q: got %+v %v: want %+v", c.text, got, err, c.want)
		}
		if canonical, err := store.Canonical(c.text); err != nil || canonical != c.canonical {
			t.Errorf("canonical %q: got %q %v: want %q", c.text, canonical, err, c.canonical)
		}
	}
	for _, text := range []string{"", "a", "a/b", "./a", "file:a", "file:", "file://", "file://host", "s3:/b/k", "s3:b/k", "s3://", "s3:///k", "://b/k", "a b://c/d", "a/b://c/d"} {
		if got, err := store.ParseLocation(text); err == nil {
			t.Errorf("parse %q: got %+v", text, got)
		}
	}
}

func FuzzParseLocation(f *testing.F) {
	for _, seed := range []string{"s3://b/k", "s3a://b//%2F#?", "file:/x", "file://h/x", "/x/../y", "S3://b", "\xff://\xfe/\x00", "file:////"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		loc, err := store.ParseLocation(text)
		if err != nil {
			return
		}
		if !strings.HasSuffix(text, loc.Key) || !strings.Contains(text, loc.Authority) {
			t.Errorf("%q: key %q or authority %q is no part of it", text, loc.Key, loc.Authority)
		}
		again, err := store.ParseLocation(loc.String())
		if err != nil || again != loc {
			t.Errorf("%q: %q reads as %+v %v: want %+v", text, loc.String(), again, err, loc)
		}
		once, err := store.Canonical(text)
		if err != nil {
			t.Fatal(err)
		}
		if loc, err := store.ParseLocation(text); err != nil || loc.Canonical().String() != once {
			t.Errorf("%q: canonical %q, want %q %v", text, once, loc.Canonical(), err)
		}
		if twice, err := store.Canonical(once); err != nil || twice != once {
			t.Errorf("%q: canonical %q becomes %q %v", text, once, twice, err)
		}
	})
}

func TestJoin(t *testing.T) {
	for _, c := range []struct {
		want string
		base string
		rest []string
	}{
		{"s3://b/a", "s3://b", []string{"a"}},
		{"s3://b/a/c", "s3://b/", []string{"/a", "c"}},
		{"file:///x/y", "file:///x//", []string{"y"}},
		{"s3://b", "s3://b", nil},
		{"s3://b/runs/x/y", "s3://b", []string{"runs/", "x", "y"}},
		{"s3://b/runs/x/", "s3://b", []string{"runs/", "x", ""}},
		{"s3://b/runs/", "s3://b", []string{"runs/"}},
	} {
		if got := store.Join(c.base, c.rest...); got != c.want {
			t.Errorf("join %q %q: got %q: want %q", c.base, c.rest, got, c.want)
		}
	}
}
