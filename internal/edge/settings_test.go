package edge_test

import (
	"context"
	"strings"
	"testing"

	"firn/internal/contract"
	"firn/internal/edge"
)

func TestSettingsNameTheNearestKey(t *testing.T) {
	t.Parallel()
	_, err := edge.ParseSettings([]byte("catalog: a\nwork-locatoin: s3://b/w\n"))
	if err == nil || !strings.Contains(err.Error(), `"work-locatoin"; did you mean work-location?`) {
		t.Errorf("error %v", err)
	}
}

func TestLambdaSettings(t *testing.T) {
	t.Parallel()
	s, err := edge.LambdaSettings(context.Background(), []string{
		contract.EnvConfig + "=catalog: lake\ncatalogs: {lake: {type: sql, uri: 'sqlite:////tmp/c.db'}}",
		contract.EnvWorkLocation + "=s3://work/firn", contract.EnvStateLocation + "=/tmp/s.db",
		contract.EnvSpillDir + "=/mnt/spill", contract.EnvSpillLimitBytes + "=1000", contract.EnvBucketRoles + "=a=arn:aws:iam::1:role/x,b=arn:aws:iam::1:role/y",
	})
	if s.BucketRoles["a"] != "arn:aws:iam::1:role/x" || s.BucketRoles["b"] != "arn:aws:iam::1:role/y" || len(s.BucketRoles) != 2 {
		t.Errorf("roles %v", s.BucketRoles)
	}
	if err != nil || s.SpillDir != "/mnt/spill" || s.SpillLimitBytes != 1000 || s.Catalog != "lake" || s.Catalogs["lake"]["type"] != "sql" || s.WorkLocation != "s3://work/firn" || s.StateLocation != "/tmp/s.db" {
		t.Errorf("settings %+v, %v", s, err)
	}
	if _, err := edge.LambdaSettings(context.Background(), []string{contract.EnvSpillLimitBytes + "=much"}); err == nil ||
		!strings.Contains(err.Error(), contract.EnvSpillLimitBytes) {
		t.Errorf("a limit that is no number: %v", err)
	}
	if _, err := edge.LambdaSettings(context.Background(), []string{contract.EnvBucketRoles + "=a"}); err == nil || !strings.Contains(err.Error(), contract.EnvBucketRoles) {
		t.Errorf("a role without ARN: %v", err)
	}
	if _, err := edge.LambdaSettings(context.Background(), nil); err == nil || !strings.Contains(err.Error(), contract.EnvWorkLocation) ||
		!strings.Contains(err.Error(), contract.EnvStateLocation) {
		t.Errorf("missing variables: %v: want both named", err)
	}
}

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  map[string]string
		want int64
		ok   bool
	}{
		"85 % of the function's memory": {map[string]string{"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1000"}, 1000 << 20 / 100 * 85, true},
		"GOMEMLIMIT wins":               {map[string]string{"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1000", "GOMEMLIMIT": "100MiB"}, 0, false},
		"nobody tells":                  {nil, 0, false},
		"no number":                     {map[string]string{"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "much"}, 0, false},
	} {
		if got, ok := edge.MemoryLimit(c.env); got != c.want || ok != c.ok {
			t.Errorf("%s: %d, %t", name, got, ok)
		}
	}
}
