// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// begin is when all plans of the tests begin.
const begin = rollout.Time(1_000_000 * int64(time.Second))

func times() Assumptions {
	return Assumptions{Stop: 2 * time.Second, Start: 5 * time.Second, Change: 3 * time.Second, Hook: -1, Pull: -1}
}

// cluster is a snapshot of nodes n00, n01, …, each with a pod of revision v1 that is available; the set wants v2, one node at a time.
func cluster(nodes int, edit ...func(*rollout.Snapshot)) rollout.Snapshot {
	s := rollout.Snapshot{
		Now:       begin,
		Set:       rollout.Set{Update: 1, Strategy: rollout.RollingUpdate, MaxUnavailable: rollout.Quantity{Value: 1}},
		Revisions: []rollout.Revision{{Name: "v1", Number: 1}, {Name: "v2", Number: 2}},
	}
	for i := range nodes {
		name := fmt.Sprintf("n%02d", i)
		s.Nodes = append(s.Nodes, rollout.Node{Name: name, Fit: rollout.MustRun, Ready: true, Last: 0, Pods: []rollout.Pod{oldPod(name)}})
	}
	for _, e := range edit {
		e(&s)
	}
	return s
}

func oldPod(node string) rollout.Pod {
	long := begin.Add(-time.Hour)
	return rollout.Pod{
		Name: "p-" + node, UID: "u-" + node, Revision: 0, Phase: rollout.Running, Scheduled: true, Ready: true, Gate: true,
		ReadySince: long, Created: long,
	}
}

func node(i int, edit func(*rollout.Node)) func(*rollout.Snapshot) {
	return func(s *rollout.Snapshot) { edit(&s.Nodes[i]) }
}

func noPod(n *rollout.Node)    { n.Pods, n.Last = nil, rollout.NoRevision }
func notReady(n *rollout.Node) { n.Ready, n.Since = false, begin.Add(-time.Hour) }

