// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// inZones has the nodes a to j in five zones of two.
func inZones(t *testing.T, spec string) *world {
	w := newWorld(t, spec+"order: {topologyKey: zone, domains: OneAtATime}")
	for i, name := range strings.Split("abcdefghij", "") {
		w.labels[name] = map[string]string{"zone": string(rune('1' + i/2))}
	}
	return w
}

// outdates lets the template describe a revision that is older than all nodes, as after a rollback to it.
func (w *world) outdates() {
	w.s.Revisions[0].Created, w.s.Revisions[1].Created = noon.Add(-24*time.Hour), noon.Add(-72*time.Hour)
	for i := range w.s.Nodes {
		w.s.Nodes[i].Joined = noon.Add(-48 * time.Hour)
	}
}

// TestZonesOfAnOlderRevisionThatVanish: what nodes of a zone show does not depend on the age of the revision: a rollback to one that is older than the nodes does not reach one zone after the other.
func TestZonesOfAnOlderRevisionThatVanish(t *testing.T) {
	w := inZones(t, "")
	w.outdates()
	reached := ""
	for range 10 {
		w.pass(time.Minute)
		more := w.roll()
		w.pass(time.Second)
		if more != "" {
			w.vanish(more)
		}
		reached += more
	}
	if reached != "ab" || !blockedBy(w, "NodesGone") {
		t.Errorf("the version that destroys its nodes, of which zone 1 has two, reaches %q, in phase %s: %+v", reached, w.out.Status.Phase, w.out.Status.Blocking)
	}
}

// TestAPassedZoneOfAnOlderRevisionThatGoesDown: a zone that has passed and goes down holds no later one, also after a rollback.
func TestAPassedZoneOfAnOlderRevisionThatGoesDown(t *testing.T) {
	w := inZones(t, "unreachableAfter: 1m\n")
	w.outdates()
	w.pass(time.Minute)
	w.want("ab", v1alpha1.PhaseRolling, "remaining")
	w.pass(time.Second)
	w.want("cd", v1alpha1.PhaseRolling, "remaining")
	for _, name := range []string{"a", "b"} {
		n := w.node(name)
		n.Ready, n.Since, n.Pods[0].Ready = false, w.s.Now, false
	}
	reached := ""
	for range 5 {
		w.pass(time.Minute)
		reached += w.roll()
	}
	if reached != "efghij" {
		t.Errorf("updated %q, in phase %s: %+v", reached, w.out.Status.Phase, w.out.Status.Blocking)
	}
}
