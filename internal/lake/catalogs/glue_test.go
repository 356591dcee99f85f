package catalogs_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"firn/internal/lake/catalogs"
	"firn/internal/lake/catalogs/catalogtest"
	"firn/internal/maintenance"
)

// fullTable is a Glue table with everything that others may have written into it.
func fullTable(name, kind string) map[string]any {
	return map[string]any{
		"DatabaseName": "db", "Name": name, "VersionId": "41", "Description": "orders, by day", "Owner": "ann", "Retention": 7.0, "TableType": "EXTERNAL_TABLE",
		"ViewOriginalText": "o", "ViewExpandedText": "e", "CreatedBy": "arn:aws:iam::1:user/ann", "CreateTime": 1700000000.0, "LastAccessTime": 1700000001.0,
		"LastAnalyzedTime": 1700000002.0, "CatalogId": "123456789012", "IsRegisteredWithLakeFormation": true,
		"PartitionKeys": []any{map[string]any{"Name": "p", "Type": "string"}},
		"Parameters":    map[string]any{"table_type": kind, "metadata_location": "s3://b/t/metadata/1.json", "previous_metadata_location": "s3://b/t/metadata/0.json", "note": "keep"},
		"StorageDescriptor": map[string]any{
			"Location": "s3://b/t", "InputFormat": "in", "OutputFormat": "out", "Compressed": true, "NumberOfBuckets": 4.0, "StoredAsSubDirectories": true,
			"AdditionalLocations": []any{"s3://b/t/data"}, "SerdeInfo": map[string]any{"SerializationLibrary": "serde", "Parameters": map[string]any{"a": "b"}},
			"Columns": []any{map[string]any{"Name": "x", "Type": "bigint", "Comment": "key", "Parameters": map[string]any{"iceberg.field.id": "1"}}},
		},
	}
}

func openGlue(t *testing.T, server *catalogtest.GlueServer, more map[string]string) *catalogs.Glue {
	t.Helper()
	props := glueProps(server)
	maps.Copy(props, more)
	cat, err := catalogs.OpenGlue(t.Context(), "c", props)
	if err != nil {
		t.Fatal(err)
	}
	return cat
}

// TestGlueSwapKeepsWhatOthersWrote compares the request with what GetTable gave, field by field.
func TestGlueSwapKeepsWhatOthersWrote(t *testing.T) {
	for _, archive := range []bool{false, true} {
		server := catalogtest.NewGlueServer(t)
		server.PutTable(fullTable("t", "ICEBERG"))
		cat := openGlue(t, server, map[string]string{"glue.skip-archive": fmt.Sprint(!archive), "glue.id": "123456789012"})
		base, err := cat.Load(t.Context(), table("db", "t"))
		if err != nil {
			t.Fatal(err)
		}
		if base.Version != "41" || base.MetadataLocation != "s3://b/t/metadata/1.json" || base.Properties["note"] != "keep" {
			t.Errorf("pointer: %+v", base)
		}
		if err := cat.Swap(t.Context(), table("db", "t"), base, "s3://b/t/metadata/2.json"); err != nil {
			t.Fatal(err)
		}
		requests := server.Requests("UpdateTable")
		if len(requests) != 1 {
			t.Fatalf("UpdateTable was called %d times", len(requests))
		}
		body := requests[0].Body
		want := fullTable("t", "ICEBERG")
		for _, key := range []string{"DatabaseName", "VersionId", "CreatedBy", "CreateTime", "CatalogId", "IsRegisteredWithLakeFormation"} { // not part of TableInput
			delete(want, key)
		}
		want["Parameters"] = map[string]any{
			"table_type": "ICEBERG", "metadata_location": "s3://b/t/metadata/2.json", "previous_metadata_location": "s3://b/t/metadata/1.json", "note": "keep",
		}
		if diff := cmp.Diff(want, body["TableInput"]); diff != "" {
			t.Errorf("TableInput: -want +got\n%s", diff)
		}
		delete(body, "TableInput")
		if diff := cmp.Diff(map[string]any{"CatalogId": "123456789012", "DatabaseName": "db", "SkipArchive": !archive, "VersionId": "41"}, body); diff != "" {
			t.Errorf("request: -want +got\n%s", diff)
		}
	}
}

