package maintenance

// NamedError carries the name (package contract: Error...) under which the state machine sees an error. The room that knows what an error means
// names it; the handler's edge reports the outermost name.
type NamedError struct {
	// Name is one of the contract's error names.
	Name string
	// Err is the error itself.
	Err error
}

// Error prints the error without its name.
func (e *NamedError) Error() string { return e.Err.Error() }

// Unwrap returns the error itself.
func (e *NamedError) Unwrap() error { return e.Err }

// Named gives an error a name.
func Named(name string, err error) error { return &NamedError{Name: name, Err: err} }
