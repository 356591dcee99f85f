package sparksql

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// tokenKind is what a token is.
type tokenKind int

const (
	tokenEnd tokenKind = iota
	tokenWord
	tokenQuotedWord // in back quotes: never a keyword
	tokenString
	tokenNumber
	tokenSymbol
)

// token is one lexical unit. Text is the content: quotes removed and escapes resolved.
type token struct {
	kind tokenKind
	text string
	pos  int
}

// is reports whether the token is that keyword or symbol.
func (t token) is(text string) bool {
	return t.kind == tokenWord && strings.EqualFold(t.text, text) || t.kind == tokenSymbol && t.text == text
}

// describe names the token for an error message.
func (t token) describe() string {
	switch t.kind {
	case tokenEnd:
		return "the end of the text"
	case tokenString:
		return "the string '" + t.text + "'"
	default:
		return strconv.Quote(t.text)
	}
}

// SyntaxError says what is wrong with a statement and where.
type SyntaxError struct {
	// Line and Column count from 1; a column is a character.
	Line, Column int
	// Problem says what is wrong, Hint what would help.
	Problem string
	Hint    string
}

// Error prints position, problem and hint.
func (e *SyntaxError) Error() string {
	text := fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Problem)
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// errorAt makes a SyntaxError for a byte offset of text.
func errorAt(text string, pos int, format string, args ...any) *SyntaxError {
	before := text[:min(pos, len(text))]
	lineStart := strings.LastIndexByte(before, '\n') + 1
	return &SyntaxError{
		Line:    strings.Count(before, "\n") + 1,
		Column:  utf8.RuneCountInString(before[lineStart:]) + 1,
		Problem: fmt.Sprintf(format, args...),
	}
}

// symbols are the multi-character symbols, longer ones first.
func symbols() [9]string { return [...]string{"<=>", "=>", "<=", ">=", "<>", "!=", "==", "||", "::"} }

// lex cuts a text into tokens; the last one is tokenEnd.
func lex(text string) ([]token, error) {
	var tokens []token
	for i := 0; ; {
		i = skipSpace(text, i)
		if i < 0 {
			return nil, errorAt(text, len(text), "a comment is not closed")
		}
		if i >= len(text) {
			return append(tokens, token{kind: tokenEnd, pos: len(text)}), nil
		}
		t, end, err := lexOne(text, i)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, t)
		i = end
	}
}

func lexOne(text string, i int) (token, int, error) {
	c := text[i]
	switch {
	case c == '\'' || c == '"':
		return lexString(text, i, i, false)
	case (c == 'r' || c == 'R') && i+1 < len(text) && (text[i+1] == '\'' || text[i+1] == '"'):
		return lexString(text, i, i+1, true)
	case c == '`':
		return lexQuotedWord(text, i)
	case isDigit(c) || c == '.' && i+1 < len(text) && isDigit(text[i+1]):
		end := numberEnd(text, i)
		return token{tokenNumber, text[i:end], i}, end, nil
	case isWordStart(c):
		end := i
		for end < len(text) && (isWordStart(text[end]) || isDigit(text[end])) {
			end++
		}
		return token{tokenWord, text[i:end], i}, end, nil
	}
	for _, s := range symbols() {
		if strings.HasPrefix(text[i:], s) {
			return token{tokenSymbol, s, i}, i + len(s), nil
		}
	}
	if strings.IndexByte("()[],;=<>.*-+/%!:", c) >= 0 {
		return token{tokenSymbol, text[i : i+1], i}, i + 1, nil
	}
	r, _ := utf8.DecodeRuneInString(text[i:])
	return token{}, 0, errorAt(text, i, "the character %q does not belong here", r)
}

// skipSpace returns the offset behind white space and comments, -1 for a bracketed comment without end. Bracketed comments nest, as in Spark.
func skipSpace(text string, i int) int {
	for i < len(text) {
		switch {
		case strings.IndexByte(" \t\r\n\f\v", text[i]) >= 0:
			i++
		case strings.HasPrefix(text[i:], "\u00a0"):
			i += len("\u00a0")
		case strings.HasPrefix(text[i:], "\ufeff"):
			i += len("\ufeff")
		case strings.HasPrefix(text[i:], "--"):
			end := strings.IndexByte(text[i:], '\n')
			if end < 0 {
				return len(text)
			}
			i += end + 1
		case strings.HasPrefix(text[i:], "/*"):
			if i = commentEnd(text, i); i < 0 {
				return -1
			}
		default:
			return i
		}
	}
	return i
}

