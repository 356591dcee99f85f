// Package dynamo keeps state in one table of DynamoDB: partition key pk, sort key sk, a version that conditional writes compare, and the document as bytes.
// Reads are consistent. Every write is one conditional write of one item; nothing relies on transactions, on the old item in an error, or on time to live,
// which deletes days late.
package dynamo

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/google/uuid"

	"firn/internal/state"
)

// Attributes of an item. A write's own ID tells whether a write whose answer was lost is the one that is stored.
const (
	attrPK      = "pk"
	attrSK      = "sk"
	attrVersion = "version"
	attrData    = "data"
	attrPacked  = "packed"
	attrWrite   = "write"
)

const (
	// packAbove is the size of a document from which it is stored gzipped.
	packAbove = 64 << 10
	// maxBytes bounds a document as stored: DynamoDB's items have at most 400 KB, names and keys included.
	maxBytes = 390_000
	// maxUnpacked bounds a document as read.
	maxUnpacked = 64 << 20
	// behindAll sorts behind every key of text.
	behindAll = "\U0010FFFF"
)

// API is what is called of DynamoDB's client.
type API interface {
	GetItem(ctx context.Context, in *dynamodb.GetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
}

type items struct {
	client API
	table  string
	// newID makes the IDs of writes.
	newID func() string
}

// Open opens a table with the default credentials.
func Open(ctx context.Context, table string) (state.Items, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("load AWS configuration: %w", err)
	}
	if cfg.Region == "" {
		return nil, fmt.Errorf("open state table %s: no AWS region: set AWS_REGION", table)
	}
	return New(dynamodb.NewFromConfig(cfg), table), nil
}

// New returns a backend over a client.
func New(client API, table string) state.Items {
	return &items{client: client, table: table, newID: uuid.NewString}
}

// Get implements state.Items.
func (s *items) Get(ctx context.Context, pk, sk string) (state.Item, error) {
	item, _, err := s.get(ctx, pk, sk)
	return item, err
}

// get also returns the ID of the stored item's last write.
func (s *items) get(ctx context.Context, pk, sk string) (item state.Item, write string, err error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.table, Key: key(pk, sk), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return state.Item{}, "", classify(err)
	}
	if len(out.Item) == 0 {
		return state.Item{PK: pk, SK: sk}, "", nil
	}
	item, err = decode(out.Item)
	return item, text(out.Item[attrWrite]), err
}

// Put implements state.Items.
func (s *items) Put(ctx context.Context, item state.Item) error {
	data, packed, err := pack(item.Data)
	if err != nil {
		return err
	}
	write := s.newID()
	values := key(item.PK, item.SK)
	values[attrVersion] = number(item.Version + 1)
	values[attrData] = &types.AttributeValueMemberB{Value: data}
	values[attrPacked] = &types.AttributeValueMemberBOOL{Value: packed}
	values[attrWrite] = &types.AttributeValueMemberS{Value: write}
	in := &dynamodb.PutItemInput{TableName: &s.table, Item: values}
	in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues = condition(item.Version)
	_, err = s.client.PutItem(ctx, in)
	if err = classify(err); !errors.Is(err, state.ErrConditionFailed) {
		return err
	}
	// The client repeats a request whose answer was lost: the condition then fails on our own write.
	if _, stored, err := s.get(ctx, item.PK, item.SK); err == nil && stored == write {
		return nil
	}
	return fmt.Errorf("put at version %d: %w", item.Version, err)
}

// Delete implements state.Items.
func (s *items) Delete(ctx context.Context, item state.Item) error {
	in := &dynamodb.DeleteItemInput{TableName: &s.table, Key: key(item.PK, item.SK)}
	in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues = condition(item.Version)
	if _, err := s.client.DeleteItem(ctx, in); err != nil {
		return fmt.Errorf("delete at version %d: %w", item.Version, classify(err))
	}
	return nil
}

// condition compares the stored version; 0 is an absent item.
func condition(version int64) (expression *string, names map[string]string, values map[string]types.AttributeValue) {
	if version == 0 {
		return aws.String("attribute_not_exists(#pk)"), map[string]string{"#pk": attrPK}, nil
	}
	return aws.String("#version = :version"), map[string]string{"#version": attrVersion}, map[string]types.AttributeValue{":version": number(version)}
}

