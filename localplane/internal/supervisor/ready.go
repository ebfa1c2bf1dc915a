// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"everynode.dev/everynode/localplane/internal/component"
	"everynode.dev/everynode/localplane/internal/proc"
)

const (
	probeInterval = 50 * time.Millisecond
	probeTimeout  = 2 * time.Second
	// tailLines is the number of log lines in an error.
	tailLines = 12
)

// waitReady waits until the process p is ready. It returns an error when the process ends, when ctx or the plane ends,
// and after readyTimeout.
func (u *unit) waitReady(ctx context.Context, p *proc.Process) error {
	probe, err := newProber(u.component.Ready, u.hostPID())
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

// failure returns an error with the end of the component's log.
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

// awaitOthers waits until the required components are ready. Their own starts report their errors. A restart that was
// not requested waits without a timeout, unless the component is killed.
func (u *unit) awaitOthers(ctx context.Context, why cause) error {
	timeout := time.NewTimer(readyTimeout)
	defer timeout.Stop()
	late := timeout.C
	if why == unasked {
		late = nil
	}
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for _, name := range u.component.After {
		for !u.sup.isReady(name) {
			if why == unasked && !u.isProven() {
				return errUnwanted
			}
			select {
			case <-tick.C:
			case <-late:
				return fmt.Errorf("starting %s: %s is not ready after %s: `component start %s` first", u.component.Name, name, readyTimeout, name)
			case <-ctx.Done():
				return fmt.Errorf("starting %s: waiting for %s: %w", u.component.Name, name, context.Cause(ctx))
			case <-u.sup.ctx.Done():
				return errStopping
			}
		}
	}
	return nil
}

// prober checks whether one process is ready.
type prober struct {
	probe component.Probe
	// inside is a process in whose namespaces the check runs; 0 for those of this process.
	inside int
	client *http.Client
}

func newProber(probe component.Probe, inside int) (*prober, error) {
	p := &prober{probe: probe, inside: inside}
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
	p.client = &http.Client{Transport: &http.Transport{TLSClientConfig: config, DialContext: p.dial}, Timeout: probeTimeout}
	return p, nil
}

func (p *prober) close() {
	if p.client != nil {
		p.client.CloseIdleConnections()
	}
}

func (p *prober) dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	var dialer net.Dialer
	if p.inside == 0 {
		return dialer.DialContext(ctx, network, address)
	}
	err = proc.Within(p.inside, func() (err error) {
		conn, err = dialer.DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// runtimeAnswers reports whether the CRI service of a container runtime answers. The path of its socket is inside the namespaces.
func (p *prober) runtimeAnswers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	conn, err := grpc.NewClient(fmt.Sprintf("unix:/proc/%d/root%s", p.inside, p.probe.Runtime), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return false
	}
	defer conn.Close()
	_, err = cri.NewRuntimeServiceClient(conn).Version(ctx, &cri.VersionRequest{})
	return err == nil
}

func (p *prober) excused() bool {
	if p.probe.Excuse == "" {
		return false
	}
	_, err := os.Stat(p.probe.Excuse)
	return err == nil
}

func (p *prober) ready(ctx context.Context) bool {
	if p.excused() {
		return true
	}
	if p.probe.Runtime != "" {
		return p.runtimeAnswers(ctx)
	}
	if p.client == nil {
		_, err := os.Stat(p.probe.File)
		return err == nil
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
