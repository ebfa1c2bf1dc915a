// SPDX-License-Identifier: Apache-2.0

package rollout

// decideMissingNode handles a node whose object is gone. No other controller removes a pod that was not
// scheduled before the node was deleted; the pod garbage collector removes all others.
func (d *decision) decideMissingNode(t *nodeContext) VerdictKind {
	kind := NotWanted
	for i := range t.pods {
		p := &t.pods[i]
		switch {
		case p.ignored():
		case p.Deleting || p.Scheduled:
			kind = strongerVerdict(kind, WaitCollection)
		default:
			// The preDelete hook is not asked: a pod that never came to a node has nothing to leave behind.
			d.queue.repair(t.act(Delete, p, Removing))
			kind = WaitBurst
		}
	}
	return kind
}

// strongerVerdict keeps the verdict that a node waits for its action when another of its pods has a weaker one.
func strongerVerdict(have, now VerdictKind) VerdictKind {
	if have == WaitBurst {
		return have
	}
	return now
}

// decideIneligible empties a node that must not run the pod.
func (d *decision) decideIneligible(t *nodeContext) VerdictKind {
	for i := range t.pods {
		if p := &t.pods[i]; !p.Deleting && p.Hook != HookWaiting {
			d.queue.repair(t.startDelete(p, Removing))
		}
	}
	switch {
	case t.live()+t.preparing > t.waiting:
		return WaitBurst
	case t.waiting > 0:
		return WaitHook
	case t.terminating > 0:
		return WaitTerminating
	default:
		return NotWanted
	}
}
