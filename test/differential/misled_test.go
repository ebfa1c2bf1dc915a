// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestMisledIsJudged: where the generation on pods of another set misleads the native controller, Everynode may do nothing else than the native
// controller does without it. One node more that is without an available pod is told.
func TestMisledIsJudged(t *testing.T) {
	from := play(t, ours, start(), []act{{do: func(c *cluster) {
		for i := range 4 {
			must(c.create(nodes, newNode(fmt.Sprint("n", i+1), nil)))
		}
		createSet(c, setOf("img:1", 1))
	}}})
	e := playBoth(t, from, madeAnew(1))
	if e.accepted != misled {
		t.Fatalf("%q was accepted, want %q:\n%s", e.accepted, misled, e)
	}
	if native, ours := running(e.native, broken), running(e.ours, broken); native != 0 || ours != 1 {
		t.Errorf("the native controller has updated %d pods, which should mislead it, and Everynode %d beside a budget of 1", native, ours)
	}

	wrong := &ending{from: from, step: e.step, native: e.native, ours: play(t, ours, from, madeAnew(2))}
	if n := running(wrong.ours, broken); n != 2 {
		t.Fatalf("%d pods are updated beside a budget of 2", n)
	}
	ds := at[appsv1.DaemonSet](wrong.ours, sets, "ds").DeepCopy()
	ds.Spec = at[appsv1.DaemonSet](e.ours, sets, "ds").Spec // nobody has asked for more than 1
	wrong.ours.tables[sets]["ds"] = ds
	wrong.found = see(from, wrong.native).compare(see(from, wrong.ours))
	if wrong.judge(t); wrong.accepted != "" {
		t.Errorf("two nodes are without an available pod beside a budget of 1, which was accepted for: %s", wrong.accepted)
	}
}

// madeAnew has a user make a set anew, with an image that never runs; its pods stay.
func madeAnew(budget int32) []act {
	return []act{{words: "a user deletes ds, orphaning its pods", then: time.Second, do: func(c *cluster) { deleteSet(c, "ds", true) }},
		{words: "a user creates ds", do: func(c *cluster) { createSet(c, setOf(broken, budget)) }}}
}

func setOf(image string, budget int32) *appsv1.DaemonSet {
	ds := newAuthor(0).newSet("ds")
	ds.Spec = appsv1.DaemonSetSpec{Selector: ds.Spec.Selector, Template: corev1.PodTemplateSpec{ObjectMeta: ds.Spec.Template.ObjectMeta}}
	ds.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: image}}
	ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{
		Type:          appsv1.RollingUpdateDaemonSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromInt32(budget)), MaxSurge: new(intstr.FromInt32(0))},
	}
	return ds
}

// running is how many pods are there with an image.
func running(s *state, image string) int {
	n := 0
	for _, o := range s.tables[pods] {
		if o.(*corev1.Pod).Spec.Containers[0].Image == image {
			n++
		}
	}
	return n
}
