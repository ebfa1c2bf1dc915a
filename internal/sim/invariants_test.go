// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// verdict is what was found out about a write when it was sent.
type verdict struct {
	node string
	// set is the UID of the set whose pod it is.
	set types.UID
	// takes is whether it takes a pod away that the sender knows as available; doubles whether it adds one to such a pod.
	takes, doubles bool
	// free is whether it deletes a pod that the sender, by name, knows as not ready.
	free    bool
	by      string
	limit   int
	surging bool
	// counted are the nodes that count for the sender.
	counted map[string]bool
	// begins is the node whose update it begins, of a pod that the sender knows as available; empty for none. scope is how wide the group is.
	begins string
	scope  v1alpha1.ConcurrencyScope
}

// breach is a broken invariant.
type breach struct{ rule, what string }

func (b *breach) String() string { return b.rule + ": " + b.what }

// blame notes the first invariant that is broken. It has to be one of the list.
func (s *sim) blame(rule, format string, args ...any) {
	if err := checkRules(rule); err != nil {
		panic(err)
	}
	if s.broken == nil && !s.excused && (*rules == "" || slices.Contains(strings.Split(*rules, ","), rule)) {
		s.broken = &breach{rule, fmt.Sprintf(format, args...)}
	}
}

// judge looks at a request when it is sent.
func (s *sim) judge(r *request) {
	if r.write && r.m != s.lead {
		s.blame("lease", "%s %s, and its lease was not renewed in time", r.m.name, r.text)
	}
	if r.peer {
		s.judgePeer(r)
		r.m.known.sent(r)
		return
	}
	if r.write && !r.lease {
		s.judgeExternal(r)
		s.judgeDeleting(r)
		s.judgeOther(r)
		s.judgeForeign(r)
	}
	switch r.action.verb {
	case "delete":
		s.judgeDelete(r)
	case "create":
		s.judgeCreate(r)
	case "patch":
		s.judgePatch(r)
	case "status":
		s.judgeStatus(r)
	}
	r.m.known.sent(r)
}

func (s *sim) judgeDelete(r *request) {
	uid := types.UID(r.action.uid)
	if uid == "" {
		s.blame("uid", "%s %s without the UID of the pod", r.m.name, r.text)
	}
	busy := r.m.known.busy[uid] // the API server has not begun with the first one: that it is sent again is another decision
	if first := s.intents[uid]; first != nil && r.m.known.doomed[uid] && !busy {
		r.verdict = first // a delete that is repeated was judged when it was decided; after it was refused, or by another manager, it is another one
		return
	}
	if busy {
		delete(r.m.known.doomed, uid)
	}
	r.verdict = s.judgeTaking(r, uid)
	r.verdict.free, r.verdict.by = s.isFree(r.m.known, uid, r.verdict.node), r.m.name
	s.intents[uid] = r.verdict
	firm := r.m.known.firm
	// A pod that a hook waits for is not deleted before the hook releases it, unless its node is gone.
	if firm(func(k known) bool { p := k.pods[uid]; return p != nil && hooked(k.set, p) && k.nodes[nodeOf(p)] != nil }) {
		s.blame("hook", "%s %s, which its hook has not released", r.m.name, r.text)
	}
	if firm(func(k known) bool {
		p := k.pods[uid]
		return p != nil && k.alive(p) && k.counts(nodeOf(p)) && k.newest(p) && !preparing(p) && (!restarting(p) || s.tooEarly(r, p)) && k.onlyOfItsKind(p)
	}) {
		s.blame("needless", "%s %s, which is of the newest revision, and the only pod of its node", r.m.name, r.text)
	}
}

// onlyOfItsKind is whether no other live pod is known beside a pod; with a surge, none of its revision.
func (k known) onlyOfItsKind(p *corev1.Pod) bool {
	return len(k.others(p.UID, nodeOf(p), func(o *corev1.Pod) bool {
		return k.alive(o) && (!surges(k) || imageOf(o) == imageOf(p) && k.newest(o) == k.newest(p))
	})) == 0
}

