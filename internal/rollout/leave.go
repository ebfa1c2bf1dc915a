// SPDX-License-Identifier: Apache-2.0

package rollout

// collect handles a node whose object is gone. Nobody but us would ever remove a pod that was not scheduled before the
// node went; all others are the business of the pod garbage collector.
func (d *decision) collect(t *site) VerdictKind {
	kind := NotWanted
	for i := range t.pods {
		p := &t.pods[i]
		switch {
		case p.ignored():
		case p.Deleting || p.Scheduled:
			kind = later(kind, WaitCollection)
		default:
			// The preDelete hook is not asked: a pod that never came to a node has nothing to leave behind.
			d.agenda.repair(t.act(Delete, p, Removing))
			kind = WaitBurst
		}
	}
	return kind
}

// later keeps the verdict that a node waits for its action when another of its pods has a weaker one.
func later(have, now VerdictKind) VerdictKind {
	if have == WaitBurst {
		return have
	}
	return now
}

// evict empties a node that must not run the pod.
func (d *decision) evict(t *site) VerdictKind {
	for i := range t.pods {
		if p := &t.pods[i]; !p.Deleting && p.Hook != HookWaiting {
			d.agenda.repair(t.part(p, Removing))
		}
	}
	switch {
	case t.live()+t.leaving > t.waiting:
		return WaitBurst
	case t.waiting > 0:
		return WaitHook
	case t.terminating > 0:
		return WaitTerminating
	default:
		return NotWanted
	}
}
