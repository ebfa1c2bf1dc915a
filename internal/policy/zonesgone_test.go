// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestZonesOfNodesThatVanish: a version that destroys each node that gets it does not reach one zone after the other: a zone of which no node is left shows nothing, as a step of growth of which none is.
func TestZonesOfNodesThatVanish(t *testing.T) {
	for name, waves := range map[string]string{"percent": "waves: [{name: all, nodes: {percent: 100}}]\n", "remaining": ""} {
		w := newWorld(t, waves+"order: {topologyKey: zone, domains: OneAtATime}")
		for i, name := range strings.Split("abcdefghij", "") {
			w.labels[name] = map[string]string{"zone": string(rune('1' + i/2))}
		}
		reached := ""
		for range 10 {
			w.pass(time.Minute)
			more := w.roll()
			w.pass(time.Second)
			for n := range strings.SplitSeq(more, "") {
				if n != "" {
					w.vanish(n)
				}
			}
			reached += more
		}
		if !blockedBy(w, "NodesGone") || !strings.Contains(w.last.Blocking[0].Message, "with the label zone=1, and none of these is left") {
			t.Errorf("%s: blocking %+v", name, w.last.Blocking)
		}
		if reached != "ab" {
			t.Errorf("%s: the version that destroys its nodes, of which zone 1 has two, reaches %q, in phase %s", name, reached, w.out.Status.Phase)
		}
	}
}

// TestAZoneThatIsGone: another manager knows of it too, a node of a later zone that joins with the new version does not hide it, and a user can go on without it. Nodes of earlier zones may go.
func TestAZoneThatIsGone(t *testing.T) {
	w := newWorld(t, "waves: [{name: all}]\norder: {topologyKey: zone, domains: OneAtATime}\njoiningNodes: Latest")
	for i, name := range strings.Split("abcdefghij", "") {
		w.labels[name] = map[string]string{"zone": string(rune('1' + i/2))}
	}
	w.pass(0)
	w.want("ab", v1alpha1.PhaseRolling, "all")
	w.pass(time.Second)
	w.want("cd", v1alpha1.PhaseRolling, "all")
	w.vanish("a")
	w.vanish("b")
	w.pass(time.Second)
	w.want("ef", v1alpha1.PhaseRolling, "all")
	w.pass(time.Second)
	w.vanish("e")
	w.vanish("f")
	w.labels["k"] = map[string]string{"zone": "6"}
	w.join("k", w.s.Now, 1)
	w.restored = true
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseStalled, "all")
	w.approve("on", "all", "v2", v1alpha1.Promote)
	w.pass(time.Second)
	w.want("gh", v1alpha1.PhaseRolling, "all")
}

// withoutZone2 is a world of inZones in which the second zone vanishes after its update.
func withoutZone2(t *testing.T, spec string) *world {
	t.Helper()
	w := inZones(t, spec)
	w.pass(0)
	w.want("ab", v1alpha1.PhaseRolling, "remaining")
	w.pass(time.Second)
	w.want("cd", v1alpha1.PhaseRolling, "remaining")
	w.pass(time.Second)
	w.vanish("cd")
	return w
}

// TestAZoneOfWhichAllNodesAreReplaced: nodes that take the places of others in a zone get the revision in its turn, and if it works there, the next zone begins.
func TestAZoneOfWhichAllNodesAreReplaced(t *testing.T) {
	w := withoutZone2(t, "")
	for _, name := range []string{"k", "l"} {
		w.join(name, w.s.Now, 0)
		w.labels[name] = map[string]string{"zone": "2"}
	}
	w.pass(time.Second)
	w.want("kl", v1alpha1.PhaseRolling, "remaining")
	reached := ""
	for range 5 {
		w.pass(time.Minute)
		reached += w.roll()
	}
	if w.out.Status.Phase != v1alpha1.PhaseComplete {
		t.Errorf("updated %q, in phase %s: %+v", reached, w.out.Status.Phase, w.out.Status.Blocking)
	}
}

