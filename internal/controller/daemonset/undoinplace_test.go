// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// TestImagesOfAnUndoInPlace: for nodes that return in place, images are pulled ahead as for another update in place, also when all nodes have the revision that is undone.
func TestImagesOfAnUndoInPlace(t *testing.T) {
	for _, reached := range []int32{1, 3} {
		a, j := imagesInPlace(t, "n1", "n2", "n3")
		p := canaryPolicy()
		p.Spec.Targets[0] = v1alpha1.Target{APIVersion: "apps.kruise.io/v1beta1", Kind: "DaemonSet", Name: "ds"}
		p.Spec.Waves[0].Nodes.Count, p.Spec.Waves[0].Soak = &reached, &metav1.Duration{Duration: time.Hour}
		r := &rules{Governance: Governance{Policies: []*policy.Policy{policy.Read(p)}}}
		a.c.Policies = stored{r}
		a.settle()
		for _, node := range []string{"n1", "n2", "n3"} {
			j.there[node] = "img:v2"
		}
		a.image("img:v2")
		a.settle()
		if st := r.last(); st.Phase != v1alpha1.PhaseSoaking || st.Waves[0].Available != reached {
			t.Fatalf("%+v", st)
		}
		r.Approvals = append(r.Approvals, v1alpha1.RolloutApproval{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "undo", UID: "undo"}, Spec: v1alpha1.RolloutApprovalSpec{
			Policy: "p", Set: "ds", Revision: r.last().TargetRevision, Decision: v1alpha1.UndoRollout,
		}})
		var pulled []string
		undid := false
		for range 4 {
			a.mustPass()
			undid = undid || r.last().Phase == v1alpha1.PhaseUndoing
			for _, job := range j.all {
				pulled = append(pulled, job.Spec.Image)
			}
		}
		if !undid || !slices.Contains(pulled, "img:v1") {
			t.Errorf("of %d nodes that return (%v, %s), the jobs pull %v", reached, undid, r.last().Phase, pulled)
		}
	}
}
