// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// Watch contains observations of the nodes of a set, passed from one decision to the next. If it is lost,
// deadlines begin again, so this never makes a revision fail.
type Watch struct {
	// of identifies the revision that is being judged (run.identity), and number is the number of the rollout; at is the number that the revision of the template had.
	of     string
	number int64
	// template reports whether it was that of the template: a copy of the revision, which another account may create, is judged in its place.
	template bool
	at       int64
	nodes    map[string]watched
	// lacked contains the names of the waves for whose deadline the time until the next decision counts.
	lacked map[string]bool
}

// watched is what is noted of a node.
type watched struct {
	// uid is the UID of the pod of the revision; empty before it exists.
	uid string
	// down is how long the node has had no available pod of the revision, as far as that counts. Before its update it is how long it has not been ready.
	down time.Duration
	// pulled is how long the pod has waited for something that may be its image.
	pulled time.Duration
	// counts and pulls report whether the time until the next decision counts as down or as pulled. An event may come long after the last decision, and says
	// nothing about the time between them.
	counts, pulls bool
	// age is how long the node has had that pod.
	age time.Duration
	// restarts is the number of restarts of the pod that do not count. While the node is not ready (away), and then until the pod is ready again (returns), seen is the number of all,
	// and most how often a container may have been restarted without that any of these count after the node is ready: once more than before.
	restarts, seen, most uint16
	away, returns        bool
	// before reports whether the node had no available pod when its update began, and not only because that was too young (onlyYoung), and has had none since.
	before bool
	// untouched reports whether an undo has found the pod of the committed revision there: what becomes of it says nothing about what the undo does.
	untouched bool
	// joined reports whether the node has had no available pod of the set since it got its first one.
	joined bool
	// lacks reports whether the pod was not available, and not only because it was too young.
	lacks bool
	// retried reports whether the node had no available pod when a user retried the revision, and has had none since. It was not broken before, and if it still has the
	// same pod, the reason for which that waits does not count.
	retried bool
}

// maxNames is how many nodes that were not ready before a status names.
const maxNames = 256

// judgeNodes finds the nodes on which the wanted revision has failed, and records the data that the next decision needs.
func (r *run) judgeNodes() {
	if r.p.Failure == nil {
		return
	}
	before := r.earlier()
	r.out.Watch = r.newWatch(r.s.Set.Update)
	r.failed, r.excused = make([]*v1alpha1.FailedNode, len(r.s.Nodes)), nil
	others := map[place]bool{} // the waves in which the revision has failed on a node that had been well
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		if !member(r.s, n) {
			continue
		}
		w, known := before.nodes[n.Name]
		w, keep := r.watch(i, w, known)
		if keep {
			r.out.Watch.nodes[n.Name] = w
		}
		if (!r.isLeftOut(i) || r.wentDown(n, &w)) && (keep || r.podOf(n) != nil) {
			r.failed[i] = r.verdict(i, &w)
		}
		switch {
		case keep && w.before:
			r.nameBefore(n)
		case r.failed[i] == nil:
		case w.joined:
			r.excused = append(r.excused, i)
		default:
			others[r.placeOf(i)] = true
		}
	}
	r.excused = slices.DeleteFunc(r.excused, func(i int) bool { return others[r.placeOf(i)] })
	r.excuse()
	r.nameJoined()
}

// placeOf is the wave in which a node is judged. Without waves, as during an undo, all nodes are judged together.
func (r *run) placeOf(i int) place {
	if r.places == nil {
		return nowhere
	}
	return r.places[i]
}

func (r *run) nameBefore(n *rollout.Node) {
	if st := r.out.Status; st != nil && len(st.NotReadyBefore) < maxNames {
		st.NotReadyBefore = append(st.NotReadyBefore, n.Name)
	}
}

// excuse takes back that the revision has failed on nodes where no pod of the set has ever been available: the node may be the reason. In a wave in which the revision has also failed on
// another node, it is more likely the revision.
func (r *run) excuse() {
	for _, i := range r.excused {
		r.failed[i] = nil
		r.nameBefore(&r.s.Nodes[i])
	}
	if len(r.excused) > 0 && r.out.Status != nil {
		slices.Sort(r.out.Status.NotReadyBefore)
	}
}

