// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"everynode.dev/everynode/localplane/internal/component"
	"everynode.dev/everynode/localplane/internal/proc"
)

const (
	probeInterval = 50 * time.Millisecond
	probeTimeout  = 2 * time.Second
	// tailLines is how much of a log goes into an error.
	tailLines = 12
)

// waitReady waits until the process p is ready. It ends with an error when the process ends, when ctx or the
// plane ends, and after readyTimeout.
func (u *unit) waitReady(ctx context.Context, p *proc.Process) error {
	probe, err := newProber(u.component.Ready, p.PID)
	if err != nil {
		return fmt.Errorf("looking at %s: %w", u.component.Name, err)
	}
	defer probe.close()
	timeout := time.NewTimer(readyTimeout)
	defer timeout.Stop()
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		if probe.ready(ctx) {
			u.markReady(p)
			return nil
		}
		select {
		case <-tick.C:
		case <-p.Done():
			return u.failure("ended before it was ready (" + p.ExitReason() + ")")
		case <-timeout.C:
			return u.failure(fmt.Sprintf("was not ready after %s", readyTimeout))
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", u.component.Name, context.Cause(ctx))
		case <-u.sup.ctx.Done():
			return errStopping
		}
	}
}

func (u *unit) markReady(p *proc.Process) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.process == p {
		u.ready, u.proven = true, true
	}
}

// failure is an error that carries the end of the component's log.
func (u *unit) failure(what string) error {
	path := u.sup.home.Log(u.component.Name)
	return fmt.Errorf("%s %s; the end of %s:\n%s", u.component.Name, what, path, tail(path))
}

func tail(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "  (" + err.Error() + ")"
	}
	lines := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	return "  " + strings.Join(lines, "\n  ")
}

// prober asks one process whether it is ready.
type prober struct {
	probe  component.Probe
	pid    int
	client *http.Client
}

func newProber(probe component.Probe, pid int) (*prober, error) {
	p := &prober{probe: probe, pid: pid}
	if probe.URL == "" {
		return p, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if probe.Authority != "" {
		raw, err := os.ReadFile(probe.Authority)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(raw)
	}
	if probe.Client != "" {
		pair, err := tls.LoadX509KeyPair(probe.Client+".crt", probe.Client+".key")
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	p.client = &http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: probeTimeout}
	return p, nil
}

func (p *prober) close() {
	if p.client != nil {
		p.client.CloseIdleConnections()
	}
}

func (p *prober) ready(ctx context.Context) bool {
	if p.client == nil {
		raw, err := os.ReadFile(p.probe.File)
		return err == nil && strings.TrimSpace(string(raw)) == strconv.Itoa(p.pid)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.probe.URL, nil)
	if err != nil {
		return false
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode == http.StatusOK
}
