package settings

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Services that requests to a REST catalog are signed for.
const (
	SigningGlue = "glue"
	SigningAPI  = "execute-api"
)

// LakeFormationGrant lets the template grant the functions' roles in Lake Formation.
const LakeFormationGrant = "grant"

// Signing is the service that requests to a REST catalog are signed for (SigV4): SigningGlue, or SigningAPI for one behind API Gateway, which is the
// default of Java and of the functions; "" when nothing is signed.
func (c Catalog) Signing() string {
	signed := strings.EqualFold(c.Properties["rest.sigv4-enabled"], "true") || c.Properties["rest.auth.type"] == "sigv4"
	if c.Kind != CatalogREST || !signed {
		return ""
	}
	if name := c.Properties["rest.signing-name"]; name != "" {
		return name
	}
	return SigningAPI
}

// API is the ID of the API of API Gateway that a catalog's URI names; "" when it names none.
func (c Catalog) API() string {
	uri, err := url.Parse(c.Properties["uri"])
	if err != nil {
		return ""
	}
	labels := strings.Split(uri.Hostname(), ".")
	if len(labels) < 4 || labels[1] != SigningAPI {
		return ""
	}
	return labels[0]
}

func (s Settings) checkSigning() []error {
	switch name := s.Catalog.Signing(); name {
	case "", SigningGlue:
		return nil
	case SigningAPI:
		if s.Catalog.API() == "" {
			return []error{errors.New("catalog.uri: requests that are signed for API Gateway want https://ID.execute-api.REGION.amazonaws.com/STAGE; for Glue set catalog.rest.signing-name=glue")}
		}
		return nil
	case "s3tables":
		return []error{errors.New("catalog.rest.signing-name=s3tables: a table bucket is catalog=s3tables")}
	default:
		return []error{fmt.Errorf("catalog.rest.signing-name=%s: want glue or execute-api", name)}
	}
}

// checkLakeFormation: a grant names a whole database or one table, and only Glue asks for it.
func (s Settings) checkLakeFormation() []error {
	if s.LakeFormation == "" {
		return nil
	}
	if s.LakeFormation != LakeFormationGrant {
		return []error{fmt.Errorf("lake-formation=%s: want grant, or nothing", s.LakeFormation)}
	}
	var faults []error
	if s.Catalog.Kind != CatalogGlue && s.Catalog.Signing() != SigningGlue {
		faults = append(faults, fmt.Errorf("lake-formation=grant: catalog=%s is not governed by it", s.Catalog.Kind))
	}
	for _, pattern := range s.Tables {
		parts := strings.Split(pattern, ".")
		table := parts[len(parts)-1]
		whole := len(parts) == 2 || len(parts) == 3
		if !whole || strings.Contains(parts[len(parts)-2], "*") || table != "*" && strings.Contains(table, "*") {
			faults = append(faults, fmt.Errorf("lake-formation=grant: tables=%s is neither one table nor all of one database: grant by hand", pattern))
		}
	}
	return faults
}
