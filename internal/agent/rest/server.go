// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"io"
	"log"
	"net/http"
	"time"
)

// Bounds of a server.
const (
	headerBytes  = 16 << 10
	readTimeout  = 10 * time.Second
	writeTimeout = time.Minute
	idleTimeout  = time.Minute
	// workTimeout is how long all may take that a request asks of the API server; the rest of writeTimeout is for the answer.
	workTimeout = 30 * time.Second
)

// Server returns a server of the API, bounded in what a client can make it hold. All that comes reaches the gate.
func (a *API) Server() *http.Server {
	return &http.Server{
		Handler: a, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: headerBytes, DisableGeneralOptionsHandler: true, ErrorLog: log.New(io.Discard, "", 0), // what clients get wrong is theirs
	}
}