// identity identifies a revision also when others come into the history or leave it.
func (r *run) identity(i int) string {
	if digest := r.revision(i).Digest; digest != "" {
		return digest
	}
	return r.s.Revisions[i].Name
}

func (r *run) newWatch(of int) *Watch {
	return &Watch{of: r.identity(of), number: r.number(), at: r.revisionNumber(), template: of == r.template, nodes: map[string]watched{}, lacked: map[string]bool{}}
}

// watched reports whether the observations of the last decision are about a revision in this rollout. Its number alone does not show that: the ControllerRevision of another template may have had it.
func (r *run) watched(i int) bool {
	was := r.in.Watch
	return was != nil && was.number == r.number() && (was.of == r.identity(i) || was.template && i == r.template && r.last != nil)
}

// earlier returns the observations of the last decision. For a decision about another revision, and in
// another manager, only the nodes count that were not ready before.
func (r *run) earlier() *Watch {
	was := r.in.Watch
	if r.watched(r.s.Set.Update) {
		return was
	}
	out := &Watch{nodes: map[string]watched{}}
	if was != nil {
		rested := r.committed >= 0 && was.of == r.identity(r.committed) && was.at == r.s.Revisions[r.committed].Number
		for name := range was.nodes {
			w := was.nodes[name]
			missed := w.counts && w.uid == "" && w.down+max(r.in.Elapsed, 0) >= r.p.Failure.NodeDeadline // a pod that could not be created
			if before := w.before || rested && (w.lacks || missed); before || w.joined {
				out.nodes[name] = watched{before: before, joined: w.joined}
			}
		}
	} else if r.in.Last != nil {
		for _, name := range r.in.Last.NotReadyBefore {
			out.nodes[name] = watched{before: true}
		}
		full := len(r.in.Last.NotReadyBefore) >= maxNames // then others may have been broken before as well
		for i := range r.s.Nodes {
			if full && !r.standing[i].Available {
				out.nodes[r.s.Nodes[i].Name] = watched{before: true}
			}
		}
	}
	return out
}

// keepWatch keeps the observations while the nodes are not judged. The time until the next decision does not count then.
func (r *run) keepWatch() {
	if r.in.Last != nil {
		r.out.Status.NotReadyBefore, r.out.Status.JoinedWithPod = r.in.Last.NotReadyBefore, r.in.Last.JoinedWithPod
	}
	if r.in.Watch != nil {
		r.out.Watch = r.in.Watch.pause()
	}
}

// pause returns the same observations for a decision before which no time counts.
func (was *Watch) pause() *Watch {
	if was == nil {
		return nil
	}
	is := &Watch{of: was.of, number: was.number, at: was.at, template: was.template, nodes: make(map[string]watched, len(was.nodes))}
	for name := range was.nodes {
		w := was.nodes[name]
		w.counts, w.pulls = false, false
		is.nodes[name] = w
	}
	return is
}

// unproven reports whether a pod has a revision whose rollout has begun after that of the committed one and has not ended: that the pod is not available may be the fault
// of that revision, and says nothing about its node.
func (r *run) unproven(p *rollout.Pod) bool {
	all := r.s.Revisions
	return r.committed >= 0 && r.committed < len(all) && p.Revision >= 0 && p.Revision < len(all) && p.Revision != r.committed &&
		all[p.Revision].Number > all[r.committed].Number
}

// noteWait is how long a node with a broken pod waits until the status names it. After that, it is updated anyway.
const noteWait = 10 * time.Second

