package sparksql

import (
	"strconv"
	"strings"
)

// nowValue reads now(), current_timestamp[()] or current_date[()], with "- INTERVAL 7 DAYS" behind it or not, current_date() - 7, and
// date_sub(current_date(), 7).
func (p *parser) nowValue() (Value, error) {
	t := p.next()
	if t.is("date_sub") {
		return p.dateSub(t)
	}
	if p.accept("(") {
		if err := p.expect(")"); err != nil {
			return Value{}, err
		}
	}
	v := Value{Kind: KindNow, Text: "now", Pos: t.pos}
	if t.is("current_date") {
		v.Text = "today"
	}
	if !p.accept("-") {
		return v, nil
	}
	if v.Text == "today" && p.peek().kind == tokenNumber {
		return p.daysBefore(v)
	}
	if err := p.expect("interval"); err != nil {
		return Value{}, err
	}
	age, err := p.interval()
	v.Text += "-" + age
	return v, err
}

// dateSub reads (date, days) behind date_sub, a function that cuts the time off.
func (p *parser) dateSub(start token) (Value, error) {
	if err := p.expect("("); err != nil {
		return Value{}, err
	}
	at := p.peek()
	v, err := p.value()
	if err != nil {
		return Value{}, err
	}
	if v.Kind != KindNow || strings.Contains(v.Text, "-") {
		return Value{}, p.errorf(at, "date_sub is understood for the current date only")
	}
	v.Text, v.Pos = "today", start.pos
	if err := p.expect(","); err != nil {
		return Value{}, err
	}
	if v, err = p.daysBefore(v); err != nil {
		return Value{}, err
	}
	return v, p.expect(")")
}

// daysBefore reads a number of days.
func (p *parser) daysBefore(v Value) (Value, error) {
	n, err := p.units(p.next(), "days")
	v.Text += "-" + strconv.FormatInt(n*24, 10) + "h"
	return v, err
}

func (p *parser) units(t token, what string) (int64, error) {
	n, err := strconv.ParseInt(t.text, 10, 32)
	if t.kind != tokenNumber && t.kind != tokenString || err != nil || n < 0 {
		return 0, p.errorf(t, "%s is no number of %s", t.describe(), what)
	}
	return n, nil
}

// interval reads 7 DAYS, '7' DAYS or '7 days', and returns it as an age.
func (p *parser) interval() (string, error) {
	t := p.next()
	count, unit := t, token{kind: tokenWord, pos: t.pos}
	if words := strings.Fields(t.text); t.kind == tokenString && len(words) == 2 {
		count.text, unit.text = words[0], words[1]
	} else {
		unit = p.next()
	}
	n, err := p.units(count, "units")
	if err != nil {
		return "", err
	}
	minutes := map[string]int64{"MINUTE": 1, "HOUR": 60, "DAY": 24 * 60, "WEEK": 7 * 24 * 60}[strings.TrimSuffix(strings.ToUpper(unit.text), "S")]
	switch {
	case unit.kind != tokenWord || minutes == 0:
		return "", p.errorf(unit, "%s is none of MINUTES, HOURS, DAYS, WEEKS", unit.describe())
	case minutes == 1:
		return strconv.FormatInt(n, 10) + "m", nil
	}
	return strconv.FormatInt(n*minutes/60, 10) + "h", nil
}