// table is one line for each node: verdict, wave, start, end, reason.
func table(r Result) string {
	var b strings.Builder
	for _, n := range r.Nodes {
		fmt.Fprintf(&b, "%s %s", n.Name, n.Verdict)
		if n.Verdict.Starts() {
			fmt.Fprintf(&b, " wave %d at %v", n.Wave, n.Start)
			if n.Ended {
				fmt.Fprintf(&b, " to %v", n.End)
			} else {
				b.WriteString(" open")
			}
		}
		fmt.Fprintf(&b, " (%s", n.Reason)
		if d := n.Detail.String(); d != "" {
			b.WriteString(": " + d)
		}
		b.WriteString(")")
		if n.Obstacle != "" {
			b.WriteString(" " + n.Obstacle)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "down %d of %d, at once %d, %v", r.MostDown, r.Limit, r.MostAtOnce, r.Duration)
	return b.String()
}

func TestPlay(t *testing.T) {
	for _, c := range []struct {
		name string
		from rollout.Snapshot
		want string
	}{
		{"nothing changes", cluster(2, func(s *rollout.Snapshot) { s.Set.Update = 0 }), `
n00 leave (up-to-date)
n01 leave (up-to-date)
down 0 of 1, at once 0, 0s`},
		{"one after the other", cluster(3), `
n00 recreate wave 1 at 0s to 7s (recreating)
n01 recreate wave 2 at 7s to 14s (recreating)
n02 recreate wave 3 at 14s to 21s (recreating)
down 1 of 1, at once 1, 21s`},
		{"in waves of two, each of them ready for 4 seconds", cluster(3, func(s *rollout.Snapshot) {
			s.Set.MaxUnavailable, s.Set.MinReady, s.Set.Descending = rollout.Quantity{Value: 50, Percent: true}, 4*time.Second, true
		}), `
n00 recreate wave 2 at 11s to 22s (recreating)
n01 recreate wave 1 at 0s to 11s (recreating)
n02 recreate wave 1 at 0s to 11s (recreating)
down 2 of 2, at once 2, 22s`},
		{"a new set", cluster(2, node(0, noPod), node(1, noPod)), `
n00 create wave 1 at 0s to 5s (creating)
n01 create wave 1 at 0s to 5s (creating)
down 2 of 1, at once 0, 5s`},
		{"with surge", cluster(2, func(s *rollout.Snapshot) { s.Set.MaxSurge = rollout.Quantity{Value: 1} }), `
n00 surge wave 1 at 0s to 7s (surging)
n01 surge wave 2 at 5s to 12s (surging)
down 0 of 1, at once 2, 12s`},
		{"in place where that is possible", cluster(3, func(s *rollout.Snapshot) {
			s.Set.InPlace, s.Revisions[0].InPlace = true, true
		}, node(1, func(n *rollout.Node) { n.Pods[0].Gate = false })), `
n00 in-place wave 1 at 0s to 3s (updating-in-place)
n01 in-place wave 2 at 3s to 6s (updating-in-place)
n02 in-place wave 3 at 6s to 9s (updating-in-place)
down 1 of 1, at once 1, 9s`},
		{"in place with a gate to close", cluster(3, func(s *rollout.Snapshot) {
			s.Set.InPlace, s.Revisions[0].InPlace, s.Set.CloseGate = true, true, true
		}, node(1, func(n *rollout.Node) { n.Pods[0].Gate = false })), `
n00 in-place wave 1 at 0s to 3s (updating-in-place)
n01 recreate wave 2 at 3s to 10s (recreating: no-gate)
n02 in-place wave 3 at 10s to 13s (updating-in-place)
down 1 of 1, at once 1, 13s`},
		{"a grace period before the change in place", cluster(1, func(s *rollout.Snapshot) {
			s.Set.InPlace, s.Revisions[0].InPlace, s.Set.Grace = true, true, 10*time.Second
		}), `
n00 in-place wave 1 at 0s to 13s (updating-in-place)
down 1 of 1, at once 1, 13s`},
		{"a node that leaves and one that comes", cluster(3, func(s *rollout.Snapshot) { s.Set.Update = 0 },
			node(0, func(n *rollout.Node) { n.Fit = rollout.MustLeave }), node(2, noPod)), `
n00 remove wave 1 at 0s to 2s (removing)
n01 leave (up-to-date)
n02 create wave 1 at 0s to 5s (creating)
down 1 of 1, at once 0, 5s`},
		{"paused", cluster(2, func(s *rollout.Snapshot) { s.Set.Paused = true }, node(1, noPod)), `
n00 wait (wait-paused)
n01 create wave 1 at 0s to 5s (creating)
down 1 of 1, at once 0, 5s`},
		{"a partition", cluster(3, func(s *rollout.Snapshot) { s.Set.Partition = rollout.Quantity{Value: 2} }), `
n00 recreate wave 1 at 0s to 7s (recreating)
n01 wait (wait-partition)
n02 wait (wait-partition)
down 1 of 1, at once 1, 7s`},
		{"progressive", cluster(2, func(s *rollout.Snapshot) {
			s.Set.Partition, s.Set.Progressive = rollout.Quantity{Value: 1}, true
		}, node(0, noPod), node(1, noPod)), `
n00 create wave 1 at 0s to 5s (creating)
n01 wait (wait-progressive)
down 2 of 1, at once 0, 5s`},
		{"a canary", cluster(2, func(s *rollout.Snapshot) { s.Set.Selective = true }, node(1, func(n *rollout.Node) { n.Selected = true })), `
n00 wait (wait-selector)
n01 recreate wave 1 at 0s to 7s (recreating)
down 1 of 1, at once 1, 7s`},
		{"on delete", cluster(1, func(s *rollout.Snapshot) { s.Set.Strategy = rollout.OnDelete }), `
n00 wait (wait-on-delete)
down 0 of 0, at once 0, 0s`},
		{"a hook that nobody releases", cluster(2, func(s *rollout.Snapshot) {
			for i := range s.Nodes {
				s.Nodes[i].Pods[0].Hook = rollout.HookArmed
			}
		}), `
n00 blocked (wait-hook)
n01 wait (wait-budget)
down 0 of 1, at once 1, 0s`},
		{"images that nobody pulls", cluster(2, node(0, func(n *rollout.Node) { n.ImageWait = true })), `
n00 wait (wait-image)
n01 recreate wave 1 at 0s to 7s (recreating)
down 1 of 1, at once 1, 7s`},
		{"a node that is not ready uses the budget up", cluster(2, node(0, notReady), node(0, func(n *rollout.Node) { n.Pods[0].Ready = false })), `
n00 recreate wave 1 at 0s open (recreating) the node is not ready
n01 wait (wait-budget)
down 1 of 1, at once 1, 0s`},
		{"a node that is not ready is left out", cluster(2, func(s *rollout.Snapshot) { s.Set.Unreachable.Skip = true }, node(0, notReady)), `
n00 blocked (wait-unreachable: down-before) the node is not ready
n01 recreate wave 1 at 0s to 7s (recreating)
down 1 of 1, at once 1, 7s`},
		{"a pod that may stay, but has no successor", cluster(2, node(0, func(n *rollout.Node) { n.Fit = rollout.MayStay }),
			node(1, notReady), node(1, func(n *rollout.Node) { n.Fit, n.Pods[0].Ready = rollout.MayStay, false })), `
n00 wait (wait-budget)
n01 recreate wave 1 at 0s open (recreating) the node is not ready
down 0 of 1, at once 1, 0s`},
		{"a write that was refused", cluster(1, node(0, noPod), node(0, func(n *rollout.Node) { n.Blocked = "the name is taken" })), `
n00 blocked (blocked) the name is taken
down 1 of 1, at once 0, 0s`},
		{"a pod that failed, and one too many", cluster(2, func(s *rollout.Snapshot) { s.Set.Update = 0 },
			node(0, func(n *rollout.Node) { n.Pods[0].Phase, n.Pods[0].Ready = rollout.Failed, false }),
			node(1, func(n *rollout.Node) { n.Pods = append(n.Pods, oldPod("x")) })), `
n00 recreate wave 1 at 0s to 7s (replacing-failed)
n01 remove wave 1 at 0s to 2s (removing-excess)
down 1 of 1, at once 0, 7s`},
		{"a pod in trouble", cluster(1, func(s *rollout.Snapshot) { s.Set.Update = 0 },
			node(0, func(n *rollout.Node) { n.Pods[0].Ready, n.Pods[0].Trouble = false, "ErrImagePull" })), `
n00 blocked (wait-available) ErrImagePull
down 1 of 1, at once 0, 0s`},
		{"a set whose pods another controller keeps", cluster(2, func(s *rollout.Snapshot) { s.Set.ExternalController = true }), `
n00 recreate wave 1 at 0s to 7s (recreating)
n01 recreate wave 2 at 7s to 14s (recreating)
down 1 of 1, at once 1, 14s`},
		{"a node that is gone", cluster(2, func(s *rollout.Snapshot) { s.Set.Update = 0 },
			node(0, func(n *rollout.Node) { n.Gone, n.Ready, n.Fit = true, false, rollout.MustLeave })), `
n00 leave (wait-collection)
n01 leave (up-to-date)
down 0 of 1, at once 0, 0s`},
		{"more creates than writes in a plan", cluster(3, func(s *rollout.Snapshot) { s.Set.Burst = rollout.Quantity{Value: 2} },
			node(0, noPod), node(1, noPod), node(2, noPod)), `
n00 create wave 1 at 0s to 5s (creating)
n01 create wave 1 at 0s to 5s (creating)
n02 create wave 2 at 0s to 5s (creating)
down 3 of 1, at once 0, 5s`},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.from.Copy()
			r, err := Simulate(c.from, times())
			if err != nil {
				t.Fatal(err)
			}
			if got := table(r); got != strings.TrimSpace(c.want) {
				t.Errorf("got\n%s\nwant\n%s", got, strings.TrimSpace(c.want))
			}
			if !reflect.DeepEqual(before, c.from) {
				t.Error("the snapshot was changed")
			}
		})
	}
}

