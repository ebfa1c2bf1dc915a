// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

const judgedTwice = `
waves: [{name: canary, nodes: {count: 3}, soak: 1m}, {name: rest, nodes: {percent: 100}}]
failure: {nodeDeadline: 5m, maxFailedNodes: 0, waitingReasons: [ImagePullBackOff], action: Undo}
`

// joins lets a node join without a pod.
func (w *world) joins(name string) {
	w.join(name, w.s.Now, 0)
	w.node(name).Pods = nil
}

// joined is the last wave of a rollout, in which node k has joined. The update of node j has not ended, so neither has the wave.
func joined(t *testing.T, spec string) *world {
	t.Helper()
	w := canary(t, spec)
	w.pass(time.Second)
	w.pass(61 * time.Second)
	w.want("defghij", v1alpha1.PhaseRolling, "rest")
	w.fails("j", hangs)
	w.pass(time.Second)
	w.joins("k")
	w.pass(time.Second)
	w.want("k", v1alpha1.PhaseRolling, "rest")
	return w
}

// A node that joins in the middle, and on which nothing works, says nothing about the revision. The wave ends without it.
func TestANodeThatJoinsAndNeverWorks(t *testing.T) {
	for name, fail := range map[string]func(*rollout.Pod){"hangs": hangs, "waits": pulls, "restarts": restarts} {
		t.Run(name, func(t *testing.T) {
			w := joined(t, judgedTwice)
			w.fails("k", fail)
			w.put("j", 1, true)
			for range 8 {
				w.pass(time.Minute)
			}
			w.want("", v1alpha1.PhaseComplete, "")
			if w.last.Failure != nil {
				t.Errorf("failure %+v", w.last.Failure)
			}
		})
	}
}

// The waves go on without a node that joins and pulls the image for longer than nodeDeadline. That is no failure, and the node counts when its pod works.
func TestANodeThatJoinsAndPullsForLong(t *testing.T) {
	w := joined(t, judgedTwice)
	w.fails("k", func(p *rollout.Pod) { p.Phase, p.Pull = rollout.Pending, rollout.Pulls })
	w.put("j", 1, true)
	w.pass(time.Second)
	if rest := w.out.Wake.Sub(w.s.Now); rest != 5*time.Minute {
		t.Errorf("it looks again after %s", rest)
	}
	w.pass(4*time.Minute + 59*time.Second)
	w.want("", v1alpha1.PhaseRolling, "rest")
	w.pass(time.Second)
	w.pass(0)
	w.want("", v1alpha1.PhaseComplete, "")
	if w.last.Failure != nil {
		t.Errorf("failure %+v", w.last.Failure)
	}
}

// A node that was there before, and pulls for long, holds its wave.
func TestANodeThatPullsForLong(t *testing.T) {
	w := canary(t, judgedTwice)
	w.fails("a", func(p *rollout.Pod) { p.Phase, p.Pull = rollout.Pending, rollout.Pulls })
	w.pass(time.Second)
	w.pass(time.Hour)
	w.want("", v1alpha1.PhaseRolling, "canary")
	if w.last.Waves[0].Nodes != 3 {
		t.Errorf("%+v", w.last.Waves[0])
	}
}

// The status names such a node. It counts as soon as it has had an available pod.
func TestANodeThatJoinsAndWorks(t *testing.T) {
	for name, inPlace := range map[string]bool{"recreated": false, "in place": true} {
		t.Run(name, func(t *testing.T) {
			w := joined(t, judgedTwice)
			w.s.Set.InPlace = inPlace
			w.fails("k", pulls)
			w.pass(time.Second)
			w.wantBrokenBefore("k")
			w.put("k", 1, true)
			w.pass(time.Second)
			w.wantBrokenBefore()
			w.fails("k", pulls)
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseFailed, "rest")
		})
	}
}

// Where the revision fails on other nodes too, it has failed on those that join as well.
func TestANodeThatJoinsAndOthersFail(t *testing.T) {
	w := joined(t, strings.Replace(judgedTwice, "maxFailedNodes: 0", "maxFailedNodes: 1", 1))
	w.fails("k", pulls)
	w.pass(time.Second)
	w.wantBrokenBefore("k")
	w.fails("d", pulls)
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseFailed, "rest")
	if got := w.last.Failure.Message; !strings.Contains(got, "2 of 8 nodes failed, and 1 may fail. Nodes: d (ImagePullBackOff), k (ImagePullBackOff).") {
		t.Errorf("it says %s", got)
	}
}

