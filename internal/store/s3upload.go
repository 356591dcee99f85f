package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

const (
	// firstPartBytes is the size of the first hundred parts: objects of up to 1.6 GB, nearly all there are, need one part's memory a stream.
	firstPartBytes = 16 << 20
	// partGrowthBytes is added every hundred parts, so that S3's 10,000 parts hold 5.3 TiB, more than the 5 TiB an object may have.
	partGrowthBytes = 11 << 20
	maxParts        = 10_000
	// partsInFlight bounds an upload's memory: so many parts travel while one is filled.
	partsInFlight = 2
)

// partBytes is the size of part n, from 0.
func partBytes(n int) int { return firstPartBytes + n/100*partGrowthBytes }

// s3Upload is a streamed write. Until the first part is full nothing is sent; then parts travel in the background while the next one fills.
type s3Upload struct {
	s        *S3
	ctx      context.Context //nolint:containedctx // Create's context covers the parts that Write sends
	location string
	loc      Location
	opts     WriteOptions
	mark     map[string]string

	buf    []byte
	id     *string
	ended  bool
	flight chan struct{}
	// spare are buffers of parts that have arrived.
	spare chan []byte
	wg    sync.WaitGroup
	sent  int

	mu    sync.Mutex
	parts []types.CompletedPart
	err   error
}

// Create implements Writer. The context must live until Commit or Abort. What fits into one part becomes one PUT at Commit.
func (s *S3) Create(ctx context.Context, location string, opts WriteOptions) (Upload, error) {
	loc, err := s3Object(location)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("write %s: %w", location, err)
	}
	return &s3Upload{
		s: s, ctx: ctx, location: location, loc: loc, opts: opts, mark: newMark(),
		flight: make(chan struct{}, partsInFlight), spare: make(chan []byte, partsInFlight),
	}, nil
}

func (u *s3Upload) call(name string) s3Call {
	return s3Call{name: name, subject: u.location, bucket: u.loc.Authority}
}

// Write implements Upload.
func (u *s3Upload) Write(p []byte) (int, error) {
	if u.ended {
		return 0, fmt.Errorf("write %s: the upload has ended", u.location)
	}
	written := 0
	for len(p) > 0 {
		n := min(len(p), partBytes(u.sent)-len(u.buf))
		u.buf = append(u.buf, p[:n]...)
		p, written = p[n:], written+n
		if len(u.buf) < partBytes(u.sent) {
			break
		}
		if err := u.send(); err != nil {
			return written, err
		}
	}
	return written, nil
}

// send starts the upload if need be and hands the buffer to the background.
func (u *s3Upload) send() error {
	if u.sent >= maxParts {
		return fmt.Errorf("write %s: more than %d parts", u.location, maxParts)
	}
	if err := u.begin(); err != nil {
		return err
	}
	u.flight <- struct{}{}
	if err := u.failed(); err != nil {
		<-u.flight
		return err
	}
	u.sent++
	number, part := int32(u.sent), u.buf
	u.buf = u.buffer()
	u.wg.Go(func() {
		defer func() { <-u.flight }()
		tag, err := u.sendPart(number, part)
		select {
		case u.spare <- part[:0]:
		default:
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		if err != nil {
			u.err = errors.Join(u.err, err)
			return
		}
		u.parts = append(u.parts, types.CompletedPart{ETag: tag, PartNumber: &number})
	})
	return nil
}

// buffer is room for the next part.
func (u *s3Upload) buffer() []byte {
	select {
	case b := <-u.spare:
		if cap(b) >= partBytes(u.sent) {
			return b
		}
	default:
	}
	return make([]byte, 0, partBytes(u.sent))
}

func (u *s3Upload) failed() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}

func (u *s3Upload) begin() error {
	if u.id != nil {
		return nil
	}
	in := &s3.CreateMultipartUploadInput{
		Bucket: &u.loc.Authority, Key: &u.loc.Key, Metadata: u.mark,
		ServerSideEncryption: u.s.options.encryption, SSEKMSKeyId: u.s.options.encryptionKey,
	}
	if u.opts.ContentType != "" {
		in.ContentType = &u.opts.ContentType
	}
	return u.s.do(u.ctx, u.call("start the upload of"), func(ctx context.Context, c *s3.Client, region func(*s3.Options)) error {
		out, err := c.CreateMultipartUpload(ctx, in, region)
		if err == nil {
			u.id = out.UploadId
		}
		return err
	})
}

func (u *s3Upload) sendPart(number int32, part []byte) (tag *string, err error) {
	in := &s3.UploadPartInput{Bucket: &u.loc.Authority, Key: &u.loc.Key, UploadId: u.id, PartNumber: &number, ContentLength: aws.Int64(int64(len(part)))}
	err = u.s.do(u.ctx, u.call(fmt.Sprintf("upload part %d of", number)), func(ctx context.Context, c *s3.Client, region func(*s3.Options)) error {
		in.Body = bytes.NewReader(part)
		out, err := c.UploadPart(ctx, in, region)
		if err == nil {
			tag = out.ETag
		}
		return err
	})
	return tag, err
}

// Commit implements Upload. A commit that failed may be repeated or aborted.
func (u *s3Upload) Commit(ctx context.Context) error {
	if u.ended {
		return fmt.Errorf("commit %s: the upload has ended", u.location)
	}
	if u.id == nil {
		if err := u.s.Put(ctx, u.location, u.buf, u.opts); err != nil {
			return err
		}
		u.ended, u.buf = true, nil
		return nil
	}
	if len(u.buf) > 0 {
		if err := u.send(); err != nil {
			return err
		}
		u.buf = nil
	}
	u.wg.Wait()
	if err := u.failed(); err != nil {
		return err
	}
	slices.SortFunc(u.parts, func(a, b types.CompletedPart) int { return int(*a.PartNumber - *b.PartNumber) })
	if err := u.complete(ctx); err != nil {
		return err
	}
	u.ended = true
	return nil
}

func (u *s3Upload) complete(ctx context.Context) error {
	in := &s3.CompleteMultipartUploadInput{
		Bucket: &u.loc.Authority, Key: &u.loc.Key, UploadId: u.id,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: u.parts},
	}
	if u.opts.IfAbsent {
		in.IfNoneMatch = aws.String("*")
	}
	return u.s.do(ctx, u.call("complete the upload of"), func(ctx context.Context, c *s3.Client, region func(*s3.Options)) error {
		_, err := c.CompleteMultipartUpload(ctx, in, region)
		switch {
		case err == nil:
			return nil
		case errors.Is(classify(err), ErrExists), errorCode(err) == "NoSuchUpload":
			// Either another writer's doing, or our own of an attempt whose answer was lost (here, or in an earlier Commit).
			if u.s.wrote(ctx, u.location, u.mark) {
				return nil
			}
		case errorCode(err) == "ConditionalRequestConflict":
			// The parts of this upload are no good any more (S3's rule): if the other writer won, say so now.
			if _, headErr := u.s.Head(ctx, u.location); u.opts.IfAbsent && headErr == nil {
				return fmt.Errorf("%w: %w", ErrExists, err)
			}
		}
		return err
	})
}

// Abort implements Upload.
func (u *s3Upload) Abort(ctx context.Context) error {
	if u.ended {
		return nil
	}
	u.ended, u.buf = true, nil
	u.wg.Wait() // a part that arrives after the abort would stay, and cost, unseen
	if u.id == nil {
		return nil
	}
	return u.s.AbortUpload(ctx, IncompleteUpload{Location: u.location, ID: *u.id})
}