// What is assumed of hooks and images moves what would wait otherwise.
func TestAssumptions(t *testing.T) {
	s := cluster(1, node(0, func(n *rollout.Node) { n.Pods[0].Hook, n.ImageWait = rollout.HookArmed, true }))
	a := times()
	a.Hook, a.Pull = 10*time.Second, 20*time.Second
	r, err := Simulate(s, a)
	if err != nil {
		t.Fatal(err)
	}
	want := "n00 recreate wave 1 at 20s to 37s (recreating)\ndown 1 of 1, at once 1, 37s"
	if got := table(r); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if r.Waves() != 1 || r.Count()[Recreate] != 1 {
		t.Errorf("%d waves, counts %v", r.Waves(), r.Count())
	}
}

// Where two pods do not fit on a node, a new one beside an old one never starts; one beside an old one that goes starts once that is gone.
func TestPodsThatDoNotFitNextToEachOther(t *testing.T) {
	a := times()
	a.Apart = true
	s := cluster(3, func(s *rollout.Snapshot) { s.Set.MaxSurge = rollout.Quantity{Value: 1} })
	if r, err := Simulate(s, a); err != nil || r.Count()[Surge] != 1 || r.Count()[Wait] != 2 || r.Nodes[0].Ended {
		t.Errorf("error %v, and this plan:\n%s", err, table(r))
	}
	fresh := oldPod("fresh")
	fresh.Revision, fresh.Ready, fresh.Scheduled, fresh.Phase = s.Set.Update, false, false, rollout.Pending
	s.Nodes[0].Pods[0].Deleting, s.Nodes[0].Pods[0].DeletedAt = true, begin
	s.Nodes[0].Pods = append(s.Nodes[0].Pods, fresh)
	if r, err := Simulate(s, a); err != nil || r.Nodes[0].Verdict != Leave || r.Nodes[1].Verdict != Surge || r.Nodes[1].Ended {
		t.Errorf("an old pod that goes: error %v, and this plan:\n%s", err, table(r))
	}
	s = cluster(3)
	one, err := Simulate(s, a)
	two, again := Simulate(s, times())
	if err != nil || again != nil || !reflect.DeepEqual(one, two) {
		t.Errorf("without surge there is a difference: %v %v\n%s\n%s", err, again, table(one), table(two))
	}
}

