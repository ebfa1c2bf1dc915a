// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// judgeRecreate looks at the create of a pod of the newest revision where the last one had another, and no update has taken that: it begins an update, which the pace limits. While
// nodes return to the committed revision, it does not limit that: no node gets a revision that is new.
func (s *sim) judgeRecreate(r *request) {
	u, k, node, image := r.m.ruling, r.m.known, r.action.node, r.action.image
	if u == nil || !u.governed || u.most == 0 && u.single == "" || u.rests || u.returns != "" || r.slow || byHand(k.then.set) || s.begun[node+" "+image] ||
		!k.firm(func(k known) bool {
			return image == k.image() && k.fit(node) == mustRun && !slices.ContainsFunc(k.on(node), k.alive)
		}) || !s.vanishedOld(r) {
		return
	}
	k.recreated[node], s.begun[node+" "+image] = true, true
	begins := maps.Clone(k.recreated)
	maps.Copy(begins, u.underWay)
	maps.Copy(begins, k.started)
	switch {
	case u.most > 0 && len(begins) > u.most:
		s.blame("pace", "%s %s: %s are in the middle of an update, and %d may be", r.m.name, r.text, sorted(begins), u.most)
	case u.single != "" && len(k.started)+len(k.recreated) > 1:
		s.blame("pace", "%s %s, and has begun the updates of %s and %s in one pass", r.m.name, r.text, sorted(k.started), sorted(k.recreated))
	}
	s.judgeInterval(r)
}

// vanishedOld is whether a manager knows the last pod that the node of a create had, and that its hash names another revision of the history, with its template. A pod without a hash,
// because a webhook has taken that or a stranger has made the pod, names none, nor does one whose revision was deleted or has made way for that of a stranger: a node that has lost such a
// pod may get the newest revision at any time.
func (s *sim) vanishedOld(r *request) bool {
	k, node := r.m.known, r.action.node
	var last *corev1.Pod
	for _, e := range s.w.logs[ofPods] {
		if p := e.object.(*corev1.Pod); nodeOf(p) == node && p.Namespace == namespace && ownedBy(p, k.set) && (last == nil || p.UID == last.UID || !p.CreationTimestamp.Before(&last.CreationTimestamp)) {
			last = p
		}
	}
	if last == nil || !k.knew[last.UID] || k.nodes[node] == nil || last.CreationTimestamp.Before(&k.nodes[node].CreationTimestamp) || imageOf(last) == r.action.image {
		return false
	}
	hash := last.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]
	return hash != "" && k.firm(func(k known) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(k.revisions)), func(o *appsv1.ControllerRevision) bool {
			return ownedBy(o, k.set) && o.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] == hash && imageOfRevision(o) == imageOf(last)
		})
	})
}

// start is the start of an update of a set that a manager has decided on in a pass that began at a time. at is when it took effect, if the manager was answered.
type start struct {
	of      *request
	manager string
	set     types.UID
	// policy is the UID of the policy that asks for a time between two of them; empty for none.
	policy    types.UID
	began, at time.Time
	// before is the one before it; nil for none.
	before *start
}

// knownTo is the last start that a manager must know: one that another manager had sent, and that has had no effect before that died, is none.
func (s *start) knownTo(m *manager) start {
	for s.of != nil && s.manager != m.name && !s.of.took && s.before != nil {
		s = s.before
	}
	if s.of != nil && s.manager != m.name && !s.of.took {
		return start{}
	}
	return *s
}

// judgeInterval is whether the time between this start and the last one is long enough. Another manager knows the last one by the clocks of others,
// and a restored store knows nothing of it.
func (s *sim) judgeInterval(r *request) {
	u, before, right := r.m.ruling, s.lastStart, s.skew == 0 && s.otherSkew == 0 && !s.cfg.with("restores")
	s.lastStart = start{r, r.m.name, r.m.known.then.set.GetUID(), u.single, r.began, r.began, nil}
	last := before.knownTo(r.m)
	if last.before = nil; last.of != nil {
		s.lastStart.before = &last
	}
	if u.single == "" || last.policy != u.single || last.set != s.lastStart.set || !r.began.After(last.began) || last.began.IsZero() || last.manager != r.m.name && !right {
		return
	}
	if gap := r.began.Sub(last.at); gap < u.between {
		s.blame("pace", "%s %s %s after the last start, of %s, and %s have to pass", r.m.name, r.text, gap, last.manager, u.between)
	}
}

// started notes when the last start took effect: the time until the next one counts from there. No pass waits for a slow write.
func (s *sim) started(r *request) {
	if s.lastStart.of == r && !r.slow {
		s.lastStart.at = s.w.now
	}
}
