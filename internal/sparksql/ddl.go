package sparksql

import (
	"strconv"
	"strings"
)

// SetWriteOrder is ALTER TABLE ... WRITE [DISTRIBUTED BY PARTITION] [LOCALLY] ORDERED BY ..., or WRITE UNORDERED.
type SetWriteOrder struct {
	source
	Table []string
	// Order is the text of the sort order, as ParseSortOrder reads it; "" makes the table unsorted.
	Order string
	// Distribution is the value for write.distribution-mode that goes with the statement, "" when it leaves the mode alone.
	Distribution string
}

// SetIdentifierFields is ALTER TABLE ... SET or DROP IDENTIFIER FIELDS a, b.
type SetIdentifierFields struct {
	source
	Table  []string
	Fields []Column
	Drop   bool
}

// SetRef is ALTER TABLE ... CREATE [OR REPLACE] or REPLACE BRANCH or TAG.
type SetRef struct {
	source
	Table []string
	Name  string
	Tag   bool
	// Create without Replace makes a new ref, Replace without Create moves one, both do what is needed.
	Create, Replace, IfNotExists bool
	// SnapshotID is where the ref goes, nil for the current snapshot.
	SnapshotID *int64
	// The retention, nil where the statement does not give it. Ages are in milliseconds.
	MaxRefAgeMS, MaxSnapshotAgeMS *int64
	MinSnapshotsToKeep            *int64
}

// DropRef is ALTER TABLE ... DROP BRANCH or TAG.
type DropRef struct {
	source
	Table    []string
	Name     string
	Tag      bool
	IfExists bool
}

// alterWrite reads what follows WRITE.
func (p *parser) alterWrite(start token, table []string) (Statement, error) {
	s := &SetWriteOrder{Table: table}
	distributed, ordered := false, false
	for {
		t := p.peek()
		switch {
		case t.is("distributed") && !distributed:
			p.next()
			if err := p.expectAll("by", "partition"); err != nil {
				return nil, err
			}
			distributed, s.Distribution = true, "hash"
		case t.is("unordered") && !ordered:
			p.next()
			ordered = true
			if !distributed {
				s.Distribution = "none"
			}
		case (t.is("ordered") || t.is("locally")) && !ordered:
			ordered = true
			local := p.accept("locally")
			if err := p.expectAll("ordered", "by"); err != nil {
				return nil, err
			}
			var err error
			if s.Order, err = p.sortTerms(); err != nil {
				return nil, err
			}
			if !local && !distributed {
				s.Distribution = "range"
			}
		case distributed || ordered:
			s.source = p.sourceSince(start)
			return s, nil
		default:
			return nil, p.errorf(t, "want ORDERED BY, UNORDERED or DISTRIBUTED BY PARTITION behind WRITE instead of %s", t.describe())
		}
	}
}

// sortTerms checks terms that are separated by commas, and returns their text; they may stand in brackets.
func (p *parser) sortTerms() (string, error) {
	open := p.accept("(")
	from := p.peek().pos
	for {
		if _, err := p.sortTerm(); err != nil {
			return "", err
		}
		end := p.peek().pos
		if p.accept(",") {
			continue
		}
		if open {
			return strings.TrimSpace(p.text[from:end]), p.expect(")")
		}
		return strings.TrimSpace(p.text[from:end]), nil
	}
}

// alterIdentifiers reads FIELDS a, b.
func (p *parser) alterIdentifiers(start token, table []string, drop bool) (Statement, error) {
	if err := p.expect("fields"); err != nil {
		return nil, err
	}
	s := &SetIdentifierFields{Table: table, Drop: drop}
	for {
		at := p.peek().pos
		parts, err := p.identifier()
		if err != nil {
			return nil, err
		}
		s.Fields = append(s.Fields, Column{Parts: parts, Pos: at})
		if !p.accept(",") {
			s.source = p.sourceSince(start)
			return s, nil
		}
	}
}

