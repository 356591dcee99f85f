package local

import (
	"testing"

	"firn/internal/workflow"
	"firn/internal/workflow/definition"
)

func TestDefinitionLoads(t *testing.T) {
	t.Parallel()
	_, err := workflow.Load(definition.Maintain, workflow.Options{Substitutions: substitutions()})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range definition.Substitutions() {
		if substitutions()[name] == "" {
			t.Errorf("placeholder %s has no value here", name)
		}
	}
}
