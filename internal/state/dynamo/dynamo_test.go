package dynamo_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"

	"firn/internal/state"
	"firn/internal/state/dynamo"
	"firn/internal/state/dynamo/dynamofake"
	"firn/internal/state/statetest"
)

func client(endpoint string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "eu-west-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("a", "s", ""),
		Retryer: aws.NopRetryer{},
	})
}

// repeating is a client that sends a failed request once more, at once.
func repeating(endpoint string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "eu-west-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("a", "s", ""), Retryer: again{},
	})
}

// TestConformance: the suite that SQLite and memory pass, too.
func TestConformance(t *testing.T) {
	server := dynamofake.Start(t)
	var n atomic.Int64
	statetest.Run(t, func(*testing.T) state.Store {
		return state.New(dynamo.New(client(server.URL), fmt.Sprintf("table-%d", n.Add(1))))
	})
}

// TestConformanceElsewhere runs the same suite against another server of the protocol (moto, MiniStack, DynamoDB itself), to check the fake.
func TestConformanceElsewhere(t *testing.T) {
	endpoint := os.Getenv("FIRN_DYNAMODB_ENDPOINT")
	if endpoint == "" {
		t.Skip("FIRN_DYNAMODB_ENDPOINT names no server")
	}
	c := client(endpoint)
	open := func(t *testing.T) state.Items {
		name := "firn-" + strings.ReplaceAll(t.Name(), "/", "-")
		_, err := c.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: &name, BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{
				{AttributeName: aws.String("pk"), AttributeType: "S"}, {AttributeName: aws.String("sk"), AttributeType: "S"},
			},
			KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: "HASH"}, {AttributeName: aws.String("sk"), KeyType: "RANGE"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return dynamo.New(c, name)
	}
	statetest.Run(t, func(t *testing.T) state.Store { return state.New(open(t)) })
	t.Run("twin", func(t *testing.T) { likeMemory(t, open(t)) })
}

// again repeats every failed request once.
type again struct{}

func (again) IsErrorRetryable(error) bool { return true }
func (again) MaxAttempts() int            { return 2 }
func (again) RetryDelay(int, error) (time.Duration, error) {
	return 0, nil
}

func (again) GetRetryToken(context.Context, error) (func(error) error, error) {
	return func(error) error { return nil }, nil
}
func (again) GetInitialToken() func(error) error { return func(error) error { return nil } }

// TestTwin: random calls get from DynamoDB what they get from memory.
func TestTwin(t *testing.T) {
	server := dynamofake.Start(t)
	likeMemory(t, dynamo.New(client(server.URL), "t"))
}

func likeMemory(t *testing.T, real state.Items) {
	round := 0
	rapid.Check(t, func(r *rapid.T) {
		round++
		memory, ctx := state.NewMemory(), context.Background()
		keys := rapid.SampledFrom([]string{"a", "a/1", "a/2", "ab", "b", "b/\u00e4", "b/\U0001F600", "c"})
		for range rapid.IntRange(1, 25).Draw(r, "calls") {
			pk, sk := fmt.Sprintf("p%d", round), keys.Draw(r, "sk")
			version := rapid.Int64Range(0, 2).Draw(r, "version")
			var errs [2]error
			switch rapid.IntRange(0, 3).Draw(r, "call") {
			case 0:
				item := state.Item{PK: pk, SK: sk, Version: version, Data: []byte(rapid.String().Draw(r, "data"))}
				errs = [2]error{memory.Put(ctx, item), real.Put(ctx, item)}
			case 1:
				item := state.Item{PK: pk, SK: sk, Version: max(version, 1)}
				errs = [2]error{memory.Delete(ctx, item), real.Delete(ctx, item)}
			case 2:
				a, errA := memory.Get(ctx, pk, sk)
				b, errB := real.Get(ctx, pk, sk)
				same(r, []state.Item{a}, []state.Item{b})
				errs = [2]error{errA, errB}
			default:
				q := state.Query{
					PK: pk, Prefix: rapid.SampledFrom([]string{"", "a", "a/", "b/", "z"}).Draw(r, "prefix"),
					Descending: rapid.Bool().Draw(r, "descending"), Limit: rapid.IntRange(0, 4).Draw(r, "limit"),
				}
				if rapid.Bool().Draw(r, "after") {
					q.After = keys.Draw(r, "after key")
				}
				a, errA := memory.Query(ctx, q)
				b, errB := real.Query(ctx, q)
				same(r, a, b)
				errs = [2]error{errA, errB}
			}
			if errors.Is(errs[0], state.ErrConditionFailed) != errors.Is(errs[1], state.ErrConditionFailed) || (errs[0] == nil) != (errs[1] == nil) {
				r.Fatalf("memory says %v, DynamoDB %v", errs[0], errs[1])
			}
		}
	})
}

