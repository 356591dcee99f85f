package evaluate_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"firn/internal/event"
	"firn/internal/maintenance"
)

// Counts are what one look at a commit with one manifest asks for, as TestRequestsOfALook counts it.
type Counts struct{ ObjectReads, ItemReads, ItemWrites int64 }

// lookCounts: metadata file, manifest list, manifest; the lease's item and the head, read; the claim and the head, written. A decision that says something
// new is one write more.
func lookCounts() Counts { return Counts{ObjectReads: 3, ItemReads: 2, ItemWrites: 2} }

// idleCounts are those of a look at a table to which nobody has committed: the metadata file alone.
func idleCounts() Counts { return Counts{ObjectReads: 1, ItemReads: 2, ItemWrites: 2} }

// Prices in dollars, us-east-1, on demand: docs/cost.md names them.
const (
	getPrice        = 0.0004 / 1000
	itemReadPrice   = 0.125 / 1e6
	itemWritePrice  = 0.625 / 1e6
	messagePrice    = 0.4 / 1e6
	invocationPrice = 0.2 / 1e6
	gbSecondPrice   = 0.0000133334
	logPrice        = 0.5 / 1e9
)

// look is the model of one look: memory in GB, milliseconds billed, messages of SQS, invocations.
type modelledLook struct {
	counts                          Counts
	memoryGB, ms, messages, invoked float64
	// logged is the bytes of log lines: those that Lambda itself writes of an invocation. A look that finds nothing new writes none.
	logged float64
}

func (m modelledLook) dollars() float64 {
	c := m.counts
	return float64(c.ObjectReads)*getPrice + float64(c.ItemReads)*itemReadPrice + float64(c.ItemWrites)*2*itemWritePrice +
		m.messages*messagePrice + m.invoked*invocationPrice + m.memoryGB*m.ms/1000*gbSecondPrice +
		m.logged*logPrice
}

// perCommit: a look for each commit, a message that is sent, received and deleted, ten of them a batch, 100 ms of which are waiting for answers.
func perCommit() modelledLook {
	return modelledLook{counts: lookCounts(), memoryGB: 0.25, ms: 100, messages: 1.2, invoked: 0.1, logged: 0.1 * 300}
}

// TestCostModel keeps docs/cost.md in step with the counts, and within the promises.
func TestCostModel(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../docs/cost.md")
	if err != nil {
		t.Fatal(err)
	}
	commit := perCommit().dollars() * 1e6
	idle := perCommit()
	idle.counts = idleCounts()
	idle.counts.ItemReads++ // schedule's
	fleet := idle.dollars() * 1000 * 24 * 30
	// A table as the last search for orphans found it is searched again after 30 days, for what a run is counted with.
	searches := 1000 * 0.002 * (365.0 / 12) / 30
	for _, line := range []string{
		fmt.Sprintf("$%.2f a month for 1,000 tables", searches), fmt.Sprintf("**$%.2f** with the looks", fleet+searches),
		fmt.Sprintf("**$%.2f** per million commits", commit), fmt.Sprintf("**$%.2f** a month", fleet),
		fmt.Sprintf("%d object reads, %d item reads, %d item writes", lookCounts().ObjectReads, lookCounts().ItemReads, lookCounts().ItemWrites),
	} {
		if !strings.Contains(string(data), line) {
			t.Errorf("docs/cost.md does not say %q", line)
		}
	}
	if commit > 5 || fleet+searches > 5 {
		t.Errorf("$%.4f per million commits, $%.4f a month for an idle fleet: the promise is $5 for both", commit, fleet+searches)
	}
}

func oneNotice(tb testing.TB) events.SQSEvent {
	tb.Helper()
	body, err := event.Encode(event.Notice{Source: event.SourceCommitted, Table: maintenance.TableID{Namespace: "db", Name: "t"}})
	if err != nil {
		tb.Fatal(err)
	}
	return events.SQSEvent{Records: []events.SQSMessage{{MessageId: "1", Body: string(body)}}}
}
