// Package definition holds the one state machine definition of Firn as embedded text. Three hosts read the same bytes: Step Functions (through
// the CDK app, as a definition string with substitutions), the interpreter in one process, and the interpreter with built functions.
package definition

import _ "embed"

// Maintain is maintain.asl.json. Its placeholders are the keys of Substitutions.
//
//go:embed maintain.asl.json
var Maintain []byte

// Substitutions returns the names of the placeholders that a host replaces: five functions (their ARNs, or any name that the host resolves) and
// two limits.
func Substitutions() []string {
	return []string{
		"PlanFunction", "CompactFunction", "CommitFunction", "SweepFunction", "ReportFunction", "CompactConcurrency", "SweepConcurrency",
	}
}
