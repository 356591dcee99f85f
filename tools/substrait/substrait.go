// Package substrait stands in for the module of that name, which holds the definitions of 700 functions in YAML. iceberg-go parses all of them
// whenever a process starts, for filters of its scans; Firn scans nothing with it. See docs/adr/0026.
package substrait

import "embed"

//go:embed extensions/none.yaml
var extensions embed.FS

// GetSubstraitExtensionsFS returns a tree without definitions: one file in "extensions", since readers expect that there is one.
func GetSubstraitExtensionsFS() embed.FS { return extensions }
