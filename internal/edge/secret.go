package edge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/smithy-go"

	"firn/internal/contract"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
)

// PropSecret is the property of a catalog that names a secret of Secrets Manager by its ARN: a JSON object of further properties. It is read when the
// catalog is opened, by who opens catalogs; its value never leaves the process.
const PropSecret = "secret"

// secretAge is how long an open catalog keeps its secret without asking whether it was rotated.
const secretAge = 5 * time.Minute

// secret is a secret as it was read.
type secret struct {
	arn, text string
	readAt    time.Time
}

// complete adds a secret's properties to those of its catalog. Errors name keys, never values.
func (s secret) complete(props map[string]string) (map[string]string, error) {
	var values map[string]any
	if err := json.Unmarshal([]byte(s.text), &values); err != nil {
		return nil, s.refuse("it is no JSON object") // the decoder's error may repeat a part of it
	}
	added := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		switch value := values[key].(type) {
		case string:
			added[key] = value
		case float64, bool:
			added[key] = fmt.Sprint(value)
		default:
			return nil, s.refuse("property %s is no text", key)
		}
		switch {
		case key == PropSecret || key == catalogs.PropType:
			return nil, s.refuse("property %s belongs into firn.yaml", key)
		case strings.HasPrefix(key, "s3.") || strings.HasPrefix(key, "client."):
			return nil, s.refuse("property %s: files are reached with the role of a function, and compact reads no secret", key)
		}
	}
	all := maps.Clone(props)
	delete(all, PropSecret)
	if kind, err := catalogs.Kind(props); err == nil && kind == catalogs.TypeSQL && added["username"] != "" {
		login(all, added)
	} else {
		maps.Copy(all, added)
	}
	return all, nil
}

// login takes user and password, and the database unless firn.yaml names it, from a secret in the form that RDS keeps.
func login(props, rds map[string]string) {
	props["jdbc.user"], props["jdbc.password"] = rds["username"], rds["password"]
	if props[catalogs.PropURI] == "" && rds["host"] != "" {
		host := rds["host"]
		if port := rds["port"]; port != "" {
			host += ":" + port
		}
		props[catalogs.PropURI] = "postgresql://" + host + "/" + rds["dbname"]
	}
}

func (s secret) refuse(format string, args ...any) error {
	return maintenance.Named(contract.ErrorRefused, fmt.Errorf("read secret %s: %s", s.arn, fmt.Sprintf(format, args...)))
}

// hide keeps the secret's values out of an error.
func (s secret) hide(err error) error {
	if err == nil {
		return nil
	}
	var values map[string]any
	if json.Unmarshal([]byte(s.text), &values) != nil {
		return err
	}
	text := err.Error()
	for _, value := range values {
		if v, is := value.(string); is && v != "" {
			text = strings.ReplaceAll(text, v, "(secret)")
		}
	}
	return &hiddenError{text, err}
}

// hiddenError is an error with another text.
type hiddenError struct {
	text string
	err  error
}

func (e *hiddenError) Error() string { return e.text }
func (e *hiddenError) Unwrap() error { return e.err }

// readSecret asks Secrets Manager in the secret's own region, with the default credentials.
func readSecret(ctx context.Context, arn string) (string, error) {
	parts := strings.SplitN(arn, ":", 7)
	if len(parts) != 7 || parts[0] != "arn" || parts[2] != "secretsmanager" || parts[3] == "" {
		return "", fmt.Errorf("read catalog property %s: %q is no ARN of a secret of Secrets Manager", PropSecret, arn)
	}
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(parts[3]))
	if err != nil {
		return "", fmt.Errorf("load AWS configuration: %w", err)
	}
	out, err := secretsmanager.NewFromConfig(cfg).GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: aws.String(arn)})
	if err == nil {
		return aws.ToString(out.SecretString), nil
	}
	err = fmt.Errorf("read secret %s: %w", arn, err)
	var answer smithy.APIError
	if !errors.As(err, &answer) {
		return "", maintenance.Named(contract.ErrorTransient, err)
	}
	switch answer.ErrorCode() {
	case "AccessDeniedException":
		return "", maintenance.Named(contract.ErrorRefused,
			fmt.Errorf("%w: allow secretsmanager:GetSecretValue on it, and kms:Decrypt on its key if it has one of its own (settings catalog.secret and secrets.kms)", err))
	case "ResourceNotFoundException", "DecryptionFailure", "InvalidParameterException", "InvalidRequestException":
		return "", maintenance.Named(contract.ErrorRefused, err)
	}
	return "", maintenance.Named(contract.ErrorTransient, err)
}

// withSecret completes a catalog's properties by its secret, if it has one, and remembers it. The caller holds c.mu.
func (c *Clients) withSecret(ctx context.Context, name string, props map[string]string) (map[string]string, error) {
	arn := props[PropSecret]
	if arn == "" {
		return props, nil
	}
	s, known := c.secrets[name]
	if _, open := c.lakes[name]; !known || !open { // an open catalog's is fresh: see rotated
		text, err := readSecret(ctx, arn)
		if err != nil {
			return nil, err
		}
		s = secret{arn, text, c.now()}
		c.secrets[name] = s
	}
	return s.complete(props)
}

// rotated reports whether an open catalog has to be opened anew, since its secret has changed. When Secrets Manager does not answer, the old one is
// kept. The caller holds c.mu.
func (c *Clients) rotated(ctx context.Context, name string) bool {
	s, known := c.secrets[name]
	if !known || c.now().Sub(s.readAt) < secretAge {
		return false
	}
	text, err := readSecret(ctx, s.arn)
	changed := err == nil && text != s.text
	if err == nil {
		s.text = text
	}
	s.readAt = c.now()
	c.secrets[name] = s
	return changed
}