// Query implements state.Items. The key condition is a closed range: the prefix, cut at After, whose own item is left out here.
func (s *items) Query(ctx context.Context, q state.Query) ([]state.Item, error) {
	low, high := max(q.Prefix, "\x00"), q.Prefix+behindAll
	switch {
	case q.After == "":
	case q.Descending:
		high = min(high, q.After)
	default:
		low = max(low, q.After)
	}
	if low > high {
		return nil, nil
	}
	in := &dynamodb.QueryInput{
		TableName: &s.table, ConsistentRead: aws.Bool(true), ScanIndexForward: aws.Bool(!q.Descending),
		KeyConditionExpression:   aws.String("#pk = :pk AND #sk BETWEEN :low AND :high"),
		ExpressionAttributeNames: map[string]string{"#pk": attrPK, "#sk": attrSK},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":pk": &types.AttributeValueMemberS{Value: q.PK}, ":low": &types.AttributeValueMemberS{Value: low}, ":high": &types.AttributeValueMemberS{Value: high},
		},
	}
	if q.Limit > 0 {
		in.Limit = aws.Int32(int32(min(q.Limit, 1000)) + 1)
	}
	var found []state.Item
	for {
		out, err := s.client.Query(ctx, in)
		if err != nil {
			return nil, classify(err)
		}
		for _, values := range out.Items {
			item, err := decode(values)
			if err != nil {
				return nil, err
			}
			if q.After != "" && item.SK == q.After {
				continue
			}
			if found = append(found, item); q.Limit > 0 && len(found) == q.Limit {
				return found, nil
			}
		}
		if len(out.LastEvaluatedKey) == 0 {
			return found, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// Close implements state.Items.
func (s *items) Close() error { return nil }

func key(pk, sk string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{attrPK: &types.AttributeValueMemberS{Value: pk}, attrSK: &types.AttributeValueMemberS{Value: sk}}
}

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func text(v types.AttributeValue) string {
	if s, is := v.(*types.AttributeValueMemberS); is {
		return s.Value
	}
	return ""
}

func decode(values map[string]types.AttributeValue) (state.Item, error) {
	item := state.Item{PK: text(values[attrPK]), SK: text(values[attrSK])}
	version, isNumber := values[attrVersion].(*types.AttributeValueMemberN)
	data, isBytes := values[attrData].(*types.AttributeValueMemberB)
	if !isNumber || !isBytes {
		return item, fmt.Errorf("decode state item %s %s: it was written by something else", item.PK, item.SK)
	}
	var err error
	if item.Version, err = strconv.ParseInt(version.Value, 10, 64); err != nil {
		return item, fmt.Errorf("decode version of state item %s %s: %w", item.PK, item.SK, err)
	}
	item.Data = data.Value
	if packed, is := values[attrPacked].(*types.AttributeValueMemberBOOL); is && packed.Value {
		if item.Data, err = unpack(data.Value); err != nil {
			return item, fmt.Errorf("unpack state item %s %s: %w", item.PK, item.SK, err)
		}
	}
	return item, nil
}

// pack gzips a big document.
func pack(data []byte) (stored []byte, packed bool, err error) {
	stored = data
	if len(data) > packAbove {
		var buf bytes.Buffer
		w := gzip.NewWriter(&buf)
		_, err := w.Write(data)
		if err := errors.Join(err, w.Close()); err != nil {
			return nil, false, fmt.Errorf("pack state item: %w", err)
		}
		stored, packed = buf.Bytes(), true
	}
	if len(stored) > maxBytes {
		return nil, false, fmt.Errorf("store state item of %d bytes, %d packed: DynamoDB takes 400 KB", len(data), len(stored))
	}
	return stored, packed, nil
}

func unpack(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(r, maxUnpacked+1))
	if err == nil && len(out) > maxUnpacked {
		err = fmt.Errorf("over %d bytes", maxUnpacked)
	}
	return out, err
}

// classify gives DynamoDB's errors their class. A definite refusal (4xx other than throttling) has none.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if failed := new(types.ConditionalCheckFailedException); errors.As(err, &failed) {
		return state.ErrConditionFailed
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return fmt.Errorf("%w: %w", state.ErrTransient, err) // no answer
	}
	switch api.ErrorCode() {
	case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "LimitExceededException", "InternalServerError",
		"ServiceUnavailable", "InternalFailure", "TransactionConflictException":
		return fmt.Errorf("%w: %w", state.ErrTransient, err)
	}
	if api.ErrorFault() == smithy.FaultServer {
		return fmt.Errorf("%w: %w", state.ErrTransient, err)
	}
	return err
}
