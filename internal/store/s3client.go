package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const (
	// maxAttempts and the waits make a throttled call try for about 13 s before it answers ErrTransient.
	maxAttempts = 7
	retryBase   = 200 * time.Millisecond
	retryLimit  = 20 * time.Second
	// attemptTimeout ends an attempt whose connection went silent. A part of the largest size takes this long at 4 MB/s.
	attemptTimeout = 5 * time.Minute
	// headerTimeout is how long the service may think before its first byte; completing a large multipart upload answers at once and streams.
	headerTimeout = time.Minute
	// idleConnections is how many connections are kept for the next request: more than any room's concurrency.
	idleConnections = 128
	// regionOfEmulators is signed with when an endpoint is set and no region: S3-compatible servers accept any.
	regionOfEmulators = "us-east-1"
	// sessionName stands in the bucket owner's CloudTrail as the name of our sessions.
	sessionName = "firn"
	// sessionTime is how long a session lasts: the most that AWS allows to who is in a role already, as functions are.
	sessionTime = time.Hour
	// sessionMargin is how long before its end a session is renewed: longer than a request takes, with its repetitions.
	sessionMargin = 5 * time.Minute
)

// s3Options are the properties of the S3 client, parsed.
type s3Options struct {
	endpoint, region            string
	credentials                 aws.CredentialsProvider
	pathStyle                   *bool
	encryption                  types.ServerSideEncryption
	encryptionKey               *string
	connectTimeout, callTimeout time.Duration
}

// parseS3Options reads PyIceberg's and Java's names, and reports all faults at once. Properties that change who asks or what is stored, and
// that this client does not know, are refused rather than passed over.
func parseS3Options(p map[string]string) (s3Options, error) {
	var o s3Options
	var errs []error
	first := func(names ...string) string {
		for _, n := range names {
			if p[n] != "" {
				return p[n]
			}
		}
		return ""
	}
	o.endpoint = first("s3.endpoint")
	if u, err := url.Parse(o.endpoint); o.endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		errs = append(errs, fmt.Errorf("property s3.endpoint is %q: want http://host or https://host", o.endpoint))
	}
	o.region = first("s3.region", "client.region")
	var err error
	if o.credentials, err = parseS3Credentials(first); err != nil {
		errs = append(errs, err)
	}
	for name, pathStyle := range map[string]bool{"s3.path-style-access": true, "s3.force-virtual-addressing": false} {
		if p[name] == "" {
			continue
		}
		set, err := strconv.ParseBool(strings.ToLower(p[name]))
		if err != nil {
			errs = append(errs, fmt.Errorf("property %s is %q: want true or false", name, p[name]))
		} else if set || pathStyle { // force-virtual-addressing=false asks for nothing
			want := set == pathStyle
			if o.pathStyle != nil && *o.pathStyle != want {
				errs = append(errs, errors.New("properties s3.path-style-access and s3.force-virtual-addressing contradict each other"))
			}
			o.pathStyle = &want
		}
	}
	if err := o.parseEncryption(p); err != nil {
		errs = append(errs, err)
	}
	for name, into := range map[string]*time.Duration{"s3.connect-timeout": &o.connectTimeout, "s3.request-timeout": &o.callTimeout} {
		if p[name] == "" {
			continue
		}
		seconds, err := strconv.ParseFloat(p[name], 64)
		if err != nil || seconds <= 0 || seconds > 86400 {
			errs = append(errs, fmt.Errorf("property %s is %q: want seconds above 0", name, p[name]))
			continue
		}
		*into = time.Duration(seconds * float64(time.Second))
	}
	for _, name := range []string{"s3.remote-signing-enabled", "s3.access-grants.enabled"} {
		if strings.EqualFold(p[name], "true") {
			errs = append(errs, fmt.Errorf("property %s is not supported", name))
		}
	}
	for _, name := range []string{"s3.role-arn", "client.role-arn", "client.assume-role.arn"} {
		if p[name] != "" {
			errs = append(errs, fmt.Errorf("property %s is not supported: let the credential chain assume the role (AWS_PROFILE or role_arn of a profile)", name))
		}
	}
	return o, errors.Join(errs...)
}

