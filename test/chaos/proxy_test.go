// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// slow is a proxy in front of an API server through which what watches of some resources show comes late. All else passes at once.
type slow struct {
	resources   []string
	least, most time.Duration

	mu     sync.Mutex
	random *rand.Rand
	// held is how many pieces of a watch have been held back, and worst the longest time.
	held  int
	worst time.Duration
}

// serve starts the proxy, and returns a kubeconfig that leads to it. It asks the API server with config.
func (s *slow) serve(t *testing.T, config *rest.Config) string {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      transport,
		FlushInterval:  -1, // a watch shows what there is
		ModifyResponse: s.hold,
	})
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	const name = "slow"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	raw, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: name, Clusters: map[string]*clientcmdapi.Cluster{name: {Server: server.URL}},
		Contexts: map[string]*clientcmdapi.Context{name: {Cluster: name}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// hold holds back the body of a watch of one of the resources.
func (s *slow) hold(answer *http.Response) error {
	request := answer.Request.URL
	resource := request.Path[strings.LastIndex(request.Path, "/")+1:]
	if slices.Contains(s.resources, resource) && request.Query().Get("watch") != "" {
		body := newLate(answer.Body, s.delay)
		context.AfterFunc(answer.Request.Context(), func() { _ = body.Close() }) // no reader waits for the rest
		answer.Body = body
	}
	return nil
}

// delay draws how long the next piece comes late.
func (s *slow) delay() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.least + time.Duration(s.random.Int64N(int64(s.most-s.least)))
	s.held, s.worst = s.held+1, max(s.worst, d)
	return d
}

// late is a stream whose pieces come late, in their order.
type late struct {
	from   io.ReadCloser
	pieces chan piece
	closed chan struct{}
	once   sync.Once
	rest   bytes.Buffer
}

type piece struct {
	data []byte
	err  error
	due  time.Time
}

func newLate(from io.ReadCloser, delay func() time.Duration) *late {
	const room = 100_000 // what is on its way
	l := &late{from: from, pieces: make(chan piece, room), closed: make(chan struct{})}
	go func() {
		var due time.Time
		for {
			data := make([]byte, 64<<10)
			n, err := from.Read(data)
			if next := time.Now().Add(delay()); next.After(due) {
				due = next
			}
			select {
			case l.pieces <- piece{data[:n], err, due}:
			case <-l.closed:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return l
}

// Read implements io.Reader.
func (l *late) Read(p []byte) (int, error) {
	if l.rest.Len() > 0 {
		return l.rest.Read(p)
	}
	select {
	case next := <-l.pieces:
		select {
		case <-time.After(time.Until(next.due)):
		case <-l.closed:
			return 0, io.ErrClosedPipe
		}
		l.rest.Write(next.data)
		n, _ := l.rest.Read(p)
		if l.rest.Len() > 0 {
			return n, nil // an error comes with nothing else that is left
		}
		return n, next.err
	case <-l.closed:
		return 0, io.ErrClosedPipe
	}
}

// Close implements io.Closer.
func (l *late) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.from.Close()
}

// TestLate: a watch comes late, in its order and whole; other requests do not.
func TestLate(t *testing.T) {
	const pieces = 5
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := range pieces {
			fmt.Fprintf(w, "%d\n", i)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	t.Cleanup(api.Close)
	const least = 200 * time.Millisecond
	s := &slow{resources: []string{"pods"}, least: least, most: 2 * least, random: rand.New(rand.NewPCG(1, 1))}
	config, err := clientcmd.BuildConfigFromFlags("", s.serve(t, &rest.Config{Host: api.URL}))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(path string) time.Duration {
		began := time.Now()
		answer, err := http.Get(config.Host + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if body, err := io.ReadAll(answer.Body); err != nil || string(body) != "0\n1\n2\n3\n4\n" {
			t.Errorf("%s is %q, %v", path, body, err)
		}
		return time.Since(began)
	}
	ask("/api/v1/pods")
	ask("/api/v1/nodes?watch=true")
	if s.held != 0 {
		t.Errorf("%d pieces of what is no watch of pods were held back", s.held)
	}
	if took := ask("/api/v1/namespaces/a/pods?watch=true"); took < least || s.held == 0 {
		t.Errorf("a watch took %s, and %d pieces of it were held back", took, s.held)
	}
}
