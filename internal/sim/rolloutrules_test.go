// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// ruling is what the policies that a manager knew at the moment of a decision say of the updates that follow from it. It is found out from the objects
// alone, and not with what ships.
type ruling struct {
	// all is why no update may begin, of the rule that forbids it; rest why none may begin but on first, the nodes of the first wave.
	all, rule, rest, restRule string
	first                     map[string]bool
	// waves is which of the waves after the first one are released.
	waves *wavesRuling
	// later are the nodes of the first wave whose zone has to wait for another one.
	later map[string]bool
	// latest is whether nodes that join get the newest revision; rollout whether the template describes another revision than the committed one.
	latest, rollout bool
	// rests is whether the template describes the committed revision: then pods that are created are of it, and the pace does not limit that.
	rests bool
	// governed is whether a policy applies to the set, and lost whether the committed revision was deleted.
	governed, lost bool
	// most is how many nodes may be in the middle of an update, under those that are; 0 for any number. single is the UID of the policy that lets only one begin in a pass; empty for none.
	most     int
	underWay map[string]bool
	single   types.UID
	// between is the time that must pass between two of them.
	between time.Duration
	// scope is how wide the group of the set is; empty if it is in none.
	scope v1alpha1.ConcurrencyScope
	// returns is the image that nodes return to, because that of the template has failed; empty if they do not.
	returns string
}

// ledger is what leaders have seen of the first wave of a rollout, when they decided: for how long it has been complete in the time in which one of them
// looked, when that was for the last time, and who it was; and whether it has passed.
type ledger struct {
	soaked time.Duration
	at     time.Time
	by     string
	passed bool
	// unanswered is whether its analysis has not passed.
	unanswered bool
}

// target is the revision that the template describes; nil if none is known.
func (k known) target() *appsv1.ControllerRevision {
	var best *appsv1.ControllerRevision
	for _, r := range k.revisions {
		if ownedBy(r, k.set) && imageOfRevision(r) == imageOfSet(k.set) &&
			(best == nil || cmp.Or(cmp.Compare(r.Revision, best.Revision), cmp.Compare(r.Name, best.Name)) > 0) {
			best = r
		}
	}
	return best
}

// committed is the image of the revision that was committed last, by a mark that is not one of forged; empty if none is known.
func (k known) committed(forged map[string]bool) string {
	best, image := int64(0), ""
	for _, r := range k.revisions {
		mark := r.Annotations[everynode.Committed]
		if n := everynode.ParseCommitted(mark, string(r.UID)); ownedBy(r, k.set) && n > best && !forged[mark] {
			best, image = n, imageOfRevision(r)
		}
	}
	return image
}

