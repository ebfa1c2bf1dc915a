// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/dialects"
)

// refusing is an API server that answers everything with one status.
func refusing(t *testing.T, body string, code int) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, QPS: 100, Burst: 100}
}

const (
	forbidden = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`
	notFound  = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"namespaces \"everynode-system\" not found"}`
)

// A leader that may not read the cluster has to say so and give up its lease, so that one with more rights can take over.
func TestALeaderThatMayNotReadGivesUp(t *testing.T) {
	o, err := parse(t, "", "--leader-elect=false")
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLeader(o, refusing(t, forbidden, http.StatusForbidden), nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- l.Start(t.Context()) }()
	select {
	case err := <-done:
		if !apierrors.IsForbidden(err) {
			t.Errorf("error %v, want the refusal", err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("the leader hangs")
	}
}

// One limit holds for all that the controllers ask, and not for the election.
func TestOneRateForAllControllers(t *testing.T) {
	cfg := &rest.Config{Host: "https://nowhere", QPS: 7, Burst: 9}
	o, err := parse(t, "")
	if err != nil {
		t.Fatal(err)
	}
	one := oneRate(cfg, false)
	if cfg.RateLimiter != nil || one.RateLimiter == nil || one.RateLimiter.QPS() != 7 {
		t.Fatalf("the configuration of all has the limiter %v, that of the controllers %v", cfg.RateLimiter, one.RateLimiter)
	}
	for range 9 {
		if !one.RateLimiter.TryAccept() {
			t.Fatal("less than a burst was let through")
		}
	}
	for name, made := range map[string]*rest.Config{"protobuf": rest.CopyConfig(one), "dynamic": one} {
		client, err := kubernetes.NewForConfig(made)
		if err != nil {
			t.Fatal(err)
		}
		if client.CoreV1().RESTClient().GetRateLimiter().TryAccept() {
			t.Errorf("%s has a burst of its own", name)
		}
	}
	l, err := newLeader(o, cfg, &leaseGuard{})
	if err != nil {
		t.Fatal(err)
	}
	if got := l.client.CoreV1().RESTClient().GetRateLimiter().QPS(); got != 7 {
		t.Errorf("the leader asks %v times a second, want 7", got)
	}
}

// What is large or frequent, nodes and pods, comes as protobuf; sets come as JSON, because their templates are carried undecoded.
func TestBuiltInTypesAreProtobuf(t *testing.T) {
	accepted := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accepted <- r.URL.Path + " " + r.Header.Get("Accept")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(forbidden))
	}))
	t.Cleanup(server.Close)
	o, err := parse(t, "", "--dialects=native")
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLeader(o, &rest.Config{Host: server.URL, QPS: 100, Burst: 100}, &leaseGuard{})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/api/v1/nodes": "application/vnd.kubernetes.protobuf", "/apis/apps/v1/daemonsets": "application/json"} {
		if strings.HasSuffix(path, "nodes") {
			_, err = l.feed.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		} else {
			_, err = l.feed.Dynamic.Resource(l.feed.Sources[0].Resource).List(t.Context(), metav1.ListOptions{})
		}
		if !apierrors.IsForbidden(err) {
			t.Fatal(err)
		}
		if got := <-accepted; !strings.HasPrefix(got, path+" "+want) {
			t.Errorf("asked for %q, want %s as %s", got, path, want)
		}
	}
}