// If a node of another wave has failed, and may, nodes that join and on which nothing works still say nothing about the revision.
func TestNodesThatJoinWhereAnotherWaveMayFail(t *testing.T) {
	for name, fails := range map[string]string{"no node has failed": "", "one has, in another wave": "a"} {
		t.Run(name, func(t *testing.T) {
			w := canary(t, strings.Replace(judgedTwice, "maxFailedNodes: 0", "maxFailedNodes: 1", 1))
			if fails != "" {
				w.fails(fails, pulls)
			}
			w.pass(time.Second)
			w.pass(61 * time.Second)
			w.want("defghij", v1alpha1.PhaseRolling, "rest")
			w.fails("j", func(p *rollout.Pod) { p.Phase, p.Pull = rollout.Pending, rollout.Pulls }) // so the wave does not end
			w.joins("k")
			w.joins("l")
			w.pass(time.Second)
			w.want("kl", v1alpha1.PhaseRolling, "rest")
			w.fails("k", pulls)
			w.fails("l", pulls)
			for range 10 {
				w.pass(time.Minute)
			}
			w.wantNoFailure()
			w.wantBrokenBefore("k", "l")
			w.fails("j", pulls)
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseFailed, "rest")
		})
	}
}

// A wave of which only such nodes are left shows nothing, so it does not end.
func TestAWaveOfNodesThatJoinAndNeverWork(t *testing.T) {
	w := canary(t, strings.Replace(judgedTwice, "percent: 100", "selector: {matchLabels: {new: \"true\"}}", 1))
	w.labels["k"] = map[string]string{"new": "true"}
	w.joins("k")
	w.pass(time.Second)
	w.pass(61 * time.Second) // it gets its first pod only then
	w.pass(time.Second)
	w.roll()
	w.fails("k", pulls)
	for range 5 {
		w.pass(time.Hour)
		w.want("", v1alpha1.PhaseRolling, "rest")
		if b := w.last.Blocking; len(b) != 1 || b[0].Reason != policy.NodesLeftOut || !strings.HasPrefix(b[0].Message, "Each node of the wave rest (1) is left out now") {
			t.Errorf("the status must say why nothing goes on: %+v", b)
		}
	}
}

// TestAWaveOfNodesThatAreDown: their pods were available before, so the status must not claim that these alone are broken.
func TestAWaveOfNodesThatAreDown(t *testing.T) {
	w := newWorld(t, "{unreachableAfter: 1m, waves: [{name: canary, nodes: {count: 2}}]}")
	w.pass(0)
	for _, name := range []string{"a", "b"} {
		w.node(name).Ready, w.node(name).Since = false, w.s.Now
	}
	w.pass(time.Hour) // since then it is known
	w.pass(time.Hour)
	if b := w.out.Status.Blocking; len(b) != 1 || b[0].Reason != policy.NodesLeftOut || !strings.Contains(b[0].Message, "or because the node is not ready") {
		t.Errorf("the status must say why nothing goes on: %+v", b)
	}
}

// A node that joins before its wave begins gets the committed revision, which does not work there either; with joiningNodes: Latest, it gets the new one at once.
func TestANodeThatJoinsBeforeItsWaveAndNeverWorks(t *testing.T) {
	for joining, revision := range map[string]int{"Stable": 0, "Latest": 1} {
		t.Run(joining, func(t *testing.T) {
			w := canary(t, judgedTwice+"joiningNodes: "+joining+"\n")
			w.joins("k")
			w.pass(time.Second)
			w.want("k", v1alpha1.PhaseSoaking, "canary")
			if got := w.node("k").Pods[0].Revision; got != revision {
				t.Fatalf("it gets revision %d", got)
			}
			for range 9 {
				w.fails("k", pulls)
				w.pass(time.Minute)
				w.roll()
			}
			w.fails("k", pulls)
			w.pass(time.Second)
			if w.last.Failure != nil || w.last.Phase != v1alpha1.PhaseComplete {
				t.Errorf("phase %s, failure %+v", w.last.Phase, w.last.Failure)
			}
		})
	}
}