// alterSetRef reads CREATE ... or REPLACE ... up to the end of the statement; its first word is not read yet.
func (p *parser) alterSetRef(start token, table []string) (Statement, error) {
	s := &SetRef{Table: table}
	if s.Create = p.accept("create"); s.Create && p.accept("or") {
		if err := p.expect("replace"); err != nil {
			return nil, err
		}
		s.Replace = true
	}
	if !s.Create {
		p.next()
		s.Replace = true
	}
	t := p.next()
	if !t.is("branch") && !t.is("tag") {
		return nil, p.hint(t, elsewhere, "want BRANCH or TAG instead of %s", t.describe())
	}
	s.Tag = t.is("tag")
	if s.Create && !s.Replace && p.accept("if") {
		if err := p.expectAll("not", "exists"); err != nil {
			return nil, err
		}
		s.IfNotExists = true
	}
	var err error
	if s.Name, err = p.refName(); err != nil {
		return nil, err
	}
	if err := p.refOptions(s); err != nil {
		return nil, err
	}
	s.source = p.sourceSince(start)
	return s, nil
}

// refName reads a branch's or tag's name.
func (p *parser) refName() (string, error) {
	t := p.next()
	if t.kind != tokenWord && t.kind != tokenQuotedWord {
		return "", p.errorf(t, "want a name instead of %s", t.describe())
	}
	if p.peek().is("-") {
		return "", p.hint(p.peek(), "a name with a hyphen goes in back quotes", "%s does not belong in a name", p.peek().describe())
	}
	return t.text, nil
}

// refOptions reads AS OF VERSION n, RETAIN n DAYS, WITH SNAPSHOT RETENTION n SNAPSHOTS n DAYS.
func (p *parser) refOptions(s *SetRef) error {
	if p.accept("as") {
		if err := p.expectAll("of", "version"); err != nil {
			return err
		}
		id, err := p.whole()
		if err != nil {
			return err
		}
		s.SnapshotID = &id
	}
	if p.accept("retain") {
		n, err := p.whole()
		if err != nil {
			return err
		}
		if s.MaxRefAgeMS, err = p.milliseconds(n); err != nil {
			return err
		}
	}
	t := p.peek()
	if !p.accept("with") {
		return nil
	}
	if s.Tag {
		return p.errorf(t, "a tag has no snapshots of its own to retain: RETAIN sets how long it lives")
	}
	if err := p.expectAll("snapshot", "retention"); err != nil {
		return err
	}
	return p.snapshotRetention(s)
}

// snapshotRetention reads n SNAPSHOTS, n DAYS, or both in this order.
func (p *parser) snapshotRetention(s *SetRef) error {
	n, err := p.whole()
	if err != nil {
		return err
	}
	if p.accept("snapshots") {
		kept := n
		s.MinSnapshotsToKeep = &kept
		if p.peek().kind != tokenNumber {
			return nil
		}
		if n, err = p.whole(); err != nil {
			return err
		}
	}
	s.MaxSnapshotAgeMS, err = p.milliseconds(n)
	return err
}

// whole reads a whole number above 0.
func (p *parser) whole() (int64, error) {
	t := p.next()
	n, err := strconv.ParseInt(strings.TrimSuffix(strings.ToUpper(t.text), "L"), 10, 64)
	if t.kind != tokenNumber || err != nil || n <= 0 {
		return 0, p.errorf(t, "want a whole number above 0 instead of %s", t.describe())
	}
	return n, nil
}

// milliseconds reads a unit of time and returns n of it.
func (p *parser) milliseconds(n int64) (*int64, error) {
	t := p.next()
	minutes := map[string]int64{"MINUTE": 1, "HOUR": 60, "DAY": 24 * 60}[strings.TrimSuffix(strings.ToUpper(t.text), "S")]
	if t.kind != tokenWord || minutes == 0 {
		return nil, p.errorf(t, "want DAYS, HOURS or MINUTES instead of %s", t.describe())
	}
	const most = 1 << 40 // minutes, two million years
	if n > most {
		return nil, p.errorf(t, "%d %s is too long", n, t.text)
	}
	ms := n * minutes * 60_000
	return &ms, nil
}

// alterDrop reads what follows DROP.
func (p *parser) alterDrop(start token, table []string) (Statement, error) {
	t := p.next()
	switch {
	case t.is("identifier"):
		return p.alterIdentifiers(start, table, true)
	case t.is("branch") || t.is("tag"):
		s := &DropRef{Table: table, Tag: t.is("tag")}
		if p.accept("if") {
			if err := p.expect("exists"); err != nil {
				return nil, err
			}
			s.IfExists = true
		}
		var err error
		if s.Name, err = p.refName(); err != nil {
			return nil, err
		}
		s.source = p.sourceSince(start)
		return s, nil
	}
	return nil, p.hint(t, elsewhere, "ALTER TABLE ... DROP %s is not understood here", strings.ToUpper(t.text))
}
