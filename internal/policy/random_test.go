// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// story is a rollout with things that happen to it. It is judged by what is written down here, and not by what the policy reports.
type story struct {
	*world
	random *rand.Rand
	// steady is the time that really passes.
	steady time.Duration
	// whole says since when the canary has been complete without an interruption, in this rollout; -1 if it is not.
	whole time.Duration
	// soaked and approved are whether the canary of this rollout has been whole for its soak time, and is approved.
	soaked, approved bool
	canary           map[string]bool
	log              []string
}

const randomSoak = 10 * time.Second

// storyPolicy has a canary of two nodes by label, a soak, an approval, and a pace.
const storyPolicy = `
pace: {maxUpgrading: 3}
waves: [{name: canary, nodes: {selector: {matchLabels: {canary: "yes"}}}, soak: 10s, after: [{type: Approval}]}]
windows: [{schedule: "0 * * * *", duration: 40m}]
`

func newStory(t *testing.T, seed int64) *story {
	w := newWorld(t, storyPolicy)
	s := &story{world: w, random: rand.New(rand.NewSource(seed)), whole: -1, canary: map[string]bool{"c": true, "g": true}}
	for name := range s.canary {
		w.labels[name] = map[string]string{"canary": "yes"}
	}
	return s
}

// isWhole is whether all nodes of the canary have an available pod of the wanted revision.
func (s *story) isWhole() bool {
	for name := range s.canary {
		if n := s.node(name); len(n.Pods) != 1 || n.Pods[0].Revision != s.s.Set.Update || !n.Pods[0].Ready {
			return false
		}
	}
	return true
}

// happen makes something happen.
func (s *story) happen() {
	note := func(format string, args ...any) { s.log = append(s.log, fmt.Sprintf(format, args...)) }
	n := &s.s.Nodes[s.random.Intn(len(s.s.Nodes))]
	switch s.random.Intn(14) {
	case 0:
		if len(n.Pods) > 0 {
			n.Pods[0].Ready = false
			note("%s is not ready", n.Name)
		}
	case 1:
		s.restored = true
		if s.random.Intn(3) == 0 {
			s.last = nil
		}
		note("another leader, which knows %v", s.last != nil)
	case 2:
		if len(n.Pods) > 0 {
			n.Last = n.Pods[0].Revision
		}
		n.Pods = nil
		note("the pod on %s vanishes", n.Name)
	case 3:
		if s.random.Intn(4) == 0 {
			s.s.Revisions = append(s.s.Revisions, rollout.Revision{Name: fmt.Sprintf("v%d", len(s.s.Revisions)+1), Number: int64(100 + len(s.log)), Created: s.s.Now})
			s.marks = append(s.marks, 0)
			s.s.Set.Update = len(s.s.Revisions) - 1
			s.soaked, s.approved, s.whole = false, false, -1
			note("the template changes")
		}
	case 4:
		if s.out.Status != nil && s.random.Intn(3) == 0 {
			s.approvals = nil
			s.approve("a", "canary", s.s.Revisions[s.s.Set.Update].Name, v1alpha1.Approve)
			s.approved = true
			note("approved")
		}
	case 5:
		if len(s.s.Nodes) < 20 {
			s.join(fmt.Sprintf("x%03d", len(s.log)), s.s.Now, 0)
			s.node(fmt.Sprintf("x%03d", len(s.log))).Pods = nil
			note("a node joins")
		}
	default:
		for i := range s.s.Nodes {
			for k := range s.s.Nodes[i].Pods {
				if p := &s.s.Nodes[i].Pods[k]; !p.Ready {
					p.Ready, p.ReadySince = true, s.s.Now
				}
			}
		}
	}
}