// TestGlueSwapHoldsAgainstOthers lets another engine move the pointer, or only the definition, after our load.
func TestGlueSwapHoldsAgainstOthers(t *testing.T) {
	for name, change := range map[string]func(map[string]any){
		"pointer": func(d map[string]any) {
			d["VersionId"], d["Parameters"].(map[string]any)["metadata_location"] = "42", "s3://b/t/metadata/theirs.json"
		},
		"description": func(d map[string]any) { d["VersionId"], d["Description"] = "42", "theirs" },
	} {
		server := catalogtest.NewGlueServer(t)
		server.PutTable(fullTable("t", "ICEBERG"))
		cat := openGlue(t, server, nil)
		base, err := cat.Load(t.Context(), table("db", "t"))
		if err != nil {
			t.Fatal(err)
		}
		theirs := fullTable("t", "ICEBERG")
		change(theirs)
		server.PutTable(theirs)
		if err := cat.Swap(t.Context(), table("db", "t"), base, "s3://b/t/metadata/2.json"); !errors.Is(err, catalogs.ErrConflict) {
			t.Errorf("%s: got %v, want ErrConflict", name, err)
		}
		if diff := cmp.Diff(theirs, server.Table("db", "t")); diff != "" {
			t.Errorf("%s: their change was overwritten: -want +got\n%s", name, diff)
		}
	}
	cat := openGlue(t, catalogtest.NewGlueServer(t), nil)
	if err := cat.Swap(t.Context(), table("db", "t"), catalogs.Pointer{MetadataLocation: "x"}, "y"); !errors.Is(err, catalogs.ErrRefused) {
		t.Errorf("base without version: got %v, want ErrRefused", err)
	}
}

func TestGlueTableTypes(t *testing.T) {
	server := catalogtest.NewGlueServer(t)
	for i, kind := range []string{"ICEBERG", "iceberg", "Iceberg", "HUDI"} {
		server.PutTable(fullTable(fmt.Sprintf("t%d", i), kind))
	}
	plain := fullTable("t4", "ICEBERG")
	delete(plain["Parameters"].(map[string]any), "table_type")
	server.PutTable(plain)
	empty := fullTable("t5", "ICEBERG")
	delete(empty["Parameters"].(map[string]any), "metadata_location")
	server.PutTable(empty)
	link := fullTable("t6", "ICEBERG")
	link["TargetTable"] = map[string]any{"CatalogId": "1", "DatabaseName": "x", "Name": "y"}
	server.PutTable(link)
	cat := openGlue(t, server, nil)
	var listed []string
	for id, err := range cat.Tables(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, id.String())
	}
	if diff := cmp.Diff([]string{"c.db.t0", "c.db.t1", "c.db.t2"}, listed); diff != "" {
		t.Errorf("listed: -want +got\n%s", diff)
	}
	for i, want := range []error{nil, nil, nil, catalogs.ErrNotIceberg, catalogs.ErrNotIceberg, catalogs.ErrNotIceberg} {
		if _, err := cat.Load(t.Context(), table("db", fmt.Sprintf("t%d", i))); !errors.Is(err, want) {
			t.Errorf("load t%d: got %v, want %v", i, err, want)
		}
	}
	if _, err := cat.Load(t.Context(), table("DB", "T1")); err != nil {
		t.Errorf("load in capitals: %v", err)
	}
	if _, err := cat.Load(t.Context(), maintenance.TableID{Namespace: maintenance.NewNamespace("a", "b"), Name: "t"}); !errors.Is(err, catalogs.ErrNoSuchTable) {
		t.Errorf("load with two levels: got %v, want ErrNoSuchTable", err)
	}
}

