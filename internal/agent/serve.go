// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/klog/v2"
)

// stuckAfter is how long the loop may pause before the agent reports itself unhealthy. It takes a step at least every
// lookupInterval, and a runtime that hangs delays it by a few calls.
const stuckAfter = 5 * time.Minute

// probes are the inputs of the health checks.
type probes struct {
	ready func() bool
	// heartbeat is the Unix time of the last step of the loop, 0 before the first: waiting for the API server is
	// healthy.
	heartbeat *atomic.Int64
}

// serve serves metrics and health at an address until the returned function is called. The address "0" serves nothing.
func serve(address string, registry *prometheus.Registry, p probes) (func(), error) {
	if address == "0" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serving metrics: %w (set another --metrics-bind-address)", err)
	}
	server := &http.Server{Handler: p.handler(registry), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			klog.ErrorS(err, "Serving metrics")
		}
	}()
	return func() { _ = server.Close() }, nil
}

func (p probes) handler(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		last := p.heartbeat.Load()
		silent := time.Since(time.Unix(last, 0))
		answer(w, last == 0 || silent < stuckAfter, fmt.Sprintf("the main loop has not run for %v", silent.Round(time.Second)))
	})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, p.ready(), "the NodeImage of the node has not been read yet")
	})
	return mux
}

func answer(w http.ResponseWriter, ok bool, fault string) {
	if !ok {
		http.Error(w, fault, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