// rules finds out what a manager must keep to that has been shown these policies.
func (s *sim) rules(m *manager, p *v1alpha1.RolloutPolicy, approvals []v1alpha1.RolloutApproval, unread bool) *ruling {
	m.known.returning("")
	k := m.known.known
	if k.set == nil || s.yurt && isEdge(k.set) { // without the annotations of OpenYurt it is a set that users update, which no policy enforces
		return nil
	}
	forged := s.forgedMarks
	if p == nil && !unread {
		forged = nil // without a policy there is nothing that could confirm a mark
	}
	if p != nil && !m.rules.reported(p) {
		s.acceptMarks(k)
	}
	newest, committed := k.target(), k.committed(forged)
	target := m.inRollout(p, newest)
	u := &ruling{rests: committed == imageOfSet(k.set), rollout: target != nil && committed != "" && committed != imageOfSet(k.set)}
	decided := func(decision v1alpha1.Decision, wave string) bool {
		return target != nil && slices.ContainsFunc(approvals, func(a v1alpha1.RolloutApproval) bool {
			return a.Spec.Decision == decision && (wave == "" || a.Spec.Wave == wave) && a.Spec.Revision == target.Name && counts(&a, target.Revision) &&
				(decision == v1alpha1.Reject || s.isStored(&a))
		})
	}
	switch {
	case unread || p == nil:
		switch {
		case u.rollout:
			u.rule, u.all = "deleted", "no policy is there, and another revision is committed"
		case s.cfg.dialect == alongsideRun:
			u.rule, u.all = "external", "no policy is there"
		}
		return u
	case p.Spec.Suspend:
		u.rule, u.all = "suspended", "the policy is suspended"
	case u.rollout && len(p.Spec.Freezes) > 0:
		u.rule, u.all = "suspended", "a freeze is active"
	case u.rollout && p.Spec.BlockOnAlerts != nil && !m.provider.silent():
		u.rule, u.all = "suspended", "it is not known that no alert is firing"
	case u.rollout && outside(p, s.w.now):
		u.rule, u.all = "suspended", "no window is open"
	case u.rollout && failed(newest) && reportsFailure(p, target) && !retried(p, approvals, target):
		u.rule, u.all = "suspended", "the revision has failed"
	case u.rollout && decided(v1alpha1.Reject, ""):
		u.rule, u.all = "suspended", "the revision was rejected"
	case !u.rollout && (p.Spec.Undo == nil || !p.Spec.Undo.IgnoreWindows) && (len(p.Spec.Freezes) > 0 || outside(p, s.w.now)):
		u.rule, u.all = "suspended", "no window is open"
	}
	u.governed, u.lost = true, s.lostCommitted(m.reported(p), k)
	if u.returns = s.returnsTo(m, u, p, approvals, target, committed); u.returns != "" {
		u.all, u.rule = "", "suspended"
		closed := len(p.Spec.Freezes) > 0 || outside(p, s.w.now)
		switch {
		case p.Spec.Suspend:
			u.all = "the policy is suspended"
		case closed && (p.Spec.Undo == nil || !p.Spec.Undo.IgnoreWindows):
			u.all = "no window is open"
		}
	}
	m.known.returning(u.returns)
	u.latest = p.Spec.JoiningNodes == v1alpha1.JoiningLatest
	u.pace(s, k, p)
	if u.rollout && u.returns == "" && len(p.Spec.Waves) > 0 {
		wave := &p.Spec.Waves[0]
		u.first = k.firstWave(wave, m.startOf(p, target))
		waited := maps.Clone(u.first)
		delete(waited, s.sick)
		rollout := words("%s of %s in rollout %d of %s", p.UID, target.UID, target.Revision, k.set.GetUID())
		l := s.ledger(rollout)
		if m == s.lead {
			l.look(m, target, k.without(p, waited, len(waited)), wave, decided)
			l.passed = l.passed || decided(v1alpha1.Promote, wave.Name) && s.vanished(rollout, k, 0)
		}
		if !l.passed {
			u.later = k.later(p, waited)
			u.rest, u.restRule = words("the wave %s has not passed", wave.Name), "wave"
			if l.unanswered {
				u.rest, u.restRule = words("the analysis of the wave %s has not passed", wave.Name), "analysis"
			}
		}
		u.waves = s.laterWaves(m, p, target, decided, l.passed)
	}
	return u
}

// reported is what a manager has reported of sets, or a leader before it.
func (m *manager) reported(p *v1alpha1.RolloutPolicy) []v1alpha1.SetStatus {
	if is, reported := m.rules.reports[policyName]; reported && is.of == p.UID {
		return []v1alpha1.SetStatus{*is.status}
	}
	return p.Status.Sets
}

// startOf is when the rollout of a revision began, as the managers have reported it; zero if that is after now, as it may be where clocks are wrong. The rollout of the newest revision began with it.
func (m *manager) startOf(p *v1alpha1.RolloutPolicy, target *appsv1.ControllerRevision) time.Time {
	now := m.clock.Now()
	began := now.Truncate(time.Second)
	for _, st := range m.reported(p) {
		if st.UID == m.known.set.GetUID() && st.TargetRevision == target.Name && st.TargetNumber == target.Revision && st.StartedAt != nil {
			began = st.StartedAt.Time
		}
	}
	made := target.CreationTimestamp.Time
	if !slices.ContainsFunc(slices.Collect(maps.Values(m.known.revisions)), func(r *appsv1.ControllerRevision) bool {
		own := strings.HasSuffix(r.Name, r.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]) // a stranger's has another name
		return own && ownedBy(r, m.known.set) && r.CreationTimestamp.After(made)
	}) && made.Before(began) {
		began = made
	}
	if began.After(now) {
		return time.Time{}
	}
	return began
}

// inRollout is a revision with the number of its rollout, which stays when a stranger makes a manager raise that of the revision.
func (m *manager) inRollout(p *v1alpha1.RolloutPolicy, r *appsv1.ControllerRevision) *appsv1.ControllerRevision {
	if p == nil || r == nil {
		return r
	}
	set := m.known.set
	for _, st := range m.reported(p) {
		if st.TargetRevision == r.Name && st.UID == set.GetUID() && st.ObservedGeneration == set.GetGeneration() && st.TargetNumber != r.Revision {
			numbered := *r
			numbered.Revision = st.TargetNumber
			return &numbered
		}
	}
	return r
}

