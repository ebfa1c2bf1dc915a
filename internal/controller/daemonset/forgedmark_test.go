// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"math"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// markBy writes a mark on a revision as an account may that may patch ControllerRevisions.
func (w *world) markBy(name, annotation, value string) {
	r := w.revisions[name].DeepCopy()
	if r.Annotations == nil {
		r.Annotations = map[string]string{}
	}
	r.Annotations[annotation] = value
	r.ResourceVersion = w.next()
	w.revisions[name] = r
	w.seeRevision(r)
}

// A mark with the highest number does not keep later revisions from being committed.
func TestMarkWithTheHighestNumber(t *testing.T) {
	w, r := governedWorld(t)
	first := w.currentRevision()
	w.markBy(first.Name, everynode.Committed, everynode.FormatCommitted(math.MaxInt64, string(first.UID)))
	w.settle()
	w.edit("img:v2")
	w.settle()
	r.approve("canary", w.currentRevision().Name)
	w.passFor(60 * time.Second)
	w.forgetLog()
	w.passFor(60 * time.Second)
	if got := r.last(); got.Phase != v1alpha1.PhaseComplete || got.CommittedRevision != got.TargetRevision {
		t.Errorf("phase %s, committed %s, target %s, marks %v, images %v, %d writes a minute", got.Phase, got.CommittedRevision, got.TargetRevision, w.commits(), w.images("img:v2"), len(w.log))
	}
	w.edit("img:v1") // the earlier revision returns, and goes through all waves like any other
	w.settle()
	w.passFor(60 * time.Second)
	if got := w.images("img:v1"); len(got) != 1 || r.last().Phase != v1alpha1.PhaseWaitingForApproval {
		t.Errorf("%v have the earlier revision, phase %s, marks %v", got, r.last().Phase, w.commits())
	}
}