// Another manager finds the pod that such a node has got. It knows from the times that this is the first one.
func TestANodeThatJoinsAndNeverWorksUnderAnotherManager(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world, n *rollout.Node, p *rollout.Pod)
		fails  bool
	}{
		"its first pod":              {func(*world, *rollout.Node, *rollout.Pod) {}, false},
		"it joined long before":      {func(_ *world, n *rollout.Node, _ *rollout.Pod) { n.Joined = n.Joined.Add(-time.Hour) }, true},
		"it is not known when":       {func(_ *world, n *rollout.Node, _ *rollout.Pod) { n.Joined = 0 }, true},
		"the pod was ready for long": {func(w *world, _ *rollout.Node, p *rollout.Pod) { p.ReadySince = w.s.Now.Add(time.Hour) }, true},
		"the pod is older": {func(_ *world, n *rollout.Node, p *rollout.Pod) {
			n.Joined, p.Created, p.ReadySince = noon-1, noon-1, noon-1
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := joined(t, judgedTwice)
			w.put("k", 1, true)
			w.pass(time.Second)
			w.put("j", 1, true)
			w.restored = true
			w.fails("k", hangs)
			n := w.node("k")
			n.Pods[0].ReadySince = n.Pods[0].Created
			c.change(w, n, &n.Pods[0])
			w.pass(time.Second)
			w.pass(5 * time.Minute)
			if failed := w.last.Failure != nil; failed != c.fails {
				t.Errorf("failure %+v, not ready before %v", w.last.Failure, w.last.NotReadyBefore)
			}
		})
	}
}

// A broken pod that a user deletes just before the rollout begins was broken before.
func TestABrokenPodThatAUserDeletes(t *testing.T) {
	for name, c := range map[string]struct {
		fails bool
		want  []string
	}{"broken": {true, []string{"a"}}, "not broken": {false, nil}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, judgedTwice)
			w.s.Set.Update = 0
			w.pass(0)
			if c.fails {
				w.fails("a", hangs)
			}
			w.pass(time.Second)
			w.node("a").Pods, w.node("a").Last = nil, 0
			w.pass(time.Second)
			w.s.Set.Update = 1
			w.pass(time.Second)
			w.wantBrokenBefore(c.want...)
			w.put("a", 1, false)
			w.pass(time.Second)
			w.pass(5 * time.Minute)
			if failed := w.last.Failure != nil; failed == c.fails {
				t.Errorf("failure %+v", w.last.Failure)
			}
		})
	}
}

// A node that joined while no rollout was active, and never got a pod because the API server refuses it, fails no revision.
func TestANodeThatNeverGotAPod(t *testing.T) {
	w := newWorld(t, judgedTwice)
	w.s.Set.Update = 0
	w.joins("k")
	w.node("k").Refusal = &rollout.Refusal{Denied: true, Message: "no"}
	w.pass(0)
	w.pass(time.Hour)
	w.s.Set.Update = 1
	w.node("k").Last = 1 // it was to get the next one
	for range 3 {
		w.pass(5 * time.Minute)
		w.roll()
		w.node("k").Pods = nil
	}
	if w.last.Failure != nil || !slices.Equal(w.last.NotReadyBefore, []string{"k"}) {
		t.Errorf("failure %+v, not ready before %v", w.last.Failure, w.last.NotReadyBefore)
	}
}

// A node that joins during an undo, and on which nothing works, does not stop it.
func TestANodeThatJoinsDuringAnUndo(t *testing.T) {
	w, first := allUndone(t)
	w.put(first, 0, true)
	w.joins("k")
	w.pass(time.Second)
	w.roll()
	w.fails("k", pulls)
	w.pass(time.Second)
	w.pass(5 * time.Minute)
	if w.last.Phase != v1alpha1.PhaseUndoing {
		t.Errorf("phase %s: %+v", w.last.Phase, w.last.Blocking)
	}
}

// TestAManagerThatDiesBetweenDeleteAndCreate: the template describes a revision again whose ControllerRevision is older than the nodes. A manager deletes the pods of the canary, and dies while they
// terminate. The next one finds nodes without a pod, and cannot guess which revision they had (clustercache.lastOf). But they exist since before the rollout began, so they have not joined: the
// revision fails on them, and they return.
func TestAManagerThatDiesBetweenDeleteAndCreate(t *testing.T) {
	w := newWorld(t, strings.Replace(judged, "maxFailedNodes: 1", "maxFailedNodes: 0", 1))
	w.s.Revisions[1].Created = w.s.Now.Add(-30 * 24 * time.Hour)
	for i := range w.s.Nodes {
		w.s.Nodes[i].Joined = w.s.Now.Add(-10 * 24 * time.Hour)
	}
	w.pass(0)
	w.s.Now = w.s.Now.Add(time.Second)
	for _, name := range []string{"a", "b", "c"} {
		w.node(name).Pods = nil
	}
	w.lead()
	w.pass(20 * time.Second)
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	for _, name := range []string{"a", "b", "c"} {
		w.fails(name, pulls)
	}
	for range 30 {
		w.pass(time.Minute)
		w.roll()
	}
	if w.last.Failure == nil {
		t.Errorf("the pods of all canary nodes have failed for 30 minutes: phase %s, blocking %+v, not ready before %v", w.last.Phase, w.last.Blocking, w.last.NotReadyBefore)
	}
	if nodes := w.have(1); nodes != "" {
		t.Errorf("nodes %s still have the bad revision", nodes)
	}
}

