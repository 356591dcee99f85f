package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"firn/internal/icebergtest"
	"firn/internal/lake/catalogs/catalogtest"
	"firn/internal/maintenance"
	"firn/internal/state"
	"firn/internal/state/dynamo"
	"firn/internal/state/dynamo/dynamofake"
	"firn/internal/store"
	"firn/internal/store/storetest"
)

// account is a lake in Glue and S3 as the AWS chain finds it: endpoints, region and keys are in the environment, and nothing is in a file.
type account struct {
	*bench

	glue  *catalogtest.GlueServer
	s3    *storetest.S3Server
	items *dynamofake.Server
}

// newAccount makes one with the table db.orders. It sets the process's environment, so its tests are not parallel.
func newAccount(t *testing.T) *account {
	t.Helper()
	a := &account{bench: newBench(t), glue: catalogtest.NewGlueServer(t), s3: storetest.NewS3Server(t, "lake", "assets"), items: dynamofake.Start(t)}
	a.config("")
	a.proc.stores = nil
	for key, value := range map[string]string{
		"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true", "AWS_PROFILE": "",
		"AWS_DEFAULT_REGION": "", "AWS_SESSION_TOKEN": "", "AWS_CONFIG_FILE": t.TempDir() + "/none", "AWS_SHARED_CREDENTIALS_FILE": t.TempDir() + "/none",
		"AWS_ENDPOINT_URL_GLUE": a.glue.URL, "AWS_ENDPOINT_URL_S3": a.s3.Properties["s3.endpoint"], "AWS_ENDPOINT_URL_DYNAMODB": a.items.URL,
	} {
		t.Setenv(key, value)
	}
	w := icebergtest.NewWorld(t)
	w.Clock.Set(time.Now().Add(-time.Hour))
	w.Location = "s3://lake/warehouse"
	var err error
	if w.Store, err = store.New(store.Config{Properties: a.s3.Properties}); err != nil {
		t.Fatal(err)
	}
	tbl := w.NewTable("db.orders")
	for i := range 3 {
		tbl.Commit(icebergtest.Append(icebergtest.Row{int64(i), "g", 0.5}))
	}
	a.glue.PutTable(map[string]any{
		"DatabaseName": "db", "Name": "orders", "VersionId": "0", "CatalogId": "111122223333",
		"Parameters": map[string]any{"table_type": "ICEBERG", "metadata_location": tbl.Pointer().MetadataLocation},
	})
	return a
}

// TestCuresOnTheWayToGlue: whatever AWS refuses on the way to a first look, the message ends with what to do about it, on the same line.
func TestCuresOnTheWayToGlue(t *testing.T) {
	a := newAccount(t)
	a.glue.PutTable(map[string]any{"DatabaseName": "db", "Name": "plain", "VersionId": "0", "Parameters": map[string]any{"classification": "parquet"}})
	denied := func(action, code, message string) func(*testing.T) {
		return func(t *testing.T) {
			a.glue.Refuse(action, catalogtest.GlueRefusal{Code: code, Message: message})
			t.Cleanup(func() { a.glue.Refuse(action, catalogtest.GlueRefusal{}) })
		}
	}
	for name, c := range map[string]struct {
		given func(*testing.T)
		table string
		more  []string
		code  int
		says  []string
	}{
		"no region": {given: func(t *testing.T) { t.Setenv("AWS_REGION", "") }, code: exitUsage, says: []string{"no AWS region", "set AWS_REGION"}},
		"no credentials": {
			given: func(t *testing.T) { t.Setenv("AWS_ACCESS_KEY_ID", "") }, code: exitOther, says: []string{"no AWS credentials", "set AWS_PROFILE"},
		},
		"expired": {
			given: denied("GetTable", "ExpiredTokenException", "The security token included in the request is expired"), code: exitRefused,
			says: []string{"is expired", "aws sso login"},
		},
		"denied": {
			given: denied("GetTable", "AccessDeniedException", "User: arn:aws:iam::111122223333:user/ann is not authorized to perform: glue:GetTable on resource: "+
				"arn:aws:glue:eu-west-1:111122223333:catalog because no identity-based policy allows the glue:GetTable action"),
			code: exitRefused, says: []string{"allow glue:GetTable on arn:aws:glue:eu-west-1:111122223333:catalog"},
		},
		"Lake Formation": {
			given: denied("GetTable", "AccessDeniedException", "Insufficient Lake Formation permission(s): Required Describe on orders"), code: exitRefused,
			says: []string{"aws lakeformation grant-permissions --permissions DESCRIBE SELECT", `"DatabaseName": "db", "Name": "orders"`},
		},
		"S3 denied": {
			given: func(t *testing.T) {
				a.s3.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
					if storetest.RequestName(r) == "GetObject" {
						storetest.Refuse(w, http.StatusForbidden, "AccessDenied")
						return true
					}
					return false
				}
				t.Cleanup(func() { a.s3.Intercept = nil })
			},
			code: exitRefused, says: []string{"allow s3:GetObject on arn:aws:s3:::lake/warehouse/"},
		},
		"not Iceberg":     {table: "db.plain", code: exitRefused, says: []string{"not an Iceberg table", "table_type", "migrate"}},
		"mistyped":        {table: "db.order", code: exitRefused, says: []string{"no such table in Glue of region eu-west-1", "did you mean db.orders?"}},
		"not to be found": {table: "sales.facts", code: exitRefused, says: []string{"no such table in Glue of region eu-west-1", "default has db.orders"}},
		"nothing listed": {
			given: denied("GetDatabases", "AccessDeniedException", "no"), table: "sales.facts", code: exitRefused, says: []string{"cannot be listed either", "region"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.given != nil {
				c.given(t)
			}
			if c.table == "" {
				c.table = "db.orders"
			}
			got := a.firn("inspect", "-P", "type=glue", "--table", c.table)
			if got.code != c.code || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("exit %d, want %d: %s", got.code, c.code, got.stderr)
			}
			for _, part := range c.says {
				if !strings.Contains(got.stderr, part) {
					t.Errorf("the message does not say %q: %s", part, got.stderr)
				}
			}
		})
	}
	if got := a.must("inspect", "-P", "type=glue", "--table", "db.orders"); !strings.Contains(got.stdout, "3 (3 parquet)") || strings.Contains(got.stdout, "optimizers") {
		t.Errorf("once nothing is refused: %s", got.stdout)
	}
}

