// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// While a node that is down still has the revision, nothing says that all nodes have returned. It returns when it is ready.
func TestAnUndoThatLeavesANodeOut(t *testing.T) {
	w := canary(t, strings.Replace(judgedStrictly(), "waves:", "unreachableAfter: 2m\nwaves:", 1))
	w.fails("b", pulls)
	w.node("c").Ready, w.node("c").Since = false, w.s.Now.Add(-time.Hour)
	w.pass(time.Second)
	for range 10 {
		w.pass(10 * time.Minute)
		s := w.s
		w.out.Enter(&s, nil)
		for _, a := range rollout.Decide(s).Actions {
			if name := w.s.Nodes[a.Node].Name; name != "c" { // its kubelet does not answer
				w.put(name, 0, true)
			}
		}
	}
	if got := w.have(1); got != "c" {
		t.Fatalf("%q have the revision", got)
	}
	except := "except those that are not ready and still have another one (1): c. They return when they are ready."
	w.say("Failed", "The nodes have returned to the committed revision, "+except)
	for _, text := range []string{w.messages[len(w.messages)-1], w.notices[len(w.notices)-1].Reason} {
		if text != "The nodes have returned to the committed revision agent-v1, "+except {
			t.Errorf("in phase %s it says: %s", w.last.Phase, text)
		}
	}
	w.node("c").Ready, w.node("c").Since = true, w.s.Now
	w.pass(time.Second)
	w.want("c", v1alpha1.PhaseUndoing, "canary")
	w.pass(time.Second)
	w.say("Failed", "The nodes have returned to the committed revision. Change")
}

// TestAnUndoWithANodeThatFlaps: with AdvancedRollingUpdate, nodes that are not ready are left out at once. One that is ready and not ready in turns does not end the undo and begin it again each time;
// one that stays not ready does not keep it from its end.
func TestAnUndoWithANodeThatFlaps(t *testing.T) {
	w := canary(t, judgedStrictly())
	w.s.Set.Unreachable = rollout.Unreachable{Skip: true, AttributionWindow: time.Minute}
	w.fails("a", pulls)
	w.pass(time.Second)
	w.events = nil
	flap := func(ready bool) {
		w.node("c").Ready, w.node("c").Since = ready, w.s.Now
		w.pass(10 * time.Second)
		w.roll()
		w.put("c", 1, ready) // its kubelet does not do it
	}
	for range 5 {
		flap(false)
		flap(true)
	}
	if w.last.Phase != v1alpha1.PhaseUndoing || !slices.Equal(w.events, []string{policy.ReasonRolloutUndone}) {
		t.Errorf("phase %s, events %v", w.last.Phase, w.events)
	}
	flap(false)
	if wake := w.s.Now.Add(time.Minute); w.out.Wake != wake {
		t.Errorf("it decides again at %v, want %v", w.out.Wake, wake)
	}
	w.pass(time.Minute)
	w.want("", v1alpha1.PhaseFailed, "canary")
	w.say("Failed", "still have another one (1): c.")
}

// TestUndoWithANodeThatOnlyKeepsItsPod: a node of the canary gets a taint that the pods do not tolerate, so it only keeps its pod, and an Advanced DaemonSet updates no such node
// (Set.EligibleOnly). The undo ends without that node and names it, and the node returns when the taint is gone.
func TestUndoWithANodeThatOnlyKeepsItsPod(t *testing.T) {
	w := canary(t, judgedStrictly())
	w.s.Set.EligibleOnly = true
	w.node("c").Fit = rollout.MayStay
	w.fails("a", pulls)
	for range 3 {
		w.pass(time.Minute)
		w.roll()
	}
	w.want("", v1alpha1.PhaseFailed, "canary")
	if w.have(1) != "c" {
		t.Fatalf("%q have the failed revision", w.have(1))
	}
	const but = "still have another one (1): c. They return when the pod may run there again; otherwise delete their pods."
	w.say("Failed", but)
	if last := len(w.messages) - 1; w.events[last] != policy.ReasonRolloutUndoEnded || !strings.Contains(w.messages[last], but) {
		t.Errorf("the last event is %s: %s", w.events[last], w.messages[last])
	}
	w.node("c").Fit = rollout.MustRun
	w.pass(time.Minute)
	w.want("c", v1alpha1.PhaseUndoing, "canary")
}

// TestUndoWithARefusedDelete: while the API server refuses to delete the pod of a node, the undo does not end, and the status names the node and the answer. The same holds for a wave, and for
// nodes that return because the template was changed back.
func TestUndoWithARefusedDelete(t *testing.T) {
	refuse := func(w *world, name string) {
		w.node(name).Refusal = &rollout.Refusal{Message: "admission webhook denied the request", Denied: true, Of: rollout.Delete, RetryAt: rollout.EndOfTime}
	}
	const text = "The API server refuses to delete or change the pod on 1 node: c (admission webhook denied the request). Let it accept that."
	for name, undo := range map[string]func(w *world){
		"a failure":    func(w *world) { w.fails("a", pulls) },
		"the template": func(w *world) { w.s.Set.Update, w.s.Revisions[0].Number = 0, 3 },
	} {
		t.Run(name, func(t *testing.T) {
			w := canary(t, judgedStrictly())
			refuse(w, "c")
			undo(w)
			for range 3 {
				w.pass(time.Minute)
				w.roll()
			}
			if w.last.Phase != v1alpha1.PhaseUndoing || w.have(1) != "c" {
				t.Errorf("phase %s, and %q have the revision", w.last.Phase, w.have(1))
			}
			w.say("UpdateRefused", text)
		})
	}
	for _, of := range []rollout.ActionKind{rollout.Delete, 0} { // 0 for the label that asks for the preDelete hook
		w := newWorld(t, judgedStrictly())
		refuse(w, "c")
		w.node("c").Refusal.Of = of
		for range 3 {
			w.pass(time.Second)
			w.roll()
		}
		w.say("UpdateRefused", text)
	}
}