// TestAManagerThatDiesAfterNodesWereReplaced: nodes of a canary were replaced after the rollout had begun, while no window was open, and run the committed revision. Then the wave begins, and the
// manager dies while their pods terminate. They are older than the update of their wave, so they have not joined: the revision fails on them, and they return.
func TestAManagerThatDiesAfterNodesWereReplaced(t *testing.T) {
	w := newWorld(t, strings.Replace(judgedStrictly(), "count: 3", "selector: {matchLabels: {canary: \"yes\"}}", 1))
	for _, name := range []string{"a", "b", "c"} {
		w.labels[name] = map[string]string{"canary": "yes"}
	}
	w.policies[0].Suspend = true
	w.pass(time.Second)
	w.pass(time.Hour)
	for _, name := range []string{"a", "b", "c"} {
		w.node(name).Joined = w.s.Now
		w.put(name, 0, true)
	}
	w.pass(time.Minute)
	w.pass(time.Hour)
	w.policies[0].Suspend = false
	w.pass(time.Second)
	w.pass(time.Second)
	for _, name := range []string{"a", "b", "c"} {
		w.node(name).Pods = nil
	}
	for range 2 { // the next manager dies too
		w.lead()
		w.pass(20 * time.Second)
	}
	w.want("abc", v1alpha1.PhaseRolling, "canary")
	for _, name := range []string{"a", "b", "c"} {
		w.fails(name, pulls)
	}
	for range 30 {
		w.pass(time.Minute)
		w.roll()
	}
	if nodes := w.have(1); w.last.Failure == nil || nodes != "" {
		t.Errorf("nodes %q still have the bad revision: phase %s, blocking %+v, not ready before %v", nodes, w.last.Phase, w.last.Blocking, w.last.NotReadyBefore)
	}
}

// TestANodeThatGetsItsFirstPodLate: a node joins just before another manager takes over, or has been there all the time, but had to run no pod. Nothing works there, which says nothing
// about the revision.
func TestANodeThatGetsItsFirstPodLate(t *testing.T) {
	for name, lead := range map[string]bool{"it joins, and another manager takes over": true, "it had to run no pod": false} {
		t.Run(name, func(t *testing.T) {
			w := canary(t, judgedTwice)
			w.joins("k")
			k := w.node("k")
			if k.Fit = rollout.MustLeave; !lead {
				k.Joined = noon.Add(-time.Hour)
			}
			w.pass(time.Second)
			w.pass(61 * time.Second)
			w.want("defghij", v1alpha1.PhaseRolling, "rest")
			w.fails("j", hangs)
			w.pass(time.Second)
			if k.Fit = rollout.MustRun; lead {
				w.lead()
			}
			w.pass(time.Second)
			w.want("k", v1alpha1.PhaseRolling, "rest")
			w.fails("k", pulls)
			w.put("j", 1, true)
			w.pass(time.Minute)
			w.wantNoFailure()
			w.wantBrokenBefore("k")
		})
	}
}

// TestManyNodesJoinDuringARollout: the status names at most 256 nodes that have joined since the rollout began, and first those of the wave that is updated next.
func TestManyNodesJoinDuringARollout(t *testing.T) {
	w := newWorld(t, "{waves: [{name: canary, nodes: {selector: {matchLabels: {canary: \"yes\"}}}}], failure: {maxFailedNodes: 0}}")
	w.labels["a"] = map[string]string{"canary": "yes"}
	w.policies[0].Suspend = true
	w.pass(time.Second)
	for i := range 300 {
		w.join(fmt.Sprintf("k%03d", i), w.s.Now, 0)
	}
	w.labels["k299"] = w.labels["a"]
	w.pass(time.Second)
	if names := w.last.JoinedWithPod; len(names) != 256 || names[0] != "k299" || names[1] != "k000" {
		t.Errorf("%d nodes, %v", len(names), names)
	}
	w.labels["k299"] = nil
	w.pass(time.Second)
	if names := w.last.JoinedWithPod; len(names) != 256 || names[0] != "k000" {
		t.Errorf("%d nodes, %v", len(names), names)
	}
}
