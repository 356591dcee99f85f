package serve

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"time"

	"firn/internal/local/inspect"
)

//go:embed pages.gohtml
var pagesText string // embedded text

// page writes a template once it could be made whole.
func (s *Server) page(build func(*http.Request) (name string, data any, err error)) http.HandlerFunc {
	templates, parseErr := template.New("pages").Funcs(template.FuncMap{
		"size": inspect.Size, "path": url.PathEscape,
		"dollars": func(micros int64) string { return fmt.Sprintf("%.4f", float64(micros)/1e6) },
		"dict": func(first string, a Attempt, second string, b Attempt) map[string]Attempt {
			return map[string]Attempt{first: a, second: b}
		},
		"time": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") },
		"ms":   func(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05Z") },
	}).Parse(pagesText)
	return func(w http.ResponseWriter, r *http.Request) {
		name, data, err := build(r)
		if err == nil {
			err = parseErr
		}
		var out bytes.Buffer
		if err == nil {
			err = templates.ExecuteTemplate(&out, name, data)
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = out.WriteTo(w)
	}
}

func (s *Server) indexPage(r *http.Request) (string, any, error) {
	list, err := s.tables(r.Context(), r.URL.Query().Get("after"))
	return "index", map[string]any{"Title": "Firn", "List": list, "Queue": s.queueView()}, err
}

func (s *Server) tablePage(r *http.Request) (string, any, error) {
	view, err := s.table(r.Context(), r.PathValue("id"))
	return "table", map[string]any{"Title": view.Table, "Table": view}, err
}

func (s *Server) runPage(r *http.Request) (string, any, error) {
	record, err := s.run(r.Context(), r.PathValue("id"))
	return "run", map[string]any{"Title": "run " + string(record.Run.RunID), "Run": record}, err
}

// healthPage reads the table anew, as `firn inspect --html` does.
func (s *Server) healthPage(w http.ResponseWriter, r *http.Request) {
	id, err := s.find(r.Context(), r.PathValue("id"))
	var out bytes.Buffer
	if err == nil {
		if err = s.deps.Health(r.Context(), id, &out); err != nil {
			err = fmt.Errorf("look at table %s: %w", id, err)
		}
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = out.WriteTo(w)
}