// failed is whether a revision has failed in the rollout that its number stands for.
func failed(r *appsv1.ControllerRevision) bool {
	f := everynode.ParseFailed(r.Annotations[everynode.Failed], string(r.UID))
	return f != nil && f.Number == r.Revision
}

// reportsFailure is whether the status of a policy confirms that a revision has failed.
func reportsFailure(p *v1alpha1.RolloutPolicy, target *appsv1.ControllerRevision) bool {
	return slices.ContainsFunc(p.Status.Sets, func(st v1alpha1.SetStatus) bool {
		return st.Failure != nil && st.TargetRevision == target.Name && st.TargetNumber == target.Revision
	})
}

// returnsTo is the image that nodes return to, if this manager has reported that the revision has failed, or a leader before it, and the policy undoes it.
func (s *sim) returnsTo(m *manager, u *ruling, p *v1alpha1.RolloutPolicy, approvals []v1alpha1.RolloutApproval, target *appsv1.ControllerRevision, committed string) string {
	if !u.rollout || !s.cfg.undoes() || retried(p, approvals, target) {
		return ""
	}
	for _, st := range m.reported(p) {
		if st.Failure != nil && st.Failure.Action == v1alpha1.FailureUndo && st.TargetRevision == target.Name && st.TargetNumber == target.Revision {
			return committed
		}
	}
	return ""
}

// returning notes which image nodes return to, as of the decision that follows.
func (k *knowledge) returning(image string) {
	if k.wanted != image {
		k.wanted, k.then.wanted = image, image
		k.measure()
	}
}

// retried is whether a manager has stored that a user wants a revision that has failed to be rolled out again, and the status does not report that yet.
func retried(p *v1alpha1.RolloutPolicy, approvals []v1alpha1.RolloutApproval, target *appsv1.ControllerRevision) bool {
	return slices.ContainsFunc(approvals, func(a v1alpha1.RolloutApproval) bool {
		return a.Spec.Decision == v1alpha1.Retry && a.Spec.Revision == target.Name && a.Status.State == v1alpha1.ApprovalValid && a.Status.TargetNumber == target.Revision &&
			!slices.ContainsFunc(p.Status.Sets, func(st v1alpha1.SetStatus) bool { return st.Attempt >= a.Status.Attempt })
	})
}

// isStored is whether the cluster has ever had an approval with the state that a manager knows.
func (s *sim) isStored(a *v1alpha1.RolloutApproval) bool {
	return a.Status.State != "" && slices.ContainsFunc(s.w.logs[ofApprovals], func(e event) bool {
		o := e.object.(*v1alpha1.RolloutApproval)
		return o.UID == a.UID && o.Status == a.Status
	})
}

func (s *sim) ledger(of string) *ledger {
	if s.ledgers[of] == nil {
		s.ledgers[of] = &ledger{}
	}
	return s.ledgers[of]
}

// look takes in how far the wave is. It may count a soak that what ships begins anew: one in the middle of which a pod failed, and got ready again before
// the same leader looked. Where a pod got ready while nobody looked, the soak has to begin anew; that is not asked where clocks are wrong, for they say when
// that was.
func (l *ledger) look(m *manager, target *appsv1.ControllerRevision, nodes map[string]bool, wave *v1alpha1.Wave, decided func(v1alpha1.Decision, string) bool) {
	s, k, last := m.s, m.known.known, *l
	l.at, l.by = s.w.now, m.name
	switch {
	case !k.complete(nodes):
		l.soaked, l.by = 0, ""
		return
	case last.by == m.name:
		l.soaked += s.w.now.Sub(last.at)
	case s.skew == 0 && s.otherSkew == 0 && k.readied(nodes, last.at.Add(2*time.Second)):
		l.soaked = 0
	}
	if analysed := len(wave.Analysis) > 0 && len(nodes) > 0; analysed && !m.provider.passes(target.Revision) && !decided(v1alpha1.Promote, wave.Name) {
		l.unanswered = true
		return
	}
	l.unanswered = false
	l.end(nodes, wave, decided)
}

