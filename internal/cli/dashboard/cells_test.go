// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/rollout"
)

// The labels that are offered are those that divide the nodes, and places and pools first, however many labels describe the hardware of a node.
func TestLabelsToGroupBy(t *testing.T) {
	labels := make([]map[string]string, 600)
	for i := range labels {
		labels[i] = map[string]string{
			corev1.LabelHostname: fmt.Sprint("node-", i), corev1.LabelTopologyZone: fmt.Sprint("zone-", i%3), "example.com/rack": fmt.Sprint("rack-", i%300), "serial": fmt.Sprint(i),
			corev1.LabelOSStable: "linux",
		}
		if i%2 == 0 {
			labels[i]["node-role.kubernetes.io/edge"] = ""
		}
		for feature := range 120 {
			labels[i][fmt.Sprintf("feature.node.kubernetes.io/cpu-%03d", feature)] = "true"
		}
	}
	facets := facetsOf(labels)
	var keys []string
	for _, f := range facets {
		keys = append(keys, f.Key)
	}
	if want := []string{corev1.LabelTopologyZone, "example.com/rack", "node-role.kubernetes.io/edge", "feature.node.kubernetes.io/cpu-000"}; len(keys) != mostFacets || !slices.Equal(keys[:4], want) {
		t.Errorf("%d labels are offered: %v, want %d, first %v", len(keys), keys, mostFacets, want)
	}
	if slices.Contains(keys, corev1.LabelHostname) || slices.Contains(keys, "serial") {
		t.Errorf("labels that differ on each node are offered: %v", keys)
	}
	rack := slices.Index(facets[1].Values, "rack-1")
	for i, want := range map[int][]int{0: {0, 0, 0, 0}, 301: {1, rack, -1, 0}} {
		if got := valuesOf(facets, labels[i])[:4]; !slices.Equal(got, want) {
			t.Errorf("node %d has the values %v, want %v", i, got, want)
		}
	}
}

// The pods whose restarts are counted are those that the revisions count: without those that are stopping or have ended.
func TestRestartsOfPodsThatStay(t *testing.T) {
	s := &rollout.Snapshot{Set: rollout.Set{Update: 1}, Nodes: []rollout.Node{{Pods: []rollout.Pod{
		{Restarts: 3}, {Restarts: 5, Deleting: true}, {Revision: 1, Restarts: 1}, {Revision: 1, Restarts: 7, Phase: rollout.Failed},
	}}}}
	if got, want := restartsOf(s), (restarts{New: 1, Old: 3, NewPods: 1, OldPods: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
