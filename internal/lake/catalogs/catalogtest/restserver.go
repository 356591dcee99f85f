package catalogtest

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"

	"firn/internal/lake/catalogs"
	"firn/internal/lake/committer"
	"firn/internal/maintenance"
	"firn/internal/store"
)

// RESTServer is an Iceberg REST service in this process: configuration, tokens, namespaces, tables (list, load, register, commit, drop), with
// requirements checked on its current state, and faults. It speaks the protocol, not our client: names are decoded as Java's servers do.
type RESTServer struct {
	// URL is the service's address.
	URL string
	// Log holds each request's method and escaped path with query, in order.
	Log []string
	// Headers are those of the last request.
	Headers http.Header
	// Defaults and Overrides are what the configuration endpoint answers.
	Defaults, Overrides map[string]string
	// TableConfig is sent with each loaded table.
	TableConfig map[string]string
	// Token is what requests must bear when not empty; Secret is the credential for which a token is given.
	Token, Secret string
	// PageSize cuts lists into pages when positive.
	PageSize int

	mu         sync.Mutex
	armed      Fault
	status     []int
	memory     *catalogs.Memory
	store      store.ReadWriter
	com        committer.Committer
	namespaces map[maintenance.Namespace]bool
	issued     int
}

// NewRESTServer starts a service that keeps its metadata files in the store; it stops with the test.
func NewRESTServer(t testing.TB, st store.ReadWriter) *RESTServer {
	t.Helper()
	s := &RESTServer{memory: catalogs.NewMemory("server"), store: st, namespaces: map[maintenance.Namespace]bool{}}
	com, err := committer.New(s.memory, st, committer.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	s.com = com
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	s.URL = server.URL
	return s
}

// Arm makes the next commit meet the fault.
func (s *RESTServer) Arm(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = f
}

// AnswerWith makes the next requests, commits or not, answer with these statuses and do nothing.
func (s *RESTServer) AnswerWith(statuses ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = statuses
}

// Requests copies the log.
func (s *RESTServer) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.Log)
}

// Drop removes a table.
func (s *RESTServer) Drop(id maintenance.TableID) { s.memory.Drop(id) }

// ServeHTTP answers one request.
func (s *RESTServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.Log = append(s.Log, r.Method+" "+r.URL.RequestURI())
	s.Headers = r.Header.Clone()
	status, fault := 0, Fault("")
	if len(s.status) > 0 {
		status, s.status = s.status[0], s.status[1:]
	}
	path := strings.Split(strings.Trim(strings.TrimPrefix(r.URL.EscapedPath(), "/v1"), "/"), "/")
	if prefix := s.Overrides["prefix"]; prefix != "" && path[0] == prefix {
		path = path[1:]
	}
	if r.Method == http.MethodPost && len(path) == 4 && path[2] == "tables" {
		fault, s.armed = s.armed, ""
	}
	s.mu.Unlock()
	switch {
	case status != 0:
		fail(w, status, "InjectedException", "injected")
	case fault == Unavailable:
		fail(w, http.StatusServiceUnavailable, "ServiceUnavailableException", "come back later")
	case fault == Forbidden:
		fail(w, http.StatusForbidden, "ForbiddenException", "you may not")
	case fault == "":
		s.route(w, r, path, body)
	default:
		s.route(httptest.NewRecorder(), r, path, body)
		disturbAnswer(w, r, fault)
	}
}

// disturbAnswer spoils the answer to a request that was carried out.
func disturbAnswer(w http.ResponseWriter, r *http.Request, fault Fault) {
	switch fault {
	case ErrorAfter:
		fail(w, http.StatusInternalServerError, "InternalServerError", "lost my way after the commit")
	case SlowAnswer:
		select {
		case <-r.Context().Done():
		case <-time.After(slowness):
		}
	default:
		panic(http.ErrAbortHandler) // net/http's way to cut the connection
	}
}

// fail answers with an error in the protocol's form.
func fail(w http.ResponseWriter, status int, kind, message string) {
	answer(w, status, map[string]any{"error": map[string]any{"code": status, "type": kind, "message": message}})
}

// answer writes JSON.
func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

// decodeNamespace decodes a path segment as Java's servers do: '+' is a space.
func decodeNamespace(segment string) maintenance.Namespace {
	text, err := url.QueryUnescape(segment)
	if err != nil {
		return ""
	}
	return maintenance.Namespace(text)
}

// route carries a request out.
func (s *RESTServer) route(w http.ResponseWriter, r *http.Request, path []string, body []byte) {
	if path[0] == "oauth" {
		s.issueToken(w, body)
		return
	}
	s.mu.Lock()
	token := s.Token
	s.mu.Unlock()
	if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
		fail(w, http.StatusUnauthorized, "NotAuthorizedException", "bad token")
		return
	}
	switch {
	case path[0] == "config":
		answer(w, http.StatusOK, map[string]any{"defaults": s.Defaults, "overrides": s.Overrides})
	case len(path) == 1 && r.Method == http.MethodGet:
		s.listNamespaces(w, r)
	case len(path) == 1:
		s.createNamespace(w, body)
	case len(path) == 3 && path[2] == "register":
		s.register(w, r, decodeNamespace(path[1]), body)
	case len(path) == 3 && path[2] == "tables":
		s.listTables(w, r, decodeNamespace(path[1]))
	case len(path) == 4 && path[2] == "tables":
		name, _ := url.QueryUnescape(path[3])
		s.tableRoute(w, r, maintenance.TableID{Namespace: decodeNamespace(path[1]), Name: name}, body)
	default:
		fail(w, http.StatusNotFound, "NotFoundException", "no such route")
	}
}

