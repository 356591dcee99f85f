package catalogs

import (
	"context"
	"fmt"
	"sort"
	"strings"
)

// Kinds of catalogs, values of property "type".
const (
	TypeSQL    = "sql"
	TypeREST   = "rest"
	TypeGlue   = "glue"
	TypeMemory = "in-memory"
)

// typeNames maps what users write to the kinds: PyIceberg's types, Java's types and Java's class names (property "catalog-impl").
func typeNames() map[string]string {
	return map[string]string{
		TypeSQL: TypeSQL, TypeREST: TypeREST, TypeGlue: TypeGlue, TypeMemory: TypeMemory,
		"jdbc":                                    TypeSQL,
		"org.apache.iceberg.jdbc.jdbccatalog":     TypeSQL,
		"org.apache.iceberg.rest.restcatalog":     TypeREST,
		"org.apache.iceberg.aws.glue.gluecatalog": TypeGlue,
	}
}

// Kind says which kind of catalog the properties describe: by "type", else by Java's "catalog-impl", else by the form of "uri" as PyIceberg
// does. An unknown kind is an error that names the known ones.
func Kind(props map[string]string) (string, error) {
	for _, key := range []string{PropType, PropImpl} {
		text := props[key]
		if text == "" {
			continue
		}
		if kind, ok := typeNames()[strings.ToLower(text)]; ok {
			return kind, nil
		}
		return "", fmt.Errorf("read catalog property %s: unknown catalog %q; known are %s, %s, %s and %s", key, text, TypeSQL, TypeREST, TypeGlue, TypeMemory)
	}
	uri := strings.ToLower(props[PropURI])
	switch {
	case strings.HasPrefix(uri, "http://"), strings.HasPrefix(uri, "https://"):
		return TypeREST, nil
	case strings.HasPrefix(strings.TrimPrefix(uri, "jdbc:"), "sqlite"), strings.HasPrefix(strings.TrimPrefix(uri, "jdbc:"), "postgres"):
		return TypeSQL, nil
	case uri == "":
		return "", fmt.Errorf("read catalog properties (given: %s): set %s to %s, %s, %s or %s, and %s", strings.Join(sortedKeys(props), ", "),
			PropType, TypeSQL, TypeREST, TypeGlue, TypeMemory, PropURI)
	}
	return "", fmt.Errorf("read catalog property %s: cannot tell the kind of catalog from it: set %s to %s, %s, %s or %s", PropURI, PropType, TypeSQL, TypeREST, TypeGlue, TypeMemory)
}

// sortedKeys lists keys for messages; values may be secrets.
func sortedKeys[V any](props map[string]V) []string {
	keys := make([]string, 0, len(props))
	for k := range props {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	if len(keys) == 0 {
		return []string{"none"}
	}
	return keys
}

// Open makes the catalog that the properties describe (names as in PyIceberg and Java; package store reads the s3.* ones). The result also is a
// Registrar, and a Swapper (SQL, Glue, memory) or a Server (REST). It may be an io.Closer. Each call of kind "in-memory" makes an empty catalog.
func Open(ctx context.Context, name string, props map[string]string) (Catalog, error) {
	kind, err := Kind(props)
	if err != nil {
		return nil, fmt.Errorf("open catalog %q: %w", name, err)
	}
	var cat Catalog
	switch kind {
	case TypeSQL:
		cat, err = OpenSQL(name, props)
	case TypeMemory:
		cat = NewMemory(name)
	case TypeREST:
		cat, err = OpenREST(name, props)
	case TypeGlue:
		cat, err = OpenGlue(ctx, name, props)
	}
	if err != nil {
		return nil, fmt.Errorf("open catalog %q: %w", name, err)
	}
	return cat, nil
}
