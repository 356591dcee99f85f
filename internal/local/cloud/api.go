package cloud

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // SQS's checksum
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash/crc32"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"

	"firn/internal/workflow"
)

func (c *Cloud) arn(service, rest string) string {
	p := c.options.Place
	return "arn:" + p.Partition + ":" + service + ":" + p.Region + ":" + p.Account + ":" + rest
}

func (c *Cloud) serveDynamoDB(w http.ResponseWriter, r *http.Request, call Call) {
	var in struct{ TableName string }
	if !read(w, call, &in) {
		return
	}
	call.Action, call.Resource = "dynamodb:"+call.Request, c.arn("dynamodb", "table/"+in.TableName)
	if !c.allowed(w, r, call) {
		return
	}
	for _, t := range c.current().Tables {
		if t.Name == in.TableName {
			recorded := httptest.NewRecorder()
			c.options.DynamoDB.ServeHTTP(recorded, r)
			w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(recorded.Body.Bytes())), 10))
			pass(w, recorded)
			return
		}
	}
	refuse(w, http.StatusBadRequest, "ResourceNotFoundException", "no table "+in.TableName)
}

// serveGlue asks for rights on the catalog, the database and the table, as Glue does, and tells the bus what changed.
func (c *Cloud) serveGlue(w http.ResponseWriter, r *http.Request, call Call) {
	var in struct {
		DatabaseName, Name, TableName string
		TableInput                    struct{ Name string }
	}
	if err := json.Unmarshal(call.Body, &in); err != nil {
		refuse(w, http.StatusBadRequest, "InvalidInputException", err.Error())
		return
	}
	table := in.Name + in.TableName + in.TableInput.Name
	call.Action = "glue:" + call.Request
	resources := []string{c.arn("glue", "catalog")}
	if in.DatabaseName != "" {
		resources = append(resources, c.arn("glue", "database/"+in.DatabaseName))
		if table == "" {
			table = "*" // of all tables of the database
		}
		resources = append(resources, c.arn("glue", "table/"+in.DatabaseName+"/"+table))
	}
	for _, resource := range resources[:len(resources)-1] {
		call.Resource = resource
		if call.Role != Operator && !c.guard.role(c.roleARN(call.Role), request(call, nil)) {
			refuse(w, http.StatusBadRequest, "AccessDeniedException", "not authorized to perform: "+call.Action+" on resource: "+resource)
			return
		}
	}
	call.Resource = resources[len(resources)-1]
	if !c.allowed(w, r, call) {
		return
	}
	recorded := httptest.NewRecorder()
	r.Body = readCloser{bytes.NewReader(call.Body)}
	c.options.Glue.ServeHTTP(recorded, r)
	if recorded.Code == http.StatusOK && call.Request == "UpdateTable" {
		c.TableChanged(in.DatabaseName, table)
	}
	pass(w, recorded)
}

// pass hands on an answer.
func pass(w http.ResponseWriter, recorded *httptest.ResponseRecorder) {
	maps.Copy(w.Header(), recorded.Header())
	w.WriteHeader(recorded.Code)
	_, _ = w.Write(recorded.Body.Bytes())
}

// TableChanged puts the events on the bus that a commit through Glue causes: Glue's own and CloudTrail's.
func (c *Cloud) TableChanged(database, table string) {
	c.Publish("aws.glue", "Glue Data Catalog Table State Change", map[string]any{
		"databaseName": database, "tableName": table, "typeOfChange": "UpdateTable", "changedPartitions": []any{},
	})
}

type readCloser struct{ *bytes.Reader }

// Close implements io.Closer.
func (readCloser) Close() error { return nil }

func (c *Cloud) serveStates(w http.ResponseWriter, r *http.Request, call Call) {
	var in struct{ StateMachineArn, Name, Input, TraceHeader string }
	call.Action = "states:" + call.Request
	if call.Request != "StartExecution" || !read(w, call, &in) {
		c.guard.violate("%s called states:%s, which is not known here", call.Role, call.Request)
		refuse(w, http.StatusBadRequest, "UnknownOperationException", call.Request)
		return
	}
	call.Resource = in.StateMachineArn
	if !c.allowed(w, r, call) {
		return
	}
	started, err := c.executions.StartExecution(context.WithoutCancel(r.Context()), workflow.Start{MachineARN: in.StateMachineArn, Name: in.Name, Input: []byte(in.Input)})
	switch {
	case errors.Is(err, workflow.ErrExecutionAlreadyExists):
		refuse(w, http.StatusBadRequest, "ExecutionAlreadyExists", err.Error())
	case errors.Is(err, workflow.ErrMachineDoesNotExist):
		refuse(w, http.StatusBadRequest, "StateMachineDoesNotExist", err.Error())
	case errors.Is(err, workflow.ErrInvalidName):
		refuse(w, http.StatusBadRequest, "InvalidName", err.Error())
	case err != nil:
		refuse(w, http.StatusBadRequest, "InvalidExecutionInput", err.Error())
	default:
		answer(w, map[string]any{"executionArn": started.ARN, "startDate": float64(started.StartedAt.UnixMilli()) / 1000})
	}
}