func TestWhereTheManagerCannotWork(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"no namespace": {notFound, "the namespace everynode-system does not exist: apply the namespace and the roles of Everynode"},
		"no rights":    {forbidden, "not allowed to work in the namespace everynode-system"},
	} {
		t.Run(name, func(t *testing.T) {
			code := http.StatusNotFound
			if c.body == forbidden {
				code = http.StatusForbidden
			}
			client, err := kubernetes.NewForConfig(refusing(t, c.body, code))
			if err != nil {
				t.Fatal(err)
			}
			if err := checkNamespace(context.Background(), client, "everynode-system"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
}

func TestTheDefinitionHasToBeOurs(t *testing.T) {
	body := func(whose string) string {
		data, err := definition("daemonsets.apps.kruise.io", whose).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for name, c := range map[string]struct {
		body string
		code int
		want string // empty: no error
	}{
		"missing":      {notFound, http.StatusNotFound, "the CRD daemonsets.apps.kruise.io does not exist: apply what this dialect needs (kubectl apply --server-side -f config/kruise)"},
		"no rights":    {forbidden, http.StatusForbidden, "not allowed to read CRDs: reading the CRD daemonsets.apps.kruise.io"},
		"OpenKruise's": {body(theirs), http.StatusOK, "is not Everynode's: it has no label everynode.dev/part-of: everynode, or it is OpenKruise's"},
		"applied over": {body(applied), http.StatusOK, "is not Everynode's: it has no label everynode.dev/part-of: everynode, or it is OpenKruise's"},
		"not served":   {body(unserved), http.StatusOK, "the API server does not serve the version v1beta1 of the CRD daemonsets.apps.kruise.io"},
		"ours":         {body(ours), http.StatusOK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := dynamic.NewForConfig(refusing(t, c.body, c.code))
			if err != nil {
				t.Fatal(err)
			}
			err = checkDefinitions(t.Context(), client, &options{dialects: []string{dialects.Kruise}})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestAPortInUseIsNamedWithItsFlag(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	err = checkAddress("--metrics-bind-address", l.Addr().String())
	if err == nil || !strings.Contains(err.Error(), l.Addr().String()) || !strings.Contains(err.Error(), "with --metrics-bind-address, or 0") {
		t.Errorf("error %v", err)
	}
	if err := checkAddress("--metrics-bind-address", "0"); err != nil {
		t.Errorf("switched off: %v", err)
	}
}

// How long a leader waits for the writes of one before. That nobody has led before is not to be known, for a lease can be deleted.
func TestWhoHasToWaitForTheLastLeader(t *testing.T) {
	const noSets = `{"kind":"DaemonSetList","apiVersion":"apps/v1","items":[]}`
	const aSet = `{"kind":"DaemonSetList","apiVersion":"apps/v1","items":[{"kind":"DaemonSet","apiVersion":"apps/v1","metadata":{"name":"a"}}]}`
	lease := func(transitions int) string {
		return fmt.Sprintf(`{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","spec":{"leaseTransitions":%d}}`, transitions)
	}
	for name, c := range map[string]struct {
		lease, sets string // empty: 500
		flag        string
		want        time.Duration
		slow        string // the holder of the lease of slow writes; "-" for none, empty for no lease
	}{
		"slow writes":                             {lease(1), aSet, "true", executor.SlowFence, "another"},
		"slow writes that have been answered":     {lease(1), aSet, "true", executor.Fence, "-"},
		"slow writes, and the lease is new":       {lease(0), aSet, "true", 7*time.Second + executor.SlowFence, "another"},
		"nothing is there yet":                    {lease(0), noSets, "true", 0, ""},
		"the lease was made anew":                 {lease(0), aSet, "true", 7*time.Second + executor.Fence, ""},
		"a later one":                             {lease(1), aSet, "true", executor.Fence, ""},
		"a later one, and nothing is there":       {lease(1), noSets, "true", executor.Fence, ""},
		"the lease cannot be read":                {"", aSet, "true", 7*time.Second + executor.Fence, ""},
		"the sets cannot be read":                 {lease(0), "", "true", 7*time.Second + executor.Fence, ""},
		"their CRD is not there":                  {lease(0), "404", "true", 0, ""},
		"no election":                             {"", aSet, "false", executor.Fence, ""},
		"no election, and nothing is there":       {"", noSets, "false", 0, ""},
		"no election, and sets that are not read": {"", "", "false", executor.Fence, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parse(t, "", "--dialects=native", "--leader-elect="+c.flag)
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body := c.sets
				switch {
				case strings.HasSuffix(r.URL.Path, "/leases/everynode-manager"):
					body = c.lease
				case strings.HasSuffix(r.URL.Path, "/leases/"+executor.SlowLeaseName) && c.slow == "":
					http.NotFound(w, r)
					return
				case strings.HasSuffix(r.URL.Path, "/leases/"+executor.SlowLeaseName):
					body = fmt.Sprintf(`{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","spec":{"holderIdentity":%q}}`, strings.TrimPrefix(c.slow, "-"))
				}
				if body == "404" {
					http.NotFound(w, r)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				if body == "" {
					w.WriteHeader(http.StatusInternalServerError)
				}
				_, _ = w.Write([]byte(body))
			}))
			t.Cleanup(server.Close)
			own := &leaseGuard{deadline: o.renewDeadline}
			l, err := newLeader(o, &rest.Config{Host: server.URL, QPS: 100, Burst: 100}, own)
			if err != nil {
				t.Fatal(err)
			}
			if got := l.fenceTime(t.Context()); got != c.want {
				t.Fatalf("waits for %v, want %v", got, c.want)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.want > 0 {
				cancel() // whoever waits is interrupted, and says so
			}
			if err := l.fence(ctx); (err == nil) != (c.want == 0) {
				t.Errorf("fence: %v", err)
			}
			if own.isBound() {
				t.Error("the lease is kept after the wait")
			}
		})
	}
}

// TestUpstreamWorks: kube-controller-manager keeps the DaemonSets of apps/v1 where this manager does not serve them. Where it does, the probe decides, and has
// found no other controller before its first answer.
func TestUpstreamWorks(t *testing.T) {
	for dialects, want := range map[string]bool{"kruise": true, "native,kruise": false, "native": false} {
		o, err := parse(t, "", "--dialects="+dialects)
		if err != nil {
			t.Fatal(err)
		}
		l, err := newLeader(o, &rest.Config{Host: "https://nowhere", QPS: 100, Burst: 100}, &leaseGuard{})
		if err != nil {
			t.Fatal(err)
		}
		if got := l.controller.UpstreamWorks(); got != want {
			t.Errorf("--dialects=%s: %t, want %t", dialects, got, want)
		}
	}
}
