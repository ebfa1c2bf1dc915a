// SPDX-License-Identifier: Apache-2.0

package view

import "everynode.dev/everynode/internal/rollout"

func nameOf(kind rollout.VerdictKind) string {
	switch kind {
	case rollout.UpToDate:
		return "up-to-date"
	case rollout.Creating:
		return "creating"
	case rollout.Recreating:
		return "recreating"
	case rollout.WaitAvailable:
		return "wait-available"
	case rollout.WaitTerminating:
		return "wait-terminating"
	case rollout.WaitBudget:
		return "wait-budget"
	case rollout.Blocked:
		return "blocked"
	default:
		return "other"
	}
}

func sentenceOf(kind rollout.VerdictKind) string {
	switch kind {
	case rollout.WaitAvailable:
		return "the new pod is not available yet"
	case rollout.WaitTerminating:
		return "a pod is terminating; its successor is created when it is gone"
	case rollout.WaitBudget:
		return "the pod is old; the update budget is used up"
	default:
		return "waits"
	}
}
