// SPDX-License-Identifier: Apache-2.0

package rollout

// visitAsGuest says what becomes of a node where another controller keeps the pods. Only an old pod that it would have nothing to
// do about is the business of the update.
func (d *decision) visitAsGuest(t *site) VerdictKind {
	n := t.node
	switch {
	case n.Gone:
		return leaveBehind(t)
	case n.Fit == MustLeave && t.live()+t.leaving > 0:
		return WaitController
	case n.Fit == MustLeave && t.terminating > 0:
		return WaitTerminating
	case n.Fit == MustLeave:
		return NotWanted
	case n.Fit != MustRun && n.Fit != MayStay:
		return NotEvaluated
	case t.seen == 0 && n.Fit == MustRun, t.live() != t.running, t.running > 1, t.leaving > 0, t.restored != nil:
		return WaitController
	default:
		return d.rest(t)
	}
}

// leaveBehind is what collect says where nothing is done.
func leaveBehind(t *site) VerdictKind {
	kind := NotWanted
	for i := range t.pods {
		p := &t.pods[i]
		switch {
		case p.ignored():
		case !p.Deleting && !p.Scheduled:
			return WaitController
		default:
			kind = WaitCollection
		}
	}
	return kind
}

// busy is whether a guest has to leave an old pod alone: to take it away would need more than a delete.
func (d *decision) busy(t *site) bool {
	return d.in.Set.Guest && (t.old.Hook != HookNone || t.changing)
}

// changesInPlace is whether the set is one that changes its pods in place.
func (d *decision) changesInPlace() bool {
	return d.in.Set.InPlace && !d.surge && !d.in.Set.Guest
}
