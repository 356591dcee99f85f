package catalogs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"firn/internal/maintenance"
)

// Properties of REST catalogs, as in PyIceberg and Java. Properties "header.NAME" are sent as headers with each request.
const (
	PropToken         = "token"
	PropCredential    = "credential"
	PropOAuthServer   = "oauth2-server-uri"
	PropScope         = "scope"
	PropSigV4         = "rest.sigv4-enabled"
	PropSigningRegion = "rest.signing-region"
	PropSigningName   = "rest.signing-name"
	PropTimeoutMs     = "rest.client.socket-timeout-ms"
	PropPageSize      = "rest-page-size"
)

// REST is a catalog behind the Iceberg REST protocol. Tables commit on the service's side, so it is a Server and no Swapper. Tables in S3 Tables
// buckets are reached through their REST endpoint (signing name "s3tables").
type REST struct {
	name   string
	props  map[string]string
	client *http.Client
	now    func() time.Time

	mu      sync.Mutex
	current *restSession
}

// restSession is what the service's configuration endpoint settled.
type restSession struct {
	root      string // up to and including the slash after the prefix
	separator string // between the levels of a namespace, escaped
	headers   map[string]string
	auth      authorizer
	pageSize  string
}

var (
	_ Catalog   = (*REST)(nil)
	_ Registrar = (*REST)(nil)
	_ Server    = (*REST)(nil)
)

// OpenREST makes the client. Nothing is sent yet: the first request asks the service for its configuration.
func OpenREST(name string, props map[string]string) (*REST, error) {
	address, err := url.Parse(props[PropURI])
	if err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Host == "" {
		return nil, fmt.Errorf("read catalog property %s: %q is no http or https address", PropURI, props[PropURI])
	}
	timeout := restTimeout
	if text := props[PropTimeoutMs]; text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms <= 0 {
			return nil, fmt.Errorf("read catalog property %s: %q is no positive number of milliseconds", PropTimeoutMs, text)
		}
		timeout = time.Duration(ms) * time.Millisecond
	}
	client := &http.Client{Timeout: timeout, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if via[0].Method != http.MethodGet || len(via) > 5 {
			return http.ErrUseLastResponse // a commit goes where it was sent, once
		}
		return nil
	}}
	now := time.Now //nolint:forbidigo // signatures and tokens are dated by the wall clock, whatever the caller plays with
	return &REST{name: name, props: maps.Clone(props), client: client, now: now}, nil
}

// Name is the configured name of the catalog.
func (c *REST) Name() string { return c.name }

// base is the service's address without trailing slash.
func (c *REST) base(props map[string]string) string { return strings.TrimRight(props[PropURI], "/") }

