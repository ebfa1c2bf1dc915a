// SPDX-License-Identifier: Apache-2.0

package rollout

// cleanUp deletes the pods of a node that have ended or are too many, or that their hook has released, and restores the one
// that is wanted again. It reports whether there were any.
func (d *decision) cleanUp(t *nodeContext, held bool) bool {
	if t.preparing == 0 && t.restored == nil && (t.live() == 0 || t.live() == 1 && t.running == 1) {
		return false
	}
	found := false
	for i := range t.pods {
		p := &t.pods[i]
		switch a, due := d.cleanUpAction(t, p, held); {
		case !due:
		case a.Kind == Restore && t.mayNotGo(p):
			// While a policy protects the pod, it serves, and leaves the budget to others.
			a.TakesBack = true
			d.queue.takeBack(a)
			found = true
		default:
			d.queue.repair(a)
			found = true
		}
	}
	return found
}

func (d *decision) cleanUpAction(t *nodeContext, p *Pod, held bool) (Action, bool) {
	switch {
	case p.Deleting:
		return Action{}, false
	case p == t.restored:
		return t.act(Restore, p, Restoring), true
	case p.preparing():
		return t.act(Delete, p, d.releasedReason(t, p)), p.Hook >= HookReleased
	default:
		kind, out := d.removalReason(t, p, held)
		return t.startDelete(p, kind), out
	}
}

// removalReason returns why a pod that is not terminating cannot stay where it is, if it cannot.
func (d *decision) removalReason(t *nodeContext, p *Pod, held bool) (VerdictKind, bool) {
	switch {
	case p.Phase == Failed:
		return ReplacingFailed, !held
	case p.Phase == Succeeded:
		return ReplacingEnded, true
	case d.surge && p == t.old && d.surgeCompleted(&t.podCounts):
		return FinishingSurge, true
	default:
		return RemovingExcess, d.isExcess(t, p)
	}
}

// isExcess reports whether a running pod is one too many. Without surge, the oldest stays; with surge, the
// oldest of the wanted revision and one of all others stay: the oldest ready one, so that a serving pod
// stays.
func (d *decision) isExcess(t *nodeContext, p *Pod) bool {
	if d.surge {
		return p != t.current && p != t.old
	}
	return p != t.keep
}
