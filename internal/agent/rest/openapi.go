// SPDX-License-Identifier: Apache-2.0

package rest

import (
	_ "embed"
	"net/http"
)

//go:embed openapi.json
var openAPI string

// OpenAPI returns the description of the routes below /v2, an OpenAPI 3 document in JSON.
func OpenAPI() string { return openAPI }

// serveOpenAPI is GET /v2/openapi.json; it needs no authentication.
func (a *API) serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, jsonType, []byte(openAPI))
}
