package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// writeMark is the user metadata under which a conditional or multipart write carries a random mark. When the answer to such a write is lost
// and its repetition is refused, the mark tells whether the object that stands is this writer's own.
const writeMark = "firn-write"

// errShortBody says that a body ended before its announced length.
var errShortBody = errors.New("the body is shorter than announced")

// errBeyondEnd says that a range has no byte in common with the object.
var errBeyondEnd = errors.New("the range is beyond the end")

// S3 keeps objects in Amazon S3 or a server that speaks its protocol. One client, made at the first call, serves all buckets; a bucket in
// another region is found by AWS's own hint. Calls that fail for a passing reason are repeated with growing waits; ErrTransient says that
// this did not help. It is safe for concurrent use.
//
// Without the permission s3:ListBucket AWS answers 403 for an absent object: then ErrPermission stands where ErrNotFound is expected.
type S3 struct {
	s3Connection
}

// NewS3 returns the S3 store of a config; Stores is not used. Properties:
//
//	s3.endpoint                                     another server than AWS; path style unless said otherwise
//	s3.region, client.region                        else the default chain's (AWS_REGION, profile)
//	s3.access-key-id, s3.secret-access-key,
//	s3.session-token, or client.*, s3.anonymous     else the default credential chain
//	s3.path-style-access, s3.force-virtual-addressing
//	s3.sse.type = none | s3 | kms | dsse-kms, s3.sse.key
//	s3.connect-timeout, s3.request-timeout          seconds, of one attempt
func NewS3(cfg Config) (*S3, error) {
	options, err := parseS3Options(cfg.Properties)
	if err != nil {
		return nil, err
	}
	s := &S3{s3Connection{options: options, roles: cfg.Roles, sleep: cfg.Sleep, onRetry: cfg.OnRetry}}
	if s.sleep == nil {
		s.sleep = sleep
	}
	return s, nil
}

// s3Location takes a location apart for a call that may name a whole bucket.
func s3Location(location string) (Location, error) {
	loc, err := ParseLocation(location)
	if err != nil {
		return Location{}, err
	}
	if loc.Canonical().Scheme != "s3" {
		return Location{}, fmt.Errorf("location %q is not in S3", location)
	}
	return loc, nil
}

// s3Object is s3Location for a call that names one object.
func s3Object(location string) (Location, error) {
	loc, err := s3Location(location)
	if err == nil && loc.Key == "" {
		err = fmt.Errorf("location %q has no key", location)
	}
	return loc, err
}

// Get implements Reader.
func (s *S3) Get(ctx context.Context, location string) ([]byte, error) {
	data, _, err := s.read(ctx, location, "", nil)
	return data, err
}

// GetRange implements Reader.
func (s *S3) GetRange(ctx context.Context, location string, offset, length int64) ([]byte, error) {
	return s.GetRangeInto(ctx, location, offset, length, nil)
}

// GetRangeInto implements BufferReader.
func (s *S3) GetRangeInto(ctx context.Context, location string, offset, length int64, buf []byte) ([]byte, error) {
	var header string
	switch {
	case length < 0:
		return nil, fmt.Errorf("read %s: negative length %d", location, length)
	case length == 0: // HTTP has no empty range
		_, err := s.Head(ctx, location)
		return []byte{}, err
	case offset < 0:
		header = fmt.Sprintf("bytes=%d", offset)
	case length > math.MaxInt64-offset:
		header = fmt.Sprintf("bytes=%d-", offset)
	default:
		header = fmt.Sprintf("bytes=%d-%d", offset, offset+length-1)
	}
	data, partial, err := s.read(ctx, location, header, buf)
	if errors.Is(err, errBeyondEnd) {
		if offset >= 0 {
			return []byte{}, nil
		}
		// The object is empty, or the server refuses to give the whole for more than the whole, as RFC 9110 wants it.
		data, partial, err = s.read(ctx, location, "", buf)
	}
	if err != nil {
		return nil, err
	}
	if !partial { // the server does not know ranges and sent all
		from, to := clip(int64(len(data)), offset, length)
		return data[from:to], nil
	}
	return data[:min(length, int64(len(data)))], nil
}

