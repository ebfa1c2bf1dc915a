// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// timed reports whether the time in which a node has no available pod counts. The answers that another controller gets to its creates are not known, so there each node that is ready and has
// no pod counts.
func (r *run) timed(n *rollout.Node, w *watched) bool {
	if r.s.Set.Paused || r.p.Suspend { // a user looks into it
		return false
	}
	p := r.podOf(n)
	if p == nil {
		return n.Ready && len(n.Pods) == 0 && (refused(n) && !r.usedUpByOthers(n) || r.s.Set.ExternalController)
	}
	return !p.Ready && !r.lacksRoom(p) && (n.Ready || !r.undoing && r.wentDown(n, w))
}

// refused reports whether the API server refuses to create a pod on a node. A webhook that cannot be called, and an answer that is not clear, say nothing about the revision.
func refused(n *rollout.Node) bool { return n.Refusal != nil && n.Refusal.Denied }

// usedUpByOthers reports whether a quota has no room for the pod of a node, and would have none for one of the committed revision either, because the quota counts no more of it: others use it up. That of a
// pod to which an undo returns counts, so that the undo does not go on.
func (r *run) usedUpByOthers(n *rollout.Node) bool {
	if f := n.Refusal; f == nil || !f.Quota || r.undoing || r.atRest() || r.in.ClaimsMore == nil || r.committed < 0 || r.committed >= len(r.in.Revisions) || r.template >= len(r.in.Revisions) {
		return false
	}
	return !r.in.ClaimsMore(r.template, r.committed)
}

// lacksRoom reports whether the scheduler has not placed a pod, and would not place one of the committed revision either: it does not run, or others use up the node. That of a pod to which an undo returns counts.
func (r *run) lacksRoom(p *rollout.Pod) bool {
	if p == nil || p.Scheduled || p.Phase != rollout.Pending || r.undoing || r.atRest() || r.in.ScheduledAlike == nil || r.committed < 0 || r.committed >= len(r.in.Revisions) || r.template >= len(r.in.Revisions) {
		return false
	}
	return r.in.ScheduledAlike(r.template, r.committed)
}

// wentDown reports whether a node stopped being ready soon after it got its pod of the wanted revision, or after that was changed in place: the revision may be the reason. It is judged
// although the waves go on without it: a revision that takes nodes down would reach all of them otherwise.
func (r *run) wentDown(n *rollout.Node, w *watched) bool {
	p, within := r.podOf(n), r.p.Failure.NodeDeadline
	switch {
	case p == nil || n.Ready:
		return false
	case r.changedInPlace(p): // its times do not show when; if another manager saw the change, the node does not count
		had := w.age - r.notReadyFor(n)
		return w.uid == p.UID && 0 <= had && had <= within
	default:
		return p.Created <= n.Since && n.Since <= p.Created.Add(within)
	}
}

// refusedEarlier reports whether the API server already refuses to create the pod of a node when the rollout begins: this is not the fault of the revision. That of another
// revision that has not ended its rollout may be the reason for an earlier refusal, which says nothing about the node then.
func (r *run) refusedEarlier(n *rollout.Node) bool {
	begins := r.last == nil && r.in.Last != nil && !r.atRest()
	return begins && len(n.Pods) == 0 && refused(n) && n.Last != rollout.NoRevision && !r.unproven(&rollout.Pod{Revision: n.Last})
}

