// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/rollout"
)

// asDecided is a sender that leaves an action to the next pass when it is overtaken before it is sent, or sent again.
func (r *run) asDecided(a rollout.Action) sender {
	e, late := r.e, r.e.late
	e.void = r.overtaken(a)
	e.late = func() bool { return e.void() || late() }
	return e
}

// overtaken reports whether a pod has become ready that was not ready when an action of an update was decided. The action was free then; now it may
// take more than the budget has room for. A plan has up to hundreds of actions, and an API server that has just come back is slow: in the seconds
// that they wait for their turn the pods of a whole cluster may become ready again.
//
// The same goes for a pod that was not allowed on its node, and is now: the node is there again, or its taint is gone.
//
// It is a function that needs nothing of the pass, for a write that may be sent after it.
func (r *run) overtaken(a rollout.Action) func() bool {
	index, key, node, uid := r.e.Index, r.job.Key, r.removes(a), r.unready(a)
	return func() bool {
		if node != "" {
			return index.Fit(key, node) != rollout.MustLeave
		}
		return uid != "" && index.Ready(uid)
	}
}

// removes is the node on which a pod was not allowed when an action was decided on; empty for another action.
func (r *run) removes(a rollout.Action) string {
	if a.Reason != rollout.Removing && !a.Evict {
		return ""
	}
	if node := &r.job.Snapshot.Nodes[a.Node]; node.Gone || node.Fit == rollout.MustLeave {
		return node.Name
	}
	return ""
}

// unready is the old pod that was not ready when an action of an update was decided on; empty if there was none, or if an action has another reason.
func (r *run) unready(a rollout.Action) types.UID {
	switch {
	case a.Reason.Replaces(), a.Reason == rollout.Preparing:
	case a.Reason == rollout.Removing: // with a surge one that is ready stays on a node that may keep it until as many are available elsewhere
		if r.job.Snapshot.Nodes[a.Node].Fit != rollout.MayStay {
			return ""
		}
	default:
		return ""
	}
	node := &r.job.Snapshot.Nodes[a.Node]
	if node.Gone || node.Fit == rollout.MustLeave {
		return ""
	}
	for i := range node.Pods {
		p := &node.Pods[i]
		if (a.Kind == rollout.Create || p.UID == a.UID) && !p.Deleting && !p.Ready && p.InPlace == rollout.InPlaceNone {
			return types.UID(p.UID)
		}
	}
	return ""
}
