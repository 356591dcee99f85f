package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"firn/internal/edge"
	"firn/internal/icebergtest"
	"firn/internal/lake/catalogs"
	"firn/internal/local"
	"firn/internal/local/serve"
	"firn/internal/maintenance"
	"firn/internal/policy"
	"firn/internal/report"
	"firn/internal/state"
	"firn/internal/store"
)

const maintain = `
mode: maintain
rewrite_data_files: {trigger: {small-files: 10}}
`

// fixture is a table of twelve small files and a twin beside it.
type fixture struct {
	world *icebergtest.World
	table *icebergtest.Table
	// id names the table with its catalog, as the walk over catalogs does.
	id     maintenance.TableID
	state  state.Store
	server *serve.Server
}

func newFixture(t *testing.T, opts serve.Options) *fixture {
	t.Helper()
	f := &fixture{world: icebergtest.NewWorld(t)}
	f.table = f.world.NewTable("db.t")
	for i := range 12 {
		f.table.Commit(icebergtest.Append(icebergtest.Row{int64(i), fmt.Sprint("g", i%2), float64(i)}))
	}
	memory, isMemory := f.world.Store.(*store.Memory)
	if !isMemory {
		t.Fatalf("world has a %T", f.world.Store)
	}
	config, err := catalogs.LoadConfig(catalogs.Sources{Flags: []string{"type=in-memory"}, DefaultCatalog: f.world.Catalog.Name()})
	if err != nil {
		t.Fatal(err)
	}
	stores := map[string]store.Full{"s3": memory, "mem": memory}
	clients := edge.NewClients(config, edge.Settings{WorkLocation: "mem://work/firn", StateLocation: "memory:"}, stores)
	mux, err := store.New(store.Config{Stores: stores})
	if err != nil {
		t.Fatal(err)
	}
	f.id = f.table.State().ID
	f.id.Catalog = clients.DefaultCatalog()
	clients.UseLake(clients.DefaultCatalog(), edge.Lake{Catalog: f.world.Catalog, Store: mux})
	document, err := policy.ParseYAML([]byte(maintain))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	locks := t.TempDir()
	opts.Poll, opts.Reconcile, opts.Window, opts.Runs = 20*time.Millisecond, time.Hour, 10*time.Millisecond, 1
	f.server, err = serve.New(t.Context(), serve.Deps{
		Clients: clients, Policy: document, Now: f.world.Clock.Now, Log: log,
		NewRunner: func(ctx context.Context, notifier report.Notifier) (*local.Runner, error) {
			return local.NewRunner(ctx, clients, local.Options{LockDir: locks, Now: f.world.Clock.Now, Log: log, Notifier: notifier})
		},
		Health: func(_ context.Context, id maintenance.TableID, out io.Writer) error {
			_, err := fmt.Fprintf(out, "health of %s", id)
			return err
		},
	}, opts)
	if err != nil {
		t.Fatal(err)
	}
	if f.state, err = clients.State(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

// run runs the twin until done says so.
func (f *fixture) run(t *testing.T, done func() bool) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.server.Run(ctx, nil) }()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("nothing came of it in two minutes")
			break
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func (f *fixture) decisions(t *testing.T) []state.Decision {
	t.Helper()
	found, err := f.state.Decisions(t.Context(), f.id, 100)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestTableThatSendsNoEventsIsMaintained lets polling find the table, and its run end.
func TestTableThatSendsNoEventsIsMaintained(t *testing.T) {
	t.Parallel()
	f := newFixture(t, serve.Options{Maintain: true})
	want := f.table.Rows()
	f.run(t, func() bool {
		runs, err := f.state.Runs(t.Context(), f.id, 1)
		if err != nil {
			t.Fatal(err)
		}
		_, held, err := f.state.Current(t.Context(), f.id)
		return len(runs) > 0 && !held && err == nil
	})
	if diff := cmp.Diff(want, f.table.Rows()); diff != "" {
		t.Errorf("rows changed:\n%s", diff)
	}
	if n := len(f.table.State().Metadata.Snapshots()); n != 13 {
		t.Errorf("%d snapshots, want the 12 appends and the rewrite", n)
	}
	// The newest decision may already be that nothing is due any more: what ran stands on the table's own page.
	for path, words := range map[string][]string{"/": {"db.t", "committed"}, "/tables/" + f.id.String(): {"rewrite_data_files", "committed"}} {
		page := get(t, f.server, path)
		for _, word := range words {
			if !strings.Contains(page, word) {
				t.Errorf("%s does not say %q:\n%s", path, word, page)
			}
		}
	}
}

// TestWithoutMaintainNothingChanges sees the decision of a table whose policy says maintain, and no run; nor is one begun that another process left
// unstarted.
func TestWithoutMaintainNothingChanges(t *testing.T) {
	t.Parallel()
	for _, leased := range []bool{false, true} {
		t.Run(fmt.Sprint("leased ", leased), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, serve.Options{})
			id, head := f.id, f.table.State().Metadata.CurrentSnapshot().SnapshotID
			if leased {
				_, err := f.state.Acquire(t.Context(), id, f.world.Clock.Now(), time.Hour, func(int64) (maintenance.RunID, []byte) { return "left", []byte("{}") })
				if err != nil {
					t.Fatal(err)
				}
			}
			f.run(t, func() bool {
				if leased {
					lease, held, err := f.state.Current(t.Context(), id)
					return err == nil && held && lease.Pending
				}
				return len(f.decisions(t)) > 0
			})
			for _, d := range f.decisions(t) {
				if d.Action != "observe" || len(d.Due) == 0 {
					t.Errorf("decision %+v", d)
				}
			}
			if got := f.table.State().Metadata.CurrentSnapshot().SnapshotID; got != head {
				t.Errorf("snapshot %d was committed", got)
			}
		})
	}
}

