// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// A revision that has failed is not rolled out again because a stranger creates a ControllerRevision: one with a high number, for which the number of the target is raised, or
// a copy of that of the target. Nor does that change anything for another manager.
func TestAStrangersRevisionForgetsNoFailure(t *testing.T) {
	for name, stranger := range map[string]func(w *world, round int){
		"a high number": func(w *world, round int) {
			w.foreignRevision(fmt.Sprint("evil-", round), fmt.Sprint("evil", round), int64(1000*(round+1)))
		},
		"a copy": func(w *world, round int) {
			bad, name := w.currentRevision().DeepCopy(), fmt.Sprint("copy-", round)
			w.foreignRevision(name, fmt.Sprint(bad.Labels[appsv1.ControllerRevisionHashLabelKey], "-copy", round), bad.Revision+1)
			w.revisions[name].Data, w.revisions[name].ResourceVersion = bad.Data, w.next()
			w.seeRevision(w.revisions[name])
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := judgedWorld(t)
			w.settleAndWait()
			if got := r.last(); got.Phase != v1alpha1.PhaseFailed || len(w.images("img:v1")) != 4 {
				t.Fatalf("%+v", got)
			}
			of := r.last().TargetNumber
			for round := range 3 {
				stranger(w, round)
				for range 20 {
					w.deliver()
					_ = w.pass()
					w.kubelets()
					if bad := w.images("img:bad"); len(bad) > 0 {
						t.Fatalf("round %d: %v got the revision that had failed", round, bad)
					}
					w.clock.Step(time.Second)
				}
			}
			if got := r.last(); got.Phase != v1alpha1.PhaseFailed || got.TargetNumber != of {
				t.Errorf("%+v", got)
			}
		})
	}
}
