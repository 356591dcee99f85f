package asl

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Error names that begin with "States." are reserved. These are the ones of AWS, for Retry and Catch.
const (
	ErrorAll           = "States.ALL"
	ErrorTaskFailed    = "States.TaskFailed"
	ErrorTimeout       = "States.Timeout"
	ErrorRuntime       = "States.Runtime"
	ErrorDataLimit     = "States.DataLimitExceeded"
	ErrorQuery         = "States.QueryEvaluationError"
	ErrorNoChoice      = "States.NoChoiceMatched"
	ErrorItemReader    = "States.ItemReaderFailed"
	ErrorResultWriter  = "States.ResultWriterFailed"
	ErrorToleratedFail = "States.ExceedToleratedFailureThreshold"
)

// reservedErrors are the reserved names that Retry and Catch may hold.
func reservedErrors() []string {
	return []string{
		ErrorAll, ErrorTaskFailed, ErrorTimeout, ErrorDataLimit, ErrorQuery, ErrorNoChoice, ErrorItemReader, ErrorResultWriter,
		ErrorToleratedFail, "States.Permissions", "States.BranchFailed", "States.HeartbeatTimeout", "States.Http.Socket",
	}
}

// errorEquals reads the names that a retrier or catcher matches. last says that no other follows it.
func errorEquals(r *reader, last bool) []string {
	var names []string
	v, _ := r.take("ErrorEquals")
	for _, item := range items(v) {
		if name, ok := item.(string); ok && name != "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 || len(names) != len(items(v)) {
		r.fault(r.at("ErrorEquals"), "must be a list of at least one error name")
	}
	for _, name := range names {
		switch {
		case name == ErrorRuntime:
			r.fault(r.at("ErrorEquals"), "%s can neither be retried nor caught", name)
		case strings.HasPrefix(name, "States.") && !slices.Contains(reservedErrors(), name):
			r.fault(r.at("ErrorEquals"), "%s is no error of Step Functions", name)
		}
	}
	if slices.Contains(names, ErrorAll) {
		if len(names) > 1 {
			r.fault(r.at("ErrorEquals"), "%s must stand alone", ErrorAll)
		}
		if !last {
			r.fault(r.at("ErrorEquals"), "%s must be in the last entry", ErrorAll)
		}
	}
	return names
}

func retriers(r *reader) []Retrier {
	var out []Retrier
	v, _ := r.object.Lookup("Retry")
	n := len(items(v))
	r.list("Retry", func(c *reader) {
		c.text("Comment", false)
		t := Retrier{
			ErrorEquals:     errorEquals(c, len(out) == n-1),
			IntervalSeconds: int64(c.plainNumber("IntervalSeconds", 1, bounds{1, MaxWaitSeconds, true})),
			MaxAttempts:     int64(c.plainNumber("MaxAttempts", 3, bounds{0, MaxWaitSeconds, true})),
			BackoffRate:     c.plainNumber("BackoffRate", 2, bounds{1, 1e6, false}),
			MaxDelaySeconds: int64(c.plainNumber("MaxDelaySeconds", 0, bounds{1, 31_622_399, true})),
			FullJitter:      c.oneOf("JitterStrategy", "NONE", "FULL") == "FULL",
		}
		if t.MaxDelaySeconds != 0 && t.MaxDelaySeconds <= t.IntervalSeconds {
			c.fault(c.at("MaxDelaySeconds"), "must be greater than IntervalSeconds")
		}
		out = append(out, t)
		c.finish("Retry entry")
	})
	return out
}

func catchers(r *reader) []Catcher {
	var out []Catcher
	v, _ := r.object.Lookup("Catch")
	n := len(items(v))
	r.list("Catch", func(c *reader) {
		c.text("Comment", false)
		out = append(out, Catcher{
			ErrorEquals: errorEquals(c, len(out) == n-1),
			Next:        c.text("Next", true),
			Assign:      assign(c),
			Output:      c.anyTemplate("Output"),
		})
		c.finish("Catch entry")
	})
	return out
}

// ParseTimestamp reads the time of a Wait: RFC 3339 with seconds, T and an offset.
func ParseTimestamp(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("read timestamp %q: %w", text, err)
	}
	return t, nil
}
