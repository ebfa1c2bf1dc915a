// SPDX-License-Identifier: Apache-2.0

package rollout

// clear deletes the pods of a node that have ended or are too many, and says whether there were any.
func (d *decision) clear(t *site, held bool) bool {
	if t.live() == 0 || t.live() == 1 && t.running == 1 {
		return false
	}
	found := false
	for i := range t.pods {
		p := &t.pods[i]
		if p.Deleting {
			continue
		}
		if kind, out := d.fault(t, p, held); out {
			d.agenda.repair(t.delete(p, kind))
			found = true
		}
	}
	return found
}

// fault says why a pod that is not terminating cannot stay where it is, if it cannot.
func (d *decision) fault(t *site, p *Pod, held bool) (VerdictKind, bool) {
	switch {
	case p.Phase == Failed:
		return ReplacingFailed, !held
	case p.Phase == Succeeded:
		return ReplacingEnded, true
	case d.surge && p == t.old && d.finishing(&t.census):
		return FinishingSurge, true
	default:
		return RemovingExcess, d.excess(t, p)
	}
}

// excess is whether a running pod is one too many. Without surge the oldest stays; with surge the oldest of the wanted
// revision and the oldest of all others do.
func (d *decision) excess(t *site, p *Pod) bool {
	if d.surge {
		return p != t.current && p != t.old
	}
	return p != t.keep
}
