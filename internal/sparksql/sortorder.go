package sparksql

import (
	"strconv"
	"strings"
)

// SortTerm is one term of a sort order: a column, or a function over columns ("zorder", "bucket", "days", ...).
type SortTerm struct {
	// Function is the function's name in lower case, empty for a bare column. Width is its number (bucket, truncate), -1 without one.
	Function string
	Width    int
	// Columns are the function's columns; exactly one for a bare column.
	Columns []Column
	// Descending and NullsLast have Spark's defaults filled in: ascending, nulls first when ascending and last when descending. Directed says
	// that direction or null order were written down.
	Descending, NullsLast, Directed bool
	// Pos is the byte offset in the text.
	Pos int
}

// ParseSortOrder reads a sort_order argument: terms with ASC or DESC and NULLS FIRST or NULLS LAST, separated by commas. Columns are resolved by
// the caller. A fault is a *SyntaxError.
func ParseSortOrder(text string) ([]SortTerm, error) {
	tokens, err := lex(text)
	if err != nil {
		return nil, err
	}
	p := &parser{text: text, tokens: tokens}
	var terms []SortTerm
	for {
		term, err := p.sortTerm()
		if err != nil {
			return nil, err
		}
		terms = append(terms, term)
		if !p.accept(",") {
			break
		}
	}
	if t := p.peek(); t.kind != tokenEnd {
		return nil, p.errorf(t, "%s does not belong in a sort order", t.describe())
	}
	return terms, nil
}

func (p *parser) sortTerm() (SortTerm, error) {
	first := p.peek()
	term := SortTerm{Width: -1, Pos: first.pos}
	if first.kind == tokenWord && p.peekAt(1).is("(") {
		term.Function = strings.ToLower(p.next().text)
		p.next()
		if err := p.sortArguments(&term); err != nil {
			return term, err
		}
	} else {
		parts, err := p.identifier()
		if err != nil {
			return term, err
		}
		term.Columns = []Column{{Parts: parts, Pos: first.pos}}
	}
	return term, p.sortDirection(&term)
}

// sortArguments reads columns and at most one number, in any order, up to the closing bracket.
func (p *parser) sortArguments(term *SortTerm) error {
	for {
		switch t := p.peek(); t.kind {
		case tokenNumber:
			n, err := strconv.Atoi(t.text)
			if err != nil || n < 0 || term.Width >= 0 {
				return p.errorf(t, "want a column instead of %s", t.describe())
			}
			p.next()
			term.Width = n
		default:
			parts, err := p.identifier()
			if err != nil {
				return err
			}
			term.Columns = append(term.Columns, Column{Parts: parts, Pos: t.pos})
		}
		if !p.accept(",") {
			return p.expect(")")
		}
	}
}

func (p *parser) sortDirection(term *SortTerm) error {
	switch {
	case p.accept("asc"):
		term.Directed = true
	case p.accept("desc"):
		term.Descending, term.Directed = true, true
	}
	term.NullsLast = term.Descending
	if !p.accept("nulls") {
		return nil
	}
	term.Directed = true
	switch {
	case p.accept("first"):
		term.NullsLast = false
	case p.accept("last"):
		term.NullsLast = true
	default:
		t := p.peek()
		return p.errorf(t, "want FIRST or LAST behind NULLS instead of %s", t.describe())
	}
	return nil
}