// verdict says why the revision has failed on a node; nil if it has not.
func (r *run) verdict(i int, w *watched) *v1alpha1.FailedNode {
	n, f := &r.s.Nodes[i], r.p.Failure
	if w.before || w.untouched || r.undoing && !n.Ready {
		return nil
	}
	out := &v1alpha1.FailedNode{Name: n.Name}
	p := r.podOf(n)
	if p != nil {
		out.Pod = p.Name
		if p.Ended != rollout.NotEnded {
			code := p.ExitCode
			out.ExitCode, out.ExitReason = &code, p.Ended.String()
		}
		switch {
		case n.Ready && !p.Ready && !w.retried && p.Waiting&f.Waiting != 0:
			out.Reason = (p.Waiting & f.Waiting).String()
			out.Message = fmt.Sprintf("A container of pod %s waits because of %s.", p.Name, out.Reason)
			return out
		case n.Ready && restartsOf(p, w) > f.MaxRestarts:
			out.Reason, out.Message = "Restarts", fmt.Sprintf("A container of pod %s was restarted %s, and spec.failure.maxRestarts is %d.", p.Name, times(restartsOf(p, w)), f.MaxRestarts)
			if crash := p.Waiting & rollout.WaitingFor("CrashLoopBackOff"); crash != rollout.WaitingNone {
				out.Reason = crash.String()
			} else if p.Waiting != rollout.WaitingNone {
				out.Reason = p.Waiting.String()
			}
			return out
		}
	}
	if r.standing[i].Available || p != nil && p.Ready {
		return nil
	}
	if rest := f.NodeDeadline - w.down; rest > 0 {
		if r.timed(n, w) && (!r.atRest() || r.undoing) {
			r.wakeAt(r.s.Now.Add(rest))
		}
		return nil
	}
	switch {
	case p == nil && !refused(n):
		out.Reason, out.Message = "NotAvailable", fmt.Sprintf("The node has had no pod for %s: see the events of the daemon set.", f.NodeDeadline)
		if r.s.Set.ExternalController {
			out.Message = fmt.Sprintf("The node has had no pod for %s: see the events of the daemon set for the reason why the other controller creates none.", f.NodeDeadline)
		}
	case p == nil:
		out.Reason, out.Message = "CreateRefused", "The pod cannot be created: "+Shortened(n.Obstacle(), longestMessage)
	case !n.Ready:
		out.Reason, out.Message = "NodeNotReady", fmt.Sprintf("The node stopped being ready after it had got pod %s.", p.Name)
	default:
		out.Reason, out.Message = "NotAvailable", fmt.Sprintf("Pod %s has not been available for %s.", p.Name, f.NodeDeadline)
		if p.Waiting != rollout.WaitingNone {
			out.Reason = p.Waiting.String()
		}
	}
	return out
}

// restartsOf returns how often a container of a pod was restarted, as far as that counts: a node or a kubelet that is restarted restarts each container once. After restarts that do not count,
// it is not known which containers the others are of, so those of all containers count together, but no more than one container has in all.
func restartsOf(p *rollout.Pod, w *watched) int {
	return min(int(highestOf(p)), int(p.Restarts)-int(w.restarts))
}

// forgive lets the restarts not count that a node which was not ready may have caused. The kubelet may report the node as ready before it has restarted the containers of the pod: until the
// pod is ready again, one restart of each container does not count. So if two containers were restarted 3 and 4 times in that time, 3 restarts count.
func (w *watched) forgive(n *rollout.Node, p *rollout.Pod) {
	if p.Restarts < w.seen { // a kubelet that has lost its containers begins to count again
		w.restarts = min(w.restarts, p.Restarts)
	}
	highest := highestOf(p)
	if (w.away || w.returns) && p.Restarts > w.seen {
		forgiven := p.Restarts - w.seen
		if !w.away && highest > w.most {
			forgiven -= min(highest-w.most, forgiven)
		}
		w.restarts += forgiven
	}
	if !n.Ready && !w.away {
		w.most = highest + 1
	}
	if n.Ready {
		w.most = max(w.most, highest)
	}
	w.returns = n.Ready && (w.away || w.returns) && !(p.Ready && p.ReadySince >= n.Since)
	w.away, w.seen = !n.Ready, p.Restarts
}

// highestOf is how often the container of a pod was restarted that was restarted most.
func highestOf(p *rollout.Pod) uint16 { return p.Restarts - p.OtherRestarts }

// longestMessage limits the characters of an API server's answer in the status of a node.
const longestMessage = 256

// Shortened is a text of at most that many characters, and dots.
func Shortened(text string, most int) string { return rollout.Shortened(text, most) }

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
