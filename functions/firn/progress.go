package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"firn/internal/edge"
	"firn/internal/maintenance"
	"firn/internal/workflow"
)

// patience is how long work may take before anything is said about it, and how often plain lines are said after that.
const patience = time.Second

// progress tells on stderr what a run is doing: bars on a terminal, plain lines elsewhere, both only for work that takes longer than a second, and
// every state with --verbose. NO_COLOR and a dumb terminal ask for plain lines.
type progress struct {
	out     io.Writer
	verbose bool
	now     func() time.Time
	// bars is nil for plain lines.
	bars *mpb.Progress

	// root is the run's own execution, beside those of the items.
	root    string
	started time.Time
	told    time.Time
	bar     *mpb.Bar
}

// maxCauses bounds how many different causes of failures are kept.
const maxCauses = 3

// noteCause keeps why calls of functions failed: a lost group's result cannot say it.
func (a *app) noteCause(e workflow.Event) {
	if e.Type != "TaskFailed" || e.Cause == "" {
		return
	}
	var reported struct {
		Message string `json:"errorMessage"`
	}
	text := e.Cause
	if err := json.Unmarshal([]byte(e.Cause), &reported); err == nil && reported.Message != "" {
		text = reported.Message
	}
	if len(a.causes) < maxCauses && !slices.Contains(a.causes, text) {
		a.causes = append(a.causes, text)
	}
}

// withCauses adds to the reasons of what failed why calls of functions failed, unless they say so already.
func (a *app) withCauses(report maintenance.ReportOutput) maintenance.ReportOutput {
	if len(a.causes) == 0 || outcomeStatus(report.Outcome) == exitDone {
		return report
	}
	causes := strings.Join(a.causes, "; ")
	add := func(reason string) string {
		if strings.Contains(reason, a.causes[0]) {
			return reason
		}
		return strings.TrimPrefix(reason+": "+causes, ": ")
	}
	report.Jobs = slices.Clone(report.Jobs)
	for i, job := range report.Jobs {
		if outcomeStatus(job.Outcome) != exitDone {
			report.Jobs[i].Reason = add(job.Reason)
		}
	}
	if report.Reason != "" || len(report.Jobs) == 0 {
		report.Reason = add(report.Reason)
	}
	return report
}

// progress returns an observer of one run.
func (a *app) progress() func(workflow.Event) {
	p := &progress{out: a.stderr, verbose: a.globals.Verbose, now: time.Now}
	env := edge.Environment(a.environ)
	_, noColor := env["NO_COLOR"]
	if stderr, isFile := a.stderr.(*os.File); isFile && isatty.IsTerminal(stderr.Fd()) && !noColor && env["TERM"] != "dumb" && !p.verbose {
		p.bars = mpb.New(mpb.WithOutput(a.stderr), mpb.WithWidth(40))
	}
	return func(e workflow.Event) {
		a.noteCause(e)
		p.observe(e)
	}
}

func (p *progress) observe(e workflow.Event) {
	if p.root == "" {
		p.root, p.started = e.ExecutionARN, p.now()
	}
	switch {
	case e.Progress != nil && e.Type == "MapRunProgress":
		p.step(e)
	case e.Progress != nil:
		p.end()
	case e.ExecutionARN == p.root && e.Type == "ExecutionSucceeded", e.ExecutionARN == p.root && e.Error != "" && e.State == "":
		p.close()
	case e.Type == "TaskStateEntered" && p.verbose:
		fmt.Fprintln(p.out, e.State)
	case e.Type == "TaskStateEntered" && e.ExecutionARN == p.root:
		p.line("%s", e.State)
	case e.Error != "" && p.verbose:
		fmt.Fprintf(p.out, "%s: %s: %s\n", e.State, e.Error, e.Cause)
	}
}

// step shows how far a map is.
func (p *progress) step(e workflow.Event) {
	done, total := e.Progress.Succeeded+e.Progress.Failed, e.Progress.Total
	if p.bars == nil {
		p.line("%s: %d of %d done, %d failed", e.State, done, total, e.Progress.Failed)
		return
	}
	if p.bar == nil && p.now().Sub(p.started) >= patience && done < total {
		p.bar = p.bars.AddBar(int64(total), mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name(e.State+" "), decor.CountersNoUnit("%d/%d")), mpb.AppendDecorators(decor.Elapsed(decor.ET_STYLE_GO)))
	}
	if p.bar != nil {
		p.bar.SetCurrent(int64(done))
	}
}

// end ends a map's bar.
func (p *progress) end() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.bar = nil
	}
}

// close ends all bars, so that what is printed next stands below them.
func (p *progress) close() {
	p.end()
	if p.bars != nil {
		p.bars.Shutdown()
	}
}

// line says a line when the run has taken long enough, and not more often than that.
func (p *progress) line(format string, args ...any) {
	now := p.now()
	if p.bars != nil || p.verbose || now.Sub(p.started) < patience || now.Sub(p.told) < patience {
		return
	}
	p.told = now
	fmt.Fprintf(p.out, format+"\n", args...)
}
