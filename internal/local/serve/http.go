package serve

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// maxMessage is the most bytes a message may have: SQS takes as many.
const maxMessage = 1 << 20

// Handler is the web page, its JSON, and the door for messages:
//
//	GET  /                       tables, their health, decisions and runs
//	GET  /tables/{id}            one table; /tables/{id}/health reads it anew
//	GET  /runs/{id}              a run's report
//	GET  /api/tables, /api/tables/{id}, /api/runs/{id}, /api/queue
//	GET  /healthz                200 while the process serves
//	POST /events                 a message for evaluate in any shape that it understands: 202
//
// Nothing but POST /events changes anything, and that only puts a hint on the queue. Without a token, requests that name another host than this one are
// refused, and messages that a web page sends always: a browser on this machine is no way in. With a token, all but /healthz asks for it.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page(s.indexPage))
	mux.HandleFunc("GET /tables/{id}", s.page(s.tablePage))
	mux.HandleFunc("GET /tables/{id}/health", s.healthPage)
	mux.HandleFunc("GET /runs/{id}", s.page(s.runPage))
	mux.HandleFunc("GET /api/tables", s.object(func(r *http.Request) (any, error) { return s.tables(r.Context(), r.URL.Query().Get("after")) }))
	mux.HandleFunc("GET /api/tables/{id}", s.object(func(r *http.Request) (any, error) { return s.table(r.Context(), r.PathValue("id")) }))
	mux.HandleFunc("GET /api/runs/{id}", s.object(func(r *http.Request) (any, error) { return s.run(r.Context(), r.PathValue("id")) }))
	mux.HandleFunc("GET /api/queue", s.object(func(*http.Request) (any, error) { return s.queueView(), nil }))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("POST /events", s.receive)
	return s.guard(mux)
}

// guard refuses names of other hosts (DNS rebinding) and says to browsers that pages load nothing from elsewhere.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.opts.Token == "" && !localName(r.Host):
			http.Error(w, fmt.Sprintf("host %q is not this machine: use localhost, or start firn serve with a token", r.Host), http.StatusForbidden)
			return
		case s.opts.Token != "" && !s.authorized(r) && r.URL.Path != "/healthz":
			w.Header().Set("WWW-Authenticate", `Basic realm="firn", charset="UTF-8"`)
			http.Error(w, "send the token as Authorization: Bearer, or as the password", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// authorized reports whether a request carries the token: programs as bearer token, browsers as the password of any user.
func (s *Server) authorized(r *http.Request) bool {
	given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		_, given, _ = r.BasicAuth()
	}
	return subtle.ConstantTimeCompare([]byte(given), []byte(s.opts.Token)) == 1
}

// receive puts a message on the queue. Whether it is an event is for evaluate to say: what is none shows under refused.
func (s *Server) receive(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Origin") != "" {
		http.Error(w, "messages are not taken from web pages", http.StatusForbidden)
		return
	}
	attributes := cloudHeaders(r.Header)
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if len(attributes) == 0 && (err != nil || (kind != "application/json" && !strings.HasSuffix(kind, "+json"))) {
		http.Error(w, "send the message as application/json, or as a CloudEvent", http.StatusUnsupportedMediaType)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		http.Error(w, fmt.Sprintf("the message has more than %d bytes", maxMessage), http.StatusRequestEntityTooLarge)
	case err != nil:
		http.Error(w, "read the message: "+err.Error(), http.StatusBadRequest)
	case len(bytes.TrimSpace(body)) == 0 && len(attributes) == 0:
		http.Error(w, "the message is empty", http.StatusBadRequest)
	default:
		s.queue.Put(body, attributes)
		w.WriteHeader(http.StatusAccepted)
	}
}

// cloudHeaders are the headers of a CloudEvent in binary mode.
func cloudHeaders(h http.Header) map[string]string {
	out := map[string]string{}
	for name, values := range h {
		if strings.HasPrefix(strings.ToLower(name), "ce-") && len(values) > 0 {
			out[name] = values[0]
		}
	}
	return out
}

// object answers with JSON.
func (s *Server) object(build func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := build(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		data, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			s.fail(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(data, '\n'))
	}
}

// errNotFound says that there is no such table or run.
var errNotFound = errors.New("not found")

func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	if errors.Is(err, errNotFound) {
		status = http.StatusNotFound
	} else {
		s.deps.Log.ErrorContext(r.Context(), "answer request", "path", r.URL.Path, "error", err)
	}
	http.Error(w, err.Error(), status)
}

// loopback reports whether only this machine reaches the address.
func loopback(addr net.Addr) bool {
	at, err := netip.ParseAddrPort(addr.String())
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// localName reports whether a request's Host is a name of this machine's loopback.
func localName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback()
	}
	return host == "localhost"
}
