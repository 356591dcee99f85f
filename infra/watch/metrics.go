package watch

import (
	"fmt"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"firn/infra/pipeline"
	"firn/internal/contract"
)

func minutes(n float64) awscdk.Duration { return awscdk.Duration_Minutes(jsii.Number(n)) }

func visible(q awssqs.Queue) awscloudwatch.IMetric {
	return q.MetricApproximateNumberOfMessagesVisible(&awscloudwatch.MetricOptions{Period: minutes(5), Statistic: jsii.String("Maximum")})
}

func sum(namespace, name string, dimensions map[string]*string) awscloudwatch.IMetric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: jsii.String(namespace), MetricName: jsii.String(name), DimensionsMap: &dimensions, Period: minutes(5), Statistic: jsii.String("Sum"),
	})
}

// total adds metrics up; a missing one counts as nothing.
func total(label string, metrics []awscloudwatch.IMetric) awscloudwatch.IMetric {
	using, terms := map[string]awscloudwatch.IMetric{}, make([]string, len(metrics))
	for i, m := range metrics {
		id := fmt.Sprintf("%s_%d", strings.ReplaceAll(label, " ", "_"), i) // one graph may hold several totals
		using[id], terms[i] = m, "FILL("+id+", 0)"
	}
	return awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
		Expression: jsii.String(strings.Join(terms, " + ")), UsingMetrics: &using, Label: jsii.String(label), Period: minutes(5),
	})
}

// executions is a metric of the state machine.
func (w *Watch) executions(name string) awscloudwatch.IMetric {
	return sum("AWS/States", name, map[string]*string{"StateMachineArn": w.props.Pipeline.Machine.AttrArn()})
}

func (w *Watch) ended() awscloudwatch.IMetric {
	return total("runs failed", []awscloudwatch.IMetric{
		w.executions("ExecutionsFailed"), w.executions("ExecutionsTimedOut"), w.executions("ExecutionsAborted"),
	})
}

// outcomes counts jobs that ended in a way, over all jobs.
func outcomes(outcome string) awscloudwatch.IMetric {
	var metrics []awscloudwatch.IMetric
	for _, job := range contract.Jobs() {
		metrics = append(metrics, sum(contract.MetricNamespace, contract.MetricOutcome(outcome), map[string]*string{
			"function": jsii.String(contract.FunctionReport), "job": jsii.String(job),
		}))
	}
	return total(outcome, metrics)
}

func (w *Watch) unknown() awscloudwatch.IMetric { return outcomes("unknown") }

// unreported counts evaluate's log lines about runs that ended without report.
func (w *Watch) unreported() awscloudwatch.IMetric {
	filter := awslogs.NewMetricFilter(w.Construct, jsii.String("Unreported"), &awslogs.MetricFilterProps{
		LogGroup:        w.props.Pipeline.Functions[contract.FunctionEvaluate].Logs,
		FilterPattern:   awslogs.FilterPattern_StringValue(jsii.String("$.msg"), jsii.String("="), jsii.String(contract.LogUnreported)),
		MetricNamespace: jsii.String(contract.MetricNamespace), MetricName: jsii.String("runs_without_report"), MetricValue: jsii.String("1"),
	})
	return filter.Metric(&awscloudwatch.MetricOptions{Period: minutes(5), Statistic: jsii.String("Sum")})
}

// drift counts partitions whose counters in the ledger differed from a full scan.
func drift() awscloudwatch.IMetric {
	return sum(contract.MetricNamespace, contract.MetricLedgerDrift, map[string]*string{"function": jsii.String(contract.FunctionEvaluate)})
}

// worst is the largest of the hour that evaluate told of any table.
func worst(name string) awscloudwatch.IMetric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: jsii.String(contract.MetricNamespace), MetricName: jsii.String(name), Period: minutes(60), Statistic: jsii.String("Maximum"),
		DimensionsMap: &map[string]*string{"function": jsii.String(contract.FunctionEvaluate)},
	})
}

// piped counts executions of a pipe that failed, in part or as a whole, or took too long.
func piped(name *string) awscloudwatch.IMetric {
	var metrics []awscloudwatch.IMetric
	for _, metric := range []string{"ExecutionFailed", "ExecutionPartiallyFailed", "ExecutionTimeout"} {
		metrics = append(metrics, sum("AWS/EventBridge/Pipes", metric, map[string]*string{"PipeName": name}))
	}
	return total("kafka pipe failed", metrics)
}