// issueToken answers the OAuth2 request; each token replaces the one before.
func (s *RESTServer) issueToken(w http.ResponseWriter, body []byte) {
	form, err := url.ParseQuery(string(body))
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || form.Get("grant_type") != "client_credentials" || form.Get("client_id")+":"+form.Get("client_secret") != s.Secret {
		answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_client", "error_description": "unknown client"})
		return
	}
	s.issued++
	s.Token = "token-" + strconv.Itoa(s.issued)
	answer(w, http.StatusOK, map[string]any{"access_token": s.Token, "token_type": "bearer", "expires_in": 3600})
}

// page cuts a list.
func (s *RESTServer) page(r *http.Request, total int) (from, to int, next string) {
	from, _ = strconv.Atoi(r.URL.Query().Get("pageToken"))
	to = total
	if s.PageSize > 0 && from+s.PageSize < total {
		to = from + s.PageSize
		next = strconv.Itoa(to)
	}
	return min(from, total), to, next
}

func (s *RESTServer) listNamespaces(w http.ResponseWriter, r *http.Request) {
	parent := maintenance.Namespace(r.URL.Query().Get("parent"))
	depth := len(parent.Levels())
	s.mu.Lock()
	var found []maintenance.Namespace
	for n := range s.namespaces {
		if levels := n.Levels(); len(levels) == depth+1 && (depth == 0 || maintenance.NewNamespace(levels[:depth]...) == parent) {
			found = append(found, n)
		}
	}
	s.mu.Unlock()
	slices.Sort(found)
	from, to, next := s.page(r, len(found))
	answer(w, http.StatusOK, map[string]any{"namespaces": found[from:to], "next-page-token": next})
}

func (s *RESTServer) createNamespace(w http.ResponseWriter, body []byte) {
	var request struct {
		Namespace maintenance.Namespace `json:"namespace"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		fail(w, http.StatusBadRequest, "BadRequestException", err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.namespaces[request.Namespace] {
		fail(w, http.StatusConflict, "AlreadyExistsException", "namespace exists")
		return
	}
	s.namespaces[request.Namespace] = true
	answer(w, http.StatusOK, map[string]any{"namespace": request.Namespace})
}

func (s *RESTServer) listTables(w http.ResponseWriter, r *http.Request, namespace maintenance.Namespace) {
	found := []map[string]any{}
	for id := range s.memory.Tables(r.Context(), namespace) {
		found = append(found, map[string]any{"namespace": id.Namespace, "name": id.Name})
	}
	from, to, next := s.page(r, len(found))
	answer(w, http.StatusOK, map[string]any{"identifiers": found[from:to], "next-page-token": next})
}

func (s *RESTServer) register(w http.ResponseWriter, r *http.Request, namespace maintenance.Namespace, body []byte) {
	var request struct {
		Name     string `json:"name"`
		Location string `json:"metadata-location"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		fail(w, http.StatusBadRequest, "BadRequestException", err.Error())
		return
	}
	s.mu.Lock()
	known := s.namespaces[namespace]
	s.mu.Unlock()
	if !known {
		fail(w, http.StatusNotFound, "NoSuchNamespaceException", "no such namespace")
		return
	}
	id := maintenance.TableID{Namespace: namespace, Name: request.Name}
	if err := s.memory.Register(r.Context(), id, request.Location); err != nil {
		fail(w, http.StatusConflict, "AlreadyExistsException", err.Error())
		return
	}
	s.load(w, r, id)
}

func (s *RESTServer) tableRoute(w http.ResponseWriter, r *http.Request, id maintenance.TableID, body []byte) {
	if r.Method == http.MethodGet {
		s.load(w, r, id)
		return
	}
	var request struct {
		Identifier struct {
			Namespace maintenance.Namespace `json:"namespace"`
			Name      string                `json:"name"`
		} `json:"identifier"`
		Requirements table.Requirements `json:"requirements"`
		Updates      table.Updates      `json:"updates"`
	}
	if err := json.Unmarshal(body, &request); err != nil || request.Identifier.Name != id.Name || request.Identifier.Namespace != id.Namespace {
		fail(w, http.StatusBadRequest, "BadRequestException", "malformed commit")
		return
	}
	for range 100 { // requirements are checked on each newer state: another writer between does not matter unless they fail
		head, err := s.com.Head(r.Context(), id)
		if err != nil {
			s.fail(w, err)
			return
		}
		for _, requirement := range request.Requirements {
			if err := requirement.Validate(head.Metadata); err != nil {
				fail(w, http.StatusConflict, "CommitFailedException", err.Error())
				return
			}
		}
		_, err = s.com.Commit(r.Context(), head, committer.Change{Requirements: request.Requirements, Updates: request.Updates})
		if errors.Is(err, catalogs.ErrConflict) {
			continue
		}
		if err != nil {
			s.fail(w, err)
			return
		}
		s.load(w, r, id)
		return
	}
	fail(w, http.StatusInternalServerError, "CommitStateUnknownException", "too many writers")
}

// fail answers with the status of an error.
func (s *RESTServer) fail(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, catalogs.ErrNoSuchTable):
		fail(w, http.StatusNotFound, "NoSuchTableException", err.Error())
	case errors.Is(err, catalogs.ErrRefused):
		fail(w, http.StatusBadRequest, "BadRequestException", err.Error())
	default:
		fail(w, http.StatusInternalServerError, "ServiceFailureException", err.Error())
	}
}

// load answers with a table.
func (s *RESTServer) load(w http.ResponseWriter, r *http.Request, id maintenance.TableID) {
	head, err := s.com.Head(r.Context(), id)
	if err != nil {
		s.fail(w, err)
		return
	}
	answer(w, http.StatusOK, map[string]any{"metadata-location": head.Pointer.MetadataLocation, "metadata": head.Metadata, "config": s.TableConfig})
}
