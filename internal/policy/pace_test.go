// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// TestPaceWhereUnreachableNodesAreSkipped: a set leaves out nodes that are not ready. A pod that was deleted there later is no update that counts, so it makes no room for
// others in the pace.
func TestPaceWhereUnreachableNodesAreSkipped(t *testing.T) {
	w := newWorld(t, "pace: {maxUpgrading: 1}")
	w.s.Set.Unreachable.Skip = true
	w.s.Revisions[1].Created = w.s.Now.Add(-30 * time.Minute)
	for _, name := range []string{"h", "i", "j"} {
		n := w.node(name)
		n.Ready, n.Since = false, w.s.Now.Add(-2*time.Hour)
		n.Pods[0].Created, n.Pods[0].ReadySince = rollout.Time(1), rollout.Time(1)
		n.Pods[0].Ready, n.Pods[0].Deleting, n.Pods[0].DeletedAt = false, true, w.s.Now.Add(-10*time.Minute)
	}
	w.pass(0)
	if got := w.roll(); got != "a" {
		t.Errorf("maxUpgrading is 1, and %s start at once: %s", got, w.verdicts())
	}
}

// TestPaceThatIsAddedInMidRoll: an update that started before the policy got minTimeBetween counts.
func TestPaceThatIsAddedInMidRoll(t *testing.T) {
	w := newWorld(t, "")
	w.s.Set.MaxUnavailable.Value = 1
	w.pass(0)
	if got := w.roll(); got != "a" {
		t.Fatal(got)
	}
	w.policies = []*policy.Policy{read(t, "pace: {minTimeBetween: 10m}")}
	w.pass(time.Second)
	if got := w.roll(); got != "" {
		t.Errorf("%s starts a second after a", got)
	}
}

// TestPaceCountsFromTheAnswer: an update was started 4 s after its decision, and the clock on the wall jumps ahead after that.
func TestPaceCountsFromTheAnswer(t *testing.T) {
	w := newWorld(t, "pace: {minTimeBetween: 10s}")
	w.pass(0)
	if got := w.roll(); got != "a" {
		t.Fatal(got)
	}
	w.s.Now = w.s.Now.Add(4 * time.Second)
	w.last.LastStart = policy.Moment(w.s.Now)
	w.out.StartedAfter(4 * time.Second)
	w.jump(time.Hour, 13*time.Second)
	if got := w.roll(); got != "" {
		t.Errorf("%s starts 9 s after a", got)
	}
	w.pass(time.Second)
	if got := w.roll(); got != "b" {
		t.Errorf("%q starts 10 s after a", got)
	}
}

// TestPaceBesideANodeWithoutAPod: a node of a later wave that cannot get its first pod is in the middle of no update, so it takes no place of the pace. A manager that has just
// started cannot know whether it had a pod, and counts the node until it has one.
func TestPaceBesideANodeWithoutAPod(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}}]\npace: {maxUpgrading: 1}")
	refused := func(name string) {
		w.join(name, w.s.Now, 0)
		w.node(name).Pods, w.node(name).Refusal = nil, &rollout.Refusal{Message: "exceeded quota", RetryAt: w.s.Now.Add(time.Hour)}
	}
	refused("k")
	w.pass(0)
	if got := w.roll(); got != "" || w.out.Wake != w.s.Now.Add(time.Second) {
		t.Errorf("the first decision rolls %q, the next one is at %d", got, w.out.Wake)
	}
	for range 3 {
		w.pass(time.Second)
		if want := "No other update starts: spec.pace.maxUpgrading allows 1 at once, and the pods of 1 node cannot be created. Node k: exceeded quota. " +
			"Remove the reason, or raise spec.pace.maxUpgrading."; w.roll() != "" || len(w.last.Blocking) != 1 || w.last.Blocking[0].Reason != "Pace" || w.last.Blocking[0].Message != want {
			t.Errorf("%s: %+v", w.verdicts(), w.last.Blocking)
		}
	}
	w.put("k", 0, true)
	refused("l")
	w.pass(time.Second)
	if got := w.roll(); got != "a" || len(w.last.Blocking) > 0 {
		t.Errorf("rolls %q: %s\n%+v", got, w.verdicts(), w.last.Blocking)
	}
	w.node("k").Pods, w.node("k").Refusal = nil, w.node("l").Refusal // it has had one
	w.pass(time.Second)
	if got := w.roll(); got != "b" || len(w.last.Blocking) > 0 {
		t.Errorf("rolls %q: %s\n%+v", got, w.verdicts(), w.last.Blocking)
	}
	w.node("l").Last = 1 // its pod was deleted for its update
	w.pass(time.Second)
	if got := w.roll(); got != "" || !blockedBy(w, "Pace") {
		t.Errorf("rolls %q next to a node in the middle of its update: %+v", got, w.last.Blocking)
	}
}

