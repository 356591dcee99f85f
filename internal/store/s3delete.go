package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// deleteBatch is the most keys that S3 takes in one DeleteObjects.
const deleteBatch = 1000

// errNoAnswer is the failure of a key that a batch's answer does not mention.
var errNoAnswer = errors.New("the answer does not mention the object")

// Delete implements Deleter. A bucket's objects go in batches, one after the other: a batch of 1,000 is near S3's rate for a prefix already.
// When a batch as a whole fails for good, its objects are failures, no further batch is tried and err says so.
func (s *S3) Delete(ctx context.Context, locations []string) (int, []DeleteFailure, error) {
	var failures []DeleteFailure
	var buckets []string
	keys := map[string][]string{}
	spelled := make(map[string]string, len(locations)) // canonical location → first spelling
	for _, location := range locations {
		loc, err := s3Object(location)
		if err != nil {
			failures = append(failures, DeleteFailure{Location: location, Err: err})
			continue
		}
		canonical := loc.Canonical().String()
		if _, ok := spelled[canonical]; ok {
			continue
		}
		spelled[canonical] = location
		if keys[loc.Authority] == nil {
			buckets = append(buckets, loc.Authority)
		}
		keys[loc.Authority] = append(keys[loc.Authority], loc.Key)
	}
	deleted := 0
	for _, bucket := range buckets {
		for batch := range slices.Chunk(keys[bucket], deleteBatch) {
			b := s3Batch{s: s, bucket: bucket, spelled: spelled}
			err := b.run(ctx, batch)
			deleted += b.deleted
			failures = append(failures, b.failures...)
			if err != nil {
				return deleted, failures, err
			}
		}
	}
	return deleted, failures, nil
}

// s3Batch is one batch on its way.
type s3Batch struct {
	s        *S3
	bucket   string
	spelled  map[string]string
	deleted  int
	failures []DeleteFailure
}

func (b *s3Batch) location(key string) string {
	return b.spelled[Location{Scheme: "s3", Authority: b.bucket, Key: key}.String()]
}

func (b *s3Batch) fail(key string, err error) {
	b.failures = append(b.failures, DeleteFailure{Location: b.location(key), Err: err})
}

// run deletes the keys, again those that failed for a passing reason.
func (b *s3Batch) run(ctx context.Context, keys []string) error {
	var pending []string
	for _, key := range keys {
		if fitsXML(key) {
			pending = append(pending, key)
		} else if err := b.single(ctx, key); err != nil {
			b.fail(key, err)
		} else {
			b.deleted++
		}
	}
	for n := 0; len(pending) > 0; n++ {
		answers, err := b.request(ctx, pending)
		if err != nil {
			for _, key := range pending {
				b.fail(key, err)
			}
			return err
		}
		var again []string
		var last error
		for _, key := range pending {
			err := answers[key]
			switch {
			case err == nil:
				b.deleted++
			case errors.Is(err, ErrTransient) && n+1 < maxAttempts:
				again, last = append(again, key), err
			default:
				b.fail(key, err)
			}
		}
		if pending = again; len(pending) == 0 {
			break
		}
		if err := b.s.pause(ctx, Retry{Call: "delete", Subject: "s3://" + b.bucket, Objects: len(pending), Err: last}, n); err != nil {
			for _, key := range pending {
				b.fail(key, last)
			}
			return fmt.Errorf("delete from s3://%s: %w", b.bucket, err)
		}
	}
	return nil
}

// request sends one DeleteObjects and answers per key: nil is gone.
func (b *s3Batch) request(ctx context.Context, keys []string) (map[string]error, error) {
	ids := make([]types.ObjectIdentifier, len(keys))
	for i := range keys {
		ids[i].Key = &keys[i]
	}
	in := &s3.DeleteObjectsInput{Bucket: &b.bucket, Delete: &types.Delete{Objects: ids, Quiet: aws.Bool(false)}}
	var out *s3.DeleteObjectsOutput
	call := s3Call{name: "delete from", subject: "s3://" + b.bucket, bucket: b.bucket, objects: len(keys)}
	err := b.s.do(ctx, call, func(ctx context.Context, c *s3.Client, region func(*s3.Options)) (err error) {
		out, err = c.DeleteObjects(ctx, in, region)
		return err
	})
	if err != nil {
		return nil, err
	}
	answers := make(map[string]error, len(keys))
	for _, key := range keys {
		answers[key] = fmt.Errorf("delete %s: %w: %w", b.location(key), ErrTransient, errNoAnswer)
	}
	for _, d := range out.Deleted {
		answers[aws.ToString(d.Key)] = nil
	}
	for _, e := range out.Errors {
		code := aws.ToString(e.Code)
		class, _ := classifyCode(code)
		if errors.Is(class, ErrNotFound) {
			answers[aws.ToString(e.Key)] = nil
			continue
		}
		err := fmt.Errorf("%s: %s", code, aws.ToString(e.Message))
		answers[aws.ToString(e.Key)] = withClass("delete "+b.location(aws.ToString(e.Key)), class, err)
	}
	return answers, nil
}

