// Package when reads and evaluates the conditions of a policy that go beyond single thresholds: expressions over figures of a table with and, or and
// parentheses, cron times, and maintenance windows. All times are UTC. It reads no clock.
//
//	small-files >= 50 and since-last-run >= 6h or cron('0 3 * * *')
package when

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxDepth and maxTerms bound an expression.
const (
	maxDepth = 20
	maxTerms = 100
)

// Figures are the names that an expression may use. Those that begin with table- are of the whole table; small-files, small-bytes, data-files, delete-files
// and deleted-ratio are of one partition, and the expression holds if it does for any; the others are of the table.
func Figures() []string {
	return []string{
		"commits", "small-files", "table-small-files", "small-bytes", "table-small-bytes", "data-files", "table-data-files", "delete-files",
		"table-delete-files", "deleted-rows", "deleted-ratio", "equality-delete-files", "position-delete-files", "manifests", "small-manifests",
		"snapshots", "metadata-files", "unclustered-bytes", "since-last-run", "since-last-commit",
	}
}

// Facts are what an expression is evaluated on.
type Facts struct {
	// Values are figures by name; ages are in milliseconds.
	Values map[string]float64
	// SinceMS and NowMS are the instants between which a cron time makes cron(...) true: the last run, and now.
	SinceMS, NowMS int64
}

// Expr is a parsed condition.
type Expr interface {
	// Holds evaluates it; why names the comparisons that decided.
	Holds(f Facts) (holds bool, why string)
}

type comparison struct {
	figure, op, text string
	value            float64
}

// Holds implements Expr.
func (c comparison) Holds(f Facts) (bool, string) {
	have := f.Values[c.figure]
	holds := false
	switch c.op {
	case ">=":
		holds = have >= c.value
	case ">":
		holds = have > c.value
	case "<=":
		holds = have <= c.value
	case "<":
		holds = have < c.value
	}
	shown := strconv.FormatFloat(have, 'g', 6, 64)
	if age(c.figure) {
		shown = (time.Duration(have) * time.Millisecond).Round(time.Second).String()
	}
	return holds, fmt.Sprintf("%s is %s (%s %s)", c.figure, shown, c.op, c.text)
}

func age(figure string) bool { return strings.HasPrefix(figure, "since-") }

type cronTime struct {
	cron Cron
	text string
}

// Holds implements Expr.
func (c cronTime) Holds(f Facts) (bool, string) {
	next, found := c.cron.Next(time.UnixMilli(f.SinceMS))
	holds := found && next.UnixMilli() <= f.NowMS
	return holds, fmt.Sprintf("cron('%s') passed since the last run: %t", c.text, holds)
}

type both struct{ left, right Expr }

// Holds implements Expr.
func (b both) Holds(f Facts) (bool, string) {
	left, why := b.left.Holds(f)
	if !left {
		return false, why
	}
	right, more := b.right.Holds(f)
	if !right {
		return false, more
	}
	return true, why + " and " + more
}

type either struct{ left, right Expr }

// Holds implements Expr.
func (e either) Holds(f Facts) (bool, string) {
	left, why := e.left.Holds(f)
	if left {
		return true, why
	}
	right, more := e.right.Holds(f)
	if right {
		return true, more
	}
	return false, why + ", " + more
}

// Parse reads a condition.
func Parse(text string) (Expr, error) {
	tokens, err := scan(text)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	e, err := p.or(0)
	if err == nil && len(p.tokens) > 0 {
		err = fmt.Errorf("unexpected %q", p.tokens[0])
	}
	return e, err
}

// scan cuts a text into words, operators, parentheses and quoted texts (which keep their opening quote).
func scan(text string) ([]string, error) {
	var tokens []string
	for i := 0; i < len(text); {
		switch c := text[i]; c {
		case ' ', '\t', '\n':
			i++
		case '(', ')':
			tokens = append(tokens, string(c))
			i++
		case '<', '>':
			n := 1
			if strings.HasPrefix(text[i+1:], "=") {
				n = 2
			}
			tokens = append(tokens, text[i:i+n])
			i += n
		case '\'':
			end := strings.IndexByte(text[i+1:], '\'')
			if end < 0 {
				return nil, errors.New("close the quote")
			}
			tokens = append(tokens, text[i:i+1+end])
			i += end + 2
		default:
			end := strings.IndexAny(text[i:], " \t\n()<>'=")
			if end < 0 {
				end = len(text) - i
			}
			if end == 0 {
				return nil, fmt.Errorf("unexpected %q", c)
			}
			tokens = append(tokens, text[i:i+end])
			i += end
		}
		if len(tokens) > 8*maxTerms {
			return nil, fmt.Errorf("more than %d terms", maxTerms)
		}
	}
	return tokens, nil
}

type parser struct{ tokens []string }

func (p *parser) take() string {
	if len(p.tokens) == 0 {
		return ""
	}
	t := p.tokens[0]
	p.tokens = p.tokens[1:]
	return t
}

func (p *parser) next(word string) bool {
	if len(p.tokens) > 0 && strings.EqualFold(p.tokens[0], word) {
		p.tokens = p.tokens[1:]
		return true
	}
	return false
}

func (p *parser) or(depth int) (Expr, error) {
	left, err := p.and(depth)
	for err == nil && p.next("or") {
		var right Expr
		right, err = p.and(depth)
		left = either{left, right}
	}
	return left, err
}

func (p *parser) and(depth int) (Expr, error) {
	left, err := p.term(depth)
	for err == nil && p.next("and") {
		var right Expr
		right, err = p.term(depth)
		left = both{left, right}
	}
	return left, err
}

func (p *parser) term(depth int) (Expr, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("more than %d levels of parentheses", maxDepth)
	}
	if p.next("(") {
		e, err := p.or(depth + 1)
		if err == nil && !p.next(")") {
			err = errors.New("close the parenthesis")
		}
		return e, err
	}
	if p.next("cron") {
		if !p.next("(") || len(p.tokens) < 2 || !strings.HasPrefix(p.tokens[0], "'") || p.tokens[1] != ")" {
			return nil, errors.New("want cron('minute hour day month weekday')")
		}
		text := p.take()[1:]
		p.take()
		cron, err := ParseCron(text)
		return cronTime{cron, text}, err
	}
	c := comparison{figure: strings.ToLower(p.take()), op: p.take(), text: p.take()}
	if !slices.Contains(Figures(), c.figure) {
		return nil, fmt.Errorf("%q is no figure; they are %s", c.figure, strings.Join(Figures(), ", "))
	}
	if !slices.Contains([]string{">=", ">", "<=", "<"}, c.op) {
		return nil, fmt.Errorf("%q after %s is none of >=, >, <=, <", c.op, c.figure)
	}
	var err error
	c.value, err = value(c.figure, c.text)
	return c, err
}

// value reads a number, a number of bytes with a unit, or an age with one.
func value(figure, text string) (float64, error) {
	if age(figure) {
		days, isDays := strings.CutSuffix(text, "d")
		if n, err := strconv.ParseInt(days, 10, 32); isDays && err == nil && n >= 0 {
			return float64(n) * float64(24*time.Hour/time.Millisecond), nil
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return 0, fmt.Errorf("%q is no age (36h, 7d)", text)
		}
		return float64(d.Milliseconds()), nil
	}
	number, factor := text, 1.0
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if cut, found := strings.CutSuffix(text, unit); found {
			number, factor = cut, float64(int64(1)<<(10*(i+1)))
		}
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f < 0 || f > 1e18 {
		return 0, fmt.Errorf("%q is no number", text)
	}
	return f * factor, nil
}
