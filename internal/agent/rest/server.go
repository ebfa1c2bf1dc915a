// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"io"
	"log"
	"net/http"
	"time"
)

// Limits of the server.
const (
	headerBytes  = 16 << 10
	readTimeout  = 10 * time.Second
	writeTimeout = time.Minute
	idleTimeout  = time.Minute
	// workTimeout is the timeout for all requests to the API server in a request; the rest of writeTimeout is for the
	// response.
	workTimeout = 30 * time.Second
)

// Server returns a server of the API that limits the resources that a client can use. All requests pass the gate.
func (a *API) Server() *http.Server {
	return &http.Server{
		Handler: a, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: headerBytes, DisableGeneralOptionsHandler: true, ErrorLog: log.New(io.Discard, "", 0), // client errors are not logged
	}
}