// memory reads the line REPORT that Lambda writes at the end of each call: there is no other metric of used memory.
func (w *Watch) memory(name string, fn *pipeline.Function) awscloudwatch.IMetric {
	filter := awslogs.NewMetricFilter(w.Construct, jsii.String(pipeline.Title(name)+"Memory"), &awslogs.MetricFilterProps{
		LogGroup: fn.Logs,
		FilterPattern: awslogs.FilterPattern_Literal(jsii.String(`[report="REPORT", l1, id, l2, duration, u1, l3, l4, billed, u2, l5, l6, size, u3, ` +
			`l7, l8, l9, used, ...]`)),
		MetricNamespace: jsii.String(contract.MetricNamespace), MetricName: jsii.String(name + "_memory_used_megabytes"), MetricValue: jsii.String("$used"),
	})
	return filter.Metric(&awscloudwatch.MetricOptions{Period: minutes(5), Statistic: jsii.String("Maximum")})
}

// dollarsPerGBSecond is Lambda's price for arm64 in us-east-1.
const dollarsPerGBSecond = 0.0000133334

// cost estimates the functions' compute in USD from their durations and sizes.
func (w *Watch) cost() awscloudwatch.IMetric {
	using, terms := map[string]awscloudwatch.IMetric{}, []string{}
	for i, name := range contract.Functions() {
		id := fmt.Sprintf("d%d", i)
		using[id] = w.props.Pipeline.Functions[name].Lambda.MetricDuration(&awscloudwatch.MetricOptions{Period: minutes(60), Statistic: jsii.String("Sum")})
		gb := float64(w.props.Settings.Functions[name].MemoryMB) / 1024
		terms = append(terms, fmt.Sprintf("FILL(%s, 0) * %.12f", id, gb*dollarsPerGBSecond/1000))
	}
	return awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
		Expression: jsii.String(strings.Join(terms, " + ")), UsingMetrics: &using, Label: jsii.String("USD an hour"), Period: minutes(60),
	})
}

// columns are result columns of a job as metrics.
func columns(job string, names ...string) *[]awscloudwatch.IMetric {
	var metrics []awscloudwatch.IMetric
	for _, name := range names {
		metrics = append(metrics, sum(contract.MetricNamespace, name, map[string]*string{
			"function": jsii.String(contract.FunctionReport), "job": jsii.String(job),
		}))
	}
	return &metrics
}

func graph(title string, left *[]awscloudwatch.IMetric) awscloudwatch.IWidget {
	return awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{Title: jsii.String(title), Left: left, Width: jsii.Number(8)})
}

// dashboard answers three questions, a row each.
func (w *Watch) dashboard() {
	p := w.props.Pipeline
	failed := []awscloudwatch.IMetric{}
	for _, outcome := range []string{"conflict", "refused", "failed", "unknown"} {
		failed = append(failed, outcomes(outcome))
	}
	w.Dashboard = awscloudwatch.NewDashboard(w.Construct, jsii.String("Dashboard"), &awscloudwatch.DashboardProps{
		Widgets: &[]*[]awscloudwatch.IWidget{
			{
				graph("Are my tables healthy? Runs", &[]awscloudwatch.IMetric{w.executions("ExecutionsStarted"), w.executions("ExecutionsSucceeded"), w.ended()}),
				graph("How much is due? The worst table, 1 is exactly due", &[]awscloudwatch.IMetric{worst(contract.MetricDebt), worst(contract.MetricOverBudget)}),
				graph("Files rewritten", columns("rewrite_data_files", "rewritten_data_files_count", "added_data_files_count", "failed_data_files_count")),
				graph("Files deleted", columns("expire_snapshots", "deleted_data_files_count", "deleted_manifest_files_count", "deleted_manifest_lists_count")),
			},
			{
				graph("What did it cost? Compute (us-east-1's price)", &[]awscloudwatch.IMetric{w.cost()}),
				graph("Bytes rewritten", columns("rewrite_data_files", "rewritten_bytes_count")),
				graph("Longest calls", durations(p)),
			},
			{
				graph("What failed? Outcomes", &failed),
				graph("Messages that wait for you", &[]awscloudwatch.IMetric{visible(p.DeadLetters), visible(p.Refused), visible(p.Missed)}),
				graph("Errors of functions", errors(p)),
			},
		},
	})
}

func durations(p *pipeline.Pipeline) *[]awscloudwatch.IMetric {
	var metrics []awscloudwatch.IMetric
	for _, name := range contract.Functions() {
		metrics = append(metrics, p.Functions[name].Lambda.MetricDuration(&awscloudwatch.MetricOptions{
			Period: minutes(5), Statistic: jsii.String("Maximum"), Label: jsii.String(name),
		}))
	}
	return &metrics
}

func errors(p *pipeline.Pipeline) *[]awscloudwatch.IMetric {
	var metrics []awscloudwatch.IMetric
	for _, name := range contract.Functions() {
		metrics = append(metrics, p.Functions[name].Lambda.MetricErrors(&awscloudwatch.MetricOptions{
			Period: minutes(5), Statistic: jsii.String("Sum"), Label: jsii.String(name),
		}))
	}
	return &metrics
}
