// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"everynode.dev/everynode/api/everynode"
)

// heldCluster is a cluster with a node that is held.
type heldCluster struct {
	cluster
	patched chan string
}

// ServeHTTP implements http.Handler.
func (c *heldCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	node := `{"metadata":{"name":"a","uid":"u","resourceVersion":"9"},"spec":{"taints":[{"key":"` + everynode.HoldKey + `","effect":"NoSchedule"}]},` +
		`"status":{"conditions":[{"type":"Ready","status":"True"}]}}`
	q := r.URL.Query()
	switch last := path.Base(r.URL.Path); {
	case r.Method == http.MethodPatch:
		select {
		case c.patched <- r.URL.Path:
		default:
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	case last == "nodes" && !q.Has("sendInitialEvents") && !q.Has("watch"):
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"10"},"items":[` + node + `]}`))
	default:
		c.cluster.ServeHTTP(w, r)
	}
}

// TestNodesAreReleasedWithoutTheSets: a leader knows the nodes that are held also where it serves no set that may ask: because another project has the definitions, because
// the sets cannot be read, or because image pulls are not served.
func TestNodesAreReleasedWithoutTheSets(t *testing.T) {
	for name, c := range map[string]*heldCluster{
		"definitions of another project": {cluster: cluster{whose: theirs}},
		"a definition that is broken":    {cluster: cluster{whose: unserved}},
		"sets that cannot be read":       {cluster: cluster{whose: ours, closed: true}},
		"no image pulls":                 {cluster: cluster{whose: ours}}, // it does not serve the resources
	} {
		t.Run(name, func(t *testing.T) {
			c.patched = make(chan string, 1)
			server := httptest.NewServer(c)
			t.Cleanup(server.Close)
			cfg := &rest.Config{Host: server.URL, QPS: 1000, Burst: 1000}
			o, err := parse(t, "", "--leader-elect=false", "--dialects=native,kruise", "--webhook-url=https://127.0.0.1:19443", "--come-back-first-namespaces=agents")
			if err != nil {
				t.Fatal(err)
			}
			definitions, err := newDefinitionWatch(o, cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := checkDefinitions(t.Context(), definitions.client, o); err != nil {
				t.Fatal(err)
			}
			l, err := newLeader(o, cfg, nil)
			if err != nil || l.holds == nil {
				t.Fatalf("it releases nodes with %v: %v", l.holds, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- l.Start(ctx) }()
			for !slices.Contains(l.holds.Held(), "a") && ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
			}
			go l.holds.End(ctx)
			select {
			case what := <-c.patched:
				if !strings.HasSuffix(what, "/nodes/a") {
					t.Errorf("it patches %s", what)
				}
			case <-ctx.Done():
				t.Error("the node stays held")
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
