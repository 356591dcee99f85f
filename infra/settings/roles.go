package settings

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"firn/internal/contract"
)

// functionHole stands in a role's ARN for the name of the function that takes it.
const functionHole = "{function}"

// BucketRole is the role of another account in which a bucket of its is reached: one role a function, or what keeps the functions' powers apart would be
// undone by a role that holds all of them.
type BucketRole struct {
	Bucket string
	// Pattern is the ARN with {function} for the function's name.
	Pattern string
}

// ARN is the role that a function takes.
func (r BucketRole) ARN(function string) string {
	return strings.ReplaceAll(r.Pattern, functionHole, function)
}

// ReachesFiles reports a function that reads or writes tables' files, and so takes the roles of other accounts' buckets.
func ReachesFiles(function string) bool {
	return function != contract.FunctionSchedule && function != contract.FunctionReport
}

// RoleOf is the role in which a bucket is reached; false for a bucket that the functions reach in their own.
func (s Settings) RoleOf(bucket string) (BucketRole, bool) {
	i := slices.IndexFunc(s.Roles, func(r BucketRole) bool { return r.Bucket == bucket })
	if i < 0 {
		return BucketRole{}, false
	}
	return s.Roles[i], true
}

func setRoles(s *Settings, value string) error {
	s.Roles = nil
	for _, pair := range split(value) {
		bucket, pattern, found := strings.Cut(pair, "=")
		if !found {
			return fmt.Errorf("%q is not bucket=ARN", pair)
		}
		s.Roles = append(s.Roles, BucketRole{Bucket: strings.TrimSpace(bucket), Pattern: strings.TrimSpace(pattern)})
	}
	return nil
}

// checkRoles: a role is of a warehouse's bucket, and it is the function's own.
func (s Settings) checkRoles() []error {
	var faults []error
	seen := map[string]bool{}
	for _, r := range s.Roles {
		fault := func(why string) {
			faults = append(faults, fmt.Errorf("warehouse.roles: %s=%s: %s", r.Bucket, r.Pattern, why))
		}
		parts := strings.SplitN(r.Pattern, ":", 6)
		switch {
		case !slices.ContainsFunc(s.Warehouses, func(w Warehouse) bool { return w.Bucket == r.Bucket }):
			fault("no warehouse lies in this bucket")
		case seen[r.Bucket]:
			fault("the bucket has a role already")
		case len(parts) != 6 || parts[0] != "arn" || parts[2] != "iam" || len(parts[4]) != 12 || strings.Trim(parts[4], "0123456789") != "" ||
			!strings.HasPrefix(parts[5], "role/") || strings.ContainsAny(r.Pattern, "*?$ "):
			fault("want the ARN of a role, arn:aws:iam::ACCOUNT:role/NAME")
		case !strings.Contains(parts[5], functionHole):
			fault("want {function} in the name, which becomes evaluate, plan, compact, commit and sweep: one role for all would hold the powers that the functions do not share")
		}
		seen[r.Bucket] = true
	}
	if s.Catalog.Kind == CatalogS3Tables && len(s.Roles) > 0 {
		faults = append(faults, errors.New("warehouse.roles: a table bucket is opened by its own policy, not by roles"))
	}
	return faults
}