// judgeTaking is what is to be said of a write that takes a pod out of service.
func (s *sim) judgeTaking(r *request, uid types.UID) *verdict {
	k, v := r.m.known, &verdict{counted: map[string]bool{}}
	if !k.firm(func(k known) bool { return k.pods[uid] != nil && k.set != nil }) {
		return v
	}
	v.node, v.set = nodeOf(k.pods[uid]), k.set.GetUID()
	v.limit, v.surging = k.limit, k.surge > 0 || surges(k.then) || surges(k.known) // a percentage of no nodes is a surge as well
	for name := range s.w.state[ofNodes] {
		v.counted[name] = k.firm(func(k known) bool { return k.counts(name) })
	}
	if !k.firm(func(k known) bool { return k.alive(k.pods[uid]) && k.counts(v.node) }) || !k.wasOurs(uid) {
		return v
	}
	alone := k.alone(uid)
	v.takes = k.firm(func(k known) bool { return ownedBy(k.pods[uid], k.set) }) && s.servesFor(k.pods[uid]) && (alone || k.firm(func(k known) bool { return s.pairs(r.m, k, uid) }))
	// With a surge no node loses its only available pod; it goes when there is another one.
	if v.takes && k.firm(func(k known) bool { return k.fit(v.node) == mustRun && surges(k) }) {
		s.blame("surge", "%s %s, the only available pod of its node, although the set surges", r.m.name, r.text)
	}
	if alone && k.firm(func(k known) bool { return k.untouched(k.pods[uid]) }) {
		s.judgeStart(r, v.node)
		if v.takes && k.firm(func(k known) bool { return k.fit(v.node) == mustRun }) {
			v.begin(r)
		}
	}
	return v
}

// wasOurs is whether a pod belonged to the set when the pass began. The pass may have decided about it before it was shown that the pod has lost its owner: then a write
// of it begins an update all the same, and that goes on when the pod is adopted again.
func (k *knowledge) wasOurs(uid types.UID) bool {
	return k.then.set.GetUID() == k.set.GetUID() && ownedBy(k.then.pods[uid], k.then.set)
}

// untouched is whether a pod is an old one of which no update has begun, be it available or not.
func (k known) untouched(p *corev1.Pod) bool {
	return k.alive(p) && !k.newest(p) && !preparing(p) && !changing(p)
}

// judgeStart looks at the start of an update of a node: that is what pause, selector and partition forbid.
func (s *sim) judgeStart(r *request, node string) {
	k := r.m.known
	overdrawn := k.start(node)
	s.judgeRollout(r, node)
	switch {
	case r.m.yurt:
		s.blame("other", "%s %s, an old pod, although OpenYurt's own manager was at work when it began", r.m.name, r.text)
	case k.firm(func(k known) bool { return byHand(k.set) }):
		s.blame("on-delete", "%s %s, an old pod, although somebody else is to do that", r.m.name, r.text)
	case k.firm(func(k known) bool { return limitsOf(k.set).paused }):
		s.blame("paused", "%s %s although the set is paused", r.m.name, r.text)
	case k.firm(func(k known) bool { return limitsOf(k.set).leaves(k.nodes[node]) }):
		s.blame("selector", "%s %s on a node that is not selected", r.m.name, r.text)
	case overdrawn:
		s.blame("partition", "%s %s although so many nodes have the newest revision already as the partition allows", r.m.name, r.text)
	}
}

// judgePatch: a patch may take a pod out of service as a delete does.
func (s *sim) judgePatch(r *request) {
	for uid, p := range r.m.known.pods {
		if p.Name == r.action.pod && r.action.takes {
			r.verdict = s.judgeTaking(r, uid)
		}
	}
}

// pairs is whether the set surges, and a pod is an old one whose successor is not available yet. Of any other two pods on one node the younger
// goes at once, as upstream has it, whichever of them is available.
func (s *sim) pairs(m *manager, k known, uid types.UID) bool {
	others := k.others(uid, nodeOf(k.pods[uid]), k.alive)
	return surges(k) && len(others) == 1 && k.newest(others[0]) && !k.newest(k.pods[uid]) && !s.maybeAvailable(m, others[0])
}

func surges(k known) bool {
	_, surge := budgetsOf(k.set, max(k.desired(), 1))
	return surge > 0
}

