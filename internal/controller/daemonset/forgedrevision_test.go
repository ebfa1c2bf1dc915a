// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/clustercache"
)

// A revision that was deleted while a policy holds nodes back, and that a stranger has made once more with another template, is no source of pods: neither
// for nodes that lose their pod, nor for nodes that join, and also after a new start of the manager. The rollout still passes all waves.
func TestARevisionOfAStrangerIsNoSourceOfPodsUnderAPolicy(t *testing.T) {
	for name, forged := range map[string]struct {
		name   func(genuine string) string
		number int64
		mark   int64
	}{
		"with the name":            {func(name string) string { return name }, 1, 0},
		"with the name, highest":   {func(name string) string { return name }, math.MaxInt64 - 10, 0},
		"with another name":        {func(string) string { return "evil" }, 1, 0},
		"with the name, marked":    {func(name string) string { return name }, 1, 9},
		"another name, marked":     {func(string) string { return "evil" }, 1, math.MaxInt64},
		"another number, and mark": {func(name string) string { return name + "-1" }, 1000, 1000},
	} {
		for when, before := range map[string]bool{"before the deletion": true, "after it": false} {
			for _, again := range []bool{false, true} {
				if before && forged.name("") == "" {
					continue // the name is taken
				}
				t.Run(fmt.Sprintf("%s, %s, another leader %t", name, when, again), func(t *testing.T) {
					w, r := governedWorld(t)
					first := w.currentRevision()
					w.clock.Step(time.Minute)
					w.edit("img:v2")
					w.settle()
					forge := func() {
						w.foreignRevision(forged.name(first.Name), first.Labels[appsv1.ControllerRevisionHashLabelKey], forged.number)
						if r := w.revisions[forged.name(first.Name)]; forged.mark > 0 {
							r.Annotations = map[string]string{everynode.Committed: everynode.FormatCommitted(forged.mark, string(r.UID))}
							r.ResourceVersion = w.next()
							w.seeRevision(r)
						}
						w.passFor(2 * time.Second)
					}
					if before {
						forge()
					}
					delete(w.revisions, first.Name)
					w.index.DropRevision(first.UID)
					w.passFor(2 * time.Second)
					if !before {
						forge()
					}
					if again {
						w.c.states = map[clustercache.Key]*state{}
					}
					w.passFor(2 * time.Second)
					w.index.PutNode(clustercache.Node{Name: "n9", RV: w.next(), Ready: true, Created: timeOf(w.clock.Now())})
					w.passFor(5 * time.Second)
					for name, p := range w.pods {
						if p.Spec.NodeName == "n3" {
							w.gone(name)
						}
					}
					w.passFor(30 * time.Second)
					if evil := w.images("evil"); len(evil) > 0 {
						t.Errorf("%v run the template of the stranger", evil)
					}
					if len(w.pods) != 5 {
						t.Errorf("%d pods, want 5", len(w.pods))
					}
					if got := w.images("img:v1"); !slices.Equal(got, []string{"n2", "n4"}) || r.last().Phase != v1alpha1.PhaseWaitingForApproval {
						t.Errorf("%v keep the first revision, phase %s, want n2 and n4", got, r.last().Phase)
					}
				})
			}
		}
	}
}

// The revisions that a set has had are those of its pods: one that was written again, as by a restore, and one of which another version made the hash.
func TestRevisionsOfTheSetAreSourcesOfPodsUnderAPolicy(t *testing.T) {
	for name, change := range map[string]func(w *world, r *appsv1.ControllerRevision){
		"as made":               func(*world, *appsv1.ControllerRevision) {},
		"younger than its pods": func(w *world, r *appsv1.ControllerRevision) { r.CreationTimestamp.Time = w.clock.Now() },
		"with another hash": func(w *world, r *appsv1.ControllerRevision) {
			delete(w.revisions, r.Name)
			w.index.DropRevision(r.UID)
			r.Name, r.UID = "ds-older", "older"
			r.Labels[appsv1.ControllerRevisionHashLabelKey] = "older"
			w.revisions[r.Name] = r
			for _, p := range w.pods {
				p.Labels = maps.Clone(p.Labels) // the index has this map too
				p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] = "older"
				w.changed(p)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := governedWorld(t)
			first := w.currentRevision()
			change(w, first)
			first.ResourceVersion = w.next()
			w.seeRevision(first)
			w.edit("img:v2")
			w.settle()
			first = w.revisions[first.Name]
			first.Annotations = nil // without its mark
			first.ResourceVersion = w.next()
			w.seeRevision(first)
			w.c.states = map[clustercache.Key]*state{}
			w.passFor(2 * time.Second)
			for name, p := range w.pods {
				if p.Spec.NodeName == "n3" {
					w.gone(name)
				}
			}
			w.passFor(5 * time.Second)
			if got := strings.Join(w.images("img:v1"), ""); got != "n2n3n4" {
				t.Errorf("%s keep the first revision", got)
			}
		})
	}
}