// TestOptimizersAreNamed: a table that Glue's optimizers maintain says so at the first look, and which setting takes it over.
func TestOptimizersAreNamed(t *testing.T) {
	a := newAccount(t)
	a.glue.Optimize("db", "orders", "compaction", "retention")
	const says = "the catalog's own optimizers are on (compaction, retention); switch them off (aws glue delete-table-optimizer), or set takeover (on the table: firn.takeover=true)"
	for _, command := range []string{"inspect", "explain"} {
		if got := a.must(command, "-P", "type=glue", "--table", "db.orders").stdout; !strings.Contains(got, says) {
			t.Errorf("%s: %s", command, got)
		}
	}
	a.config("catalogs: {glue: {type: glue}}\ncatalog: glue\nwarehouses: [s3://lake/warehouse]\n")
	if got := a.must("explain", "--table", "db.orders").stdout; !strings.Contains(got, "automatic runs: none: "+says) {
		t.Errorf("under a list of warehouses: %s", got)
	}
	a.config("catalogs: {glue: {type: glue}}\ncatalog: glue\npolicy: {takeover: true}\n")
	if got := a.must("explain", "--table", "db.orders").stdout; strings.Contains(got, "optimizers are on") {
		t.Errorf("taken over: %s", got)
	}
}

// TestExplainReadsADeployment: explain shows the last decision of a deployment's state under the deployment's own configuration, and says when there is none.
func TestExplainReadsADeployment(t *testing.T) {
	a := newAccount(t)
	a.s3.Seed(t, "assets", "deployed.yaml", []byte("catalogs: {glue: {type: glue}}\ncatalog: glue\nwarehouses: [s3://lake/warehouse]\npolicy: {mode: maintain}\n"), time.Now())
	explain := []string{"explain", "--config", "s3://assets/deployed.yaml", "--state", "dynamodb:States", "--table", "db.orders"}
	if got := a.must(explain...).stdout; !strings.Contains(got, "last decision: none about glue.db.orders in dynamodb:States") {
		t.Errorf("without a decision: %s", got)
	}
	st := state.New(dynamo.New(dynamodb.New(dynamodb.Options{
		Region: "eu-west-1", BaseEndpoint: aws.String(a.items.URL), Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
	}), "States"))
	id := maintenance.TableID{Catalog: "glue", Namespace: maintenance.NewNamespace("db"), Name: "orders"}
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	kept := state.Decision{Table: id, AtMS: at.UnixMilli(), Action: "observe", Due: []maintenance.Job{maintenance.RewriteDataFiles}, Reasons: []string{"rewrite_data_files: true: 120 small files"}, Inputs: map[string]int64{"small_files": 120, "commits": 7}}
	if err := st.SaveDecision(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	kept.Same, kept.LastMS = 3, at.Add(time.Hour).UnixMilli()
	head, err := st.LoadHead(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	head.Decision = &kept
	if _, err := st.SaveHead(t.Context(), head); err != nil {
		t.Fatal(err)
	}
	got := a.must(explain...).stdout
	for _, part := range []string{"maintain", "last decision: observe at 2026-11-30T12:00:00Z and 3 times more until 2026-11-30T13:00:00Z", "\n  rewrite_data_files: true: 120 small files\n"} {
		if !strings.Contains(got, part) {
			t.Errorf("it does not say %q: %s", part, got)
		}
	}
	if err := st.SaveDecision(t.Context(), state.Decision{Table: id, AtMS: at.Add(2 * time.Hour).UnixMilli(), Action: "skip", Skip: "it is outside of the warehouses"}); err != nil {
		t.Fatal(err)
	}
	if got := a.must(explain...).stdout; !strings.Contains(got, "last decision: skip at 2026-11-30T14:00:00Z\n  it is outside of the warehouses\n") {
		t.Errorf("after a look that could not help: %s", got)
	}
	const history = "\nin the history: skip at 2026-11-30T14:00:00Z\n  it is outside of the warehouses\nin the history: observe at 2026-11-30T12:00:00Z\n  rewrite_data_files: true: 120 small files\n" +
		"  commits: 7\n  small_files: 120\n"
	if got := a.must(append(explain, "--decisions", "9")...).stdout; !strings.HasSuffix(got, history) {
		t.Errorf("with the history: %s", got)
	}
	if object := a.object(a.must(append(explain, "--json", "--decisions", "1")...)); len(object["decisions"].([]any)) != 1 {
		t.Errorf("as JSON, with one of the history: %v", object["decisions"])
	}
	if object := a.object(a.must(append(explain, "--json")...)); object["decision"].(map[string]any)["action"] != "skip" || object["mode"] != "maintain" {
		t.Errorf("as JSON: %v", object)
	}
	if got := a.firn("explain", "--config", "s3://assets/nowhere.yaml", "--table", "db.orders"); got.code != exitUsage || !strings.Contains(got.stderr, "s3://assets/nowhere.yaml") {
		t.Errorf("a configuration that is not there: exit %d: %s", got.code, got.stderr)
	}
}
