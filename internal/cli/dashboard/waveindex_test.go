// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/internal/testing/fakecluster"
)

// The index of a cell's wave is one in the names that the head has, also after a wave was put before the others and while no manager has reported it: otherwise the page
// names another wave, and its phase.
func TestTheWaveOfACellIsOneOfTheHead(t *testing.T) {
	policy := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(`
apiVersion: everynode.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: waves, namespace: default, uid: uid-policy, generation: 2}
spec:
  targets: [{apiVersion: apps.kruise.io/v1beta1, kind: DaemonSet, name: agent}]
  waves: [{name: pilot, nodes: {count: 1}, soak: 1h}, {name: canary, nodes: {count: 1}, soak: 1h}]
status:
  observedGeneration: 1
  sets:
  - {apiVersion: apps.kruise.io/v1beta1, name: agent, enforcement: Full, phase: Rolling, wave: canary, targetRevision: agent-7c9d5f6b8, targetNumber: 2,
     committedRevision: agent-6b8f7d4c9, waves: [{name: canary, nodes: 1, updated: 0, available: 0, phase: Rolling}, {name: remaining, nodes: 2, updated: 0, available: 0, phase: Pending}]}
`), &policy.Object); err != nil {
		t.Fatal(err)
	}
	r := fakecluster.Roll{Name: "agent", Advanced: true, Letters: "ooo"}
	w := open(t, fakecluster.New(t, append(r.Objects(t), policy)...))
	var m message
	w.read(http.MethodGet, "/api/set"+setQuery, "", &m)
	waves := part[head](t, m, "head").WaveNames
	for _, c := range items[cell](t, m) {
		want, got := []string{"pilot", "canary", "remaining"}[c.Wave], "none"
		if c.Wave < len(waves) {
			got = waves[c.Wave]
		}
		if got != want {
			t.Errorf("%s is in the wave %s, and the page names %s", c.Node, want, got)
		}
	}
}

// At rest the waves are those that the policy would give to the next rollout.
func TestTheWaveOfACellAtRest(t *testing.T) {
	policy := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(`
apiVersion: everynode.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: waves, namespace: default, uid: uid-policy, generation: 1}
spec:
  targets: [{apiVersion: apps.kruise.io/v1beta1, kind: DaemonSet, name: agent}]
  waves: [{name: canary, nodes: {count: 1}, soak: 1h, after: [{type: Approval}]}, {name: half, nodes: {percent: 50}}]
status:
  observedGeneration: 1
  sets:
  - {apiVersion: apps.kruise.io/v1beta1, name: agent, enforcement: Full, phase: Complete, targetRevision: agent-7c9d5f6b8, targetNumber: 2,
     committedRevision: agent-7c9d5f6b8, waves: [{name: canary, nodes: 1, updated: 1, available: 1, phase: Passed}, {name: half, nodes: 2, updated: 2, available: 2, phase: Passed},
     {name: remaining, nodes: 1, updated: 1, available: 1, phase: Passed}]}
`), &policy.Object); err != nil {
		t.Fatal(err)
	}
	r := fakecluster.Roll{Name: "agent", Advanced: true, Letters: "uuuu"}
	w := open(t, fakecluster.New(t, append(r.Objects(t), policy)...))
	var m message
	w.read(http.MethodGet, "/api/set"+setQuery, "", &m)
	names, got := part[head](t, m, "head").WaveNames, map[string]int{}
	for _, c := range items[cell](t, m) {
		if c.Wave < 0 || c.Wave >= len(names) {
			t.Fatalf("%s is in the wave %d of %q", c.Node, c.Wave, names)
		}
		got[names[c.Wave]]++
	}
	if fmt.Sprint(got) != "map[canary:1 half:1 remaining:2]" {
		t.Errorf("nodes of waves: %v", got)
	}
}