// end is whether a complete wave has passed.
func (l *ledger) end(nodes map[string]bool, wave *v1alpha1.Wave, decided func(v1alpha1.Decision, string) bool) {
	soaked := len(nodes) == 0 || wave.Soak == nil || l.soaked >= wave.Soak.Duration || decided(v1alpha1.Promote, wave.Name)
	l.passed = l.passed || soaked && (len(wave.After) == 0 || decided(v1alpha1.Approve, wave.Name))
}

// readied is whether a pod of the newest revision has got ready on some nodes after a time.
func (k known) readied(nodes map[string]bool, after time.Time) bool {
	for node := range nodes {
		if slices.ContainsFunc(k.on(node), func(p *corev1.Pod) bool {
			ready, since := readyOf(p)
			return ready && k.newest(p) && since.After(after)
		}) {
			return true
		}
	}
	return false
}

// complete is whether each of some nodes has a pod of the newest revision that is ready. OpenYurt goes on without nodes that are not ready, but for the
// last one; a set without any node has nothing to wait for.
func (k known) complete(nodes map[string]bool) bool {
	done := len(nodes) == 0
	for node := range nodes {
		is := func(p *corev1.Pod) bool {
			ready, _ := readyOf(p)
			return ready && k.alive(p) && k.newest(p)
		}
		switch {
		case slices.ContainsFunc(k.on(node), is):
			done = true
		case !isEdge(k.set) || nodeReady(k.nodes[node]):
			return false
		}
	}
	return done
}

// later are those of some nodes that are to be updated after a zone of them that is not complete.
func (k known) later(p *v1alpha1.RolloutPolicy, nodes map[string]bool) map[string]bool {
	if p.Spec.Order == nil {
		return nil
	}
	zone := func(node string) string { return k.nodes[node].Labels[p.Spec.Order.TopologyKey] }
	later := map[string]bool{}
	for node := range nodes {
		before := maps.Clone(nodes)
		maps.DeleteFunc(before, func(other string, _ bool) bool { return zone(other) >= zone(node) })
		for other := range k.without(p, before, len(nodes)) {
			if !k.complete(map[string]bool{other: true}) && (!isEdge(k.set) || nodeReady(k.nodes[other])) {
				later[node] = true
			}
		}
	}
	return later
}

// neverWorks is whether a node has a pod of the newest revision, and that never works.
func (k known) neverWorks(node string) bool {
	return slices.ContainsFunc(k.on(node), func(p *corev1.Pod) bool { return k.alive(p) && k.newest(p) && strings.HasSuffix(imageOf(p), "bad") })
}

// without are some nodes of a wave of so many without those that have a pod that never works, if no more of them have one than may fail.
func (k known) without(p *v1alpha1.RolloutPolicy, nodes map[string]bool, all int) map[string]bool {
	if p.Spec.Failure == nil || p.Spec.Failure.MaxFailedNodes == nil {
		return nodes
	}
	rest := maps.Clone(nodes)
	maps.DeleteFunc(rest, func(node string, _ bool) bool { return k.neverWorks(node) })
	if len(nodes)-len(rest) > quantity(amount(p.Spec.Failure.MaxFailedNodes.String()), all) {
		return nodes
	}
	return rest
}

// firstWave are the nodes of the first wave: first those that have the revision, then others in the order of their names, and those that have joined since the revision was made after all others. A wave
// that is spread has the first node of each zone, then the second one of each, and so on.
func (k known) firstWave(wave *v1alpha1.Wave, began time.Time) map[string]bool {
	first := map[string]bool{}
	for node, at := range k.places([]v1alpha1.Wave{*wave}, began) {
		if at == 0 && k.fit(node) == mustRun {
			first[node] = true
		}
	}
	return first
}

// pace finds out which nodes are in the middle of an update that a manager has begun. OpenYurt leaves those out that are not ready.
func (u *ruling) pace(s *sim, k known, p *v1alpha1.RolloutPolicy) {
	if between := p.Spec.Pace.MinTimeBetween; between != nil {
		u.single, u.between = p.UID, between.Duration
	}
	if p.Spec.Pace.MaxUpgrading == nil {
		return
	}
	u.most, u.underWay = max(quantity(amount(p.Spec.Pace.MaxUpgrading.String()), k.desired()), 1), map[string]bool{}
	for node := range k.nodes {
		if !s.begun[node+" "+k.image()] || k.fit(node) != mustRun || isEdge(k.set) && !nodeReady(k.nodes[node]) || node == s.sick {
			continue
		}
		pods := k.on(node)
		live := slices.ContainsFunc(pods, k.alive)
		ready := slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return k.alive(p) && k.newest(p) && s.servesFor(p) })
		newest := slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return k.alive(p) && k.newest(p) })
		if !live || newest && !ready {
			u.underWay[node] = true
		}
	}
	if p.Spec.Failure != nil && p.Spec.Failure.MaxFailedNodes != nil { // those that have failed are in the middle of no update any more
		failed := 0
		for node := range u.underWay {
			if k.neverWorks(node) {
				failed++
			}
		}
		u.most += min(failed, quantity(amount(p.Spec.Failure.MaxFailedNodes.String()), k.desired()))
	}
}