func parseS3Credentials(first func(...string) string) (aws.CredentialsProvider, error) {
	if strings.EqualFold(first("s3.anonymous"), "true") {
		return aws.AnonymousCredentials{}, nil
	}
	id, secret := first("s3.access-key-id", "client.access-key-id"), first("s3.secret-access-key", "client.secret-access-key")
	token := first("s3.session-token", "client.session-token")
	switch {
	case id == "" && secret == "" && token == "":
		return nil, nil
	case id == "" || secret == "":
		return nil, errors.New("properties s3.access-key-id and s3.secret-access-key: want both or none")
	default:
		return credentials.NewStaticCredentialsProvider(id, secret, token), nil
	}
}

func (o *s3Options) parseEncryption(p map[string]string) error {
	key := p["s3.sse.key"]
	switch strings.ToLower(p["s3.sse.type"]) {
	case "", "none":
		return nil
	case "s3":
		o.encryption = types.ServerSideEncryptionAes256
		return nil
	case "kms":
		o.encryption = types.ServerSideEncryptionAwsKms
	case "dsse-kms":
		o.encryption = types.ServerSideEncryptionAwsKmsDsse
	default:
		return fmt.Errorf("property s3.sse.type is %q: want none, s3, kms or dsse-kms", p["s3.sse.type"])
	}
	if key != "" { // without one the bucket's default key serves
		o.encryptionKey = &key
	}
	return nil
}

// newClient makes the client, and says what it was made of. It asks for credentials at once, so that their absence is told as such and not as a failing call.
func newClient(ctx context.Context, o s3Options) (*s3.Client, aws.Config, error) {
	transport := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost = 2*idleConnections, idleConnections
		t.ResponseHeaderTimeout = headerTimeout
	})
	if o.connectTimeout > 0 {
		transport = transport.WithDialerOptions(func(d *net.Dialer) { d.Timeout = o.connectTimeout })
	}
	load := []func(*config.LoadOptions) error{config.WithHTTPClient(transport), config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} })}
	if o.region != "" {
		load = append(load, config.WithRegion(o.region))
	}
	if o.credentials != nil {
		load = append(load, config.WithCredentialsProvider(o.credentials))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, cfg, fmt.Errorf("load the AWS configuration: %w", err)
	}
	if _, anonymous := o.credentials.(aws.AnonymousCredentials); !anonymous {
		if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
			if ctx.Err() != nil {
				return nil, cfg, fmt.Errorf("find AWS credentials: %w", ctx.Err())
			}
			return nil, cfg, fmt.Errorf("find AWS credentials: %w: %w", ErrPermission, err)
		}
	}
	return s3.NewFromConfig(cfg, func(c *s3.Options) {
		c.HTTPClient = plainBodies{c.HTTPClient}
		c.Logger = logging.Nop{} // errors are returned; the SDK's remarks on closed connections would stand among a command's output
		c.DisableLogOutputChecksumValidationSkipped = true
		if o.endpoint != "" {
			c.BaseEndpoint = aws.String(o.endpoint)
		}
		if c.BaseEndpoint != nil {
			// Few servers other than AWS resolve bucket names as hosts or know trailing checksums. The payload stays covered by its signature.
			c.UsePathStyle = true
			c.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
			if c.Region == "" {
				c.Region = regionOfEmulators
			}
		}
		if o.pathStyle != nil {
			c.UsePathStyle = *o.pathStyle
		}
	}), cfg, nil
}