// read gets an object or a range of it, into buf if it fits; partial says that the answer is a range.
func (s *S3) read(ctx context.Context, location, header string, buf []byte) (data []byte, partial bool, err error) {
	loc, err := s3Object(location)
	if err != nil {
		return nil, false, err
	}
	in := &s3.GetObjectInput{Bucket: &loc.Authority, Key: &loc.Key}
	if header != "" {
		in.Range = &header
	}
	err = s.do(ctx, s3Call{name: "get", subject: location, bucket: loc.Authority}, func(ctx context.Context, c *s3.Client, region func(*s3.Options)) error {
		out, err := c.GetObject(ctx, in, region)
		if header != "" && (errorCode(err) == "InvalidRange" || statusCode(err) == http.StatusRequestedRangeNotSatisfiable) {
			return errBeyondEnd
		}
		if err != nil {
			return err
		}
		defer func() { _ = out.Body.Close() }()
		partial = out.ContentRange != nil
		data, err = readBody(out.Body, out.ContentLength, buf)
		return err
	})
	return data, partial, err
}

// readBody reads to the end, where the SDK compares the checksum.
func readBody(body io.Reader, announced *int64, into []byte) ([]byte, error) {
	size := max(0, aws.ToInt64(announced))
	data := sized(into, size)
	n, err := io.ReadFull(body, data)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	rest, err := io.ReadAll(body) // None, but a length that was not announced.
	if err != nil {
		return nil, err
	}
	if data = append(data[:n], rest...); announced != nil && int64(len(data)) != size {
		return nil, fmt.Errorf("%w: %d of %d bytes", errShortBody, len(data), size)
	}
	return data, nil
}

// Head implements Reader.
func (s *S3) Head(ctx context.Context, location string) (Info, error) {
	out, err := s.head(ctx, location)
	if err != nil {
		return Info{}, err
	}
	return Info{Location: location, SizeBytes: aws.ToInt64(out.ContentLength), ModifiedAt: aws.ToTime(out.LastModified)}, nil
}

func (s *S3) head(ctx context.Context, location string) (out *s3.HeadObjectOutput, err error) {
	loc, err := s3Object(location)
	if err != nil {
		return nil, err
	}
	err = s.do(ctx, s3Call{name: "head", subject: location, bucket: loc.Authority}, func(ctx context.Context, c *s3.Client, region func(*s3.Options)) error {
		out, err = c.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &loc.Authority, Key: &loc.Key}, region)
		return err
	})
	return out, err
}

// newMark is a fresh mark for one write.
func newMark() map[string]string {
	var r [16]byte
	_, _ = rand.Read(r[:]) // never fails: crypto/rand ends the process instead
	return map[string]string{writeMark: hex.EncodeToString(r[:])}
}

// wrote reports whether the object that stands carries the mark.
func (s *S3) wrote(ctx context.Context, location string, mark map[string]string) bool {
	out, err := s.head(ctx, location)
	return err == nil && out.Metadata[writeMark] == mark[writeMark]
}

// Put implements Writer.
func (s *S3) Put(ctx context.Context, location string, data []byte, opts WriteOptions) error {
	loc, err := s3Object(location)
	if err != nil {
		return err
	}
	in := &s3.PutObjectInput{
		Bucket: &loc.Authority, Key: &loc.Key, ContentLength: aws.Int64(int64(len(data))),
		ServerSideEncryption: s.options.encryption, SSEKMSKeyId: s.options.encryptionKey,
	}
	if opts.ContentType != "" {
		in.ContentType = &opts.ContentType
	}
	if opts.IfAbsent {
		in.IfNoneMatch = aws.String("*")
		in.Metadata = newMark()
	}
	unsure := false // an attempt may have written although its answer is lost
	return s.do(ctx, s3Call{name: "put", subject: location, bucket: loc.Authority}, func(ctx context.Context, c *s3.Client, region func(*s3.Options)) error {
		in.Body = bytes.NewReader(data)
		_, err := c.PutObject(ctx, in, region)
		if errors.Is(classify(err), ErrExists) && unsure && s.wrote(ctx, location, in.Metadata) {
			return nil
		}
		unsure = unsure || errors.Is(classify(err), ErrTransient)
		return err
	})
}

// AbortUpload implements Deleter.
func (s *S3) AbortUpload(ctx context.Context, upload IncompleteUpload) error {
	loc, err := s3Object(upload.Location)
	if err != nil {
		return err
	}
	call := s3Call{name: "abort the upload of", subject: upload.Location, bucket: loc.Authority}
	return s.do(ctx, call, func(ctx context.Context, c *s3.Client, region func(*s3.Options)) error {
		_, err := c.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &loc.Authority, Key: &loc.Key, UploadId: &upload.ID}, region)
		if errorCode(err) == "NoSuchUpload" {
			return nil
		}
		return err
	})
}
