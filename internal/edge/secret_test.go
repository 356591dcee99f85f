package edge_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"firn/internal/contract"
	"firn/internal/edge"
	"firn/internal/lake/catalogs"
	"firn/internal/lake/catalogs/catalogtest"
	"firn/internal/store"
)

const secretARN = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:lake-AbCdEf"

// secretsManager answers GetSecretValue for secretARN, or with an error when code is set; it counts the calls.
type secretsManager struct {
	value, code string
	calls       int
	region      string
}

func (s *secretsManager) start(t *testing.T) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.calls++
		_, scope, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		s.region = strings.Split(scope+"////", "/")[2]
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		if r.Header.Get("X-Amz-Target") != "secretsmanager.GetSecretValue" || !bytes.Contains(body, []byte(secretARN)) {
			t.Errorf("request %s %s", r.Header.Get("X-Amz-Target"), body)
		}
		if s.code != "" {
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]string{"__type": s.code, "Message": "no"})
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"ARN": secretARN, "SecretString": s.value})
	}))
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s", "AWS_MAX_ATTEMPTS": "1",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
	} {
		t.Setenv(name, value)
	}
}

func secretClients(t *testing.T, props map[string]string) *edge.Clients {
	t.Helper()
	settings := edge.Settings{Catalog: "lake", Catalogs: map[string]map[string]string{"lake": props}}
	config, err := settings.CatalogConfig("", "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	clients := edge.NewClients(config, settings, map[string]store.Full{"mem": store.NewMemory(time.Now)})
	t.Cleanup(func() { _ = clients.Close() })
	return clients
}

// TestSecretOpensCatalog: a catalog gets its token from Secrets Manager, in the secret's region and once; after a rotation it is opened anew, and when Secrets
// Manager does not answer the old one goes on.
func TestSecretOpensCatalog(t *testing.T) {
	service := catalogtest.NewRESTServer(t, store.NewMemory(time.Now))
	service.Token = "planted-1"
	manager := &secretsManager{value: `{"token":"planted-1"}`}
	manager.start(t)
	clients := secretClients(t, map[string]string{"type": "rest", "uri": service.URL, "secret": secretARN})
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	edge.SetClock(clients, func() time.Time { return now })
	list := func() error {
		l, err := clients.Lake(t.Context(), "")
		if err != nil {
			return err
		}
		for _, err := range l.Tables(t.Context(), "") {
			return err
		}
		return nil
	}
	if err := list(); err != nil || manager.region != "eu-central-1" {
		t.Fatalf("in region %s: %v", manager.region, err)
	}
	if _, err := clients.Tables("lake"); err != nil || manager.calls != 1 {
		t.Errorf("a store of files: %v after %d calls", err, manager.calls)
	}
	service.Token, manager.value = "planted-2", `{"token":"planted-2"}`
	if err := list(); err == nil || manager.calls != 1 {
		t.Errorf("before the secret is old: %v after %d calls", err, manager.calls)
	}
	now = now.Add(6 * time.Minute)
	if err := list(); err != nil || manager.calls != 2 {
		t.Errorf("after a rotation: %v after %d calls", err, manager.calls)
	}
	now, manager.code = now.Add(6*time.Minute), "InternalServiceError"
	if err := list(); err != nil || manager.calls != 3 {
		t.Errorf("without Secrets Manager: %v after %d calls", err, manager.calls)
	}
}

// TestSecretRefused: errors have their class and say what to do; none repeats the secret.
func TestSecretRefused(t *testing.T) {
	for name, c := range map[string]struct {
		value, code string
		props       map[string]string
		class, says string
	}{
		"no grant":     {code: "AccessDeniedException", class: contract.ErrorRefused, says: "allow secretsmanager:GetSecretValue"},
		"no secret":    {code: "ResourceNotFoundException", class: contract.ErrorRefused, says: secretARN},
		"throttled":    {code: "ThrottlingException", class: contract.ErrorTransient, says: secretARN},
		"no object":    {value: `planted`, class: contract.ErrorRefused, says: "no JSON object"},
		"nested":       {value: `{"token":{"x":"planted"}}`, class: contract.ErrorRefused, says: "property token is no text"},
		"files":        {value: `{"s3.secret-access-key":"planted"}`, class: contract.ErrorRefused, says: "s3.secret-access-key"},
		"kind":         {value: `{"type":"planted"}`, class: contract.ErrorRefused, says: "property type"},
		"bad database": {value: `{"uri":"oracle-planted://u:planted@h/db"}`, props: map[string]string{"type": "sql"}, class: contract.ErrorInternal, says: "known are sqlite"},
		"bad address":  {value: `{"uri":"ftp://u:planted@h"}`, class: contract.ErrorInternal, says: "no http or https address"},
	} {
		manager := &secretsManager{value: c.value, code: c.code}
		manager.start(t)
		props := map[string]string{"type": "rest", "uri": "https://catalog.example.com", "secret": secretARN}
		maps.Copy(props, c.props)
		_, err := secretClients(t, props).Lake(t.Context(), "lake")
		if err == nil || edge.Name(err) != c.class || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "u:planted") || strings.Contains(err.Error(), `"planted`) {
			t.Errorf("%s: %v of class %s, want %s and %q", name, err, edge.Name(err), c.class, c.says)
		}
	}
	manager := &secretsManager{}
	manager.start(t)
	_, err := secretClients(t, map[string]string{"type": "rest", "uri": "https://c", "secret": "lake"}).Lake(t.Context(), "lake")
	if err == nil || !strings.Contains(err.Error(), "no ARN") || manager.calls != 0 {
		t.Errorf("a name for an ARN: %v", err)
	}
}

// TestSecretForms: properties by their names, and what RDS keeps for its users.
func TestSecretForms(t *testing.T) {
	t.Parallel()
	sql := map[string]string{"type": "sql", "secret": secretARN}
	placed := map[string]string{"type": "sql", "secret": secretARN, "uri": "postgresql://db:6432/catalog"}
	for name, c := range map[string]struct {
		props map[string]string
		text  string
		want  map[string]string
	}{
		"OAuth": {
			map[string]string{"type": "rest", "uri": "https://c", "secret": secretARN},
			`{"credential":"id:secret","scope":"PRINCIPAL_ROLE:ALL"}`,
			map[string]string{"type": "rest", "uri": "https://c", "credential": "id:secret", "scope": "PRINCIPAL_ROLE:ALL"},
		},
		"URI": {sql, `{"uri":"postgresql://u:p@h/db"}`, map[string]string{"type": "sql", "uri": "postgresql://u:p@h/db"}},
		"RDS": {
			sql, `{"username":"u","password":"p/@","engine":"postgres","host":"h","port":5432,"dbname":"db"}`,
			map[string]string{"type": "sql", "uri": "postgresql://h:5432/db", "jdbc.user": "u", "jdbc.password": "p/@"},
		},
		"RDS, of which firn.yaml knows better where": {
			placed, `{"username":"u","password":"p","host":"h","port":5432}`,
			map[string]string{"type": "sql", "uri": "postgresql://db:6432/catalog", "jdbc.user": "u", "jdbc.password": "p"},
		},
	} {
		got, err := edge.CompleteSecret(c.text, c.props)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
		if kind, err := catalogs.Kind(got); err != nil || kind != c.props["type"] {
			t.Errorf("%s: kind %s, %v", name, kind, err)
		}
	}
}