// assume makes credentials for each bucket's role. A role is assumed at the first request to its bucket, once for all buckets that name it; a failure is
// the request's, with AWS's own words.
func assume(cfg aws.Config, roles map[string]string) map[string]aws.CredentialsProvider {
	sessions, byRole := map[string]aws.CredentialsProvider{}, map[string]aws.CredentialsProvider{}
	if len(roles) == 0 {
		return sessions
	}
	client := sts.NewFromConfig(cfg)
	for bucket, role := range roles {
		if byRole[role] == nil {
			provider := stscreds.NewAssumeRoleProvider(client, role, func(o *stscreds.AssumeRoleOptions) {
				o.RoleSessionName, o.Duration = sessionName, sessionTime
			})
			byRole[role] = aws.NewCredentialsCache(provider, func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = sessionMargin })
		}
		sessions[bucket] = byRole[role]
	}
	return sessions
}

// plainBodies hides that request bodies can write themselves. The SDK closes a body as soon as the response's head is there, and a closed one
// that net/http still wants to drain through WriteTo answers EOF as an error: the connection is torn down under a good response, and the call
// repeated. It takes a server that answers within microseconds, or a busy machine. Read answers EOF as the end.
type plainBodies struct{ next s3.HTTPClient }

// Do implements s3.HTTPClient.
func (p plainBodies) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return p.next.Do(r)
}

// s3Call names a call for errors and retries.
type s3Call struct {
	name, subject, bucket string
	objects               int
}

// s3Connection is the client, made at the first call, and the regions of buckets that lie elsewhere.
type s3Connection struct {
	options s3Options
	// roles are by bucket, assumed their credentials.
	roles   map[string]string
	assumed map[string]aws.CredentialsProvider
	sleep   func(context.Context, time.Duration) error
	onRetry func(Retry)

	mu      sync.Mutex
	client  *s3.Client
	regions map[string]string
}

func (c *s3Connection) get(ctx context.Context) (*s3.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		return c.client, nil
	}
	client, cfg, err := newClient(ctx, c.options)
	if err != nil {
		return nil, err
	}
	if client.Options().Region == "" {
		return nil, errors.New("no AWS region: set the property s3.region or AWS_REGION")
	}
	cfg.Region = client.Options().Region
	c.client, c.assumed = client, assume(cfg, c.roles)
	return client, nil
}

// do makes a call, again while it fails for a passing reason. Each attempt may run more than one request, but only the last may change anything.
func (c *s3Connection) do(ctx context.Context, call s3Call, run func(context.Context, *s3.Client, func(*s3.Options)) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s %s: %w", call.name, call.subject, err)
	}
	client, err := c.get(ctx)
	if err != nil {
		return fmt.Errorf("%s %s: %w", call.name, call.subject, err)
	}
	for n := 0; ; n++ {
		err := c.attempt(ctx, func(ctx context.Context) error { return run(ctx, client, c.reach(call.bucket)) })
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s %s: %w", call.name, call.subject, ctx.Err())
		}
		if c.redirected(call.bucket, err) {
			n--
			continue
		}
		class := classify(err)
		if !errors.Is(class, ErrTransient) || n+1 >= maxAttempts {
			return withClass(call.name+" "+call.subject, class, err)
		}
		if err := c.pause(ctx, Retry{Call: call.name, Subject: call.subject, Objects: max(call.objects, 1), Err: err}, n); err != nil {
			return fmt.Errorf("%s %s: %w", call.name, call.subject, err)
		}
	}
}