// TestUnstartedRunIsStarted finds a lease whose run was never begun, as a process leaves that dies between the two.
func TestUnstartedRunIsStarted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, serve.Options{Maintain: true})
	base := f.table.State()
	request := maintenance.Request{Trigger: "event", Automatic: true, Jobs: []maintenance.JobRequest{{Job: maintenance.RewriteDataFiles}}}
	lease, err := f.state.Acquire(t.Context(), f.id, f.world.Clock.Now(), time.Hour, func(token int64) (maintenance.RunID, []byte) {
		run := maintenance.Run{RunID: "run-left-unstarted", Table: f.id, TableUUID: base.Metadata.TableUUID().String(), Token: token}
		data, err := json.Marshal(maintenance.ExecutionInput{V: 1, Run: run, Request: request})
		if err != nil {
			t.Fatal(err)
		}
		return run.RunID, data
	})
	if err != nil {
		t.Fatal(err)
	}
	f.run(t, func() bool {
		_, found, err := f.state.FindRun(t.Context(), lease.RunID)
		return found && err == nil
	})
}

func get(t *testing.T, s *serve.Server, path string) string {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
	s.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// TestPagesAndObjects reads every page and object of a table that was looked at and maintained.
func TestPagesAndObjects(t *testing.T) {
	t.Parallel()
	f := newFixture(t, serve.Options{Maintain: true})
	id := f.id
	var run maintenance.RunID
	f.run(t, func() bool {
		runs, err := f.state.Runs(t.Context(), id, 1)
		if err == nil && len(runs) > 0 {
			run = runs[0].Run.RunID
		}
		return run != "" && len(f.decisions(t)) > 0 // the decision is kept behind the start of its run
	})
	name := id.String()
	for path, word := range map[string]string{
		"/tables/" + name:             "12",
		"/tables/" + name + "/health": "health of " + name,
		"/runs/" + string(run):        "rewritten_data_files_count 12",
		"/healthz":                    "ok",
	} {
		if page := get(t, f.server, path); !strings.Contains(page, word) {
			t.Errorf("%s does not say %q:\n%s", path, word, page)
		}
	}
	var list serve.TableList
	if err := json.Unmarshal([]byte(get(t, f.server, "/api/tables")), &list); err != nil || len(list.Tables) != 1 || list.Tables[0].Table != name {
		t.Errorf("tables %+v, %v", list, err)
	}
	var view serve.TableView
	if err := json.Unmarshal([]byte(get(t, f.server, "/api/tables/"+name)), &view); err != nil || len(view.Runs) == 0 || len(view.Decisions) == 0 {
		t.Errorf("table %+v, %v", view, err)
	}
	var record state.RunRecord
	if err := json.Unmarshal([]byte(get(t, f.server, "/api/runs/"+string(run))), &record); err != nil || record.Run.RunID != run {
		t.Errorf("run %+v, %v", record, err)
	}
	for _, path := range []string{"/tables/no.such", "/tables/no.such/health", "/runs/none", "/api/tables/no.such", "/nothing"} {
		w := httptest.NewRecorder()
		f.server.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil))
		if w.Code != http.StatusNotFound {
			t.Errorf("GET %s: %d", path, w.Code)
		}
	}
}

