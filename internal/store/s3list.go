package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

const (
	// listWorkers is how many pages are asked for at once.
	listWorkers = 16
	// listBuffer is how many pages of 1,000 may wait for the consumer, about 250 kB each, beside those on their way.
	listBuffer = 64
)

// List implements Lister.
//
// S3 lists a key space from one key on, a page of 1,000 at a time, one after the other. To go faster the space is cut while it is listed: an idle worker takes the first range that another is busy with, guesses a key in the middle of what is left, and asks
// for the page after it. What comes back starts a range of its own; when nothing does, the first range is known to end sooner. Each key
// belongs to one range, ranges are delivered in order, and workers pause when too many pages wait. A listing of one page is one request, and
// at most as many guesses are made as pages came.
func (s *S3) List(ctx context.Context, prefix string, opts ListOptions) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		loc, err := s3Location(prefix)
		if err != nil {
			yield(Info{}, err)
			return
		}
		after, until, err := loc.bounds(opts)
		if err != nil {
			yield(Info{}, fmt.Errorf("list %s: %w", prefix, err))
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		l := &listing{s: s, loc: loc, subject: prefix, spelling: loc.spelling(prefix), guesser: guesser{leap: 1}}
		l.cond = sync.NewCond(&l.mu)
		l.ranges = []*keyRange{{after: after, until: until}}
		defer l.wg.Wait()
		defer l.stop()
		defer cancel()
		l.run(ctx, yield)
	}
}

// keyRange is the part (after, until] of the key space; an empty until is the prefix's end.
type keyRange struct {
	// after is the last key fetched so far, or where the range starts.
	after, until string
	// common is how many leading bytes the keys of the last page share: there, keys begin to differ. It is 0 before the first page, and after
	// a guess until the next page shows that there is still more to cut.
	common int
	pages  [][]Info
	err    error
	// fetching and splitting say that a worker is at it; done that all its pages are here.
	fetching, splitting, done bool
}

// listing is one List under way. The mutex guards all that follows it.
type listing struct {
	s                 *S3
	loc               Location
	subject, spelling string
	wg                sync.WaitGroup

	mu      sync.Mutex
	cond    *sync.Cond
	ranges  []*keyRange
	waiting int // pages here or on their way
	came    int // pages that came
	guesses int
	guesser guesser
	workers int
	stopped bool
}

func (l *listing) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	l.cond.Broadcast()
}

// run delivers the pages of the first range until it is done, then the next one's.
func (l *listing) run(ctx context.Context, yield func(Info, error) bool) {
	l.waiting = 1
	l.fetch(ctx, l.ranges[0]) // the first page alone: most listings have no second
	for {
		page, more, err := l.next(ctx)
		if err != nil {
			yield(Info{}, err)
			return
		}
		if !more {
			return
		}
		for _, info := range page {
			if !yield(info, nil) {
				return
			}
		}
	}
}

// next waits for the next page in key order.
func (l *listing) next(ctx context.Context) (page []Info, more bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.ranges) > 0 {
		switch r := l.ranges[0]; {
		case len(r.pages) > 0:
			page, r.pages = r.pages[0], r.pages[1:]
			l.waiting--
			l.cond.Broadcast()
			return page, true, nil
		case r.err != nil:
			return nil, false, r.err
		case r.done:
			l.ranges = l.ranges[1:]
			l.cond.Broadcast()
		default:
			l.hire(ctx)
			l.cond.Wait()
		}
	}
	return nil, false, nil
}

// hire starts the workers, once a first page has shown that there are more.
func (l *listing) hire(ctx context.Context) {
	for ; l.workers < listWorkers; l.workers++ {
		l.wg.Go(func() { l.work(ctx) })
	}
}

func (l *listing) work(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.stopped && len(l.ranges) > 0 {
		if r := l.unattended(); r != nil {
			r.fetching = true
			l.waiting++
			l.mu.Unlock()
			l.fetch(ctx, r)
			l.mu.Lock()
		} else if r, middle := l.divisible(); r != nil {
			r.splitting = true
			l.guesses++
			l.waiting++
			l.mu.Unlock()
			l.split(ctx, r, middle)
			l.mu.Lock()
		} else {
			l.cond.Wait()
		}
	}
}

// unattended is the first range that wants a page. The first of all always gets one, so that the consumer never starves behind full buffers.
func (l *listing) unattended() *keyRange {
	for i, r := range l.ranges {
		if i > 0 && l.waiting >= listBuffer {
			return nil
		}
		if !r.done && !r.fetching && r.err == nil && (i > 0 || len(r.pages) < 2 || l.waiting < listBuffer) {
			return r
		}
	}
	return nil
}