// others are the pods on a node, but for one, that pass a test.
func (k known) others(but types.UID, node string, test func(*corev1.Pod) bool) []*corev1.Pod {
	var list []*corev1.Pod
	for _, p := range k.on(node) {
		if p.UID != but && test(p) {
			list = append(list, p)
		}
	}
	return list
}

// servesFor is whether a manager has to take a pod for one that is available: also if it has not been ready for long enough, for its clock may be wrong.
func (s *sim) servesFor(p *corev1.Pod) bool { return available(p, 0, s.w.now) }

// maybeAvailable is whether a pod counts as available for a manager at some moment of its pass.
func (s *sim) maybeAvailable(m *manager, p *corev1.Pod) bool {
	return available(p, s.minReady(), m.known.late)
}

func (s *sim) minReady() time.Duration { return time.Duration(s.cfg.minReady) * time.Second }

// surelyAvailable is whether a pod is available by the clock of any manager.
func (s *sim) surelyAvailable(p *corev1.Pod) bool {
	return available(p, max(0, s.minReady()-s.skew-s.otherSkew), s.w.now)
}

func (s *sim) judgeCreate(r *request) {
	k, node := r.m.known, r.action.node
	r.verdict = &verdict{node: node, counted: map[string]bool{}}
	if k.then.set == nil || k.set == nil {
		return
	}
	s.judgeFirst(r)
	s.judgeRecreate(r)
	v := r.verdict
	v.limit, v.surging = k.surge, k.surge > 0
	for name := range s.w.state[ofNodes] {
		v.counted[name] = k.firm(func(k known) bool { return k.counts(name) && s.renewing(r.m, k, name) })
	}
	// Nobody creates a pod where they know of one; with a surge, none of a revision of which they know a live one. One that has waited in vain for the agent of
	// its node to restart a container is to be replaced by another one of its revision (see needless).
	for uid, p := range k.pods {
		before := k.then.pods[uid]
		if before == nil || nodeOf(p) != node || !ownedBy(p, k.set) || ended(p) || ended(before) {
			continue
		}
		if later := k.later; later != nil && (later.pods[uid] == nil || !ownedBy(later.pods[uid], later.set)) {
			continue
		}
		if stays := !restarting(p) && !restarting(before); !v.surging || k.alive(p) && k.then.alive(before) && stays && k.sameKind(p, r.action.image) {
			s.blame("known-pod", "%s %s, where it knows of %s", r.m.name, r.text, uid)
		}
		if k.alive(p) && s.servesFor(p) {
			v.doubles = true
		}
		if s.surgesBeside(r, uid) {
			s.judgeStart(r, node)
			if s.servesFor(p) {
				v.begin(r)
			}
		}
	}
}

// surgesBeside is whether a create begins the update of the node of an old pod.
func (s *sim) surgesBeside(r *request, uid types.UID) bool {
	return r.m.known.firm(func(k known) bool {
		p := k.pods[uid]
		return p != nil && surges(k) && k.fit(nodeOf(p)) == mustRun && r.action.image == k.image() && k.untouched(p)
	})
}

// renewing is whether a manager knows a pod on a node that is available, and none of the newest revision that is: once there is one, or the
// old one is lost, the surge there takes nothing that anybody has to count, whichever of two pods was made for it. As long as a hook holds the old one,
// both are there to stay.
func (s *sim) renewing(m *manager, k known, node string) bool {
	if k.heldByHook(node) {
		return true
	}
	serves := false
	for _, p := range k.on(node) {
		if k.newest(p) {
			if k.alive(p) && s.maybeAvailable(m, p) {
				return false
			}
		} else if k.alive(p) && s.servesFor(p) {
			serves = true
		}
	}
	return serves
}

// heldByHook is whether a node has two live pods, an old one of which is not released by its hook.
func (k known) heldByHook(node string) bool {
	pods := slices.DeleteFunc(k.on(node), func(p *corev1.Pod) bool { return !k.alive(p) })
	return len(pods) > 1 && slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return !k.newest(p) && hooked(k.set, p) })
}

