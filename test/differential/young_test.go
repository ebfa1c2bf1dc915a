// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
)

// TestYoungIsJudged: where pods have not been ready for long enough the native controller replaces all of them, and Everynode may do nothing else
// than both do where they have.
func TestYoungIsJudged(t *testing.T) {
	from := play(t, ours, start(), []act{{do: func(c *cluster) {
		for i := range 4 {
			must(c.create(nodes, newNode(fmt.Sprint("n", i+1), nil)))
		}
	}}})
	e := playBoth(t, from, editedAtOnce(1))
	if e.accepted != young {
		t.Fatalf("%q was accepted, want %q:\n%s", e.accepted, young, e)
	}
	if native, ours := running(e.native, broken), running(e.ours, broken); native != 4 || ours != 1 {
		t.Errorf("the native controller has updated %d pods, want all 4, and Everynode %d beside a budget of 1", native, ours)
	}

	wrong := &ending{ours: play(t, ours, from, editedAtOnce(2))}
	if n := running(wrong.ours, broken); n != 2 {
		t.Fatalf("%d pods are updated beside a budget of 2", n)
	}
	ds := at[appsv1.DaemonSet](wrong.ours, sets, "ds").DeepCopy()
	ds.Spec = at[appsv1.DaemonSet](e.ours, sets, "ds").Spec // nobody has asked for more than 1
	wrong.ours.tables[sets]["ds"] = ds
	grown := e.grow(t)
	grown.ours, grown.found, grown.accepted = wrong.ours, see(grown.from, grown.native).compare(see(grown.from, wrong.ours)), ""
	if grown.judge(t); len(grown.found) == 0 || grown.accepted != "" {
		t.Errorf("two nodes are without an available pod beside a budget of 1, which was accepted for: %s", grown.accepted)
	}
}

// editedAtOnce has a user edit a set that has just been made, whose pods have to be ready for half a minute; the new image never runs.
func editedAtOnce(budget int32) []act {
	return []act{{words: "a user creates ds", then: 10 * time.Second, do: func(c *cluster) {
		ds := setOf("img:1", budget)
		ds.Spec.MinReadySeconds = 30
		createSet(c, ds)
	}}, {words: "a user sets an image that never runs", do: func(c *cluster) {
		editSet(c, "ds", func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.Containers[0].Image = broken })
	}}}
}
