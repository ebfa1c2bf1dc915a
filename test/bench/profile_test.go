// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"everynode.dev/everynode/test/harness"
)

const profilePath = "/debug/pprof/profile"

// freeAddress is one on loopback that nobody listens on.
func freeAddress() (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

// managed is whether the controller of a row is everynode-manager.
func (w row) managed() bool { return !w.floor() && w.controller != harness.Native }

// profileFile is where the profile of a scenario is: the manager's, or with apiServer that one's.
func profileFile(dir string, m result, of string) string {
	name := fmt.Sprintf("%s-%d-%s", m.Row, m.Nodes, m.Scenario)
	if m.Round > 0 {
		name += fmt.Sprintf("-%d", m.Round+1)
	}
	if of == apiServer {
		name += "-" + of
	}
	return filepath.Join(dir, "profiles", name+".pb.gz")
}

// profile begins CPU profiles of the API server and, if profiles are to be kept, of the manager. The function returned ends them, and writes
// into the result, if there is one, what the API server's says. A profile is made when it ends, and by then what the scenario has used was read.
func (b *bench) profile(scenario string) (done func(*result) error, err error) {
	var ends []func(*result) error
	begin := func(of string, dial func() (halfCloser, error), take func(*result, *profile.Profile)) error {
		connection, err := dial()
		if err != nil {
			return fmt.Errorf("connecting to %s for a profile: %w", of, err)
		}
		asked, err := askForProfile(connection)
		if err != nil {
			return fmt.Errorf("asking %s for a profile: %w", of, err)
		}
		file := profileFile(*out, result{Row: b.row.Name, Nodes: len(b.nodes), Scenario: scenario, Round: b.round}, of)
		ends = append(ends, func(r *result) error {
			raw, p, err := asked.end()
			if err == nil && r != nil {
				take(r, p)
			}
			if err != nil || !b.profiled {
				return err
			}
			return keep(file, raw)
		})
		return nil
	}
	err = begin(apiServer, func() (halfCloser, error) { return dialServer(b.ctx, b.cluster.Config) }, func(r *result, p *profile.Profile) { r.Server = partsOf(p) })
	if b.row.managed() && b.profiled {
		err = errors.Join(err, begin(harness.ManagerComponent, func() (halfCloser, error) { return dialPlain(b.ctx, b.metrics) }, func(*result, *profile.Profile) {}))
	}
	return func(r *result) error {
		var group errgroup.Group
		for _, end := range ends {
			group.Go(func() error { return end(r) })
		}
		return group.Wait()
	}, err
}

// halfCloser is a connection of which this side can say that it sends no more, and still reads.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

func dialPlain(ctx context.Context, address string) (halfCloser, error) {
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	tcp, ok := connection.(*net.TCPConn)
	if !ok {
		return nil, fmt.Errorf("the connection is a %T", connection)
	}
	return tcp, nil
}

// dialServer connects to an API server with HTTP/1.1.
func dialServer(ctx context.Context, config *rest.Config) (halfCloser, error) {
	where, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	security, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	security.NextProtos = []string{"http/1.1"}
	connection, err := (&tls.Dialer{Config: security}).DialContext(ctx, "tcp", where.Host)
	if err != nil {
		return nil, err
	}
	secure, ok := connection.(*tls.Conn)
	if !ok {
		return nil, fmt.Errorf("the connection is a %T", connection)
	}
	return secure, nil
}

// asked is a profile that is under way.
type asked struct {
	connection halfCloser
	request    *http.Request
}

// askForProfile begins one that goes on until it is ended. How long a scenario takes is not known before; but net/http/pprof ends a profile
// early when the client has gone, and one that has only stopped sending still gets it.
func askForProfile(connection halfCloser) (*asked, error) {
	const longest = 2 * notBy
	address := fmt.Sprintf("http://%s%s?seconds=%.0f", connection.RemoteAddr(), profilePath, longest.Seconds())
	request, err := http.NewRequest(http.MethodGet, address, nil) //nolint:noctx // it goes out over a connection that is there
	if err == nil {
		err = request.Write(connection)
	}
	if err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	return &asked{connection, request}, nil
}

// end ends the profile, and returns it as it was sent, and read.
func (a *asked) end() ([]byte, *profile.Profile, error) {
	defer a.connection.Close()
	const patience = time.Minute
	err := errors.Join(a.connection.SetDeadline(time.Now().Add(patience)), a.connection.CloseWrite())
	if err != nil {
		return nil, nil, fmt.Errorf("ending a profile: %w", err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(a.connection), a.request)
	if err != nil {
		return nil, nil, fmt.Errorf("reading a profile: %w", err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, raw)
	}
	var p *profile.Profile
	if err == nil {
		p, err = profile.ParseData(raw)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading a profile: %w", err)
	}
	return raw, p, nil
}

// keep writes a profile to a file.
func keep(file string, raw []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, raw, 0o644)
}

func TestProfiled(t *testing.T) {
	for _, w := range rows() {
		if want := w.Name == everynodeRow || w.Name == advancedRow || w.Name == inPlaceRow; w.managed() != want {
			t.Errorf("whether %s has a manager: %v", w.Name, w.managed())
		}
	}
}

// TestWholeProfile: a profile goes on until it is ended, and is complete then, with TLS and without.
func TestWholeProfile(t *testing.T) {
	began := make(chan struct{}, 1)
	mux := http.NewServeMux()
	mux.HandleFunc(profilePath, func(w http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		pprof.Profile(w, r)
	})
	plain, secure := httptest.NewServer(mux), httptest.NewTLSServer(mux)
	defer plain.Close()
	defer secure.Close()
	for name, dial := range map[string]func() (halfCloser, error){
		"plain": func() (halfCloser, error) { return dialPlain(t.Context(), plain.Listener.Addr().String()) },
		"tls": func() (halfCloser, error) {
			return dialServer(t.Context(), &rest.Config{Host: secure.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
		},
	} {
		connection, err := dial()
		if err != nil {
			t.Fatal(name, err)
		}
		asked, err := askForProfile(connection)
		if err != nil {
			t.Fatal(name, err)
		}
		<-began
		before := usageOf(t)
		for usageOf(t).CPU < before.CPU+0.3 { // something to see
			for i := range 1000 {
				_ = fmt.Sprint(i)
			}
		}
		file := filepath.Join(t.TempDir(), "profiles", name)
		sent, _, err := asked.end()
		if err = errors.Join(err, keep(file, sent)); err != nil {
			t.Fatal(name, err)
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := profile.ParseData(raw); err != nil || len(p.Sample) == 0 || time.Duration(p.DurationNanos) > notBy {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
}

func usageOf(t *testing.T) usage {
	t.Helper()
	u, err := readUsage(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return u
}
