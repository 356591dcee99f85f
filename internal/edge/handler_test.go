package edge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/aws/aws-lambda-go/lambda/messages"

	"firn/internal/contract"
	"firn/internal/edge"
	"firn/internal/lake/catalogs"
	"firn/internal/maintenance"
	"firn/internal/state"
	"firn/internal/store"
)

type input struct {
	V    int    `json:"v"`
	Name string `json:"name"`
}

func echo(_ context.Context, in input) (input, error) { return in, nil }

func TestHandlerDecodesStrictly(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"v":1,"name":"x"}`:          "",
		`{"v":1,"name":"x","more":1}`: contract.ErrorBadInput,
		`{"v":2,"name":"x"}`:          contract.ErrorUnsupportedVersion,
		`{"v":2,"more":"x"}`:          contract.ErrorUnsupportedVersion,
		`{"name":"x"}`:                contract.ErrorBadInput,
		`[]`:                          contract.ErrorBadInput,
		``:                            contract.ErrorBadInput,
	} {
		out, err := edge.Handler(echo)(context.Background(), json.RawMessage(payload))
		var named *edge.Error
		switch {
		case want == "" && (err != nil || string(out) != payload):
			t.Errorf("%s: %s, %v", payload, out, err)
		case want != "" && (!errors.As(err, &named) || named.Name != want):
			t.Errorf("%s: error %v, want %s", payload, err, want)
		}
	}
}

func TestErrorsAreNamed(t *testing.T) {
	t.Parallel()
	wrap := func(err error) error { return fmt.Errorf("outer: %w", fmt.Errorf("inner: %w", err)) }
	for name, err := range map[string]error{
		contract.ErrorTransient:          wrap(store.ErrTransient),
		contract.ErrorRefused:            wrap(catalogs.ErrRefused),
		contract.ErrorConflict:           wrap(catalogs.ErrConflict),
		contract.ErrorLeaseLost:          wrap(state.ErrLeaseLost),
		contract.ErrorCommitStateUnknown: wrap(maintenance.Named(contract.ErrorCommitStateUnknown, store.ErrTransient)),
		contract.ErrorInternal:           errors.New("else"),
	} {
		fail := func(context.Context, input) (input, error) { return input{}, err }
		_, got := edge.Lambda(edge.Handler(fail))(context.Background(), json.RawMessage(`{"v":1,"name":""}`))
		var sent messages.InvokeResponse_Error
		if !errors.As(got, &sent) || sent.Type != name || sent.Message != err.Error() {
			t.Errorf("error %v reported as %#v, want type %s", err, got, name)
		}
	}
}
