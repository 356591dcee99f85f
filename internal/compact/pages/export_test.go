package pages

// Spoil makes an engine overwrite the memory of reads as soon as it is given back.
func Spoil(e *Engine) *Engine {
	e.spoil = true
	return e
}