// TestPaceAfterARestartBesideARefusedCreate: the pod of a, which has joined since the revision was made, was deleted for its update, and its create is refused. A new manager starts
// no other update before a has its pod.
func TestPaceAfterARestartBesideARefusedCreate(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {selector: {matchLabels: {canary: \"true\"}}}}]\npace: {maxUpgrading: 1}")
	w.labels["a"], w.labels["b"] = map[string]string{"canary": "true"}, map[string]string{"canary": "true"}
	a := w.node("a")
	a.Joined = w.s.Now.Add(time.Second)
	w.pass(2 * time.Second)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	a.Pods, a.Last = nil, 1
	a.Refusal = &rollout.Refusal{Message: "exceeded quota", Denied: true, RetryAt: w.s.Now.Add(time.Hour)}
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseRolling, "canary")
	w.lead()
	a.Last = rollout.NoRevision // only the earlier manager knew
	for k := range 3 {
		w.pass(time.Second)
		if got := w.roll(); got != "" {
			t.Errorf("maxUpgrading is 1, a is in the middle of its update, and %s starts", got)
		}
		if k == 1 {
			was := w.s.Set.Update // the revision of the template is not known for a moment
			w.s.Set.Update = -1
			last := w.last
			w.pass(time.Second)
			w.s.Set.Update, w.last = was, last
		}
	}
	w.put("a", 1, true)
	a.Refusal = nil
	w.pass(time.Second)
	w.want("b", v1alpha1.PhaseRolling, "canary")
}

func blockedBy(w *world, reason string) bool {
	return slices.ContainsFunc(w.last.Blocking, func(b v1alpha1.Blocking) bool { return b.Reason == reason })
}

// TestPaceOfPodsThatVanish: a user who deletes pods, or a kubelet that evicts them, does not get the new revision to more nodes at once than the pace allows. The others get
// their last revision at once.
func TestPaceOfPodsThatVanish(t *testing.T) {
	for name, goes := range map[string]func(n *rollout.Node){
		"deleted": func(n *rollout.Node) { n.Pods, n.Last = nil, 0 },
		"evicted": func(n *rollout.Node) { n.Pods[0].Phase, n.Pods[0].Ready = rollout.Failed, false },
	} {
		for _, spec := range []string{"pace: {maxUpgrading: 1}", "pace: {minTimeBetween: 10m}"} {
			w := newWorld(t, spec)
			w.pass(0)
			for _, node := range []string{"c", "d", "e", "f"} {
				goes(w.node(node))
			}
			w.pass(0)
			for _, a := range w.plan().Actions {
				if a.Kind == rollout.Delete && a.Reason == rollout.ReplacingFailed {
					w.s.Nodes[a.Node].Pods, w.s.Nodes[a.Node].Last = nil, 0
				}
			}
			w.pass(time.Second)
			plan, created := w.plan(), map[int]string{}
			for _, a := range plan.Actions {
				if a.Kind == rollout.Create {
					created[a.Revision] += w.s.Nodes[a.Node].Name
				}
			}
			if created[0] != "def" || created[1] != "c" || len(plan.Actions) != 4 || !policy.Started(&plan) {
				t.Errorf("%s, %s: created %v, started %t: %+v", name, spec, created, policy.Started(&plan), plan.Actions)
			}
		}
	}
}

// TestPaceHoldsCreates: while nothing may start, a pod that vanishes is created from its last revision at once, except one that an update has taken, or the first one of a node.
func TestPaceHoldsCreates(t *testing.T) {
	w := newWorld(t, "pace: {minTimeBetween: 10m}")
	w.pass(0)
	w.last.LastStart = policy.Moment(w.s.Now)
	w.node("c").Pods, w.node("c").Last = nil, 0
	w.node("d").Pods, w.node("d").Last = nil, 1
	w.node("e").Pods = nil
	w.pass(time.Second)
	plan := w.plan()
	for _, a := range plan.Actions {
		if want := map[string]int{"c": 0, "d": 1, "e": 1}[w.s.Nodes[a.Node].Name]; a.Kind != rollout.Create || a.Revision != want {
			t.Errorf("%+v", a)
		}
	}
	if len(plan.Actions) != 3 || policy.Started(&plan) {
		t.Errorf("started %t: %+v", policy.Started(&plan), plan.Actions)
	}
}

// TestPaceCreatesNoPodOfAFailedRevision: pods of a revision that is being undone vanish, because a user or a kubelet deletes them. Their nodes get the committed revision at once, whatever
// the pace, also if the template describes it again.
func TestPaceCreatesNoPodOfAFailedRevision(t *testing.T) {
	for _, pace := range []string{"maxUpgrading: 1", "minTimeBetween: 10m"} {
		for name, undo := range map[string]func(w *world){
			"the policy undoes it":  func(w *world) { w.approve("back", "", "v2", v1alpha1.UndoRollout) },
			"the template is again": func(w *world) { w.s.Set.Update = 0 },
		} {
			w := newWorld(t, judgedStrictly()+"pace: {"+pace+"}\n")
			for _, node := range []string{"a", "b", "c"} {
				w.put(node, 1, true)
			}
			w.pass(0)
			undo(w)
			w.pass(time.Second)
			if w.last.Phase != v1alpha1.PhaseUndoing {
				t.Fatalf("%s: phase %s: %+v", name, w.last.Phase, w.last.Blocking)
			}
			w.last.LastStart = policy.Moment(w.s.Now)
			for _, node := range []string{"b", "c"} {
				w.node(node).Pods, w.node(node).Last = nil, 1
			}
			w.pass(time.Second)
			created := map[int]string{}
			for _, a := range w.plan().Actions {
				if a.Kind == rollout.Create {
					created[a.Revision] += w.s.Nodes[a.Node].Name
				}
			}
			if created[0] != "bc" || created[1] != "" {
				t.Errorf("%s, %s: created %v: %s", name, pace, created, w.verdicts())
			}
		}
	}
}

// TestAStartInTheFuture: the clock was set back after an update had started. That start counts as now, and not again for each manager that takes over.
func TestAStartInTheFuture(t *testing.T) {
	w := newWorld(t, "pace: {minTimeBetween: 10m}")
	w.pass(0)
	if got := w.roll(); got != "a" {
		t.Fatal(got)
	}
	w.last.LastStart = policy.Moment(w.s.Now.Add(time.Hour))
	w.lead()
	w.pass(time.Second)
	if got := w.roll(); got != "" {
		t.Errorf("%s starts, and the clock does not show how long ago a has started", got)
	}
	w.lead()
	w.pass(10 * time.Minute)
	if got := w.roll(); got != "b" {
		t.Errorf("%q starts 10 minutes later", got)
	}
}
