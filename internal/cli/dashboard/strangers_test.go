// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
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

// The portal has at most so many connections: one more is served when another ends.
func TestConnectionsAreLimited(t *testing.T) {
	certFile, keyFile := writePair(t, t.TempDir(), "one.example")
	pair, err := certwatcher.New(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	a := &inCluster{Options: fakecluster.New(t).Options, hosts: []string{testHost}, sessions: 1, most: 2}
	ended := make(chan error)
	go func() { ended <- a.serve(ctx, listener, pair, nil) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	served := make(chan net.Conn)
	open := func() {
		conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(ctx, "tcp", listener.Addr().String())
		if err != nil {
			t.Error(err)
		}
		served <- conn
	}
	go open()
	first := <-served
	go open()
	second := <-served
	go open()
	select {
	case third := <-served:
		t.Error("a third connection is served next to two others")
		_ = third.Close()
	case <-time.After(100 * time.Millisecond): // it would be served by now
		_ = first.Close()
		_ = (<-served).Close()
	}
	_ = second.Close()
}