// judgeRollout looks at the start of an update of a node.
func (s *sim) judgeRollout(r *request, node string) {
	u, k := r.m.ruling, r.m.known
	if u == nil {
		return
	}
	begins := maps.Clone(u.underWay)
	if begins == nil {
		begins = map[string]bool{}
	}
	maps.Copy(begins, k.recreated)
	surging := surges(k.then) || surges(k.known)
	for name := range k.started {
		if !surging || k.fit(name) == mustRun { // with a surge, a pod that only may stay on its node is removed, and none follows
			begins[name] = true
		}
	}
	switch {
	case u.all != "":
		s.blameRollout(u, r)
	case u.rest != "" && !u.first[node]:
		s.blameWave(u, "%s %s: %s, and %s is not in it", r.m.name, r.text, u.rest, node)
	case u.waves.holds(k, node) != "" && !s.had(node, k.image()) && !s.begun[node+" "+k.image()]:
		s.blame("wave", "%s %s: %s", r.m.name, r.text, u.waves.holds(k, node))
	case u.later[node]:
		s.blame("zones", "%s %s: %s is in a zone that has to wait for another one", r.m.name, r.text, node)
	case u.most > 0 && len(begins) > u.most:
		s.blame("pace", "%s %s: %s are in the middle of an update, and %d may be", r.m.name, r.text, sorted(begins), u.most)
	case u.single != "" && len(k.started)+len(k.recreated) > 1:
		s.blame("pace", "%s %s, and has begun the updates of %s and %s in one pass", r.m.name, r.text, sorted(k.started), sorted(k.recreated))
	}
	if !surging || k.fit(node) == mustRun {
		s.judgeInterval(r)
	}
	s.begun[node+" "+k.image()] = true
}

func (s *sim) blameWave(u *ruling, format string, args ...any) {
	if u.restRule == "analysis" {
		s.blame("analysis", format, args...)
		return
	}
	s.blame("wave", format, args...)
}

func (s *sim) blameRollout(u *ruling, r *request) {
	switch u.rule {
	case "deleted":
		s.blame("deleted", "%s %s, although %s", r.m.name, r.text, u.all)
		return
	case "external":
		s.blame("external", "%s %s, although %s", r.m.name, r.text, u.all)
		return
	}
	s.blame("suspended", "%s %s, although %s", r.m.name, r.text, u.all)
}

// judgeFirst looks at the create of a pod where there is none: a node that is held back gets one of the newest revision only if it has had one before, or a
// manager has begun its update.
func (s *sim) judgeFirst(r *request) {
	u, k, node := r.m.ruling, r.m.known, r.action.node
	if u != nil && u.governed && r.action.image == forgedImage {
		s.blame("forged", "%s %s, which a stranger wants there", r.m.name, r.text)
	}
	if u == nil || !u.rollout || u.latest || u.lost && !k.elsewhere() || k.set == nil || k.then.set == nil || byHand(k.then.set) || s.begun[node+" "+r.action.image] || s.had(node, r.action.image) ||
		!k.firm(func(k known) bool { return r.action.image == imageOfSet(k.set) && k.fit(node) == mustRun }) {
		return
	}
	if why := u.rest; why != "" && !u.first[node] {
		s.blameWave(u, "%s %s: %s, and the node is not in it", r.m.name, r.text, why)
	} else if why := u.waves.waits(node); why != "" {
		s.blame("wave", "%s %s: %s", r.m.name, r.text, why)
	}
}

// had is whether a pod of that image has ever been on a node.
func (s *sim) had(node, image string) bool {
	return slices.ContainsFunc(s.w.logs[ofPods], func(e event) bool {
		p := e.object.(*corev1.Pod)
		return nodeOf(p) == node && imageOf(p) == image
	})
}