func (c *s3Connection) attempt(ctx context.Context, run func(context.Context) error) error {
	limit := attemptTimeout
	if c.options.callTimeout > 0 {
		limit = c.options.callTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return run(ctx)
}

func (c *s3Connection) pause(ctx context.Context, r Retry, n int) error {
	if c.onRetry != nil {
		c.onRetry(r)
	}
	return c.sleep(ctx, backoff(retryBase, retryLimit, n))
}

// reach directs a call to its bucket's region, in the bucket's role.
func (c *s3Connection) reach(bucket string) func(*s3.Options) {
	c.mu.Lock()
	region, role := c.regions[bucket], c.assumed[bucket]
	c.mu.Unlock()
	return func(o *s3.Options) {
		if region != "" {
			o.Region = region
		}
		if role != nil {
			o.Credentials = role
		}
	}
}

// redirected learns a bucket's region from the answer that it lies elsewhere. It answers true at most once a bucket and region.
func (c *s3Connection) redirected(bucket string, err error) bool {
	re, ok := errors.AsType[*smithyhttp.ResponseError](err)
	if !ok || re.Response == nil || c.options.endpoint != "" {
		return false
	}
	status, region := re.HTTPStatusCode(), re.Response.Header.Get("X-Amz-Bucket-Region")
	if status != http.StatusMovedPermanently && status != http.StatusTemporaryRedirect && status != http.StatusBadRequest || region == "" {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.regions[bucket] == region || c.client.Options().Region == region {
		return false
	}
	if c.regions == nil {
		c.regions = map[string]string{}
	}
	c.regions[bucket] = region
	return true
}

// errorCode is the service's code of an error, or "".
func errorCode(err error) string {
	if ae, ok := errors.AsType[smithy.APIError](err); ok {
		return ae.ErrorCode()
	}
	return ""
}

func statusCode(err error) int {
	if re, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return re.HTTPStatusCode()
	}
	return 0
}

// classify finds the class of an SDK error; nil is permanent.
func classify(err error) error {
	for _, class := range []error{ErrNotFound, ErrExists, ErrPermission, ErrTransient, ErrArchived} {
		if errors.Is(err, class) {
			return class
		}
	}
	if class, known := classifyCode(errorCode(err)); known {
		return class
	}
	switch status := statusCode(err); {
	case status == http.StatusNotFound:
		return ErrNotFound
	case status == http.StatusForbidden, status == http.StatusUnauthorized:
		return ErrPermission
	case status == http.StatusPreconditionFailed:
		return ErrExists
	case status >= 500 && status != http.StatusNotImplemented, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout:
		return ErrTransient
	case status >= 400:
		return nil
	}
	// No usable answer: a broken or silent connection. A failed attempt's own timeout is one too; the caller's was asked for before.
	if hopeless(err) {
		return nil
	}
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) || retryable(err) {
		return ErrTransient
	}
	return nil
}

// hopeless reports a connection that will not come about: an unknown host, a certificate that does not fit.
func hopeless(err error) bool {
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return true
	}
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

func retryable(err error) bool {
	return retry.IsErrorRetryables(retry.DefaultRetryables).IsErrorRetryable(err) == aws.TrueTernary || errors.Is(err, errShortBody)
}

// classifyCode knows the codes whose class does not follow from the HTTP status, and those that come without one inside a batch's answer.
func classifyCode(code string) (class error, known bool) {
	switch code {
	case "InvalidObjectState":
		return ErrArchived, true
	case "NoSuchKey", "NotFound":
		return ErrNotFound, true
	case "NoSuchBucket", "NoSuchUpload":
		return nil, true // 404, but no answer to "is there an object"
	case "PreconditionFailed":
		return ErrExists, true
	case "AccessDenied", "AllAccessDisabled", "AccountProblem", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken":
		return ErrPermission, true
	case "SlowDown", "SlowDownRead", "SlowDownWrite", "InternalError", "ServiceUnavailable", "RequestTimeout", "RequestTimeoutException",
		"OperationAborted", "ConditionalRequestConflict", "Throttling", "ThrottlingException", "TooManyRequests", "RequestLimitExceeded", "Busy":
		return ErrTransient, true
	default:
		return nil, false
	}
}

// withClass wraps an error with words and its class, unless it carries the class already.
func withClass(words string, class, err error) error {
	if class == nil || errors.Is(err, class) {
		return fmt.Errorf("%s: %w", words, err)
	}
	return fmt.Errorf("%s: %w: %w", words, class, err)
}