// awaitNotes holds back the nodes whose pod is not available until the stored status names them. Their update needs no budget, so it would start at once; and
// if this manager ended before it has written the status, the next one could not know that they were broken before.
func (r *run) awaitNotes() {
	if r.p.Failure == nil || r.in.Stored == nil {
		return
	}
	stored := map[string]bool{}
	if st := r.in.Stored; st.TargetRevision == r.target().Name && st.TargetNumber == r.number() {
		for _, name := range st.NotReadyBefore {
			stored[name] = true
		}
	}
	for _, name := range r.out.Status.NotReadyBefore {
		w := r.out.Watch.nodes[name]
		i, found := slices.BinarySearchFunc(r.s.Nodes, name, func(n rollout.Node, name string) int { return strings.Compare(n.Name, name) })
		if !found || stored[name] || w.uid != "" || w.down >= noteWait || !r.standing[i].AwaitsUpdate || r.holds[i] != rollout.NotEvaluated {
			continue
		}
		r.holds[i], r.restricts = rollout.WaitWave, true
		r.wakeAt(r.s.Now.Add(time.Second))
	}
}

// takenOut reports whether a pod of a node is unavailable because it was taken out of use for its update, and
// was not changed yet: then the pod is not at fault. With slow writes, the update begins in a later pass; if
// the node was held in the meantime, the pod would be put back into use and taken out again, endlessly.
func takenOut(n *rollout.Node) bool {
	return slices.ContainsFunc(n.Pods, func(p rollout.Pod) bool {
		return !p.Deleting && (p.InPlace == rollout.InPlaceMarked || p.InPlace == rollout.InPlaceArrived || p.Doubtful)
	})
}

// onlyYoung reports whether a pod is ready, and is not available only because it has not been ready for minReadySeconds: it works, so its node is not broken, and a revision that does not work
// there fails. A pod whose containers were restarted may be ready only until the next crash.
func (r *run) onlyYoung(p *rollout.Pod) bool {
	return r.s.Set.MinReady > 0 && p.Ready && p.InPlace == rollout.InPlaceNone && p.Restarts == 0
}

// worksHere reports whether a node has an available pod, or one that is only too young.
func (r *run) worksHere(i int) bool {
	return r.serves(i) || slices.ContainsFunc(r.s.Nodes[i].Pods, func(p rollout.Pod) bool { return !p.Deleting && r.onlyYoung(&p) })
}

// committedPod is the live pod of the committed revision on a node; nil for none.
func (r *run) committedPod(n *rollout.Node) *rollout.Pod {
	k := slices.IndexFunc(n.Pods, func(p rollout.Pod) bool { return !p.Deleting && p.Revision == r.committed })
	if k < 0 || r.committed < 0 {
		return nil
	}
	return &n.Pods[k]
}

// neverStarted reports whether the pod of the committed revision on a node is not ready: with a surge, an older pod serves there still, and the next pod
// may not start for the same reason.
func (r *run) neverStarted(n *rollout.Node) bool {
	p := r.committedPod(n)
	return p != nil && !p.Ready && len(n.Pods) > 1
}

// onlyOlder reports whether a node has a live pod that is older than the committed revision, and none of that revision.
func (r *run) onlyOlder(n *rollout.Node) bool {
	return r.committed >= 0 && r.committedPod(n) == nil && slices.ContainsFunc(n.Pods, func(p rollout.Pod) bool { return !p.Deleting && !r.unproven(&p) })
}

// podOf is the live pod of the wanted revision on a node; nil for none.
func (r *run) podOf(n *rollout.Node) *rollout.Pod {
	for k := range n.Pods {
		if p := &n.Pods[k]; !p.Deleting && p.Revision == r.s.Set.Update {
			return p
		}
	}
	return nil
}