// divisible is the first range that a guess can cut, and the guess.
func (l *listing) divisible() (*keyRange, string) {
	if l.guesses >= l.came || l.waiting >= listBuffer {
		return nil, ""
	}
	for _, r := range l.ranges {
		if r.done || r.splitting || r.err != nil || r.common == 0 {
			continue
		}
		if middle, ok := l.guesser.guess(r.after, r.until, len(l.loc.Key), r.common); ok {
			return r, middle
		}
	}
	return nil, ""
}

// fetch gets a range's next page.
func (l *listing) fetch(ctx context.Context, r *keyRange) {
	l.mu.Lock()
	after := r.after
	l.mu.Unlock()
	page, more, err := l.page(ctx, after)
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.cond.Broadcast()
	r.fetching = false
	l.came++
	if err != nil {
		l.waiting--
		r.err = err
		return
	}
	l.append(r, page, more)
}

// append adds a page to a range, without what lies beyond its end. The page counts as waiting already.
func (l *listing) append(r *keyRange, page []entry, more bool) {
	n := len(page)
	if r.until != "" {
		n, _ = slices.BinarySearchFunc(page, r.until, func(e entry, until string) int {
			if e.key <= until {
				return -1
			}
			return 1
		})
	}
	r.done = !more || n < len(page) || n > 0 && page[n-1].key == r.until
	if n == 0 {
		l.waiting--
		return
	}
	l.guesser.learn(page)
	first, last := page[0].key, page[n-1].key
	r.after = last
	r.common = commonPrefix(first, last)
	infos := make([]Info, n)
	for i := range infos {
		infos[i] = page[i].info
	}
	r.pages = append(r.pages, infos)
}

// split asks for the page after the middle and cuts the range there.
func (l *listing) split(ctx context.Context, r *keyRange, middle string) {
	page, more, err := l.page(ctx, middle)
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.cond.Broadcast()
	r.splitting = false
	l.came++
	at := slices.Index(l.ranges, r)
	if err != nil || r.done || r.after >= middle || at < 0 {
		l.waiting-- // the range went by meanwhile; an error will meet its own worker too
		l.guesser.leap = min(l.guesser.leap+1, maxLeap)
		r.common = 0
		return
	}
	rest := &keyRange{after: middle, until: r.until}
	l.append(rest, page, more)
	r.until = middle
	if len(rest.pages) > 0 {
		r.common = 0
		l.ranges = slices.Insert(l.ranges, at+1, rest)
	}
}

// entry is a listed key and its description.
type entry struct {
	key  string
	info Info
}

// page is one request: up to 1,000 keys greater than after.
func (l *listing) page(ctx context.Context, after string) (page []entry, more bool, err error) {
	in := &s3.ListObjectsV2Input{Bucket: &l.loc.Authority, Prefix: &l.loc.Key}
	if after != "" {
		in.StartAfter = &after
	}
	call := s3Call{name: "list", subject: l.subject, bucket: l.loc.Authority}
	err = l.s.do(ctx, call, func(ctx context.Context, c *s3.Client, region func(*s3.Options)) error {
		out, err := c.ListObjectsV2(ctx, in, region)
		if err != nil {
			return err
		}
		page, more = make([]entry, len(out.Contents)), aws.ToBool(out.IsTruncated)
		return l.describe(page, out.Contents, after, more)
	})
	if err != nil && errors.Is(err, ErrNotFound) {
		err = fmt.Errorf("list %s: no such bucket", l.subject)
	}
	return page, more, err
}

