// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// FailedOn returns the failure of the revision on a node, and its wave; nil if there is none.
func (r *PolicyReport) FailedOn(node string) (of *v1alpha1.FailedNode, wave string) {
	for i := range r.Waves {
		for k := range r.Waves[i].FailedNodes {
			if n := &r.Waves[i].FailedNodes[k]; n.Name == node {
				return n, r.Waves[i].Name
			}
		}
	}
	return nil, ""
}

// GoesBack says why nodes return to the committed revision: the wave that failed, and where and why at first; empty if they do not return because of a failure.
func (r *PolicyReport) GoesBack() string {
	f := r.Failure
	if r.Phase != v1alpha1.PhaseUndoing || f == nil {
		return ""
	}
	for i := range r.Waves {
		if w := &r.Waves[i]; w.Name == f.Wave && len(w.FailedNodes) > 0 {
			return fmt.Sprintf("wave %s failed on %s: %s", w.Name, w.FailedNodes[0].Name, w.FailedNodes[0].Reason)
		}
	}
	return f.Message
}

// Exit describes how a container of the pod ended on a failed node; "-" if that is not known.
func Exit(n *v1alpha1.FailedNode) string {
	switch {
	case n.ExitCode == nil:
		return "-"
	case n.ExitReason == "":
		return fmt.Sprint(*n.ExitCode)
	default:
		return fmt.Sprintf("%d (%s)", *n.ExitCode, n.ExitReason)
	}
}

// Log is the command that shows why the pod of a failed node does not work; exists reports whether the pod still does. A container that waits and has not run has no log, and
// the log of one that was restarted and runs now is the earlier one. kubectl ends at the first container that has no such log, unless it ignores errors.
func (r *PolicyReport) Log(n *v1alpha1.FailedNode, exists bool) string {
	switch {
	case n.Pod == "":
		return "-"
	case !exists:
		return fmt.Sprintf("none: pod %s does not exist any more", n.Pod)
	case n.ExitCode == nil && rollout.WaitingFor(n.Reason) != rollout.WaitingNone && n.Reason != "CrashLoopBackOff":
		return fmt.Sprintf("kubectl describe pod -n %s %s", r.Namespace, n.Pod)
	case n.Reason == "Restarts":
		return fmt.Sprintf("kubectl logs -n %s %s --all-containers --previous --ignore-errors", r.Namespace, n.Pod)
	default:
		return fmt.Sprintf("kubectl logs -n %s %s --all-containers --ignore-errors", r.Namespace, n.Pod)
	}
}
