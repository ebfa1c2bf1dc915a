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
			d.agenda.repair(t.delete(p, Removing))
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
		if p := &t.pods[i]; !p.Deleting {
			d.agenda.repair(t.delete(p, Removing))
		}
	}
	switch {
	case t.live() > 0:
		return WaitBurst
	case t.terminating > 0:
		return WaitTerminating
	default:
		return NotWanted
	}
}
