// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// mutant is a way in which Decide could be wrong: what it does to a plan that was right, in a world where that shows.
type mutant struct {
	name  string
	world []string
	do    func(s Snapshot, p *Plan)
	// caught is the invariant that has to notice.
	caught string
}

// oneByOne is a roll in its middle: a is done, b is being replaced, c and d wait.
var oneByOne = []string{"node a must v2:ready", "node b must v1:ready,deleting", "node c must v1:ready", "node d must v1:ready"}

func dropAction(i int) func(Snapshot, *Plan) {
	return func(_ Snapshot, p *Plan) { p.Actions = slices.Delete(p.Actions, i, i+1) }
}

func add(a Action) func(Snapshot, *Plan) {
	return func(_ Snapshot, p *Plan) { p.Actions = append(p.Actions, a) }
}

// remove deletes the first pod of a node, for whatever reason.
func remove(node int, reason VerdictKind) func(Snapshot, *Plan) {
	return func(s Snapshot, p *Plan) {
		pod := s.Nodes[node].Pods[0]
		p.Actions = append(p.Actions, Action{Kind: Delete, Node: node, Pod: pod.Name, UID: pod.UID, Revision: pod.Revision, Reason: reason})
		p.Verdicts[node].Kind = reason
	}
}

func mutants() []mutant {
	create := func(node int) Action { return Action{Kind: Create, Node: node, Revision: 1, Reason: Creating} }
	return slices.Concat(actionMutants(create), refusalMutants(create), budgetMutants(), reportMutants(), limitMutants(), hookMutants(), edgeMutants(), []mutant{
		{"creates where only staying is allowed", []string{"node a stay"}, add(create(0)), "nothing is done where nothing may be"},
		{"creates on a node that is gone", []string{"node a gone v1:ready"}, add(create(0)), "nothing is done where nothing may be"},
		{"creates on a blocked node", []string{"node a must blocked"}, add(create(0)), "nothing is done where nothing may be"},
		{"deletes what the garbage collector should", []string{"node a gone v1:ready"}, remove(0, Removing), "nothing is done where nothing may be"},
		{"touches an unevaluated node", []string{"node a unknown v1:ready"}, remove(0, Removing), "nothing is done where nothing may be"},
		{"takes an undefined fit for a known one", []string{"node a unknown v1:ready"}, func(s Snapshot, p *Plan) {
			s.Nodes[0].Fit = 9
			remove(0, Removing)(s, p)
		}, "nothing is done where nothing may be"},
	})
}

func actionMutants(create func(int) Action) []mutant {
	return []mutant{
		{"names a node that is not there", oneByOne, add(create(7)), "actions name what there is"},
		{"creates an old revision", []string{"node a must"}, func(_ Snapshot, p *Plan) { p.Actions[0].Revision = 0 }, "actions name what there is"},
		{"forgets the UID", []string{"node a must v1:ready"}, func(_ Snapshot, p *Plan) { p.Actions[0].UID = "" }, "actions name what there is"},
		{"forgets that a pod is terminating", oneByOne, remove(1, Recreating), "actions name what there is"},
		{"forgets the burst", []string{"set burst=1", "node a must", "node b must"}, add(create(1)), "at most burst actions"},
		{"deletes twice", []string{"node a must v1:ready"}, func(_ Snapshot, p *Plan) { p.Actions = append(p.Actions, p.Actions[0]) }, "actions of a node agree"},
		{"creates twice", []string{"set max-surge=1", "node a must"}, add(create(0)), "actions of a node agree"},
		{"deletes and creates at once", []string{"node a must v1:ready"}, add(create(0)), "actions of a node agree"},
		{"does not wait for a terminating pod", oneByOne, add(create(1)), "never two pods without surge"},
		{"creates beside a running pod", oneByOne, add(create(0)), "never two pods without surge"},
		{"surges twice", []string{"set max-surge=1", "node a must v1:ready v2:pending"}, add(create(0)), "at most one current and one old pod with surge"},
		{"forgets a node without a pod", []string{"node a must", "node b must"}, dropAction(1), "what has to be done is done"},
		{"forgets a node that must not run the pod", []string{"node a leave v2:ready"}, dropAction(0), "what has to be done is done"},
		{"forgets the excess", []string{"node a must v2:ready v2:ready"}, dropAction(0), "what has to be done is done"},
		{"forgets a broken old pod", []string{"node a must v1:unready"}, dropAction(0), "what has to be done is done"},
		{"forgets the old pod of a finished pair", []string{"set max-surge=1", "node a must v1:ready v2:ready"}, dropAction(0), "what has to be done is done"},
		{"keeps the youngest", []string{"node a must v2:ready v2:ready"}, func(s Snapshot, p *Plan) {
			p.Actions = nil
			remove(0, RemovingExcess)(s, p)
		}, "what has to be done is done"},
		{"deletes all duplicates", []string{"node a must v2:ready v2:ready"}, remove(0, RemovingExcess), "available current pods stay"},
		{"restarts a pod that is as it should be", []string{"node a must v2:ready"}, remove(0, Recreating), "available current pods stay"},
		{"deletes the new pod of a pair", []string{"set max-surge=1", "node a must v2:ready v1:ready"}, func(s Snapshot, p *Plan) {
			p.Actions = nil
			remove(0, FinishingSurge)(s, p)
		}, "available current pods stay"},
		{"rolls under OnDelete", []string{"set on-delete", "node a must v1:ready"}, remove(0, Recreating), "running pods stay under OnDelete"},
	}
}