// step lets time pass, decides, and carries out what was decided. It returns what was wrong.
func (s *story) step() string {
	took := time.Duration(s.random.Intn(4000)) * time.Millisecond
	wall := took
	if s.random.Intn(20) == 0 {
		wall += time.Duration(s.random.Intn(7200)-3600) * time.Second
		s.log = append(s.log, "the clock jumps by "+wall.String())
	}
	s.steady += took
	s.jump(wall, took)
	if s.isWhole() {
		if s.whole < 0 {
			s.whole = s.steady
		}
		s.soaked = s.soaked || s.steady-s.whole >= randomSoak
	} else {
		s.whole = -1
	}
	open := time.Unix(0, int64(s.s.Now)).UTC().Minute() < 40
	s.s.Gate = s.out.Gate
	plan := rollout.Decide(s.s)
	s.s.Gate = nil
	resting := s.out.Status == nil || s.out.Status.Phase == v1alpha1.PhaseUndoing || s.marks[s.s.Set.Update] > 0 && s.marks[s.s.Set.Update] == slices.Max(s.marks)
	busy := 0
	for i := range s.s.Nodes {
		if n := &s.s.Nodes[i]; len(n.Pods) == 0 && n.Last == s.s.Set.Update || len(n.Pods) > 0 && n.Pods[0].Revision == s.s.Set.Update && !n.Pods[0].Ready {
			busy++
		}
	}
	starts := 0
	for _, a := range plan.Actions {
		n := &s.s.Nodes[a.Node]
		joins := a.Kind == rollout.Create && a.Revision == s.s.Set.Update && n.Last != s.s.Set.Update
		if a.Reason == rollout.Recreating || joins {
			switch {
			case resting:
			case !s.canary[n.Name] && !(s.soaked && s.approved):
				return fmt.Sprintf("%s begins before the canary has soaked (%t) and is approved (%t)", n.Name, s.soaked, s.approved)
			case !open && a.Reason == rollout.Recreating:
				return n.Name + " begins outside of the window"
			}
		}
		if a.Reason == rollout.Recreating || joins && n.Last >= 0 {
			starts++
		}
	}
	if starts > 0 && busy+starts > 3 {
		return fmt.Sprintf("%d updates start while %d are under way", starts, busy)
	}
	s.carryOut(&plan)
	return ""
}

func (s *story) carryOut(plan *rollout.Plan) {
	for _, a := range plan.Actions {
		n := &s.s.Nodes[a.Node]
		switch a.Kind {
		case rollout.Create:
			s.put(n.Name, a.Revision, s.random.Intn(2) == 0)
			s.log = append(s.log, fmt.Sprintf("create %s v%d", n.Name, a.Revision+1))
		case rollout.Delete:
			n.Last = n.Pods[0].Revision
			if a.Reason == rollout.Recreating {
				n.Last = s.s.Set.Update
			}
			n.Pods = nil
			s.log = append(s.log, "delete "+n.Name)
		}
	}
}

// TestRandomStories: no node begins before its wave is released, outside of a window, without an approval, or above the pace; and each rollout ends when
// nothing more happens to it.
func TestRandomStories(t *testing.T) {
	stories, phases := 300, map[v1alpha1.Phase]int{}
	if testing.Short() {
		stories = 60
	}
	for seed := range int64(stories) {
		s := newStory(t, seed)
		for range 120 {
			s.happen()
			if bad := s.step(); bad != "" {
				t.Fatalf("story %d: %s\n%s\n%+v", seed, bad, strings.Join(s.log, "\n"), *s.out.Status)
			}
			if s.out.Status != nil {
				phases[s.out.Status.Phase]++
			}
		}
		s.approvals, s.approved = nil, true
		for range 4000 {
			if len(s.approvals) == 0 || s.approvals[0].Status.State == v1alpha1.ApprovalVoid { // a clock that was set back lets it be older than the rollout
				s.approvals = nil
				s.approve("last", "canary", s.s.Revisions[s.s.Set.Update].Name, v1alpha1.Approve)
			}
			for i := range s.s.Nodes {
				for k := range s.s.Nodes[i].Pods {
					s.s.Nodes[i].Pods[k].Ready = true
				}
			}
			if bad := s.step(); bad != "" {
				t.Fatalf("story %d, at its end: %s\n%s", seed, bad, strings.Join(s.log, "\n"))
			}
			if s.out.Status != nil && s.out.Status.Phase == v1alpha1.PhaseComplete {
				break
			}
		}
		if s.out.Status.Phase != v1alpha1.PhaseComplete {
			t.Fatalf("story %d does not end: %+v\n%s\n%s", seed, *s.out.Status, s.verdicts(), strings.Join(s.log[max(0, len(s.log)-40):], "\n"))
		}
	}
	for _, phase := range []v1alpha1.Phase{v1alpha1.PhaseRolling, v1alpha1.PhaseSoaking, v1alpha1.PhaseWaitingForApproval, v1alpha1.PhaseWaitingForWindow, v1alpha1.PhaseComplete} {
		if phases[phase] == 0 {
			t.Errorf("no story comes to %s", phase)
		}
	}
}
