// SPDX-License-Identifier: Apache-2.0

package nodehold

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/everynode"
)

// TestHeldWhileTheSetsAreNotServed: a manager that cannot serve the sets, because another project does or because they cannot be read, still releases the nodes:
// no other manager would, and a kubelet may have registered its node with the taint.
func TestHeldWhileTheSetsAreNotServed(t *testing.T) {
	for name, c := range map[string]struct {
		stop func(w *world)
		asks time.Duration // 0: no set is known
		want time.Duration
	}{
		"another project serves them": {func(w *world) { w.mayWrite = false }, time.Hour, time.Hour},
		"and they ask for little":     {func(w *world) { w.mayWrite = false }, time.Second, unread},
		"they cannot be read":         {func(w *world) { w.known = false }, 0, unread},
		"their definition is missing": {func(w *world) { w.mayWrite, w.known = false, false }, 0, unread},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			delete(w.sets, agent)
			if c.asks > 0 {
				w.ask(agent, c.asks, "")
			}
			w.node.Spec.Taints = []corev1.Taint{everynode.HoldTaint()}
			c.stop(w)
			w.set(corev1.ConditionFalse, false)
			w.want("the node is not ready", true)
			w.clock.Step(24 * time.Hour)
			w.want("still", true)
			w.set(corev1.ConditionTrue, true)
			w.want("it is cordoned", true)
			w.set(corev1.ConditionTrue, false)
			if after := w.want("it is in use", true); after != c.want && after != soon {
				t.Errorf("the next pass is %v later", after)
			}
			w.clock.Step(c.want - time.Second)
			w.want("the time has not ended", true)
			w.clock.Step(time.Second)
			w.want("the time has ended", false)
			w.set(corev1.ConditionFalse, false)
			w.want("it is down again, and none is held for a set that is not served", false)
		})
	}
}

// TestHeldUntilTheSetsAreServedAgain: the hold then ends as ever.
func TestHeldUntilTheSetsAreServedAgain(t *testing.T) {
	w := newWorld(t)
	w.unready(agent)
	w.set(corev1.ConditionFalse, false)
	w.want("the node is down", true)
	w.mayWrite = false
	w.set(corev1.ConditionTrue, false)
	w.want("another project serves the sets", true)
	w.mayWrite = true
	w.ready(agent)
	w.want("the pod is ready", false)
}

// TestAnotherProgramRemovesTheTaint: the two do not remove it and put it there again as fast as they can. A node that this manager has released is held at once.
func TestAnotherProgramRemovesTheTaint(t *testing.T) {
	w := newWorld(t)
	w.unready(agent)
	w.set(corev1.ConditionFalse, false)
	w.want("the node is down", true)
	w.clock.Step(time.Second)
	w.node = w.node.DeepCopy()
	w.node.Spec.Taints = nil
	w.changed()
	if after := w.want("another program has removed it", false); after != again-time.Second {
		t.Errorf("the next pass is %v later", after)
	}
	w.clock.Step(again)
	w.want("a minute later", true)
	w.ready(agent)
	w.set(corev1.ConditionTrue, false)
	w.want("the node is back", false)
	w.set(corev1.ConditionFalse, false)
	w.want("it is down again", true)
}
