// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/rollout"
	"everynode.dev/everynode/test/harness"
)

// comesTrue waits until every node is what the plan says, and the controller says that nothing more is to come.
func (s *stage) comesTrue(d *document, before map[string][]*corev1.Pod, generation int64) {
	s.t.Helper()
	s.Poll("every node is what the plan says", func() error {
		if _, _, _, err := s.log.seen(); err != nil {
			return err
		}
		now := s.log.pods()
		for _, n := range d.Nodes {
			if err := outcome(n.Verdict, d.Revision, before[n.Name], now[n.Name], n.End != ""); err != nil && slices.Contains(s.Nodes, n.Name) {
				return fmt.Errorf("node %s was to %s (%s): %w", n.Name, n.Verdict, n.Reason, err)
			}
		}
		return nil
	})
	s.Wait("the controller has nothing left to do", harness.Observed(s.set, generation), harness.StatusIs(s.set, "at rest", func(st appsv1.DaemonSetStatus) bool {
		return int(st.UpdatedNumberScheduled) == s.updated(d, before) && int(st.NumberUnavailable) <= d.Unfinished
	}))
	// Whatever that status was written after would show by now: each node is looked at again.
	now := s.log.pods()
	for _, n := range d.Nodes {
		if err := outcome(n.Verdict, d.Revision, before[n.Name], now[n.Name], n.End != ""); err != nil && slices.Contains(s.Nodes, n.Name) {
			s.t.Errorf("node %s was to %s (%s), and in the end: %v", n.Name, n.Verdict, n.Reason, err)
		}
	}
}

// leftDown are the nodes that are left alone and whose pod is not ready.
func (s *stage) leftDown(d *document, before map[string][]*corev1.Pod) []string {
	var nodes []string
	for _, n := range d.Nodes {
		if slices.Contains(s.Nodes, n.Name) && n.Wave == 0 && wasDown(before[n.Name]) {
			nodes = append(nodes, n.Name)
		}
	}
	return nodes
}

// wasDown is whether the one pod of a node was not ready.
func wasDown(before []*corev1.Pod) bool { return len(before) == 1 && !harness.Ready(before[0]) }

// updated is how many nodes have a pod of the newest revision in the end.
func (s *stage) updated(d *document, before map[string][]*corev1.Pod) int {
	count := 0
	for _, n := range d.Nodes {
		switch n.Verdict {
		case "create", "recreate", "in-place", "surge":
			if n.End != "" {
				count++
			}
		case "leave":
			for _, p := range before[n.Name] {
				if hash(p) == d.Revision {
					count++
				}
			}
		}
	}
	return count
}

func hash(p *corev1.Pod) string { return p.Labels[appsv1.ControllerRevisionHashLabelKey] }

// outcome says what on a node is not yet what the verdict says.
func outcome(verdict, revision string, before, now []*corev1.Pod, ends bool) error {
	if verdict == "remove" {
		if len(now) > 0 {
			return fmt.Errorf("there is a pod")
		}
		return nil
	}
	if verdict == "recreate" && !ends {
		if len(now) != 1 || now[0].DeletionTimestamp == nil || now[0].UID != before[0].UID {
			return fmt.Errorf("its pod is not terminating")
		}
		return nil
	}
	if verdict == "surge" && !ends {
		return waitsBeside(revision, before, now)
	}
	if len(before) == 0 && len(now) == 0 && verdict != "create" {
		return nil // nothing was to happen, and nothing has
	}
	stays := verdict == "wait" || verdict == "leave" || verdict == "blocked"
	asBefore := stays && wasDown(before) // nobody mends what is left alone
	if len(now) != 1 || now[0].DeletionTimestamp != nil || !harness.Ready(now[0]) && !asBefore {
		return fmt.Errorf("it does not have one pod that is ready, but %d", len(now))
	}
	same := len(before) == 1 && before[0].UID == now[0].UID
	current := hash(now[0]) == revision
	switch verdict {
	case "create", "recreate", "surge":
		if same || !current {
			return fmt.Errorf("its pod is the same one: %v; is of revision %s: %v", same, revision, current)
		}
	case "in-place":
		if !same || !current {
			return fmt.Errorf("its pod is the same one: %v; is of revision %s: %v", same, revision, current)
		}
	case "wait", "leave", "blocked":
		if !same || hash(before[0]) != hash(now[0]) {
			return fmt.Errorf("its pod has changed")
		}
	default:
		return fmt.Errorf("the verdict is not known")
	}
	return nil
}

// waitsBeside says what is not yet as on a node where the old pod stays, and the new one finds no place beside it.
func waitsBeside(revision string, before, now []*corev1.Pod) error {
	old, fresh := 0, 0
	for _, p := range now {
		switch {
		case len(before) == 1 && p.UID == before[0].UID && p.DeletionTimestamp == nil && harness.Ready(p):
			old++
		case hash(p) == revision && p.DeletionTimestamp == nil && p.Spec.NodeName == "":
			fresh++
		}
	}
	if len(now) != 2 || old != 1 || fresh != 1 {
		return fmt.Errorf("it does not have its old pod and a new one that waits for a place, but %d pods", len(now))
	}
	return nil
}

