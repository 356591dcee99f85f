package compact

import (
	"context"
	"strings"

	"firn/internal/compact/content"
	"firn/internal/compact/engine"
	"firn/internal/decide"
	"firn/internal/handoff"
)

// proveContents reads inputs and outputs again, where the call asks for it, and puts what it finds in the place of the engine's own proof.
func (f *Function) proveContents(ctx context.Context, g *handoff.Group, job engine.Job, made *engine.Result) (err error) {
	if !strings.EqualFold(g.Options[decide.OptionProof], string(decide.ProofContent)) {
		return nil
	}
	if made.Proof.Columns, err = content.Prove(ctx, f.deps.Store, job, made.Outputs); err != nil {
		return err
	}
	made.Name += " (contents proved)"
	return nil
}