func budgetMutants() []mutant {
	return []mutant{
		{"takes one more than the budget", oneByOne, remove(2, Recreating), "the budget is kept"},
		{"charges nothing for a missing pod", []string{"node a must blocked", "node b must v1:ready"}, remove(1, Recreating), "the budget is kept"},
		{"charges nothing for an old broken pod", []string{"node a must v1:unready", "node b must v1:ready"}, remove(1, Recreating), "the budget is kept"},
		{"charges nothing for a new broken pod", []string{"node a must v2:unready", "node b must v1:ready"}, remove(1, Recreating), "the budget is kept"},
		{"forgets the time a pod has to be ready", []string{"set min-ready=10s", "node a must v2:ready,since=-9s", "node b must v1:ready"},
			remove(1, Recreating), "the budget is kept"},
		{"takes what is young for broken", []string{"set min-ready=10s", "node a must v1:ready,since=+1h", "node b must v1:ready,since=+1h"},
			remove(0, Recreating), "the budget is kept"},
		{"surges for nothing beside what is young", []string{"set max-surge=1 min-ready=10s", "node a must v1:ready,since=+1h", "node b must v1:ready,since=+1h"},
			func(_ Snapshot, p *Plan) {
				p.Actions = append(p.Actions, Action{Kind: Create, Node: 1, Revision: 1, Reason: Surging})
				p.Verdicts[1].Kind = Surging
			}, "the budget is kept"},
		{"surges beyond the budget", []string{"set max-surge=1", "node a must v1:ready v2:pending", "node b must v1:ready"}, func(_ Snapshot, p *Plan) {
			p.Actions = append(p.Actions, Action{Kind: Create, Node: 1, Revision: 1, Reason: Surging})
			p.Verdicts[1].Kind = Surging
		}, "the budget is kept"},
		{"takes the last node first", oneByOne[2:], func(s Snapshot, p *Plan) {
			p.Actions, p.Verdicts[0].Kind = nil, WaitBudget
			remove(1, Recreating)(s, p)
		}, "pods that are replaced first are those of the first nodes"},
		{"leaves a slot unused", oneByOne[2:], func(_ Snapshot, p *Plan) {
			p.Actions, p.Verdicts[0].Kind = nil, WaitBudget
		}, "the budget is used up"},
		{"charges too little", oneByOne, func(_ Snapshot, p *Plan) { p.Verdicts[1].Charged = false }, "charges add up"},
		{"charges too much", oneByOne, func(_ Snapshot, p *Plan) { p.Verdicts[0].Charged = true }, "charges add up"},
		{"counts a charge twice", oneByOne, func(_ Snapshot, p *Plan) { p.Budget.UsedByOthers++ }, "charges add up"},
		{"resolves the budget wrongly", oneByOne, func(_ Snapshot, p *Plan) { p.Budget.Limit++ }, "charges add up"},
	}
}