func (c *Cloud) serveSQS(w http.ResponseWriter, r *http.Request, call Call) {
	var in struct {
		QueueUrl, MessageBody string
		DelaySeconds          int
		MessageAttributes     map[string]struct{ DataType, StringValue string }
	}
	call.Action = "sqs:" + call.Request
	if call.Request != "SendMessage" || !read(w, call, &in) {
		c.guard.violate("%s called sqs:%s, which is not known here", call.Role, call.Request)
		refuse(w, http.StatusBadRequest, "UnsupportedOperation", call.Request)
		return
	}
	q := c.queueByURL(in.QueueUrl)
	if q == nil {
		refuse(w, http.StatusBadRequest, "com.amazonaws.sqs#QueueDoesNotExist", in.QueueUrl)
		return
	}
	call.Resource = q.settings.ARN
	if !c.allowed(w, r, call) {
		return
	}
	if in.DelaySeconds < 0 || in.DelaySeconds > 900 || in.MessageBody == "" || len(in.MessageBody) > 1<<20 {
		c.guard.violate("%s sent a message of %d bytes with a delay of %d s", call.Role, len(in.MessageBody), in.DelaySeconds)
		refuse(w, http.StatusBadRequest, "InvalidParameterValue", "body or delay")
		return
	}
	attributes := map[string]string{}
	for name, a := range in.MessageAttributes {
		attributes[name] = a.StringValue
	}
	id := q.put(in.MessageBody, attributes, in.DelaySeconds > 0, c.options.Now())
	sum := md5.Sum([]byte(in.MessageBody)) //nolint:gosec // SQS's checksum
	answer(w, map[string]string{"MessageId": id, "MD5OfMessageBody": hex.EncodeToString(sum[:])})
}

func (c *Cloud) serveEvents(w http.ResponseWriter, r *http.Request, call Call) {
	var in struct {
		Entries []struct {
			Source, DetailType, Detail, EventBusName string
			Resources                                []string
			Time                                     float64
		}
	}
	call.Action = "events:" + call.Request
	if call.Request != "PutEvents" || !read(w, call, &in) || len(in.Entries) == 0 || len(in.Entries) > 10 {
		c.guard.violate("%s called events:%s with %d entries", call.Role, call.Request, len(in.Entries))
		refuse(w, http.StatusBadRequest, "ValidationException", call.Request)
		return
	}
	call.Resource = c.arn("events", "event-bus/default")
	if !c.allowed(w, r, call) {
		return
	}
	var entries []map[string]string
	failed := 0
	for _, e := range in.Entries {
		name := e.EventBusName[strings.LastIndex(e.EventBusName, "/")+1:]
		var detail map[string]any
		switch err := json.Unmarshal([]byte(e.Detail), &detail); {
		case strings.HasPrefix(e.Source, "aws."):
			failed++
			entries = append(entries, map[string]string{"ErrorCode": "NotAuthorizedForSourceException", "ErrorMessage": "Not authorized for the source."})
		case err != nil || e.Source == "" || e.DetailType == "" || name != "" && name != "default":
			failed++
			entries = append(entries, map[string]string{"ErrorCode": "InvalidArgument", "ErrorMessage": "source, detail type, detail or bus"})
		default:
			c.bus.send(event{Source: e.Source, DetailType: e.DetailType, Detail: detail, Resources: e.Resources})
			entries = append(entries, map[string]string{"EventId": "1"})
		}
	}
	answer(w, map[string]any{"FailedEntryCount": failed, "Entries": entries})
}

func (c *Cloud) serveSecrets(w http.ResponseWriter, r *http.Request, call Call) {
	var in struct{ SecretId string }
	call.Action = "secretsmanager:" + call.Request
	if call.Request != "GetSecretValue" || !read(w, call, &in) {
		c.guard.violate("%s called secretsmanager:%s, which is not known here", call.Role, call.Request)
		refuse(w, http.StatusBadRequest, "UnknownOperationException", call.Request)
		return
	}
	call.Resource = in.SecretId
	if !c.allowed(w, r, call) {
		return
	}
	value, found := c.options.Secrets[in.SecretId]
	if !found {
		refuse(w, http.StatusBadRequest, "ResourceNotFoundException", "no secret "+in.SecretId)
		return
	}
	answer(w, map[string]string{"ARN": in.SecretId, "Name": in.SecretId, "SecretString": value})
}

// read decodes a call's body; unknown fields pass, since services take more than we look at.
func read(w http.ResponseWriter, call Call, into any) bool {
	if err := json.Unmarshal(call.Body, into); err != nil {
		refuse(w, http.StatusBadRequest, "SerializationException", err.Error())
		return false
	}
	return true
}
