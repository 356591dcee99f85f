// Package dynamofake is a server of DynamoDB's protocol in the test's own process, for the four calls and the few expressions that Firn uses. Whatever it
// does not know it refuses as DynamoDB refuses bad input: a new expression in the product fails loudly here, and is not half understood.
package dynamofake

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// value is an attribute value as the wire has it: {"S": "..."}.
type value map[string]any

type item map[string]value

// Server is one fake server with the tables that its first writes name.
type Server struct {
	*httptest.Server

	mu     sync.Mutex
	tables map[string]map[[2]string]item
	// faults are asked before and after each call; see Fault.
	faults func(call string) Fault
}

// Fault is what goes wrong with one call.
type Fault int

// The faults.
const (
	None Fault = iota
	// Throttle answers that the table's throughput is exceeded; nothing is done.
	Throttle
	// LoseAnswer does the call and breaks the connection before the answer.
	LoseAnswer
	// Unavailable answers with an internal error; nothing is done.
	Unavailable
)

// pageBytes cuts pages of queries: DynamoDB's are 1 MB, a fake's are small so that tests see more than one.
const pageItems = 7

// Start starts a server that ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{tables: map[string]map[[2]string]item{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

// Fail sets what is asked about each call ("PutItem", ...); nil is no faults.
func (s *Server) Fail(faults func(call string) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = faults
}

type request struct {
	TableName                 string
	Key, Item                 item
	ConsistentRead            bool
	ScanIndexForward          *bool
	Limit                     int
	ConditionExpression       string
	KeyConditionExpression    string
	ExpressionAttributeNames  map[string]string
	ExpressionAttributeValues map[string]value
	ExclusiveStartKey         item
}

// refusal is an error of DynamoDB's.
type refusal struct {
	kind, text string
	status     int
}

func invalid(format string, args ...any) *refusal {
	return &refusal{"ValidationException", fmt.Sprintf(format, args...), http.StatusBadRequest}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	call, known := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB_20120810.")
	var in request
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil || !known || !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ") {
		answer(w, nil, invalid("cannot read %s: %v", call, err))
		return
	}
	s.mu.Lock()
	fault := None
	if s.faults != nil {
		fault = s.faults(call)
	}
	var out any
	var refused *refusal
	switch fault {
	case Throttle:
		refused = &refusal{"ProvisionedThroughputExceededException", "slow down", http.StatusBadRequest}
	case Unavailable:
		refused = &refusal{"InternalServerError", "try again", http.StatusInternalServerError}
	default:
		out, refused = s.do(call, in)
	}
	s.mu.Unlock()
	if fault == LoseAnswer {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.Close()
		}
		return
	}
	answer(w, out, refused)
}

func answer(w http.ResponseWriter, out any, refused *refusal) {
	if refused != nil {
		out = map[string]string{"__type": "com.amazonaws.dynamodb.v20120810#" + refused.kind, "message": refused.text}
	}
	data, err := json.Marshal(out)
	if err != nil {
		panic(fmt.Sprintf("encode answer: %v", err)) // plain data always encodes
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(data)), 10)) // the client checks it
	if refused != nil {
		w.WriteHeader(refused.status)
	}
	_, _ = w.Write(data)
}

func (s *Server) do(call string, in request) (any, *refusal) {
	table := s.tables[in.TableName]
	if table == nil {
		table = map[[2]string]item{}
		s.tables[in.TableName] = table
	}
	switch call {
	case "GetItem":
		key, refused := primary(in.Key)
		if refused != nil {
			return nil, refused
		}
		if found, is := table[key]; is {
			return map[string]any{"Item": found}, nil
		}
		return map[string]any{}, nil
	case "PutItem", "DeleteItem":
		from := in.Item
		if call == "DeleteItem" {
			from = in.Key
		}
		key, refused := primary(from)
		if refused == nil {
			refused = in.holds(table[key])
		}
		if data, _ := json.Marshal(in.Item); refused == nil && len(data) > 400<<10*4/3 {
			refused = invalid("Item size has exceeded the maximum allowed size")
		}
		if refused != nil {
			return nil, refused
		}
		if call == "PutItem" {
			table[key] = in.Item
		} else {
			delete(table, key)
		}
		return map[string]any{}, nil
	case "Query":
		return query(table, in)
	}
	return nil, invalid("the fake does not know %s", call)
}

// primary reads the two keys, which must be texts and not empty.
func primary(i item) (key [2]string, refused *refusal) {
	for n, name := range []string{"pk", "sk"} {
		text, is := i[name]["S"].(string)
		if !is || text == "" {
			return key, invalid("One or more parameter values are not valid: key %s", name)
		}
		key[n] = text
	}
	return key, nil
}

// holds checks the condition of a write against the stored item (nil: absent).
func (in request) holds(stored item) *refusal {
	var ok bool
	switch in.ConditionExpression {
	case "":
		ok = true
	case "attribute_not_exists(#pk)":
		ok = in.ExpressionAttributeNames["#pk"] == "pk" && len(in.ExpressionAttributeNames) == 1 && stored == nil
	case "#version = :version":
		want := in.ExpressionAttributeValues[":version"]["N"]
		if in.ExpressionAttributeNames["#version"] != "version" || want == nil {
			return invalid("an expression attribute is not defined")
		}
		ok = stored != nil && stored["version"]["N"] == want
	default:
		return invalid("the fake does not know the condition %q", in.ConditionExpression)
	}
	if !ok {
		return &refusal{"ConditionalCheckFailedException", "The conditional request failed", http.StatusBadRequest}
	}
	return nil
}

func query(table map[[2]string]item, in request) (any, *refusal) {
	bound := func(name string) string {
		text, _ := in.ExpressionAttributeValues[name]["S"].(string)
		return text
	}
	pk, low, high := bound(":pk"), bound(":low"), bound(":high")
	if in.KeyConditionExpression != "#pk = :pk AND #sk BETWEEN :low AND :high" || pk == "" || low == "" || high == "" {
		return nil, invalid("the fake does not know the key condition %q with %v", in.KeyConditionExpression, in.ExpressionAttributeValues)
	}
	if low > high {
		return nil, invalid("The BETWEEN operator requires upper bound to be greater than or equal to lower bound")
	}
	start := ""
	if in.ExclusiveStartKey != nil {
		key, refused := primary(in.ExclusiveStartKey)
		if refused != nil || key[0] != pk || key[1] < low || key[1] > high {
			return nil, invalid("The provided starting key is outside query boundaries based on provided conditions")
		}
		start = key[1]
	}
	forward := in.ScanIndexForward == nil || *in.ScanIndexForward
	keys := slices.SortedFunc(maps.Keys(table), func(a, b [2]string) int {
		if forward {
			return strings.Compare(a[1], b[1])
		}
		return strings.Compare(b[1], a[1])
	})
	limit := pageItems
	if in.Limit > 0 {
		limit = min(limit, in.Limit)
	}
	found, out := []item{}, map[string]any{}
	for _, key := range keys {
		if key[0] != pk || key[1] < low || key[1] > high || start != "" && (forward && key[1] <= start || !forward && key[1] >= start) {
			continue
		}
		found = append(found, table[key])
		if len(found) == limit { // as DynamoDB: a full page has a next key, even when nothing follows
			out["LastEvaluatedKey"] = item{"pk": {"S": key[0]}, "sk": {"S": key[1]}}
			break
		}
	}
	out["Items"] = found
	return out, nil
}
