// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"everynode.dev/everynode/internal/testing/fakecluster"
)

// from sends a request for the session of a token from an address, and returns the status of the answer.
func (h *house) from(ctx context.Context, address, token string) int {
	answer := httptest.NewRecorder()
	r := h.request(ctx, http.MethodGet, "/api/session", "", token)
	r.RemoteAddr = address
	h.p.handler().ServeHTTP(answer, r)
	return answer.Code
}

// A stranger whose wrong tokens take long to check does not keep users of other addresses from signing in.
func TestAStrangerDoesNotKeepUsersOut(t *testing.T) {
	slow, asked := newPerson(t, ""), make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	slow.Kubernetes.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return true, nil, ctx.Err()
	})
	people := map[string]*person{"admin": newPerson(t, "admin", rollOf("agent").Objects(t)...)}
	const wrong = 2 * mostReviews
	for i := range wrong {
		people[fmt.Sprint("wrong-", i)] = slow
	}
	h := newHouse(t, 4, people)
	ended := make(chan struct{})
	for i := range wrong {
		go func() {
			h.from(ctx, fmt.Sprintf("[2001:db8::%x]:1000", i+1), fmt.Sprint("wrong-", i)) // the addresses of one network are one client
			ended <- struct{}{}
		}()
	}
	h.p.reviews.has(t, "2001:db8::/64", mostReviewsOfClient, wrong-mostReviewsOfClient)
	<-asked
	if code := h.from(t.Context(), "192.0.2.1:1000", "admin"); code != http.StatusOK {
		t.Errorf("a user is answered with %d while a stranger has wrong tokens checked", code)
	}
	cancel()
	for range wrong {
		<-ended
	}
}

// A token that the cluster has not accepted is not checked again at once; later it is.
func TestAWrongTokenIsCheckedOnce(t *testing.T) {
	late := newPerson(t, "")
	h := newHouse(t, 4, map[string]*person{"late": late})
	reviews := func() (n int) {
		for _, a := range late.Kubernetes.Actions() {
			if a.GetResource().Resource == "selfsubjectreviews" {
				n++
			}
		}
		return n
	}
	for range 5 {
		if code := h.from(t.Context(), "192.0.2.1:1000", "late"); code != http.StatusUnauthorized {
			t.Errorf("a wrong token is answered with %d", code)
		}
	}
	if n := reviews(); n != 1 {
		t.Errorf("a wrong token was checked %d times", n)
	}
	h.pass(refusedFor)
	h.from(t.Context(), "192.0.2.1:1000", "late")
	if n := reviews(); n != 2 {
		t.Errorf("later the token was checked %d times", n)
	}
	for i := range 2 * mostRefused {
		h.p.refuse([32]byte{byte(i), byte(i >> 8), 1})
	}
	if n := len(h.p.refused); n > mostRefused {
		t.Errorf("%d wrong tokens are remembered", n)
	}
}

// portalOf serves a dashboard in the cluster with at most that many connections until the test ends, and returns its address.
func portalOf(t *testing.T, most int) (address string) {
	t.Helper()
	certFile, keyFile := writePair(t, t.TempDir(), "one.example")
	pair, err := certwatcher.New(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	a := &inCluster{Options: fakecluster.New(t).Options, hosts: []string{testHost}, sessions: 1, most: most}
	ended := make(chan error)
	go func() { ended <- a.serve(ctx, listener, pair, nil) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// The portal has at most so many connections, of one address half of them: for one more, the oldest one without a request ends.
func TestConnectionsAreLimited(t *testing.T) {
	address := portalOf(t, 4)
	var open []net.Conn
	for range 3 {
		conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		open = append(open, conn)
	}
	for i, ends := range []bool{true, false, false} {
		_ = open[i].SetReadDeadline(time.Now().Add(map[bool]time.Duration{true: 10 * time.Second, false: 50 * time.Millisecond}[ends]))
		if _, err := open[i].Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) == ends {
			t.Errorf("connection %d: %v", i, err)
		}
	}
}

// A connection with a request does not end for another one, and one that has just had a request ends after those that had none for longer.
func TestWhichConnectionEnds(t *testing.T) {
	l := newConnections(nil, 4)
	names := map[*connection]string{nil: "none"}
	add := func(name, client string) (c *connection, ended string, ok bool) {
		c = &connection{of: l, client: client, rests: true}
		names[c] = name
		victim, ok := l.add(c)
		return c, names[victim], ok
	}
	want := func(name, client, end string, fits bool) *connection {
		t.Helper()
		c, ended, ok := add(name, client)
		if ended != end || ok != fits {
			t.Errorf("for %s of %s ends %s (%t), want %s (%t)", name, client, ended, ok, end, fits)
		}
		return c
	}
	a1 := want("a1", "a", "none", true)
	a2 := want("a2", "a", "none", true)
	l.note(a1, http.StateActive)
	l.note(a2, http.StateActive)
	want("a3", "a", "none", false)
	l.note(a2, http.StateIdle)
	l.note(a1, http.StateIdle)
	a4 := want("a4", "a", "a2", true)
	b1 := want("b1", "b", "none", true)
	want("c1", "c", "none", true)
	want("d1", "d", "a1", true)
	for _, c := range []*connection{a4, b1} {
		l.note(c, http.StateActive)
	}
	_, ended, ok := add("e1", "e")
	if !ok || ended != "c1" && ended != "d1" || l.count != 4 {
		t.Errorf("for e1 ends %s (%t), and there are %d", ended, ok, l.count)
	}
	if l.remove(a1) || !l.remove(a4) || l.count != 3 || len(l.all) != 3 {
		t.Errorf("there are %d connections of %d addresses", l.count, len(l.all))
	}
}
