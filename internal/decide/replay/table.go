package replay

import (
	"cmp"
	"slices"
	"strconv"

	"firn/internal/decide"
	"firn/internal/maintenance"
	"firn/internal/policy"
)

// smallShare is the share of the target size under which the ledger counts a data file as small.
const smallShare = 0.75

// file is a data file of the virtual table. sequence is the number of the change that it carries the data of.
type file struct {
	File

	sequence int
	// into are the outputs that it was rewritten to, nil while it is live.
	into []*file
	// made says that it is an output.
	made bool
	// vectors and scoped are the rows of the vectors and file-scoped deletes that apply, by key.
	vectors, scoped map[string]int64
}

// partition holds live files, in the order in which they came.
type partition struct {
	name  string
	files []*file
	// positions and equalities are the deletes that apply to the whole partition, oldest first.
	positions, equalities []deletion
	lastWriteMS           int64
}

type deletion struct {
	key      string
	sequence int
	rows     int64
}

// table is one history of a table's files. Where maintenance differs from what really was, alias leads from a file that really was to where its rows are.
type table struct {
	history History
	policy  policy.Policy
	target  int64

	partitions map[string]*partition
	order      []*partition
	aliases    map[string]*file
	// covers are the files that a rewritten file really replaced, while that rewrite is left out.
	covers map[string][]File
	// home is the partition of a delete, by its key.
	home     map[string]*partition
	sequence int

	ledger
}

// ledger is what evaluate and report keep between looks.
type ledger struct {
	jobs                      map[maintenance.Job]decide.JobFacts
	firstSeenMS, lastCommitMS int64
	commits                   int64
	snapshots                 []int64
	manifests, smallManifests int64
	// reallySmall are the small manifests of the snapshot that really was.
	reallySmall   int64
	metadataFiles int64
	runs          []int64
	month         string
	spent         int64
}

func newTable(h History, p policy.Policy) *table {
	t := &table{
		history: h, policy: p, partitions: map[string]*partition{}, aliases: map[string]*file{},
		covers: map[string][]File{}, home: map[string]*partition{},
		ledger: ledger{jobs: map[maintenance.Job]decide.JobFacts{}, firstSeenMS: h.StartMS},
	}
	if o, err := planner(h, p, decide.JobDue{}); err == nil { // Play has asked before
		t.target = o.TargetFileSizeBytes
	}
	t.apply(h.Start, false)
	t.manifests, t.smallManifests, t.commits, t.lastCommitMS = h.Start.Manifests, h.Start.SmallManifests, 1, h.StartMS
	return t
}

func (t *table) partition(spec int, name string) *partition {
	key := partitionKey(spec, name)
	p := t.partitions[key]
	if p == nil {
		p = &partition{name: name}
		t.partitions[key], t.order = p, append(t.order, p)
	}
	return p
}

func partitionKey(spec int, name string) string { return strconv.Itoa(spec) + "/" + name }

// apply does what a snapshot did. byWriter says that it counts as a commit of somebody else.
func (t *table) apply(c Change, byWriter bool) {
	t.sequence++
	for _, d := range c.RemovedDeletes {
		t.removeDelete(d)
	}
	for _, f := range c.Removed {
		t.remove(f)
	}
	for _, f := range c.Added {
		p := t.partition(f.SpecID, f.Partition)
		p.files, p.lastWriteMS = append(p.files, &file{File: f, sequence: t.sequence}), c.AtMS
		t.aliases[f.Path] = p.files[len(p.files)-1]
	}
	for _, d := range c.AddedDeletes {
		t.addDelete(d, c.AtMS)
	}
	t.snapshots = append(t.snapshots, c.AtMS)
	t.metadataFiles++
	if byWriter {
		t.commits++
		t.lastCommitMS = c.AtMS
		t.manifests++
		if len(c.AddedDeletes) > 0 && len(c.Added) > 0 {
			t.manifests++
		}
		if more := c.SmallManifests - t.reallySmall; more > 0 {
			t.smallManifests += more
		} else {
			t.smallManifests++ // the writer merged manifests; ours may not be as many
		}
	}
	t.reallySmall = c.SmallManifests
	for _, p := range t.order {
		p.files = slices.DeleteFunc(p.files, func(f *file) bool { return f.Path == "" })
	}
}

// remove takes a file's rows out of wherever they are. A writer that replaced a file which a rewrite of ours had merged would have replaced the merged one:
// it shrinks.
func (t *table) remove(f File) {
	if covered := t.covers[f.Path]; len(covered) > 0 {
		delete(t.covers, f.Path)
		for _, one := range covered {
			t.remove(one)
		}
		return
	}
	held := t.aliases[f.Path]
	if held == nil {
		return
	}
	delete(t.aliases, f.Path)
	if held.into == nil {
		held.Path = "" // gone as a whole
		return
	}
	left := f.Rows
	lives := held.lives(nil)
	for _, one := range t.partition(held.SpecID, held.Partition).files {
		if one.made && one.Path != "" && !slices.Contains(lives, one) {
			lives = append(lives, one) // outputs were merged with others, of which too much was taken
		}
	}
	for _, one := range lives {
		taken := min(left, one.Rows)
		if left -= taken; f.Rows > 0 {
			one.SizeBytes = max(1, one.SizeBytes-f.SizeBytes*taken/f.Rows)
		}
		if one.Rows -= taken; one.Rows == 0 {
			one.Path = ""
		}
	}
}

