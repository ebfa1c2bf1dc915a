// SPDX-License-Identifier: Apache-2.0

package rollout

// clear deletes the pods of a node that have ended or are too many, or that their hook has released, and restores the one
// that is wanted again. It says whether there were any.
func (d *decision) clear(t *site, held bool) bool {
	if t.leaving == 0 && t.restored == nil && (t.live() == 0 || t.live() == 1 && t.running == 1) {
		return false
	}
	found := false
	for i := range t.pods {
		p := &t.pods[i]
		switch a, due := d.clearance(t, p, held); {
		case !due:
		case a.Kind == Restore && t.mayNotGo(p):
			// While a policy protects the pod, it serves, and leaves the budget to others.
			a.TakesBack = true
			d.agenda.takeBack(a)
			found = true
		default:
			d.agenda.repair(a)
			found = true
		}
	}
	return found
}

func (d *decision) clearance(t *site, p *Pod, held bool) (Action, bool) {
	switch {
	case p.Deleting:
		return Action{}, false
	case p == t.restored:
		return t.act(Restore, p, Restoring), true
	case p.preparing():
		return t.act(Delete, p, d.farewell(t, p)), p.Hook >= HookReleased
	default:
		kind, out := d.fault(t, p, held)
		return t.part(p, kind), out
	}
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
// revision and one of all others do: the oldest that is ready, so that what serves stays.
func (d *decision) excess(t *site, p *Pod) bool {
	if d.surge {
		return p != t.current && p != t.old
	}
	return p != t.keep
}
