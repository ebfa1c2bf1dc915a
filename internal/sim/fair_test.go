// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// fairRounds is within how many rounds a run has to come to its end once faults stop. A round is a second, or longer where nothing
// happens before the next wake.
const fairRounds = 300

// settle heals the world and looks whether everything comes to its end, and stays there.
func (s *sim) settle() {
	s.heal()
	if !s.fair(fairRounds) {
		if s.broken == nil {
			s.blame("liveness", "after %d fair rounds it has not come to rest", fairRounds)
		}
		return
	}
	s.checkEnd()
}

// heal ends what would keep the set from getting ready for ever.
func (s *sim) heal() {
	s.w.closed = nil
	if s.lead != nil {
		s.lead.clock.jump(0)
	}
	if strings.HasSuffix(imageOfSet(s.w.set()), "bad") {
		s.w.editSet(func(spec map[string]any) { setImage(spec, "v3") })
	}
	if rolling := rollingOf(s.w.set()); rolling != nil && isKruise(s.w.set()) {
		s.w.editSet(func(spec map[string]any) {
			rolling["paused"], rolling["partition"], rolling["selector"] = false, int64(0), nil
			spec["updateStrategy"].(map[string]any)["rollingUpdate"] = rolling
		})
	}
	for _, n := range s.w.nodes() {
		if !nodeReady(n) {
			s.w.changeNode(n, func(n *corev1.Node) { s.setNode(n, corev1.ConditionTrue) })
		}
	}
}

// fair plays rounds in which everybody does what there is to do, until nobody has anything left to do; false when that takes
// too many of them.
func (s *sim) fair(rounds int) bool {
	for range rounds {
		if s.broken != nil {
			return false
		}
		if !s.round() {
			return true
		}
	}
	return false
}

// round is whether anything was done, or is still to come.
func (s *sim) round() bool {
	busy := false
	for range 10_000 {
		o := s.fairOp()
		if o == nil {
			break
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
	case busy || !m.synced() || m.running:
	case m.wake.IsZero():
		return false
	default:
		pause = max(m.wake.Sub(s.w.now), time.Second)
	}
	s.take(op{words("%s pass", pause), 1, func() { s.pass(pause) }})
	return true
}

// fairOp is the next step of a fair round; nil when all that can be done at this moment is done.
func (s *sim) fairOp() *op {
	m := s.lead
	if m == nil {
		return &op{"a new leader comes", 1, func() { s.lead = s.newManager(0) }}
	}
	if waiting := m.waiting(); len(waiting) > 0 {
		return &op{m.name + " " + waiting[0].text, 1, func() { s.serve(waiting[0]) }}
	}
	if len(s.stragglers) > 0 && !m.synced() {
		s.stragglers = nil // none of them took effect
	}
	for k := range kinds {
		switch {
		case m.seen[k] < 0 && !m.fence.After(s.w.now):
			return &op{words("%s lists %s", m.name, k), 1, func() { m.list(k); m.rest() }}
		case m.seen[k] >= 0 && m.behind(k) > 0:
			return &op{words("%s sees %s", m.name, k), 1, func() { m.see(k); m.rest() }}
		}
	}
	for _, p := range s.w.pods() {
		if o := s.fairPodOp(p); o != nil {
			return o
		}
	}
	if m.synced() && !m.running && m.due() {
		return &op{m.name + " looks", 1, m.pass}
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

// checkEnd: every node that has to run a pod has one that is available, and of the newest revision unless the strategy says otherwise; no
// other node has one, but for those that may stay. The status says what is so.
func (s *sim) checkEnd() {
	set := s.w.set()
	numbers := map[string]int64{}
	for _, n := range s.w.nodes() {
		pods, where := s.podsOn(n.Name), fitOf(set, n)
		if where == mustLeave && len(pods) > 0 {
			s.blame("liveness", "%s must not run the pod, and has %s", n.Name, pods[0].UID)
		}
		if where != mustRun {
			if len(pods) > 0 {
				numbers["numberMisscheduled"]++
			}
			continue
		}
		numbers["desiredNumberScheduled"]++
		broken := len(pods) == 1 && byHand(set) && strings.HasSuffix(imageOf(pods[0]), "bad")
		if len(pods) != 1 || !s.anyAvailable(n.Name) && !broken {
			s.blame("liveness", "%s has %d pods, or none that is available", n.Name, len(pods))
			continue
		}
		numbers["currentNumberScheduled"]++
		if broken {
			numbers["numberUnavailable"]++
		} else {
			numbers["numberReady"]++
			numbers["numberAvailable"]++
		}
		switch {
		case imageOf(pods[0]) == imageOfSet(set):
			numbers["updatedNumberScheduled"]++
		case !byHand(set):
			s.blame("liveness", "%s has an old pod, %s of %s", n.Name, pods[0].UID, imageOf(pods[0]))
		}
	}
	s.checkStatus(set, numbers)
}

// checkStatus compares the numbers of the status with a recount.
func (s *sim) checkStatus(set *unstructured.Unstructured, want map[string]int64) {
	numbers := []string{
		"desiredNumberScheduled", "currentNumberScheduled", "numberMisscheduled", "numberReady", "updatedNumberScheduled",
		"numberAvailable", "numberUnavailable",
	}
	for _, name := range numbers {
		if got, _, _ := unstructured.NestedInt64(set.Object, "status", name); got != want[name] {
			s.blame("status", "%s is %d, counted %d", name, got, want[name])
		}
	}
	if got, _, _ := unstructured.NestedInt64(set.Object, "status", "observedGeneration"); got != set.GetGeneration() {
		s.blame("status", "observedGeneration is %d, the generation %d", got, set.GetGeneration())
	}
}