// describe fills a page, and refuses an answer that is not in key order or does not get on: a wrong listing would make live files orphans.
func (l *listing) describe(page []entry, contents []types.Object, after string, more bool) error {
	if more && len(contents) == 0 {
		return errors.New("an empty page says that there are more")
	}
	for i, o := range contents {
		key := aws.ToString(o.Key)
		if key <= after || !strings.HasPrefix(key, l.loc.Key) {
			return fmt.Errorf("key %q is listed after %q under the prefix %q", key, after, l.loc.Key)
		}
		after = key
		page[i] = entry{key, Info{Location: l.spelling + key, SizeBytes: aws.ToInt64(o.Size), ModifiedAt: aws.ToTime(o.LastModified)}}
	}
	return nil
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// guesser knows which characters keys have at which place, and so where a cut is likely to divide what is left.
type guesser struct {
	// seen is a set of ASCII characters per place in the key.
	seen [][2]uint64
	// leap is how many places to the left of where a page's keys differ a guess may start: the further, the more keys are leapt over.
	leap int
}

const (
	// seenPlaces bounds the places that are learnt: longer keys differ earlier.
	seenPlaces = 256
	// seenStep is which keys of a page are learnt from: every eighth gives nearly the same sets.
	seenStep = 8
	maxLeap  = 16
)

func (g *guesser) learn(page []entry) {
	for e := 0; e < len(page); e += seenStep {
		key := page[e].key
		for i := range min(len(key), seenPlaces) {
			if i == len(g.seen) {
				g.seen = append(g.seen, [2]uint64{})
			}
			if c := key[i]; c < 0x80 {
				g.seen[i][c/64] |= 1 << (c % 64)
			}
		}
	}
}

// guess is a key strictly between after and until, made of printable ASCII behind a part of after that holds the prefix. Characters that keys
// had at the place come first, then any.
//
//	after  data/day=2024-01-07/00012-3.parquet
//	common data/day=2024-01-                      (the last page went from day 01 to day 07)
//	guess  data/day=2024-03                       (months 02 to 05 were seen before) → finds data/day=2024-03-01/…
func (g *guesser) guess(after, until string, prefix, common int) (string, bool) {
	base := prefix
	if until != "" {
		base = max(base, commonPrefix(after, until))
	}
	start := max(base, min(common, len(after))-g.leap)
	for _, choose := range []func(place int, low, high byte) (byte, bool){g.known, halfway} {
		try := func(i int) (string, bool) {
			low, high := byte(' '-1), byte(0x7f)
			if i < len(after) {
				low = after[i]
			}
			if i < len(until) && after[:i] == until[:i] {
				high = min(high, until[i])
			}
			if high < low || high-low < 2 {
				return "", false
			}
			c, ok := choose(i, low, high)
			middle := after[:i] + string(rune(c))
			return middle, ok && utf8.ValidString(middle) && middle > after && (until == "" || middle < until)
		}
		for i := start; i >= base; i-- {
			if middle, ok := try(i); ok {
				return middle, true
			}
		}
		for i := start + 1; i <= len(after); i++ {
			if middle, ok := try(i); ok {
				return middle, true
			}
		}
	}
	return "", false
}

// known is the middle one of the characters between low and high that keys had at the place.
func (g *guesser) known(place int, low, high byte) (byte, bool) {
	if place >= len(g.seen) {
		return 0, false
	}
	var between []byte
	for c := low + 1; c < high; c++ {
		if g.seen[place][c/64]>>(c%64)&1 == 1 {
			between = append(between, c)
		}
	}
	if len(between) == 0 {
		return 0, false
	}
	return between[len(between)/2], true
}

func halfway(_ int, low, high byte) (byte, bool) { return low + (high-low)/2, true }

// Uploads implements Lister.
func (s *S3) Uploads(ctx context.Context, prefix string) iter.Seq2[IncompleteUpload, error] {
	return func(yield func(IncompleteUpload, error) bool) {
		loc, err := s3Location(prefix)
		if err != nil {
			yield(IncompleteUpload{}, err)
			return
		}
		spelling := loc.spelling(prefix)
		in := &s3.ListMultipartUploadsInput{Bucket: &loc.Authority, Prefix: &loc.Key}
		for {
			var out *s3.ListMultipartUploadsOutput
			call := s3Call{name: "list the uploads of", subject: prefix, bucket: loc.Authority}
			err := s.do(ctx, call, func(ctx context.Context, c *s3.Client, region func(*s3.Options)) (err error) {
				out, err = c.ListMultipartUploads(ctx, in, region)
				if errorCode(err) == "NoSuchUpload" { // some servers' word for none
					out, err = &s3.ListMultipartUploadsOutput{}, nil
				}
				return err
			})
			if err != nil {
				yield(IncompleteUpload{}, err)
				return
			}
			for _, u := range out.Uploads {
				if !strings.HasPrefix(aws.ToString(u.Key), loc.Key) {
					continue
				}
				if !yield(IncompleteUpload{Location: spelling + *u.Key, ID: aws.ToString(u.UploadId), StartedAt: aws.ToTime(u.Initiated)}, nil) {
					return
				}
			}
			if !aws.ToBool(out.IsTruncated) || out.NextKeyMarker == nil {
				return
			}
			in.KeyMarker, in.UploadIdMarker = out.NextKeyMarker, out.NextUploadIdMarker
		}
	}
}