// TestAZoneOfNodesThatJoinedAndVanish: a zone whose nodes have all joined during the rollout shows as little as another one when the version has destroyed them.
func TestAZoneOfNodesThatJoinedAndVanish(t *testing.T) {
	for joining, rolled := range map[string]string{"Stable": "kl", "Latest": "n"} { // with Latest, k and l get the revision before their turn
		w := inZones(t, "unreachableAfter: 1m\njoiningNodes: "+joining+"\n")
		if joining == "Latest" {
			w.join("n", 0, 0)
			w.labels["n"] = map[string]string{"zone": "2"}
		}
		w.pass(0)
		w.want("ab", v1alpha1.PhaseRolling, "remaining")
		w.vanish("cd")
		for _, name := range []string{"k", "l"} {
			w.join(name, w.s.Now.Add(time.Second), map[string]int{"Latest": 1}[joining])
			w.labels[name] = map[string]string{"zone": "2"}
		}
		w.pass(2 * time.Second)
		w.want(rolled, v1alpha1.PhaseRolling, "remaining")
		w.pass(time.Second)
		w.vanish("kl")
		if joining == "Latest" {
			w.vanish("n")
		}
		w.restored = true
		w.pass(time.Second)
		w.want("", v1alpha1.PhaseStalled, "remaining")
		if !blockedBy(w, "NodesGone") || !strings.Contains(w.last.Blocking[0].Message, "with the label zone=2, and none of these is left") {
			t.Errorf("%s: blocking %+v", joining, w.last.Blocking)
		}
	}
}

// TestAZoneOfNodesThatJoinedAndAreLeftOut: a zone whose nodes have all joined during the rollout, and went down with the revision, is not gone.
func TestAZoneOfNodesThatJoinedAndAreLeftOut(t *testing.T) {
	w := inZones(t, "unreachableAfter: 1m\n")
	w.pass(0)
	w.want("ab", v1alpha1.PhaseRolling, "remaining")
	w.vanish("cd")
	w.join("k", w.s.Now.Add(time.Second), 0)
	w.labels["k"] = map[string]string{"zone": "2"}
	w.pass(2 * time.Second)
	w.want("k", v1alpha1.PhaseRolling, "remaining")
	w.put("k", 1, false)
	w.pass(time.Second)
	w.kills("k")
	for range 4 {
		w.pass(time.Minute)
		w.want("", v1alpha1.PhaseRolling, "remaining")
	}
	if !blockedBy(w, "NodesLeftOut") {
		t.Errorf("blocking %+v", w.last.Blocking)
	}
}

// TestAReplacedZoneOnWhichThePodNeverWorks: the revision works on none of the nodes that took the places of a zone that is gone, so it may be why that is gone, although such nodes do not hold a wave.
func TestAReplacedZoneOnWhichThePodNeverWorks(t *testing.T) {
	w := withoutZone2(t, "failure: {nodeDeadline: 1m, maxFailedNodes: 0, action: Pause}\n")
	w.join("k", w.s.Now.Add(time.Second), 1)
	w.labels["k"] = map[string]string{"zone": "2"}
	w.node("k").Pods = nil
	w.pass(time.Second)
	w.put("k", 1, false)
	for range 5 {
		w.pass(time.Minute)
		if got := w.roll(); got != "" {
			t.Fatalf("updates %q: %+v", got, w.last)
		}
	}
}

// TestAZoneThatIsScaledDown: that the revision works in an earlier zone does not show why a zone is gone, and the sentence does not deny that it works there.
func TestAZoneThatIsScaledDown(t *testing.T) {
	w := withoutZone2(t, "")
	w.pass(time.Minute)
	w.want("", v1alpha1.PhaseStalled, "remaining")
	want := "The update had begun on nodes of the wave remaining with the label zone=2, and none of these is left. The revision may be the reason, also if it works on nodes with another label: " +
		"wait until they are back, go on without them with a RolloutApproval with the decision Promote, or change the template."
	if got := w.last.Blocking[0].Message; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}
}
