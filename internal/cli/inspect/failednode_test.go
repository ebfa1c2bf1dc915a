// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"testing"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestLogOfAFailedNode: the command works, and there is none for a pod that is gone.
func TestLogOfAFailedNode(t *testing.T) {
	one, r := int32(1), &PolicyReport{Namespace: "ns"}
	for name, c := range map[string]struct {
		node   v1alpha1.FailedNode
		exists bool
		log    string
		exit   string
	}{
		"crashes":  {v1alpha1.FailedNode{Pod: "p", Reason: "CrashLoopBackOff", ExitCode: &one, ExitReason: "Error"}, true, "kubectl logs -n ns p --all-containers --ignore-errors", "1 (Error)"},
		"restarts": {v1alpha1.FailedNode{Pod: "p", Reason: "Restarts", ExitCode: &one}, true, "kubectl logs -n ns p --all-containers --previous --ignore-errors", "1"},
		"pulls":    {v1alpha1.FailedNode{Pod: "p", Reason: "ImagePullBackOff"}, true, "kubectl describe pod -n ns p", "-"},
		"hangs":    {v1alpha1.FailedNode{Pod: "p", Reason: "NotAvailable"}, true, "kubectl logs -n ns p --all-containers --ignore-errors", "-"},
		"gone":     {v1alpha1.FailedNode{Pod: "p", Reason: "CrashLoopBackOff", ExitCode: &one}, false, "none: pod p does not exist any more", "1"},
		"no pod":   {v1alpha1.FailedNode{Reason: "CreateRefused"}, false, "-", "-"},
	} {
		if got := r.Log(&c.node, c.exists); got != c.log {
			t.Errorf("%s: %q, want %q", name, got, c.log)
		}
		if got := Exit(&c.node); got != c.exit {
			t.Errorf("%s: the exit is %q, want %q", name, got, c.exit)
		}
	}
}