// session asks the service for its configuration, once. The service's defaults lie under our properties, its overrides above them.
func (c *REST) session(ctx context.Context) (*restSession, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		return c.current, nil
	}
	first, err := c.newSession(ctx, c.props)
	if err != nil {
		return nil, err
	}
	first.root = c.base(c.props) + "/v1/"
	r := call{method: http.MethodGet, path: "config"}
	if warehouse := c.props[PropWarehouse]; warehouse != "" {
		r.query = url.Values{"warehouse": {warehouse}}
	}
	body, err := c.exchange(ctx, first, r)
	if err != nil {
		return nil, fmt.Errorf("ask catalog %q for its configuration: %w", c.name, configError(err))
	}
	var answer struct {
		Defaults  map[string]string `json:"defaults"`
		Overrides map[string]string `json:"overrides"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("decode configuration of catalog %q: %w", c.name, err)
	}
	merged := map[string]string{}
	maps.Copy(merged, answer.Defaults)
	maps.Copy(merged, c.props)
	maps.Copy(merged, answer.Overrides)
	s, err := c.newSession(ctx, merged)
	if err != nil {
		return nil, err
	}
	if sameAuth(c.props, merged) {
		s.auth = first.auth // keep the token that was fetched
	}
	c.current = s
	return s, nil
}

// configError hides the status of a configuration request from the classes of commits: a service that refuses its configuration has refused
// nothing about a table, but nothing was sent either.
func configError(err error) error {
	if transient(err) {
		return fmt.Errorf("%w: %w", ErrTransient, errors.New(err.Error()))
	}
	return fmt.Errorf("%w: %w", ErrRefused, errors.New(err.Error()))
}

// sameAuth tells whether the service's configuration changed how we prove who we are.
func sameAuth(a, b map[string]string) bool {
	for _, key := range []string{PropURI, PropToken, PropCredential, PropOAuthServer, PropScope, PropSigV4, PropSigningName, PropSigningRegion, "rest.auth.type"} {
		if a[key] != b[key] {
			return false
		}
	}
	return true
}

// newSession reads what requests need out of properties. The prefix is used as the service wrote it (S3 Tables' is escaped already).
func (c *REST) newSession(ctx context.Context, props map[string]string) (*restSession, error) {
	s := &restSession{root: c.base(props) + "/v1/", separator: "%1F", headers: map[string]string{}, pageSize: props[PropPageSize]}
	if prefix := strings.Trim(props["prefix"], "/"); prefix != "" {
		s.root += prefix + "/"
	}
	if separator := props["namespace-separator"]; separator != "" {
		s.separator = separator
	}
	for key, value := range props {
		if name, ok := strings.CutPrefix(key, "header."); ok {
			s.headers[name] = value
		}
	}
	var err error
	s.auth, err = c.newAuthorizer(ctx, props)
	return s, err
}

// namespacePath is the path of a namespace.
func (c *REST) namespacePath(ctx context.Context, namespace maintenance.Namespace) (string, error) {
	s, err := c.session(ctx)
	if err != nil {
		return "", err
	}
	levels := namespace.Levels()
	for i, level := range levels {
		levels[i] = escapeSegment(level)
	}
	return "namespaces/" + strings.Join(levels, s.separator), nil
}

// tablePath is the path of a table.
func (c *REST) tablePath(ctx context.Context, id maintenance.TableID) (string, error) {
	path, err := c.namespacePath(ctx, id.Namespace)
	return path + "/tables/" + escapeSegment(id.Name), err
}

// tableAnswer is the answer to loading and committing.
type tableAnswer struct {
	MetadataLocation string            `json:"metadata-location"`
	Metadata         json.RawMessage   `json:"metadata"`
	Config           map[string]string `json:"config"`
	Credentials      []struct {
		Prefix string            `json:"prefix"`
		Config map[string]string `json:"config"`
	} `json:"storage-credentials"`
}

// pointer turns the answer into a pointer. Of the storage credentials the one with the longest prefix of the table's location counts, over the
// general configuration.
func (a *tableAnswer) pointer() (Pointer, error) {
	var metadata struct {
		UUID     string `json:"table-uuid"`
		Location string `json:"location"`
	}
	if err := json.Unmarshal(a.Metadata, &metadata); err != nil || metadata.Location == "" {
		return Pointer{}, errors.New("the service's answer has no table metadata")
	}
	config, best := maps.Clone(a.Config), -1
	if config == nil {
		config = map[string]string{}
	}
	var chosen map[string]string
	for _, cred := range a.Credentials {
		if strings.HasPrefix(metadata.Location, cred.Prefix) && len(cred.Prefix) > best {
			chosen, best = cred.Config, len(cred.Prefix)
		}
	}
	maps.Copy(config, chosen)
	return Pointer{MetadataLocation: a.MetadataLocation, Metadata: a.Metadata, Config: config}, nil
}

// Load asks for the table with all its snapshots.
func (c *REST) Load(ctx context.Context, id maintenance.TableID) (Pointer, error) {
	path, err := c.tablePath(ctx, id)
	if err != nil {
		return Pointer{}, fmt.Errorf("load %s: %w", id, err)
	}
	var answer tableAnswer
	err = c.read(ctx, call{method: http.MethodGet, path: path, query: url.Values{"snapshots": {"all"}}}, &answer)
	var status *statusError
	if errors.As(err, &status) && status.status == http.StatusNotFound {
		return Pointer{}, fmt.Errorf("load %s: %w: %w", id, ErrNoSuchTable, err)
	}
	if err != nil {
		return Pointer{}, fmt.Errorf("load %s: %w", id, err)
	}
	pointer, err := answer.pointer()
	if err != nil {
		return Pointer{}, fmt.Errorf("load %s: %w", id, err)
	}
	return pointer, nil
}

// Update sends the commit, once.
func (c *REST) Update(ctx context.Context, id maintenance.TableID, requirements, updates []byte) (Pointer, error) {
	path, err := c.tablePath(ctx, id)
	if err != nil {
		return Pointer{}, fmt.Errorf("commit to %s: %w: %w: %w", id, ErrRefused, errNotSent, err)
	}
	body := map[string]any{
		"identifier":   map[string]any{"namespace": id.Namespace, "name": id.Name},
		"requirements": json.RawMessage(requirements), "updates": json.RawMessage(updates),
	}
	data, err := c.write(ctx, call{method: http.MethodPost, path: path, body: body}, ErrConflict)
	if err != nil {
		return Pointer{}, fmt.Errorf("commit to %s: %w", id, err)
	}
	var answer tableAnswer
	if err := json.Unmarshal(data, &answer); err != nil {
		return Pointer{}, fmt.Errorf("decode the answer to the commit to %s: %w", id, err)
	}
	return answer.pointer()
}

// Register creates the namespace if needed and registers the metadata file.
func (c *REST) Register(ctx context.Context, id maintenance.TableID, metadataLocation string) error {
	if err := validRegistration(id, metadataLocation); err != nil {
		return err
	}
	path, err := c.namespacePath(ctx, id.Namespace)
	if err != nil {
		return fmt.Errorf("register %s: %w: %w: %w", id, ErrRefused, errNotSent, err)
	}
	body := map[string]any{"name": id.Name, "metadata-location": metadataLocation}
	register := call{method: http.MethodPost, path: path + "/register", body: body}
	_, err = c.write(ctx, register, ErrExists)
	var status *statusError
	if errors.As(err, &status) && status.status == http.StatusNotFound {
		if err := c.createNamespace(ctx, id.Namespace.Levels()); err != nil {
			return fmt.Errorf("create namespace of %s: %w", id, err)
		}
		_, err = c.write(ctx, register, ErrExists)
	}
	if err != nil {
		return fmt.Errorf("register %s: %w", id, err)
	}
	return nil
}

// createNamespace creates a namespace and those above it; the ones that exist, and those above that we may not create, are let be.
func (c *REST) createNamespace(ctx context.Context, levels []string) error {
	for i := range levels {
		body := map[string]any{"namespace": levels[:i+1], "properties": map[string]string{}}
		_, err := c.write(ctx, call{method: http.MethodPost, path: "namespaces", body: body}, ErrExists)
		if err != nil && !errors.Is(err, ErrExists) && (!errors.Is(err, ErrRefused) || i == len(levels)-1) {
			return err
		}
	}
	return nil
}

// Tables yields the tables of a namespace, or walks all namespaces.
func (c *REST) Tables(ctx context.Context, namespace maintenance.Namespace) iter.Seq2[maintenance.TableID, error] {
	return func(yield func(maintenance.TableID, error) bool) {
		queue := []maintenance.Namespace{namespace}
		seen := map[maintenance.Namespace]bool{} // a service that ignores "parent" would send us round and round
		for len(queue) > 0 {
			current := queue[0]
			queue = queue[1:]
			if current != "" {
				for id, err := range c.tablesOf(ctx, current) {
					if !yield(id, err) || err != nil {
						return
					}
				}
			}
			if namespace != "" {
				return
			}
			children, err := c.children(ctx, current)
			if err != nil {
				yield(maintenance.TableID{}, err)
				return
			}
			for _, child := range children {
				if !seen[child] {
					seen[child] = true
					queue = append(queue, child)
				}
			}
		}
	}
}

// tablesOf lists the tables of one namespace, page by page.
func (c *REST) tablesOf(ctx context.Context, namespace maintenance.Namespace) iter.Seq2[maintenance.TableID, error] {
	return func(yield func(maintenance.TableID, error) bool) {
		path, err := c.namespacePath(ctx, namespace)
		for token := ""; err == nil; {
			var page struct {
				Identifiers []struct {
					Namespace maintenance.Namespace `json:"namespace"`
					Name      string                `json:"name"`
				} `json:"identifiers"`
				Next string `json:"next-page-token"`
			}
			if err = c.page(ctx, path+"/tables", token, nil, &page); err != nil {
				break
			}
			for _, t := range page.Identifiers {
				if !yield(maintenance.TableID{Catalog: c.name, Namespace: t.Namespace, Name: t.Name}, nil) {
					return
				}
			}
			if page.Next == "" || page.Next == token {
				return
			}
			token = page.Next
		}
		yield(maintenance.TableID{}, fmt.Errorf("list tables of %s in catalog %q: %w", namespace, c.name, err))
	}
}

// children lists the namespaces directly under one, all pages.
func (c *REST) children(ctx context.Context, parent maintenance.Namespace) ([]maintenance.Namespace, error) {
	query := url.Values{}
	if parent != "" {
		query.Set("parent", string(parent)) // the levels are joined by U+001F already
	}
	var all []maintenance.Namespace
	for token := ""; ; {
		var page struct {
			Namespaces []maintenance.Namespace `json:"namespaces"`
			Next       string                  `json:"next-page-token"`
		}
		if err := c.page(ctx, "namespaces", token, query, &page); err != nil {
			return nil, fmt.Errorf("list namespaces of catalog %q: %w", c.name, err)
		}
		all = append(all, page.Namespaces...)
		if page.Next == "" || page.Next == token {
			return all, nil
		}
		token = page.Next
	}
}

// page reads one page of a list. Services that do not page ignore the parameters.
func (c *REST) page(ctx context.Context, path, token string, query url.Values, answer any) error {
	s, err := c.session(ctx)
	if err != nil {
		return err
	}
	q := url.Values{}
	maps.Copy(q, query)
	if s.pageSize != "" {
		q.Set("pageSize", s.pageSize)
		q.Set("pageToken", token)
	}
	if token != "" {
		q.Set("pageToken", token)
	}
	return c.read(ctx, call{method: http.MethodGet, path: path, query: q}, answer)
}
