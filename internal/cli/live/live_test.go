// SPDX-License-Identifier: Apache-2.0

package live

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/fleet"
)

func template(image string) map[string]any {
	return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": image}}}}
}

// A set whose revision is not written yet is shown as it will be: every pod is old, none is unknown.
func TestLookAtASetThatWasJustChanged(t *testing.T) {
	index := fleet.NewIndex(func(fleet.Key) {})
	key := fleet.Key{Dialect: "native", Namespace: "default", Name: "agent"}
	s := &Set{key: key, index: index}
	if _, _, ok := s.Look(1); ok {
		t.Error("a set that does not exist was seen")
	}
	index.PutNode(fleet.Node{Name: "n1", RV: "1", Ready: true})
	index.PutSet(key, &dialect.Workload{Namespace: "default", Name: "agent", UID: "u", Template: template("two")})
	index.PutRevision(fleet.Revision{Namespace: "default", Name: "agent-a", UID: "r", RV: "2", Owner: "u", Hash: "a", Number: 1, Template: template("one")})
	index.PutPod(fleet.Pod{Namespace: "default", Name: "agent-1", UID: "p", RV: "3", Node: "n1", Owner: "u", Generation: -1,
		Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: "a"}})
	snapshot, _, ok := s.Look(1)
	if !ok || snapshot.Set.Update != 1 || snapshot.Revisions[1].Name != fleet.Unwritten || snapshot.Nodes[0].Pods[0].Revision != 0 {
		t.Errorf("%v %+v", ok, snapshot)
	}
}
