// SPDX-License-Identifier: Apache-2.0

package nodehold

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// counted lets a world count the passes that are asked for.
func counted(t *testing.T, w *world) (passes func(what string, want int)) {
	asked := 0
	w.enqueue = func(string) { asked++ }
	return func(what string, want int) {
		t.Helper()
		if asked != want {
			t.Errorf("%s: %d passes, want %d", what, asked, want)
		}
		asked = 0
	}
}

// TestANodeGetsASet: a taint is removed, or a label is set, while the node is not in use. Then the set runs there, and the node must be held before it is in use again.
func TestANodeGetsASet(t *testing.T) {
	taint := corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}
	w := newWorld(t)
	w.unready(agent)
	w.node.Spec.Taints = []corev1.Taint{taint}
	w.set(corev1.ConditionTrue, true)
	w.want("the set does not run there", false)
	passes := counted(t, w)
	change := func(edit func(n *corev1.Node)) {
		before := w.node
		w.node = before.DeepCopy()
		edit(w.node)
		w.NodeChanged(w.node, before)
	}
	change(func(n *corev1.Node) { n.Spec.Taints = nil })
	passes("the taint is removed", 1)
	w.want("the set runs there now", true)
	passes("the world repeats the node", 1)

	change(func(n *corev1.Node) { n.Labels = map[string]string{"role": "worker"} })
	passes("a label is set", 1)

	w.ready(agent)
	passes("the pod is ready", 1)
	w.set(corev1.ConditionTrue, false)
	w.want("the pod is ready", false)
	passes("the world repeats the node", 2)
	change(func(n *corev1.Node) { n.Labels = map[string]string{"role": "other"} })
	passes("a node in use without a hold gets none", 0)
}

// TestASetAsksForLess: a set that is changed so that it leaves a node out, or waits for less time, holds it no longer than it now asks for.
func TestASetAsksForLess(t *testing.T) {
	w := newWorld(t)
	w.ask(agent, time.Hour, "")
	w.unready(agent)
	w.set(corev1.ConditionFalse, false)
	w.want("the node is down", true)
	w.set(corev1.ConditionTrue, false)
	if after := w.want("it is back", true); after != time.Hour {
		t.Errorf("the next pass is %v later", after)
	}
	passes := counted(t, w)
	w.ask(agent, time.Minute, "")
	w.unready(agent)
	passes("it waits for a minute only", 1)
	w.ask(agent, time.Minute, "")
	w.unready(agent)
	passes("it has not changed", 0)
	w.ask(agent, time.Minute, "other")
	w.pods(agent)
	passes("it does not run there any more", 1)
	w.want("the set leaves the node out", false)
}