// lives lists the live files that a file's rows are in now, or their siblings: which rows went to which output nobody asks here.
func (f *file) lives(found []*file) []*file {
	if f.into == nil {
		if f.Path != "" {
			found = append(found, f)
		}
		return found
	}
	for _, one := range f.into {
		found = one.lives(found)
	}
	return found
}

// alias leaves a rewrite out: its outputs stand for the files that it replaced, in their order.
func (t *table) alias(c Change) {
	pools := map[string][]File{}
	for _, f := range c.Removed {
		key := partitionKey(f.SpecID, f.Partition)
		pools[key] = append(pools[key], f)
	}
	for i, f := range c.Added {
		key := partitionKey(f.SpecID, f.Partition)
		more := slices.ContainsFunc(c.Added[i+1:], func(o File) bool { return partitionKey(o.SpecID, o.Partition) == key })
		for size := int64(0); len(pools[key]) > 0 && (!more || size < f.SizeBytes); {
			size += pools[key][0].SizeBytes
			t.covers[f.Path] = append(t.covers[f.Path], pools[key][0])
			pools[key] = pools[key][1:]
		}
	}
}

func (t *table) addDelete(d Delete, atMS int64) {
	p := t.partition(d.SpecID, d.Partition)
	p.lastWriteMS = atMS
	t.home[d.Key] = p
	if d.Target != "" {
		f := t.aliases[d.Target]
		if covered := t.covers[d.Target]; f == nil && len(covered) > 0 {
			f = t.aliases[covered[0].Path]
		}
		if f == nil {
			return
		}
		if lives := f.lives(nil); len(lives) > 0 {
			f = lives[0]
		}
		into := &f.scoped
		if d.Kind == Vector {
			into = &f.vectors
		}
		if *into == nil {
			*into = map[string]int64{}
		}
		(*into)[d.Key] = d.Rows
		return
	}
	one := deletion{key: d.Key, sequence: t.sequence, rows: d.Rows}
	if d.Kind == Equality {
		p.equalities = append(p.equalities, one)
	} else {
		p.positions = append(p.positions, one)
	}
}

func (t *table) removeDelete(d Delete) {
	p := t.home[d.Key]
	if p == nil {
		return
	}
	delete(t.home, d.Key)
	is := func(o deletion) bool { return o.key == d.Key }
	p.positions, p.equalities = slices.DeleteFunc(p.positions, is), slices.DeleteFunc(p.equalities, is)
	for _, f := range p.files {
		delete(f.vectors, d.Key)
		delete(f.scoped, d.Key)
	}
}

// tidy drops files that are gone, and deletes of partitions that apply to nothing any more, as a rewrite does.
func (t *table) tidy() {
	for _, p := range t.order {
		p.files = slices.DeleteFunc(p.files, func(f *file) bool { return f.Path == "" })
		oldest := t.sequence + 1
		for _, f := range p.files {
			oldest = min(oldest, f.sequence)
		}
		p.positions = slices.DeleteFunc(p.positions, func(d deletion) bool { return d.sequence < oldest })
		p.equalities = slices.DeleteFunc(p.equalities, func(d deletion) bool { return d.sequence <= oldest })
	}
}

// stats is a file as the planner sees it.
func (p *partition) stats(f *file, ref int) maintenance.FileStats {
	s := maintenance.FileStats{
		Path: f.Path, SizeBytes: f.SizeBytes, RecordCount: f.Rows, SpecID: f.SpecID, Partition: f.Partition, HasRowLineage: f.Lineage, Ref: ref, Unsupported: f.Unsupported,
		DeleteFiles: after(p.positions, f.sequence-1) + after(p.equalities, f.sequence) + len(f.scoped),
	}
	if len(f.vectors) > 0 {
		s.DeleteFiles++ // a data file has one vector at most
	}
	s.FileScopedDeletedRows = f.deletedRows()
	return s
}

// deletedRows sums the file's own deletes.
func (f *file) deletedRows() int64 {
	n := int64(0)
	for _, rows := range f.vectors {
		n += rows
	}
	for _, rows := range f.scoped {
		n += rows
	}
	return n
}

// after counts deletes of a later sequence number; they are in order.
func after(list []deletion, sequence int) int {
	i, _ := slices.BinarySearchFunc(list, sequence+1, func(d deletion, want int) int { return cmp.Compare(d.sequence, want) })
	return len(list) - i
}

// sizes measures the table.
func (t *table) sizes() Sizes {
	var s Sizes
	filled := 0
	for _, p := range t.order {
		for _, f := range p.files {
			s.Rows += f.Rows
		}
		data, deletes := int64(len(p.files)), p.deleteFiles()
		if data+deletes == 0 {
			continue
		}
		filled++
		s.DataFiles += data
		s.DeleteFiles += deletes
		s.Worst = max(s.Worst, data+deletes)
	}
	if filled > 0 {
		s.PerQuery = float64(s.DataFiles+s.DeleteFiles) / float64(filled)
	}
	return s
}

func (p *partition) deleteFiles() int64 {
	n := int64(len(p.positions) + len(p.equalities))
	for _, f := range p.files {
		n += int64(len(f.scoped))
		if len(f.vectors) > 0 {
			n++
		}
	}
	return n
}