func reportMutants() []mutant {
	failed := []string{"node a must v2:failed"}
	return []mutant{
		{"has no verdict for the last node", oneByOne, func(_ Snapshot, p *Plan) { p.Verdicts = p.Verdicts[:3] }, "one verdict for each node"},
		{"has a verdict without its action", oneByOne, func(_ Snapshot, p *Plan) { p.Verdicts[3].Kind = Recreating }, "verdicts fit the actions"},
		{"has an action without its verdict", oneByOne[2:], func(_ Snapshot, p *Plan) { p.Verdicts[0].Kind = WaitBudget }, "verdicts fit the actions"},
		{"says that a node waits for nothing", []string{"set burst=1", "node a must", "node b must"},
			func(_ Snapshot, p *Plan) { p.Verdicts[1].Kind = NotWanted }, "verdicts fit the actions"},
		{"counts a terminating pod as gone", oneByOne, func(_ Snapshot, p *Plan) { p.Status.Current-- }, "the status is upstream's"},
		{"counts a pod as updated", oneByOne, func(_ Snapshot, p *Plan) { p.Status.Updated++ }, "the status is upstream's"},
		{"forgets the back-off", failed, func(_ Snapshot, p *Plan) { p.Memory.Backoffs = nil }, "the back-off is kept"},
		{"waits for ever longer", failed, func(_ Snapshot, p *Plan) { p.Memory.Backoffs[0].Delay = time.Hour }, "the back-off is kept"},
		{"does not wait for the back-off", append([]string{"backoff a delay=4s last=-1s"}, failed...), remove(0, ReplacingFailed), "the back-off is kept"},
		{"mixes the back-offs up", []string{"node a must v2:failed", "node b must v2:failed"},
			func(_ Snapshot, p *Plan) { slices.Reverse(p.Memory.Backoffs) }, "the back-off is kept"},
		{"forgets the note", failed, func(_ Snapshot, p *Plan) { p.Notes = nil }, "notes name their actions"},
		{"takes failed for succeeded", failed, func(_ Snapshot, p *Plan) { p.Notes[0].Kind = FoundSucceededPod }, "notes name their actions"},
		{"shuffles the actions under the notes", append([]string{"node b leave v1:ready"}, failed...),
			func(_ Snapshot, p *Plan) { slices.Reverse(p.Actions) }, "notes name their actions"},
		{"sleeps too long", []string{"set min-ready=10s", "node a must v2:ready,since=-1s"}, func(_ Snapshot, p *Plan) { p.Wake++ }, "wakes in time"},
		{"never wakes", append([]string{"backoff a delay=4s last=-1s"}, failed...), func(_ Snapshot, p *Plan) { p.Wake = 0 }, "wakes in time"},
		{"forgets to go on", []string{"set burst=1", "node a must", "node b must"}, func(_ Snapshot, p *Plan) { p.Wake = 0 }, "wakes in time"},
	}
}

// TestMutants shows that each invariant is able to fail, and that it does where it should.
func TestMutants(t *testing.T) {
	caught := map[string]bool{}
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			play := &player{}
			if _, err := play.do("world", m.world); err != nil {
				t.Fatal(err)
			}
			s := play.w.State
			assertGood(t, s)
			p := Decide(s)
			m.do(s, &p)
			bad := violations(s, p)
			if !slices.ContainsFunc(bad, func(v string) bool { return strings.HasPrefix(v, m.caught+":") }) {
				t.Errorf("%q does not notice; noticed: %q", m.caught, bad)
			}
			if same(p, newDumb(s).plan()) {
				t.Error("the dumb decision does not notice")
			}
		})
		caught[m.caught] = true
	}
	for _, inv := range invariants() {
		if !caught[inv.name] {
			t.Errorf("no mutant shows that %q can fail", inv.name)
		}
	}
}

// TestStepMutants does the same for what is checked from one step to the next, and at the end.
func TestStepMutants(t *testing.T) {
	for _, c := range []struct{ name, set, before, after, want string }{
		{"too many at once", "set max-unavailable=1", "v2:ready v1:ready v1:ready", " v1:ready,deleting v1:ready", "nodes charged"},
		{"surge takes away", "set max-surge=1", "v2:ready v1:ready v1:ready", "v2:ready v1:unready v1:ready", "taken the pods"},
		{"two pods", "set max-unavailable=1", "v1:ready,deleting v2:ready v2:ready", "v1:ready,deleting+v2:pending v2:ready v2:ready", "has 2 pods"},
	} {
		t.Run(c.name, func(t *testing.T) {
			moment := func(pods string) *dumb {
				var nodes []string
				for _, p := range strings.Split(pods, " ") {
					nodes = append(nodes, "must "+strings.ReplaceAll(p, "+", " "))
				}
				return newDumb(build(t, c.set, nodes...).State)
			}
			if got := stepViolation(moment(c.before), moment(c.after), false); !strings.Contains(got, c.want) {
				t.Errorf("got %q, want something about %q", got, c.want)
			}
			if got := stepViolation(moment(c.before), moment(c.before), false); got != "" {
				t.Errorf("nothing happened, and it says %q", got)
			}
		})
	}
	for _, pods := range []string{"", "v1:ready", "v2:unready", "v2:failed", "v2:ready v1:ready,deleting"} {
		d := newDumb(build(t, "set max-unavailable=3", "must "+pods).State)
		if d.resting(d.nodes[0]) {
			t.Errorf("a node with %q counts as done", pods)
		}
	}
}