// A node that is not ready is said to take a slot where the decision charges it, now or once something was begun there, and nowhere else.
func TestNodesThatAreAwayAndTakeASlot(t *testing.T) {
	down := func(n *rollout.Node) { notReady(n); n.Pods[0].Ready = false }
	for name, c := range map[string]struct {
		from rollout.Snapshot
		away string
	}{
		"ready":                         {cluster(2), ""},
		"its pod is not available":      {cluster(2, node(1, down)), "n01"},
		"its pod is, until it is begun": {cluster(2, node(1, notReady)), "n01"},
		"its pod is, and up to date":    {cluster(2, node(1, func(n *rollout.Node) { notReady(n); n.Pods[0].Revision = 1 })), ""},
		"left out":                      {cluster(2, func(s *rollout.Snapshot) { s.Set.Unreachable.Skip = true }, node(1, down)), ""},
		"left out, but for what went on": {cluster(2, func(s *rollout.Snapshot) {
			s.Set.Unreachable = rollout.Unreachable{Skip: true, AttributionWindow: time.Minute}
		}, node(1, down), node(1, noPod)), "n01"},
		"nothing is to run there": {cluster(2, node(1, down), node(1, func(n *rollout.Node) { n.Fit = rollout.MustLeave })), ""},
	} {
		r, err := Simulate(c.from, times())
		if err != nil {
			t.Fatal(err)
		}
		var away []string
		for _, n := range r.Nodes {
			if n.Away {
				away = append(away, n.Name)
			}
		}
		if got := strings.Join(away, " "); got != c.away {
			t.Errorf("%s: %q take a slot, want %q:\n%s", name, got, c.away, table(r))
		}
	}
}

// Where no pod becomes ready, the update stops as soon as its budget is used up.
func TestPodsThatNeverStart(t *testing.T) {
	a := times()
	a.Start = -1
	r, err := Simulate(cluster(3), a)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Count(); got[Recreate] != r.Limit || got[Wait] != 3-r.Limit || r.Limit != 1 || r.Nodes[0].Ended {
		t.Errorf("counts %v with a budget of %d:\n%s", got, r.Limit, table(r))
	}
}

// A decision that makes no sense in the world is told, and one that never ends does not run for ever.
func TestDefectsOfDecisionsAreReported(t *testing.T) {
	p := newSimulator(cluster(1), times())
	p.decide = func(s rollout.Snapshot) rollout.Plan {
		plan := rollout.Decide(s)
		plan.Actions = []rollout.Action{{Kind: rollout.Delete, Pod: "another"}}
		return plan
	}
	if _, err := p.run(); err == nil || !strings.Contains(err.Error(), "no such pod") {
		t.Errorf("got %v, want that there is no such pod", err)
	}
	p = newSimulator(cluster(1), times())
	p.decide = func(s rollout.Snapshot) rollout.Plan {
		plan := rollout.Decide(s)
		plan.Actions, plan.Wake = nil, s.Now.Add(1)
		return plan
	}
	if _, err := p.run(); err == nil || !strings.Contains(err.Error(), "does not end") {
		t.Errorf("got %v, want that it does not come to rest", err)
	}
}

func TestSentences(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range Verdicts() {
		if v.Sentence() == "" || seen[v.Sentence()] {
			t.Errorf("%s has no sentence of its own", v)
		}
		seen[v.Sentence()] = true
	}
	for _, k := range rollout.VerdictKinds() {
		if got := finalVerdict(k); k.Waits() == (got == Leave) && k != rollout.WaitCollection && k != rollout.NotEvaluated {
			t.Errorf("a node left with %s is %s", k, got)
		}
	}
}

// TestPodsThatFailAndAreChangedBack: a pod that crashes after a change in place works again when it is changed back, as by a policy.
func TestPodsThatFailAndAreChangedBack(t *testing.T) {
	s := cluster(2, func(s *rollout.Snapshot) {
		s.Set.InPlace = true
		for i := range s.Revisions {
			s.Revisions[i].Change = rollout.Change{InPlace: true}
		}
	})
	a := times()
	a.Fails = map[string]bool{"n00": true}
	p := newSimulator(s, a)
	failed := false
	p.decide = func(s rollout.Snapshot) rollout.Plan {
		if failed = failed || s.Nodes[0].Pods[0].Waiting != rollout.WaitingNone; failed {
			s.Set.Update = 0
		}
		return rollout.Decide(s)
	}
	if _, err := p.run(); err != nil {
		t.Fatal(err)
	}
	pod := &p.world.State.Nodes[0].Pods[0]
	if !failed || pod.UID != "u-n00" || pod.Revision != 0 || !pod.Ready || pod.Waiting != rollout.WaitingNone {
		t.Errorf("failed %t, the pod is %+v", failed, pod)
	}
}