// TestDoor sends what a program, a browser and a stranger may send.
func TestDoor(t *testing.T) {
	t.Parallel()
	const object, cloud = "application/json", "application/cloudevents+json"
	for _, c := range []struct {
		name, token, host, kind, body string
		headers                       map[string]string
		want, refused                 int
	}{
		{name: "event", host: "localhost:8642", kind: object, body: `{"v":1,"source":"iceberg.committed","namespace":["db"],"table":"t"}`, want: 202},
		{name: "no event", host: "127.0.0.1:8642", kind: object, body: `{"hello":1}`, want: 202, refused: 1},
		{name: "no JSON", host: "[::1]:8642", kind: cloud, body: "\x00", want: 202, refused: 1},
		{name: "binary CloudEvent without body", host: "localhost", headers: map[string]string{"Ce-Type": "nobody.knows", "Ce-Id": "1"}, want: 202, refused: 1},
		{name: "form", host: "localhost", kind: "application/x-www-form-urlencoded", body: "a=1", want: 415},
		{name: "plain text, as a page may send", host: "localhost", kind: "text/plain", body: "{}", want: 415},
		{name: "web page", host: "localhost", kind: object, body: "{}", headers: map[string]string{"Origin": "http://localhost:8642"}, want: 403},
		{name: "rebound name", host: "evil.example:8642", kind: object, body: "{}", want: 403},
		{name: "empty", host: "localhost", kind: object, body: " ", want: 400},
		{name: "large", host: "localhost", kind: object, body: strings.Repeat(" ", 1<<20) + "{}", want: 413},
		{name: "no token", token: "secret", host: "firn.example", kind: object, body: "{}", want: 401},
		{name: "wrong token", token: "secret", host: "firn.example", kind: object, body: "{}", headers: map[string]string{"Authorization": "Bearer Secret"}, want: 401},
		{name: "token", token: "secret", host: "firn.example", kind: object, body: "{}", headers: map[string]string{"Authorization": "Bearer secret"}, want: 202, refused: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, serve.Options{Token: c.token})
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/events", bytes.NewReader([]byte(c.body)))
			r.Host = c.host
			r.Header.Set("Content-Type", c.kind)
			for name, value := range c.headers {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			f.server.Handler().ServeHTTP(w, r)
			if w.Code != c.want {
				t.Fatalf("%d %s, want %d", w.Code, w.Body, c.want)
			}
			if c.want != http.StatusAccepted {
				return
			}
			view := func() (queue serve.QueueView) {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/api/queue", nil)
				r.Header.Set("Authorization", "Bearer "+c.token)
				w := httptest.NewRecorder()
				f.server.Handler().ServeHTTP(w, r)
				if err := json.Unmarshal(w.Body.Bytes(), &queue); err != nil {
					t.Fatalf("%s: %v", w.Body, err)
				}
				return queue
			}
			f.run(t, func() bool { return view().Depth.Waiting == 0 && len(f.decisions(t)) > 0 })
			queue := view() // a batch that was at work ended with the twin
			if len(queue.Refused) != c.refused {
				t.Errorf("refused %+v, want %d", queue.Refused, c.refused)
			}
		})
	}
}

// TestAddressOthersReachNeedsToken refuses to open the door to the network without one.
func TestAddressOthersReachNeedsToken(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	if err := newFixture(t, serve.Options{}).server.Run(t.Context(), listener); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("err %v", err)
	}
}

// TestBadOptionsAreNamed names the setting and what it must be.
func TestBadOptionsAreNamed(t *testing.T) {
	t.Parallel()
	good := serve.Options{Poll: 1, Reconcile: 1, Window: 1, Runs: 1}
	for word, change := range map[string]func(*serve.Options){
		"poll": func(o *serve.Options) { o.Poll = 0 }, "reconcile": func(o *serve.Options) { o.Reconcile = -1 },
		"window": func(o *serve.Options) { o.Window = 0 }, "runs": func(o *serve.Options) { o.Runs = 0 },
	} {
		opts := good
		change(&opts)
		if _, err := serve.New(t.Context(), serve.Deps{Now: time.Now}, opts); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: err %v", word, err)
		}
	}
}

// TestPagesSayWhy: an operator reads why a table is as it is, on which figures, and whether the twin itself is well; tables have captions and headers, and no
// style takes their roles away.
func TestPagesSayWhy(t *testing.T) {
	t.Parallel()
	f := newFixture(t, serve.Options{})
	f.run(t, func() bool {
		return len(f.decisions(t)) > 0 && strings.Contains(get(t, f.server, "/"), "Catalogs walked at")
	})
	for path, words := range map[string][]string{
		"/": {
			"Observing only", "due, and only observed", "<details><summary>why</summary>", "files under 75 %", "/tables/" + f.id.String() + "/health", "Catalogs compared at",
			"<caption>tables that were looked at</caption>", `<th scope="col">standing</th>`, "<main>",
		},
		"/tables/" + f.id.String(): {
			"due, and only observed", "worst_small_files 12", "<summary>figures</summary>", "0 in 24 hours", "firn explain --table", "<caption>decisions, newest first",
		},
	} {
		page := get(t, f.server, path)
		for _, word := range append(words, "</main>\n</body>") {
			if !strings.Contains(page, word) {
				t.Errorf("%s does not say %q:\n%s", path, word, page)
			}
		}
		if strings.Contains(page, "display: block") || strings.Count(page, "<table>") != strings.Count(page, "<caption>") ||
			strings.Count(page, "<div") != strings.Count(page, "</div>") {
			t.Errorf("%s: tables without captions or roles:\n%s", path, page)
		}
	}
}
