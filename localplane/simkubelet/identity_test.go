// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// tokenServer is an API server that makes tokens, and remembers who wrote what.
type tokenServer struct {
	mu          sync.Mutex
	now         time.Time
	made        int
	writes      []string
	connections int
}

func (s *tokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if !strings.HasSuffix(r.URL.Path, "/token") {
		s.writes = append(s.writes, r.Header.Get("Authorization")+" "+r.URL.Path)
		_, _ = w.Write([]byte(`{"apiVersion":"apps.kruise.io/v1beta1","kind":"NodeImage"}`))
		return
	}
	request := &authenticationv1.TokenRequest{}
	if err := json.NewDecoder(r.Body).Decode(request); err != nil || r.URL.Path != "/api/v1/namespaces/everynode-agents/serviceaccounts/everynode-agent/token" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.made++
	bound := request.Spec.BoundObjectRef
	request.Status.Token = fmt.Sprintf("%s-%s-%s-%d", bound.Kind, bound.Name, bound.UID, s.made)
	request.Status.ExpirationTimestamp = metav1.NewTime(s.now.Add(time.Duration(*request.Spec.ExpirationSeconds) * time.Second))
	_ = json.NewEncoder(w).Encode(request)
}

func newTokenServer(t *testing.T) (*tokenServer, *Agents) {
	t.Helper()
	s := &tokenServer{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	server := httptest.NewUnstartedServer(s)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.mu.Lock()
			s.connections++
			s.mu.Unlock()
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, BearerToken: "of-the-simulation", ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	agents, err := NewAgents(config, client)
	if err != nil {
		t.Fatal(err)
	}
	return s, agents
}

func nodeOf(name, uid string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
}

// TestEachAgentWritesWithATokenOfItsNode, and not with what the simulation itself has.
func TestEachAgentWritesWithATokenOfItsNode(t *testing.T) {
	s, agents := newTokenServer(t)
	for _, name := range []string{"n1", "n2"} {
		id, err := agents.Identify(t.Context(), Identity{}, nodeOf(name, "u-"+name), s.now)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := agents.WriteStatus(t.Context(), id, name, []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
	}
	want := "Bearer Node-n1-u-n1-1 /apis/apps.kruise.io/v1beta1/nodeimages/n1/status\n" +
		"Bearer Node-n2-u-n2-2 /apis/apps.kruise.io/v1beta1/nodeimages/n2/status"
	if got := strings.Join(s.writes, "\n"); got != want {
		t.Errorf("written was\n%s\nand not\n%s", got, want)
	}
	if s.connections != 1 {
		t.Errorf("that took %d connections", s.connections)
	}
	if _, err := agents.WriteStatus(context.Background(), Identity{}, "n1", []byte(`{}`)); err == nil || !strings.Contains(err.Error(), "in the name of no agent") {
		t.Errorf("nobody wrote: %v", err)
	}
}

// TestTokensAreKeptAndRenewed: one request serves an agent for long, and a node that was made anew has another token.
func TestTokensAreKeptAndRenewed(t *testing.T) {
	s, agents := newTokenServer(t)
	begin, id := s.now, Identity{}
	for _, step := range []struct {
		after time.Duration
		uid   string
		made  int
	}{{0, "u1", 1}, {47 * time.Minute, "u1", 1}, {48 * time.Minute, "u1", 2}, {49 * time.Minute, "u2", 3}, {50 * time.Minute, "u2", 3}} {
		s.now = begin.Add(step.after)
		var err error
		if id, err = agents.Identify(t.Context(), id, nodeOf("n1", step.uid), s.now); err != nil || s.made != step.made {
			t.Errorf("after %v there are %d tokens, and not %d: %v", step.after, s.made, step.made, err)
		}
	}
}