func commentEnd(text string, i int) int {
	for depth := 0; i < len(text); {
		switch {
		case strings.HasPrefix(text[i:], "/*"):
			depth++
			i += 2
		case strings.HasPrefix(text[i:], "*/"):
			depth--
			i += 2
			if depth == 0 {
				return i
			}
		default:
			i++
		}
	}
	return -1
}

// lexString reads a string that opens at quote: a doubled quote stands for one; a backslash escapes, unless raw. In a raw string nothing does.
func lexString(text string, start, quote int, raw bool) (token, int, error) {
	q := text[quote]
	var b strings.Builder
	for i := quote + 1; i < len(text); {
		switch c := text[i]; {
		case c == q && !raw && i+1 < len(text) && text[i+1] == q:
			b.WriteByte(q)
			i += 2
		case c == q:
			return token{tokenString, b.String(), start}, i + 1, nil
		case c == '\\' && !raw && i+1 < len(text):
			i = unescape(&b, text, i+1)
		default:
			b.WriteByte(c)
			i++
		}
	}
	return token{}, 0, errorAt(text, start, "the string that opens here is not closed")
}

// unescape writes the character whose escape stands at i, behind the backslash, and returns the offset behind it.
func unescape(b *strings.Builder, text string, i int) int {
	c := text[i]
	for _, u := range [...]struct {
		letter byte
		digits int
	}{{'u', 4}, {'U', 8}} {
		if c == u.letter && i+u.digits < len(text) {
			if n, err := strconv.ParseUint(text[i+1:i+1+u.digits], 16, 32); err == nil {
				b.WriteRune(rune(n))
				return i + 1 + u.digits
			}
		}
	}
	if c >= '0' && c <= '3' && i+2 < len(text) {
		if n, err := strconv.ParseUint(text[i:i+3], 8, 8); err == nil {
			b.WriteRune(rune(n))
			return i + 3
		}
	}
	switch c {
	case '0':
		b.WriteByte(0)
	case 'b':
		b.WriteByte('\b')
	case 'n':
		b.WriteByte('\n')
	case 'r':
		b.WriteByte('\r')
	case 't':
		b.WriteByte('\t')
	case 'Z':
		b.WriteByte(26)
	case '%', '_':
		b.WriteByte('\\') // kept for LIKE
		b.WriteByte(c)
	default:
		b.WriteByte(c)
	}
	return i + 1
}

func lexQuotedWord(text string, start int) (token, int, error) {
	var b strings.Builder
	for i := start + 1; i < len(text); i++ {
		if text[i] != '`' {
			b.WriteByte(text[i])
			continue
		}
		if i+1 < len(text) && text[i+1] == '`' {
			b.WriteByte('`')
			i++
			continue
		}
		if b.Len() == 0 {
			return token{}, 0, errorAt(text, start, "the name in back quotes is empty")
		}
		return token{tokenQuotedWord, b.String(), start}, i + 1, nil
	}
	return token{}, 0, errorAt(text, start, "the back quote that opens here is not closed")
}

// numberEnd takes digits, a fraction, an exponent and a type suffix (L, S, Y, D, F, BD).
func numberEnd(text string, i int) int {
	digits := func() {
		for i < len(text) && isDigit(text[i]) {
			i++
		}
	}
	digits()
	if i < len(text) && text[i] == '.' {
		i++
		digits()
	}
	if i < len(text) && (text[i] == 'e' || text[i] == 'E') {
		j := i + 1
		if j < len(text) && (text[j] == '+' || text[j] == '-') {
			j++
		}
		if j < len(text) && isDigit(text[j]) {
			i = j
			digits()
		}
	}
	for i < len(text) && (isWordStart(text[i]) || isDigit(text[i])) {
		i++ // the suffix; a wrong one is found when the number is read
	}
	return i
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWordStart(c byte) bool {
	return c == '_' || c == '$' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
