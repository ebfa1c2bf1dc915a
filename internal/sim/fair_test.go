// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// fairRounds is within how many rounds a run has to come to its end once faults stop. A round is a second, or longer where nothing
// happens before the next wake.
const fairRounds = 300

// fairRounds is that number for this run. Where writes are slow, the waves of a rollout take many of them, one after the other.
func (s *sim) fairRounds() int {
	if s.cfg.with("slowness") && s.cfg.with("rollouts") || s.cfg.grouped() {
		return 3 * fairRounds
	}
	return fairRounds
}

// settle heals the world and looks whether everything comes to the end that its specification allows, and stays there. Then it takes back what keeps
// nodes back, if anything does, and looks whether the rest comes to its end as well. In some runs one node is healed after all else has come to rest, and
// in some a policy protects one when all has come to its end (lastPolicy).
func (s *sim) settle() {
	if s.cfg.with("rollouts") { // a wave waits for the node that stays behind, and what a partition keeps from the update never completes one
		s.heal()
		s.lift()
		s.rest()
		s.lastRollouts()
		return
	}
	s.keepGuard()
	if o, is := s.protected(); is {
		s.settleBut(o)
	} else if s.cfg.with("outages") {
		if o := s.anyOutage(); o.node != "" { // without a set or a node there is nothing to wait with
			s.settleBut(o)
		}
	}
	s.heal()
	s.rest()
	if s.broken == nil && s.lift() {
		s.note("nothing is kept back any more")
		s.rest()
	}
	if s.broken == nil && s.lastPolicy() {
		o, _ := s.protected()
		s.settleBut(o)
		s.heal()
		s.rest()
	}
}

// rest lets everything come to rest, and looks at what it has come to.
func (s *sim) rest() {
	switch {
	case s.fair(s.fairRounds()):
		s.checkEnd()
	case s.broken == nil:
		s.blame("liveness", "after %d fair rounds it has not come to rest", s.fairRounds())
	}
}

// healWorld ends what lies around the set and would keep it from getting ready for ever.
func (s *sim) healWorld() {
	if s.frozen != nil {
		s.thaw()
	}
	s.w.closed = nil
	s.pacify()
	for _, other := range []*bool{&s.other, &s.yurt} {
		if *other {
			s.alone(other)
		}
	}
	if s.lead != nil {
		s.lead.quiet()
		s.lead.clock.jump(0)
		s.lead.known.count()
	}
	s.bringNodesUp()
}

// bringNodesUp has nodes come up that are down, and reports whether there are any.
func (s *sim) bringNodesUp() (were bool) {
	for _, n := range s.w.nodes() {
		if !nodeReady(n) && !s.out.down(n.Name) {
			were = true
			s.w.changeNode(n, func(n *corev1.Node) { s.setNode(n, corev1.ConditionTrue) })
		}
	}
	return were
}

// heal ends what would keep the set from getting ready for ever. What a user has asked for stays, but for an image that never works,
// and a set that is deleted.
func (s *sim) heal() {
	s.healWorld()
	if s.w.set() == nil {
		s.note("the set is made anew")
		s.makeSet()
	}
	if strings.HasSuffix(imageOfSet(s.w.set()), "bad") {
		s.w.editSet(func(spec map[string]any) { setImage(spec, "v3") })
	}
	s.pacifyRollout()
}

// lift takes back what keeps nodes back from an update; false if nothing does.
func (s *sim) lift() bool {
	if limitsOf(s.w.set()) == (limits{}) {
		return false
	}
	s.w.editSet(func(spec map[string]any) {
		rolling := spec["updateStrategy"].(map[string]any)["rollingUpdate"].(map[string]any)
		rolling["paused"], rolling["partition"], rolling["selector"] = false, int64(0), nil
	})
	return true
}

// fairTime is longer than the longest back-off of a pod that has failed, and shorter than a clock jumps.
const fairTime = 30 * time.Minute

// fair plays rounds in which everybody does what there is to do, until nobody has anything left to do; false when that takes
// too many of them, or longer than fairTime.
func (s *sim) fair(rounds int) bool {
	began := s.w.now
	s.alerted = 0
	for range rounds {
		if s.w.now.Sub(began) > fairTime {
			return false
		}
		if s.broken != nil {
			return false
		}
		if !s.round() {
			return true
		}
	}
	return false
}

// mostSteps is how many steps a round may have. An answer that asks for itself again and again would have no end.
const mostSteps = 5_000

// round is whether anything was done, or is still to come.
func (s *sim) round() bool {
	busy := false
	for steps := 0; ; steps++ {
		o := s.fairOp()
		if o == nil {
			break
		}
		if steps == mostSteps {
			s.blame("liveness", "after %d steps in one moment there is still something to do: %s", steps, o.text)
			if s.broken == nil { // of a mutant, liveness may not be asked for
				s.broken = &breach{endless, words("after %d steps in one moment there is still something to do: %s", steps, o.text)}
			}
			return true
		}
		s.take(*o)
		busy = true
		if s.broken != nil {
			return true
		}
	}
	m := s.lead
	pause := time.Second
	switch {
	case busy || !m.synced() || m.running || m.peer.running:
	default:
		next := s.nextAnswer(earlier(m.wake, m.peer.wake))
		if s.keeper != nil {
			next = earlier(next, s.keeper.wake)
		}
		if next.IsZero() {
			next = m.provider.next()
		}
		if next.IsZero() {
			return s.dozes()
		}
		pause = max(next.Sub(s.w.now), time.Second)
	}
	s.take(op{words("%s pass", pause), 1, func() { s.pass(pause) }})
	return true
}

// earlier is the earlier of two times, zero for never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// fairOp is the next step of a fair round; nil when all that can be done at this moment is done.
func (s *sim) fairOp() *op {
	m := s.lead
	if m == nil {
		return &op{"a new leader comes", 1, func() { s.lead = s.newManager(0) }}
	}
	if o := s.fairRequest(m); o != nil {
		return o
	}
	if ops := s.keeperOps(nil); len(ops) > 0 {
		return &ops[0]
	}
	if len(s.stragglers) > 0 && !m.synced() {
		s.stragglers = nil // none of them took effect
	}
	if m.cut {
		notice := s.noticeOp()
		return &notice
	}
	for k := range s.kinds() {
		switch {
		case m.seen[k] < 0 && !m.fence.After(s.w.now) && m.slow.taken:
			return &op{words("%s lists %s", m.name, k), 1, func() { m.list(k); m.rest() }}
		case m.seen[k] >= 0 && m.behind(k) > 0:
			return &op{words("%s sees %s", m.name, k), 1, func() { m.see(k); m.rest() }}
		}
	}
	if o := s.fairRollout(); o != nil {
		return o
	}
	if ops := s.collectOps(nil); len(ops) > 0 {
		return &ops[0]
	}
	if ops := s.pullOps(nil); len(ops) > 0 {
		return &ops[0]
	}
	for _, p := range s.w.pods() {
		if o := s.fairPodOp(p); o != nil {
			return o
		}
	}
	if m.synced() && !m.running && m.due() {
		return &op{m.name + " looks", 1, m.pass}
	}
	if m.peerDue() {
		return &op{m.name + " looks at the peer", 1, m.passForPeer}
	}
	return nil
}

// fairPodOp is the first of the steps of a pod that lead to its being ready, or gone.
func (s *sim) fairPodOp(p *corev1.Pod) *op {
	faults := s.cfg.faults
	s.cfg.faults = nil
	defer func() { s.cfg.faults = faults }()
	if ops := s.podOps(nil, p); len(ops) > 0 {
		return &ops[0]
	}
	return nil
}
