package handoff

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// decodeFresh zeroes *v before decoding into it.
func decodeFresh(data []byte, v any) error {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return fmt.Errorf("decode into %T: want a pointer", v)
	}
	p.Elem().SetZero()
	return json.Unmarshal(data, v)
}
