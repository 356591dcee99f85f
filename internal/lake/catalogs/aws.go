package catalogs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/smithy-go/logging"
)

// awsConfig makes an AWS configuration from catalog properties with one of the prefixes ("glue.", "rest.", then the unified "client."), each key
// from the first prefix that has it; what none has comes from the SDK's default chain (environment, profile, role).
func awsConfig(ctx context.Context, props map[string]string, prefixes ...string) (aws.Config, error) {
	first := func(keys ...string) string {
		for _, prefix := range prefixes {
			for _, key := range keys {
				if v := props[prefix+key]; v != "" {
					return v
				}
			}
		}
		return ""
	}
	if first("role-arn") != "" || props["client.assume-role.arn"] != "" {
		return aws.Config{}, fmt.Errorf("read catalog properties: a role to assume is not taken from properties; name a profile with role_arn in %sprofile-name", prefixes[0])
	}
	// Errors are returned; the SDK's own remarks would stand among a command's output.
	options := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})}
	if region := first("region", "signing-region"); region != "" {
		options = append(options, config.WithRegion(region))
	}
	if profile := first("profile-name"); profile != "" {
		options = append(options, config.WithSharedConfigProfile(profile))
	}
	if key, secret := first("access-key-id"), first("secret-access-key"); key != "" || secret != "" {
		if key == "" || secret == "" {
			return aws.Config{}, fmt.Errorf("read catalog properties: %saccess-key-id and %ssecret-access-key belong together", prefixes[0], prefixes[0])
		}
		options = append(options, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(key, secret, first("session-token"))))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("load AWS configuration: %w", err)
	}
	return cfg, nil
}

// sigV4 signs requests to Iceberg REST services of AWS: Glue (signing name "glue"), S3 Tables ("s3tables"), or one behind API Gateway
// ("execute-api", the default as in Java).
type sigV4 struct {
	credentials  aws.CredentialsProvider
	region, name string
	now          func() time.Time
}

// newSigV4 reads rest.signing-name, rest.signing-region and the credentials.
func newSigV4(ctx context.Context, props map[string]string, now func() time.Time) (*sigV4, error) {
	cfg, err := awsConfig(ctx, props, "rest.", "client.")
	if err != nil {
		return nil, err
	}
	s := &sigV4{credentials: cfg.Credentials, region: props[PropSigningRegion], name: props[PropSigningName], now: now}
	if s.region == "" {
		s.region = cfg.Region
	}
	if s.name == "" {
		s.name = "execute-api"
	}
	if s.region == "" {
		return nil, fmt.Errorf("read catalog properties: %s needs %s", PropSigV4, PropSigningRegion)
	}
	return s, nil
}

// authorize signs the request, its body included.
func (s *sigV4) authorize(ctx context.Context, req *http.Request) error {
	var body []byte
	if req.GetBody != nil {
		reader, err := req.GetBody()
		if err != nil {
			return fmt.Errorf("sign request: %w", err)
		}
		if body, err = io.ReadAll(reader); err != nil {
			return fmt.Errorf("sign request: %w", err)
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	keys, err := s.credentials.Retrieve(ctx)
	if err != nil {
		return fmt.Errorf("sign request: retrieve AWS credentials: %w", err)
	}
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	req.Header.Set("X-Amz-Content-Sha256", hash)
	if err := v4.NewSigner().SignHTTP(ctx, keys, req, hash, s.name, s.region, s.now()); err != nil {
		return fmt.Errorf("sign request: %w", err)
	}
	return nil
}

// renew has nothing to do: the provider renews its keys.
func (s *sigV4) renew() bool { return false }
