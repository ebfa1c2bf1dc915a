// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"slices"
	"testing"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// TestASecondPolicyThatComesFirst by its name: while both apply nothing starts, and the failed revision stays failed, whichever of the two remains.
func TestASecondPolicyThatComesFirst(t *testing.T) {
	for _, remains := range []string{"old", "new"} {
		w, r := judgedWorld(t)
		w.settleAndWait()
		failed, old := r.last(), r.Policies[0]
		if failed.Phase != v1alpha1.PhaseFailed {
			t.Fatalf("%+v", failed)
		}
		added := canaryPolicy()
		added.Name, added.UID = "a", "a-uid"
		second := policy.Read(added)
		r.Policies, r.Remembered = []*policy.Policy{second, old}, &failed // of which the first one has no status
		marks := w.commits()
		w.forgetLog()
		w.settleAndWait()
		now := r.last()
		if now.Phase != v1alpha1.PhaseStalled || now.Blocking[0].Reason != "Conflict" || now.Failure == nil || now.CommittedRevision != failed.CommittedRevision {
			t.Fatalf("in conflict: %+v", now)
		}
		if len(w.wrote("create")) > 0 || len(w.wrote("delete")) > 0 || !slices.Equal(marks, w.commits()) {
			t.Errorf("writes %v, marks %v", w.log, w.commits())
		}
		r.Policies = []*policy.Policy{old}
		r.Remembered = policy.InConflict(&now, &failed, &failed)
		if remains == "new" {
			r.Policies = []*policy.Policy{second}
			r.Remembered = policy.InConflict(&now, nil, &failed)
		}
		w.settleAndWait()
		if got := r.last(); got.Phase != v1alpha1.PhaseFailed || got.Failure == nil || len(w.images("img:v1")) != 4 {
			t.Errorf("with the %s one: %+v, %v", remains, got, w.images("img:v1"))
		}
	}
}