// committed looks at the world after a write has taken effect; before is the pod that it was about.
func (s *sim) committed(r *request, before *corev1.Pod, value any) {
	s.beginsWork(r)
	if r.peer {
		return
	}
	switch r.action.verb {
	case "delete":
		s.tookAway(r)
	case "patch":
		s.tookAway(r)
		if p, ok := value.(*corev1.Pod); ok && before != nil {
			s.changedInPlace(r, before, p)
		}
	case "create":
		if p, ok := value.(*corev1.Pod); ok {
			s.added(r, p)
		}
	}
}

// tookAway: as many nodes may be down by us as the budget allows, and no more.
func (s *sim) tookAway(r *request) {
	v := r.verdict
	set := s.w.set()
	if v == nil || !v.takes || s.down[v.node] || set == nil || set.GetUID() != v.set {
		return // what a set loses that is deleted counts for no other one
	}
	s.down[v.node] = true
	var down []string
	for _, n := range s.w.nodes() {
		if s.down[n.Name] && (v.counted[n.Name] || n.Name == v.node) {
			down = append(down, n.Name)
		}
	}
	limit := max(v.limit, r.m.known.limit)
	s.note("%s %s down by us, of %d", strings.Join(down, " "), isAre(len(down)), limit)
	if !v.surging && len(down) > limit {
		s.blame("budget", "%s %s: %s %s down by us, and %d may be", r.m.name, r.text, strings.Join(down, " "), isAre(len(down)), limit)
	}
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// added: one live pod on a node, two with a surge, and as many nodes with two as the surge allows.
func (s *sim) added(r *request, made *corev1.Pod) {
	v := r.verdict
	var there []string
	for _, p := range s.w.pods() {
		if nodeOf(p) != v.node || !ownedBy(p, s.w.set()) || ended(p) {
			continue
		}
		if live(p) || !v.surging {
			there = append(there, string(p.UID))
		}
	}
	most := 1
	if v.surging {
		most = 2
	}
	if len(there) > most {
		s.blame("one-pod", "%s %s: %s are there", r.m.name, r.text, strings.Join(there, " "))
	}
	if !v.doubles {
		return
	}
	s.doubled[v.node] = made.UID
	count := 0
	for node := range s.doubled {
		if v.counted[node] || node == v.node {
			count++
		}
	}
	limit := max(v.limit, r.m.known.surge)
	s.note("%d nodes are doubled by us, of %d", count, limit)
	if count > limit {
		s.blame("surge", "%s %s: %d nodes are doubled by us, and %d may be", r.m.name, r.text, count, limit)
	}
}

// follow brings the nodes that are down or doubled by us up to date, after every step.
func (s *sim) follow() {
	s.followWork()
	s.touch()
	set := s.w.set()
	for node := range s.down {
		if n := s.w.node(node); n == nil || fitOf(set, n) == mustLeave || s.anyAvailable(node) || fitOf(set, n) == mayStay && len(s.podsOn(node)) == 0 {
			delete(s.down, node)
		}
	}
	for node, uid := range s.doubled {
		made, old := s.w.podOf(uid), false
		for _, p := range s.podsOn(node) {
			ready, _ := readyOf(p)
			old = old || p.UID != uid && live(p) && ready
		}
		if n := s.w.node(node); n == nil || made == nil || !live(made) || !ownedBy(made, set) || !old || s.surelyAvailable(made) && !s.everything().heldByHook(node) {
			delete(s.doubled, node)
		}
	}
}

// podsOn are the pods of the set on a node.
func (s *sim) podsOn(node string) []*corev1.Pod {
	var list []*corev1.Pod
	for _, p := range s.w.pods() {
		if nodeOf(p) == node && ownedBy(p, s.w.set()) {
			list = append(list, p)
		}
	}
	return list
}

func (s *sim) anyAvailable(node string) bool {
	for _, p := range s.podsOn(node) {
		if s.surelyAvailable(p) {
			return true
		}
	}
	return false
}

// sameKind is whether a pod is of the revision that a new one of that image is of. Of one without a hash nobody knows the revision, unless it is the newest.
func (k known) sameKind(p *corev1.Pod, image string) bool {
	hashed := p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] != ""
	return imageOf(p) == image && (image == k.image() || hashed) && (image != k.image() || k.newest(p))
}
