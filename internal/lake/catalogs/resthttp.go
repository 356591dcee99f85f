package catalogs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// restTimeout bounds one request, its answer included, unless rest.client.socket-timeout-ms says otherwise. A commit that takes longer is in
	// an unknown state.
	restTimeout = 60 * time.Second
	// restAttempts is how often a read is tried; a commit is sent once.
	restAttempts = 3
	// restBackoff is the pause before the second attempt of a read; it triples.
	restBackoff = 200 * time.Millisecond
	// maxAnswerBytes bounds an answer: metadata of a table with 100,000 snapshots takes some 100 MB.
	maxAnswerBytes = 1 << 30
)

// errNotSent marks errors that happened before anything left this process: proof that nothing was committed.
var errNotSent = errors.New("nothing was sent")

// statusError is an answer of the service other than success.
type statusError struct {
	status  int
	kind    string
	message string
}

// Error prints status, the service's own error type and message.
func (e *statusError) Error() string { return e.message }

// call is one request to the service.
type call struct {
	method string
	path   string // below /v1/{prefix}/, escaped
	query  url.Values
	body   any // nil, or what is sent as JSON
}

// read sends a request that changes nothing, with repetitions, and decodes the answer. Errors: *statusError, ErrTransient, or permanent.
func (c *REST) read(ctx context.Context, r call, answer any) error {
	pause := restBackoff
	for attempt := 1; ; attempt++ {
		body, err := c.send(ctx, r)
		if err == nil {
			if err := json.Unmarshal(body, answer); err != nil {
				return fmt.Errorf("decode answer of %s: %w", c.name, err)
			}
			return nil
		}
		if status, is := errors.AsType[*statusError](err); is && (status.status == http.StatusForbidden || status.status == http.StatusUnauthorized) {
			return fmt.Errorf("%w: %w", ErrPermission, err)
		}
		if !transient(err) {
			return err
		}
		err = fmt.Errorf("%w: %w", ErrTransient, err)
		if attempt == restAttempts || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
		pause *= 3
	}
}

// transient tells errors of a read that may pass: no answer, 408, 429 and 5xx.
func transient(err error) bool {
	if status, ok := errors.AsType[*statusError](err); ok {
		return status.status == http.StatusRequestTimeout || status.status == http.StatusTooManyRequests || status.status >= http.StatusInternalServerError
	}
	var network *url.Error
	return errors.As(err, &network) && !errors.Is(err, context.Canceled) || errors.Is(err, ErrTransient)
}

// write sends a request that changes something, once, and names what a failure proves: any 4xx but 408 and 429 is a definite no of the service
// (conflict409 for 409, else ErrRefused), all else leaves the state unknown.
func (c *REST) write(ctx context.Context, r call, conflict409 error) ([]byte, error) {
	body, err := c.send(ctx, r)
	var status *statusError
	var network *net.OpError
	switch {
	case err == nil:
		return body, nil
	case errors.Is(err, errNotSent), errors.As(err, &network) && network.Op == "dial":
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	case !errors.As(err, &status):
		return nil, err
	case status.status == http.StatusConflict:
		return nil, fmt.Errorf("%w: %w", conflict409, err)
	case status.status == http.StatusRequestTimeout, status.status == http.StatusTooManyRequests:
		return nil, err
	case status.status >= 400 && status.status < 500:
		if status.kind == "NoSuchTableException" {
			return nil, fmt.Errorf("%w: %w: %w", ErrRefused, ErrNoSuchTable, err)
		}
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return nil, err
}

// send makes one request and returns the body of a successful answer. A 401 or 419 was not acted upon: with a new token the request is sent
// once more.
func (c *REST) send(ctx context.Context, r call) ([]byte, error) {
	session, err := c.session(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	body, err := c.exchange(ctx, session, r)
	var status *statusError
	if errors.As(err, &status) && (status.status == http.StatusUnauthorized || status.status == 419) && session.auth.renew() {
		return c.exchange(ctx, session, r)
	}
	return body, err
}

// exchange makes one HTTP exchange.
func (c *REST) exchange(ctx context.Context, s *restSession, r call) ([]byte, error) {
	address := s.root + r.path
	if len(r.query) > 0 {
		address += "?" + strings.ReplaceAll(r.query.Encode(), "+", "%20")
	}
	var content io.Reader
	if r.body != nil {
		data, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("%w: encode request: %w", errNotSent, err)
		}
		content = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, address, content)
	if err != nil {
		return nil, fmt.Errorf("%w: make request: %w", errNotSent, err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("X-Client-Version", "firn")
	req.Header.Set("X-Iceberg-Access-Delegation", "vended-credentials")
	if content != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for key, value := range s.headers {
		req.Header.Set(key, value)
	}
	if err := s.auth.authorize(ctx, req); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, &statusError{status: resp.StatusCode, kind: serviceKind(body), message: serviceMessage(resp.Status, body)}
	}
	if err != nil {
		return nil, &url.Error{Op: r.method, URL: req.URL.Redacted(), Err: err}
	}
	return body, nil
}

// serviceError is how services describe an error: Iceberg's form, and OAuth2's.
type serviceError struct {
	Error       json.RawMessage `json:"error"`
	Description string          `json:"error_description"`
	Message     string          `json:"message"`
}

// icebergError is the member "error" in Iceberg's form.
type icebergError struct {
	Message string `json:"message"`
	Type    string `json:"type"`
}

// serviceKind is the error type that the service named, "" if none.
func serviceKind(body []byte) string {
	var e serviceError
	var inner icebergError
	if json.Unmarshal(body, &e) == nil && json.Unmarshal(e.Error, &inner) == nil {
		return inner.Type
	}
	return ""
}

// serviceMessage is a status line with what the service said about it, at most 500 bytes.
func serviceMessage(status string, body []byte) string {
	var e serviceError
	var inner icebergError
	text := strings.TrimSpace(string(body))
	if json.Unmarshal(body, &e) == nil {
		switch {
		case json.Unmarshal(e.Error, &inner) == nil && inner.Message != "":
			text = strings.TrimSpace(inner.Type + " " + inner.Message)
		case e.Description != "":
			text = e.Description
		case e.Message != "":
			text = e.Message
		}
	}
	if len(text) > 500 {
		text = text[:500] + "…"
	}
	if text == "" {
		return "service answered " + status
	}
	return "service answered " + status + ": " + text
}

// escapeSegment escapes a name as one path segment: everything but RFC 3986's unreserved characters. A space becomes %20, never '+', which
// some services take literally, and '+' becomes %2B, which others take for a space.
func escapeSegment(text string) string {
	const hexDigits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hexDigits[c>>4])
		b.WriteByte(hexDigits[c&15])
	}
	return b.String()
}