// watch updates the observations of a node, and reports whether there are any.
func (r *run) watch(i int, w watched, known bool) (_ watched, keep bool) {
	n, st := &r.s.Nodes[i], &r.standing[i]
	p, counted, pulled := r.podOf(n), w.counts, w.pulls
	w.counts, w.pulls, w.joined = false, false, w.joined || r.joins(n, p, known)
	if p != nil && w.uid != p.UID {
		w.untouched = r.untouched(p) && !(known && r.watched(r.s.Set.Update)) // else it has replaced another one during the undo, whatever its time is
	}
	switch {
	case w.joined && !w.before && len(n.Pods) == 0 && st.AwaitsUpdate:
		return watched{joined: true}, true
	case p == nil && st.AwaitsUpdate:
		live := slices.IndexFunc(n.Pods, func(p rollout.Pod) bool { return !p.Deleting }) // one that is terminating does not show whether it was broken
		broken := live >= 0 && !takenOut(n) && (!r.worksHere(i) && (w.before || w.joined || !r.unproven(&n.Pods[live])) || r.neverStarted(n))
		if r.undoing { // an unavailable pod of the failed revision proves nothing about the node
			return watched{before: w.before || broken && n.Pods[0].Revision != r.from}, len(n.Pods) > 0
		}
		if w.retried && !r.serves(i) { // the rollout itself has taken the pod that was available, and the next one has not been available yet
			return w, true
		}
		if counted && w.before && w.uid == "" {
			w.down += max(r.in.Elapsed, 0)
		}
		// An earlier manager may have deleted the broken pod for a reason that this one does not know; and a broken pod may also have been taken out of use. The gate of the
		// first pod on a node that joins is closed until the pod has started: then it looks as if it were taken out of use.
		stays := known && (w.before || w.joined) && w.uid == "" && (live < 0 || takenOut(n) || r.s.Set.MaxSurge.Value > 0 && r.onlyOlder(n))
		return watched{before: true, down: w.down, counts: true}, broken || stays || r.refusedEarlier(n)
	case p == nil:
		if len(n.Pods) > 0 {
			return w, known // the old one is terminating
		}
		if counted {
			w.down += max(r.in.Elapsed, 0)
		}
		w.counts = r.timed(n, &w)
		return w, true
	case st.Available:
		w.down, w.before, w.joined, w.retried = 0, false, false, false
	case w.untouched || !known && r.undoing && !r.madeByUndo(p): // the undo has not touched it, as far as is known
		w.before = true
	case pulled:
		w.pulled += max(r.in.Elapsed, 0)
	case counted:
		w.down += max(r.in.Elapsed, 0)
	}
	w.lacks = !st.Available && !r.onlyYoung(p)
	return r.observe(i, p, w, known)
}

// observe updates the observations of a node with a pod of the wanted revision.
func (r *run) observe(i int, p *rollout.Pod, w watched, known bool) (_ watched, keep bool) {
	n, st := &r.s.Nodes[i], &r.standing[i]
	if w.uid == p.UID {
		w.age += max(r.in.Elapsed, 0)
	} else {
		w.uid, w.age, w.pulled, w.restarts, w.retried = p.UID, 0, 0, r.earlierRestarts(p), false
		if !known && r.begun > 1 && r.in.Watch == nil && r.outlived(p) { // another manager has retried the revision
			w.retried = !st.Available
		}
		w.away, w.returns, w.seen = false, false, 0
		if r.in.Watch == nil && p.Created < n.Since { // another manager has seen whether the node was not ready
			w.restarts, w.returns, w.seen, w.most = p.Restarts, true, p.Restarts, highestOf(p)+1
		}
	}
	w.forgive(n, p)
	if !st.Available {
		w.pulls = n.Ready && w.waitsForImage(p)
		w.counts = !w.pulls && r.timed(n, &w)
	}
	return w, !st.Available || w.away || w.returns || w.restarts > 0 || r.s.Set.InPlace || known && r.undoing
}

// mayPull is how long a pod may wait for something that may be its image, if its node does not say what it is. A volume that does not exist looks the same.
const mayPull = 30 * time.Minute

// waitsForImage reports whether the pod waits for an image to be pulled. A pull that has failed has a reason, and counts.
func (w *watched) waitsForImage(p *rollout.Pod) bool {
	switch {
	case p.Ready || p.Waiting != rollout.WaitingNone || !p.Scheduled || p.Phase != rollout.Pending:
		return false
	case p.Pull == rollout.MayPull:
		return w.pulled < mayPull
	default:
		return p.Pull == rollout.Pulls
	}
}