// queue are the nodes that a plan begins one wave after the other, as updates or as repairs.
type queue struct {
	what string
	// size is how many nodes have a wave, wave that of each, and place how many of them have begun.
	size  int
	wave  map[string]int
	place int
}

// takes counts the next node of a queue. What one pass of the manager begins is written at the same time, so a node may be ahead or behind by less than
// what may be under way at once.
func (q *queue) takes(node string) error {
	first, last, place := (q.wave[node]-1)*q.size, q.wave[node]*q.size-1, q.place
	q.place++
	if place <= first-q.size || place >= last+q.size {
		return fmt.Errorf("node %s is number %d of the %s to begin, and wave %d is that of numbers %d to %d", node, place, q.what, q.wave[node], first, last)
	}
	return nil
}

// inOrder compares the order in which nodes were begun with that of the plan: updates by the budget, all else by what one pass may do.
func (s *stage) inOrder(d *document, burst int) {
	s.t.Helper()
	updates := &queue{what: "updates", size: d.Budget.Limit, wave: map[string]int{}}
	repairs := &queue{what: "repairs", size: burst, wave: map[string]int{}}
	in := map[string]*queue{"recreate": updates, "in-place": updates, "surge": updates, "create": repairs, "remove": repairs}
	first := map[string]string{"recreate": "deleted", "in-place": "changed", "surge": "created", "create": "created", "remove": "deleted"}
	starts, _, _, _ := s.log.seen()
	of := map[string]*queue{}
	for _, n := range d.Nodes {
		q := in[n.Verdict]
		if q == nil || !slices.Contains(s.Nodes, n.Name) {
			continue
		}
		q.wave[n.Name], of[n.Name] = n.Wave, q
		if what := first[n.Verdict]; !slices.Contains(starts, start{n.Name, what}) {
			s.t.Errorf("node %s was to %s, and does not begin with being %s", n.Name, n.Verdict, what)
		}
	}
	for _, st := range starts {
		if q := of[st.node]; q != nil {
			if err := q.takes(st.node); err != nil {
				s.t.Error(err)
			}
		}
	}
	for _, q := range []*queue{updates, repairs} {
		if q.place != len(q.wave) {
			s.t.Errorf("of the %s %d have begun, %d were to", q.what, q.place, len(q.wave))
		}
		// With two waves, each node may come at nearly any time, and nothing is shown. Removals are never so many, nor is what stops at its budget.
		if stopped := q == updates && d.Unfinished >= q.size; stopped {
			continue
		}
		if count := len(q.wave); count < 3*q.size && (q == updates || burst < rollout.DefaultBurst) && count > 0 {
			s.t.Errorf("%d %s in waves of %d show no order: have the change be made in smaller ones", count, q.what, q.size)
		}
	}
}

// withinBounds compares how many nodes were down or doubled at once with what the plan says.
func (s *stage) withinBounds(d *document) {
	s.t.Helper()
	_, mostDown, mostDouble, _ := s.log.seen()
	if mostDown > d.Budget.MostDown {
		s.t.Errorf("%d nodes were without a ready pod at once, the plan says %d", mostDown, d.Budget.MostDown)
	}
	doubled := 0
	if d.Budget.Of == "surge" {
		doubled = d.Budget.Limit
	}
	if mostDouble > doubled {
		s.t.Errorf("%d nodes had two pods at once, the plan says %d", mostDouble, doubled)
	}
	s.t.Logf("%d waves of %d; at most %d down (planned %d) and %d doubled (planned %d)", d.Budget.Waves, d.Budget.Limit, mostDown, d.Budget.MostDown, mostDouble, doubled)
}

// TestJudgeOrder: an order of starts that is not that of the plan is noticed.
func TestJudgeOrder(t *testing.T) {
	const count, size = 30, 10
	complaints := func(place func(i int) int) int {
		q := &queue{what: "updates", size: size, wave: map[string]int{}}
		name := func(i int) string { return fmt.Sprintf("node-%04d", i) }
		for i := range count {
			q.wave[name(i)] = i/size + 1
		}
		bad := 0
		for i := range count {
			if q.takes(name(place(i))) != nil {
				bad++
			}
		}
		return bad
	}
	if bad := complaints(func(i int) int { return i }); bad > 0 {
		t.Errorf("%d nodes in the order of the plan are complained of", bad)
	}
	if bad := complaints(func(i int) int { return i ^ 1 }); bad > 0 {
		t.Errorf("%d nodes in the order of one pass are complained of", bad)
	}
	if complaints(func(i int) int { return count - 1 - i }) == 0 {
		t.Error("nothing is said of the reverse order")
	}
}
