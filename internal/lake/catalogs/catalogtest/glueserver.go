package catalogtest

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"firn/internal/maintenance"
)

// GlueServer is AWS Glue's data catalog as far as tables need it, in this process: JSON 1.1, with the optimistic lock of UpdateTable, which the
// public emulators lack, and faults. Like Glue it replaces a table's definition with what UpdateTable sends.
type GlueServer struct {
	// URL is the endpoint.
	URL string

	mu        sync.Mutex
	armed     Fault
	databases map[string]bool
	tables    map[string]map[string]any // database and name, joined by U+001F
	requests  []GlueRequest
	// optimizers are the types of optimizers that are on, by table; refusals are answers to an action instead of its own.
	optimizers map[string][]string
	refusals   map[string]GlueRefusal
}

// GlueRefusal is an error of the service: its code and its message.
type GlueRefusal struct{ Code, Message string }

// GlueRequest is one request that the server saw.
type GlueRequest struct {
	Action string
	Body   map[string]any
}

// NewGlueServer starts a server; it stops with the test.
func NewGlueServer(t testing.TB) *GlueServer {
	t.Helper()
	s := &GlueServer{databases: map[string]bool{}, tables: map[string]map[string]any{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	s.URL = server.URL
	return s
}

// Arm makes the next UpdateTable meet the fault.
func (s *GlueServer) Arm(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = f
}

// Refuse makes every request of an action end with an error of the service; one without code lets them pass again.
func (s *GlueServer) Refuse(action string, r GlueRefusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusals == nil {
		s.refusals = map[string]GlueRefusal{}
	}
	s.refusals[action] = r
}

// Optimize switches a table's optimizers on ("compaction", "retention", "orphan_file_deletion"), and all others off.
func (s *GlueServer) Optimize(database, name string, kinds ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.optimizers == nil {
		s.optimizers = map[string][]string{}
	}
	s.optimizers[glueKey(database, name)] = kinds
}

// Requests returns the requests of one action.
func (s *GlueServer) Requests(action string) []GlueRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []GlueRequest
	for _, r := range s.requests {
		if r.Action == action {
			found = append(found, r)
		}
	}
	return found
}

// PutTable sets a table's definition as another tool would, in Glue's JSON (Name, DatabaseName, Parameters, VersionId, …).
func (s *GlueServer) PutTable(definition map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.databases[text(definition["DatabaseName"])] = true
	s.tables[glueKey(text(definition["DatabaseName"]), text(definition["Name"]))] = definition
}

// Table returns a table's definition.
func (s *GlueServer) Table(database, name string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tables[glueKey(database, name)]
}

// Drop removes a table.
func (s *GlueServer) Drop(id maintenance.TableID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tables, glueKey(id.Namespace.String(), id.Name))
}

// glueKey folds names as Glue does.
func glueKey(database, name string) string {
	return strings.ToLower(database) + "\x1f" + strings.ToLower(name)
}

// text reads a string out of decoded JSON.
func text(v any) string {
	s, _ := v.(string)
	return s
}

// ServeHTTP answers one request.
func (s *GlueServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	action := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "AWSGlue.")
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		glueFail(w, http.StatusBadRequest, "InvalidInputException", err.Error())
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, GlueRequest{Action: action, Body: body})
	fault := Fault("")
	if action == "UpdateTable" {
		fault, s.armed = s.armed, ""
	}
	recorded := httptest.NewRecorder()
	if fault != Unavailable && fault != Forbidden {
		s.act(recorded, action, body)
	}
	s.mu.Unlock()
	switch fault {
	case "":
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(recorded.Code)
		_, _ = w.Write(recorded.Body.Bytes())
	case Unavailable:
		glueFail(w, http.StatusServiceUnavailable, "ServiceUnavailable", "come back later")
	case Forbidden:
		glueFail(w, http.StatusBadRequest, "AccessDeniedException", "not authorized to perform: glue:UpdateTable")
	case ErrorAfter:
		glueFail(w, http.StatusInternalServerError, "InternalServiceException", "lost my way after the commit")
	default:
		disturbAnswer(w, r, fault)
	}
}

// glueFail answers with an error in the service's form.
func glueFail(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"__type": kind, "Message": message})
}

