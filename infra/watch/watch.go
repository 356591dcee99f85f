// Package watch is the construct of what an operator looks at: alarms, each with a section of docs/operations.md, and one dashboard.
package watch

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssnssubscriptions"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"firn/infra/pipeline"
	"firn/infra/settings"
	"firn/internal/contract"
)

// Props are what the construct can be told.
type Props struct {
	// Pipeline is watched; required.
	Pipeline *pipeline.Pipeline
	// Settings give Email, Topic and the sizes of functions; required.
	Settings settings.Settings
	// Runbook is where operators read: the address of docs/operations.md. Default: that path.
	Runbook string
}

// Watch is alarms and dashboard.
type Watch struct {
	// Construct is the scope of what the construct is made of.
	Construct constructs.Construct
	// Alarms are all alarms by ID.
	Alarms map[string]awscloudwatch.Alarm
	// Dashboard answers: are my tables healthy, what did it cost, what failed.
	Dashboard awscloudwatch.Dashboard

	props  *Props
	action awscloudwatch.IAlarmAction
}

// New makes the construct.
func New(scope constructs.Construct, id string, props *Props) *Watch {
	w := &Watch{Construct: constructs.NewConstruct(scope, jsii.String(id)), Alarms: map[string]awscloudwatch.Alarm{}, props: props}
	if props.Runbook == "" {
		props.Runbook = "docs/operations.md"
	}
	w.action = w.topic()
	for _, a := range w.alarms() {
		w.alarm(a)
	}
	w.dashboard()
	return w
}

// topic is where alarms go: the operator's own topic, one of ours for an e-mail address, or nowhere.
func (w *Watch) topic() awscloudwatch.IAlarmAction {
	switch s := w.props.Settings; {
	case s.Topic != "":
		return awscloudwatchactions.NewSnsAction(awssns.Topic_FromTopicArn(w.Construct, jsii.String("Alarms"), jsii.String(s.Topic)))
	case s.Email != "":
		topic := awssns.NewTopic(w.Construct, jsii.String("Alarms"), &awssns.TopicProps{EnforceSSL: jsii.Bool(true)})
		topic.AddSubscription(awssnssubscriptions.NewEmailSubscription(jsii.String(s.Email), nil))
		return awscloudwatchactions.NewSnsAction(topic)
	}
	return nil
}

// alarm is one alarm: it fires when a period's value is above the threshold.
type alarm struct {
	id string
	// what is said to people; section is the heading in docs/operations.md.
	what, section string
	metric        awscloudwatch.IMetric
	threshold     float64
	periods       float64
}

func (w *Watch) alarm(a alarm) {
	made := awscloudwatch.NewAlarm(w.Construct, jsii.String(a.id), &awscloudwatch.AlarmProps{
		AlarmDescription:   jsii.String("Firn: " + a.what + ". Runbook: " + w.props.Runbook + "#" + Anchor(a.section)),
		Metric:             a.metric,
		Threshold:          jsii.Number(a.threshold),
		EvaluationPeriods:  jsii.Number(max(a.periods, 1)),
		ComparisonOperator: awscloudwatch.ComparisonOperator_GREATER_THAN_THRESHOLD,
		TreatMissingData:   awscloudwatch.TreatMissingData_NOT_BREACHING,
	})
	if w.action != nil {
		made.AddAlarmAction(w.action)
	}
	w.Alarms[a.id] = made
}

// Anchor is the anchor of a heading: lower case, dashes for spaces, no punctuation.
func Anchor(heading string) string {
	var out []byte
	for _, c := range []byte(heading) {
		switch {
		case c >= 'A' && c <= 'Z':
			out = append(out, c-'A'+'a')
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
			out = append(out, c)
		case c == ' ':
			out = append(out, '-')
		}
	}
	return string(out)
}

func (w *Watch) alarms() []alarm {
	p := w.props.Pipeline
	all := []alarm{
		{id: "DeadLettersNotEmpty", what: "messages were tried in vain", section: "Dead letters", metric: visible(p.DeadLetters)},
		{id: "RefusedNotEmpty", what: "messages could not be understood", section: "Event refused", metric: visible(p.Refused)},
		{id: "MissedNotEmpty", what: "the clock's calls failed", section: "Clock missed", metric: visible(p.Missed)},
		{
			id: "QueueBehind", what: "commit events wait for more than an hour", section: "Queue behind", threshold: 3600, periods: 3,
			metric: p.Queue.MetricApproximateAgeOfOldestMessage(&awscloudwatch.MetricOptions{Period: minutes(5), Statistic: jsii.String("Maximum")}),
		},
		{id: "RunFailed", what: "a run failed, timed out or was stopped", section: "Run failed", metric: w.ended()},
		{id: "CommitUnknown", what: "nobody knows whether a commit landed", section: "Commit state unknown", metric: w.unknown()},
		{id: "LeaseStuck", what: "a run ended without report and kept its lease until it was found", section: "Lease stuck", metric: w.unreported()},
		{id: "LedgerDrift", what: "a full scan found another count than the ledger had", section: "Ledger drift", metric: drift()},
	}
	all = append(all,
		alarm{
			id: "DebtGrowing", what: "a table has been due three times over for six hours", section: "Debt growing", threshold: 3, periods: 6,
			metric: worst(contract.MetricDebt),
		},
		alarm{id: "BudgetReached", what: "a table has spent its budget of the month", section: "Budget reached", metric: worst(contract.MetricOverBudget)},
		alarm{id: "PermissionMissing", what: "evaluate may not read a table, or list a catalog", section: "Permission missing", metric: worst(contract.MetricDenied)})
	if p.Kafka != nil {
		all = append(all, alarm{
			id: "KafkaPipeFailed", what: "the pipe from Kafka cannot read its topic or hand messages over", section: "Kafka pipe failed", periods: 3,
			metric: piped(p.Kafka.Ref()),
		})
	}
	for _, name := range contract.Functions() {
		size, title := w.props.Settings.Functions[name], pipeline.Title(name)
		fn := p.Functions[name]
		all = append(all,
			alarm{
				id: title + "NearTimeout", what: name + " used over 90 % of its time", section: "Function near its timeout",
				threshold: 900 * float64(size.TimeoutSeconds),
				metric:    fn.Lambda.MetricDuration(&awscloudwatch.MetricOptions{Period: minutes(5), Statistic: jsii.String("Maximum")}),
			},
			alarm{
				id: title + "NearMemory", what: name + " used over 90 % of its memory", section: "Function near its memory",
				threshold: 0.9 * float64(size.MemoryMB), metric: w.memory(name, fn),
			},
			alarm{
				id: title + "Throttled", what: name + " was throttled", section: "Function throttled", periods: 3,
				metric: fn.Lambda.MetricThrottles(&awscloudwatch.MetricOptions{Period: minutes(5), Statistic: jsii.String("Sum")}),
			})
	}
	return all
}
