// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// How the connection to the API server is checked.
const (
	// connectedTTL is how long a success is valid, and disconnectedTTL how long a failed probe is, so that no caller
	// waits twice in a row.
	connectedTTL, disconnectedTTL = 5 * time.Second, time.Second
	// probeTimeout limits one probe, and probeTries is how many in a row must fail, because one response may be lost.
	probeTimeout = 2 * time.Second
	probeTries   = 2
)

// connectivity reports whether the API server answers. It probes only on request: a hundred thousand agents that probe
// every few seconds would cause most of the load of an API server.
type connectivity struct {
	// probe sends a request to the API server.
	probe func(ctx context.Context) error
	now   func() time.Time
	// report, when not nil, is called with the result of every probe.
	report func(connected bool)

	// mu is held during a probe: other callers wait for the same result.
	mu        sync.Mutex
	connected bool
	until     time.Time
}

// Connected reports whether the API server answers.
func (r *connectivity) Connected(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now().Before(r.until) {
		return r.connected
	}
	err := r.ask(ctx)
	if ctx.Err() != nil && err != nil {
		return false // the request was cancelled, which is not a result
	}
	if was := r.connected; was != (err == nil) || r.until.IsZero() {
		klog.InfoS("Connection to the API server checked", "connected", err == nil, "err", err)
	}
	r.connected = err == nil
	if r.report != nil {
		r.report(r.connected)
	}
	r.until = r.now().Add(disconnectedTTL)
	if r.connected {
		r.until = r.now().Add(connectedTTL)
	}
	return r.connected
}

func (r *connectivity) ask(ctx context.Context) (err error) {
	for range probeTries {
		try, cancel := context.WithTimeout(ctx, probeTimeout)
		err = r.probe(try)
		cancel()
		if err == nil {
			return nil
		}
	}
	return err
}