// single deletes a key that cannot stand in an XML document: one such key would make S3 refuse the whole batch.
func (b *s3Batch) single(ctx context.Context, key string) error {
	call := s3Call{name: "delete", subject: b.location(key), bucket: b.bucket}
	return b.s.do(ctx, call, func(ctx context.Context, c *s3.Client, region func(*s3.Options)) error {
		_, err := c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.bucket, Key: &key}, region)
		if errors.Is(classify(err), ErrNotFound) {
			return nil
		}
		return err
	})
}

// fitsXML reports whether a key consists of characters that XML 1.0 can carry unchanged.
func fitsXML(key string) bool {
	return utf8.ValidString(key) && !strings.ContainsFunc(key, func(r rune) bool {
		return r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0xfffe || r == 0xffff
	})
}

const (
	// versionPage is how many versions are asked for at once: more than an object with its deletions has.
	versionPage = 100
	// maxVersionPages bounds the search for a version with data under delete markers.
	maxVersionPages = 50
)

// Versions implements Versioned. Markers and data come in two lists, with times in whole seconds on AWS: of the same second a marker counts as the
// newer one, but when the object stands.
func (s *S3) Versions(ctx context.Context, location string) ([]Version, error) {
	loc, err := s3Object(location)
	if err != nil {
		return nil, err
	}
	size := int32(versionPage)
	in := &s3.ListObjectVersionsInput{Bucket: &loc.Authority, Prefix: &loc.Key, MaxKeys: &size}
	if !fitsXML(loc.Key) {
		in.EncodingType = types.EncodingTypeUrl
	}
	var found []Version
	for range maxVersionPages {
		var out *s3.ListObjectVersionsOutput
		call := s3Call{name: "list the versions of", subject: location, bucket: loc.Authority}
		err := s.do(ctx, call, func(ctx context.Context, c *s3.Client, region func(*s3.Options)) (err error) {
			out, err = c.ListObjectVersions(ctx, in, region)
			return err
		})
		if err != nil {
			return nil, err
		}
		page, data := versionsOf(out, loc.Key)
		found = append(found, page...)
		// Keys that this one is a prefix of come after all of its versions.
		if data || !aws.ToBool(out.IsTruncated) || decodedKey(out.NextKeyMarker, out.EncodingType) != loc.Key {
			return found, nil
		}
		in.KeyMarker, in.VersionIdMarker = &loc.Key, out.NextVersionIdMarker
	}
	return nil, fmt.Errorf("list the versions of %s: %d of them are delete markers", location, len(found))
}

// versionsOf is the part of an answer that is about a key, newest first, and whether a version with data ends it.
func versionsOf(out *s3.ListObjectVersionsOutput, key string) (found []Version, data bool) {
	var holds *Version
	stands := false
	for _, v := range out.Versions {
		if decodedKey(v.Key, out.EncodingType) == key {
			holds = &Version{ID: aws.ToString(v.VersionId), SizeBytes: aws.ToInt64(v.Size), ModifiedAt: aws.ToTime(v.LastModified)}
			stands = aws.ToBool(v.IsLatest)
			break
		}
	}
	for _, m := range out.DeleteMarkers {
		at := aws.ToTime(m.LastModified)
		if decodedKey(m.Key, out.EncodingType) != key || holds != nil && (stands || at.Before(holds.ModifiedAt)) {
			continue
		}
		found = append(found, Version{ID: aws.ToString(m.VersionId), Marker: true, ModifiedAt: at})
	}
	if holds != nil {
		found = append(found, *holds)
	}
	return found, holds != nil
}

// decodedKey is a key of an answer in the encoding that the answer names.
func decodedKey(key *string, encoding types.EncodingType) string {
	if encoding != types.EncodingTypeUrl {
		return aws.ToString(key)
	}
	plain, err := url.QueryUnescape(aws.ToString(key))
	if err != nil {
		return "" // no object's key
	}
	return plain
}

// Undelete implements Versioned.
func (s *S3) Undelete(ctx context.Context, location string, marker Version) error {
	loc, err := s3Object(location)
	if err == nil {
		err = checkMarker(location, marker)
	}
	if err != nil {
		return err
	}
	call := s3Call{name: "undelete", subject: location, bucket: loc.Authority}
	return s.do(ctx, call, func(ctx context.Context, c *s3.Client, region func(*s3.Options)) error {
		_, err := c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &loc.Authority, Key: &loc.Key, VersionId: &marker.ID}, region)
		if errors.Is(classify(err), ErrNotFound) {
			return nil
		}
		return err
	})
}
