// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"everynode.dev/everynode/internal/cli/explain"
	"everynode.dev/everynode/internal/cli/options"
)

// An explanation reads all nodes and pods of the cluster, as a plan does, so those of one user need a place as plans do: otherwise 48 of each user may be made at a time.
func TestAnExplanationNeedsAPlace(t *testing.T) {
	alice := newPerson(t, "alice", roll().Objects(t)...)
	h := newHouse(t, 2, map[string]*person{"alice": alice})
	verbs := h.p.verbs
	h.p.verbs = func(o *options.Options) *cobra.Command {
		root := verbs(o)
		root.AddCommand(explain.New(o))
		return root
	}
	h.read(h.request(t.Context(), http.MethodGet, "/api/session", "", "alice"), &whoAmI{}) // the session has read the cluster
	lists := func() map[string]int {
		n := map[string]int{}
		for _, a := range alice.Kubernetes.Actions() {
			if a.GetVerb() == "list" {
				n[a.GetResource().Resource]++
			}
		}
		return n
	}
	before := lists()
	for range mostPlansOfOwner {
		if _, err := h.p.turns.take(t.Context(), "alice"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // it would wait longer for a place
	defer cancel()
	for range 5 {
		r := h.request(ctx, http.MethodPost, verbPath, `{"verb": "explain-node", "namespace": "default", "set": "ads/agent", "node": "node-1"}`, "alice")
		h.p.handler().ServeHTTP(httptest.NewRecorder(), r)
	}
	if after := lists(); after["pods"] > before["pods"] {
		t.Errorf("without a place, 5 explanations have listed nodes %d times, pods %d times", after["nodes"]-before["nodes"], after["pods"]-before["pods"])
	}
}
