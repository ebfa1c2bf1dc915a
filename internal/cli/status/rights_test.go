// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/status"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// TestExitStatusWithoutRightToReadApprovals: for a user who may read policies, and not approvals, the end of the rollout shows too.
func TestExitStatusWithoutRightToReadApprovals(t *testing.T) {
	for name, deny := range map[string]bool{"may": false, "may not": true} {
		cluster := fakecluster.New(t, append(updated(t, 2), reported(t, v1alpha1.PhaseSoaking, v1alpha1.EnforcementFull))...)
		var reads atomic.Int32
		cluster.Dynamic.PrependReactor("list", "rolloutpolicies", func(clienttesting.Action) (bool, runtime.Object, error) {
			if reads.Add(1) == 1 {
				return false, nil, nil
			}
			return true, &unstructured.UnstructuredList{Object: map[string]any{"kind": "RolloutPolicyList", "apiVersion": "everynode.dev/v1alpha1"},
				Items: []unstructured.Unstructured{*reported(t, v1alpha1.PhaseComplete, v1alpha1.EnforcementFull)}}, nil
		})
		if deny {
			cluster.Dynamic.PrependReactor("list", "rolloutapprovals", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Group: "everynode.dev", Resource: "rolloutapprovals"}, "", nil)
			})
		}
		began := time.Now()
		cluster.Options.Now = func() time.Time { return fakecluster.Now().Add(time.Since(began)) }
		err := cluster.Run(t, status.New, "agent", "--exit-status", "--timeout", "35s")
		if got := cluster.Out.String(); options.Code(err) != options.ExitOK {
			t.Errorf("%s: code %d (%v), %d reads of policies\n%s\n%s", name, options.Code(err), err, reads.Load(), got, cluster.Err.String())
		}
	}
}
