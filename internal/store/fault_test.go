package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"firn/internal/store"
	"firn/internal/store/storetest"
)

func TestFaultsConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Full { return store.NewFaults(store.NewMemory(time.Now)) }, "mem://bucket/root")
}

var errTest = errors.New("made for the test")

// attempt writes n objects and says which writes failed.
func attempt(t *testing.T, s store.Store, n int) []int {
	t.Helper()
	var failed []int
	for i := 1; i <= n; i++ {
		if err := s.Put(t.Context(), fmt.Sprintf("mem://b/%d", i), []byte("x"), store.WriteOptions{}); err != nil {
			failed = append(failed, i)
		}
	}
	return failed
}

func present(t *testing.T, s store.Store) []string {
	t.Helper()
	var got []string
	for info, err := range s.List(t.Context(), "mem://b/", store.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, info.Location[len("mem://b/"):])
	}
	return got
}

func TestFaultRules(t *testing.T) {
	for _, c := range []struct {
		name          string
		rules         []store.Rule
		failed        []int
		present       []string
		fired, counts int
	}{
		{"none", nil, nil, []string{"1", "2", "3", "4", "5"}, 0, 5},
		{"the third put", []store.Rule{store.FailNth(store.OpPut, 3, errTest)}, []int{3}, []string{"1", "2", "4", "5"}, 1, 5},
		{"beyond the last", []store.Rule{store.FailNth(store.OpPut, 6, errTest)}, nil, []string{"1", "2", "3", "4", "5"}, 0, 5},
		{"other operation", []store.Rule{store.FailNth(store.OpGet, 1, errTest)}, nil, []string{"1", "2", "3", "4", "5"}, 0, 5},
		{"from the fourth on", []store.Rule{{Operation: store.OpPut, Skip: 3, Err: errTest}}, []int{4, 5}, []string{"1", "2", "3"}, 2, 5},
		{"by location", []store.Rule{{Contains: "b/2", Err: errTest}}, []int{2}, []string{"1", "3", "4", "5"}, 1, 5},
		{"lost answer", []store.Rule{{Operation: store.OpPut, Skip: 1, Times: 1, Err: errTest, Applied: true}}, []int{2}, []string{"1", "2", "3", "4", "5"}, 1, 5},
		{"crash", []store.Rule{store.CrashAfter(2)}, []int{3, 4, 5}, []string{"1", "2"}, 1, 5},
		{"crash after it was carried out", []store.Rule{{Operation: store.OpChange, Skip: 2, Crash: true, Applied: true}}, []int{3, 4, 5}, []string{"1", "2", "3"}, 1, 5},
		{"two rules", []store.Rule{store.FailNth(store.OpPut, 1, errTest), store.FailNth(store.OpPut, 2, errTest)}, []int{1, 2}, []string{"3", "4", "5"}, 2, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := store.NewFaults(store.NewMemory(time.Now), c.rules...)
			if got := attempt(t, f, 5); !slices.Equal(got, c.failed) {
				t.Errorf("failed: got %v: want %v", got, c.failed)
			}
			if got := present(t, f.Inner()); !slices.Equal(got, c.present) {
				t.Errorf("present: got %v: want %v", got, c.present)
			}
			if f.Fired() != c.fired || f.Count(store.OpPut) != c.counts || f.Count(store.OpChange) != c.counts || len(f.Calls()) != c.counts {
				t.Errorf("fired %d, counts %v", f.Fired(), f.Counts())
			}
			f.Reset()
			if got := attempt(t, f, 5); got != nil || f.Count(store.OpAny) != 5 {
				t.Errorf("after a reset %v failed", got)
			}
		})
	}
}

func TestFaultUploadAppliesButAnswersWithAnError(t *testing.T) {
	f := store.NewFaults(store.NewMemory(time.Now), store.Rule{Operation: store.OpCommit, Err: errTest, Applied: true})
	up, err := f.Create(t.Context(), "mem://b/1", store.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := up.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := up.Commit(t.Context()); !errors.Is(err, errTest) {
		t.Errorf("commit: %v", err)
	}
	if got := present(t, f); !slices.Equal(got, []string{"1"}) {
		t.Errorf("present: %v", got)
	}
}

func TestFaultCrashLeavesAnUpload(t *testing.T) {
	f := store.NewFaults(store.NewMemory(time.Now), store.Rule{Operation: store.OpWrite, Skip: 1, Crash: true})
	up, err := f.Create(t.Context(), "mem://b/1", store.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := up.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	_, err = up.Write([]byte("y"))
	for _, err := range []error{err, up.Commit(t.Context()), up.Abort(t.Context())} {
		if !errors.Is(err, store.ErrCrashed) {
			t.Errorf("got %v", err)
		}
	}
	n := 0
	for _, err := range f.Inner().Uploads(t.Context(), "mem://b/") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d uploads are left", n)
	}
}

func TestFaultDeletesByLocation(t *testing.T) {
	memory := store.NewMemory(time.Now)
	attempt(t, memory, 5)
	f := store.NewFaults(memory, store.Rule{Operation: store.OpDelete, Contains: "/3", Err: store.ErrPermission})
	n, failures, err := f.Delete(t.Context(), []string{"mem://b/1", "mem://b/3", "mem://b/5"})
	if n != 2 || len(failures) != 1 || failures[0].Location != "mem://b/3" || !errors.Is(failures[0].Err, store.ErrPermission) || err != nil {
		t.Errorf("delete: %d %v %v", n, failures, err)
	}
	if got := present(t, f); !slices.Equal(got, []string{"2", "3", "4"}) {
		t.Errorf("present: %v", got)
	}
	f.Add(store.Rule{Operation: store.OpDelete, Err: errTest})
	if _, _, err := f.Delete(t.Context(), []string{"mem://b/2"}); !errors.Is(err, errTest) {
		t.Errorf("delete: %v", err)
	}
}

func TestFaultWaits(t *testing.T) {
	hold := make(chan struct{})
	reached := make(chan struct{})
	f := store.NewFaults(store.NewMemory(time.Now),
		store.Rule{Operation: store.OpPut, Times: 1, Hold: hold, Do: func() { close(reached) }},
		store.Rule{Operation: store.OpGet, Delay: time.Hour})
	done := make(chan error)
	go func() { done <- f.Put(t.Context(), "mem://b/1", []byte("x"), store.WriteOptions{}) }()
	<-reached
	if got := present(t, f); got != nil {
		t.Errorf("the frozen call went through: %v", got)
	}
	close(hold)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := f.Get(ctx, "mem://b/1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("slow get: %v", err)
	}
}

func TestFaultInListing(t *testing.T) {
	f := store.NewFaults(store.NewMemory(time.Now), store.FailNth(store.OpList, 2, errTest), store.Rule{Operation: store.OpList, Skip: 3, Err: errTest, Applied: true})
	attempt(t, f, 3)
	for call, want := range []struct {
		seen int
		err  error
	}{{3, nil}, {0, errTest}, {3, nil}, {3, errTest}} {
		seen := 0
		var last error
		for _, err := range f.List(t.Context(), "mem://b/", store.ListOptions{}) {
			if last = err; err == nil {
				seen++
			}
		}
		if seen != want.seen || !errors.Is(last, want.err) {
			t.Errorf("listing %d: %d objects, %v", call+1, seen, last)
		}
	}
}
