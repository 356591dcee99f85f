package sparksql

import "math/big"

// constant compares two whole numbers or two strings: scripts put 1 = 1 where they have no condition. Other pairs are not decided here.
func constant(op Op, left, right Value) (Value, bool) {
	order := 0
	switch {
	case left.Kind == KindInteger && right.Kind == KindInteger:
		a, okA := new(big.Int).SetString(left.Text, 10)
		b, okB := new(big.Int).SetString(right.Text, 10)
		if !okA || !okB {
			return Value{}, false
		}
		order = a.Cmp(b)
	case left.Kind == KindString && right.Kind == KindString:
		if left.Text != right.Text {
			order = 1
		}
		if op != OpEqual && op != OpNotEqual {
			return Value{}, false // collations are Spark's business
		}
	default:
		return Value{}, false
	}
	holds, known := map[Op]bool{
		OpEqual: order == 0, OpNotEqual: order != 0, OpLess: order < 0, OpLessEqual: order <= 0, OpGreater: order > 0, OpGreaterEqual: order >= 0,
	}[op]
	text := "false"
	if holds {
		text = "true"
	}
	return Value{Kind: KindBoolean, Text: text, Pos: left.Pos}, known
}
