package edge

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/smithy-go"

	"firn/internal/maintenance"
)

// Denied reports a definite no of AWS to who asks: no grant, no such keys, a session that is over.
func Denied(err error) bool {
	api, is := errors.AsType[smithy.APIError](err)
	return is && slices.Contains([]string{
		"AccessDenied", "AccessDeniedException", "ExpiredToken", "ExpiredTokenException", "UnrecognizedClientException", "InvalidSignatureException",
		"InvalidAccessKeyId", "SignatureDoesNotMatch",
	}, api.ErrorCode())
}

// Cure is what mends a refusal of AWS, in one line; "" when the text tells of none that is known. It reads the text of an error as the SDK writes it, not
// the error itself: most errors have crossed the border of a function. The table is the one that was asked for, if any.
func Cure(text string, table maintenance.TableID) string {
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(text, part) {
				return true
			}
		}
		return false
	}
	switch {
	case has("operation error STS: AssumeRole"):
		return "the bucket's owner lets the function's role (the stack's output Roles) take the role of warehouse.roles: docs/bucket-roles.json makes such roles"
	case has("ExpiredToken", "ExpiredTokenException", "SSO session has expired", "cached SSO token", "InvalidTokenError"):
		return "the session is over: sign in again (aws sso login), or renew AWS_SESSION_TOKEN"
	case has("failed to refresh cached credentials", "find AWS credentials", "static credentials are empty"):
		return "no AWS credentials: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; aws sts get-caller-identity must answer"
	case has("api error UnrecognizedClientException", "api error InvalidClientTokenId", "api error InvalidAccessKeyId", "api error SignatureDoesNotMatch", "api error InvalidSignatureException"):
		return "AWS does not know these keys: check AWS_PROFILE, the region and the clock; aws sts get-caller-identity must answer"
	case has("Lake Formation permission"):
		return grant(text, table)
	case has("not authorized to perform", "api error AccessDenied", "api error Forbidden"):
		return allow(text)
	case has("operation error DynamoDB") && has("ResourceNotFoundException"):
		return "the state table is the stack's output StateTable: check its name, and that AWS_REGION is the stack's region"
	case has(".amazonaws.com") && has("no such host"):
		return "the region has no such service, or its name is mistyped: check AWS_REGION"
	case has("not an Iceberg table"):
		return "only Iceberg tables are maintained: Spark's procedure migrate, or CREATE TABLE … AS in Athena, makes one of it"
	}
	return ""
}

// grant is the command by which an administrator of the data lake lets the caller in.
func grant(text string, table maintenance.TableID) string {
	permissions := "DESCRIBE SELECT"
	if strings.Contains(text, "UpdateTable") {
		permissions += " ALTER"
	}
	return fmt.Sprintf(`an administrator of the data lake grants it: aws lakeformation grant-permissions --permissions %s --principal `+
		`DataLakePrincipalIdentifier=ARN_OF_YOUR_ROLE --resource '{"Table": {"DatabaseName": %q, "Name": %q}}'`, permissions, table.Namespace.String(), table.Name)
}

// allow names the action and the resource that a policy has to allow.
func allow(text string) string {
	// The first is IAM's sentence, the second the SDK's words around it.
	sentence := regexp.MustCompile(`not authorized to perform:? ([a-z0-9-]+:[A-Za-z]+)(?: on (?:the )?resource:? "?([^\s",]+)"?)?`)
	operation := regexp.MustCompile(`operation error ([A-Za-z0-9 ]+): ([A-Za-z0-9]+)`)
	object := regexp.MustCompile(`s3://([^/\s]+)(/[^\s:]*)?`)
	action, resource := "", ""
	if m := sentence.FindStringSubmatch(text); m != nil {
		action, resource = m[1], m[2]
	} else if m := operation.FindStringSubmatch(text); m != nil {
		action = strings.ToLower(strings.ReplaceAll(m[1], " ", "")) + ":" + m[2]
	}
	if name, is := strings.CutPrefix(action, "s3:"); is {
		action = "s3:" + objectAction(name)
	}
	if at := object.FindStringSubmatch(text); resource == "" && strings.HasPrefix(action, "s3:") && at != nil {
		if resource = "arn:aws:s3:::" + at[1]; !strings.HasPrefix(action, "s3:List") {
			resource += at[2]
		}
	}
	switch {
	case action == "":
		return "check the permissions of the credentials in use"
	case strings.Contains(text, "explicit deny"):
		return fmt.Sprintf("a policy denies %s on %s explicitly: only a change of that policy lets it pass", action, orAny(resource))
	}
	return fmt.Sprintf("allow %s on %s to the credentials in use", action, orAny(resource))
}

func orAny(resource string) string {
	if resource == "" {
		return "the table"
	}
	return resource
}

// objectAction is IAM's word for an operation of S3.
func objectAction(name string) string {
	switch name {
	case "HeadObject":
		return "GetObject"
	case "ListObjectsV2", "HeadBucket":
		return "ListBucket"
	case "ListMultipartUploads":
		return "ListBucketMultipartUploads"
	case "ListObjectVersions":
		return "ListBucketVersions"
	case "DeleteObjects":
		return "DeleteObject"
	case "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload":
		return "PutObject"
	}
	return name
}
