// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/controller/nodehold"
)

// TestWhetherAnotherManagerTakesOver: only a Deployment that is known to want no manager keeps a leader that is asked to stop.
func TestWhetherAnotherManagerTakesOver(t *testing.T) {
	const head = `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"own"`
	for name, c := range map[string]struct {
		body string
		code int
		down bool
		err  bool
	}{
		"two managers":   {head + `},"spec":{"replicas":2}}`, http.StatusOK, false, false},
		"the default":    {head + `},"spec":{}}`, http.StatusOK, false, false},
		"scaled to zero": {head + `},"spec":{"replicas":0}}`, http.StatusOK, true, false},
		"being deleted":  {head + `,"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"replicas":2}}`, http.StatusOK, true, false},
		"gone":           {notFound, http.StatusNotFound, true, false},
		"no rights":      {forbidden, http.StatusForbidden, false, true},
		"no answer":      {"", http.StatusInternalServerError, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parse(t, "", "--deployment=own", "--namespace=here")
			if err != nil {
				t.Fatal(err)
			}
			d, err := newDeployment(o, refusing(t, c.body, c.code))
			if err != nil {
				t.Fatal(err)
			}
			if down, err := d.down(t.Context()); down != c.down || (err != nil) != c.err {
				t.Errorf("down %t, error %v", down, err)
			}
		})
	}
}

// TestNobodyAsksForTheDeployment of a manager that is not to look at one.
func TestNobodyAsksForTheDeployment(t *testing.T) {
	for _, args := range [][]string{nil, {"--deployment=own", "--ending-timeout=0"}} {
		o, err := parse(t, "", args...)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := newDeployment(o, &rest.Config{Host: "https://nowhere"}); d != nil || err != nil {
			t.Errorf("%v: %v, %v", args, d, err)
		}
	}
}

// TestWhoEnds: a manager that does not lead, or has not read the cluster, stops at once, and so does a leader that another one follows.
func TestWhoEnds(t *testing.T) {
	asked := make(chan string, 10)
	replicas := "0"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Deployment","apiVersion":"apps/v1","spec":{"replicas":` + replicas + `}}`))
	}))
	t.Cleanup(server.Close)
	o, err := parse(t, "", "--dialects=native", "--deployment=own")
	if err != nil {
		t.Fatal(err)
	}
	cfg := &rest.Config{Host: server.URL, QPS: 100, Burst: 100}
	d, err := newDeployment(o, cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLeader(o, cfg, &leaseGuard{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		working, synced bool
		replicas        string
		asks            bool
	}{{false, false, "0", false}, {true, false, "0", false}, {true, true, "2", true}, {true, true, "0", true}} {
		l.working.Store(c.working)
		l.synced.Store(c.synced)
		replicas = c.replicas
		l.end(t.Context(), d, time.Minute) // there are no sets, so there is nothing to wait for
		select {
		case path := <-asked:
			if !c.asks || path != "/apis/apps/v1/namespaces/everynode-system/deployments/own" {
				t.Errorf("%+v: asked for %s", c, path)
			}
		default:
			if c.asks {
				t.Errorf("%+v: did not ask", c)
			}
		}
	}
	l.end(t.Context(), nil, time.Minute)
}

// heldNode is the API of nodes, with one that the manager holds.
type heldNode struct {
	changed func(node, before *corev1.Node)
}

// Patch implements nodehold.Nodes.
func (h *heldNode) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*corev1.Node, error) {
	before, after := nodeWith(everynode.HoldTaint()), nodeWith()
	h.changed(after, before)
	return after, nil
}

func nodeWith(taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u"}, Spec: corev1.NodeSpec{Taints: taints}}
}

// TestTheEndReleasesNodes: a leader that no other one follows holds no node any more when it stops.
func TestTheEndReleasesNodes(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Deployment","apiVersion":"apps/v1","spec":{"replicas":0}}`))
	}))
	t.Cleanup(server.Close)
	o, err := parse(t, "", "--dialects=native", "--deployment=own")
	if err != nil {
		t.Fatal(err)
	}
	cfg := &rest.Config{Host: server.URL, QPS: 100, Burst: 100}
	d, err := newDeployment(o, cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLeader(o, cfg, &leaseGuard{})
	if err != nil {
		t.Fatal(err)
	}
	l.working.Store(true)
	l.synced.Store(true)
	released := make(chan struct{})
	nodes := &heldNode{}
	l.holds = nodehold.New(nodehold.Options{Nodes: nodes, Clock: clock.RealClock{}, MayServe: func() bool { return true }, Known: func() bool { return false }})
	nodes.changed = func(node, before *corev1.Node) {
		close(released)
		l.holds.NodeChanged(node, before)
	}
	l.holds.NodeChanged(nodeWith(everynode.HoldTaint()), nil)
	go l.holds.Run(t.Context())
	l.end(t.Context(), d, time.Minute)
	select {
	case <-released:
	default:
		t.Error("the node is still held")
	}
}

// TestOutlive: what runs goes on until the end has been made, and an end that is no longer needed is given up.
func TestOutlive(t *testing.T) {
	signal, send := context.WithCancel(t.Context())
	ended, release := make(chan struct{}), make(chan struct{})
	running, stop := outlive(signal, func(context.Context) { close(ended); <-release })
	defer stop()
	send()
	<-ended
	if running.Err() != nil {
		t.Error("it stops before the end has been made")
	}
	close(release)
	<-running.Done()

	begun, given := make(chan struct{}), make(chan struct{})
	running, stop = outlive(signal, func(ctx context.Context) { close(begun); <-ctx.Done(); close(given) })
	<-begun
	stop()
	<-running.Done()
	<-given

	running, stop = outlive(t.Context(), func(context.Context) { t.Error("no end was asked for") })
	stop()
	<-running.Done()
}