func same(r *rapid.T, a, b []state.Item) {
	equal := slices.EqualFunc(a, b, func(x, y state.Item) bool {
		return x.PK == y.PK && x.SK == y.SK && x.Version == y.Version && bytes.Equal(x.Data, y.Data)
	})
	if !equal {
		r.Fatalf("memory has %v, DynamoDB %v", a, b)
	}
}

// TestLostAnswer: a write whose answer is lost and that the client repeats is done once and is no conflict with itself; another's write is one.
func TestLostAnswer(t *testing.T) {
	server := dynamofake.Start(t)
	items, ctx := dynamo.New(repeating(server.URL), "t"), context.Background()
	lost := 0
	server.Fail(func(call string) dynamofake.Fault {
		if call == "PutItem" && lost == 0 {
			lost++
			return dynamofake.LoseAnswer
		}
		return dynamofake.None
	})
	if err := items.Put(ctx, state.Item{PK: "p", SK: "s", Data: []byte("x")}); err != nil || lost != 1 {
		t.Fatalf("lost %d answers: %v", lost, err)
	}
	if got, err := items.Get(ctx, "p", "s"); err != nil || got.Version != 1 || string(got.Data) != "x" {
		t.Errorf("stored %+v, %v", got, err)
	}
	// The very same document of somebody else is still a conflict: two runs must not share a lease.
	if err := dynamo.New(client(server.URL), "t").Put(ctx, state.Item{PK: "p", SK: "s", Data: []byte("x")}); !errors.Is(err, state.ErrConditionFailed) {
		t.Errorf("error %v, want a failed condition", err)
	}
}

// TestErrorsHaveClasses: throttling and faults of the server may pass, a refusal does not.
func TestErrorsHaveClasses(t *testing.T) {
	server := dynamofake.Start(t)
	items, ctx := dynamo.New(client(server.URL), "t"), context.Background()
	for fault, transient := range map[dynamofake.Fault]bool{dynamofake.Throttle: true, dynamofake.Unavailable: true, dynamofake.LoseAnswer: true} {
		server.Fail(func(string) dynamofake.Fault { return fault })
		_, getErr := items.Get(ctx, "p", "s")
		_, queryErr := items.Query(ctx, state.Query{PK: "p"})
		for _, err := range []error{getErr, queryErr, items.Put(ctx, state.Item{PK: "p", SK: "s"}), items.Delete(ctx, state.Item{PK: "p", SK: "s", Version: 1})} {
			if err == nil || errors.Is(err, state.ErrTransient) != transient {
				t.Errorf("fault %d: error %v", fault, err)
			}
		}
	}
	server.Fail(nil)
	if _, err := items.Get(ctx, "", "s"); err == nil || errors.Is(err, state.ErrTransient) {
		t.Errorf("an empty key: error %v", err)
	}
}

// TestBigDocuments are packed; what does not fit even then is an error before any call.
func TestBigDocuments(t *testing.T) {
	server := dynamofake.Start(t)
	items, ctx := dynamo.New(client(server.URL), "t"), context.Background()
	big := bytes.Repeat([]byte(`{"spec_id":0,"partition":"day=2026-01-01","data_files":12},`), 40_000)
	if err := items.Put(ctx, state.Item{PK: "p", SK: "s", Data: big}); err != nil {
		t.Fatal(err)
	}
	got, err := items.Get(ctx, "p", "s")
	if err != nil || !bytes.Equal(got.Data, big) {
		t.Errorf("%d of %d bytes, %v", len(got.Data), len(big), err)
	}
	noise, sum := make([]byte, 0, 500_000), sha256.Sum256(nil)
	for len(noise) < 450_000 {
		noise = append(noise, sum[:]...)
		sum = sha256.Sum256(sum[:])
	}
	if err := items.Put(ctx, state.Item{PK: "p", SK: "n", Data: noise}); err == nil || !strings.Contains(err.Error(), "400 KB") {
		t.Errorf("error %v", err)
	}
}