// act carries out a request; the caller holds the lock.
func (s *GlueServer) act(w http.ResponseWriter, action string, body map[string]any) {
	database := text(body["DatabaseName"])
	if r := s.refusals[action]; r.Code != "" {
		glueFail(w, http.StatusBadRequest, r.Code, r.Message)
		return
	}
	switch action {
	case "GetDatabases":
		var names []string
		for name := range s.databases {
			names = append(names, name)
		}
		list(w, body, "DatabaseList", names, func(name string) any { return map[string]any{"Name": name} })
	case "CreateDatabase":
		input, _ := body["DatabaseInput"].(map[string]any)
		name := text(input["Name"])
		if s.databases[name] {
			glueFail(w, http.StatusBadRequest, "AlreadyExistsException", "database exists")
			return
		}
		s.databases[name] = true
		answer(w, http.StatusOK, map[string]any{})
	case "GetTables":
		if !s.databases[database] {
			glueFail(w, http.StatusBadRequest, "EntityNotFoundException", "no such database")
			return
		}
		var keys []string
		for key := range s.tables {
			if strings.HasPrefix(key, strings.ToLower(database)+"\x1f") {
				keys = append(keys, key)
			}
		}
		list(w, body, "TableList", keys, func(key string) any { return s.tables[key] })
	case "GetTable":
		t := s.tables[glueKey(database, text(body["Name"]))]
		if t == nil {
			glueFail(w, http.StatusBadRequest, "EntityNotFoundException", "Entity Not Found")
			return
		}
		answer(w, http.StatusOK, map[string]any{"Table": t})
	case "GetTableOptimizer":
		if !slices.Contains(s.optimizers[glueKey(database, text(body["TableName"]))], text(body["Type"])) {
			glueFail(w, http.StatusBadRequest, "EntityNotFoundException", "the table has no optimizer")
			return
		}
		answer(w, http.StatusOK, map[string]any{"TableOptimizer": map[string]any{"type": body["Type"], "configuration": map[string]any{"enabled": true}}})
	case "CreateTable", "UpdateTable":
		input, _ := body["TableInput"].(map[string]any)
		s.store(w, action, body, input)
	default:
		glueFail(w, http.StatusBadRequest, "UnknownOperationException", action)
	}
}

// store creates or replaces a definition.
func (s *GlueServer) store(w http.ResponseWriter, action string, body, input map[string]any) {
	database := text(body["DatabaseName"])
	key := glueKey(database, text(input["Name"]))
	old := s.tables[key]
	version := 0
	switch {
	case !s.databases[database]:
		glueFail(w, http.StatusBadRequest, "EntityNotFoundException", "no such database")
		return
	case action == "CreateTable" && old != nil:
		glueFail(w, http.StatusBadRequest, "AlreadyExistsException", "table exists")
		return
	case action == "UpdateTable" && old == nil:
		glueFail(w, http.StatusBadRequest, "EntityNotFoundException", "no such table")
		return
	case action == "UpdateTable":
		if asserted := text(body["VersionId"]); asserted != "" && asserted != text(old["VersionId"]) {
			glueFail(w, http.StatusBadRequest, "ConcurrentModificationException", "Update table failed due to concurrent modifications.")
			return
		}
		version, _ = strconv.Atoi(text(old["VersionId"]))
		version++
	}
	next := map[string]any{}
	maps.Copy(next, input)
	next["DatabaseName"], next["VersionId"], next["CreatedBy"] = database, strconv.Itoa(version), "arn:aws:iam::123456789012:user/x"
	if account, is := old["CatalogId"]; is { // an account's ID is Glue's to keep
		next["CatalogId"] = account
	}
	s.tables[key] = next
	answer(w, http.StatusOK, map[string]any{})
}

// list answers with two entries a page.
func list(w http.ResponseWriter, body map[string]any, member string, keys []string, entry func(string) any) {
	const page = 2
	slices.Sort(keys)
	from, _ := strconv.Atoi(text(body["NextToken"]))
	entries := []any{}
	for _, key := range keys[min(from, len(keys)):min(from+page, len(keys))] {
		entries = append(entries, entry(key))
	}
	out := map[string]any{member: entries}
	if from+page < len(keys) {
		out["NextToken"] = strconv.Itoa(from + page)
	}
	answer(w, http.StatusOK, out)
}
