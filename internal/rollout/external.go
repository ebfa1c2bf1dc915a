// SPDX-License-Identifier: Apache-2.0

package rollout

// decideExternal decides about a node whose pods another controller manages. The update handles only an old pod for which that controller has nothing to do.
func (d *decision) decideExternal(t *nodeContext) VerdictKind {
	n := t.node
	switch {
	case n.Gone:
		return externalMissingNode(t)
	case n.Fit == MustLeave && t.live()+t.preparing > 0:
		return WaitController
	case n.Fit == MustLeave && t.terminating > 0:
		return WaitTerminating
	case n.Fit == MustLeave:
		return NotWanted
	case n.Fit != MustRun && n.Fit != MayStay:
		return NotEvaluated
	case t.seen == 0 && n.Fit == MustRun, t.live() != t.running, t.running > 1, t.preparing > 0, t.restored != nil:
		return WaitController
	default:
		return d.waitReason(t)
	}
}

// externalMissingNode is what decideMissingNode says where nothing is done.
func externalMissingNode(t *nodeContext) VerdictKind {
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

// leftToController reports whether an external set must not delete an old pod, because that would need more than a delete.
func (d *decision) leftToController(t *nodeContext) bool {
	return d.in.Set.ExternalController && (t.old.Hook != HookNone || t.changing)
}

// changesInPlace reports whether the set is one that changes its pods in place.
func (d *decision) changesInPlace() bool {
	return d.in.Set.InPlace && !d.surge && !d.in.Set.ExternalController
}