// TestGlueErrorsOfReads: what Glue denies is told apart from what may pass and from what is unknown.
func TestGlueErrorsOfReads(t *testing.T) {
	for kind, want := range map[string]error{
		"AccessDeniedException": catalogs.ErrPermission, "GlueEncryptionException": catalogs.ErrPermission, "EntityNotFoundException": catalogs.ErrNoSuchTable,
		"OperationTimeoutException": catalogs.ErrTransient, "InvalidInputException": nil,
	} {
		inner := catalogtest.NewGlueServer(t)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-amz-json-1.1")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"__type":%q,"Message":"no"}`, kind)
		}))
		t.Cleanup(server.Close)
		_, err := openGlue(t, inner, map[string]string{"glue.endpoint": server.URL}).Load(t.Context(), table("db", "t"))
		for _, class := range []error{catalogs.ErrPermission, catalogs.ErrNoSuchTable, catalogs.ErrTransient, catalogs.ErrRefused} {
			if is := errors.Is(err, class); is != errors.Is(want, class) {
				t.Errorf("%s: %v, is %v: %t", kind, err, class, is)
			}
		}
	}
}

// TestGlueErrorsOfUpdateTable maps each answer to one end, and counts the attempts.
func TestGlueErrorsOfUpdateTable(t *testing.T) {
	for _, test := range []struct {
		status int
		kind   string
		want   catalogtest.End
	}{
		{400, "ConcurrentModificationException", catalogtest.Conflict},
		{400, "AccessDeniedException", catalogtest.Refused},
		{400, "InvalidInputException", catalogtest.Refused},
		{400, "EntityNotFoundException", catalogtest.Refused},
		{400, "ResourceNumberLimitExceededException", catalogtest.Refused},
		{400, "ExpiredTokenException", catalogtest.Refused},
		{400, "ThrottlingException", catalogtest.Unknown},
		{400, "OperationTimeoutException", catalogtest.Unknown},
		{400, "ResourceNotReadyException", catalogtest.Unknown},
		{400, "SomethingNewException", catalogtest.Unknown},
		{500, "InternalServiceException", catalogtest.Unknown},
		{503, "ServiceUnavailable", catalogtest.Unknown},
	} {
		var attempts atomic.Int32
		inner := catalogtest.NewGlueServer(t)
		inner.PutTable(fullTable("t", "ICEBERG"))
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".UpdateTable") {
				inner.ServeHTTP(w, r)
				return
			}
			attempts.Add(1)
			w.Header().Set("Content-Type", "application/x-amz-json-1.1")
			w.WriteHeader(test.status)
			_, _ = fmt.Fprintf(w, `{"__type":%q,"Message":"no"}`, test.kind)
		}))
		t.Cleanup(server.Close)
		cat := openGlue(t, inner, map[string]string{"glue.endpoint": server.URL})
		base, err := cat.Load(t.Context(), table("db", "t"))
		if err != nil {
			t.Fatal(err)
		}
		err = cat.Swap(t.Context(), table("db", "t"), base, "s3://b/t/metadata/2.json")
		if got := catalogtest.EndOf(err); got != test.want {
			t.Errorf("%s: got %s (%v), want %s", test.kind, got, err, test.want)
		}
		if attempts.Load() != 1 {
			t.Errorf("%s: %d attempts", test.kind, attempts.Load())
		}
		if test.kind == "ResourceNumberLimitExceededException" && !strings.Contains(err.Error(), "glue.skip-archive") {
			t.Errorf("limit: the message does not help: %v", err)
		}
	}
}

func TestGlueProperties(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", "/nonexistent")
	for name, test := range map[string]struct {
		props map[string]string
		want  string
	}{
		"no region":    {map[string]string{}, "glue.region"},
		"half a key":   {map[string]string{"glue.region": "r", "glue.access-key-id": "x"}, "belong together"},
		"role":         {map[string]string{"glue.region": "r", "client.role-arn": "x"}, "role_arn"},
		"skip-archive": {map[string]string{"glue.region": "r", "glue.skip-archive": "maybe"}, "neither true nor false"},
		"unified":      {map[string]string{"client.region": "r", "client.access-key-id": "a", "client.secret-access-key": "b"}, ""},
	} {
		_, err := catalogs.OpenGlue(t.Context(), "c", test.props)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, test.want)
		}
	}
}
