package edge

import "time"

// SetClock sets the clock that says how old a secret is.
func SetClock(c *Clients, now func() time.Time) { c.now = now }

// CompleteSecret adds a secret's properties to those of its catalog.
func CompleteSecret(text string, props map[string]string) (map[string]string, error) {
	return secret{arn: props[PropSecret], text: text}.complete(props)
}
