package where

import (
	"encoding/hex"
	"math/big"
	"strconv"
	"strings"
	"time"

	"firn/internal/sparksql"
)

// literal is a value in a column's terms. A column of whole units may not have the exact value: then value is the next lower one, and exact is
// false. A value outside the type's range has beyond -1 or +1.
type literal struct {
	value  Value
	exact  bool
	beyond int
}

// compare makes the comparison of a column with the literal.
func (l literal) compare(o op, c *Column) *node {
	if l.beyond != 0 {
		below := o == opLess || o == opLessEqual
		above := o == opGreater || o == opGreaterEqual
		if o == opNotEqual || below && l.beyond > 0 || above && l.beyond < 0 {
			return nullTest(c, true)
		}
		return never()
	}
	if !l.exact {
		switch o {
		case opEqual:
			return never()
		case opNotEqual:
			return nullTest(c, true)
		case opLess:
			o = opLessEqual
		case opGreaterEqual:
			o = opGreater
		}
	}
	if o == opNotEqual {
		return and(nullTest(c, true), leaf(o, c, l.value))
	}
	return leaf(o, c, l.value)
}

// literal converts a value of the condition to a column's type, as Spark's implicit casts do.
func (b *binder) literal(c *Column, v sparksql.Value) (literal, error) {
	var l literal
	var ok bool
	if v.Kind == sparksql.KindNow {
		v = b.at(v)
	}
	switch c.Type.Kind {
	case TypeBoolean:
		l, ok = booleanLiteral(v)
	case TypeInt, TypeLong:
		l, ok = numberLiteral(v, 0, true)
	case TypeDecimal:
		l, ok = numberLiteral(v, c.Type.Scale, false)
	case TypeFloat, TypeDouble:
		l, ok = floatLiteral(v)
	case TypeDate:
		l, ok = instantLiteral(v, 24*time.Hour)
	case TypeTimestamp:
		l, ok = instantLiteral(v, time.Microsecond)
	case TypeTimestampNS:
		l, ok = instantLiteral(v, time.Nanosecond)
	case TypeTime:
		l, ok = timeLiteral(v)
	case TypeUUID:
		l, ok = uuidLiteral(v)
	case TypeString:
		l, ok = literal{value: Text(v.Text), exact: true}, v.Kind == sparksql.KindString
	case TypeFixed, TypeBinary:
		l, ok = literal{value: Text(v.Text), exact: true}, v.Kind == sparksql.KindBinary || v.Kind == sparksql.KindString
	}
	if !ok {
		return l, b.errorf(v.Pos, "column %s of type %s cannot be compared with %s %s", c.Name(), c.Type.Kind, v.Kind, strconv.Quote(v.String()))
	}
	return l, nil
}

// at is the time that now() or current_date() stands for, less its age. A day less whole days is a day.
func (b *binder) at(v sparksql.Value) sparksql.Value {
	word, age, aged := strings.Cut(v.Text, "-")
	at, day := b.now, word == "today"
	if day {
		at = at.Truncate(24 * time.Hour)
	}
	if aged {
		ago, err := time.ParseDuration(age)
		if err != nil {
			return v // longer than a Duration: it compares with no column
		}
		at, day = at.Add(-ago), day && ago%(24*time.Hour) == 0
	}
	if day {
		return sparksql.Value{Kind: sparksql.KindDate, Text: at.Format(time.DateOnly), Pos: v.Pos}
	}
	return sparksql.Value{Kind: sparksql.KindTimestamp, Text: at.Format("2006-01-02 15:04:05.999999"), Pos: v.Pos}
}

func booleanLiteral(v sparksql.Value) (literal, bool) {
	n := int64(0)
	if strings.EqualFold(v.Text, "true") {
		n = 1
	} else if !strings.EqualFold(v.Text, "false") {
		return literal{}, false
	}
	return literal{value: Whole(n), exact: true}, v.Kind == sparksql.KindBoolean || v.Kind == sparksql.KindString
}

func isNumber(v sparksql.Value) bool {
	return v.Kind == sparksql.KindInteger || v.Kind == sparksql.KindNumber || v.Kind == sparksql.KindString
}

// numberLiteral scales a number and rounds it down. With narrow it must fit 64 bits.
func numberLiteral(v sparksql.Value, scale int, narrow bool) (literal, bool) {
	text := strings.TrimSpace(v.Text)
	if !isNumber(v) || len(text) > 400 || strings.Trim(text, "+-.0123456789eE") != "" {
		return literal{}, false
	}
	if _, exponent, found := strings.Cut(strings.ToLower(text), "e"); found && len(exponent) > 4 {
		return literal{}, false
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return literal{}, false
	}
	r.Mul(r, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)))
	floor, exact := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	l := literal{value: Decimal(floor), exact: exact.Sign() == 0}
	if narrow {
		l = l.narrow(floor)
	}
	return l, true
}

// narrow turns a big whole number into 64 bits.
func (l literal) narrow(n *big.Int) literal {
	if !n.IsInt64() {
		return literal{beyond: n.Sign(), exact: true}
	}
	l.value = Whole(n.Int64())
	return l
}

func floatLiteral(v sparksql.Value) (literal, bool) {
	if !isNumber(v) {
		return literal{}, false
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(v.Text), 64)
	if f != f {
		return literal{}, false // no column compares with NaN here
	}
	return literal{value: Float(f), exact: true}, err == nil
}

// instantLiteral counts units since the epoch, rounded down.
func instantLiteral(v sparksql.Value, unit time.Duration) (literal, bool) {
	if v.Kind != sparksql.KindString && v.Kind != sparksql.KindDate && v.Kind != sparksql.KindTimestamp {
		return literal{}, false
	}
	var at time.Time
	var err error
	// A date column compares with a string's date part; with a timestamp by its instant.
	if v.Kind == sparksql.KindDate || v.Kind == sparksql.KindString && unit == 24*time.Hour {
		at, err = sparksql.ParseDate(v.Text)
	} else {
		at, err = sparksql.ParseTimestamp(v.Text)
	}
	if err != nil {
		return literal{}, false
	}
	nanos := new(big.Int).Mul(big.NewInt(at.Unix()), big.NewInt(int64(time.Second)))
	nanos.Add(nanos, big.NewInt(int64(at.Nanosecond())))
	floor, rest := nanos.DivMod(nanos, big.NewInt(int64(unit)), new(big.Int))
	return literal{exact: rest.Sign() == 0}.narrow(floor), true
}

func timeLiteral(v sparksql.Value) (literal, bool) {
	at, err := sparksql.ParseTimestamp("1970-01-01 " + strings.TrimSpace(v.Text))
	if err != nil || v.Kind != sparksql.KindString {
		return literal{}, false
	}
	return literal{value: Whole(at.UnixMicro()), exact: at.Nanosecond()%1000 == 0}, true
}

func uuidLiteral(v sparksql.Value) (literal, bool) {
	data, err := hex.DecodeString(strings.ReplaceAll(v.Text, "-", ""))
	return literal{value: Text(string(data)), exact: true}, err == nil && len(data) == 16 && v.Kind == sparksql.KindString
}
