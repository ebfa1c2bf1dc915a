// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode"
)

// autoscalerMarks counts the pods by the value of the annotation that cluster-autoscaler reads, and returns their UIDs.
func (a *advanced) autoscalerMarks() (values map[string]int, uids map[types.UID]bool) {
	values, uids = map[string]int{}, map[types.UID]bool{}
	for _, p := range a.pods {
		value, has := p.Annotations[daemonPod]
		if !has {
			value = "none"
		}
		values[value]++
		uids[p.UID] = true
	}
	return values, uids
}

func (a *advanced) revisionCount() int {
	owned, _ := a.index.History(a.key)
	return len(owned)
}

// daemonPod is the annotation that the documentation of cluster-autoscaler names.
const daemonPod = "cluster-autoscaler.kubernetes.io/daemonset-pod"

// TestPodsAreMarkedForAutoscalers: new pods are; that is no part of the revision, so neither turning it off nor a pod from before, as one of OpenKruise's,
// leads to a restart, and a change in place keeps the mark.
func TestPodsAreMarkedForAutoscalers(t *testing.T) {
	const inPlaceType = `{updateStrategy: {type: RollingUpdate, rollingUpdate: {rollingUpdateType: InPlaceIfPossible, maxUnavailable: 2}}}`
	a := newAdvanced(t, 2, inPlaceType)
	a.settle()
	values, before := a.autoscalerMarks()
	if values["true"] != 2 || a.revisionCount() != 1 {
		t.Fatalf("new pods have %v, and there are %d revisions", values, a.revisionCount())
	}
	for _, p := range a.pods { // one pod is from another manager
		delete(p.Annotations, daemonPod)
		a.changed(p)
		break
	}
	a.set.SetAnnotations(map[string]string{everynode.MarkForAutoscaler: "false"})
	a.change(func(map[string]any) {})
	a.settle()
	values, after := a.autoscalerMarks()
	if values["true"] != 1 || values["none"] != 1 || a.revisionCount() != 1 {
		t.Errorf("after it was turned off: %v, and there are %d revisions", values, a.revisionCount())
	}
	a.image("img:v2")
	a.settle()
	values, last := a.autoscalerMarks()
	if values["true"] != 1 || values["none"] != 1 {
		t.Errorf("after a change in place: %v", values)
	}
	for uid := range before {
		if !after[uid] || !last[uid] {
			t.Errorf("the pod %s was replaced", uid)
		}
	}
	a.change(func(spec map[string]any) { // not possible in place
		container(spec)["command"] = []any{"run"}
	})
	a.settle()
	if values, _ := a.autoscalerMarks(); values["none"] != 2 {
		t.Errorf("new pods have %v although it is turned off", values)
	}
}

// TestTheTemplateDecidesAboutTheMark: what a user writes into the template is not changed.
func TestTheTemplateDecidesAboutTheMark(t *testing.T) {
	a := newAdvanced(t, 1, standard)
	a.change(func(spec map[string]any) {
		spec["template"].(map[string]any)["metadata"].(map[string]any)["annotations"] = map[string]any{daemonPod: "false", "mine": "yes"}
	})
	a.settle()
	if p := a.only(); p.Annotations[daemonPod] != "false" || p.Annotations["mine"] != "yes" {
		t.Errorf("the pod has %v", p.Annotations)
	}
}
