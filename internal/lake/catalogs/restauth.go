package catalogs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// authorizer puts proof of identity on requests.
type authorizer interface {
	// authorize adds the proof to the request.
	authorize(ctx context.Context, req *http.Request) error
	// renew forgets a proof that the service did not accept, and says whether there may be a new one.
	renew() bool
}

// newAuthorizer chooses by properties: SigV4 if rest.sigv4-enabled is true or rest.auth.type is sigv4; the bearer token "token"; OAuth2 client
// credentials "credential"; nothing.
func (c *REST) newAuthorizer(ctx context.Context, props map[string]string) (authorizer, error) {
	kind := strings.ToLower(firstOf(props, "rest.auth.type", "auth.type"))
	switch {
	case isTrue(props[PropSigV4]) || kind == "sigv4":
		return newSigV4(ctx, props, c.now)
	case kind == "basic" || kind == "google" || kind == "entra" || kind == "custom" || kind == "legacyoauth2" && props[PropCredential] == "" && props[PropToken] == "":
		return nil, fmt.Errorf("read catalog property rest.auth.type: %q is not supported; known are none, oauth2 and sigv4", kind)
	case kind == "none":
		return noAuth{}, nil
	case props[PropToken] != "" || props[PropCredential] != "":
		a := &oauth{client: c.client, now: c.now, token: props[PropToken], server: props[PropOAuthServer], scope: props[PropScope], extra: url.Values{}}
		if id, secret, ok := strings.Cut(props[PropCredential], ":"); ok {
			a.id, a.secret = id, secret
		} else {
			a.secret = props[PropCredential]
		}
		if a.server == "" {
			a.server = c.base(props) + "/v1/oauth/tokens"
		}
		if a.scope == "" {
			a.scope = "catalog"
		}
		for _, key := range []string{"audience", "resource"} {
			if v := props[key]; v != "" {
				a.extra.Set(key, v)
			}
		}
		return a, nil
	}
	return noAuth{}, nil
}

// isTrue reads a boolean property.
func isTrue(text string) bool { return strings.EqualFold(text, "true") }

// firstOf returns the first property that is set.
func firstOf(props map[string]string, keys ...string) string {
	for _, key := range keys {
		if v := props[key]; v != "" {
			return v
		}
	}
	return ""
}

// noAuth proves nothing.
type noAuth struct{}

func (noAuth) authorize(context.Context, *http.Request) error { return nil }
func (noAuth) renew() bool                                    { return false }

// oauth carries a bearer token, and fetches new ones with client credentials if it has them.
type oauth struct {
	client        *http.Client
	now           func() time.Time
	id, secret    string
	server, scope string
	extra         url.Values
	mu            sync.Mutex
	token         string
	expires       time.Time
}

// authorize adds the bearer token, fetching one first if there is none or it is about to expire.
func (o *oauth) authorize(ctx context.Context, req *http.Request) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.token == "" || !o.expires.IsZero() && !o.now().Before(o.expires) {
		if err := o.fetch(ctx); err != nil {
			return err
		}
	}
	req.Header.Set("Authorization", "Bearer "+o.token)
	return nil
}

// renew drops the token if another can be had.
func (o *oauth) renew() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.secret == "" {
		return false
	}
	o.token = ""
	return true
}

// fetch asks the OAuth2 server for a token. A fifth of its life is left unused, so that it does not expire on the way.
func (o *oauth) fetch(ctx context.Context) error {
	if o.secret == "" {
		return errors.New("fetch OAuth2 token: the token expired and there is no credential")
	}
	form := url.Values{"grant_type": {"client_credentials"}, "client_secret": {o.secret}, "scope": {o.scope}}
	if o.id != "" {
		form.Set("client_id", o.id)
	}
	maps.Copy(form, o.extra)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.server, strings.NewReader(form.Encode()))
	if err != nil {
		return fmt.Errorf("fetch OAuth2 token: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := o.client.Do(req)
	if err != nil {
		return fmt.Errorf("fetch OAuth2 token: %w: %w", ErrTransient, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("fetch OAuth2 token: %w: %w", ErrTransient, err)
	}
	if resp.StatusCode != http.StatusOK {
		err := fmt.Errorf("fetch OAuth2 token from %s: %s", o.server, serviceMessage(resp.Status, body))
		if resp.StatusCode >= http.StatusInternalServerError || resp.StatusCode == http.StatusTooManyRequests {
			return fmt.Errorf("%w: %w", ErrTransient, err)
		}
		return err
	}
	var answer struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.AccessToken == "" {
		return fmt.Errorf("fetch OAuth2 token from %s: the answer has no access_token", o.server)
	}
	o.token, o.expires = answer.AccessToken, time.Time{}
	if answer.ExpiresIn > 0 {
		o.expires = o.now().Add(time.Duration(answer.ExpiresIn) * time.Second * 4 / 5)
	}
	return nil
}
