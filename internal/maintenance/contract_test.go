package maintenance_test

import (
	"slices"
	"testing"

	"firn/internal/contract"
	"firn/internal/maintenance"
)

// TestContractNamesTheJobs: alarms sum metrics over the jobs that the contract names.
func TestContractNamesTheJobs(t *testing.T) {
	t.Parallel()
	var names []string
	for _, job := range maintenance.Jobs() {
		names = append(names, string(job))
	}
	if !slices.Equal(names, contract.Jobs()) {
		t.Errorf("contract names %v, jobs are %v", contract.Jobs(), names)
	}
}
