// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/policy"
)

// refuseRevisions has each create of a ControllerRevision answered with an error; nil lets them pass again.
func (w *world) refuseRevisions(answer error) {
	w.before = func(verb, _ string) error {
		if verb == "create-revision" {
			return answer
		}
		return nil
	}
}

// TestARevisionThatIsRefusedIsReported: while a webhook refuses the ControllerRevision of a new template, the policy reports that the rollout does not begin, and not that all is complete.
// The status keeps what it has of the rollout before, and the new one begins when the revision is accepted.
func TestARevisionThatIsRefusedIsReported(t *testing.T) {
	w, r := governedWorld(t)
	before := r.last()
	w.refuseRevisions(apierrors.NewForbidden(schema.GroupResource{Resource: "controllerrevisions"}, "ds", errors.New("no")))
	w.edit("img:v2")
	for range 5 {
		_ = w.pass()
		w.clock.Step(time.Minute)
	}
	got := r.last()
	if got.Phase != v1alpha1.PhaseStalled || got.Enforcement != v1alpha1.EnforcementFull || len(got.Blocking) != 1 || got.Blocking[0].Reason != "RevisionRefused" ||
		!strings.Contains(got.Blocking[0].Message, "is forbidden: no. Let the API server accept it") {
		t.Fatalf("%+v", got)
	}
	if got.TargetRevision != before.TargetRevision || got.TargetNumber != before.TargetNumber || got.CommittedDigest != before.CommittedDigest || got.ObservedGeneration != before.ObservedGeneration ||
		!slices.EqualFunc(got.Waves, before.Waves, func(a, b v1alpha1.WaveStatus) bool { return a.Phase == b.Phase }) {
		t.Errorf("%+v, before %+v", got, before)
	}
	r.Remembered = &got
	w.c.states = map[clustercache.Key]*state{} // another leader
	w.refuseRevisions(nil)
	w.settleAndWait()
	if got, nodes := r.last(), w.images("img:v2"); got.Phase != v1alpha1.PhaseWaitingForApproval || strings.Join(nodes, "") != "n1" {
		t.Errorf("%+v, %v", got, nodes)
	}
}

// TestARevisionThatIsNotReported: what is not clear, or not for the policy to control, stays as it was reported.
func TestARevisionThatIsNotReported(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "controllerrevisions"}, "ds", errors.New("no"))
	for name, c := range map[string]struct {
		answer  error
		prepare func(r *rules)
	}{
		"no clear answer": {apierrors.NewTimeoutError("no", 1), func(*rules) {}},
		"a conflict": {forbidden, func(r *rules) {
			second := canaryPolicy()
			second.Name, second.UID = "q", "q-uid"
			r.Policies = append(r.Policies, policy.Read(second))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := governedWorld(t)
			c.prepare(r)
			w.refuseRevisions(c.answer)
			w.edit("img:v2")
			reports := len(r.reports)
			for range 5 {
				_ = w.pass()
				w.clock.Step(time.Minute)
			}
			if more := r.reports[reports:]; len(more) > 0 {
				t.Errorf("%+v", more[0])
			}
		})
	}
}
